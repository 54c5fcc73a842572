//! `Measured`: a number, or why there is none. A counter that could not be read, or that went back, is never a 0.

use evenkeel_hostfs::{Refusal, Why};
use serde::Serialize;

/// A value, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Measured<T> {
    /// It was read and understood.
    Known(T),
    /// It was not.
    Unknown(Unknown),
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// Of which kind the reason is.
    pub unknown: Kind,
    /// In words, with the path.
    pub why: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This machine has no such thing.
    Absent,
    /// It is there, but this user may not read it.
    Denied,
    /// It was read, and makes no sense.
    Odd,
}

impl<T> Measured<T> {
    /// This machine has no such thing.
    pub fn absent(why: impl Into<String>) -> Measured<T> {
        Measured::Unknown(Unknown { unknown: Kind::Absent, why: why.into() })
    }

    /// It makes no sense.
    pub fn odd(why: impl Into<String>) -> Measured<T> {
        Measured::Unknown(Unknown { unknown: Kind::Odd, why: why.into() })
    }

    /// What the kernel refused.
    pub fn refused(refusal: &Refusal) -> Measured<T> {
        let unknown = match refusal.why {
            Why::Errno(errno) if errno.is_denial() => Kind::Denied,
            Why::Errno(errno) if errno.is_absence() => Kind::Absent,
            Why::Errno(_) => Kind::Odd,
            Why::NotCaptured => Kind::Absent,
        };
        Measured::Unknown(Unknown { unknown, why: refusal.to_string() })
    }

    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Measured::Known(value) => Some(value),
            Measured::Unknown(_) => None,
        }
    }

    /// The reason, where it is not.
    pub fn why(&self) -> Option<&str> {
        match self {
            Measured::Known(_) => None,
            Measured::Unknown(unknown) => Some(&unknown.why),
        }
    }

    /// A value made of this one.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Measured::Known(value) => Measured::Known(of(value)),
            Measured::Unknown(unknown) => Measured::Unknown(unknown),
        }
    }

    /// What is made of this one, which may be unknown itself.
    pub fn and_then<U>(&self, of: impl FnOnce(&T) -> Measured<U>) -> Measured<U> {
        match self {
            Measured::Known(value) => of(value),
            Measured::Unknown(unknown) => Measured::Unknown(unknown.clone()),
        }
    }
}
