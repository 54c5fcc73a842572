//! `Cycles`: the processor's own cycle count of the calling thread, through perf_event_open(2), if the kernel and the hypervisor allow it.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

use crate::errno::Errno;

const TYPE_HARDWARE: u32 = 0;
const CONFIG_CPU_CYCLES: u64 = 0;
/// `PERF_FLAG_FD_CLOEXEC`.
const FLAG_CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// Bits of the attributes' flags.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

/// `struct perf_event_attr` as of its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Counts the cycles of the thread that created this value, in user space.
#[derive(Debug)]
pub struct Cycles {
    file: File,
}

impl Cycles {
    /// Counts cycles of the calling thread from now on.
    ///
    /// # Errors
    /// `ENOENT` if the machine has no counter, as on most virtual machines. `EACCES` if `kernel.perf_event_paranoid` forbids it.
    pub fn of_this_thread() -> Result<Cycles, Errno> {
        open(TYPE_HARDWARE, CONFIG_CPU_CYCLES).map(|file| Cycles { file })
    }

    /// The count of cycles so far.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> Result<u64, Errno> {
        count(&self.file)
    }
}

fn open(kind: u32, config: u64) -> Result<File, Errno> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of the attributes and keeps no pointer.
    // The other arguments are numbers: this thread, any CPU, no group.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &attributes as *const Attributes, 0, -1, -1, FLAG_CLOSE_ON_EXEC)
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel just opened the descriptor for us, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(Errno::from(&std::io::Error::last_os_error())),
    }
}

fn count(mut file: &File) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes).map_err(|error| Errno::from(&error))?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_or_says_why_not() {
        // The kernel's software clock of a thread uses the same call. It exists even if the processor's counter does not.
        match open(1, 1) {
            Ok(file) => {
                let before = count(&file).unwrap();
                crate::chain::adds(100_000);
                let ns = count(&file).unwrap() - before;
                assert!(ns > 100_000, "{ns}");
            }
            Err(errno) => evenkeel_testkit::skipped(format_args!("perf_event_open: {errno}")),
        }
        match Cycles::of_this_thread() {
            Ok(cycles) => {
                let before = cycles.read().unwrap();
                crate::chain::adds(100_000);
                let counted = cycles.read().unwrap() - before;
                assert!((6_300_000..9_000_000).contains(&counted), "{counted}");
            }
            Err(errno) => evenkeel_testkit::skipped(format_args!("no counter of cycles: {errno}")),
        }
    }
}
