//! What the counters that a knob's `shows_in` names say now, so that `explain` can tell whether the knob matters here. Counters move,
//! so they are no facts; they are looked up when somebody asks.

use std::collections::BTreeSet;

use evenkeel_host::{Fact, Facts, Knob};
use evenkeel_hostfs::{Refusal, Root, Why};
use serde::Serialize;

/// The most files of one directory that are read.
const FILES_MAX: usize = 64;

/// The most of a file that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// A counter, or why it could not be read.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Reading {
    /// The counter and its file.
    pub(crate) name: String,
    /// As the kernel has it; counts of CPUs are added up.
    pub(crate) value: Fact<String>,
}

/// How the text of a file tells a counter by its name.
type Lookup = fn(&str, &str) -> Option<String>;

/// The files that have many counters, each under its name.
const TABLES: [(&str, Lookup); 6] = [
    ("/proc/vmstat", after_name),
    ("/proc/meminfo", after_name),
    ("/proc/net/snmp", of_udp),
    ("/proc/net/netstat", of_any_header),
    ("/proc/softirqs", over_cpus),
    ("/proc/interrupts", over_cpus),
];

const SOFTNET: &str = "/proc/net/softnet_stat";
const CPUS: &str = "/sys/devices/system/cpu";

/// What a knob shows in, as far as it can be read here.
pub(crate) fn of(knob: &Knob, facts: &Facts, root: &Root) -> Vec<Reading> {
    let told = knob.shows_in;
    let mut readings = Vec::new();
    for (file, lookup) in TABLES.into_iter().filter(|(file, _)| mentions(told, file)) {
        readings.extend(from_table(root, file, |text| {
            let words: BTreeSet<&str> = words(told).collect();
            let counters = words.into_iter().filter_map(|word| Some((word.to_owned(), lookup(text, word)?)));
            counters.collect()
        }));
    }
    if mentions(told, SOFTNET) {
        let columns = columns(told);
        readings.extend(from_table(root, SOFTNET, |text| {
            columns.iter().filter_map(|at| Some((format!("column {at}"), hex_column(text, *at)?))).collect()
        }));
    }
    if told.contains("/cpuidle/state") {
        readings.extend(idle(facts, root));
    }
    readings.extend(files(told, root));
    readings
}

/// Whether the text names this very file, and not one below it.
fn mentions(told: &str, file: &str) -> bool {
    words(told).any(|word| word == file)
}

fn words(told: &str) -> impl Iterator<Item = &str> {
    told.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && !"/_*".contains(c)))
}

fn from_table(root: &Root, file: &str, find: impl FnOnce(&str) -> Vec<(String, String)>) -> Vec<Reading> {
    match text_of(root, file) {
        Ok(text) => find(&text)
            .into_iter()
            .map(|(name, value)| Reading { name: format!("{name} in {file}"), value: Fact::Known(value) })
            .collect(),
        Err(refusal) => vec![refused(file, refusal)],
    }
}

/// A capture holds counters of the network under the process that took it, to which /proc/net is a link.
fn text_of(root: &Root, file: &str) -> Result<String, Refusal> {
    let own = |refusal: Refusal| match (refusal.why, file.strip_prefix("/proc/net/")) {
        (Why::NotCaptured, Some(name)) => root.text(&format!("/proc/self/net/{name}")).map_err(|_| refusal),
        _ => Err(refusal),
    };
    root.text(file).or_else(own)
}

fn refused(file: &str, refusal: Refusal) -> Reading {
    let why = match refusal.why {
        Why::NotCaptured => "the capture does not hold this counter: most of them move and are left out".to_owned(),
        _ => refusal.to_string(),
    };
    Reading { name: file.to_owned(), value: Fact::absent(why) }
}

/// `pswpin 12`, `Dirty:  4 kB`.
fn after_name(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.find_map(|rest| rest.strip_prefix(':').or(rest.strip_prefix(' ')))?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn of_udp(text: &str, name: &str) -> Option<String> {
    under_header(text.lines().filter(|line| line.starts_with("Udp:")), name)
}

fn of_any_header(text: &str, name: &str) -> Option<String> {
    under_header(text.lines(), name)
}

/// Pairs of lines: names, and below them their values.
fn under_header<'a>(lines: impl Iterator<Item = &'a str>, name: &str) -> Option<String> {
    let lines: Vec<&str> = lines.collect();
    lines.chunks_exact(2).find_map(|pair| {
        let column = pair[0].split_whitespace().skip(1).position(|word| word == name)?;
        pair[1].split_whitespace().nth(column + 1).map(str::to_owned)
    })
}

