//! The settings of tools for network interfaces, frequencies and boot loaders.

use evenkeel_sys::CpuSet;

use super::line::{Ask, Skip, Target};
use super::{boot, commands, hazards, names, settings};

/// Tools whose effect evenkeel cannot set. It lists each of their commands as a step for the user.
const BY_HAND: [&str; 21] = [
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
    "nice",
    "ulimit",
    "modprobe",
    "rmmod",
    "cset",
    "x86_energy_perf_policy",
    "wrmsr",
    "tuned-adm",
    "blockdev",
    "iptables",
    "nft",
];
/// The arguments that make a command of [`BY_HAND`] a tuning command.
const TUNES: [&str; 26] = [
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
    "-a",
    "profile",
    "--setra",
    "--cpu-list",
    "cmdline",
    "set-property",
    "initcwnd",
    "initrwnd",
    "rto_min",
    "quickack",
];

/// Tools of which every command with an option tunes something.
const ALWAYS: [&str; 14] = [
    "cgset",
    "elvtune",
    "hdparm",
    "hugeadm",
    "ionice",
    "kubelet",
    "perftune.py",
    "prlimit",
    "renice",
    "rpk",
    "schedtool",
    "setpci",
    "swapoff",
    "tuna",
];
/// Words with which a tool only prints.
const PRINTS: [&str; 6] = ["show", "list", "ls", "get", "-s", "-V"];
/// What `tuned-adm` changes.
const SWITCHES: [&str; 3] = ["profile", "off", "auto_profile"];

/// Whether a word that only a shell can expand leaves the meaning of a command: it is a device, which then is every device of the machine,
/// the process at the end, or a part of a container that sets nothing.
pub(super) fn may_have_variables(name: &str, is_expanded: &[bool]) -> bool {
    match name {
        "ethtool" | "docker" | "podman" | "nerdctl" => true,
        "taskset" | "chrt" | "renice" | "ionice" | "prlimit" => match is_expanded {
            [before @ .., _] => before.len() > 1 && !before.contains(&true),
            [] => true,
        },
        _ => false,
    }
}

