//! Compares facts of this machine with independent tools.
//! A tool that is not installed is visibly skipped.
//! A value that changed during the comparison is skipped too, because other programs run here.

use std::collections::BTreeSet;

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_sys::CpuSet;
use evenkeel_testkit::skipped;
use serde_json::Value;

use crate::tools::said;

fn said_json(program: &str, arguments: &[&str]) -> Option<Value> {
    said(program, arguments).map(|text| serde_json::from_str(&text).unwrap())
}

fn probe() -> Facts {
    Facts::probe(&Root::live())
}

/// Whether two readings are equal. Records a skip if they differ.
fn same<T: PartialEq>(before: &T, after: &T, what: &str) -> bool {
    if before != after {
        skipped(format_args!("{what}: it changed meanwhile"));
    }
    before == after
}

/// The CPUs that have the same value in `column` as `cpu`.
fn alike(rows: &[Value], cpu: usize, column: impl Fn(&Value) -> String) -> CpuSet {
    let of = rows.iter().find(|row| row["cpu"] == cpu).map(&column).unwrap();
    let mut cpus = CpuSet::default();
    for row in rows.iter().filter(|row| column(row) == of) {
        cpus.insert(usize::try_from(row["cpu"].as_u64().unwrap()).unwrap());
    }
    cpus
}

#[test]
fn lscpu_sees_the_same_cpus() {
    let before = probe().cpus;
    let Some(json) = said_json("lscpu", &["-J", "-e=CPU,CORE,SOCKET,ONLINE,CACHE"]) else { return };
    let facts = probe().cpus;
    if !same(&before, &facts, "CPUs") {
        return;
    }
    let rows: Vec<Value> = json["cpus"].as_array().unwrap().clone();
    let online = alike(&rows, facts.online.known().unwrap().first().unwrap(), |row| row["online"].to_string());
    assert_eq!(facts.online.known(), Some(&online));
    for cpu in facts.cpus.iter().filter(|cpu| online.contains(cpu.cpu)) {
        // If a hypervisor does not number sockets, they are -1 or "-". In this case, compare only the core.
        let siblings = alike(&rows, cpu.cpu, |row| format!("{} {}", row["core"], row["socket"]));
        assert_eq!(cpu.siblings.known(), Some(&siblings), "cpu{}", cpu.cpu);
        let (Some(last), Some(key)) = (cpu.caches.last(), cache_column(&rows)) else {
            skipped(format_args!("the caches of cpu{}: lscpu names none", cpu.cpu));
            continue;
        };
        let shared_by = alike(&rows, cpu.cpu, |row| row[&key].as_str().unwrap().rsplit(':').next().unwrap().to_owned());
        assert_eq!(last.shared_by.known(), Some(&shared_by), "cpu{}", cpu.cpu);
    }
}

/// lscpu names its column of caches after the existing caches, such as `l1d:l1i:l2:l3`.
fn cache_column(rows: &[Value]) -> Option<String> {
    rows.first()?.as_object()?.keys().find(|key| key.contains(':')).cloned()
}

#[test]
fn lscpu_and_getconf_count_and_name_alike() {
    let facts = probe();
    if let Some(json) = said_json("lscpu", &["-J"]) {
        let rows = json["lscpu"].as_array().unwrap();
        let named = rows.iter().find(|row| row["field"] == "Model name:").and_then(|row| row["data"].as_str());
        match (named, facts.cpus.model.known()) {
            // lscpu leaves out the maker in the name of an Arm core.
            (Some(named), Some(model)) => assert!(model.contains(named), "{model:?}, lscpu {named:?}"),
            _ => skipped("the model's name: not both know it"),
        }
    }
    if let Some(count) = said("getconf", &["_NPROCESSORS_ONLN"])
        && same(&facts.cpus.online, &probe().cpus.online, "the count of CPUs")
    {
        assert_eq!(count.trim().parse().ok(), facts.cpus.online.known().map(CpuSet::len));
    }
}

