//! Finds the lines of a guide that a later line overrides, and the lines of branches that exclude each other.

use std::collections::BTreeMap;

use super::line::{Branch, Guide};
use super::state::{Judged, SettingState};
use crate::knob::Knob;
use crate::setting::Setting;

/// If several lines set the same target, the last line counts, as for `sysctl`. This also holds for the two knobs of an exclusive pair.
/// If two branches of a script exclude each other, the branch that starts the service counts.
pub(super) fn override_earlier(guide: &Guide, all: &mut [Judged], branches: &[Branch]) {
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for at in (0..all.len()).rev() {
        let Some(key) = key_of(&all[at]) else { continue };
        let rival = last.get(&key).or_else(|| {
            let own = all[at].setting.as_ref().filter(|own| !own.knob.extras.side_effects.is_empty());
            own.and_then(|own| {
                let later =
                    last.values().find(|later| all[**later].setting.as_ref().is_some_and(|later| excludes(own, later)));
                later.filter(|later| **later > at)
            })
        });
        let Some(later) = rival.copied() else {
            last.insert(key, at);
            continue;
        };
        let same = all[later].asked == all[at].asked;
        match branches[at].apart(&branches[later]).filter(|_| !same) {
            Some((own, other)) => {
                if own.is_start <= other.is_start {
                    leave(guide, all, at, later, other.is_start && !own.is_start);
                }
                if other.is_start <= own.is_start {
                    leave(guide, all, later, at, own.is_start && !other.is_start);
                }
                if own.is_start && !other.is_start {
                    last.insert(key, at);
                }
            }
            None => {
                let how = if same { "repeats it" } else { "sets another value, and wins" };
                all[at].why = format!("{} {how}: {}", place(guide, all, later, at), all[later].asked);
                all[at].state = SettingState::Overridden;
                all[at].setting = None;
            }
        }
    }
}

/// Leaves a setting to the user, because another branch of the script sets another value.
fn leave(guide: &Guide, all: &mut [Judged], at: usize, other: usize, is_other_start: bool) {
    let why = match is_other_start {
        true => "it is the one that applies the script's settings",
        false => "evenkeel does not run the script's test, so it can't choose",
    };
    all[at].why = format!("another branch has {}, on {}: {why}", all[other].asked, place(guide, all, other, at));
    all[at].state = SettingState::ByHand;
    all[at].setting = None;
}

/// The line of a setting. Includes the file if the other setting's line is in another file.
fn place(guide: &Guide, all: &[Judged], of: usize, other: usize) -> String {
    let line = guide.lines.get(all[of].line);
    let own = guide.lines.get(all[other].line).and_then(|line| line.file.as_ref());
    let file = match line.and_then(|line| line.file.as_ref()) {
        Some(file) if Some(file) != own => format!(" of {file}"),
        None if own.is_some() => format!(" of {}", guide.name),
        _ => String::new(),
    };
    format!("line {}{file}", line.map_or(0, |line| line.number))
}

/// The target of a setting, if the setting could take effect.
fn key_of(judged: &Judged) -> Option<String> {
    let counts = matches!(
        judged.state,
        SettingState::Try | SettingState::AlreadySo | SettingState::NeedsReboot | SettingState::ByHand
    );
    let name = judged.asked.split(['=', '>', '<']).next()?;
    (counts && judged.knob.is_some()).then(|| name.to_owned())
}

/// Whether two knobs are two forms of one limit, so that each resets the other.
fn excludes(one: &Setting, other: &Setting) -> bool {
    let resets =
        |one: &Knob, other: &Knob| other.place.files().iter().any(|path| one.extras.side_effects.contains(path));
    resets(one.knob, other.knob) && resets(other.knob, one.knob)
}
