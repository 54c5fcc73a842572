//! The clock of a server loop.

use std::time::Duration;

use evenkeel_rt::{
    Align, Done, Overrun, Report, Spinning, Summary, Tick, TickClock, TickError, TickSettings, monotonic_ns,
};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};
use crate::thread::{EvenkeelThread, EvenkeelThreadReport, filled};

/// Ticks at absolute times.
#[derive(Debug)]
pub struct EvenkeelClock(());

/// The value behind an [`EvenkeelClock`].
pub(crate) struct Ticking {
    pub(crate) clock: TickClock,
    /// The last tick that ended, for the calls that use it afterwards.
    pub(crate) last: Option<Done>,
}

handles! { EvenkeelClock, 256 of Ticking; }

/// Periods from a microsecond to an hour. A period outside this range is a mistake of the caller.
const PERIOD_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;

/// What happens to deadlines that pass while a tick is late: EvenkeelClockSettings.overrun.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelOverrun {
    /// Deadlines that pass are missed. The next tick is at the next deadline, and EvenkeelTick.missed counts them.
    Skip = 0,
    /// Up to EvenkeelClockSettings.catch_up_at_most late ticks run right after one another.
    CatchUp = 1,
    /// Time stretches: the next tick is one period after the late tick began.
    SlowDown = 2,
}

/// Whether the clock spins for the last microseconds before a tick, at most 100: EvenkeelClockSettings.spinning.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelSpinning {
    /// The clock spins if the process has more than one CPU. Under a CPU limit it spins less.
    WhereThereIsRoom = 0,
    /// The clock never spins.
    Never = 1,
    /// The clock always spins. Use this for a CPU that is reserved for the server.
    Always = 2,
}

/// Whether the clock may shift ticks to where they finish soonest: EvenkeelClockSettings.align.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelAlign {
    /// The clock shifts ticks if measurements show that ticks finish sooner at another phase.
    Measured = 0,
    /// The clock never shifts ticks: they keep their phase.
    Never = 1,
}

/// Settings of a clock. All zero (EVENKEEL_INIT): 50 ticks a second, and missed ticks are skipped.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelClockSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The period of ticks, in nanoseconds: 1,000 to 3,600,000,000,000. 0 means 20,000,000.
    pub period_ns: u64,
    /// One of EvenkeelOverrun.
    pub overrun: u32,
    /// The maximum number of late ticks in a row if `overrun` is CatchUp. Otherwise 0.
    pub catch_up_at_most: u32,
    /// One of EvenkeelSpinning.
    pub spinning: u32,
    /// One of EvenkeelAlign.
    pub align: u32,
}

/// A tick that has begun. All times are times of evenkeel_now_ns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelTick {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// How many ticks came before this one, including missed ticks.
    pub number: u64,
    /// When the tick was due, in nanoseconds.
    pub due_ns: u64,
    /// When the tick began, in nanoseconds.
    pub began_ns: u64,
    /// How many ticks were missed right before this one.
    pub missed: u64,
    /// The time to move the world by, in nanoseconds: one period for this tick, and one for each missed tick before it.
    pub elapsed_ns: u64,
}

/// A tick that has ended. All times are times of evenkeel_now_ns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelDone {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The tick's number.
    pub number: u64,
    /// When the tick's work ended, in nanoseconds.
    pub done_ns: u64,
    /// The time from due to begun, in nanoseconds.
    pub lateness_ns: u64,
    /// The time from begun to done, in nanoseconds.
    pub work_ns: u64,
    /// The time from due to done, in nanoseconds: the latency that players notice.
    pub due_to_done_ns: u64,
}

/// How well the ticks kept time so far.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelClockReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Ticks that began.
    pub ticks: u64,
    /// Ticks that were missed.
    pub missed: u64,
    /// The current period of ticks, in nanoseconds.
    pub period_ns: u64,
    /// When the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
    pub next_due_ns: u64,
    /// How long before a tick the clock wakes and spins, in nanoseconds; 0 if it never spins.
    pub margin_ns: u64,
}

/// A distribution in nanoseconds. Quantiles are accurate to 1 %, the smallest and largest values are exact.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelSummary {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The number of values.
    pub count: u64,
    /// The smallest value.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The quantile 0.9.
    pub p90_ns: u64,
    /// The quantile 0.99.
    pub p99_ns: u64,
    /// The quantile 0.999.
    pub p999_ns: u64,
    /// The largest value.
    pub max_ns: u64,
}

