//! `Stream`: the activity of all threads of a server over a stretch of time, from the kernel's switch records.
//! All answers about ticks come from a stream, whether the stream is live or read from a file.

use evenkeel_hostfs::sleep_deadline::{Call, SleepCall, Wait};
use evenkeel_sys::perf_wakers::Woken;

use super::wakes::{Unseen, Wake};

/// The state of a thread when the reader examined it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When the reader examined the thread, on the monotonic clock.
    pub at_ns: u64,
    /// The call in which the thread slept.
    pub sleep: SleepCall,
}

/// The activity of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLog {
    /// The thread's process.
    pub pid: u32,
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The wakes that ended in the stretch, in order of time.
    pub wakes: Vec<Wake>,
    /// The thread's observed waits, in order of time.
    pub asked: Vec<Asked>,
    /// The thread's entries of the probed function, in order of time, on the monotonic clock.
    pub entries: Vec<u64>,
    /// Who woke the thread, in order of time. The text form of a stream does not have this.
    pub woken: Vec<Woken>,
    /// The time since which all wake-ups are in `woken`. None if wake-ups were not recorded, or some were lost.
    pub woken_from_ns: Option<u64>,
    /// The number of observed switches.
    pub switches: u64,
    /// Whether the thread switched so often that the reader stopped watching it.
    pub is_too_much: bool,
    /// Whether the thread has ended.
    pub is_over: bool,
}

impl ThreadLog {
    /// How long the thread ran, in nanoseconds.
    pub fn ran_ns(&self) -> u64 {
        self.wakes.iter().fold(0, |sum, wake| sum.saturating_add(wake.on_cpu_ns))
    }
}

/// The activity of a server's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// When the stretch began, on the monotonic clock.
    pub from_ns: u64,
    /// When the stretch ended, on the monotonic clock.
    pub to_ns: u64,
    /// The function whose entries were also recorded.
    pub function: Option<String>,
    /// The watched threads.
    pub threads: Vec<ThreadLog>,
    /// The number of unwatched threads of the server.
    pub unwatched: usize,
    /// The CPU time of the server's processes, in steps of 10 ms. It is 0 if unknown. Wakes that have not ended yet count too.
    pub cpu_ns: u64,
    /// The part of `cpu_ns` in threads that were not watched, such as threads that ended at once.
    pub unwatched_cpu_ns: u64,
    /// The child processes of the server's processes, which were not watched.
    pub children: Vec<u32>,
    /// The records that were lost.
    pub unseen: Unseen,
    /// The CPU time of the reader, in nanoseconds.
    pub reader_cpu_ns: u64,
}

impl Stream {
    /// The complete data between two times.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Stream {
        let mut part = Stream { from_ns, to_ns, ..self.clone() };
        for thread in &mut part.threads {
            thread.wakes.retain(|wake| wake.start_ns >= from_ns && wake.end_ns < to_ns);
            thread.asked.retain(|asked| (from_ns..to_ns).contains(&asked.at_ns));
            thread.entries.retain(|entered_ns| (from_ns..to_ns).contains(entered_ns));
            thread.woken.retain(|woken| (from_ns..to_ns).contains(&woken.at_ns));
        }
        part
    }

    /// The length of the stretch, in nanoseconds; at least 1.
    pub fn span_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns).max(1)
    }

    /// How long all threads ran, in nanoseconds.
    pub fn ran_ns(&self) -> u64 {
        self.threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.ran_ns()))
    }

    /// The share of the server's CPU time in threads that were not watched. It is 0 if the stretch is too short.
    pub fn unwatched_cpu_share(&self) -> f64 {
        if self.unwatched_cpu_ns < UNWATCHED_MIN_NS {
            return 0.0;
        }
        let unwatched_ns = self.unwatched_cpu_ns as f64;
        unwatched_ns / (unwatched_ns + self.ran_ns() as f64)
    }

    /// This stream joined with the next one.
    #[must_use]
    pub fn joined(mut self, next: Stream) -> Stream {
        for thread in next.threads {
            match self.threads.iter_mut().find(|before| before.tid == thread.tid) {
                Some(before) => {
                    before.wakes.extend(thread.wakes);
                    before.asked.extend(thread.asked);
                    before.entries.extend(thread.entries);
                    before.woken.extend(thread.woken);
                    // The records of two CPUs are read at different moments, so sort them.
                    before.woken.sort_by_key(|woken| woken.at_ns);
                    before.woken_from_ns = thread.woken_from_ns.map(|from_ns| before.woken_from_ns.unwrap_or(from_ns));
                    before.switches += thread.switches;
                    before.is_too_much |= thread.is_too_much;
                    before.is_over |= thread.is_over;
                }
                None => self.threads.push(thread),
            }
        }
        self.to_ns = next.to_ns;
        self.unwatched = next.unwatched;
        self.cpu_ns = self.cpu_ns.saturating_add(next.cpu_ns);
        self.unwatched_cpu_ns = self.unwatched_cpu_ns.saturating_add(next.unwatched_cpu_ns);
        self.children = next.children;
        self.unseen = self.unseen.and(next.unseen);
        self.reader_cpu_ns += next.reader_cpu_ns;
        self
    }
}

