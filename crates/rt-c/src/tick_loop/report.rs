//! How a server loop keeps time, and which of its settings are active.

use std::ffi::c_char;

use evenkeel_rt::rate::TickRate;
use evenkeel_rt::telemetry::TelemetryReader;
use evenkeel_rt::{Report, Summary};

use super::{EvenkeelTickLoop, own};
use crate::clock::{self, EvenkeelClockReport, EvenkeelSummary};
use crate::failure::{EvenkeelStatus, caught};
use crate::handle;
use crate::memory::{self, EvenkeelMemoryReport};
use crate::phases::{self, EvenkeelPhaseReport};
use crate::quantum::{self, EvenkeelQuantum};
use crate::rate::{Changes, EvenkeelRateChange};
use crate::structs;
use crate::thread::{self, EvenkeelThreadReport};

/// Writes to `report` how well the ticks kept time so far.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_report(
    ticks: *const EvenkeelTickLoop,
    report: *mut EvenkeelClockReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(clock::reported(&ticks.report(), ticks.period(), ticks.next_due_ns())))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, found) }
    })
}

/// Writes to `report` how the ticks are spread among the ticks of other sessions.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_phase(
    ticks: *const EvenkeelTickLoop,
    report: *mut EvenkeelPhaseReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(ticks.phase()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, phases::filled(found)) }
    })
}

/// Writes the report to `text`, with a line for each figure. `needed` is the number of bytes, with the zero at the end.
///
/// Threads: only the loop's own thread. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_report_text(
    ticks: *const EvenkeelTickLoop,
    text: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let printed = own(ticks, |ticks| Ok(ticks.report().to_string()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(text, size, &printed, needed) }
    })
}

/// Writes to `text` a line for each setting that was requested and is not active, with what to do.
/// The text is empty if all requested settings are active. `needed` is the number of bytes, with the zero at the end.
///
/// Threads: only the loop's own thread. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_advice(
    ticks: *const EvenkeelTickLoop,
    text: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let printed = own(ticks, |ticks| Ok(ticks.setup().to_string()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(text, size, &printed, needed) }
    })
}

/// Writes to `report` which settings of the loop's thread are active now.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_thread_report(
    ticks: *const EvenkeelTickLoop,
    report: *mut EvenkeelThreadReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(ticks.setup().thread))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, thread::filled(found)) }
    })
}

/// Writes to `report` which memory settings are active now. Returns EVENKEEL_STATUS_NO_DATA if the loop has no memory settings.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_memory_report(
    ticks: *const EvenkeelTickLoop,
    report: *mut EvenkeelMemoryReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(ticks.setup().memory))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, memory::filled(found)) }
    })
}

/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
unsafe fn summarised(
    ticks: *const EvenkeelTickLoop,
    summary: *mut EvenkeelSummary,
    of: impl FnOnce(Report) -> Option<Summary>,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(of(ticks.report())))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as the caller promises.
        unsafe { structs::fill(summary, clock::summary(found)) }
    })
}

/// The time from when a tick was due to when it began. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_lateness(
    ticks: *const EvenkeelTickLoop,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(ticks, summary, |report| report.lateness_ns) }
}

/// The time from when a tick was due to when it was done: the latency that players notice. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_due_to_done(
    ticks: *const EvenkeelTickLoop,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(ticks, summary, |report| report.due_to_done_ns) }
}

/// The time from when a tick began to when it was done. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `summary` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_work(
    ticks: *const EvenkeelTickLoop,
    summary: *mut EvenkeelSummary,
) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    unsafe { summarised(ticks, summary, |report| report.work_ns) }
}

/// Writes to `quantum` how the CPU is taken away from the loop's thread, as far as the loop knows, and how the loop reacts.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `quantum` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_quantum(
    ticks: *const EvenkeelTickLoop,
    quantum: *mut EvenkeelQuantum,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(ticks.aligned()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(quantum, quantum::filled(found)) }
    })
}

/// Writes to `load` the load in the last second or so, such as 0.6. Returns EVENKEEL_STATUS_NO_DATA in the first second, and without a rate.
/// The load is how long a tick works, divided by the part of the period in which it may run.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `load` may be written. A null `load` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_load(ticks: *const EvenkeelTickLoop, load: *mut f64) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(load)?;
        let found = own(ticks, |ticks| Ok(ticks.rate().and_then(TickRate::load)))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(load, found) }
    })
}

/// Writes the last change of the period, and its reason, to `change`. Returns EVENKEEL_STATUS_NO_DATA if the period never changed.
///
/// Threads: any, at any time.
///
/// # Safety
/// `change` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_last_change(
    ticks: *const EvenkeelTickLoop,
    change: *mut EvenkeelRateChange,
) -> EvenkeelStatus {
    caught(|| {
        let filled = handle::shared(ticks, |ticks| Changes::last(&ticks.changes))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(change, filled) }
    })
}

/// Writes the path of the telemetry page to `path`. `needed` is the number of bytes, with the zero at the end.
/// Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
///
/// Threads: any, at any time.
///
/// # Safety
/// `path` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_telemetry_path(
    ticks: *const EvenkeelTickLoop,
    path: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(ticks, |ticks| Ok(ticks.page.clone()))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(path, size, &found.to_string_lossy(), needed) }
    })
}

/// Writes the telemetry page to `text` in Prometheus' text format. `needed` is the number of bytes, with the zero at the end.
/// Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
///
/// Threads: any, at any time. Allocates memory and reads a file: do not call it in a tick.
///
/// # Safety
/// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_prometheus(
    ticks: *const EvenkeelTickLoop,
    text: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let page = handle::shared(ticks, |ticks| Ok(ticks.page.clone()))?.ok_or(EvenkeelStatus::NoData)?;
        let read = TelemetryReader::open(&page)?.prometheus()?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(text, size, &read, needed) }
    })
}
