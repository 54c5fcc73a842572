//! `Measured`: a number, or why the number is unknown. A counter that could not be read, or that went back, is never reported as 0.

use evenkeel_hostfs::{Refusal, Why};
use serde::{Deserialize, Serialize};

/// A value, or the reason why it is unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Measured<T> {
    /// A known value.
    Known(T),
    /// The value is unknown.
    Unknown(Unknown),
}

/// Why a value is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// The kind of the reason.
    pub unknown: Kind,
    /// The reason in words, with the path.
    pub why: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This machine does not have the source of the value.
    Absent,
    /// The source exists, but this user may not read it.
    Denied,
    /// The source was read, but its content is invalid.
    Odd,
}

impl<T> From<Result<T, Unknown>> for Measured<T> {
    fn from(result: Result<T, Unknown>) -> Measured<T> {
        match result {
            Ok(value) => Measured::Known(value),
            Err(unknown) => Measured::Unknown(unknown),
        }
    }
}

impl Measured<u64> {
    /// The increase of a counter. Unknown if the counter went back: two readings do not show whether it wrapped, was reset, or is wrong.
    pub fn increase(name: &str, before: u64, after: u64) -> Measured<u64> {
        match after.checked_sub(before) {
            Some(grown) => Measured::Known(grown),
            None => Measured::odd(format!("{name} went back from {before} to {after}: it wrapped or was reset")),
        }
    }
}

impl<T> Measured<T> {
    /// Unknown, because this machine does not have the value.
    pub fn absent(why: impl Into<String>) -> Measured<T> {
        Measured::Unknown(Unknown { unknown: Kind::Absent, why: why.into() })
    }

    /// Unknown, because the text is invalid.
    pub fn odd(why: impl Into<String>) -> Measured<T> {
        Measured::Unknown(Unknown { unknown: Kind::Odd, why: why.into() })
    }

    /// Unknown, because the kernel returned an error.
    pub fn refused(refusal: &Refusal) -> Measured<T> {
        let unknown = match refusal.why {
            Why::Errno(errno) if errno.is_denial() => Kind::Denied,
            Why::Errno(errno) if errno.is_absence() => Kind::Absent,
            Why::Errno(_) => Kind::Odd,
            Why::OtherNetwork => Kind::Denied,
            Why::NotCaptured => Kind::Absent,
        };
        Measured::Unknown(Unknown { unknown, why: refusal.to_string() })
    }

    /// The value, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Measured::Known(value) => Some(value),
            Measured::Unknown(_) => None,
        }
    }

    /// The reason, if unknown.
    pub fn why(&self) -> Option<&str> {
        match self {
            Measured::Known(_) => None,
            Measured::Unknown(unknown) => Some(&unknown.why),
        }
    }

    /// The value or the reason, as a `Result`.
    ///
    /// # Errors
    /// Returns the reason if the value is unknown.
    pub fn into_result(self) -> Result<T, Unknown> {
        match self {
            Measured::Known(value) => Ok(value),
            Measured::Unknown(unknown) => Err(unknown),
        }
    }

    /// Maps the value.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Measured::Known(value) => Measured::Known(of(value)),
            Measured::Unknown(unknown) => Measured::Unknown(unknown),
        }
    }

    /// Maps the value to another value that may itself be unknown.
    pub fn and_then<U>(&self, of: impl FnOnce(&T) -> Measured<U>) -> Measured<U> {
        match self {
            Measured::Known(value) => of(value),
            Measured::Unknown(unknown) => Measured::Unknown(unknown.clone()),
        }
    }
}
