//! Commands whose effect a knob has, but which evenkeel leaves to the user: `taskset`, `chrt`, `numactl`, `blockdev`, `systemctl`.

use crate::reading::Reading;

use super::line::{Ask, Target};
use super::names;
use evenkeel_sys::CpuSet;

/// The maximum number of commands that start each other, as in `taskset … chrt … ./server`.
const DEPTH_MAX: usize = 4;

/// The settings of a command. `None` if it is another command, or if the command only prints something.
pub(super) fn asks(name: &str, arguments: &[&str]) -> Option<Vec<Ask>> {
    started(name, arguments, 0).filter(|asks| !asks.is_empty())
}

fn started(name: &str, arguments: &[&str], depth: usize) -> Option<Vec<Ask>> {
    let whole = || vec![Ask::new(Target::Tool(joined(name, arguments)), "")];
    let (own, rest) = match name {
        "taskset" => affinity(arguments)?,
        "chrt" => policy(arguments)?,
        "numactl" => node(arguments)?,
        "nice" | "ionice" if arguments.iter().any(|word| word.starts_with('-')) => (None, inner(arguments)),
        "blockdev" => return read_ahead(arguments),
        "systemctl" => return units(arguments),
        "x86_energy_perf_policy" => return (!arguments.is_empty()).then(whole),
        _ => return None,
    };
    let mut asks = own.map_or_else(whole, |ask| vec![ask]);
    if let Some((name, arguments)) = rest.split_first().filter(|_| depth < DEPTH_MAX) {
        asks.extend(started(name.rsplit('/').next().unwrap_or(name), arguments, depth + 1).unwrap_or_default());
    }
    Some(asks)
}

fn joined(name: &str, arguments: &[&str]) -> String {
    format!("{name} {}", arguments.join(" ")).chars().take(120).collect()
}

