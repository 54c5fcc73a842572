//! Lines of `key = value`, as in sysctl.conf and sysctl.d, and evenkeel's own `KNOB=VALUE`.

use super::line::{Ask, Content, Skip, Target};
use super::{config, names, tmpfiles};
use crate::reading::Reading;

/// The longest text of a setting of another program, in characters.
const TEXT_CHARS_MAX: usize = 120;
/// What irqbalance's configuration calls the CPUs that it leaves alone.
const BANNED: &str = "irqbalance IRQBALANCE_BANNED_CPULIST";

/// One line.
pub(super) fn line(line: &str) -> Content {
    let line = line.trim();
    match line.chars().next() {
        None => Content::NotASetting(Skip::Blank),
        Some('#' | ';') => Content::NotASetting(Skip::Comment),
        Some('[') if line.ends_with(']') => Content::NotASetting(Skip::Structure),
        // Brackets of NixOS, Terraform and other programs.
        Some(_) if line.bytes().all(|byte| b"{}[]();,".contains(&byte)) || line.ends_with(" = {") => {
            Content::NotASetting(Skip::Structure)
        }
        Some(_) if line.starts_with("boot.kernelParams") => nix_arguments(line),
        Some(_)
            if ["GRUB_CMDLINE_LINUX", "cmdline", "append", "kernelopts"]
                .iter()
                .any(|begin| line.starts_with(begin))
                && is_arguments(line) =>
        {
            arguments(line)
        }
        Some(_) => match assignment(line) {
            Some(ask) => Content::Settings(vec![ask]),
            // `-key` alone excludes a key from patterns.
            None if line.starts_with('-') && !line.contains('=') => Content::NotASetting(Skip::Structure),
            None if is_of_grub(line) => Content::NotASetting(Skip::Elsewhere),
            None => tmpfiles::line(line).or_else(|| config::line(line)).unwrap_or_else(|| Content::not(why(line))),
        },
    }
}

/// Whether a line is an option of GRUB that has no kernel arguments.
fn is_of_grub(line: &str) -> bool {
    line.starts_with("GRUB_") && line.contains('=')
}

/// Whether a line assigns kernel arguments, as opposed to a knob such as `cmdline.tsc=reliable`.
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
    // NixOS has the sysctls as options of its own language.
    let (key, value) = (key.trim().trim_start_matches("boot.kernel.sysctl."), of_nix(value));
    let value = plain_value(value)?;
    of_sysfs(key, value)
        .or_else(|| names::by_key(key.strip_prefix('-').unwrap_or(key), value))
        .or_else(|| of_unit(key, value))
        .or_else(|| of_irqbalance(key, value))
        .or_else(|| of_interface(key, value))
}

/// The folders of /sys whose files sysfs.conf sets, by paths from there.
const OF_SYSFS: [&str; 6] = ["block/", "bus/", "class/", "devices/", "kernel/mm/", "module/"];

/// A line of sysfs.conf, such as `kernel/mm/transparent_hugepage/enabled = never`.
fn of_sysfs(key: &str, value: &str) -> Option<Ask> {
    OF_SYSFS
        .iter()
        .any(|folder| key.starts_with(folder))
        .then(|| names::by_file(&format!("/sys/{key}"), value))
        .flatten()
}

/// How keys begin that NetworkManager has for the options of ethtool.
const OF_ETHTOOL: [&str; 5] = ["channels-", "coalesce-", "feature-", "pause-", "ring-"];

/// A line of NetworkManager's section `[ethtool]`.
fn of_interface(key: &str, value: &str) -> Option<Ask> {
    let is_one = OF_ETHTOOL.iter().any(|begin| key.starts_with(begin));
    is_one
        .then(|| Ask::new(Target::Tool(format!("[ethtool] {key}={value}").chars().take(TEXT_CHARS_MAX).collect()), ""))
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

/// A line of the configuration of irqbalance (CPUs as a list, or as a mask) or of cpufrequtils.
fn of_irqbalance(key: &str, value: &str) -> Option<Ask> {
    let key = key.strip_prefix("export ").unwrap_or(key).trim();
    match key {
        "IRQBALANCE_BANNED_CPULIST" => names::by_called(BANNED, None, value),
        "IRQBALANCE_BANNED_CPUS" => names::by_called(BANNED, None, &Reading::CpuMask.value(value)?),
        "GOVERNOR" => names::by_called("cpupower governor", None, value),
        _ if key.starts_with("IRQBALANCE_") => {
            Some(Ask::new(Target::Tool(format!("{key}={value}").chars().take(TEXT_CHARS_MAX).collect()), ""))
        }
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
            "its value is empty, a placeholder to fill in, or has other text with it".to_owned()
        }
        Some((key, _)) if is_variable(key.trim()) => {
            "it is an option of another program, which evenkeel does not know".to_owned()
        }
        Some((key, _)) if !key.contains(['.', '/']) => {
            "the key has no area, such as net. or vm.: `sysctl` refuses it".to_owned()
        }
        Some((key, _)) if OF_BSD.iter().any(|area| key.trim().starts_with(area)) => {
            "it is a sysctl of FreeBSD or macOS, which Linux does not have".to_owned()
        }
        Some(_) => "the key is neither a sysctl nor a knob of evenkeel".to_owned(),
    }
}

/// The areas of sysctls that FreeBSD and macOS have, and Linux does not.
const OF_BSD: [&str; 5] = ["hw.", "kern.", "machdep.", "security.", "vfs."];

/// Whether a key is written like a variable of a shell or an option of systemd: `ENABLED`, `MTUBytes`.
fn is_variable(key: &str) -> bool {
    let is_name = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name && key.starts_with(|first: char| first.is_ascii_uppercase())
}

/// A value without the functions of NixOS around it. Its booleans are numbers to the kernel.
fn of_nix(value: &str) -> &str {
    let value = value.trim();
    let value = value.strip_prefix("lib.").unwrap_or(value);
    let value = ["mkForce ", "mkDefault "].iter().find_map(|begin| value.strip_prefix(begin)).unwrap_or(value);
    match value {
        "true;" => "1",
        "false;" => "0",
        value => value,
    }
}

/// `boot.kernelParams = [ "mitigations=off" "quiet" ];` of NixOS.
fn nix_arguments(line: &str) -> Content {
    let inner = line.split_once('[').and_then(|(_, rest)| rest.rsplit_once(']'));
    let Some((inner, _)) = inner else { return Content::not("its list has no end on this line") };
    let plain: String = inner.chars().filter(|letter| !['"', '\''].contains(letter)).collect();
    let asks = names::tuning_arguments(&plain);
    if asks.is_empty() { Content::NotASetting(Skip::Command) } else { Content::settings(asks) }
}
