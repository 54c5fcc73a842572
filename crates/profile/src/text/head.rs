//! Parses the first line of a sample: thread, CPU, time and event.

use crate::recording::Turn;

/// The parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) name: &'a str,
    pub(super) pid: Option<u32>,
    pub(super) tid: u32,
    pub(super) cpu: Option<u32>,
    pub(super) at_ns: Option<u64>,
    pub(super) kind: LineKind<'a>,
}

/// The kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind<'a> {
    /// A sample, with the text after the event.
    Sample { event: &'a str, period: Option<u64>, rest: &'a str },
    /// A switch (`--show-switch-events`).
    Switched { turn: Turn, other: Option<(u32, u32)> },
    /// Another record (`--show-task-events` and the like).
    Other,
}

/// The maximum number of words to try as the thread's number. A thread name has at most fifteen characters, so it has few words.
const TRIES_MAX: usize = 10;

impl<'a> Head<'a> {
    /// Parses a line. None if the line is not the first line of a sample or of another record.
    /// Names may contain spaces and numbers. So the thread's number is the first word after which the rest of the line parses.
    pub(super) fn parse(line: &'a str) -> Option<Head<'a>> {
        let line = line.trim_start();
        let mut at = word(line)?.len();
        for _ in 0..TRIES_MAX {
            let rest = line.get(at..)?;
            let blanks = rest.len() - rest.trim_start().len();
            let found = word(rest.trim_start())?;
            if let Some((pid, tid)) = numbers(found) {
                let behind = rest.get(blanks + found.len()..)?;
                if let Some((cpu, at_ns, kind)) = behind_numbers(behind) {
                    return Some(Head { name: line.get(..at)?.trim_end(), pid, tid, cpu, at_ns, kind });
                }
            }
            at += blanks + found.len();
        }
        None
    }
}

/// Parses the text after the thread's number: CPU, time, period and event. Only the event is required.
fn behind_numbers(text: &str) -> Option<(Option<u32>, Option<u64>, LineKind<'_>)> {
    let mut rest = text.trim_start();
    let mut next = |take: &dyn Fn(&str) -> bool| {
        let first = word(rest).filter(|first| take(first))?;
        rest = rest.get(first.len()..)?.trim_start();
        Some(first)
    };
    let cpu = next(&|word| cpu(word).is_some()).and_then(cpu);
    let at_ns = next(&|word| time_ns(word).is_some()).and_then(time_ns);
    if let Some(kind) = record(rest) {
        return Some((cpu, at_ns, kind));
    }
    let mut next = |take: &dyn Fn(&str) -> bool| {
        let first = word(rest).filter(|first| take(first))?;
        rest = rest.get(first.len()..)?.trim_start();
        Some(first)
    };
    let period = next(&|word| word.parse::<u64>().is_ok()).and_then(|word| word.parse().ok());
    let event = next(&is_event)?.trim_end_matches(':');
    Some((cpu, at_ns, LineKind::Sample { event, period, rest }))
}

fn word(text: &str) -> Option<&str> {
    text.split([' ', '\t']).next().filter(|word| !word.is_empty())
}

/// Parses the process and the thread: `4711` or `4711/4713`.
fn numbers(word: &str) -> Option<(Option<u32>, u32)> {
    match word.split_once('/') {
        Some((pid, tid)) => Some((Some(number(pid)?), number(tid)?)),
        None => Some((None, number(word)?)),
    }
}

/// The number of an ended thread is -1.
fn number(text: &str) -> Option<u32> {
    if text == "-1" {
        Some(u32::MAX)
    } else {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }
}

/// Parses the CPU: `[003]`.
fn cpu(word: &str) -> Option<u32> {
    number(word.strip_prefix('[')?.strip_suffix(']')?)
}

/// Parses the time in seconds: `12345.678901:`.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, part) = word.strip_suffix(':')?.split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(seconds) || !is_digits(part) || part.len() > 9 {
        return None;
    }
    let part_ns = part.parse::<u64>().ok()?.checked_mul(10_u64.pow(9 - part.len() as u32))?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part_ns)
}