structs! {
    EvenkeelClockSettings { period_ns: u64, overrun: u32, catch_up_at_most: u32, spinning: u32, align: u32 }
    EvenkeelTick { number: u64, due_ns: u64, began_ns: u64, missed: u64, elapsed_ns: u64 }
    EvenkeelDone { number: u64, done_ns: u64, lateness_ns: u64, work_ns: u64, due_to_done_ns: u64 }
    EvenkeelClockReport { ticks: u64, missed: u64, period_ns: u64, next_due_ns: u64, margin_ns: u64 }
    EvenkeelSummary { count: u64, min_ns: u64, p50_ns: u64, p90_ns: u64, p99_ns: u64, p999_ns: u64, max_ns: u64 }
}

fn period(ns: u64) -> Result<Duration, Failure> {
    if !PERIOD_NS.contains(&ns) {
        return Err(Failure::new(
            EvenkeelStatus::OutOfRange,
            format_args!("a period of {ns} ns: it must be 1 us to 1 hour"),
        ));
    }
    Ok(Duration::from_nanos(ns))
}

pub(crate) fn settings(asked: EvenkeelClockSettings) -> Result<TickSettings, Failure> {
    let unknown = |what: &str, number: u32| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} {number}"));
    let overrun = match (asked.overrun, asked.catch_up_at_most) {
        (0, 0) => Overrun::Skip,
        (1, 1..) => Overrun::CatchUp { at_most: asked.catch_up_at_most },
        (2, 0) => Overrun::SlowDown,
        (0..=2, many) => {
            return Err(unknown("catch_up_at_most must be at least 1 with CatchUp, and 0 with another overrun:", many));
        }
        (other, _) => return Err(unknown("no EvenkeelOverrun:", other)),
    };
    let spinning = match asked.spinning {
        0 => Spinning::WhereThereIsRoom,
        1 => Spinning::Never,
        2 => Spinning::Always,
        other => return Err(unknown("no EvenkeelSpinning:", other)),
    };
    let period = if asked.period_ns == 0 { TickSettings::default().period } else { period(asked.period_ns)? };
    let align = match asked.align {
        0 => Align::Measured,
        1 => Align::Never,
        other => return Err(unknown("no EvenkeelAlign:", other)),
    };
    Ok(TickSettings { period, overrun, spinning, align })
}

impl From<TickError> for Failure {
    fn from(error: TickError) -> Failure {
        Failure::new(EvenkeelStatus::OutOfRange, error)
    }
}

/// Starts a clock. The first tick is due one period later.
/// Threads: any. Free the handle with evenkeel_clock_free. Unless a function says otherwise, only one thread at a time may use a clock.
/// A second thread gets EVENKEEL_STATUS_BUSY, and nothing changes.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init; `clock` may be written. A null `clock` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_new(
    asked: *const EvenkeelClockSettings,
    clock: *mut *mut EvenkeelClock,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = settings(unsafe { structs::get(asked) }?)?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(clock, || Ok(Ticking { clock: TickClock::start(settings)?, last: None })) }
    })
}

/// Frees a clock and the thread handle that it took.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the clock. In that case the clock is not freed.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_free(clock: *mut EvenkeelClock) -> EvenkeelStatus {
    caught(|| handle::take(clock).map(drop))
}

/// Makes the clock responsible for the thread's settings.
/// While the ticks of a real-time thread take more than nine tenths of the time, the clock makes the thread an ordinary one.
/// So an administrator can still log in and stop the server. The thread's handle is no longer valid.
///
/// Threads: only the thread that evenkeel_thread_new set up, and that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_take_thread(clock: *mut EvenkeelClock, thread: *mut EvenkeelThread) -> EvenkeelStatus {
    caught(|| {
        handle::alone(clock, |clock| {
            clock.clock.take_thread(*handle::take(thread)?);
            Ok(())
        })
    })
}

/// Returns which settings of the clock's thread are active now. Returns EVENKEEL_STATUS_NO_DATA if the clock took no thread.
///
/// Threads: one at a time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_thread_report(
    clock: *const EvenkeelClock,
    report: *mut EvenkeelThreadReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(clock, |clock| Ok(clock.clock.thread()))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, filled(found)) }
    })
}

/// Sleeps until the next tick is due, and begins it. If the previous tick has not ended, this call ends it.
///
/// Threads: only the thread that ticks.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_wait(clock: *mut EvenkeelClock, tick: *mut EvenkeelTick) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises. The check comes first, because a tick that has begun cannot be undone.
        unsafe { structs::fillable(tick) }?;
        let begun = handle::alone(clock, |clock| Ok(begun(clock.clock.wait(), clock.clock.period())))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(tick, begun) }
    })
}

/// For engines that own their loop: begins the next tick if it is due, else returns EVENKEEL_STATUS_WOULD_BLOCK. Never waits.
/// evenkeel_clock_next_due returns when to call this function.
///
/// Threads: only the thread that ticks.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_poll(clock: *mut EvenkeelClock, tick: *mut EvenkeelTick) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as for evenkeel_clock_wait.
        unsafe { structs::fillable(tick) }?;
        let begun = handle::alone(clock, |clock| match clock.clock.next_due_ns() <= monotonic_ns() {
            true => Ok(begun(clock.clock.wait(), clock.clock.period())),
            false => Err(EvenkeelStatus::WouldBlock.into()),
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(tick, begun) }
    })
}

