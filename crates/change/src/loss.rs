//! `Loss`: a part of the journal that is missing or unreadable.

use std::fmt;

use serde::Serialize;

/// A part of the journal that is missing or unreadable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "loss", rename_all = "kebab-case")]
pub enum Loss {
    /// Bytes that are not a record.
    Unreadable {
        /// Where the unreadable bytes start in the journal.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// What is wrong with them.
        why: String,
    },
    /// Missing records, by their numbers.
    Records {
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// A transaction without its first record. Its title, steps and boot are unknown.
    Begin {
        /// The transaction's number.
        transaction: u64,
    },
    /// A step without the record of the original value. evenkeel cannot restore the step.
    Before {
        /// The transaction's number.
        transaction: u64,
        /// The knob's id, or the file or command that persists a setting. `None` if that id is lost too.
        #[serde(skip_serializing_if = "Option::is_none")]
        knob: Option<String>,
        /// The knob's place.
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<String>,
        /// The value that the transaction set.
        #[serde(skip_serializing_if = "Option::is_none")]
        wanted: Option<String>,
    },
    /// More losses than are listed.
    More {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Unreadable { offset, bytes, why } => write!(f, "byte {offset}: {why} ({bytes} bytes)"),
            Loss::Records { first, last } if first == last => write!(f, "record {first} is missing"),
            Loss::Records { first, last } => write!(f, "records {first} to {last} are missing"),
            Loss::Begin { transaction } => write!(f, "transaction {transaction}: the record that begins it is missing"),
            Loss::Before { transaction, knob, place, wanted } => {
                let knob = knob.as_deref().unwrap_or("one of its steps");
                write!(f, "transaction {transaction}: the record of what {knob}")?;
                if let Some(place) = place.as_deref().filter(|place| *place != knob) {
                    write!(f, " ({place})")?;
                }
                write!(f, " was before")?;
                if let Some(wanted) = wanted {
                    write!(f, " now has {wanted:?}")?;
                }
                f.write_str(" is missing")
            }
            Loss::More { count } => write!(f, "{count} more losses"),
        }
    }
}

/// The losses as text for the middle of a sentence.
pub(crate) fn listed(losses: &[Loss]) -> String {
    losses.iter().map(Loss::to_string).collect::<Vec<_>>().join("; ")
}
