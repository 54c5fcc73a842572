//! Sets up the thread that ticks.

use std::ffi::c_char;
use std::num::NonZeroU64;

use evenkeel_rt::{ApplyStatus, CpuSet, ThreadConfig, ThreadReport, TickThread};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};
use crate::text;

/// A thread whose settings are applied. Freeing it ends dma_latency_us; the other settings stay.
#[derive(Debug)]
pub struct EvenkeelThread(());

handles! { EvenkeelThread, 256 of TickThread; }

/// The value that requests nothing, for a field of EvenkeelThreadConfig whose zero means a default.
pub const EVENKEEL_DO_NOT_ASK: u64 = 0x7fff_ffff_ffff_ffff;

/// Kernel settings of a tick's thread. All zero (EVENKEEL_INIT) means settings that help on every machine and need no privileges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelThreadConfig {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Runs the thread on these CPUs only, as a list such as "2-3,6". Null means that the kernel chooses.
    pub cpus: *const c_char,
    /// The scheduler's time slice, in nanoseconds, 100,000 to 100,000,000. 0 means 100,000. Needs Linux 6.12.
    /// For a value out of this range, the report says that it has no effect.
    pub slice_ns: u64,
    /// How late the kernel may end a sleep, in nanoseconds. 0 means 1.
    pub timer_slack_ns: u64,
    /// Makes the thread real-time (SCHED_FIFO) with this priority, 1 to 99. Needs CAP_SYS_NICE. 0 means not real-time.
    pub fifo_priority: u32,
    /// If not 0, keeps all CPUs out of idle states that take longer than dma_latency_us to leave, until the thread is freed.
    /// This setting costs power, and needs write access to /dev/cpu_dma_latency.
    pub asks_dma_latency: u32,
    /// The longest allowed time to leave an idle state, in microseconds, 0 to 2,000,000,000. Used if asks_dma_latency is not 0.
    pub dma_latency_us: i32,
    /// Always 0.
    pub reserved: u32,
}

/// Whether a setting is active, in the fields of EvenkeelThreadReport.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelApplyStatus {
    /// Not requested.
    NotRequested = 0,
    /// The setting is active. If the kernel allows it, the setting was read back.
    Active = 1,
    /// The kernel refused the setting. The next field of the report has the error number.
    Refused = 2,
    /// The setting was active and is suspended: the tick used nearly all of its CPU, and the rest of the machine would have starved.
    Suspended = 3,
    /// The kernel accepted the setting, but it has no effect.
    NoEffect = 4,
}

/// Which settings are active: an EvenkeelApplyStatus for each setting. If the kernel refused it, its error number (errno) follows, else 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelThreadReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The EvenkeelApplyStatus of EvenkeelThreadConfig.cpus.
    pub cpus: u32,
    /// The errno of the field above.
    pub cpus_errno: i32,
    /// The EvenkeelApplyStatus of EvenkeelThreadConfig.slice_ns. For a real-time thread, the slice is not requested.
    pub slice: u32,
    /// The errno of the field above.
    pub slice_errno: i32,
    /// The EvenkeelApplyStatus of EvenkeelThreadConfig.timer_slack_ns.
    pub timer_slack: u32,
    /// The errno of the field above.
    pub timer_slack_errno: i32,
    /// The EvenkeelApplyStatus of EvenkeelThreadConfig.fifo_priority.
    pub fifo: u32,
    /// The errno of the field above.
    pub fifo_errno: i32,
    /// The EvenkeelApplyStatus of EvenkeelThreadConfig.dma_latency_us.
    pub dma_latency: u32,
    /// The errno of the field above.
    pub dma_latency_errno: i32,
}

structs! {
    EvenkeelThreadConfig {
        cpus: *const c_char, slice_ns: u64, timer_slack_ns: u64, fifo_priority: u32, asks_dma_latency: u32, dma_latency_us: i32,
        reserved: u32,
    }
    EvenkeelThreadReport {
        cpus: u32, cpus_errno: i32, slice: u32, slice_errno: i32, timer_slack: u32, timer_slack_errno: i32, fifo: u32,
        fifo_errno: i32, dma_latency: u32, dma_latency_errno: i32,
    }
}

