//! Compares the reports of drivers, and the order of devices on top of each other, with `ethtool` and `ip`.
//! The test visibly skips a missing tool, a device that this kernel cannot create, and a check without the necessary privileges.

use std::collections::BTreeMap;
use std::process::Command;

use evenkeel_host::Facts;
use evenkeel_host::facts::{Nic, NicKind};
use evenkeel_hostfs::Root;
use evenkeel_testkit::skipped;
use serde_json::Value;

use crate::tools::said;

fn nics() -> Vec<Nic> {
    Facts::probe(&Root::live()).network.nics.known().cloned().unwrap_or_default()
}

/// Parses `name: value` lines.
fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim())).collect()
}

/// ethtool's own names for some offloads, which are older than the kernel's names.
const OLD_NAMES: [(&str, &str); 8] = [
    ("rx-checksum", "rx-checksumming"),
    ("rx-gro", "generic-receive-offload"),
    ("rx-hashing", "receive-hashing"),
    ("rx-lro", "large-receive-offload"),
    ("rx-ntuple-filter", "ntuple-filters"),
    ("rx-vlan-hw-parse", "rx-vlan-offload"),
    ("tx-generic-segmentation", "generic-segmentation-offload"),
    ("tx-vlan-hw-insert", "tx-vlan-offload"),
];

/// The number of offloads of an interface that ethtool also reports.
fn compare_offloads(interface: &str) -> usize {
    let path = format!("@ethtool/{interface}/features");
    let before = Root::live().text(&path).unwrap();
    let Some(text) = said("ethtool", &["-k", interface]) else { return 0 };
    if Root::live().text(&path).unwrap() != before {
        skipped(format_args!("the offloads of {interface}: they changed meanwhile"));
        return 0;
    }
    let as_text = pairs(&text);
    let mut compared = 0;
    for (name, value) in before.lines().map(|line| line.split_once('=').unwrap()) {
        let old = OLD_NAMES.iter().find(|(new, _)| *new == name).map(|(_, old)| *old);
        // An older ethtool leaves out offloads for which it has no name.
        let Some(theirs) = as_text.get(name).or_else(|| as_text.get(old?)) else { continue };
        let on = theirs.split_whitespace().next().unwrap();
        let fixed = if theirs.ends_with("[fixed]") { ",fixed" } else { "" };
        assert_eq!(value, format!("{on}{fixed}"), "{interface} {name}");
        compared += 1;
    }
    compared
}

#[test]
fn ethtool_knows_the_same_offloads() {
    let nics = nics();
    for nic in nics.iter().filter(|nic| nic.kind.is_hardware() || nic.kind == NicKind::Loopback) {
        let compared = compare_offloads(&nic.name);
        println!("{compared} offloads of {} compared", nic.name);
        assert!(compared == 0 || compared > 30, "{}: only {compared}", nic.name);
    }
}

#[test]
fn ethtool_hashes_the_same_way() {
    const FIELDS: [(char, &str); 4] =
        [('s', "IP SA"), ('d', "IP DA"), ('f', "L4 bytes 0 & 1"), ('n', "L4 bytes 2 & 3")];
    for nic in nics().iter().filter(|nic| nic.kind.is_hardware()) {
        let Some(rss) = nic.rss.known() else {
            skipped(format_args!("the hash of {}: {:?}", nic.name, nic.rss.unknown_why()));
            continue;
        };
        if let (Some(text), Some(fields)) =
            (said("ethtool", &["-n", &nic.name, "rx-flow-hash", "udp4"]), rss.udp4.known())
        {
            for (letter, words) in FIELDS {
                let ours = fields != "none" && fields.contains(letter);
                assert_eq!(ours, text.contains(words), "{} {letter}: {text}", nic.name);
            }
        }
        if let (Some(text), Some(function)) = (said("ethtool", &["-x", &nic.name]), rss.function.known()) {
            let on = pairs(&text).iter().find(|(_, value)| **value == "on").map(|(name, _)| (*name).to_owned());
            assert_eq!(on.as_ref().unwrap_or(&"none".to_owned()), function, "{}", nic.name);
        }
    }
}

