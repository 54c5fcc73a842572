//! The settings of tools for network interfaces, frequencies and boot loaders.

use super::line::{Ask, Skip, Target};
use super::{commands, names};

/// Tools whose effect evenkeel does not set: each line of theirs is listed, for the user to do.
const BY_HAND: [&str; 24] = [
    "systemctl",
    "service",
    "update-rc.d",
    "chkconfig",
    "tc",
    "ip",
    "ifconfig",
    "chrt",
    "taskset",
    "numactl",
    "renice",
    "nice",
    "ulimit",
    "swapoff",
    "modprobe",
    "rmmod",
    "cset",
    "x86_energy_perf_policy",
    "wrmsr",
    "tuned-adm",
    "blockdev",
    "iptables",
    "nft",
    "sed",
];
/// What makes a command of [`BY_HAND`] a tuning.
const TUNES: [&str; 22] = [
    "irqbalance",
    "numad",
    "tuned",
    "ondemand",
    "cpuspeed",
    "auditd",
    "qdisc",
    "txqueuelen",
    "mtu",
    "notrack",
    "NOTRACK",
    "-f",
    "-c",
    "--cpunodebind",
    "-n",
    "-l",
    "swapoff",
    "-a",
    "profile",
    "--setra",
    "--cpu-list",
    "cmdline",
];

/// Whether a tool's device may be a variable: evenkeel knows the devices itself.
pub(super) fn takes_any_device(name: &str) -> bool {
    name == "ethtool"
}

/// The settings of a command, or why it has none. `None` for an unknown command.
pub(super) fn asks(name: &str, arguments: &[&str]) -> Option<Result<Vec<Ask>, Skip>> {
    if let Some(asks) = commands::asks(name, arguments) {
        return Some(Ok(asks));
    }
    let found = match name {
        "ethtool" => ethtool(arguments),
        "cpupower" | "cpufreq-set" => frequency(name, arguments),
        "grubby" | "rpm-ostree" => arguments_of_boot(arguments),
        name if BY_HAND.contains(&name) => {
            let is_mark = |word: &str, mark: &str| {
                let rest = if mark.starts_with('-') { word.strip_prefix(mark) } else { None };
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                    || !mark.starts_with('-') && word.contains(mark)
            };
            let tunes = arguments.iter().any(|word| TUNES.iter().any(|mark| is_mark(word, mark)));
            if !tunes {
                return Some(Err(Skip::Command));
            }
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        _ => return None,
    };
    Some(if found.is_empty() { Err(Skip::Command) } else { Ok(found) })
}

fn joined(name: &str, arguments: &[&str]) -> String {
    format!("{name} {}", arguments.join(" ")).chars().take(120).collect()
}

/// Long options of ethtool that set something, and the short ones.
const LONG: [(&str, &str); 8] = [
    ("--coalesce", "-C"),
    ("--set-ring", "-G"),
    ("--set-channels", "-L"),
    ("--config-nfc", "-N"),
    ("--offload", "-K"),
    ("--features", "-K"),
    ("--pause", "-A"),
    ("--change", "-s"),
];
/// The options that set something.
const SETS: [&str; 8] = ["-C", "-G", "-L", "-N", "-K", "-A", "-X", "-s"];

/// `ethtool -C eth0 rx-usecs 0`: pairs of a name and a value after the device.
fn ethtool(arguments: &[&str]) -> Vec<Ask> {
    let [option, rest @ ..] = arguments else { return Vec::new() };
    let Some((device, rest)) = rest.split_first() else { return Vec::new() };
    if let ["rx-flow-hash", kind, hash, ..] = rest {
        return names::by_called(&format!("ethtool -N {kind}"), Some(device), hash).into_iter().collect();
    }
    let option = LONG.iter().find(|(long, _)| long == option).map_or(*option, |(_, short)| short);
    if !SETS.contains(&option) {
        return Vec::new();
    }
    let pairs = rest.chunks(2).map(|pair| {
        let known = match pair {
            [name, value] => names::by_called(&format!("ethtool {option} {name}"), Some(device), value),
            _ => None,
        };
        known.unwrap_or_else(|| Ask::new(Target::Tool(format!("ethtool {option} {device} {}", pair.join(" "))), ""))
    });
    pairs.collect()
}

/// `coalesce=adaptive-rx off rx-usecs 0` of a TuneD profile, for every interface.
pub(super) fn network_option(option: &str, value: &str) -> Option<Vec<Ask>> {
    let letter = match option {
        "coalesce" => "-C",
        "ring" => "-G",
        "channels" => "-L",
        "features" => "-K",
        "pause" => "-A",
        _ => return None,
    };
    let words = value.split_whitespace();
    let all: Vec<&str> = [letter, "*"].into_iter().chain(words).collect();
    Some(ethtool(&all))
}

/// `cpupower frequency-set -g performance`.
fn frequency(name: &str, arguments: &[&str]) -> Vec<Ask> {
    let after = |names: &[&str]| {
        let long = arguments.iter().find_map(|word| word.strip_prefix("--governor="));
        let short =
            arguments.iter().position(|word| names.contains(word)).and_then(|at| arguments.get(at + 1)).copied();
        long.or(short)
    };
    if let Some(governor) = after(&["-g", "--governor"]) {
        return names::by_called("cpupower governor", None, governor).into_iter().collect();
    }
    match (name, arguments.first()) {
        ("cpupower", Some(&("idle-set" | "set" | "frequency-set"))) | ("cpufreq-set", _) => {
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        _ => Vec::new(),
    }
}

/// `grubby --update-kernel=ALL --args="…"`.
fn arguments_of_boot(arguments: &[&str]) -> Vec<Ask> {
    let mut found = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let value = ["--args=", "--append="].iter().find_map(|option| word.strip_prefix(option));
        let next = || arguments.get(at + 1).copied().filter(|_| *word == "--args" || *word == "--append");
        found.extend(value.or_else(next).into_iter().flat_map(names::by_arguments));
    }
    found
}