/// Whether a word is an event: `cycles:`, `sched:sched_switch:`, `cpu/event=0x3c/:`.
fn is_event(word: &str) -> bool {
    let name = word.trim_end_matches(':');
    word.ends_with(':') && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Parses a record other than a sample: `PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid: 0/0`.
fn record(text: &str) -> Option<LineKind<'_>> {
    let kind = text.strip_prefix("PERF_RECORD_")?;
    let Some(switch) = kind.strip_prefix("SWITCH_CPU_WIDE ").or_else(|| kind.strip_prefix("SWITCH ")) else {
        return Some(LineKind::Other);
    };
    let mut words = switch.split_whitespace();
    let is_out = words.next()? == "OUT";
    let is_preempted = words.next() == Some("preempt");
    let turn = match (is_out, is_preempted) {
        (false, _) => Turn::In,
        (true, false) => Turn::Slept,
        (true, true) => Turn::Preempted,
    };
    let other = switch.split_once("pid/tid:").and_then(|(_, other)| numbers(word(other.trim_start())?));
    let other = other.and_then(|(pid, tid)| Some((pid?, tid)));
    Some(LineKind::Switched { turn, other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_a_first_line() {
        let sample = |event, period, rest| LineKind::Sample { event, period, rest };
        let head = |name, pid, tid, cpu, at_ns, kind| Some(Head { name, pid, tid, cpu, at_ns, kind });
        let at = Some(12_345_678_901_000);
        let rest = "ffffffff8105a2b4 halt+0x4 ([kernel.kallsyms])";
        let cases = [
            (
                "swapper     0 [003] 12345.678901:     250000 cycles:ppp: ",
                head("swapper", None, 0, Some(3), at, sample("cycles:ppp", Some(250_000), "")),
            ),
            // Lines without a period, a CPU, or a time. A line with nanoseconds. A line with process and thread.
            (
                "java 4711/4713 12345.678901000: cycles:",
                head("java", Some(4711), 4713, None, at, sample("cycles", None, "")),
            ),
            ("java 4711 cycles: ", head("java", None, 4711, None, None, sample("cycles", None, ""))),
            ("java 4711 7 cycles: ", head("java", None, 4711, None, None, sample("cycles", Some(7), ""))),
            ("java 4711 [000] cycles:", head("java", None, 4711, Some(0), None, sample("cycles", None, ""))),
            // Names with blanks and numbers.
            (
                "V8 WorkerThread 24636/25607 [000] 12345.678901: 100 cycles:",
                head("V8 WorkerThread", Some(24636), 25607, Some(0), at, sample("cycles", Some(100), "")),
            ),
            (
                "    tick 60 hz  17 [001] 12345.678901:  5 cpu-clock: ",
                head("tick 60 hz", None, 17, Some(1), at, sample("cpu-clock", Some(5), "")),
            ),
            (
                "worker 3 17 12345.678901: 5 cpu-clock:",
                head("worker 3", None, 17, None, at, sample("cpu-clock", Some(5), "")),
            ),
            // Without call chains, the frame is at the end of the line. For a tracepoint, the end of the line is its text.
            (
                "swapper 0 [000] 12345.678901: 1 cycles:  ffffffff8105a2b4 halt+0x4 ([kernel.kallsyms])",
                head("swapper", None, 0, Some(0), at, sample("cycles", Some(1), rest)),
            ),
            (
                "redis 7 [001] 12345.678901: sched:sched_switch: prev_comm=a: b prev_pid=7",
                head("redis", None, 7, Some(1), at, sample("sched:sched_switch", None, "prev_comm=a: b prev_pid=7")),
            ),
            (
                "a 7 12345.678901: 1 cpu/event=0x3c,name=x/:",
                head("a", None, 7, None, at, sample("cpu/event=0x3c,name=x/", Some(1), "")),
            ),
            (
                ":-1 -1 [000] 12345.678901: 1 cycles:",
                head(":-1", None, u32::MAX, Some(0), at, sample("cycles", Some(1), "")),
            ),
            // Switches and other records.
            (
                "a 7/8 [001] 12345.678901: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:  9/10",
                head("a", Some(7), 8, Some(1), at, LineKind::Switched { turn: Turn::Preempted, other: Some((9, 10)) }),
            ),
            (
                "a 7 12345.678901: PERF_RECORD_SWITCH IN         ",
                head("a", None, 7, None, at, LineKind::Switched { turn: Turn::In, other: None }),
            ),
            ("a 7 12345.678901: PERF_RECORD_COMM exec: a:7/7", head("a", None, 7, None, at, LineKind::Other)),
            // Lines that are not a head.
            ("hello", None),
            ("", None),
            ("java 4711 [000] 12345.678901:", None),
            ("4711 cycles:", None),
            ("    ffffffff8105a2b4 do_idle+0xa4 ([kernel.kallsyms])", None),
            ("    7f12 std::map<int, a::b>::at (int) (/usr/lib/x.so)", None),
            ("a 99999999999 cycles:", None),
            ("a 7 99999999999999999999.0: cycles:", None),
        ];
        for (line, expected) in cases {
            assert_eq!(Head::parse(line), expected, "{line}");
        }
    }
}
