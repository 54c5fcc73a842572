//! `Sleeper`: reads the deadline of the sleep that a thread of any process requested.
//! The sleeper reads the arguments of the thread's system call (proc_pid_syscall(5)), and the time in memory to which they point.
//! The thread is not stopped. For a running thread, the kernel does not show these arguments.
//!
//! A server's tick is due at the deadline that the server requested.
//! From outside, only the arguments of the call show that deadline. The wake-up itself comes later, because of timer slack and the machine.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_sys::{Errno, clock};

const MS_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// `TIMER_ABSTIME`.
const ABSOLUTE: u64 = 1;
const MONOTONIC: u64 = libc::CLOCK_MONOTONIC as u64;
const REALTIME: u64 = libc::CLOCK_REALTIME as u64;
const FUTEX_COMMAND: u64 = 127;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_CLOCK_REALTIME: u64 = 256;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The thread sleeps until the monotonic clock reaches this time in nanoseconds, at the latest.
    Until(u64),
    /// The thread sleeps for at most this many nanoseconds from the moment when it fell asleep.
    For(u64),
    /// The thread sleeps without a limit.
    Open,
    /// The thread runs, or is in a call without a known limit.
    Unknown,
}

/// The kind of system call in which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `nanosleep`, `clock_nanosleep`: only the time ends the call.
    Sleep,
    /// `poll`, `select`, `epoll_wait` and similar calls: a file or the time ends the call.
    Poll,
    /// `futex`: another thread or the time ends the call.
    Futex,
    /// Any other call, or no call.
    Other,
}

/// The call in which a thread sleeps, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepCall {
    /// The kind of call.
    pub call: Call,
    /// The limit of the sleep.
    pub wait: Wait,
}

impl SleepCall {
    /// Adds a timer that is due at `due_ns` and also ends the call. If the timer comes first, the call counts as a sleep until `due_ns`.
    fn with_timer(self, due_ns: u64, now_ns: u64) -> SleepCall {
        let is_sooner = match self.wait {
            Wait::Until(ns) => due_ns < ns,
            // The call began before `now_ns`. If both times are equal, the call's own limit ends first.
            Wait::For(ns) => due_ns < now_ns.saturating_add(ns),
            Wait::Open | Wait::Unknown => true,
        };
        if is_sooner { SleepCall { call: Call::Sleep, wait: Wait::Until(due_ns) } } else { self }
    }
}

/// The clock or the moment from which a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    FromTheCall,
    Monotonic,
    /// The time of day: if the clock is adjusted, the end of the sleep moves.
    Realtime,
}

/// Where a call has its time limit: in an argument, or in memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeArgument {
    Ms(u64),
    /// A `struct timespec` at this address.
    Spec {
        at: u64,
        counts: Counts,
    },
    /// A `struct timeval` at this address. Only `select` uses this type.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other processors have no `select`"))]
    Val {
        at: u64,
    },
    Nothing,
}

/// The number and the arguments of a thread's current call: `230 0x1 0x1 0x7ffe… … SP PC`. `None` for `running` and any other text.
pub fn parse_syscall(text: &str) -> Option<(i64, [u64; 6])> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, arguments))
}

