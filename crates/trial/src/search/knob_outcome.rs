//! `KnobOutcome`: the outcome of one knob in a search.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::left_out::NotNeeded;

/// The outcome of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum KnobOutcome {
    /// The knob is in the set.
    InTheSet,
    /// The knob's effect is smaller than the smallest effect that matters.
    NoEffect,
    /// The knob makes the metric worse.
    Hurts,
    /// An arm with this knob was stopped: it made the primary metric or a guard much worse, or the server ended or got no CPU.
    Stopped,
    /// The knob makes a guard worse by at least its limit, so it is rejected.
    Vetoed {
        /// The guard, and how much worse it is.
        why: String,
    },
    /// The knob's counter shows that it was never engaged, so its effect is unknown.
    NotEngaged {
        /// Why it was not engaged.
        why: String,
    },
    /// The kernel or the server refused the knob's value.
    Refused {
        /// The reason that the kernel or the server gave.
        why: String,
    },
    /// The knob moved the metric, but the set does not need it.
    LeftOut {
        /// Why the set does not need it.
        why: NotNeeded,
    },
    /// The knob was not tried.
    NotTried {
        /// Why the knob was not tried.
        why: String,
    },
    /// The search ended before the knob was decided.
    Unclear,
}

/// Reads an outcome from the fields of a knob's answer. In files of the first versions, this field is named `fate`.
pub(super) fn read<'de, D: Deserializer<'de>>(fields: D) -> Result<KnobOutcome, D::Error> {
    let mut fields = Map::deserialize(fields)?;
    if let Some(outcome) = fields.remove("fate") {
        fields.entry("outcome").or_insert(outcome);
    }
    KnobOutcome::deserialize(Value::Object(fields)).map_err(de::Error::custom)
}