/// `NMI: 1 2  Non-maskable interrupts`: the sum. Interrupts that go by a number are not asked for by name.
fn over_cpus(text: &str, name: &str) -> Option<String> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let counts = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let numbers = counts.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    Some(numbers.fold(0, u64::saturating_add).to_string())
}

/// The numbers that follow the word "column".
fn columns(told: &str) -> Vec<usize> {
    let all: Vec<&str> = words(told).collect();
    let pairs = all.windows(2).filter(|pair| pair[0] == "column");
    pairs.filter_map(|pair| pair[1].parse().ok()).filter(|column| *column > 0).collect()
}

/// A column, counted from 1, of hexadecimal numbers over all lines.
fn hex_column(text: &str, column: usize) -> Option<String> {
    let mut numbers = text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(column - 1)?, 16).ok());
    let sum = numbers.try_fold(0, |sum: u64, number| Some(sum.saturating_add(number?)))?;
    Some(sum.to_string())
}

/// How often each idle state was entered, over all CPUs.
fn idle(facts: &Facts, root: &Root) -> Vec<Reading> {
    let (Some(states), Some(online)) = (facts.idle.states.known(), facts.cpus.online.known()) else {
        return Vec::new();
    };
    let reading = |state: &evenkeel_host::facts::IdleState| {
        let name = state.name.known().map(|name| format!(" ({name})")).unwrap_or_default();
        let mut sum = 0_u64;
        for cpu in online.iter() {
            match root.text(&format!("{CPUS}/cpu{cpu}/cpuidle/state{}/usage", state.index)) {
                Ok(text) => sum = sum.saturating_add(text.trim().parse().unwrap_or(0)),
                Err(refusal) => return refused(&format!("usage of state{}{name}", state.index), refusal),
            }
        }
        Reading {
            name: format!("usage of state{}{name} over all CPUs", state.index),
            value: Fact::Known(sum.to_string()),
        }
    };
    states.iter().map(reading).collect()
}

