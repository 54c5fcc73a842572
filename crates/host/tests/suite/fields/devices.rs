//! Tools that report cards, interrupts, disks and swap: ip, ethtool, lsblk, swapon. Also files that evenkeel itself does not read.

use std::collections::BTreeSet;

use evenkeel_sys::CpuSet;
use serde_json::Value;

use super::{Row, after, each, row};

fn nics(facts: &Value) -> &[Value] {
    each(&facts["network"]["nics"])
}

fn known(value: &Value) -> Option<Value> {
    (!value.is_null()).then(|| value.clone())
}

pub(crate) fn ip(facts: &Value, text: &str) -> Vec<Row> {
    let json: Value = serde_json::from_str(text).unwrap();
    let links: Vec<&Value> = each(&json).iter().filter(|link| link["ifname"].is_string()).collect();
    let mut rows = Vec::new();
    let names = |all: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<&str> = all.collect();
        names.sort_unstable();
        Value::from(names)
    };
    let ours = names(&mut nics(facts).iter().filter_map(|nic| nic["name"].as_str()));
    rows.push(row("network.nics", &ours, Some(names(&mut links.iter().filter_map(|link| link["ifname"].as_str())))));
    for nic in nics(facts) {
        let name = nic["name"].as_str().unwrap();
        let Some(link) = links.iter().find(|link| link["ifname"] == name) else { continue };
        let info = &link["linkinfo"];
        let kind = match (link["link_type"].as_str(), info["info_kind"].as_str()) {
            (Some("loopback"), _) => "loopback",
            (_, Some(kind @ ("bond" | "vlan" | "bridge"))) => kind,
            (_, Some(_)) => "virtual",
            _ => "hardware",
        };
        // The tool ip reports a virtual function as ordinary hardware.
        let ours = if nic["kind"] == "vf" { "hardware".into() } else { nic["kind"].clone() };
        rows.push(row(format!("{name}.kind"), &ours, Some(kind.into())));
        // evenkeel does not read this field for software interfaces.
        if kind == "hardware" {
            rows.push(row(format!("{name}.master"), &nic["master"], known(&link["master"])));
        }
        if kind == "vlan" {
            rows.push(row(format!("{name}.vlan_id"), &nic["vlan_id"], known(&info["info_data"]["id"])));
            rows.push(row(format!("{name}.lower"), &nic["lower"][0], known(&link["link"])));
        }
        if kind == "bond" {
            rows.push(row(format!("{name}.bond_mode"), &nic["bond_mode"], known(&info["info_data"]["mode"])));
            let lower = names(&mut each(&nic["lower"]).iter().filter_map(Value::as_str));
            let mut below =
                links.iter().filter(|link| link["master"] == name).filter_map(|link| link["ifname"].as_str());
            rows.push(row(format!("{name}.lower"), &lower, Some(names(&mut below))));
        }
        rows.push(row(format!("{name}.mtu_bytes"), &nic["mtu_bytes"], Some(link["mtu"].clone())));
        let state = link["operstate"].as_str().map(|state| state.to_lowercase().into());
        rows.push(row(format!("{name}.state"), &nic["state"], state));
    }
    rows
}

pub(crate) fn lsblk(facts: &Value, text: &str) -> Vec<Row> {
    let json: Value = serde_json::from_str(text).unwrap();
    let mut rows = Vec::new();
    for disk in each(&facts["disks"]["disks"]) {
        let name = disk["name"].as_str().unwrap();
        let theirs = each(&json["blockdevices"]).iter().find(|theirs| theirs["name"] == name);
        let their = |field: &str| theirs.map(|theirs| theirs[field].clone()).filter(|value| !value.is_null());
        rows.push(row(format!("{name}.rotational"), &disk["rotational"], their("rota")));
        rows.push(row(format!("{name}.read_ahead_kb"), &disk["read_ahead_kb"], their("ra")));
        rows.push(row(format!("{name}.nr_requests"), &disk["nr_requests"], their("rq-size")));
        let chosen = disk["scheduler"].get("chosen").unwrap_or(&disk["scheduler"]);
        rows.push(row(format!("{name}.scheduler"), chosen, their("sched")));
    }
    rows
}

pub(crate) fn swapon(facts: &Value, text: &str) -> Vec<Row> {
    let theirs: Vec<Value> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            serde_json::json!({"path": words[0], "kind": words[1], "size_bytes": words[2].parse::<u64>().unwrap()})
        })
        .collect();
    let ours = each(&facts["memory"]["swaps"]);
    let mut rows = vec![row("memory.swaps", &ours.len().into(), Some(theirs.len().into()))];
    for (swap, theirs) in ours.iter().zip(&theirs) {
        for field in ["path", "kind", "size_bytes"] {
            rows.push(row(format!("memory.swaps.{}.{field}", swap["path"]), &swap[field], Some(theirs[field].clone())));
        }
    }
    rows
}