pub(crate) fn nanoseconds(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn begun(tick: Tick, period: Duration) -> EvenkeelTick {
    let Tick { number, due_ns, began_ns, missed, .. } = tick;
    let elapsed_ns = nanoseconds(period).saturating_mul(missed.saturating_add(1));
    EvenkeelTick { size: 0, version: 0, number, due_ns, began_ns, missed, elapsed_ns }
}

/// For engines that own their loop: when the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
///
/// Threads: one at a time.
///
/// # Safety
/// `due_ns` may be written. A null `due_ns` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_next_due(clock: *const EvenkeelClock, due_ns: *mut u64) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(clock, |clock| Ok(clock.clock.next_due_ns()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(due_ns, found) }
    })
}

/// Ends the tick. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
///
/// Threads: only the thread that ticks.
///
/// # Safety
/// `done` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_done(clock: *mut EvenkeelClock, done: *mut EvenkeelDone) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::fillable(done) }?;
        let ended = handle::alone(clock, |clock| {
            let done = clock.clock.done().ok_or(EvenkeelStatus::NoData)?;
            clock.last = Some(done);
            Ok(done)
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(done, ended.into()) }
    })
}

impl From<Done> for EvenkeelDone {
    fn from(done: Done) -> EvenkeelDone {
        EvenkeelDone {
            size: 0,
            version: 0,
            number: done.tick.number,
            done_ns: done.done_ns,
            lateness_ns: done.lateness_ns(),
            work_ns: done.work_ns(),
            due_to_done_ns: done.due_to_done_ns(),
        }
    }
}

/// Sets another period, from the next tick on, in nanoseconds: 1,000 to 3,600,000,000,000.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_set_period(clock: *mut EvenkeelClock, period_ns: u64) -> EvenkeelStatus {
    caught(|| {
        let period = period(period_ns)?;
        handle::alone(clock, |clock| Ok(clock.clock.set_period(period)?))
    })
}

/// Shifts all later ticks by this many nanoseconds, later or earlier, up to an hour.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_clock_shift(clock: *mut EvenkeelClock, by_ns: i64) -> EvenkeelStatus {
    caught(|| {
        if by_ns.unsigned_abs() > *PERIOD_NS.end() {
            return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("a shift by {by_ns} ns")));
        }
        handle::alone(clock, |clock| {
            clock.clock.shift_ns(by_ns);
            Ok(())
        })
    })
}

/// Returns how well the ticks kept time so far.
///
/// Threads: one at a time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_report(
    clock: *const EvenkeelClock,
    report: *mut EvenkeelClockReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(clock, |clock| {
            let Ticking { clock, .. } = clock;
            Ok(reported(&clock.report(), clock.period(), clock.next_due_ns()))
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, found) }
    })
}

pub(crate) fn reported(report: &Report, period: Duration, next_due_ns: u64) -> EvenkeelClockReport {
    EvenkeelClockReport {
        size: 0,
        version: 0,
        ticks: report.ticks,
        missed: report.missed,
        period_ns: nanoseconds(period),
        next_due_ns,
        margin_ns: report.margin_ns,
    }
}

pub(crate) fn summary(found: Summary) -> EvenkeelSummary {
    let Summary { count, min, p50, p90, p99, p999, max } = found;
    EvenkeelSummary {
        size: 0,
        version: 0,
        count,
        min_ns: min,
        p50_ns: p50,
        p90_ns: p90,
        p99_ns: p99,
        p999_ns: p999,
        max_ns: max,
    }
}

/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
unsafe fn summarised(
    clock: *const EvenkeelClock,
    summary: *mut EvenkeelSummary,
    of: impl FnOnce(Report) -> Option<Summary>,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(clock, |clock| Ok(of(clock.clock.report())))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as the caller promises.
        unsafe { structs::fill(summary, self::summary(found)) }
    })
}

/// The time from when a tick was due to when it began. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
///
/// Threads: one at a time.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_lateness(
    clock: *const EvenkeelClock,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(clock, summary, |report| report.lateness_ns) }
}

/// The time from when a tick was due to when it was done: the latency that players notice. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: one at a time.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_due_to_done(
    clock: *const EvenkeelClock,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(clock, summary, |report| report.due_to_done_ns) }
}

/// The time from when a tick began to when it was done. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: one at a time.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_clock_work(
    clock: *const EvenkeelClock,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(clock, summary, |report| report.work_ns) }
}
