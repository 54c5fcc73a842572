//! `LeftOut`: a knob that a search does not try. `NotNeeded`: a knob that it tried and does not need. Each has the reason.

use serde::{Deserialize, Serialize};

/// A knob that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The knob's id.
    pub knob: String,
    /// Why.
    pub why: LeftOutReason,
}

/// Why a knob is not tried. In JSON it is its sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum LeftOutReason {
    /// The user is not root.
    #[error("you need root for this setting of the whole host")]
    NeedsRoot,
    /// This many other candidates rank before it.
    #[error("{candidates} other knobs rank higher")]
    TooMany {
        /// How many are tried.
        candidates: usize,
    },
    /// The value is in force already.
    #[error("it has this value already")]
    AlreadyInForce,
    /// Neither the advice nor the list of values that are worth a trial has one.
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
    /// evenkeel can't set it.
    #[error("you have to do it by hand: {todo}")]
    ByHand {
        /// The step that the user would have to do.
        todo: String,
    },
    /// The advice says for every place that it does nothing here.
    #[error("{0}")]
    Advice(String),
    /// No plan can be made of its setting.
    #[error("{0}")]
    NoPlan(String),
    /// The knob's value can't be read, or differs from the value in effect.
    #[error("{0}")]
    Unreadable(String),
    /// Another program sets it.
    #[error("{0}")]
    Owned(String),
    /// The workload can't switch it.
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

/// Why a knob that moved the metric is not in the set. In JSON it is its sentence.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[serde(from = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(into = "String"))]
pub enum NotNeeded {
    /// This many others moved the metric more.
    #[error("{others} others do more")]
    OthersDoMore {
        /// How many go on.
        others: usize,
    },
    /// No combination with it is better than one without.
    #[error("adds nothing to the others")]
    AddsNothing,
    /// The set is no worse without it.
    #[error("does nothing in addition to the others")]
    DoesNothing,
    /// The set could not be shown to be worse without it.
    #[error("{pairs} pairs did not show that it is needed")]
    NotShown {
        /// Pairs of windows.
        pairs: usize,
    },
    /// The set with this knob could not be shown to help.
    #[error("the set that it was in could not be shown to help")]
    SetNotShown,
    /// A guard vetoed its set.
    #[error("the set that it was in was vetoed: {why}")]
    SetVetoed {
        /// The reason.
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
