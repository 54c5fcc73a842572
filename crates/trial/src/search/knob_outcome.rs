//! `KnobOutcome`: what became of one knob in a search.

use serde::{Deserialize, Serialize};

use super::left_out::NotNeeded;

/// The outcome of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum KnobOutcome {
    /// The knob is in the set.
    InTheSet,
    /// The knob's effect is smaller than the smallest effect that matters.
    NoEffect,
    /// The knob makes the metric worse.
    Hurts,
    /// The knob was stopped: it made the metric or a guard much worse, or the server ended or got no CPU.
    Stopped,
    /// The knob makes a guard so much worse that the guard vetoes it.
    Vetoed {
        /// The guard, and how much worse it is.
        why: String,
    },
    /// The knob's counter shows that it was never engaged, so its effect is unknown.
    NotEngaged {
        /// Why not.
        why: String,
    },
    /// The kernel or the server refused it.
    Refused {
        /// In their words.
        why: String,
    },
    /// The knob moved the metric, and is not needed.
    LeftOut {
        /// Why.
        why: NotNeeded,
    },
    /// The knob was not tried.
    NotTried {
        /// Why.
        why: String,
    },
    /// The search ended before it was decided.
    Unclear,
}
