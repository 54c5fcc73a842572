//! What a clock knows of how the CPU is taken away.

use evenkeel_rt::{Alignment, Quantum};

use crate::clock::EvenkeelClock;
use crate::failure::{EvenkeelStatus, caught};
use crate::handle;
use crate::structs::{self, structs};

/// How the CPU is taken away from the thread that ticks: EvenkeelQuantum.model.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelQuantumModel {
    /// Not known: it was not looked for, or not for long enough yet.
    Unknown = 0,
    /// It is ours.
    None = 1,
    /// At set times, as a hypervisor does that gives each virtual CPU a slot.
    FixedSlot = 2,
    /// When a budget has run out, until it is filled again.
    TokenBucket = 3,
    /// At no times that could be told.
    Irregular = 4,
}

/// What the clock does about it: EvenkeelQuantum.alignment.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelAlignment {
    /// Nothing.
    Free = 0,
    /// It wakes in idle time to see what is late.
    Looking = 1,
    /// It has ticks at several places, to see where they are done soonest.
    Trying = 2,
    /// Ticks are held where they were done soonest.
    Held = 3,
    /// There are slots, and no place among them: the period of the ticks does not fit theirs.
    NoMultiple = 4,
}

/// How the CPU is taken away, and what is done about it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelQuantum {
    /// Of this struct, in bytes; after a call, as many as were filled.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// One of EvenkeelQuantumModel.
    pub model: u32,
    /// One of EvenkeelAlignment.
    pub alignment: u32,
    /// At which period the CPU comes and goes, in nanoseconds; 0 where there is none.
    pub period_ns: u64,
    /// How much of the CPU is ours, up to 1; below 0 where that is not known.
    pub share: f64,
    /// How often ticks were put elsewhere.
    pub moves: u64,
    /// Gaps that nobody inside the machine made: a hypervisor, or an interrupt.
    pub gaps_foreign: u64,
    /// Gaps in which another thread had the CPU.
    pub gaps_preempted: u64,
    /// Gaps of which nobody can say.
    pub gaps_unknown: u64,
    /// How often the clock woke in idle time to look; a wake costs some 5 us of CPU time.
    pub probes: u64,
    /// With slots, a moment at which ours began, in nanoseconds of evenkeel_now_ns's clock: a late one of those that were seen. 0 where there
    /// are none.
    pub phase_ns: u64,
    /// With slots, how sure that is, from 0 to 1; below 0 where there are none.
    pub confidence: f64,
}

structs! {
    EvenkeelQuantum {
        model: u32, alignment: u32, period_ns: u64, share: f64, moves: u64, gaps_foreign: u64, gaps_preempted: u64,
        gaps_unknown: u64, probes: u64, phase_ns: u64, confidence: f64,
    }
}

/// Says that the tick's work has come so far, for some 50 ns: with calls at every step of the work, gaps within it are seen too.
///
/// Threads: one at a time; the one that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_checkpoint(clock: *mut EvenkeelClock) -> EvenkeelStatus {
    caught(|| {
        handle::alone(clock, |clock| {
            clock.clock.checkpoint();
            Ok(())
        })
    })
}

/// How the CPU is taken away from the thread that ticks, as far as is known by now, and what is done about it.
///
/// Threads: one at a time.
///
/// # Safety
/// `quantum` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_quantum(
    clock: *const EvenkeelClock,
    quantum: *mut EvenkeelQuantum,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(clock, |clock| Ok(clock.clock.aligned()))?;
        let model = match found.quantum {
            Quantum::Unknown => EvenkeelQuantumModel::Unknown,
            Quantum::None => EvenkeelQuantumModel::None,
            Quantum::FixedSlot(_) => EvenkeelQuantumModel::FixedSlot,
            Quantum::TokenBucket { .. } => EvenkeelQuantumModel::TokenBucket,
            Quantum::Irregular => EvenkeelQuantumModel::Irregular,
        };
        let alignment = match found.alignment {
            Alignment::Free => EvenkeelAlignment::Free,
            Alignment::Looking => EvenkeelAlignment::Looking,
            Alignment::Trying => EvenkeelAlignment::Trying,
            Alignment::Held => EvenkeelAlignment::Held,
            Alignment::NoMultiple => EvenkeelAlignment::NoMultiple,
        };
        let slot = match found.quantum {
            Quantum::FixedSlot(slot) => Some(slot),
            _ => None,
        };
        let told = EvenkeelQuantum {
            size: 0,
            version: 0,
            model: model as u32,
            alignment: alignment as u32,
            period_ns: found.quantum.period_ns().unwrap_or(0),
            share: found.quantum.share().unwrap_or(-1.0),
            moves: found.moves,
            gaps_foreign: found.gaps.foreign,
            gaps_preempted: found.gaps.preempted,
            gaps_unknown: found.gaps.unknown,
            probes: found.probes,
            phase_ns: slot.map_or(0, |slot| slot.phase_ns),
            confidence: slot.map_or(-1.0, |slot| slot.confidence),
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(quantum, told) }
    })
}
