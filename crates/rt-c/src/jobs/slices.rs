//! When the CPUs of a job system are available, if a hypervisor runs them in slices.

use evenkeel_rt::{CpuSlice, monotonic_ns};

use super::EvenkeelJobs;
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle;
use crate::structs::{self, structs};
use crate::thread::apply_status;

/// When a CPU is available. A hypervisor may run a virtual CPU for only a part of each period. This part is the CPU's slice.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelCpuSlice {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// 1 if slices are known. 0 if the CPU has none, or they are not known yet. In that case all fields after `pinned_errno` are 0.
    pub is_known: u32,
    /// Whether the CPU is followed, as an EvenkeelApplyStatus. Refused means that no such CPU exists, or the process may not run on it.
    /// Not requested means that the thread that follows the CPU has not started yet.
    pub pinned: u32,
    /// The errno of the field above.
    pub pinned_errno: i32,
    /// Always 0.
    pub reserved: u32,
    /// From the start of one slice to the start of the next, in nanoseconds.
    pub period_ns: u64,
    /// How long the CPU is available in each period, in nanoseconds. This is less than the period.
    pub share_ns: u64,
    /// When a recent slice began, in nanoseconds of evenkeel_now_ns's clock.
    pub start_ns: u64,
    /// How long ago the current period began, in nanoseconds, at the time of the call.
    pub since_start_ns: u64,
    /// How long the CPU is still available, in nanoseconds, at the time of the call. 0 while the CPU is taken away.
    pub left_ns: u64,
}

structs! {
    EvenkeelCpuSlice {
        is_known: u32, pinned: u32, pinned_errno: i32, reserved: u32, period_ns: u64, share_ns: u64, start_ns: u64,
        since_start_ns: u64, left_ns: u64,
    }
}

/// Writes to `slice` when a CPU is available, if a hypervisor runs the CPU in slices. It takes some seconds until slices are known.
/// Returns EVENKEEL_STATUS_OUT_OF_RANGE if EvenkeelJobSettings.slice_cpus does not list the CPU.
/// Returns EVENKEEL_STATUS_UNSUPPORTED on other systems than Linux.
///
/// Threads: any, at any time, also in jobs. The call reads memory and the clock.
///
/// # Safety
/// `slice` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_cpu_slice(
    jobs: *const EvenkeelJobs,
    cpu: u32,
    slice: *mut EvenkeelCpuSlice,
) -> EvenkeelStatus {
    caught(|| {
        let cpu = cpu as usize;
        let filled = handle::shared(jobs, |system| {
            let wrong = || Failure::new(EvenkeelStatus::OutOfRange, format_args!("slice_cpus does not list CPU {cpu}"));
            let slices = system.followed.as_ref().and_then(|followed| followed.slices_of(cpu)).ok_or_else(wrong)?;
            if cfg!(not(target_os = "linux")) {
                return Err(EvenkeelStatus::Unsupported.into());
            }
            let (pinned, pinned_errno) = apply_status(slices.pinned(cpu));
            Ok(EvenkeelCpuSlice { pinned, pinned_errno, ..filled(slices.cpu(cpu), monotonic_ns()) })
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(slice, filled) }
    })
}

/// What the library knows about a CPU at this time.
fn filled(known: Option<CpuSlice>, now_ns: u64) -> EvenkeelCpuSlice {
    let of = |read: fn(&CpuSlice, u64) -> u64| known.as_ref().map_or(0, |slice| read(slice, now_ns));
    EvenkeelCpuSlice {
        size: 0,
        version: 0,
        is_known: known.is_some().into(),
        pinned: 0,
        pinned_errno: 0,
        reserved: 0,
        period_ns: of(|slice, _| slice.period_ns),
        share_ns: of(|slice, _| slice.share_ns),
        start_ns: of(|slice, _| slice.start_ns),
        since_start_ns: of(CpuSlice::since_start_ns),
        left_ns: of(CpuSlice::left_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_slice_says_where_it_is_now() {
        let slice = CpuSlice { start_ns: 1_000, period_ns: 10_000_000, share_ns: 4_000_000 };
        let numbers = |known, now_ns| {
            let EvenkeelCpuSlice { is_known, period_ns, share_ns, start_ns, since_start_ns, left_ns, .. } =
                filled(known, now_ns);
            (is_known, [period_ns, share_ns, start_ns, since_start_ns, left_ns])
        };
        assert_eq!(numbers(None, 7), (0, [0; 5]));
        assert_eq!(numbers(Some(slice), 11_001_000), (1, [10_000_000, 4_000_000, 1_000, 1_000_000, 3_000_000]));
        assert_eq!(numbers(Some(slice), 18_001_000), (1, [10_000_000, 4_000_000, 1_000, 8_000_000, 0]), "it is gone");
    }
}
