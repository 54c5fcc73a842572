//! Finds the lines of a guide that a later line overrides.

use std::collections::BTreeMap;

use super::line::Guide;
use super::state::{Judged, SettingState};
use crate::knob::Knob;
use crate::setting::Setting;

/// If several lines set the same thing, the last one counts, as for `sysctl`. This also holds for the two knobs of an exclusive pair.
pub(super) fn override_earlier(guide: &Guide, all: &mut [Judged]) {
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
        match rival.copied() {
            Some(later) => {
                let line = guide.lines.get(all[later].line);
                let own = guide.lines.get(all[at].line).and_then(|line| line.file.as_ref());
                let file = match line.and_then(|line| line.file.as_ref()) {
                    Some(file) if Some(file) != own => format!(" of {file}"),
                    None if own.is_some() => format!(" of {}", guide.name),
                    _ => String::new(),
                };
                let line = line.map_or(0, |line| line.number);
                let same = all[later].asked == all[at].asked;
                let how = if same { "repeats it" } else { "sets another value, and wins" };
                all[at].why = format!("line {line}{file} {how}: {}", all[later].asked);
                all[at].state = SettingState::Overridden;
                all[at].setting = None;
            }
            None => {
                last.insert(key, at);
            }
        }
    }
}

/// What a setting changes, for settings that could take effect.
fn key_of(judged: &Judged) -> Option<String> {
    let counts = matches!(
        judged.state,
        SettingState::Try | SettingState::AlreadySo | SettingState::NeedsReboot | SettingState::ByHand
    );
    let name = judged.asked.split(['=', '>', '<']).next()?;
    (counts && judged.knob.is_some()).then(|| name.to_owned())
}

/// Whether two knobs are two forms of one limit: each resets the other.
fn excludes(one: &Setting, other: &Setting) -> bool {
    let resets =
        |one: &Knob, other: &Knob| other.place.files().iter().any(|path| one.extras.side_effects.contains(path));
    resets(one.knob, other.knob) && resets(other.knob, one.knob)
}
