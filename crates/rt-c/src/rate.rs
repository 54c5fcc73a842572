//! A tick rate that follows the load.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_rt::rate::{RUNGS_MAX, RateChange, RateError, RatePhase, RateReason, RateSettings, TickRate, TimeSlices};

use crate::clock::{EvenkeelClock, Ticking, nanoseconds};
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};

/// Chooses the period of a clock.
#[derive(Debug)]
pub struct EvenkeelRate(());

/// The value behind an [`EvenkeelRate`].
pub(crate) struct Choosing {
    rate: Mutex<TickRate>,
    changes: Arc<Mutex<Changes>>,
}

/// The changes of a period so far.
#[derive(Default)]
pub(crate) struct Changes {
    count: u64,
    last: Option<RateChange>,
}

impl Changes {
    /// Returns the function to call at each change, and the list that the function writes to.
    pub(crate) fn recorder() -> (impl FnMut(RateChange) + Send + 'static, Arc<Mutex<Changes>>) {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let recorded = Arc::clone(&changes);
        let record = move |change| {
            let mut changes = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            changes.count = changes.count.saturating_add(1);
            changes.last = Some(change);
        };
        (record, changes)
    }

    /// The last change, in the struct of the C ABI.
    pub(crate) fn last(changes: &Mutex<Changes>) -> Result<EvenkeelRateChange, Failure> {
        let changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
        let last = changes.last.ok_or(EvenkeelStatus::NoData)?;
        Ok(EvenkeelRateChange {
            size: 0,
            version: 0,
            changes: changes.count,
            from_ns: nanoseconds(last.from),
            to_ns: nanoseconds(last.to),
            why: why(last.why) as u32,
            reserved: 0,
        })
    }
}

impl Choosing {
    fn start(settings: RateSettings) -> Result<Choosing, RateError> {
        let (record, changes) = Changes::recorder();
        let rate = TickRate::start(settings)?.on_change(record);
        Ok(Choosing { rate: Mutex::new(rate), changes })
    }

    fn rate(&mut self) -> &mut TickRate {
        self.rate.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

handles! { EvenkeelRate, 256 of Choosing; }

/// Why a period changed, in EvenkeelRateChange.why.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelRateReason {
    /// Ticks need too much of their share of the period.
    Work = 0,
    /// Ticks were missed.
    Missed = 1,
    /// The tick's thread waited for a CPU too long.
    Waited = 2,
    /// A CPU limit stopped the server.
    Throttled = 3,
    /// Other threads of the server's control group waited for a CPU, and the ticks are part of the cause.
    Pressure = 4,
    /// The rest of the system waited for a CPU, and the ticks are part of the cause.
    Starved = 5,
    /// There was room for a shorter period for long enough.
    Calm = 6,
    /// Another phase of the game began.
    Phase = 7,
    /// The time slices of the CPU changed.
    TimeSlices = 8,
}

/// The last change of the period.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelRateChange {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The number of changes since the start, including this one.
    pub changes: u64,
    /// The period before the change, in nanoseconds.
    pub from_ns: u64,
    /// The period after the change, in nanoseconds.
    pub to_ns: u64,
    /// One of EvenkeelRateReason.
    pub why: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Settings of a rate. All zero (EVENKEEL_INIT) means periods of 10, 20, 30 and 50 ms. The period is 10 ms only in a phase that requests it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelRateSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The periods to choose from, in nanoseconds, 1 ms to 10 s each, in any order. The list ends at the first 0.
    pub ladder_ns: [u64; 16],
    /// The period to start with, in nanoseconds. 0 means 20,000,000.
    pub start_ns: u64,
    /// The shortest period of the phase to start in, in nanoseconds. 0 means 20,000,000.
    pub fastest_ns: u64,
    /// The longest period of the phase to start in, in nanoseconds. 0 means 50,000,000.
    pub slowest_ns: u64,
    /// The highest sustainable load, 0.05 to 1. The load is how long a tick works, divided by the part of the period in which it may run. 0 means 0.75.
    pub sustainable: f64,
    /// With one CPU, the share of the CPU for the rest of the system, up to 0.95. 0 means 0.5, and a value below 0 means none.
    pub system_share: f64,
}

structs! {
    EvenkeelRateSettings {
        ladder_ns: [u64; 16], start_ns: u64, fastest_ns: u64, slowest_ns: u64, sustainable: f64, system_share: f64,
    }
    EvenkeelRateChange { changes: u64, from_ns: u64, to_ns: u64, why: u32, reserved: u32 }
}

const _: () = assert!(RUNGS_MAX == 16, "the ladder in EvenkeelRateSettings has as many places");

impl From<RateError> for Failure {
    fn from(error: RateError) -> Failure {
        Failure::new(EvenkeelStatus::OutOfRange, error)
    }
}

pub(crate) fn settings(asked: EvenkeelRateSettings) -> RateSettings {
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

/// Creates a rate: opens the files with the kernel's counters, and allocates all memory of the rate.
/// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the ladder or a share is invalid.
///
/// Threads: only the thread that ticks, because the rate reads that thread's counters. Free the handle with evenkeel_rate_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init; `rate` may be written. A null `rate` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_new(
    asked: *const EvenkeelRateSettings,
    rate: *mut *mut EvenkeelRate,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = settings(unsafe { structs::get(asked) }?);
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(rate, || Ok(Choosing::start(settings)?)) }
    })
}

