//! Counters by name: evenkeel's values, and the values of tools or of files that this test sums.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{after, each};

/// A count by its name, such as `irqs[38].cpu1`.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The questions, by the names of their answers. A guest answered each question twice, before and after its capture.
pub(crate) const ASKED: [(&str, &str); 6] = [
    ("interrupts", "cat /proc/interrupts"),
    ("softnet", "cat /proc/net/softnet_stat"),
    ("snmp", "cat /proc/net/snmp"),
    ("snmp6", "cat /proc/net/snmp6"),
    ("numastat", "numastat"),
    ("losses", r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -S ${nic##*/} 2>&1; done; true"#),
];

/// The counters in the facts: the known counters, and the existing interrupts and interfaces.
pub(crate) fn ours(counters: &Value) -> Counts {
    let mut counts = Counts::new();
    let mut add = |name: String, value: &Value| counts.extend(value.as_u64().map(|count| (name, count)));
    for cpu in each(&counters["softnet"]) {
        for field in ["processed", "dropped", "time_squeeze"] {
            add(format!("softnet.cpu{}.{field}", cpu["cpu"]), &cpu[field]);
        }
    }
    for group in ["udp", "udp6"] {
        for (field, value) in counters[group].as_object().into_iter().flatten() {
            add(format!("{group}.{field}"), value);
        }
    }
    for irq in each(&counters["irqs"]) {
        for (cpu, count) in irq["by_cpu"].as_object().into_iter().flatten() {
            add(format!("irqs[{}].cpu{cpu}", irq["number"]), count);
        }
    }
    for node in each(&counters["nodes"]) {
        for (field, value) in node.as_object().into_iter().flatten().filter(|(field, _)| *field != "node") {
            add(format!("nodes[{}].{field}", node["node"]), value);
        }
    }
    for nic in each(&counters["nics"]) {
        for (field, value) in nic["losses"].as_object().into_iter().flatten() {
            add(format!("{}.{field}", nic["name"].as_str().unwrap_or("?")), value);
        }
    }
    counts
}

/// The counters in one answer, for the interrupts and interfaces in `facts`. Includes counters that evenkeel leaves out because they are 0.
pub(crate) fn as_text(facts: &Value, name: &str, text: &str) -> Counts {
    match name {
        "interrupts" => interrupts(facts, text),
        "softnet" => softnet(text),
        "snmp" => {
            let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).collect();
            let [names, numbers] = lines[..] else { return Counts::new() };
            udp("udp", names.split(' ').zip(numbers.split(' ')))
        }
        "snmp6" => {
            udp("udp6", text.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace)))
        }
        "numastat" => numastat(text),
        _ => losses(facts, text),
    }
}

fn interrupts(facts: &Value, text: &str) -> Counts {
    let cpus: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    let numbers: Vec<String> = each(&facts["network"]["nics"])
        .iter()
        .flat_map(|nic| each(&nic["irqs"]).iter().map(|irq| irq["number"].to_string()))
        .collect();
    let mut counts = Counts::new();
    for number in numbers {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&number)?.strip_prefix(':'));
        for (cpu, count) in cpus.iter().zip(line.unwrap_or_default().split_whitespace()) {
            counts.insert(format!("irqs[{number}].{}", cpu.to_lowercase()), count.parse().unwrap());
        }
    }
    counts
}

/// The numbers are hexadecimal. On some kernels, the thirteenth column is the CPU's number.
fn softnet(text: &str) -> Counts {
    let mut counts = Counts::new();
    for (at, line) in text.lines().enumerate() {
        let columns: Vec<u64> = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        let cpu = columns.get(12).copied().unwrap_or(at as u64);
        for (field, column) in ["processed", "dropped", "time_squeeze"].iter().zip(&columns) {
            counts.insert(format!("softnet.cpu{cpu}.{field}"), *column);
        }
    }
    counts
}

fn udp<'a>(group: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Counts {
    let ours = |name: &str| match name {
        "InErrors" => Some("in_errors"),
        "NoPorts" => Some("no_ports"),
        "RcvbufErrors" => Some("rcvbuf_errors"),
        "SndbufErrors" => Some("sndbuf_errors"),
        "MemErrors" => Some("mem_errors"),
        _ => None,
    };
    pairs
        .filter_map(|(name, count)| Some((format!("{group}.{}", ours(name)?), count.trim().parse().unwrap())))
        .collect()
}

/// A table whose columns are nodes. If it is wider than the terminal, it has several parts.
fn numastat(text: &str) -> Counts {
    let mut counts = Counts::new();
    let mut nodes: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.split_first() {
            Some((first, _)) if first.starts_with("node") && *first != "node" => {
                nodes = words.iter().filter_map(|word| word.strip_prefix("node")).collect();
            }
            Some((field, numbers)) => {
                for (node, number) in nodes.iter().zip(numbers) {
                    counts.insert(format!("nodes[{node}].{field}"), number.parse().unwrap());
                }
            }
            None => {}
        }
    }
    counts
}

/// `     rx_drops: 0`, for counters whose names mean a loss.
fn losses(facts: &Value, text: &str) -> Counts {
    let is_loss = |name: &str| ["allowance", "drop", "overrun", "miss", "error"].iter().any(|loss| name.contains(loss));
    let mut counts = Counts::new();
    for nic in each(&facts["network"]["nics"]).iter().filter(|nic| nic["kind"] == "hardware" || nic["kind"] == "vf") {
        let name = nic["name"].as_str().unwrap();
        let said = text.split("nic ").find_map(|part| part.split_once('\n').filter(|(first, _)| *first == name));
        for line in said.map_or("", |(_, said)| said).lines().filter(|line| line.starts_with("     ")) {
            let Some(loss) = line.trim().split_once(':').map(|(field, _)| field).filter(|field| is_loss(field)) else {
                continue;
            };
            counts.extend(after(line, loss).map(|count| (format!("{name}.{loss}"), count.parse().unwrap())));
        }
    }
    counts
}
