//! Units of systemd and their drop-ins: properties of the service, and commands of the service.

use super::line::{Ask, Content, Skip, Target};
use super::shell::Script;
use super::shell_found::taken_back;
use super::{names, settings, tuned};

/// Sections of units that start programs.
const SECTIONS: [&str; 4] = ["Unit", "Service", "Install", "Manager"];
/// Properties that change the speed of a service, but for which no knob exists. The user can set these properties.
const BY_HAND: [&str; 12] = [
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
    let one = |text: &str| match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        // The policy determines the meaning of the nodes.
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
        _ if BY_HAND.contains(&key) && !value.is_empty() => Content::Settings(vec![by_hand(key, value)]),
        _ => match settings::line(line) {
            Content::NotUnderstood(_) if !key.contains(['.', '/']) => Content::NotASetting(Skip::Elsewhere),
            content => content,
        },
    }
}

/// A command that the unit starts. The characters `-`, `@`, `+`, `!` and `:` before the command modify how systemd starts it.
fn command(command: &str) -> Content {
    Script::default()
        .line(command.trim_start_matches(['-', '@', '+', '!', ':', ' ']))
        .unwrap_or(Content::NotASetting(Skip::Elsewhere))
}
