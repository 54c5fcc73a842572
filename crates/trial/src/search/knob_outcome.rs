//! `KnobOutcome`: what became of one knob in a search.

use serde::{Deserialize, Serialize};

use super::left_out::NotNeeded;

/// The outcome of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum KnobOutcome {
    /// It is in the set.
    InTheSet,
    /// Its effect is smaller than the smallest effect that matters.
    NoEffect,
    /// It makes the metric worse.
    Hurts,
    /// It made the metric, or a guard, so much worse that it was stopped; or the server ended, or was given no CPU.
    Stopped,
    /// It makes a guard's number worse, by as much as vetoes.
    Vetoed {
        /// Which, and how much.
        why: String,
    },
    /// Its counter shows that it was never engaged, so its effect is unknown.
    NotEngaged {
        /// Why not.
        why: String,
    },
    /// The kernel or the server refused it.
    Refused {
        /// In their words.
        why: String,
    },
    /// It moved the metric, and is not needed.
    LeftOut {
        /// Why.
        why: NotNeeded,
    },
    /// It was not tried.
    NotTried {
        /// Why.
        why: String,
    },
    /// The search ended before it was decided.
    Unclear,
}
