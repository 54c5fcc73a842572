//! The table of tools: the command of each tool, and the facts that the tool's answer contains.

pub(crate) mod counters;
mod devices;
mod processors;

use std::collections::BTreeMap;

use evenkeel_sys::CpuSet;
use serde_json::Value;

/// One field, with our value and the tool's value. `None` if the tool does not report the field.
pub(crate) struct Row {
    pub(crate) field: String,
    pub(crate) ours: Value,
    pub(crate) theirs: Option<Value>,
}

/// One question to a tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// A line of `lab/guest/tools.list`.
    pub(crate) asked: &'static str,
    /// The fields of the facts that the answer contains.
    pub(crate) rows: fn(&Value, &str) -> Vec<Row>,
}

const fn tool(name: &'static str, asked: &'static str, rows: fn(&Value, &str) -> Vec<Row>) -> Tool {
    Tool { name, asked, rows }
}

/// Every question.
pub(crate) const TOOLS: &[Tool] = &[
    tool("lscpu", "lscpu -J", processors::lscpu),
    tool("lscpu", "lscpu -J -e=CPU,CORE,SOCKET,NODE,ONLINE", processors::lscpu_each),
    tool("numactl", "numactl -H", processors::numactl),
    tool("lstopo", "lstopo-no-graphics --of xml", processors::lstopo),
    tool("sysctl", "sysctl -a 2>&1; true", sysctl),
    tool("ip", "ip -j -d link", devices::ip),
    tool("lsblk", "lsblk -J -b -o NAME,SCHED,ROTA,RA,RQ-SIZE", devices::lsblk),
    tool("swapon", "swapon --show=NAME,TYPE,SIZE --bytes --noheadings --raw", devices::swapon),
    tool("free", "free -b", free),
    tool("uname", "uname -r", |facts, text| {
        vec![row("kernel.release", &facts["kernel"]["release"], Some(text.trim().into()))]
    }),
    tool("uname", "uname -m", |facts, text| {
        vec![row("kernel.architecture", &facts["kernel"]["architecture"], Some(text.trim().into()))]
    }),
    tool("/proc/interrupts", "cat /proc/interrupts", devices::interrupts),
    tool(
        "/proc/irq",
        r#"for irq in /proc/irq/[0-9]*; do echo "irq ${irq##*/}"; cat $irq/smp_affinity; done"#,
        devices::affinity,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -i ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_driver,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -l ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_channels,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -g ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_rings,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -c ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_coalesce,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -k ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_offloads,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -x ${nic##*/} 2>&1; done; true"#,
        devices::ethtool_rss,
    ),
    tool(
        "ethtool",
        r#"for nic in /sys/class/net/*; do echo "nic ${nic##*/}"; ethtool -n ${nic##*/} rx-flow-hash udp4 2>&1; done; true"#,
        devices::ethtool_hash_fields,
    ),
];

pub(crate) fn row(field: impl Into<String>, ours: &Value, theirs: Option<Value>) -> Row {
    Row { field: field.into(), ours: ours.clone(), theirs }
}

/// The elements of a list. Empty if the list is unknown.
pub(crate) fn each(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A set of CPUs as our JSON writes it.
pub(crate) fn set(cpus: impl IntoIterator<Item = usize>) -> Value {
    let mut set = CpuSet::default();
    for cpu in cpus {
        set.insert(cpu);
    }
    set.to_string().into()
}

/// The text after `KEY` and a colon, on its own line.
pub(crate) fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

fn words(text: &str) -> Value {
    text.split_whitespace().collect::<Vec<_>>().join(" ").into()
}

/// All sysctls in the facts, including missing ones.
fn sysctl(facts: &Value, text: &str) -> Vec<Row> {
    let theirs: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(" =")).collect();
    let ours = facts["sysctls"].as_object().into_iter().flatten();
    let ours = ours.filter_map(|(path, value)| Some((path.strip_prefix("/proc/sys/")?.replace('/', "."), value)));
    ours.map(|(key, value)| {
        let plain = value.as_str().map_or_else(|| value.clone(), words);
        row(format!("sysctls.{key}"), &plain, theirs.get(key.as_str()).map(|text| words(text)))
    })
    .collect()
}

fn free(facts: &Value, text: &str) -> Vec<Row> {
    let total = after(text, "Mem").and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    vec![row("memory.total_bytes", &facts["memory"]["total_bytes"], total.map(Value::from))]
}