/// Every interrupt in our facts, after its card's name.
fn irqs(facts: &Value) -> impl Iterator<Item = (String, &Value)> {
    nics(facts).iter().flat_map(|nic| {
        each(&nic["irqs"])
            .iter()
            .map(|irq| (format!("{}.irqs[{}]", nic["name"].as_str().unwrap_or("?"), irq["number"]), irq))
    })
}

/// The name of each interrupt. Also checks that the facts contain all interrupts with a device's name.
pub(crate) fn interrupts(facts: &Value, text: &str) -> Vec<Row> {
    let lines = || text.lines().filter_map(|line| line.trim().split_once(':'));
    let name_of = |rest: &str| rest.split_whitespace().last().map(str::to_owned);
    let mut rows: Vec<Row> = irqs(facts)
        .map(|(field, irq)| {
            let number = irq["number"].to_string();
            let theirs = lines().find(|(first, _)| *first == number).and_then(|(_, rest)| name_of(rest));
            row(format!("{field}.name"), &irq["name"], theirs.map(Value::from))
        })
        .collect();
    for nic in nics(facts).iter().filter(|nic| !each(&nic["irqs"]).is_empty()) {
        let device = each(&nic["irqs"])[0]["name"].as_str().and_then(|name| name.split_once("put."));
        let Some((prefix, _)) = device.and_then(|(prefix, _)| prefix.rsplit_once('-')) else { continue };
        let is_queue =
            |name: &str| name.starts_with(&format!("{prefix}-in")) || name.starts_with(&format!("{prefix}-out"));
        let count = lines().filter(|(_, rest)| name_of(rest).is_some_and(|name| is_queue(&name))).count();
        rows.push(row(format!("{}.irqs", nic["name"]), &each(&nic["irqs"]).len().into(), Some(count.into())));
    }
    rows
}

/// The kernel's files have masks here, but our facts have lists.
pub(crate) fn affinity(facts: &Value, text: &str) -> Vec<Row> {
    let masks: Vec<(&str, &str)> = text.split("irq ").filter_map(|part| part.split_once('\n')).collect();
    irqs(facts)
        .map(|(field, irq)| {
            let number = irq["number"].to_string();
            let mask =
                masks.iter().find(|(first, _)| *first == number).and_then(|(_, mask)| CpuSet::parse_mask(mask.trim()));
            row(format!("{field}.affinity"), &irq["affinity"], mask.map(|set| set.to_string().into()))
        })
        .collect()
}

/// ethtool's answer for each hardware interface. Interfaces without an answer are left out.
fn of_cards<'a>(facts: &'a Value, text: &'a str) -> impl Iterator<Item = (&'a str, &'a Value, &'a str)> {
    nics(facts).iter().filter(|nic| nic["kind"] == "hardware").filter_map(move |nic| {
        let name = nic["name"].as_str()?;
        let said = text.split("nic ").find_map(|part| part.split_once('\n').filter(|(first, _)| *first == name))?.1;
        Some((name, nic, said))
    })
}

pub(crate) fn ethtool_driver(facts: &Value, text: &str) -> Vec<Row> {
    let rows = of_cards(facts, text).flat_map(|(name, nic, said)| {
        [("driver", "driver"), ("driver_version", "version")].map(|(ours, theirs)| {
            row(
                format!("{name}.{ours}"),
                &nic[ours],
                after(said, theirs).filter(|text| !text.is_empty()).map(Value::from),
            )
        })
    });
    rows.collect()
}

/// A number from ethtool. If a driver lacks a setting, ethtool prints `n/a` over netlink, and evenkeel reads 0 by the ioctl.
fn number(text: Option<&str>) -> Option<Value> {
    let text = text?;
    if text == "n/a" { Some(0.into()) } else { text.parse::<u64>().ok().map(Value::from) }
}

/// The two halves of the answer: the maximum values, and the current values.
fn halves(facts: &Value, text: &str, group: &str, pairs: &[(&str, &str)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, nic, said) in of_cards(facts, text) {
        let (most, current) = said.split_once("Current hardware settings:").unwrap_or(("", ""));
        for (ours, theirs) in pairs {
            for (field, half) in [((*ours).to_owned(), current), (format!("{ours}_max"), most)] {
                let value = nic[group].get(&field).unwrap_or(&nic[group]);
                rows.push(row(format!("{name}.{group}.{field}"), value, number(after(half, theirs))));
            }
        }
    }
    rows
}

pub(crate) fn ethtool_channels(facts: &Value, text: &str) -> Vec<Row> {
    halves(facts, text, "channels", &[("rx", "RX"), ("tx", "TX"), ("combined", "Combined")])
}

pub(crate) fn ethtool_rings(facts: &Value, text: &str) -> Vec<Row> {
    halves(facts, text, "rings", &[("rx", "RX"), ("tx", "TX")])
}

