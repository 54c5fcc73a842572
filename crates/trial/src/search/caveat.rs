//! `SearchCaveat`: the caveats of a search, each with its figures.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::WindowResult;
use super::log::Entry;
use crate::caveat::Caveat;
use crate::concurrent_trials;
use crate::rules::DropReason;

/// The answer has a caveat if a larger share of windows is dropped.
const DROPPED_SHARE_CAVEAT: f64 = 0.2;

/// A caveat: a reason to question an answer, or a limit of the answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "String")]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum SearchCaveat {
    /// A caveat that a trial may have too.
    OfTrial(Caveat),
    /// The server ended during the search. `why` has its last output.
    Died { times: usize, why: String },
    /// Windows were dropped, with the reasons.
    Dropped { dropped: usize, of: usize, reasons: BTreeMap<&'static str, usize>, changed: Option<String> },
    /// A counter did not move, but the knob made a difference.
    NotEngaged { knob: String, why: String },
    /// The text of a caveat from a goal file.
    Stored(String),
}

impl From<String> for SearchCaveat {
    fn from(sentence: String) -> SearchCaveat {
        SearchCaveat::Stored(sentence)
    }
}

/// Prints one sentence, without a full stop.
impl fmt::Display for SearchCaveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchCaveat::OfTrial(caveat) => caveat.fmt(f),
            SearchCaveat::Died { times, why } => {
                let times = match times {
                    1 => "once".to_owned(),
                    times => format!("{times} times"),
                };
                write!(f, "the server exited or hung {times}, and evenkeel restarted it; the last error: {why}")
            }
            SearchCaveat::Dropped { dropped, of, reasons, changed } => {
                let whys: Vec<String> = reasons.iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
                write!(f, "{dropped} of {of} windows were dropped: {}", whys.join("; "))?;
                match changed {
                    Some(what) => write!(
                        f,
                        "; another program changed a setting (first: {what}), and would also undo it after the search"
                    ),
                    None => Ok(()),
                }
            }
            SearchCaveat::NotEngaged { knob, why } => {
                write!(f, "the counter of {knob} shows that it was not engaged ({why}); the measured difference stands")
            }
            SearchCaveat::Stored(sentence) => f.write_str(sentence),
        }
    }
}

/// The JSON form of a caveat is its sentence.
impl Serialize for SearchCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The caveats from a search's windows.
pub(super) fn of_windows(entries: &[Entry]) -> Vec<SearchCaveat> {
    let concurrent = concurrent_trials::caveats(entries.iter().map(|entry| entry.seen.other_trials()));
    concurrent.into_iter().map(SearchCaveat::OfTrial).chain(deaths(entries)).chain(drops(entries)).collect()
}

/// The caveat about a server that ended during the search, with the server's last output.
fn deaths(entries: &[Entry]) -> Option<SearchCaveat> {
    let whys = entries.iter().filter_map(|entry| match &entry.seen {
        WindowResult::Died { why } => Some(why),
        _ => None,
    });
    let whys: Vec<&String> = whys.collect();
    Some(SearchCaveat::Died { times: whys.len(), why: (*whys.last()?).clone() })
}

/// The caveat on dropped windows, by reason. None if few windows were dropped and the reasons are temporary.
fn drops(entries: &[Entry]) -> Option<SearchCaveat> {
    let reasons = entries.iter().filter_map(|entry| match &entry.seen {
        WindowResult::Dropped { reason, .. } => reason.as_ref(),
        _ => None,
    });
    let (mut by_kind, mut changed, mut stays): (BTreeMap<&str, usize>, _, _) = (BTreeMap::new(), None, false);
    for reason in reasons {
        *by_kind.entry(reason.kind()).or_default() += 1;
        stays |= matches!(reason, DropReason::NoCpu { .. } | DropReason::NoValue { .. } | DropReason::Changed { .. });
        if let DropReason::Changed { what } = reason {
            changed = changed.or(Some(what.clone()));
        }
    }
    let (dropped, of) = (by_kind.values().sum::<usize>(), entries.len());
    let is_reported = stays || dropped as f64 > of as f64 * DROPPED_SHARE_CAVEAT;
    is_reported.then_some(SearchCaveat::Dropped { dropped, of, reasons: by_kind, changed })
}