/// Applies the settings to the calling thread. A setting that the kernel refuses is not an error: the report lists it.
///
/// Threads: only the thread that ticks. Free the handle with evenkeel_thread_free, or pass it to evenkeel_clock_take_thread.
///
/// # Safety
/// `config` is null or points to a struct prepared by evenkeel_init, whose text ends with a zero; `thread` may be written. A null `thread` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_thread_new(
    config: *const EvenkeelThreadConfig,
    thread: *mut *mut EvenkeelThread,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let config = unsafe { asked(structs::get(config)?) }?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(thread, || Ok(TickThread::set_up(&config))) }
    })
}

/// # Safety
/// `config.cpus` is null or a text that ends with a zero.
pub(crate) unsafe fn asked(config: EvenkeelThreadConfig) -> Result<ThreadConfig, Failure> {
    // SAFETY: as the caller promises.
    let cpus = unsafe { cpu_list(config.cpus) }?;
    let or = |ns: u64, default: u64| match ns {
        0 => Some(default),
        EVENKEEL_DO_NOT_ASK => None,
        ns => Some(ns),
    };
    let fifo = match config.fifo_priority {
        0 => None,
        priority @ 1..=99 => Some(priority as u8),
        other => return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("a real-time priority of {other}"))),
    };
    if config.asks_dma_latency != 0 && !(0..=2_000_000_000).contains(&config.dma_latency_us) {
        let what = format_args!("a latency of {} us", config.dma_latency_us);
        return Err(Failure::new(EvenkeelStatus::OutOfRange, what));
    }
    if config.reserved != 0 {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    Ok(ThreadConfig {
        cpus,
        slice_ns: or(config.slice_ns, 100_000),
        timer_slack_ns: or(config.timer_slack_ns, 1).and_then(NonZeroU64::new),
        fifo,
        dma_latency_us: (config.asks_dma_latency != 0).then_some(config.dma_latency_us),
    })
}

/// The CPUs of a list such as "2-3,6". `None` if `list` is null.
///
/// # Safety
/// `list` is null or a text that ends with a zero.
pub(crate) unsafe fn cpu_list(list: *const c_char) -> Result<Option<CpuSet>, Failure> {
    if list.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let list = unsafe { text::text(list) }?;
    let wrong = || Failure::new(EvenkeelStatus::BadText, format_args!("no list of CPUs such as 2-3,6: {list}"));
    Ok(Some(CpuSet::parse_list(list).ok_or_else(wrong)?))
}

/// The status of a setting, and its errno.
pub(crate) fn apply_status(status: ApplyStatus) -> (u32, i32) {
    match status {
        ApplyStatus::NotRequested => (EvenkeelApplyStatus::NotRequested as u32, 0),
        ApplyStatus::Active => (EvenkeelApplyStatus::Active as u32, 0),
        ApplyStatus::Refused(errno) => (EvenkeelApplyStatus::Refused as u32, errno.raw()),
        ApplyStatus::Suspended => (EvenkeelApplyStatus::Suspended as u32, 0),
        ApplyStatus::NoEffect => (EvenkeelApplyStatus::NoEffect as u32, 0),
    }
}

pub(crate) fn filled(report: ThreadReport) -> EvenkeelThreadReport {
    let [(cpus, cpus_errno), (slice, slice_errno), (timer_slack, timer_slack_errno)] =
        [report.cpus, report.slice, report.timer_slack].map(apply_status);
    let [(fifo, fifo_errno), (dma_latency, dma_latency_errno)] = [report.fifo, report.dma_latency].map(apply_status);
    EvenkeelThreadReport {
        size: 0,
        version: 0,
        cpus,
        cpus_errno,
        slice,
        slice_errno,
        timer_slack,
        timer_slack_errno,
        fifo,
        fifo_errno,
        dma_latency,
        dma_latency_errno,
    }
}

/// Writes to `report` which settings are active.
///
/// Threads: any.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_thread_report(
    thread: *const EvenkeelThread,
    report: *mut EvenkeelThreadReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(thread, |thread| Ok(filled(thread.report())))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, found) }
    })
}

/// Frees the handle, and ends dma_latency_us. The thread's other settings stay.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_thread_free(thread: *mut EvenkeelThread) -> EvenkeelStatus {
    caught(|| handle::take(thread).map(drop))
}