/// Counters only grow, so evenkeel's reading must lie between two readings of ethtool.
#[test]
fn ethtool_counts_the_same_losses() {
    let losses = ["allowance", "drop", "overrun", "miss", "error"];
    for nic in nics().iter().filter(|nic| nic.kind.is_hardware()) {
        let Some(before) = said("ethtool", &["-S", &nic.name]) else { continue };
        let ours = Facts::probe(&Root::live()).counters.losses_of(&nic.name).cloned().unwrap();
        let Some(after) = said("ethtool", &["-S", &nic.name]) else { continue };
        let (before, after) = (pairs(&before), pairs(&after));
        let expected = before.keys().filter(|name| losses.iter().any(|loss| name.contains(loss))).count();
        let ours = ours.known().unwrap();
        assert_eq!(ours.len(), expected.min(256), "{}", nic.name);
        for (name, count) in ours {
            let [least, most] = [&before, &after].map(|as_text| as_text[name.as_str()].parse::<u64>().unwrap());
            assert!((least..=most).contains(count), "{} {name}: {count}, ethtool {least} to {most}", nic.name);
        }
    }
}

/// Creates devices in a separate network namespace, and runs the next test there.
#[test]
fn devices_stand_on_each_other_as_ip_says() {
    const NAMESPACE: [&str; 3] = ["--net", "--mount", "sh"];
    let alone = |script: &str| {
        let mut arguments = NAMESPACE.to_vec();
        arguments.extend(["-c", script]);
        Command::new("unshare").args(arguments).output()
    };
    match alone("mount -t sysfs sysfs /sys && ip link show >/dev/null") {
        Ok(output) if output.status.success() => {}
        other => {
            skipped(format_args!(
                "devices of our own: a network namespace with its /sys takes root, unshare and ip: {other:?}"
            ));
            return;
        }
    }
    let script = format!(
        "mount -t sysfs sysfs /sys; \
         make() {{ ip link add \"$@\" || echo \"skipped ip link add $*: this kernel can't\"; }}; \
         make veth0 type veth peer name veth1; make veth2 type veth peer name veth3; \
         make bridge0 type bridge && ip link set veth1 master bridge0; \
         make link veth0 name veth0.100 type vlan id 100; make link veth0 name players type vlan id 7; \
         make bond0 type bond mode active-backup && ip link set veth2 master bond0 && ip link set veth3 master bond0; \
         exec '{}' --ignored --exact agree_network::within_a_network_of_our_own --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let output = alone(&script).unwrap();
    let as_text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    for line in as_text.lines().filter_map(|line| line.strip_prefix("skipped ip link add ")) {
        skipped(format_args!("ip link add {line}"));
    }
    assert!(output.status.success(), "{as_text}");
}

#[test]
#[ignore = "devices_stand_on_each_other_as_ip_says runs it, in a namespace with devices"]
fn within_a_network_of_our_own() {
    let json: Value = serde_json::from_str(&said("ip", &["-d", "-j", "link"]).unwrap()).unwrap();
    let links: BTreeMap<&str, &Value> =
        json.as_array().unwrap().iter().map(|link| (link["ifname"].as_str().unwrap(), link)).collect();
    let nics = nics();
    assert_eq!(nics.len(), links.len());
    for nic in &nics {
        let link = links[nic.name.as_str()];
        let info = &link["linkinfo"];
        let kind = match info["info_kind"].as_str() {
            Some("bond") => NicKind::Bond,
            Some("vlan") => NicKind::Vlan,
            Some("bridge") => NicKind::Bridge,
            _ if nic.name == "lo" => NicKind::Loopback,
            _ => NicKind::Virtual,
        };
        assert_eq!(nic.kind, kind, "{}", nic.name);
        if kind == NicKind::Vlan {
            assert_eq!(nic.lower, [link["link"].as_str().unwrap()], "{}", nic.name);
            let id = nic.vlan_id.as_ref().and_then(|id| id.known()).copied().map(u64::from);
            assert_eq!(id, info["info_data"]["id"].as_u64(), "{}", nic.name);
        }
        if kind == NicKind::Bond {
            let members: Vec<&str> =
                links.iter().filter(|(_, link)| link["master"] == nic.name).map(|(name, _)| *name).collect();
            assert_eq!(nic.lower, members, "{}", nic.name);
            let mode = nic.bond_mode.as_ref().and_then(|mode| mode.known()).map(String::as_str);
            assert_eq!(mode, info["info_data"]["mode"].as_str(), "{}", nic.name);
        }
        compare_offloads(&nic.name);
        println!("{} is {:?} on {:?}", nic.name, nic.kind, nic.lower);
    }
}
