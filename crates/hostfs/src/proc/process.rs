//! /proc/PID/stat, also of threads, and the numbers of processes and threads.

/// The contents of /proc/PID/stat, without the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The number of the process or thread, as this /proc shows it.
    pub pid: u32,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// The number of the parent process. 0 without a parent.
    pub parent: u32,
    /// The process group. 0 if the group has ended, or belongs to another namespace.
    pub group: u32,
    /// The session. 0 if the session has ended, or belongs to another namespace.
    pub session: u32,
    /// Page faults without disk access, of all the process's threads, including ended ones.
    pub minor_faults: u64,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u64,
    /// CPU time in user space and the kernel, in [ticks](super::TICK_NS).
    pub cpu_ticks: u64,
    /// When the process started, in [ticks](super::TICK_NS) since boot. Together with `pid`, the start time identifies a process.
    pub start_ticks: u64,
    /// The CPU on which the process last ran. `None` before Linux 2.2.
    pub cpu: Option<usize>,
    /// The number of the scheduling policy, as in sched(7).
    pub policy: Option<u32>,
}

impl ProcessStat {
    /// Reads the process, or a thread by its number. `None` if it does not exist.
    pub fn read(pid: u32) -> Option<ProcessStat> {
        read_live(&format!("/proc/{pid}/stat")).map(|(stat, _)| stat)
    }

    /// Reads one of the threads of a process, with its name.
    pub fn read_thread(pid: u32, tid: u32) -> Option<(ProcessStat, String)> {
        read_live(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    /// Whether the process has not ended. A zombie has ended, and waits for its parent.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn read_live(path: &str) -> Option<(ProcessStat, String)> {
    // A name may contain any bytes.
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    parse_process(&text).map(|(stat, name)| (stat, name.to_owned()))
}

/// `PID (NAME) STATE PARENT …`, with the name, which may contain anything, including parentheses and newlines.
pub fn parse_process(text: &str) -> Option<(ProcessStat, &str)> {
    let (before, rest) = text.rsplit_once(')')?;
    let (pid, name) = before.split_once('(')?;
    let mut words = rest.split_ascii_whitespace();
    let mut state = words.next()?.chars();
    // From here on, the field numbers are those of proc_pid_stat(5), where the parent is field 4.
    let mut at = 4;
    let mut word = |field: usize| {
        let word = words.nth(field - at);
        at = field + 1;
        word
    };
    // A process that is exiting has the group and session -1.
    let small = |word: &str| word.parse::<i64>().ok().map(|number| u32::try_from(number).unwrap_or(0));
    let stat = ProcessStat {
        pid: pid.trim().parse().ok()?,
        state: state.next().filter(|_| state.as_str().is_empty())?,
        parent: small(word(4)?)?,
        group: small(word(5)?)?,
        session: small(word(6)?)?,
        minor_faults: word(10)?.parse().ok()?,
        major_faults: word(12)?.parse().ok()?,
        cpu_ticks: word(14)?.parse::<u64>().ok()?.checked_add(word(15)?.parse().ok()?)?,
        start_ticks: word(22)?.parse().ok()?,
        cpu: word(39).and_then(|cpu| cpu.parse().ok()),
        policy: word(41).and_then(|policy| policy.parse().ok()),
    };
    Some((stat, name))
}

/// The numbers of all processes in /proc, in no particular order.
pub fn processes() -> impl Iterator<Item = u32> {
    numbers("/proc")
}

/// The numbers of a process's threads, in no particular order. Empty if the process does not exist.
pub fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers(&format!("/proc/{pid}/task"))
}

fn numbers(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "41 (a) b (c) S 1 41 40 0 -1 4194560 210 0 3 0 20 22 0 0 20 0 1 0 4711 2400256 190";
    const PARSED: ProcessStat = ProcessStat {
        pid: 41,
        state: 'S',
        parent: 1,
        group: 41,
        session: 40,
        minor_faults: 210,
        major_faults: 3,
        cpu_ticks: 42,
        start_ticks: 4711,
        cpu: None,
        policy: None,
    };

    #[test]
    fn a_process_is_read_whatever_its_name() {
        assert_eq!(parse_process(STAT), Some((PARSED, "a) b (c")));
        let renamed = STAT.replace("a) b (c", "\n) R 7 7 7 \n");
        assert_eq!(parse_process(&renamed), Some((PARSED, "\n) R 7 7 7 \n")));
        let whole = format!("{STAT} 1 2 3 4 5 6 7 8 9 10 11 12 13 17 7 0 1 0\n");
        let expected = ProcessStat { cpu: Some(7), policy: Some(1), ..PARSED };
        assert_eq!(parse_process(&whole).map(|(stat, _)| stat), Some(expected));
        let going = parse_process("41 (a) X 0 -1 -1 0 -1 4194560 210 0 3 0 20 22 0 0 20 0 1 0 4711 0").unwrap().0;
        assert_eq!((going.group, going.session, going.is_alive()), (0, 0, false));
        let table = [
            "",
            "41",
            "41 (a",
            "41 (a)",
            "41 (a) ",
            "41 a) S",
            "41 (a) S 1 2",
            "41 (a) Z 1 2 3",
            "7 )a( R 1",
            "41 (a) SS 1 41 40 0 -1 0 2 0 3 0 7 2 0 0 20 0 1 0 4711",
            "x (a) S 1 41 40 0 -1 0 2 0 3 0 7 2 0 0 20 0 1 0 4711",
        ];
        for odd in table {
            assert_eq!(parse_process(odd), None, "{odd}");
        }
    }

    #[test]
    fn this_process_is_read() {
        let ours = ProcessStat::read(std::process::id()).unwrap();
        assert!(ours.is_alive() && ours.minor_faults > 0 && ours.start_ticks > 0 && ours.cpu.is_some());
        assert!(processes().any(|pid| pid == ours.pid));
        assert!(threads(ours.pid).any(|tid| ProcessStat::read_thread(ours.pid, tid).is_some()));
        assert_eq!(ProcessStat::read(u32::MAX), None);
        assert_eq!(threads(u32::MAX).count(), 0);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "([0-9]{1,3} \\(.{0,5}\\) [A-Z] ([0-9-]{1,21} ){0,44})?.{0,20}") {
            let _ = parse_process(&text);
        }
    }
}