/// Files under /sys and /proc/sys that are named in full, and those of a directory (`/*`) whose names are.
fn files(told: &str, root: &Root) -> Vec<Reading> {
    let is_plain = |path: &&str| {
        let under = path.starts_with("/sys/") || path.starts_with("/proc/sys/");
        // Capitals stand for a name that the reader fills in.
        under && !path.contains("/cpuidle/") && !path.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    let mut paths = Vec::new();
    for path in words(told).filter(is_plain) {
        match path.strip_suffix("/*") {
            Some(folder) => {
                let names = root.entries(folder).unwrap_or_default();
                paths.extend(names.iter().take(FILES_MAX).map(|name| format!("{folder}/{name}")));
            }
            None if !path.contains('*') => paths.push(path.to_owned()),
            None => {}
        }
    }
    let reading = |path: String| match root.text(&path) {
        Ok(text) => {
            let shown: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
            Reading { name: path, value: Fact::Known(if shown.is_empty() { "empty".to_owned() } else { shown }) }
        }
        Err(refusal) => refused(&path, refusal),
    };
    paths.into_iter().map(reading).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_host::knobs;
    use evenkeel_hostfs::Capture;
    use expect_test::{Expect, expect};

    use super::*;

    const MACHINE: &str = "evenkeel-capture 1\n/proc/vmstat =\n| pswpin 3\n| pswpin_extra 9\n| pswpout 0\n\
        /proc/meminfo =\n| MemTotal: 10 kB\n| Dirty:        48 kB\n\
        /proc/net/snmp =\n| Tcp: InErrs\n| Tcp: 9\n| Udp: InDatagrams RcvbufErrors MemErrors\n| Udp: 7 5 0\n\
        /proc/net/netstat =\n| TcpExt: A B\n| TcpExt: 1 2\n| IpExt: BusyPollRxPackets\n| IpExt: 4\n\
        /proc/softirqs =\n|         CPU0 CPU1\n|  NET_RX:   10   20\n\
        /proc/interrupts =\n|   CPU0 CPU1\n| 10: 5 5 PCI x\n| NMI: 1 2   Non-maskable interrupts\n\
        /proc/net/softnet_stat =\n| 0000000a 00000001 00000002\n| 0000000b 0000000f 00000000\n\
        /sys/devices/system/cpu/online = 0-1\n/sys/devices/system/cpu/present = 0-1\n\
        /sys/devices/system/cpu/cpu0/cpuidle/state0/name = POLL\n\
        /sys/devices/system/cpu/cpu0/cpuidle/state0/latency = 0\n/sys/devices/system/cpu/cpu0/cpuidle/state0/disable = 0\n\
        /sys/devices/system/cpu/cpu0/cpuidle/state0/usage = 40\n/sys/devices/system/cpu/cpu1/cpuidle/state0/usage = 2\n\
        /sys/devices/system/cpu/isolated =\n/sys/x/a = 1\n/sys/x/b = 2\nend\n";

    fn check(shows_in: &'static str, expected: Expect) {
        let root = Root::captured(Capture::parse(MACHINE).unwrap());
        let facts = Facts::probe(&root);
        let knob = Knob { shows_in, ..**knobs::ALL.first().unwrap() };
        let told = of(&knob, &facts, &root).into_iter().map(|reading| match reading.value.known() {
            Some(value) => format!("{}: {value}\n", reading.name),
            None => format!("{}: unknown: {}\n", reading.name, reading.value.unknown_why().unwrap_or_default()),
        });
        expected.assert_eq(&told.collect::<String>());
    }

    #[test]
    fn counters_are_found_by_the_words_of_the_text() {
        check(
            "pswpin and pswpout in /proc/vmstat, major faults",
            expect![[r#"
            pswpin in /proc/vmstat: 3
            pswpout in /proc/vmstat: 0
        "#]],
        );
        check(
            "Dirty and Writeback in /proc/meminfo",
            expect![[r#"
            Dirty in /proc/meminfo: 48 kB
        "#]],
        );
        check(
            "RcvbufErrors on the Udp line of /proc/net/snmp, the drops column of /proc/net/udp",
            expect![[r#"
            RcvbufErrors in /proc/net/snmp: 5
        "#]],
        );
        check(
            "BusyPollRxPackets in /proc/net/netstat",
            expect![[r#"
            BusyPollRxPackets in /proc/net/netstat: 4
        "#]],
        );
        check(
            "column 3 of /proc/net/softnet_stat, column 2 (drops), NET_RX in /proc/softirqs",
            expect![[r#"
            NET_RX in /proc/softirqs: 30
            column 3 in /proc/net/softnet_stat: 2
            column 2 in /proc/net/softnet_stat: 16
        "#]],
        );
        check(
            "/proc/interrupts by CPU over more than 10 s; NMI",
            expect![[r#"
            NMI in /proc/interrupts: 3
        "#]],
        );
        check(
            "usage of /sys/devices/system/cpu/cpu*/cpuidle/state*",
            expect![[r#"
            usage of state0 (POLL) over all CPUs: 42
        "#]],
        );
        check(
            "/sys/devices/system/cpu/isolated, /sys/x/*; /sys/block/DISK/inflight",
            expect![[r#"
            /sys/devices/system/cpu/isolated: empty
            /sys/x/a: 1
            /sys/x/b: 2
        "#]],
        );
        check(
            "nr_dirty in /proc/vmstat of /proc/PID/status, /sys/y/none",
            expect![[r#"
                /sys/y/none: unknown: the capture does not hold this counter: most of them move and are left out
            "#]],
        );
        check("column 0 and column 99 of /proc/net/softnet_stat", expect![[""]]);
    }

    #[test]
    fn every_knob_can_be_asked() {
        let root = Root::captured(Capture::parse("evenkeel-capture 1\nend\n").unwrap());
        let facts = Facts::probe(&root);
        for knob in knobs::ALL {
            for reading in of(knob, &facts, &root) {
                assert!(reading.value.known().is_none(), "{}: {reading:?}", knob.id);
            }
        }
    }
}
