//! `TimerFiles`: reads when the timer files of a process are due (timerfd_create(2)).
//! A server on Asio, libevent or sd-event passes no time limit to its calls.
//! A timer file wakes the server, and only /proc/PID/fdinfo shows when.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_sys::clock;

/// The maximum size of the description of one file. The description of a set has one line for each file in the set.
const TEXT_BYTES_MAX: usize = 1 << 16;
/// The maximum number of files of one set to read, and of sets to remember.
const FILES_MAX: usize = 256;
const SETS_MAX: usize = 32;
/// After this many queries, the content of a set is read again.
const QUESTIONS_MAX: u32 = 16;

/// The timers of a process.
#[derive(Debug)]
pub struct TimerFiles {
    pid: u32,
    sets: Vec<TimerSet>,
}

/// The timers that end a wait for `file`: the file itself, or the timers in its set.
#[derive(Debug)]
struct TimerSet {
    file: u32,
    timers: Vec<File>,
    questions: u32,
}

impl TimerFiles {
    /// The timers of process `pid`. Nothing is read yet.
    pub fn new(pid: u32) -> TimerFiles {
        TimerFiles { pid, sets: Vec::new() }
    }

    /// When the first timer ends a wait for this file, on the monotonic clock in nanoseconds.
    /// The file is a timer or a set of files (epoll).
    /// `None` if no timer is set, or if the timer cannot be read. Reading needs the privileges of a debugger (CAP_SYS_PTRACE).
    pub fn due_ns(&mut self, file: u32) -> Option<u64> {
        let at = self.sets.iter().position(|set| set.file == file && set.questions < QUESTIONS_MAX);
        let at = at.unwrap_or_else(|| {
            self.sets.retain(|set| set.file != file);
            self.sets.truncate(SETS_MAX - 1);
            self.sets.insert(0, TimerSet { file, timers: timers_in(self.pid, file), questions: 0 });
            0
        });
        let set = &mut self.sets[at];
        set.questions += 1;
        let due_ns = |timer: &File| {
            let before_ns = clock::monotonic_ns();
            let left_ns = parse_timer(&text_of(timer)?)?;
            // The kernel computed the remaining time at some moment of the read.
            let read_at_ns = before_ns.midpoint(clock::monotonic_ns());
            (left_ns > 0).then(|| read_at_ns.saturating_add(left_ns))
        };
        set.timers.iter().filter_map(due_ns).min()
    }
}

/// The timers that end a wait for this file.
fn timers_in(pid: u32, file: u32) -> Vec<File> {
    let open = |file: u32| File::open(format!("/proc/{pid}/fdinfo/{file}")).ok();
    let Some(itself) = open(file) else { return Vec::new() };
    let text = text_of(&itself).unwrap_or_default();
    if parse_timer(&text).is_some() {
        return vec![itself];
    }
    let files = parse_set(&text).into_iter().take(FILES_MAX).filter_map(open);
    files.filter(|file| text_of(file).is_some_and(|text| parse_timer(&text).is_some())).collect()
}

fn text_of(file: &File) -> Option<String> {
    let mut bytes = vec![0; TEXT_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

/// The remaining time of a timer in nanoseconds, from `it_value: (SECONDS, NANOSECONDS)`.
/// 0 if the timer is not set. `None` if the file is not a timer.
pub fn parse_timer(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("it_value:"))?;
    let (seconds, ns) = value.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let (seconds, ns): (u64, u64) = (seconds.trim().parse().ok()?, ns.trim().parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// The files of a set: `tfd:        5 events: …`, one per line.
pub fn parse_set(text: &str) -> Vec<u32> {
    let file = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    text.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use proptest::prelude::*;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

    use super::*;
    use evenkeel_sys::timer_fd::Alarm;

    #[test]
    fn descriptions_are_read() {
        let timer = "pos:\t0\nflags:\t02000002\nclockid: 1\nticks: 0\nsettime flags: 00\nit_value: (299, 994734290)\nit_interval: (0, 0)\n";
        assert_eq!(parse_timer(timer), Some(299_994_734_290));
        for odd in ["", "it_value: (1)", "it_value: 1, 2", "it_value: (-1, 2)", "it_value: (18446744073709551615, 0)"] {
            assert_eq!(parse_timer(odd), None, "{odd}");
        }
        let set =
            "pos:\t0\ntfd:        7 events: 8000001b data: 5  pos:0\ntfd:       12 events:       19\ntfd:\ntfd: x\n";
        assert_eq!(parse_set(set), [7, 12]);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(it_value: |tfd: |\\(|\\)|,|[0-9]{1,21}|\n| ){0,12}") {
            let _ = (parse_timer(&text), parse_set(&text));
        }
    }

    #[test]
    fn a_timer_is_found_by_itself_and_in_a_set() {
        let (timer, unset) = (Alarm::new().unwrap(), Alarm::new().unwrap());
        let due_ns = clock::monotonic_ns() + 600_000_000_000;
        timer.set(due_ns).unwrap();
        let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
        for one in [&unset, &timer] {
            epoll::add(&set, one, EventData::new_u64(0), EventFlags::IN).unwrap();
        }
        let number = |file: &dyn AsRawFd| u32::try_from(file.as_raw_fd()).unwrap();
        let mut files = TimerFiles::new(std::process::id());
        for file in [number(&timer.as_fd()), number(&set)] {
            // The kernel computes the remaining time between two readings of the clock, so the result may differ by the time between them.
            let before_ns = clock::monotonic_ns();
            let seen_ns = files.due_ns(file).unwrap();
            assert!(seen_ns.abs_diff(due_ns) <= clock::monotonic_ns() - before_ns, "{seen_ns} {due_ns}");
        }
        assert_eq!(files.due_ns(number(&unset.as_fd())), None);
        timer.set(due_ns - 1_000_000_000).unwrap();
        assert!(files.due_ns(number(&set)).is_some_and(|seen_ns| seen_ns < due_ns), "set anew");
        assert_eq!(files.due_ns(4_000_000), None, "there is no such file");
    }
}