/// The settings of a command, or why it has none. `None` for an unknown command.
pub(super) fn asks(name: &str, arguments: &[&str]) -> Option<Result<Vec<Ask>, Skip>> {
    if let Some(asks) = commands::asks(name, arguments) {
        return Some(Ok(asks));
    }
    let found = match name {
        "ethtool" => ethtool(arguments),
        "cpupower" | "cpufreq-set" => frequency(name, arguments),
        "grubby" | "rpm-ostree" | "kernelstub" => boot::tool(name, arguments),
        "docker" | "podman" | "nerdctl" => {
            return Some(container(name, arguments)).filter(|asks| !asks.is_empty()).map(Ok);
        }
        "grub-editenv" | "grub2-editenv" => {
            let options = arguments.iter().filter_map(|word| word.strip_prefix("kernelopts="));
            options.flat_map(names::tuning_arguments).collect()
        }
        "tc" | "ip" if arguments.iter().any(|word| PRINTS.contains(word)) => Vec::new(),
        "tuned-adm" if arguments.first().is_some_and(|verb| SWITCHES.contains(verb)) => {
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        "nmcli" if arguments.iter().any(|word| word.starts_with("ethtool.")) => {
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        name if ALWAYS.contains(&name) => {
            let tunes = name == "rpk" && arguments.contains(&"tune")
                || name != "rpk" && arguments.iter().any(|word| word.starts_with(['-', '/']) || word.contains('='));
            if tunes { vec![Ask::new(Target::Tool(joined(name, arguments)), "")] } else { Vec::new() }
        }
        name if BY_HAND.contains(&name) => {
            let is_mark = |word: &str, mark: &str| {
                let rest = if mark.starts_with('-') { word.strip_prefix(mark) } else { None };
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                    || !mark.starts_with('-') && word.contains(mark)
            };
            let is_hazard = hazards::command(&[&[name], arguments].concat()).is_some();
            let tunes = is_hazard || arguments.iter().any(|word| TUNES.iter().any(|mark| is_mark(word, mark)));
            if !tunes {
                return Some(Err(Skip::Command));
            }
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        name if hazards::command(&[&[name], arguments].concat()).is_some() => {
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        _ => return None,
    };
    Some(if found.is_empty() { Err(Skip::Command) } else { Ok(found) })
}

fn joined(name: &str, arguments: &[&str]) -> String {
    let whole: String = format!("{name} {}", arguments.join(" ")).chars().take(120).collect();
    // The process, which only a shell knows.
    whole.trim_end_matches(" $").to_owned()
}

/// Options of a container that change its speed, besides `--sysctl`.
const OF_CONTAINER: [&str; 10] = [
    "--cpu-period",
    "--cpu-quota",
    "--cpu-rt-runtime",
    "--cpu-shares",
    "--cpus",
    "--cpuset-cpus",
    "--cpuset-mems",
    "--memory-swappiness",
    "--shm-size",
    "--ulimit",
];

/// `docker run --sysctl net.core.somaxconn=4096 --cpuset-cpus=1 IMAGE`.
fn container(name: &str, arguments: &[&str]) -> Vec<Ask> {
    let mut found = Vec::new();
    if !arguments.iter().any(|word| ["run", "create"].contains(word)) {
        return found;
    }
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (*word, None),
        };
        if option != "--sysctl" && !OF_CONTAINER.contains(&option) {
            continue;
        }
        let value = value.or_else(|| words.next().copied()).unwrap_or_default();
        let ask = Some(value).filter(|_| option == "--sysctl").and_then(settings::assignment);
        found.push(ask.unwrap_or_else(|| Ask::new(Target::Tool(joined(name, &[option, value])), "")));
    }
    found
}

/// The long options of ethtool that set something, each with its short form.
const LONG: [(&str, &str); 12] = [
    ("--coalesce", "-C"),
    ("--set-ring", "-G"),
    ("--set-channels", "-L"),
    ("--config-nfc", "-N"),
    ("--offload", "-K"),
    ("--features", "-K"),
    ("--pause", "-A"),
    ("--change", "-s"),
    ("--set-rxfh-indir", "-X"),
    ("--rxfh", "-X"),
    ("--config-ntuple", "-N"),
    ("-U", "-N"),
];
/// The options that set something.
const SETS: [&str; 13] =
    ["-C", "-G", "-L", "-N", "-K", "-A", "-X", "-Q", "-s", "--per-queue", "--set-eee", "--set-fec", "--set-priv-flags"];
/// Names that stand for the reader's own network interface.
const ANY_DEVICE: [&str; 12] =
    ["DEV", "DEVICE", "DEVNAME", "IFACE", "INTERFACE", "NIC", "dev", "devname", "ethX", "ethx", "iface", "interface"];

/// `ethtool -C eth0 rx-usecs 0`: pairs of a name and a value follow the device.
/// If no knob expresses a pair exactly, the command is listed as written.
fn ethtool(arguments: &[&str]) -> Vec<Ask> {
    let [option, rest @ ..] = arguments else { return Vec::new() };
    let Some((device, rest)) = rest.split_first() else { return Vec::new() };
    let name = device.trim_matches(['[', ']', '{', '}']);
    let device = if name != *device || ANY_DEVICE.contains(&name) { &"*" } else { device };
    let option = LONG.iter().find(|(long, _)| long == option).map_or(*option, |(_, short)| short);
    if !SETS.contains(&option) {
        return Vec::new();
    }
    let own = |words: &[&str]| Ask::new(Target::Tool(joined("ethtool", &[&[option, device], words].concat())), "");
    let known = |name: &str, value: &str| names::by_called(&format!("ethtool {option} {name}"), Some(device), value);
    let whole = || vec![own(rest)];
    match (option, rest) {
        ("-N", ["rx-flow-hash", kind, hash]) => known(kind, hash).map_or_else(whole, |ask| vec![ask]),
        ("-L", ["combined", value]) => known("combined", value).map_or_else(whole, |ask| vec![ask]),
        // The knob switches adaptive moderation off. So a command that switches adaptive moderation on has no knob.
        ("-C", _) if rest.chunks(2).any(|pair| pair[0] == "adaptive-rx" && pair != ["adaptive-rx", "off"]) => whole(),
        ("-C" | "-G" | "-K" | "-A", _) if rest.len() % 2 == 0 => {
            let pairs = rest.chunks(2);
            pairs.map(|pair| known(pair[0], pair[1]).unwrap_or_else(|| own(pair))).collect()
        }
        _ => whole(),
    }
}

/// `coalesce=adaptive-rx off rx-usecs 0` of a TuneD profile, for its devices or for every interface.
pub(super) fn network_option(option: &str, value: &str, devices: Option<&str>) -> Option<Vec<Ask>> {
    let letter = match option {
        "coalesce" => "-C",
        "ring" => "-G",
        "channels" => "-L",
        "features" => "-K",
        "pause" => "-A",
        _ => return None,
    };
    let words = value.split_whitespace();
    let all: Vec<&str> = [letter, devices.unwrap_or("*")].into_iter().chain(words).collect();
    Some(ethtool(&all))
}

/// `cpupower frequency-set -g performance`, and `cpufreq-set -g performance`. Without `-c`, `cpufreq-set` changes only CPU 0.
fn frequency(name: &str, arguments: &[&str]) -> Vec<Ask> {
    let (mut rest, mut governor, mut cpus, mut is_plain) = (arguments, None, None, true);
    let mut verb = (name == "cpufreq-set").then_some("frequency-set");
    while let Some((word, after)) = rest.split_first() {
        let (option, joint) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (*word, None),
        };
        let value = joint.or_else(|| after.first().copied());
        let takes = match option {
            "-g" | "--governor" => governor.insert(value),
            "-c" | "--cpu" => cpus.insert(value),
            // The CPU's policy contains all CPUs that are related to it.
            "-r" | "--related" if name == "cpufreq-set" => {
                rest = after;
                continue;
            }
            word if verb.is_none() && !word.starts_with('-') => {
                verb = Some(word);
                rest = after;
                continue;
            }
            _ => {
                is_plain = false;
                rest = after;
                continue;
            }
        };
        rest = if joint.is_none() && takes.is_some() { &after[1..] } else { after };
    }
    let cpus = cpus.flatten().or((name == "cpufreq-set").then_some("0"));
    match (verb, governor.flatten()) {
        (Some("frequency-set"), Some(governor)) if is_plain => {
            let place = match cpus.filter(|cpus| *cpus != "all") {
                None => None,
                Some(cpus) => match CpuSet::parse_list(cpus) {
                    Some(set) => Some(set.iter().map(|cpu| format!("cpu{cpu}")).collect::<Vec<_>>().join(",")),
                    None => return vec![Ask::new(Target::Tool(joined(name, arguments)), "")],
                },
            };
            names::by_called("cpupower governor", place.as_deref(), governor).into_iter().collect()
        }
        (Some("idle-set" | "set" | "frequency-set"), _) => {
            vec![Ask::new(Target::Tool(joined(name, arguments)), "")]
        }
        _ => Vec::new(),
    }
}