pub(crate) fn ethtool_coalesce(facts: &Value, text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, nic, said) in of_cards(facts, text) {
        let ours = |field: &str| nic["coalesce"].get(field).unwrap_or(&nic["coalesce"]);
        for (field, theirs) in
            [("rx_us", "rx-usecs"), ("rx_frames", "rx-frames"), ("tx_us", "tx-usecs"), ("tx_frames", "tx-frames")]
        {
            rows.push(row(format!("{name}.coalesce.{field}"), ours(field), number(after(said, theirs))));
        }
        // Parses `Adaptive RX: off  TX: n/a`.
        let both = after(said, "Adaptive RX").and_then(|line| line.split_once("TX:"));
        let is_on = |text: &str| Value::from(text.trim() == "on");
        rows.push(row(format!("{name}.coalesce.adaptive_rx"), ours("adaptive_rx"), both.map(|(rx, _)| is_on(rx))));
        rows.push(row(format!("{name}.coalesce.adaptive_tx"), ours("adaptive_tx"), both.map(|(_, tx)| is_on(tx))));
    }
    rows
}

/// The name that ethtool prints for an offload. For some offloads, ethtool's name is older than the kernel's.
fn ethtools_name(name: &str) -> &str {
    match name {
        "rx-checksum" => "rx-checksumming",
        "rx-gro" => "generic-receive-offload",
        "rx-hashing" => "receive-hashing",
        "rx-lro" => "large-receive-offload",
        "rx-ntuple-filter" => "ntuple-filters",
        "tx-generic-segmentation" => "generic-segmentation-offload",
        name => name,
    }
}

pub(crate) fn ethtool_offloads(facts: &Value, text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, nic, said) in of_cards(facts, text) {
        if nic["offloads"].get("unknown").is_some() {
            rows.push(row(format!("{name}.offloads"), &nic["offloads"], None));
            continue;
        }
        for (field, ours) in nic["offloads"].as_object().into_iter().flatten() {
            // Parses `off [fixed]`, `on`, `off [requested on]`.
            let theirs = after(said, ethtools_name(field));
            let field = format!("{name}.offloads.{field}");
            let first = theirs.and_then(|state| state.split_whitespace().next());
            rows.push(row(format!("{field}.on"), &ours["on"], first.map(|state| (state == "on").into())));
            let is_fixed = theirs.map(|state| state.contains("[fixed]").into());
            rows.push(row(format!("{field}.fixed"), &ours["fixed"], is_fixed));
        }
    }
    rows
}

/// The lines between a heading and the next one.
fn beneath<'a>(said: &'a str, heading: &str) -> Option<Vec<&'a str>> {
    let lines = said.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("RSS ")).map(str::trim).collect();
    (!lines.is_empty()).then_some(lines)
}

/// The table, the key and the function. ethtool says which of these a driver lacks.
pub(crate) fn ethtool_rss(facts: &Value, text: &str) -> Vec<Row> {
    const NONE: &str = "Operation not supported";
    let mut rows = Vec::new();
    for (name, nic, said) in of_cards(facts, text) {
        let ours = |field: &str| nic["rss"].get(field).unwrap_or(&nic["rss"]);
        let table = beneath(said, "RX flow hash").map(|lines| {
            let numbers = lines.iter().filter_map(|line| line.split_once(':'));
            let numbers = numbers.flat_map(|(_, line)| line.split_whitespace());
            numbers.filter_map(|word| word.parse::<u32>().ok()).collect::<Vec<_>>()
        });
        rows.push(row(format!("{name}.rss.table"), ours("table"), table.as_ref().map(|table| table.len().into())));
        let queues = table.filter(|table| !table.is_empty()).map(|table| BTreeSet::from_iter(table).len().into());
        rows.push(row(format!("{name}.rss.queues"), ours("queues"), queues));
        let key = beneath(said, "RSS hash key").and_then(|lines| lines.first().copied());
        let bytes = key.map(|key| if key == NONE { 0 } else { key.split(':').count() });
        rows.push(row(format!("{name}.rss.key_bytes"), ours("key_bytes"), bytes.map(Value::from)));
        let functions = beneath(said, "RSS hash function").unwrap_or_default();
        let on = functions.iter().find_map(|line| line.strip_suffix(": on"));
        rows.push(row(format!("{name}.rss.function"), ours("function"), on.map(Value::from)));
    }
    rows
}

/// ethtool prints the hashed fields in words, but our facts have ethtool's letters.
pub(crate) fn ethtool_hash_fields(facts: &Value, text: &str) -> Vec<Row> {
    const WORDS: [(&str, char); 4] = [("IP SA", 's'), ("IP DA", 'd'), ("L4 bytes 0 & 1", 'f'), ("L4 bytes 2 & 3", 'n')];
    let rows = of_cards(facts, text).map(|(name, nic, said)| {
        let letters = said.contains("use these fields").then(|| {
            let has = |words: &str| said.lines().any(|line| line.starts_with(words));
            let letters: String = WORDS.iter().filter(|(words, _)| has(words)).map(|(_, letter)| *letter).collect();
            if letters.is_empty() { "none".to_owned() } else { letters }
        });
        let ours = nic["rss"].get("udp4").unwrap_or(&nic["rss"]);
        row(format!("{name}.rss.udp4"), ours, letters.map(Value::from))
    });
    rows.collect()
}
