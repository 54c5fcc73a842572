//! Units of systemd and their drop-ins: properties of the service, and commands of the service.

use super::line::{Ask, Content, Skip, Target};
use super::shell::Script;
use super::shell_found::taken_back;
use super::{names, settings, tools, tuned};

/// Sections of units that start programs.
const SECTIONS: [&str; 5] = ["Unit", "Service", "Install", "Manager", "Link"];
/// Properties that change the speed of a service, and that no knob has. The user can set them.
const BY_HAND: [&str; 19] = [
    "Nice",
    "AllowedCPUs",
    "StartupAllowedCPUs",
    "AllowedMemoryNodes",
    "StartupAllowedMemoryNodes",
    "CPUWeight",
    "StartupCPUWeight",
    "CPUQuotaPeriodSec",
    "CPUSchedulingPriority",
    "IOSchedulingClass",
    "IOSchedulingPriority",
    "IOWeight",
    "MemoryHigh",
    "MemoryLow",
    "MemoryMax",
    "MemoryMin",
    "MemorySwapMax",
    "OOMScoreAdjust",
    "TasksMax",
];

/// Whether a text is a unit.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().any(|line| tuned::header(line.trim()).is_some_and(|name| SECTIONS.contains(&name)))
}

/// Every line of a unit.
pub(super) fn read(text: &str) -> Vec<Content> {
    let property = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
        values.next_back().map(str::trim)
    };
    let (policy, mask) = (property("NUMAPolicy"), property("NUMAMask"));
    let devices = property("OriginalName");
    let one = |text: &str| match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        Some((key, value)) if link(key, value, None).is_some() => {
            link(key, value, devices).map_or_else(|| Content::not("evenkeel can't read its value"), Content::settings)
        }
        // The nodes mean what the policy says.
        Some(("NUMAMask", value)) if !value.is_empty() && policy.is_some_and(|policy| policy != "bind") => {
            Content::Settings(vec![by_hand("NUMAMask", value)])
        }
        Some(("NUMAPolicy", "bind")) if mask.is_some_and(|mask| !mask.is_empty()) => {
            Content::NotASetting(Skip::Structure)
        }
        _ => line(text),
    };
    text.lines().map(|text| one(text.trim())).collect()
}

fn by_hand(key: &str, value: &str) -> Ask {
    Ask::new(Target::Tool(format!("{key}={value}").chars().take(120).collect()), "")
}

/// A line of a unit.
pub(super) fn line(line: &str) -> Content {
    let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
        return settings::line(line);
    };
    match key {
        _ if key.starts_with("Exec") => match command(value) {
            Content::Settings(asks) if key.starts_with("ExecStop") => Content::not(taken_back(&asks, key)),
            content => content,
        },
        // An empty value cancels the lines above.
        "NUMAMask" | "NUMAPolicy" if value.is_empty() => Content::NotASetting(Skip::Structure),
        "NUMAPolicy" => Content::Settings(vec![by_hand(key, value)]),
        "CPUQuota" => {
            let quota = if ["", "infinity"].contains(&value) { "max" } else { value };
            let ask = names::by_called("systemd CPUQuota", None, quota);
            Content::Settings(vec![ask.unwrap_or_else(|| by_hand(key, value))])
        }
        _ if (BY_HAND.contains(&key) || key.starts_with("Limit") || key.starts_with("DefaultLimit"))
            && !value.is_empty() =>
        {
            Content::Settings(vec![by_hand(key, value)])
        }
        _ => match settings::line(line) {
            Content::NotUnderstood(_) if !key.contains(['.', '/']) => Content::NotASetting(Skip::Elsewhere),
            content => content,
        },
    }
}

/// A line of `[Link]`, which sets up the network interfaces that a .link file matches. `None` for another line.
fn link(key: &str, value: &str, devices: Option<&str>) -> Option<Vec<Ask>> {
    let switch = || Some(if ["yes", "true", "on", "1"].contains(&value) { "on" } else { "off" });
    let (option, name, value) = match key {
        "RxBufferSize" => ("ring", "rx", value.to_owned()),
        "TxBufferSize" => ("ring", "tx", value.to_owned()),
        "CombinedChannels" => ("channels", "combined", value.to_owned()),
        "RxCoalesceSec" => ("coalesce", "rx-usecs", microseconds(value)?),
        "TxCoalesceSec" => ("coalesce", "tx-usecs", microseconds(value)?),
        "UseAdaptiveRxCoalesce" => ("coalesce", "adaptive-rx", switch()?.to_owned()),
        "UseAdaptiveTxCoalesce" => ("coalesce", "adaptive-tx", switch()?.to_owned()),
        "GenericReceiveOffload" => ("features", "gro", switch()?.to_owned()),
        "LargeReceiveOffload" => ("features", "lro", switch()?.to_owned()),
        "TCPSegmentationOffload" => ("features", "tso", switch()?.to_owned()),
        "GenericSegmentationOffload" => ("features", "gso", switch()?.to_owned()),
        "RxFlowControl" => ("pause", "rx", switch()?.to_owned()),
        "TxFlowControl" => ("pause", "tx", switch()?.to_owned()),
        "MTUBytes" | "TransmitQueueLength" | "TransmitQueues" | "ReceiveQueues" => {
            return Some(vec![by_hand(key, value)]);
        }
        _ => return None,
    };
    let is_word = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let devices = devices.map(|devices| devices.split_whitespace().collect::<Vec<_>>().join(","));
    tools::network_option(option, &format!("{name} {value}"), devices.as_deref()).filter(|_| is_word)
}

/// A time of systemd, in microseconds. A number without a unit is in seconds.
fn microseconds(value: &str) -> Option<String> {
    let units = [("us", 1), ("usec", 1), ("ms", 1000), ("msec", 1000), ("s", 1_000_000), ("", 1_000_000)];
    let number = |(unit, us): &(&str, u64)| value.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*us);
    units.iter().find_map(number).map(|us| us.to_string())
}

/// A command that the unit starts. The characters `-`, `@`, `+`, `!` and `:` before it modify how systemd starts it.
fn command(command: &str) -> Content {
    Script::default()
        .line(command.trim_start_matches(['-', '@', '+', '!', ':', ' ']))
        .unwrap_or(Content::NotASetting(Skip::Elsewhere))
}