/// Writes the current period to `period_ns`, in nanoseconds, to start a clock with.
///
/// Threads: one at a time.
///
/// # Safety
/// `period_ns` may be written. A null `period_ns` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_period(rate: *mut EvenkeelRate, period_ns: *mut u64) -> EvenkeelStatus {
    caught(|| {
        let period = handle::alone(rate, |rate| Ok(rate.rate().period()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(period_ns, nanoseconds(period)) }
    })
}

/// Sets the clock's period if the rate chose another period.
fn follow(
    rate: *const EvenkeelRate,
    clock: &mut Ticking,
    change: impl FnOnce(&mut TickRate) -> Option<Duration>,
) -> Result<(), Failure> {
    if let Some(period) = handle::alone(rate, |rate| Ok(change(rate.rate())))? {
        clock.clock.set_period(period)?;
    }
    Ok(())
}

/// Call this function after each evenkeel_clock_done. If the load requires another period, the clock has it from the next tick on.
/// Writes the clock's period to `period_ns`, in nanoseconds. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: only the thread that ticks.
/// About once a second this function reads the system's counters for some microseconds, after a tick that leaves time.
///
/// # Safety
/// `period_ns` may be written. A null `period_ns` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_after(
    rate: *mut EvenkeelRate,
    clock: *mut EvenkeelClock,
    period_ns: *mut u64,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(period_ns)?;
        let period = handle::alone(clock, |clock| {
            let done = clock.last.ok_or(EvenkeelStatus::NoData)?;
            follow(rate, clock, |rate| rate.after(&done))?;
            Ok(clock.clock.period())
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(period_ns, nanoseconds(period)) }
    })
}

pub(crate) fn phase(fastest_ns: u64, slowest_ns: u64) -> Result<RatePhase, Failure> {
    if fastest_ns == 0 || slowest_ns < fastest_ns {
        let what = format_args!("a phase from {fastest_ns} to {slowest_ns} ns");
        return Err(Failure::new(EvenkeelStatus::OutOfRange, what));
    }
    Ok(RatePhase::between(Duration::from_nanos(fastest_ns), Duration::from_nanos(slowest_ns)))
}

/// Enters another phase of the game, with periods from `fastest_ns` to `slowest_ns`. The clock's period moves into that range at once.
///
/// Threads: only the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_enter(
    rate: *mut EvenkeelRate,
    clock: *mut EvenkeelClock,
    fastest_ns: u64,
    slowest_ns: u64,
) -> EvenkeelStatus {
    caught(|| {
        let phase = phase(fastest_ns, slowest_ns)?;
        handle::alone(clock, |clock| follow(rate, clock, |rate| rate.enter(phase)))
    })
}

/// Passes the clock's detected time slices to the rate. The ladder's rungs become multiples of the slices' period.
/// The clock's period follows. Call this function after each evenkeel_rate_after.
///
/// Threads: only the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_take_slices(rate: *mut EvenkeelRate, clock: *mut EvenkeelClock) -> EvenkeelStatus {
    caught(|| {
        handle::alone(clock, |clock| {
            let turns = TimeSlices::from_quantum(&clock.clock.quantum());
            follow(rate, clock, |rate| rate.set_slices(turns))
        })
    })
}

/// Writes to `load` the load in the last second or so, such as 0.6. Returns EVENKEEL_STATUS_NO_DATA in the first second.
/// The load is how long a tick works, divided by the part of the period in which it may run.
///
/// Threads: one at a time.
///
/// # Safety
/// `load` may be written. A null `load` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_load(rate: *mut EvenkeelRate, load: *mut f64) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(load)?;
        let found = handle::alone(rate, |rate| Ok(rate.rate().load()))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(load, found) }
    })
}

/// Writes the last change of the period, and its reason, to `change`. Returns EVENKEEL_STATUS_NO_DATA if the period never changed.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
///
/// # Safety
/// `change` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_last_change(
    rate: *const EvenkeelRate,
    change: *mut EvenkeelRateChange,
) -> EvenkeelStatus {
    caught(|| {
        let filled = handle::shared(rate, |rate| Changes::last(&rate.changes))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(change, filled) }
    })
}

fn why(why: RateReason) -> EvenkeelRateReason {
    match why {
        RateReason::Work => EvenkeelRateReason::Work,
        RateReason::Missed => EvenkeelRateReason::Missed,
        RateReason::Waited => EvenkeelRateReason::Waited,
        RateReason::Throttled => EvenkeelRateReason::Throttled,
        RateReason::Pressure => EvenkeelRateReason::Pressure,
        RateReason::Starved => EvenkeelRateReason::Starved,
        RateReason::Calm => EvenkeelRateReason::Calm,
        RateReason::Phase => EvenkeelRateReason::Phase,
        RateReason::TimeSlices => EvenkeelRateReason::TimeSlices,
    }
}

/// Frees the handle. The clock keeps its period.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_free(rate: *mut EvenkeelRate) -> EvenkeelStatus {
    caught(|| handle::take(rate).map(drop))
}
