//! What a sceptic should know of windows that gave no number: of a server that ended, and of what was dropped.

use std::collections::BTreeMap;

use super::Seen;
use super::log::Entry;
use crate::rules::DropReason;

/// The share of windows that may be dropped without a word.
const DROPPED_SHARE_DOUBTFUL: f64 = 0.2;

/// A server that did not live through the search: whatever is seen of it, its own words say why.
pub(super) fn deaths(entries: &[Entry]) -> Option<String> {
    let whys = entries.iter().filter_map(|entry| match &entry.seen {
        Seen::Died { why } => Some(why),
        _ => None,
    });
    let whys: Vec<&String> = whys.collect();
    let last = whys.last()?;
    let times = if whys.len() == 1 { "once".to_owned() } else { format!("{} times, the last time so", whys.len()) };
    Some(format!("the server ended or hung {times}, and was started anew: {last}"))
}

/// Windows that were dropped, by their reasons: where they were many, and however few where it does not pass by itself.
pub(super) fn drops(entries: &[Entry]) -> Option<String> {
    let reasons = entries.iter().filter_map(|entry| match &entry.seen {
        Seen::Dropped { reason, .. } => reason.as_ref(),
        _ => None,
    });
    let (mut by_kind, mut changed, mut stays): (BTreeMap<&str, usize>, _, _) = (BTreeMap::new(), None, false);
    for reason in reasons {
        *by_kind.entry(reason.kind()).or_default() += 1;
        stays |= matches!(reason, DropReason::NoCpu { .. } | DropReason::NoValue { .. } | DropReason::Changed { .. });
        if let DropReason::Changed { what } = reason {
            changed = changed.or(Some(what));
        }
    }
    let (dropped, all) = (by_kind.values().sum::<usize>(), entries.len());
    if !stays && dropped as f64 <= all as f64 * DROPPED_SHARE_DOUBTFUL {
        return None;
    }
    let whys: Vec<String> = by_kind.into_iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
    let agent = changed.map_or_else(String::new, |what| {
        format!("; what was changed first is {what}: an agent that keeps settings would undo it for good too")
    });
    Some(format!("{dropped} of {all} windows were dropped: {}{agent}", whys.join("; ")))
}
