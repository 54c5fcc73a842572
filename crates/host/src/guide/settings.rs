//! Lines of `key = value`, as in sysctl.conf and sysctl.d, and evenkeel's own `KNOB=VALUE`.

use super::line::{Ask, Content, Skip, Target};
use super::{names, tmpfiles};
use crate::reading::Reading;

/// The variable in irqbalance's configuration with the CPUs that irqbalance leaves alone.
const BANNED: &str = "irqbalance IRQBALANCE_BANNED_CPULIST";

/// Every line of the text.
pub(super) fn read(text: &str) -> Vec<Content> {
    text.lines().map(line).collect()
}

/// One line.
pub(super) fn line(line: &str) -> Content {
    let line = line.trim();
    match line.chars().next() {
        None => Content::NotASetting(Skip::Blank),
        Some('#' | ';') => Content::NotASetting(Skip::Comment),
        Some('[') if line.ends_with(']') => Content::NotASetting(Skip::Structure),
        Some(_)
            if ["GRUB_CMDLINE_LINUX", "cmdline"].iter().any(|begin| line.starts_with(begin)) && is_arguments(line) =>
        {
            arguments(line)
        }
        Some(_) => match assignment(line) {
            Some(ask) => Content::Settings(vec![ask]),
            // `-key` alone excludes a key from patterns.
            None if line.starts_with('-') && !line.contains('=') => Content::NotASetting(Skip::Structure),
            None => tmpfiles::line(line).unwrap_or_else(|| Content::not(why(line))),
        },
    }
}

/// Whether a line assigns kernel arguments. A line such as `cmdline.tsc=reliable` assigns a knob instead.
fn is_arguments(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| !name.contains('.'))
}

/// `GRUB_CMDLINE_LINUX="…"`. Each argument is a setting, except arguments for the boot itself, such as the root device.
pub(super) fn arguments(line: &str) -> Content {
    let Some((_, value)) = line.split_once('=') else { return Content::not("it has no =") };
    let value = without_templates(value.trim().trim_matches(['"', '\'']));
    let asks: Vec<Ask> = names::by_arguments(&value)
        .into_iter()
        .filter(|ask| !matches!(&ask.target, Target::Argument(name) if names::is_usual(ask) || name.starts_with('$')))
        .collect();
    if asks.is_empty() { Content::NotASetting(Skip::Command) } else { Content::settings(asks) }
}

/// The text without `{{ … }}`. Only the program that fills the template knows the arguments in these places.
fn without_templates(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once("}}").map_or(part, |(_, rest)| rest));
    }
    kept
}

/// `key = value`, without a comment after it.
pub(super) fn assignment(line: &str) -> Option<Ask> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let value = plain_value(value)?;
    names::by_key(key.strip_prefix('-').unwrap_or(key), value)
        .or_else(|| of_unit(key, value))
        .or_else(|| of_irqbalance(key, value))
}

/// A line of `[Service]` in a unit of systemd, such as `CPUAffinity=2 3` or `TimerSlackNSec=1us`.
fn of_unit(key: &str, value: &str) -> Option<Ask> {
    let ask = |value: &str| names::by_called(&format!("systemd {key}"), None, value);
    let units = [("nsec", 1), ("ns", 1), ("usec", 1000), ("us", 1000), ("msec", 1_000_000), ("ms", 1_000_000)];
    let time =
        units.iter().find_map(|(unit, ns)| value.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*ns));
    match time {
        Some(ns) => ask(&ns.to_string()),
        None => ask(&value.split_whitespace().collect::<Vec<_>>().join(",")),
    }
}

/// A line of irqbalance's configuration: CPUs as a list, or as a mask.
fn of_irqbalance(key: &str, value: &str) -> Option<Ask> {
    let key = key.strip_prefix("export ").unwrap_or(key).trim();
    match key {
        "IRQBALANCE_BANNED_CPULIST" => names::by_called(BANNED, None, value),
        "IRQBALANCE_BANNED_CPUS" => names::by_called(BANNED, None, &Reading::CpuMask.value(value)?),
        _ => None,
    }
}

/// A value without quotes and without a comment after the quotes.
/// `None` if the value is empty, or a placeholder that a person must replace.
pub(super) fn plain_value(value: &str) -> Option<&str> {
    let value = [" #", "\t#", " ;", " //"].iter().fold(value, |value, mark| value.split(mark).next().unwrap_or(value));
    let value = value.trim().trim_end_matches([';', ',']).trim();
    let value = ['"', '\''].iter().fold(value, |value, quote| {
        value.strip_prefix(*quote).and_then(|value| value.strip_suffix(*quote)).unwrap_or(value).trim()
    });
    let is_blank = value.is_empty() || value.contains(['<', '>', '$', '`', '{', '}', '(', ')']);
    (!is_blank).then_some(value)
}

fn why(line: &str) -> String {
    match line.split_once('=') {
        None => "it is not a key = value".to_owned(),
        Some((_, value)) if plain_value(value).is_none() => {
            "its value is empty, or a placeholder to fill in".to_owned()
        }
        Some((key, _)) if !key.contains(['.', '/']) => {
            "the key has no area, such as net. or vm.: `sysctl` refuses it".to_owned()
        }
        Some(_) => "the key is neither a sysctl nor a knob of evenkeel".to_owned(),
    }
}