/// Less CPU time than this is not compared, because the kernel counts it in steps of 10 ms for each thread.
const UNWATCHED_MIN_NS: u64 = 200_000_000;
/// The maximum number of child processes to list.
pub const CHILDREN_MAX: usize = 64;

/// The first line of a recorded stream. The second form may have a function and its entries.
const HEAD: &str = "evenkeel ticks 1";
const HEAD_WITH_ENTRIES: &str = "evenkeel ticks 2";
/// Limits of a recording: its threads, its lines, and the characters of the function's name.
const THREADS_MAX: usize = 4096;
const LINES_MAX: usize = 4_000_000;
const FUNCTION_MAX: usize = 4096;

/// Why a text is not a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}: {text:?}")]
pub struct NoStream {
    /// The number of the invalid line, from 1.
    pub line: usize,
    /// The invalid line, shortened.
    pub text: String,
    /// What is wrong with the line.
    pub why: &'static str,
}

impl Stream {
    /// The text form for files.
    /// Times are in nanoseconds since the beginning,
    /// and each wake is relative to the previous wake of its thread. docs/formats.md describes the form.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let head = if self.function.is_some() { HEAD_WITH_ENTRIES } else { HEAD };
        let mut text = format!("{head}\nspan {}\nunwatched {}\n", self.span_ns(), self.unwatched);
        if let Some(function) = &self.function {
            let _ = writeln!(text, "function {}", printable(function));
        }
        if !self.unseen.is_nothing() {
            let Unseen { records, overflows, wakes } = self.unseen;
            let _ = writeln!(text, "unseen {records} {overflows} {wakes}");
        }
        if self.cpu_ns > 0 {
            let _ = writeln!(text, "cpu {} {}", self.cpu_ns, self.unwatched_cpu_ns);
        }
        if !self.children.is_empty() {
            let children: Vec<String> = self.children.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "children {}", children.join(" "));
        }
        for thread in &self.threads {
            let name = printable(&thread.name);
            let _ = writeln!(text, "thread {} {} {} {name}", thread.pid, thread.tid, thread.switches);
            for (is_set, word) in [(thread.is_too_much, "paused"), (thread.is_over, "ended")] {
                if is_set {
                    let _ = writeln!(text, "{word}");
                }
            }
            for asked in &thread.asked {
                let _ = writeln!(text, "? {}", asked_text(asked, self.from_ns));
            }
            for entered_ns in &thread.entries {
                let _ = writeln!(text, "entered {}", entered_ns.saturating_sub(self.from_ns));
            }
            let mut last_ns = self.from_ns;
            for wake in &thread.wakes {
                let (since, wall) = (wake.start_ns.saturating_sub(last_ns), wake.end_ns.saturating_sub(wake.start_ns));
                let _ = write!(text, "{since} {wall} {} {}", wake.on_cpu_ns.min(wall), wake.cpu);
                if wake.preempted > 0 || wake.is_moved {
                    let _ = write!(text, " {}{}", wake.preempted, if wake.is_moved { " moved" } else { "" });
                }
                text.push('\n');
                last_ns = wake.start_ns;
            }
        }
        text
    }

    /// Parses the text of [`to_text`](Stream::to_text). The clock of the result begins at one second.
    ///
    /// # Errors
    /// Returns the first invalid line.
    pub fn parse(text: &str) -> Result<Stream, NoStream> {
        let refused =
            |line: usize, text: &str, why| NoStream { line: line + 1, text: text.chars().take(80).collect(), why };
        let mut stream = Stream { from_ns: 1_000_000_000, ..Stream::default() };
        let mut last_ns = stream.from_ns;
        let mut has_head = false;
        for (at, line) in text.lines().enumerate() {
            if at >= LINES_MAX {
                return Err(refused(at, line, "too many lines"));
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            if !has_head {
                if line != HEAD && line != HEAD_WITH_ENTRIES {
                    let why =
                        "expected the first line of a recording of ticks, `evenkeel ticks 1` or `evenkeel ticks 2`";
                    return Err(refused(at, line, why));
                }
                has_head = true;
                continue;
            }
            stream.take_line(line, &mut last_ns).map_err(|why| refused(at, line, why))?;
        }
        if !has_head || stream.to_ns == 0 {
            return Err(refused(0, text.lines().next().unwrap_or_default(), "not a recording of ticks"));
        }
        Ok(stream)
    }

    fn take_line(&mut self, line: &str, last_ns: &mut u64) -> Result<(), &'static str> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let from_ns = self.from_ns;
        match word {
            "span" => match number(rest)? {
                0 => return Err("a recording lasts at least 1 ns"),
                ns => self.to_ns = from_ns.checked_add(ns).ok_or("too long")?,
            },
            "function" => self.function = Some(printable(rest).chars().take(FUNCTION_MAX).collect()),
            "unwatched" => self.unwatched = usize::try_from(number(rest)?).map_err(|_| "too many")?,
            "cpu" => [self.cpu_ns, self.unwatched_cpu_ns] = numbers(rest)?,
            "children" => {
                let pids =
                    rest.split(' ').take(CHILDREN_MAX).map(|pid| u32::try_from(number(pid)?).map_err(|_| "no pid"));
                self.children = pids.collect::<Result<_, _>>()?;
            }
            "unseen" => {
                let [records, overflows, wakes] = numbers(rest)?;
                self.unseen = Unseen { records, overflows, wakes };
            }
            "thread" => {
                if self.threads.len() >= THREADS_MAX {
                    return Err("too many threads");
                }
                let mut words = rest.splitn(4, ' ');
                let mut next = || number(words.next().unwrap_or_default());
                let (pid, tid, switches) = (next()?, next()?, next()?);
                let id = |id: u64| u32::try_from(id).map_err(|_| "no such number of a process");
                let name = printable(words.next().unwrap_or_default()).chars().take(64).collect();
                self.threads.push(ThreadLog { pid: id(pid)?, tid: id(tid)?, name, switches, ..ThreadLog::default() });
                *last_ns = from_ns;
            }
            _ => {
                let thread = self.threads.last_mut().ok_or("expected a thread first")?;
                match word {
                    "paused" => thread.is_too_much = true,
                    "ended" => thread.is_over = true,
                    "?" => thread.asked.push(asked_of(rest, from_ns)?),
                    "entered" => {
                        let entered_ns = from_ns.checked_add(number(rest)?).ok_or("too late")?;
                        if thread.entries.last().is_some_and(|last_ns| *last_ns > entered_ns) {
                            return Err("the entry before it is later");
                        }
                        thread.entries.push(entered_ns);
                    }
                    _ => {
                        let wake = wake_of(line, *last_ns)?;
                        if thread.wakes.last().is_some_and(|last| last.end_ns > wake.start_ns) {
                            return Err("it begins before the one before it has ended");
                        }
                        *last_ns = wake.start_ns;
                        thread.wakes.push(wake);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A name in a form that fits on one line.
fn printable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn number(word: &str) -> Result<u64, &'static str> {
    word.parse().map_err(|_| "expected a whole number")
}

fn numbers<const N: usize>(words: &str) -> Result<[u64; N], &'static str> {
    let mut found = [0; N];
    let mut words = words.split(' ');
    for place in &mut found {
        *place = number(words.next().unwrap_or_default())?;
    }
    Ok(found)
}

fn wake_of(line: &str, last_ns: u64) -> Result<Wake, &'static str> {
    let [since, wall, on_cpu_ns, cpu] = numbers(line)?;
    let mut more = line.split(' ').skip(4);
    let preempted = more.next().map_or(Ok(0), number)?;
    let start_ns = last_ns.checked_add(since).ok_or("too late")?;
    if on_cpu_ns > wall {
        return Err("longer on a CPU than awake");
    }
    Ok(Wake {
        start_ns,
        end_ns: start_ns.checked_add(wall).ok_or("too late")?,
        on_cpu_ns,
        preempted: u32::try_from(preempted).map_err(|_| "too often")?,
        cpu: u32::try_from(cpu).map_err(|_| "no such CPU")?,
        is_moved: more.next() == Some("moved"),
    })
}

fn asked_text(asked: &Asked, from_ns: u64) -> String {
    let call = match asked.sleep.call {
        Call::Sleep => "sleep",
        Call::Poll => "poll",
        Call::Futex => "futex",
        Call::Other => "other",
    };
    let at_ns = asked.at_ns.saturating_sub(from_ns);
    match asked.sleep.wait {
        Wait::Until(ns) => format!("{at_ns} {call} until {}", ns.saturating_sub(from_ns)),
        Wait::For(ns) => format!("{at_ns} {call} for {ns}"),
        Wait::Open => format!("{at_ns} {call} open"),
        Wait::Unknown => format!("{at_ns} {call} unknown"),
    }
}

fn asked_of(rest: &str, from_ns: u64) -> Result<Asked, &'static str> {
    let words: Vec<&str> = rest.split(' ').collect();
    let (Some(at), Some(call), Some(wait)) = (words.first(), words.get(1), words.get(2)) else {
        return Err("expected a time, a call and what it waits for");
    };
    let ns = || number(words.get(3).copied().unwrap_or_default());
    let call = match *call {
        "sleep" => Call::Sleep,
        "poll" => Call::Poll,
        "futex" => Call::Futex,
        "other" => Call::Other,
        _ => return Err("expected sleep, poll, futex or other"),
    };
    let wait = match *wait {
        "until" => Wait::Until(from_ns.checked_add(ns()?).ok_or("too late")?),
        "for" => Wait::For(ns()?),
        "open" => Wait::Open,
        "unknown" => Wait::Unknown,
        _ => return Err("expected until, for, open or unknown"),
    };
    Ok(Asked { at_ns: from_ns.checked_add(number(at)?).ok_or("too late")?, sleep: SleepCall { call, wait } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Stream {
        let wake = |start_ns, end_ns, preempted, is_moved| Wake {
            start_ns,
            end_ns,
            on_cpu_ns: (end_ns - start_ns) / 2,
            preempted,
            cpu: 1,
            is_moved,
        };
        let asked = |at_ns, call, wait| Asked { at_ns, sleep: SleepCall { call, wait } };
        let from_ns = 1_000_000_000;
        let thread = ThreadLog {
            pid: 7,
            tid: 8,
            name: "main loop".to_owned(),
            wakes: vec![wake(from_ns + 10, from_ns + 50, 0, false), wake(from_ns + 60, from_ns + 61, 2, true)],
            asked: vec![
                asked(from_ns + 5, Call::Poll, Wait::For(30)),
                asked(from_ns + 6, Call::Sleep, Wait::Until(from_ns + 60)),
                asked(from_ns + 7, Call::Futex, Wait::Open),
                asked(from_ns + 8, Call::Other, Wait::Unknown),
            ],
            entries: vec![from_ns + 12, from_ns + 60],
            switches: 4,
            is_too_much: true,
            is_over: true,
            ..ThreadLog::default()
        };
        let other = ThreadLog { pid: 7, tid: 9, ..ThreadLog::default() };
        Stream {
            from_ns,
            to_ns: from_ns + 100,
            function: Some("game::tick".to_owned()),
            threads: vec![thread, other],
            unwatched: 3,
            cpu_ns: 6,
            unwatched_cpu_ns: 5,
            children: vec![8, 10],
            unseen: Unseen { records: 1, overflows: 2, wakes: 3 },
            reader_cpu_ns: 0,
        }
    }

    #[test]
    fn a_stream_is_read_back_as_it_was_written() {
        assert_eq!(Stream::parse(&example().to_text()), Ok(example()));
        let mut without = example();
        without.function = None;
        without.threads[0].entries.clear();
        let text = without.to_text();
        assert!(text.starts_with("evenkeel ticks 1\n"), "earlier versions can still read this: {text}");
        assert_eq!(Stream::parse(&text), Ok(without));
    }

    #[test]
    fn invalid_streams_are_refused_with_their_line() {
        let table = [
            ("", "not a recording of ticks"),
            ("evenkeel ticks 1\n", "not a recording of ticks"),
            ("evenkeel ticks 3\n", "expected the first line"),
            ("evenkeel ticks 2\nspan 9\nthread 1 2 3 a\nentered 5\nentered 4\n", "the entry before it is later"),
            ("evenkeel ticks 1\nspan x\n", "expected a whole number"),
            ("evenkeel ticks 1\nspan 0\n", "at least 1 ns"),
            ("evenkeel ticks 1\nspan 5\n1 1 1 0\n", "expected a thread first"),
            ("evenkeel ticks 1\nspan 5\nthread 1 2 3 a\n1 1 2 0\n", "longer on a CPU than awake"),
            ("evenkeel ticks 1\nspan 5\nthread 1 2 3 a\n1 9 2 0\n1 1 1 0\n", "before the one before it"),
            ("evenkeel ticks 1\nspan 5\nthread 1 2 3 a\n? 1 dream for 5\n", "expected sleep, poll"),
        ];
        for (text, why) in table {
            let said = Stream::parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text:?}: {said}");
        }
    }

    #[test]
    fn stretches_are_joined_thread_by_thread() {
        let mut next = example();
        next.threads[1].tid = 10;
        let joined = example().joined(next);
        assert_eq!(joined.threads.iter().map(|thread| thread.wakes.len()).collect::<Vec<_>>(), [4, 0, 0]);
        assert_eq!(joined.unseen, Unseen { records: 2, overflows: 4, wakes: 6 });
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(lines in prop::collection::vec("(span|thread|\\?|unseen|entered|function|[0-9]{1,20})( [0-9a-z]{1,20}){0,5}", 0..12)) {
            let _ = Stream::parse(&format!("{HEAD}\n{}", lines.join("\n")));
        }
    }
}
