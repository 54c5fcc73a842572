//! Judges sysctls without a knob: sysctls of old kernels, sysctls that this machine lacks, and sysctls that evenkeel never writes.

use super::compare::is_so;
use super::line::Ask;
use super::readings::Readings;
use super::state::{Because, SettingState};
use super::{outdated, refused};
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
    if !is_pattern && matches!(present, Fact::Absent { .. }) {
        let why = "this kernel has no such sysctl: the name is wrong, or its module is not loaded";
        return Some((SettingState::NotHere, why.to_owned()));
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
        Some(Never::Harm(why)) => Some((SettingState::Dangerous, format!("evenkeel never writes it: {why}"))),
        Some(Never::Outside) => {
            Some((SettingState::ByHand, format!("evenkeel does not try it: {}", Never::Outside.why())))
        }
        None if is_pattern => Some((SettingState::ByHand, "it is a pattern of several sysctls: name each".to_owned())),
        None => None,
    }
}
