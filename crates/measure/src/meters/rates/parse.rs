//! Parsers of the kernel's counters. Every function is total: a text of the wrong form gives nothing.

use std::collections::BTreeMap;

use evenkeel_sys::MAX_CPUS;

/// The most lines of a text to read. /proc/vmstat has under 200.
const LINES_MAX: usize = 8192;

/// The kinds of CPU time, in the order of /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In user space; `guest` is a part of it.
    pub user: u64,
    /// In user space, with a positive nice value.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a thread waits for a disk. The kernel sometimes decreases this count.
    pub iowait: u64,
    /// In interrupts.
    pub irq: u64,
    /// In softirqs.
    pub softirq: u64,
    /// Stolen by the hypervisor.
    pub steal: u64,
}

/// The contents of /proc/stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The online CPUs, with their times in hundredths of a second.
    pub cpus: BTreeMap<usize, Ticks>,
    /// Switches between threads.
    pub context_switches: u64,
    /// Interrupts of all kinds.
    pub interrupts: u64,
    /// Softirqs.
    pub softirqs: Option<u64>,
    /// Created processes and threads.
    pub forks: Option<u64>,
}

/// Parses /proc/stat.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let mut stat = Stat::default();
    let (mut switches, mut interrupts) = (None, None);
    // Of the interrupt line, read only the sum. With 200 CPUs the rest is thousands of numbers.
    for line in text.lines().take(LINES_MAX) {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let first = || rest.split_ascii_whitespace().next()?.parse::<u64>().ok();
        match name {
            "cpu" => {}
            "ctxt" => switches = first(),
            "intr" => interrupts = first(),
            "softirq" => stat.softirqs = first(),
            "processes" => stat.forks = first(),
            _ => {
                let Some(number) = name.strip_prefix("cpu") else { continue };
                let cpu = number.parse().ok().filter(|cpu| *cpu < MAX_CPUS)?;
                if stat.cpus.insert(cpu, parse_ticks(rest)?).is_some() {
                    return None;
                }
            }
        }
    }
    (stat.context_switches, stat.interrupts) = (switches?, interrupts?);
    (!stat.cpus.is_empty()).then_some(stat)
}

fn parse_ticks(text: &str) -> Option<Ticks> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(Ticks {
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next()?,
        irq: next()?,
        softirq: next()?,
        steal: next()?,
    })
}

/// Numbers by name.
pub type Pairs = BTreeMap<String, u64>;

/// `NAME NUMBER` per line (/proc/vmstat, cpu.stat, memory.stat). Other lines are skipped.
pub fn parse_pairs(text: &str) -> Option<Pairs> {
    let pair = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    let pairs: Pairs = text.lines().take(LINES_MAX).filter_map(pair).collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// `Name: NUMBER` per line, in bytes if the unit is kB (/proc/meminfo, and a process's status and smaps_rollup). Other lines are skipped.
pub fn parse_fields(text: &str) -> Option<Pairs> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let mut words = value.split_ascii_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        let scale = match words.next() {
            None => 1,
            Some("kB") => 1024,
            Some(_) => return None,
        };
        Some((name.to_owned(), number.checked_mul(scale)?))
    };
    let fields: Pairs = text.lines().take(LINES_MAX).filter_map(field).collect();
    (!fields.is_empty()).then_some(fields)
}