#[test]
fn numactl_sees_the_same_nodes() {
    let Some(text) = said("numactl", &["-H"]) else { return };
    let numa = probe().numa;
    let Some(nodes) = numa.nodes.known() else {
        skipped(format_args!("numactl -H: {:?}", numa.nodes.unknown_why()));
        return;
    };
    assert!(text.starts_with(&format!("available: {} nodes", nodes.len())), "{text}");
    let numbers = |line: &str| -> Vec<u32> { line.split_whitespace().map(|word| word.parse().unwrap()).collect() };
    for node in nodes {
        let line = |head: String| text.lines().find_map(|line| line.trim_start().strip_prefix(&head));
        let cpus = numbers(line(format!("node {} cpus:", node.node)).unwrap());
        let found: Vec<u32> = node.cpus.known().unwrap().iter().map(|cpu| u32::try_from(cpu).unwrap()).collect();
        assert_eq!(found, cpus, "node {}", node.node);
        let distances = numbers(line(format!("{}:", node.node)).unwrap());
        assert_eq!(node.distances.known(), Some(&distances), "node {}", node.node);
    }
}

#[test]
fn sysctl_reads_the_same_values() {
    let before = probe();
    let paths = before.sysctls.keys().filter_map(|path| path.strip_prefix("/proc/sys/"));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (mut compared, mut all) = (0, 0);
    for name in paths {
        all += 1;
        // With `-e`, a missing key is not an error, because a fact may also be absent.
        let Some(value) = said("sysctl", &["-n", "-e", &name.replace('/', ".")]) else { continue };
        let path = format!("/proc/sys/{name}");
        let fact = before.sysctl(&path);
        if !same(&fact, &probe().sysctl(&path), name) {
            continue;
        }
        match fact.known() {
            Some(known) => assert_eq!(words(known), words(&value), "{name}"),
            None => assert_eq!(value.trim_end(), "", "{name}: {:?}", fact.unknown_why()),
        }
        compared += 1;
    }
    println!("{compared} of {all} sysctls compared");
}

#[test]
fn ip_sees_the_same_interfaces() {
    let before = probe().network;
    let Some(json) = said_json("ip", &["-j", "link"]) else { return };
    let facts = probe().network;
    if !same(&before, &facts, "interfaces") {
        return;
    }
    let links: Vec<_> = json.as_array().unwrap().iter().filter(|link| link["ifname"].is_string()).collect();
    let nics = facts.nics.known().unwrap();
    let names = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        names(nics.iter().map(|nic| nic.name.as_str()).collect()),
        names(links.iter().map(|link| link["ifname"].as_str().unwrap()).collect()),
    );
    for nic in nics {
        let link = links.iter().find(|link| link["ifname"] == nic.name).unwrap();
        assert_eq!(nic.mtu_bytes.known().copied().map(u64::from), link["mtu"].as_u64(), "{}", nic.name);
        let state = link["operstate"].as_str().unwrap().to_lowercase();
        assert_eq!(nic.state.known(), Some(&state), "{}", nic.name);
    }
}

#[test]
fn ethtool_and_awk_see_the_same_cards() {
    let facts = probe();
    let cards: Vec<_> = facts.network.hardware().collect();
    if cards.is_empty() {
        skipped("ethtool and awk: there is no card");
    }
    for nic in cards {
        if let Some(text) = said("ethtool", &["-i", &nic.name]) {
            let driver = text.lines().find_map(|line| line.strip_prefix("driver: "));
            assert_eq!(nic.driver.known().map(String::as_str), driver, "{}", nic.name);
        }
        for irq in &nic.irqs {
            let program = format!("$1 == \"{}:\" {{ print $NF }}", irq.number);
            if let Some(name) = said("awk", &[&program, "/proc/interrupts"]) {
                assert_eq!(name.trim(), irq.name, "{}", nic.name);
            }
        }
    }
}

#[test]
fn free_counts_the_same_memory() {
    let before = probe().memory.total_bytes;
    let Some(text) = said("free", &["-b"]) else { return };
    // A hypervisor may give and take memory while the machine runs.
    if same(&before, &probe().memory.total_bytes, "memory") {
        let total = text.lines().find_map(|line| line.strip_prefix("Mem:")?.split_whitespace().next());
        assert_eq!(before.known().map(u64::to_string).as_deref(), total);
    }
}
