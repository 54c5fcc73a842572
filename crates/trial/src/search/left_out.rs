//! `LeftOut`: a knob that a search does not try. `NotNeeded`: why a knob that moved the metric is not in the set.

use serde::{Deserialize, Serialize};

/// A knob that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The knob's id.
    pub knob: String,
    /// Why it is not tried.
    pub why: LeftOutReason,
}

/// Why a knob is not tried. The JSON form is the sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum LeftOutReason {
    /// The user is not root.
    #[error("you need root for this setting of the whole host")]
    NeedsRoot,
    /// The search tries only the first candidates, and the knob is not among them.
    #[error("{candidates} other knobs rank higher")]
    TooMany {
        /// The number of candidates that are tried.
        candidates: usize,
    },
    /// The value is already in effect.
    #[error("it has this value already")]
    AlreadyInForce,
    /// No value that is worth a trial is known, neither from the advice nor from the list of such values.
    #[error("evenkeel advises no value for it here: name one")]
    NoValue,
    /// The change could interrupt the user's network connection.
    #[error("a change of a network device can cut your connection; add --network-devices to try it")]
    NetworkDevice,
    /// The setting acts on interfaces that come up later.
    #[error("it takes effect only on interfaces that come up later")]
    NewInterfaces,
    /// The setting takes effect after a reboot.
    #[error("it takes effect only after a reboot")]
    NeedsReboot,
    /// evenkeel cannot set the knob, but the user can.
    #[error("you have to do it by hand: {todo}")]
    ByHand {
        /// What the user would have to do.
        todo: String,
    },
    /// The advice says for every place that the knob has no effect here.
    #[error("{0}")]
    Advice(String),
    /// No plan can be made for the setting.
    #[error("{0}")]
    NoPlan(String),
    /// The knob's value can't be read, or differs from the value in effect.
    #[error("{0}")]
    Unreadable(String),
    /// Another program sets the knob.
    #[error("{0}")]
    Owned(String),
    /// The workload cannot switch the knob.
    #[error("{0}")]
    Workload(String),
    /// The text as stored in the log of a search.
    #[error("{0}")]
    Logged(String),
}

impl Serialize for LeftOutReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a knob that moved the metric is not in the set. The JSON form is the sentence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[serde(from = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(into = "String"))]
pub enum NotNeeded {
    /// Other knobs moved the metric more, and only those continue.
    #[error("{others} others do more")]
    OthersDoMore {
        /// The number of knobs that continue.
        others: usize,
    },
    /// No combination with this knob is better than the best combination without it.
    #[error("adds nothing to the others")]
    AddsNothing,
    /// The set is not worse without this knob.
    #[error("does nothing in addition to the others")]
    DoesNothing,
    /// The search could not show that the set is worse without this knob.
    #[error("{pairs} pairs did not show that it is needed")]
    NotShown {
        /// The number of pairs of windows in which this was tested.
        pairs: usize,
    },
    /// The set with this knob could not be shown to help.
    #[error("the set that it was in could not be shown to help")]
    SetNotShown,
    /// A guard rejected the set with this knob.
    #[error("the set that it was in was vetoed: {why}")]
    SetVetoed {
        /// The guard, and how much worse it is.
        why: String,
    },
    /// The text as stored in a goal file.
    #[error("{0}")]
    Other(String),
}

impl From<String> for NotNeeded {
    fn from(why: String) -> NotNeeded {
        NotNeeded::Other(why)
    }
}

impl Serialize for NotNeeded {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