/// The command with a knob that another one starts, as in `nice -n -20 chrt -f 50 ./server`.
fn inner<'a>(arguments: &'a [&'a str]) -> &'a [&'a str] {
    let is_known = |word: &&str| ["taskset", "chrt", "numactl"].contains(&word.rsplit('/').next().unwrap_or(word));
    arguments.iter().position(is_known).map_or(&[], |at| &arguments[at..])
}

/// The setting of a command (`None` if no knob can express it), and the command that it starts.
type Started<'a> = (Option<Ask>, &'a [&'a str]);

/// Splits arguments into the options at the beginning and the rest.
fn options<'a>(arguments: &'a [&'a str]) -> (Vec<&'a str>, &'a [&'a str]) {
    let end = arguments.iter().position(|word| !word.starts_with('-')).unwrap_or(arguments.len());
    (arguments[..end].to_vec(), &arguments[end..])
}

fn has(options: &[&str], letter: char, long: &str) -> bool {
    let is_short = |word: &str| !word.starts_with("--") && word.contains(letter);
    options.iter().any(|word| *word == long || is_short(word))
}

/// `taskset -c 2,3 ./server`, `taskset 0xc ./server`, `taskset -cp 2,3 1234`. With one word after the options, `taskset` only prints.
fn affinity<'a>(arguments: &'a [&'a str]) -> Option<Started<'a>> {
    let (options, rest) = options(arguments);
    let [cpus, rest @ ..] = rest else { return None };
    if rest.is_empty() {
        return None;
    }
    let list = if has(&options, 'c', "--cpu-list") {
        CpuSet::parse_list(cpus).map(|cpus| cpus.to_string())
    } else {
        Reading::CpuMask.value(cpus.trim_start_matches("0x"))
    };
    let rest = if has(&options, 'p', "--pid") { &[] } else { rest };
    Some((list.and_then(|list| names::by_called("taskset", None, &list)), rest))
}

/// `chrt -f 50 ./server`, `chrt -r -p 10 1234`. The priority is not part of the knob: evenkeel uses the lowest priority.
fn policy<'a>(arguments: &'a [&'a str]) -> Option<Started<'a>> {
    let (options, rest) = options(arguments);
    if has(&options, 'm', "--max") || has(&options, 'V', "--version") || rest.len() < 2 {
        return None;
    }
    let known = [('f', "--fifo", "fifo"), ('o', "--other", "other"), ('r', "--rr", "rr")];
    let others = [('b', "--batch"), ('i', "--idle"), ('d', "--deadline"), ('e', "--ext")];
    let policy = match known.iter().find(|(letter, long, _)| has(&options, *letter, long)) {
        Some((.., policy)) => Some(*policy),
        None if others.iter().any(|(letter, long)| has(&options, *letter, long)) => None,
        // Without a policy, the command uses its own default.
        None => Some("rr"),
    };
    let rest = if has(&options, 'p', "--pid") { &[] } else { &rest[1..] };
    Some((policy.and_then(|policy| names::by_called("chrt", None, policy)), rest))
}

/// `numactl --cpunodebind=0 --membind=0 ./server`: one node, or the CPUs alone.
fn node<'a>(arguments: &'a [&'a str]) -> Option<Started<'a>> {
    let (mut nodes, mut cpus, mut others) = (Vec::new(), None, false);
    let mut rest = arguments;
    while let Some((option, after)) = rest.split_first().filter(|(option, _)| option.starts_with('-')) {
        rest = after;
        let (option, value) = match option.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (*option, None),
        };
        let takes = [
            "-N",
            "--cpunodebind",
            "--cpubind",
            "-m",
            "--membind",
            "-C",
            "--physcpubind",
            "-p",
            "--preferred",
            "-i",
            "--interleave",
        ];
        let value = match (value, rest.split_first()) {
            (None, Some((next, after))) if takes.contains(&option) => {
                rest = after;
                Some(*next)
            }
            (value, _) => value,
        };
        match (option, value) {
            ("-N" | "--cpunodebind" | "--cpubind" | "-m" | "--membind", Some(node)) => nodes.push(node),
            ("-C" | "--physcpubind", Some(list)) => cpus = Some(list),
            ("-H" | "--hardware" | "-s" | "--show" | "--help", _) => return None,
            _ => others = true,
        }
    }
    let is_one =
        nodes.first().is_some_and(|first| nodes.iter().all(|node| node == first) && first.parse::<u32>().is_ok());
    let ask = match (cpus, others) {
        (None, false) if is_one => names::by_called("numactl --cpunodebind", None, nodes.first()?),
        (Some(list), false) if nodes.is_empty() => {
            CpuSet::parse_list(list).and_then(|cpus| names::by_called("numactl --physcpubind", None, &cpus.to_string()))
        }
        _ => None,
    };
    Some((ask, rest))
}

/// `blockdev --setra 512 /dev/vda`, in sectors of 512 bytes.
fn read_ahead(arguments: &[&str]) -> Option<Vec<Ask>> {
    let at = arguments.iter().position(|word| *word == "--setra")?;
    let [sectors, devices @ ..] = arguments.get(at + 1..)? else { return None };
    let kib = sectors.parse::<u64>().ok().filter(|sectors| sectors % 2 == 0)? / 2;
    let of_device = |device: &&str| {
        let disk = disk_of(device.strip_prefix("/dev/")?)?;
        names::by_called("blockdev --setra", Some(&disk), &kib.to_string())
    };
    devices.iter().map(of_device).collect()
}

/// The disk of a partition, which shares its read-ahead. `None` for a name in a folder, such as `mapper/root`.
fn disk_of(device: &str) -> Option<String> {
    let without = device.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_partition = without.len() < device.len();
    let disk = match without.strip_suffix('p') {
        Some(disk) if is_partition && disk.ends_with(|letter: char| letter.is_ascii_digit()) => disk,
        _ if is_partition && ["sd", "vd", "hd", "xvd"].iter().any(|kind| device.starts_with(kind)) => without,
        _ => device,
    };
    (!disk.contains('/')).then(|| disk.to_owned())
}

/// `systemctl disable --now numad`. Services that a knob switches off become settings, and other units stay commands.
fn units(arguments: &[&str]) -> Option<Vec<Ask>> {
    let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
    let verb = words.next().filter(|verb| ["stop", "disable", "mask"].contains(verb))?;
    let of_unit = |unit: &&str| {
        let name = unit.strip_suffix(".service").unwrap_or(unit);
        names::by_called(&format!("systemctl {name}"), None, "off")
            .ok_or_else(|| Ask::new(Target::Tool(format!("systemctl {verb} {unit}")), ""))
    };
    let found: Vec<Result<Ask, Ask>> = words.map(of_unit).collect();
    found.iter().any(Result::is_ok).then(|| found.into_iter().map(|ask| ask.unwrap_or_else(|other| other)).collect())
}

/// The effect of a command that is close to a knob's effect: the name of the knob's command, and the difference.
pub(super) fn remark(words: &[&str]) -> Option<(&'static str, String)> {
    let ["cpupower", rest @ ..] = words else { return None };
    let at = rest.iter().position(|word| *word == "idle-set")?;
    let options = rest.get(at + 1..)?;
    let digits =
        |text: &str| (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.to_owned());
    let (option, number) = match options {
        [option, number, ..] if digits(number).is_some() => (*option, digits(number)?),
        [option, ..] => {
            let at = option.find(|letter: char| letter.is_ascii_digit())?;
            (option[..at].trim_end_matches('='), digits(&option[at..])?)
        }
        [] => return None,
    };
    let verb = match option {
        "-d" | "--disable" => "disables",
        "-e" | "--enable" => "enables",
        _ => return None,
    };
    let why = format!(
        "it {verb} idle state {number} alone, and each driver numbers its states in its own way: read \
            /sys/devices/system/cpu/cpu0/cpuidle/state{number}/name first"
    );
    Some(("cpuidle disable", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_set_the_knobs_that_exist() {
        let table = [
            ("blockdev --setra 512 /dev/vda", "disk.read_ahead_kb@vda=256"),
            (
                "blockdev --setra 512 /dev/sda1 /dev/nvme0n1p2",
                "disk.read_ahead_kb@sda=256 + disk.read_ahead_kb@nvme0n1=256",
            ),
            ("blockdev --setra 513 /dev/vda", "none"),
            ("blockdev --getra /dev/vda", "none"),
            ("taskset -c 2,3 ./server", "process.cpu_affinity=2-3"),
            ("taskset 0xc ./server --port 1", "process.cpu_affinity=2-3"),
            ("taskset -cp 2 1234", "process.cpu_affinity=2"),
            ("taskset -p 1234", "none"),
            ("chrt -f 50 ./server", "process.sched_policy=fifo"),
            ("chrt --rr -p 10 1234", "process.sched_policy=rr"),
            ("chrt -p 1234", "none"),
            ("chrt -b 0 ./server", "chrt -b 0 ./server"),
            ("numactl --cpunodebind=0 --membind=0 ./server", "process.numa_policy=0"),
            ("numactl -N 1 -m 1 ./server", "process.numa_policy=1"),
            ("numactl --interleave=all ./server", "numactl --interleave=all ./server"),
            ("numactl -C 2,3 ./server", "process.cpu_affinity=2-3"),
            ("numactl --hardware", "none"),
            ("taskset -c 2 /usr/bin/chrt -f 1 ./server", "process.cpu_affinity=2 + process.sched_policy=fifo"),
            ("systemctl disable --now numad", "daemon.numad=off"),
            ("systemctl disable --now numad.service irqbalance", "daemon.numad=off + systemctl disable irqbalance"),
            ("systemctl enable numad", "none"),
            ("nice -n -20 chrt -f 50 ./server", "nice -n -20 chrt -f 50 ./server + process.sched_policy=fifo"),
            ("ionice -p 12", "ionice -p 12"),
            ("nice work", "none"),
            ("cpupower idle-set -d 2", "none"),
            ("cpupower idle-set --enable-all", "none"),
            ("cpupower -c 0 idle-set -d 2", "none"),
        ];
        for (line, expected) in table {
            let words: Vec<&str> = line.split(' ').collect();
            let found = asks(words[0], &words[1..])
                .map(|asks| asks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "));
            assert_eq!(found.as_deref().unwrap_or("none"), expected, "{line}");
        }
    }

    #[test]
    fn states_have_numbers() {
        for (line, expected) in [
            ("cpupower idle-set -d 2", Some("disables idle state 2")),
            ("cpupower -c 0 idle-set -d2", Some("disables idle state 2")),
            ("cpupower idle-set --enable=3", Some("enables idle state 3")),
            ("cpupower idle-set --disable 1", Some("disables idle state 1")),
            ("cpupower idle-set -D 10", None),
            ("cpupower idle-set -E", None),
            ("cpupower idle-set", None),
            ("cpupower frequency-set -g performance", None),
        ] {
            let found = remark(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(found.is_some(), expected.is_some(), "{line}");
            assert!(found.is_none_or(|(_, why)| why.contains(expected.unwrap_or_default())), "{line}");
        }
    }
}
