//! What a clock knows about the time slices of its CPU.

use evenkeel_rt::{Aligned, Alignment, Quantum};

use crate::clock::EvenkeelClock;
use crate::failure::{EvenkeelStatus, caught};
use crate::handle;
use crate::structs::{self, structs};

/// How the CPU is taken away from the thread that ticks: EvenkeelQuantum.model.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelQuantumModel {
    /// Not known: the clock has not searched for long enough.
    Unknown = 0,
    /// The CPU is not taken away.
    None = 1,
    /// The CPU is taken away at fixed times, by a hypervisor that runs each virtual CPU in slices.
    FixedSlot = 2,
    /// The CPU is taken away when the quota of a CPU limit is used up, until the limit's next period.
    TokenBucket = 3,
    /// The CPU is taken away at irregular times.
    Irregular = 4,
}

/// How the clock reacts if the CPU is taken away: EvenkeelQuantum.alignment.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelAlignment {
    /// The clock does not move ticks: alignment is off, there are no slices, or no phase was better.
    Free = 0,
    /// The clock searches for gaps in idle time.
    Looking = 1,
    /// The clock runs ticks at several phases, to find where they finish soonest.
    Trying = 2,
    /// The clock keeps ticks at the best phase.
    Held = 3,
    /// There are slices, but the tick period does not fit the period of the slices.
    NoMultiple = 4,
}

/// How the CPU is taken away, and how the clock reacts to the gaps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelQuantum {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// One of EvenkeelQuantumModel.
    pub model: u32,
    /// One of EvenkeelAlignment.
    pub alignment: u32,
    /// The period of the slices or of the limit, in nanoseconds. 0 if there are no slices and no limit.
    pub period_ns: u64,
    /// The share of the CPU that this machine or server gets, up to 1. Below 0 if it is not known.
    pub share: f64,
    /// How often the clock shifted ticks.
    pub moves: u64,
    /// Gaps from outside this machine's threads: a hypervisor, or an interrupt.
    pub gaps_foreign: u64,
    /// Gaps in which another thread had the CPU.
    pub gaps_preempted: u64,
    /// Gaps with an unknown cause.
    pub gaps_unknown: u64,
    /// How often the clock woke in idle time to search. Each wake-up costs some 5 us of CPU time.
    pub probes: u64,
    /// When a recent slice began, in nanoseconds of evenkeel_now_ns's clock. 0 if there are no slices.
    pub phase_ns: u64,
    /// The confidence that there are slices, from 0 to 1. Below 0 if there are no slices.
    pub confidence: f64,
}

structs! {
    EvenkeelQuantum {
        model: u32, alignment: u32, period_ns: u64, share: f64, moves: u64, gaps_foreign: u64, gaps_preempted: u64,
        gaps_unknown: u64, probes: u64, phase_ns: u64, confidence: f64,
    }
}

/// Call this function between the steps of a tick's work, so that the clock also finds gaps inside ticks. A call costs some 50 ns.
///
/// Threads: only the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_checkpoint(clock: *mut EvenkeelClock) -> EvenkeelStatus {
    caught(|| {
        handle::alone(clock, |clock| {
            clock.clock.checkpoint();
            Ok(())
        })
    })
}

/// Writes to `quantum` how the CPU is taken away from the tick's thread, as far as the clock knows, and how the clock reacts.
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
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(quantum, filled(found)) }
    })
}

pub(crate) fn filled(found: Aligned) -> EvenkeelQuantum {
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
    EvenkeelQuantum {
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
    }
}