/// Stall times since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// At least one thread waited, in microseconds.
    pub some_us: u64,
    /// All non-idle threads waited, in microseconds. Older kernels do not report this for CPUs.
    pub full_us: Option<u64>,
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12` and the same for `full`.
pub fn parse_stalls(text: &str) -> Option<Stalls> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        line.split(' ').find_map(|word| word.strip_prefix("total="))?.trim().parse().ok()
    };
    Some(Stalls { some_us: total("some")?, full_us: total("full") })
}

/// The contents of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name, which may contain any character.
    pub name: String,
    /// Whether it has ended and waits for its parent (zombie).
    pub is_zombie: bool,
    /// Page faults without disk access, of all its threads, including ended ones.
    pub minor_faults: u64,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u64,
    /// CPU time in hundredths of a second.
    pub cpu_ticks: u64,
    /// When it started, in hundredths of a second since boot. This distinguishes it from a later process with the same number.
    pub start_ticks: u64,
}

/// Parses /proc/PID/stat.
pub fn parse_process(text: &str) -> Option<Process> {
    // The name is in parentheses, and may itself contain parentheses, spaces and newlines.
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(open + 1..close)?.to_owned();
    let words: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().take(64).collect();
    // Numbered from 1 as in proc_pid_stat(5), where the state is the third.
    let number = |field: usize| words.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        name,
        is_zombie: matches!(words.first(), Some(&("Z" | "X" | "x"))),
        minor_faults: number(10)?,
        major_faults: number(12)?,
        cpu_ticks: number(14)?.checked_add(number(15)?)?,
        start_ticks: number(22)?,
    })
}

/// The control groups, by the hierarchy's controllers; version 2 names none.
pub fn parse_membership(text: &str) -> Option<Vec<(String, String)>> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        path.starts_with('/').then(|| (controllers.to_owned(), path.to_owned()))
    };
    text.lines().take(64).map(line).collect()
}

/// A limit in bytes: `max`, or a number. Version 1 reports nearly 2^63 for a group without a limit.
pub fn parse_limit(text: &str) -> Option<Option<u64>> {
    const NONE: u64 = 1 << 62;
    match text.trim() {
        "max" => Some(None),
        number => number.parse().ok().map(|bytes: u64| (bytes < NONE).then_some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_own_texts_are_read() {
        let stat = parse_stat("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 99 1 2\nctxt 5\nbtime 1\nprocesses 3\nsoftirq 12 1 11\n").unwrap();
        let ticks = Ticks { user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 };
        assert_eq!(stat.cpus, BTreeMap::from([(0, ticks)]));
        assert_eq!((stat.context_switches, stat.interrupts, stat.softirqs, stat.forks), (5, 99, Some(12), Some(3)));
        for odd in ["", "ctxt 1\nintr 1\n", "cpu0 1 2 3\nctxt 1\nintr 1", "cpu0 1 2 3 4 5 6 7 8\nctxt x\nintr 1"] {
            assert_eq!(parse_stat(odd), None, "{odd}");
        }
        assert_eq!(parse_stat("cpu99999 1 2 3 4 5 6 7 8\nctxt 1\nintr 1"), None, "no machine has that many CPUs");

        let stalls =
            parse_stalls("some avg10=11.32 avg60=19.01 avg300=21.92 total=5050209181\nfull avg10=0.00 total=7\n");
        assert_eq!(stalls, Some(Stalls { some_us: 5_050_209_181, full_us: Some(7) }));
        assert_eq!(parse_stalls("some total=5"), Some(Stalls { some_us: 5, full_us: None }));
        assert_eq!(parse_stalls("full total=5"), None);

        let text = "7 (a ) b\n(c) R 1 1 1 0 -1 4194304 101 0 3 0 20 22 0 0 20 0 1 0 1278913 3133440 390 1";
        let process = parse_process(text).unwrap();
        assert_eq!((process.name.as_str(), process.is_zombie), ("a ) b\n(c", false));
        assert_eq!((process.minor_faults, process.major_faults), (101, 3));
        assert_eq!((process.cpu_ticks, process.start_ticks), (42, 1_278_913));
        assert_eq!(parse_process("7 )a( R 1"), None);

        let fields =
            parse_fields("Name:\tcat\nVmSwap:\t 12 kB\nThreads:\t2\nOdd: 3 MB\nHuge: 99999999999999999999 kB\n");
        assert_eq!(fields.unwrap(), Pairs::from([("VmSwap".into(), 12_288), ("Threads".into(), 2)]));
        assert_eq!(parse_pairs("nr_periods 3\nrubbish\n").unwrap(), Pairs::from([("nr_periods".into(), 3)]));
        assert_eq!(parse_pairs(""), None);

        let membership = parse_membership("2:cpu,cpuacct:/a/b:c\n0::/x\n").unwrap();
        assert_eq!(membership, [("cpu,cpuacct".into(), "/a/b:c".into()), (String::new(), "/x".to_owned())]);
        assert_eq!(parse_membership("rubbish"), None);
        assert_eq!(parse_limit("max\n"), Some(None));
        assert_eq!(parse_limit("9223372036854771712\n"), Some(None));
        assert_eq!(parse_limit("1048576\n"), Some(Some(1_048_576)));
        assert_eq!(parse_limit("x"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(
            text in "((cpu[0-9]{0,22}|ctxt|intr|some|full|total=|Name:|kB|max|[0-9]{1,22}|[0-9]:a,b:/|[()])[ \t\n]{0,2}){0,24}|.{0,40}"
        ) {
            let _ = (parse_stat(&text), parse_pairs(&text), parse_fields(&text), parse_stalls(&text));
            let _ = (parse_process(&text), parse_membership(&text), parse_limit(&text));
        }
    }
}