fn time_argument(number: i64, [a0, a1, a2, a3, a4, _]: [u64; 6]) -> TimeArgument {
    let spec = |at: u64, counts| TimeArgument::Spec { at, counts };
    let number = number as libc::c_long;
    match number {
        libc::SYS_clock_nanosleep if a1 & ABSOLUTE == 0 => spec(a2, Counts::FromTheCall),
        libc::SYS_clock_nanosleep if a0 == MONOTONIC => spec(a2, Counts::Monotonic),
        libc::SYS_clock_nanosleep if a0 == REALTIME => spec(a2, Counts::Realtime),
        libc::SYS_nanosleep => spec(a0, Counts::FromTheCall),
        libc::SYS_ppoll => spec(a2, Counts::FromTheCall),
        libc::SYS_pselect6 => spec(a4, Counts::FromTheCall),
        libc::SYS_epoll_pwait => TimeArgument::Ms(a3),
        // epoll_pwait2 has the same number on every architecture.
        441 => spec(a3, Counts::FromTheCall),
        libc::SYS_futex => match (a1 & FUTEX_COMMAND, a1 & FUTEX_CLOCK_REALTIME) {
            (FUTEX_WAIT, _) => spec(a3, Counts::FromTheCall),
            (FUTEX_WAIT_BITSET, 0) => spec(a3, Counts::Monotonic),
            (FUTEX_WAIT_BITSET, _) => spec(a3, Counts::Realtime),
            _ => TimeArgument::Nothing,
        },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => TimeArgument::Ms(a2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => TimeArgument::Ms(a3),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => TimeArgument::Val { at: a4 },
        _ => TimeArgument::Nothing,
    }
}

/// The file for which a call waits: a set of files (epoll), or a file that the call reads.
/// The file may be a timer, or the set may contain a timer.
fn file(number: i64, [a0, ..]: [u64; 6]) -> Option<u32> {
    match number as libc::c_long {
        libc::SYS_epoll_pwait | 441 | libc::SYS_read => u32::try_from(a0).ok(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => u32::try_from(a0).ok(),
        _ => None,
    }
}

fn kind(number: i64) -> Call {
    match number as libc::c_long {
        libc::SYS_clock_nanosleep | libc::SYS_nanosleep => Call::Sleep,
        libc::SYS_futex => Call::Futex,
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait | 441 => Call::Poll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_epoll_wait | libc::SYS_select => Call::Poll,
        _ => Call::Other,
    }
}

/// A time as 64-bit programs store it: seconds, then a fraction in units of 1/`parts` second.
fn time_ns(bytes: [u8; 16], parts: u64) -> Option<u64> {
    let word = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let (seconds, rest) = (u64::try_from(word(0)).ok()?, u64::try_from(word(8)).ok()?);
    if rest >= parts {
        return None;
    }
    seconds.checked_mul(SECOND_NS)?.checked_add(rest * (SECOND_NS / parts))
}

/// Reads the sleeps of one thread, which may belong to any process.
#[derive(Debug)]
pub struct Sleeper {
    call: File,
    memory: File,
}

impl Sleeper {
    /// Opens the thread `tid`.
    ///
    /// # Errors
    /// `ENOENT` if the thread does not exist, or if the kernel does not show calls.
    /// `EACCES` or `EPERM` without the privileges of a debugger (CAP_SYS_PTRACE).
    pub fn open(tid: u32) -> Result<Sleeper, Errno> {
        let open = |name: &str| File::open(format!("/proc/{tid}/{name}")).map_err(|error| Errno::from(&error));
        Ok(Sleeper { call: open("syscall")?, memory: open("mem")? })
    }

    /// The thread's current call. This takes two reads, about 10 us.
    ///
    /// # Errors
    /// `ESRCH` if the thread has ended. Otherwise the kernel's error.
    pub fn sleep_call(&self) -> Result<SleepCall, Errno> {
        self.sleep_call_with(|_| None)
    }

    /// As [`sleep_call`](Sleeper::sleep_call), but includes timer files.
    /// `timer_due_ns` returns when the timer of a file is due. The file may be a timer, or a set with a timer.
    /// A thread that waits for such a file sleeps until then, unless its own limit is earlier.
    ///
    /// # Errors
    /// As [`sleep_call`](Sleeper::sleep_call).
    pub fn sleep_call_with(&self, timer_due_ns: impl FnOnce(u32) -> Option<u64>) -> Result<SleepCall, Errno> {
        let mut bytes = [0; 256];
        let length = self.call.read_at(&mut bytes, 0).map_err(|error| Errno::from(&error))?;
        let call = std::str::from_utf8(&bytes[..length]).ok().and_then(parse_syscall);
        let Some((number, arguments)) = call else { return Ok(SleepCall { call: Call::Other, wait: Wait::Unknown }) };
        let sleep = SleepCall { call: kind(number), wait: self.wait(time_argument(number, arguments)) };
        let due_ns = file(number, arguments).and_then(timer_due_ns);
        Ok(due_ns.map_or(sleep, |due_ns| sleep.with_timer(due_ns, clock::monotonic_ns())))
    }

    fn wait(&self, time_argument: TimeArgument) -> Wait {
        let (at, counts, parts) = match time_argument {
            TimeArgument::Nothing => return Wait::Unknown,
            // A negative 32-bit number means no limit.
            TimeArgument::Ms(ms) if (ms as u32).cast_signed() < 0 => return Wait::Open,
            TimeArgument::Ms(ms) => return Wait::For(u64::from(ms as u32) * MS_NS),
            TimeArgument::Spec { at: 0, .. } | TimeArgument::Val { at: 0 } => return Wait::Open,
            TimeArgument::Spec { at, counts } => (at, counts, SECOND_NS),
            TimeArgument::Val { at } => (at, Counts::FromTheCall, 1_000_000),
        };
        let mut time = [0; 16];
        // The thread may have left the call since the call was read.
        if self.memory.read_exact_at(&mut time, at).is_err() {
            return Wait::Unknown;
        }
        match (time_ns(time, parts), counts) {
            (None, _) => Wait::Unknown,
            (Some(ns), Counts::FromTheCall) => Wait::For(ns),
            (Some(ns), Counts::Monotonic) => Wait::Until(ns),
            (Some(ns), Counts::Realtime) => {
                let ahead_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
                Wait::Until(ns.saturating_sub(ahead_ns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_are_read_with_their_arguments() {
        let text = "230 0x1 0x1 0x7ffd9c0 0x0 0x5 0xffffffffffffffff 0x7ffd 0x7f\n";
        assert_eq!(parse_syscall(text), Some((230, [1, 1, 0x7ffd9c0, 0, 5, u64::MAX])));
        for odd in ["running\n", "-1 0x7ffd 0x7f\n", "", "230 0x1 0x1", "230 1 1 1 1 1 1", "x 0x1 0x1 0x1 0x1 0x1 0x1"]
        {
            assert_eq!(parse_syscall(odd), None, "{odd}");
        }
    }

    #[test]
    fn times_are_of_both_kinds() {
        let bytes = |seconds: i64, rest: i64| -> [u8; 16] {
            [seconds.to_ne_bytes(), rest.to_ne_bytes()].concat().try_into().unwrap()
        };
        assert_eq!(time_ns(bytes(2, 5), SECOND_NS), Some(2_000_000_005));
        assert_eq!(time_ns(bytes(2, 5), 1_000_000), Some(2_000_005_000));
        for (seconds, rest) in [(-1, 0), (0, -1), (0, 1_000_000), (i64::MAX, 0)] {
            assert_eq!(time_ns(bytes(seconds, rest), 1_000_000), None, "{seconds} {rest}");
        }
    }

    #[test]
    fn a_timer_that_is_read_as_a_file_ends_the_sleep_where_it_is_sooner() {
        let until = SleepCall { call: Call::Sleep, wait: Wait::Until(700) };
        let table = [
            (Call::Poll, Wait::Open, until),
            (Call::Other, Wait::Unknown, until),
            (Call::Poll, Wait::For(300), until),
            (Call::Poll, Wait::For(100), SleepCall { call: Call::Poll, wait: Wait::For(100) }),
        ];
        for (call, wait, expected) in table {
            assert_eq!(SleepCall { call, wait }.with_timer(700, 500), expected, "{call:?} {wait:?}");
        }
        assert_eq!(file(libc::SYS_read, [5, 0, 0, 0, 0, 0]), Some(5));
        assert_eq!(file(libc::SYS_futex, [5, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn sleeps_without_a_time_are_reported() {
        let no_end = [0, u64::MAX, 0, 0, 0, 0];
        assert_eq!(time_argument(libc::SYS_read, no_end), TimeArgument::Nothing);
        assert_eq!(
            time_argument(libc::SYS_clock_nanosleep, [2, 1, 5, 0, 0, 0]),
            TimeArgument::Nothing,
            "of a clock of CPU time"
        );
    }

    #[test]
    fn times_are_counted_from_what_the_call_says() {
        let spec = |counts| TimeArgument::Spec { at: 5, counts };
        assert_eq!(time_argument(libc::SYS_clock_nanosleep, [0, 1, 5, 0, 0, 0]), spec(Counts::Realtime));
        assert_eq!(time_argument(libc::SYS_clock_nanosleep, [1, 1, 5, 0, 0, 0]), spec(Counts::Monotonic));
        assert_eq!(time_argument(libc::SYS_clock_nanosleep, [1, 0, 5, 0, 0, 0]), spec(Counts::FromTheCall));
        assert_eq!(time_argument(libc::SYS_futex, [0, 9 | 256, 0, 5, 0, 0]), spec(Counts::Realtime));
        assert_eq!(time_argument(libc::SYS_futex, [0, 128, 0, 5, 0, 0]), spec(Counts::FromTheCall));
        assert_eq!(time_argument(libc::SYS_futex, [0, 137, 0, 5, 0, 0]), spec(Counts::Monotonic));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}", numbers in "[0-9]{1,4}( 0x[0-9a-f]{1,17}){0,8}") {
            let _ = parse_syscall(&text);
            if let Some((number, arguments)) = parse_syscall(&numbers) {
                let _ = time_argument(number, arguments);
            }
        }
    }

    #[test]
    fn a_sleeping_thread_shows_when_it_is_due() {
        const MINUTE_NS: u64 = 60_000_000_000;
        let (say, hear) = std::sync::mpsc::channel();
        // The test does not wait for this thread, which ends with the process.
        std::thread::spawn(move || {
            let due_ns = evenkeel_sys::clock::monotonic_ns() + 10 * MINUTE_NS;
            say.send((evenkeel_sys::thread::id(), due_ns)).unwrap();
            evenkeel_sys::clock::sleep_until_ns(due_ns);
        });
        let (tid, due_ns) = hear.recv().unwrap();
        match Sleeper::open(tid) {
            Ok(seen) => {
                let give_up_ns = evenkeel_sys::clock::monotonic_ns() + MINUTE_NS;
                let wait_now = || seen.sleep_call().map(|sleep| sleep.wait);
                let mut wait = wait_now();
                while wait != Ok(Wait::Until(due_ns)) && evenkeel_sys::clock::monotonic_ns() < give_up_ns {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    wait = wait_now();
                }
                assert_eq!(wait, Ok(Wait::Until(due_ns)));
            }
            Err(errno) => {
                assert!(errno.is_denial() || errno == Errno::NOENT, "{errno}");
                evenkeel_testkit::skipped(format_args!("this user may not see a thread's calls ({errno})"));
            }
        }
    }
}
