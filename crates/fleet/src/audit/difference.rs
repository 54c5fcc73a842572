//! The value and the advice of a host in a row, compared with those of most hosts of its group.

use evenkeel_host::State;
use serde::Serialize;

use super::hosts::{Hosts, Row};
use super::tally::Tally;

/// A difference of a host from its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The value of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value of most hosts of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
    /// The advice for the host; a fact has no advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The advice for most hosts of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_state: Option<State>,
    /// The value that is advised for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// The value that is advised for most hosts of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_wanted: Option<String>,
}

/// The value and the advice of most hosts of a group in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupContext<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) tally: &'a Tally,
}

impl GroupContext<'_> {
    pub(super) fn difference(self, row: &Row) -> Difference {
        let text = |name| self.hosts.text(name).to_owned();
        Difference {
            value: row.value.map(text),
            usual: self.tally.value.map(text),
            state: row.state,
            usual_state: self.tally.advised.map(|(state, _)| state),
            wanted: row.wanted.map(text),
            usual_wanted: self.tally.advised.and_then(|(_, wanted)| wanted).map(text),
        }
    }
}
