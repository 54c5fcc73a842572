//! Judges sysctls without a knob: sysctls of old kernels, sysctls that this machine lacks, and sysctls that evenkeel never writes.

use super::compare::is_so;
use super::line::Ask;
use super::readings::Readings;
use super::state::{Because, SettingState};
use super::{harmless, outdated, refused};
use crate::fact::Fact;
use crate::never::{self, Never};

/// The state of a sysctl, with its reason. `None` if the value must decide.
pub(super) fn before_value(
    readings: &Readings,
    kernel: Option<(u32, u32)>,
    (path, file): (&str, &str),
    ask: &Ask,
) -> Option<Because> {
    let present = readings.value(file);
    let is_past = |old: &&outdated::Outdated| {
        !old.is_gone || present.is_absent() || kernel.is_some() && present.known().is_none()
    };
    if let Some(old) = outdated::sysctl(path, kernel).filter(is_past) {
        return Some((SettingState::Outdated, old.why()));
    }
    let is_pattern = path.contains('*');
    let is_of_bsd = OF_BSD.iter().any(|area| path.starts_with(area)) && present.known().is_none();
    if is_of_bsd || !is_pattern && matches!(present, Fact::Absent { .. }) {
        return Some((SettingState::NotHere, absent(path).to_owned()));
    }
    if refused::is_read_only(path) {
        return Some((SettingState::NotHere, "the file only reports: the kernel lets nobody write it".to_owned()));
    }
    // If evenkeel may write a sysctl, the sysctl has a generic knob, and that knob compares the values itself.
    let is_compared = never::reason(path).is_some() && !never::is_action(path);
    let is_in_force = |text: &String| is_compared && !text.trim().is_empty() && is_so(text, &ask.value, ask.bound);
    if present.known().is_some_and(is_in_force) {
        return Some((SettingState::AlreadySo, "it is in force already".to_owned()));
    }
    match never::reason(path) {
        Some(Never::Harm(_)) if never::protects(path, &ask.value) => {
            let why = "it protects the machine and does not make it faster: evenkeel leaves it to you";
            let lasts = never::lasts_until_boot(path, &ask.value);
            let until = if lasts { "; nobody can undo it before the next boot" } else { "" };
            Some((SettingState::ByHand, format!("{why}{until}")))
        }
        Some(Never::Harm(why)) => {
            let text = present.known().map_or("", String::as_str);
            Some(match harmless::why(path, &ask.value, text) {
                Some(what) => (SettingState::ByHand, what.to_owned()),
                None => (SettingState::Dangerous, format!("evenkeel never writes it: {why}")),
            })
        }
        Some(Never::Outside) => {
            Some((SettingState::ByHand, format!("evenkeel does not try it: {}", Never::Outside.why())))
        }
        None if is_pattern => Some((SettingState::ByHand, "it is a pattern of several sysctls: name each".to_owned())),
        None => None,
    }
}

/// The areas of sysctls that FreeBSD and macOS have, and Linux does not.
const OF_BSD: [&str; 5] = ["net/inet/", "net/inet6/", "net/isr/", "net/route/", "net/link/"];

/// Why this kernel has no such sysctl.
fn absent(path: &str) -> &'static str {
    match OF_BSD.iter().any(|area| path.starts_with(area)) {
        true => "it is a sysctl of FreeBSD or macOS, which Linux does not have",
        false => {
            "this kernel has no such sysctl: it was built without it, its module is not loaded, or the name is wrong"
        }
    }
}
