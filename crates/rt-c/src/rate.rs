//! The tick rate that follows what ticks take.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_rt::rate::{RUNGS_MAX, RateError, RatePhase, RateSettings, TickRate};

use crate::clock::EvenkeelClock;
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};

/// Chooses the period of a clock.
#[derive(Debug)]
pub struct EvenkeelRate(());

handles! { 11: EvenkeelRate, 256 of Mutex<TickRate>; }

/// How a tick rate is chosen. All zero (EVENKEEL_INIT): 10, 20, 30 and 50 ms, of which 10 are only for a phase that asks for them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelRateSettings {
    /// Of this struct, in bytes.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The periods to choose from, in nanoseconds, 1 ms to 10 s each, in any order; ends at the first 0.
    pub ladder_ns: [u64; 16],
    /// The one to start with, in nanoseconds. 0: 20,000,000.
    pub start_ns: u64,
    /// The shortest period of the phase to start in, in nanoseconds. 0: 20,000,000.
    pub fastest_ns: u64,
    /// The longest period of the phase to start in, in nanoseconds. 0: 50,000,000.
    pub slowest_ns: u64,
    /// Work over the tick's share of the period that can go on for ever, 0.05 to 1. 0: 0.75.
    pub sustainable: f64,
    /// With one CPU, the share of it that the system keeps, up to 0.95. 0: 0.5; below 0: none.
    pub system_share: f64,
}

structs! {
    EvenkeelRateSettings {
        ladder_ns: [u64; 16], start_ns: u64, fastest_ns: u64, slowest_ns: u64, sustainable: f64, system_share: f64,
    }
}

const _: () = assert!(RUNGS_MAX == 16, "the ladder in EvenkeelRateSettings has as many places");

impl From<RateError> for Failure {
    fn from(error: RateError) -> Failure {
        Failure::new(EvenkeelStatus::OutOfRange, error)
    }
}

fn settings(asked: EvenkeelRateSettings) -> RateSettings {
    let or = |ns: u64, default: Duration| if ns == 0 { default } else { Duration::from_nanos(ns) };
    let defaults = RateSettings::default();
    let ladder: Vec<Duration> =
        asked.ladder_ns.iter().take_while(|ns| **ns != 0).map(|ns| Duration::from_nanos(*ns)).collect();
    let fastest = or(asked.fastest_ns, defaults.phase.fastest);
    let slowest = or(asked.slowest_ns, defaults.phase.slowest);
    RateSettings {
        ladder: if ladder.is_empty() { defaults.ladder } else { ladder },
        start: or(asked.start_ns, defaults.start),
        phase: RatePhase::between(fastest, slowest),
        sustainable: if asked.sustainable == 0.0 { defaults.sustainable } else { asked.sustainable },
        system_share: match asked.system_share {
            0.0 => defaults.system_share,
            none if none < 0.0 => 0.0,
            share => share,
        },
    }
}

/// Opens what it reads of the machine, and takes all memory that it needs. EVENKEEL_STATUS_OUT_OF_RANGE for a ladder or share that is none.
///
/// Threads: the one that ticks, whose counts it reads. Free it with evenkeel_rate_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init; `rate` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_new(
    asked: *const EvenkeelRateSettings,
    rate: *mut *mut EvenkeelRate,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = settings(unsafe { structs::get(asked) }?);
        // SAFETY: the same.
        unsafe { handle::give(rate, || Ok(Mutex::new(TickRate::start(settings)?))) }
    })
}

/// The period that is chosen now, in nanoseconds: to start a clock with.
///
/// Threads: one at a time.
///
/// # Safety
/// `period_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_period(rate: *mut EvenkeelRate, period_ns: *mut u64) -> EvenkeelStatus {
    caught(|| {
        let period = handle::alone(rate, |rate| Ok(rate.get_mut().unwrap_or_else(PoisonError::into_inner).period()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(period_ns, nanoseconds(period)) }
    })
}

fn nanoseconds(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

/// After the clock's last tick is done: where that calls for another period, the clock has it from the next tick on. The clock's period
/// now, in nanoseconds, into `period_ns`. EVENKEEL_STATUS_NOT_YET where no tick was done.
///
/// Threads: the one that ticks. Looks at the system about once a second, for some microseconds, in a tick that leaves time for that.
///
/// # Safety
/// `period_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_after(
    rate: *mut EvenkeelRate,
    clock: *mut EvenkeelClock,
    period_ns: *mut u64,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(period_ns)?;
        let period = handle::alone(clock, |clock| {
            let done = clock.last.ok_or(EvenkeelStatus::NotYet)?;
            let change =
                handle::alone(rate, |rate| Ok(rate.get_mut().unwrap_or_else(PoisonError::into_inner).after(&done)))?;
            if let Some(period) = change {
                clock.clock.set_period(period);
            }
            Ok(clock.clock.period())
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(period_ns, nanoseconds(period)) }
    })
}

/// Another phase of the game begins, which may tick from `fastest_ns` to `slowest_ns`: the clock's period moves into its range at once.
///
/// Threads: the one that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_enter(
    rate: *mut EvenkeelRate,
    clock: *mut EvenkeelClock,
    fastest_ns: u64,
    slowest_ns: u64,
) -> EvenkeelStatus {
    caught(|| {
        if fastest_ns == 0 || slowest_ns < fastest_ns {
            let what = format_args!("a phase from {fastest_ns} to {slowest_ns} ns");
            return Err(Failure::new(EvenkeelStatus::OutOfRange, what));
        }
        let phase = RatePhase::between(Duration::from_nanos(fastest_ns), Duration::from_nanos(slowest_ns));
        handle::alone(clock, |clock| {
            let change =
                handle::alone(rate, |rate| Ok(rate.get_mut().unwrap_or_else(PoisonError::into_inner).enter(phase)))?;
            if let Some(period) = change {
                clock.clock.set_period(period);
            }
            Ok(())
        })
    })
}

/// Frees it; the clock keeps its period.
///
/// Threads: any; EVENKEEL_STATUS_BUSY while another is in it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_free(rate: *mut EvenkeelRate) -> EvenkeelStatus {
    caught(|| handle::take(rate).map(drop))
}
