//! The tick rate that follows what ticks take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_rt::rate::{RUNGS_MAX, RateChange, RateError, RatePhase, RateReason, RateSettings, TickRate, TimeSlices};

use crate::clock::{EvenkeelClock, Ticking};
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

/// What the rate told of its changes.
#[derive(Default)]
struct Changes {
    count: u64,
    last: Option<RateChange>,
}

impl Choosing {
    fn start(settings: RateSettings) -> Result<Choosing, RateError> {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let told = Arc::clone(&changes);
        let rate = TickRate::start(settings)?.on_change(move |change| {
            let mut changes = told.lock().unwrap_or_else(PoisonError::into_inner);
            changes.count = changes.count.saturating_add(1);
            changes.last = Some(change);
        });
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
    /// Ticks need more of their share of the period than can go on.
    Work = 0,
    /// Ticks were missed.
    Missed = 1,
    /// The tick's thread waited for a CPU too long.
    Waited = 2,
    /// A limit on CPU time held the server up.
    Throttled = 3,
    /// Other threads of the server's control group waited for a CPU, and the ticks are a good part of why.
    Pressure = 4,
    /// The rest of the system waited for a CPU, and the ticks are a good part of why.
    Starved = 5,
    /// For long enough there was room for more.
    Calm = 6,
    /// Another phase of the game.
    Phase = 7,
    /// The CPU's turns were found, moved or gone.
    TimeSlices = 8,
}

/// The last change of the period.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelRateChange {
    /// Of this struct, in bytes; after a call, as many as were filled.
    pub size: u32,
    /// Of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// How many changes there were since the start, this one included.
    pub changes: u64,
    /// The period before, in nanoseconds.
    pub from_ns: u64,
    /// The period after, in nanoseconds.
    pub to_ns: u64,
    /// One of EvenkeelRateReason.
    pub why: u32,
    /// 0.
    pub reserved: u32,
}

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
    EvenkeelRateChange { changes: u64, from_ns: u64, to_ns: u64, why: u32, reserved: u32 }
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
        unsafe { handle::give(rate, || Ok(Choosing::start(settings)?)) }
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
        let period = handle::alone(rate, |rate| Ok(rate.rate().period()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(period_ns, nanoseconds(period)) }
    })
}

fn nanoseconds(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

/// Where the rate changes, the clock changes with it.
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

/// After the clock's last tick is done: where that calls for another period, the clock has it from the next tick on. The clock's period
/// now, in nanoseconds, into `period_ns`. EVENKEEL_STATUS_NO_DATA where no tick was done.
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
            let done = clock.last.ok_or(EvenkeelStatus::NoData)?;
            follow(rate, clock, |rate| rate.after(&done))?;
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
        handle::alone(clock, |clock| follow(rate, clock, |rate| rate.enter(phase)))
    })
}

/// Tells the rate how the clock's CPU is given in turns, as far as the clock knows by now: the ladder's rungs become multiples of the turns'
/// period, and the clock's period follows. Best after each evenkeel_rate_after.
///
/// Threads: the one that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_take_slices(rate: *mut EvenkeelRate, clock: *mut EvenkeelClock) -> EvenkeelStatus {
    caught(|| {
        handle::alone(clock, |clock| {
            let turns = TimeSlices::of(&clock.clock.quantum());
            follow(rate, clock, |rate| rate.set_slices(turns))
        })
    })
}

/// Work over the tick's share of the period in the last second or so, such as 0.6. EVENKEEL_STATUS_NO_DATA before the first is over.
///
/// Threads: one at a time.
///
/// # Safety
/// `load` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_load(rate: *mut EvenkeelRate, load: *mut f64) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(load)?;
        let found = handle::alone(rate, |rate| Ok(rate.rate().load()))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(load, found) }
    })
}

/// The last change of the period, and why. EVENKEEL_STATUS_NO_DATA where it never changed.
///
/// Threads: any; EVENKEEL_STATUS_BUSY while another is in it.
///
/// # Safety
/// `change` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rate_last_change(
    rate: *const EvenkeelRate,
    change: *mut EvenkeelRateChange,
) -> EvenkeelStatus {
    caught(|| {
        let (changes, last) = handle::shared(rate, |rate| {
            let changes = rate.changes.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((changes.count, changes.last.ok_or(EvenkeelStatus::NoData)?))
        })?;
        let told = EvenkeelRateChange {
            size: 0,
            version: 0,
            changes,
            from_ns: nanoseconds(last.from),
            to_ns: nanoseconds(last.to),
            why: why(last.why) as u32,
            reserved: 0,
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(change, told) }
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

/// Frees it; the clock keeps its period.
///
/// Threads: any; EVENKEEL_STATUS_BUSY while another is in it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rate_free(rate: *mut EvenkeelRate) -> EvenkeelStatus {
    caught(|| handle::take(rate).map(drop))
}
