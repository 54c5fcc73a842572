//! `RunDelay`: how long the calling thread was ready but did not run, by the kernel's count.
//! A read costs as much as reading an open file (0.3 us).
//! The count includes other threads' time slices and limits of control groups, but not what a hypervisor takes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::clock;
use crate::errno::Errno;

/// The kernel's counts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The monotonic clock at the reading.
    pub wall_ns: u64,
    /// The time that the thread ran. A hypervisor's pauses are excluded if the kernel knows of them.
    pub cpu_ns: u64,
    /// The time that the thread waited for a CPU.
    pub run_delay_ns: u64,
    /// How often the thread got a CPU.
    pub turns: u64,
}

/// The counts of the thread that created this value.
#[derive(Debug)]
pub struct RunDelay {
    file: File,
}

impl RunDelay {
    /// Opens the counts of the calling thread.
    ///
    /// # Errors
    /// The kernel's error; `ENOENT` if the kernel was built without these counts.
    pub fn of_this_thread() -> Result<RunDelay, Errno> {
        File::open("/proc/thread-self/schedstat").map(|file| RunDelay { file }).map_err(|error| Errno::from(&error))
    }

    /// The current counts. Only the counted thread may call this, because the CPU time is the caller's.
    ///
    /// # Errors
    /// The kernel's error; `EINVAL` if the file does not have three numbers.
    pub fn read(&self) -> Result<Counted, Errno> {
        let (run_delay_ns, turns) = self.delay_and_turns()?;
        // The file's own run time is updated only at the scheduler's tick. The clock's is exact.
        Ok(Counted { wall_ns: clock::monotonic_ns(), cpu_ns: clock::thread_cpu_ns(), run_delay_ns, turns })
    }

    /// How long the counted thread has waited for a CPU so far, in nanoseconds. Any thread may call this.
    ///
    /// # Errors
    /// The kernel's error; `EINVAL` if the file does not have three numbers.
    pub fn run_delay_ns(&self) -> Result<u64, Errno> {
        Ok(self.delay_and_turns()?.0)
    }

    fn delay_and_turns(&self) -> Result<(u64, u64), Errno> {
        let mut bytes = [0; 96];
        let length = self.file.read_at(&mut bytes, 0).map_err(|error| Errno::from(&error))?;
        let (_, run_delay_ns, turns) = parse_schedstat(&bytes[..length]).ok_or(Errno::INVAL)?;
        Ok((run_delay_ns, turns))
    }
}

/// The counts of any thread as of the kernel's last tick.
/// The counts are how long the thread ran and how long it waited for a CPU, in nanoseconds, and how often it got a CPU.
/// `None` if the thread does not exist, or the kernel was built without these counts.
pub fn of_thread(tid: u32) -> Option<(u64, u64, u64)> {
    parse_schedstat(&std::fs::read(format!("/proc/{tid}/schedstat")).ok()?)
}

/// `RAN_NS WAITED_NS TURNS`.
pub fn parse_schedstat(text: &[u8]) -> Option<(u64, u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_numbers_are_read() {
        assert_eq!(parse_schedstat(b"12 34 5\n"), Some((12, 34, 5)));
        for odd in ["", "1 2", "1 x 3", "1 -2 3", "99999999999999999999 1 1"] {
            assert_eq!(parse_schedstat(odd.as_bytes()), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse_schedstat(&text);
        }
    }

    #[test]
    fn ours_never_goes_back() {
        let ours = RunDelay::of_this_thread().unwrap();
        let first = ours.read().unwrap();
        // The kernel updates a thread's time when the thread gives up the CPU, and excludes reported steal time.
        let mut second = first;
        for _ in 0..100_000 {
            std::thread::yield_now();
            second = ours.read().unwrap();
            if second.cpu_ns > first.cpu_ns {
                break;
            }
        }
        assert!(second.wall_ns > first.wall_ns && second.cpu_ns > first.cpu_ns, "{first:?} {second:?}");
        assert!(second.run_delay_ns >= first.run_delay_ns && second.turns >= first.turns);
        assert!(ours.run_delay_ns().unwrap() >= second.run_delay_ns);
    }
}
