//! Reads the counters of a knob (`read_in`), so that `explain` shows whether the knob matters on this machine.
//! Counters change by themselves, so they are not facts, and evenkeel reads them only on request.

use evenkeel_host::{CounterPlace, Fact, Facts, Knob};
use evenkeel_hostfs::proc::{field, hex_column, parse_per_cpu, under_name};
use evenkeel_hostfs::{Refusal, Root, Why};
use serde::Serialize;

/// The maximum number of files to read in one directory.
const FILES_MAX: usize = 64;

/// The maximum number of characters to show from a file.
const SHOWN_CHARS_MAX: usize = 200;

/// A counter with its value, or the reason why it could not be read.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Reading {
    /// The name of the counter, and its file.
    pub(crate) name: String,
    /// The value as the kernel reports it. Counts of several CPUs are added.
    pub(crate) value: Fact<String>,
}

const SOFTNET: &str = "/proc/net/softnet_stat";
const CPUS: &str = "/sys/devices/system/cpu";

/// The counters that show the effect of a knob. Only counters that this machine can show are present.
pub(crate) fn knob_readings(knob: &Knob, facts: &Facts, root: &Root) -> Vec<Reading> {
    let read = |place: &CounterPlace| match *place {
        CounterPlace::Table { file, names } => from_table(root, file, |text| {
            names.iter().filter_map(|name| Some(((*name).to_owned(), counter(file, text, name)?))).collect()
        }),
        CounterPlace::SoftnetColumns(columns) => from_table(root, SOFTNET, |text| {
            columns
                .iter()
                .filter_map(|at| Some((format!("column {at}"), hex_column(text, at - 1)?.to_string())))
                .collect()
        }),
        CounterPlace::IdleUsage => idle(facts, root),
        CounterPlace::File(path) => vec![whole(root, path.to_owned())],
        CounterPlace::Folder(folder) => {
            let names = root.entries(folder).unwrap_or_default();
            names.iter().take(FILES_MAX).map(|name| whole(root, format!("{folder}/{name}"))).collect()
        }
    };
    knob.extras.read_in.iter().flat_map(read).collect()
}

/// The value of a name in a file's table; `None` if the table does not have the name.
fn counter(file: &str, text: &str, name: &str) -> Option<String> {
    match file {
        "/proc/net/snmp" => under_name(text, Some("Udp"), name).map(str::to_owned),
        "/proc/net/netstat" => under_name(text, None, name).map(str::to_owned),
        "/proc/softirqs" | "/proc/interrupts" => over_cpus(text, name),
        _ => after_name(text, name),
    }
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

/// Reads a file. /proc/net is a link to the folder of the reading process.
/// So in a capture, the network counters are under the process that took the capture.
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

/// The value after a name, as in `pswpin 12` or `Dirty:  4 kB`.
fn after_name(text: &str, name: &str) -> Option<String> {
    let value = field(text, name, ':').or_else(|| field(text, name, ' '))?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// The sum over all CPUs of a named interrupt, as in `NMI: 1 2  Non-maskable interrupts`.
fn over_cpus(text: &str, name: &str) -> Option<String> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let row = parse_per_cpu(text).rows().find(|row| row.label == name)?;
    Some(row.counts().fold(0, u64::saturating_add).to_string())
}

/// For each idle state, how often all CPUs together entered it.
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

/// The whole content of a file.
fn whole(root: &Root, path: String) -> Reading {
    match root.text(&path) {
        Ok(text) => {
            let shown: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
            Reading { name: path, value: Fact::Known(if shown.is_empty() { "empty".to_owned() } else { shown }) }
        }
        Err(refusal) => refused(&path, refusal),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::{Extras, knobs};
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

    fn check(read_in: &'static [CounterPlace], expected: Expect) {
        let root = Root::captured(Capture::parse(MACHINE).unwrap());
        let facts = Facts::probe(&root);
        let knob = Knob { extras: Extras { read_in, ..Extras::NONE }, ..**knobs::ALL.first().unwrap() };
        let lines = knob_readings(&knob, &facts, &root).into_iter().map(|reading| match reading.value.known() {
            Some(value) => format!("{}: {value}\n", reading.name),
            None => format!("{}: unknown: {}\n", reading.name, reading.value.unknown_why().unwrap_or_default()),
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn counters_are_read_where_they_are() {
        check(
            &[CounterPlace::Table { file: "/proc/vmstat", names: &["pswpin", "pswpout"] }],
            expect![[r#"
            pswpin in /proc/vmstat: 3
            pswpout in /proc/vmstat: 0
        "#]],
        );
        check(
            &[CounterPlace::Table { file: "/proc/meminfo", names: &["Dirty", "Writeback"] }],
            expect![[r#"
            Dirty in /proc/meminfo: 48 kB
        "#]],
        );
        check(
            &[CounterPlace::Table { file: "/proc/net/snmp", names: &["RcvbufErrors"] }],
            expect![[r#"
            RcvbufErrors in /proc/net/snmp: 5
        "#]],
        );
        check(
            &[CounterPlace::Table { file: "/proc/net/netstat", names: &["BusyPollRxPackets"] }],
            expect![[r#"
            BusyPollRxPackets in /proc/net/netstat: 4
        "#]],
        );
        check(
            &[
                CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] },
                CounterPlace::SoftnetColumns(&[3, 2]),
            ],
            expect![[r#"
            NET_RX in /proc/softirqs: 30
            column 3 in /proc/net/softnet_stat: 2
            column 2 in /proc/net/softnet_stat: 16
        "#]],
        );
        check(
            &[CounterPlace::Table { file: "/proc/interrupts", names: &["NMI", "10"] }],
            expect![[r#"
            NMI in /proc/interrupts: 3
        "#]],
        );
        check(
            &[CounterPlace::IdleUsage],
            expect![[r#"
            usage of state0 (POLL) over all CPUs: 42
        "#]],
        );
        check(
            &[CounterPlace::File("/sys/devices/system/cpu/isolated"), CounterPlace::Folder("/sys/x")],
            expect![[r#"
            /sys/devices/system/cpu/isolated: empty
            /sys/x/a: 1
            /sys/x/b: 2
        "#]],
        );
        check(
            &[CounterPlace::Table { file: "/proc/vmstat", names: &["nr_dirty"] }, CounterPlace::File("/sys/y/none")],
            expect![[r#"
                /sys/y/none: unknown: the capture does not hold this counter: most of them move and are left out
            "#]],
        );
        check(&[CounterPlace::SoftnetColumns(&[99])], expect![[""]]);
    }

    #[test]
    fn every_knob_can_be_asked() {
        let root = Root::captured(Capture::parse("evenkeel-capture 1\nend\n").unwrap());
        let facts = Facts::probe(&root);
        for knob in knobs::ALL {
            for reading in knob_readings(knob, &facts, &root) {
                assert!(reading.value.known().is_none(), "{}: {reading:?}", knob.id);
            }
        }
    }
}
