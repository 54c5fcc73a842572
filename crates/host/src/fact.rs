//! `Fact`: a value of a host, or the reason why it is unknown. Zero is always a real number.

use std::fmt;

use evenkeel_hostfs::{Refusal, Why};
use evenkeel_sys::Errno;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The maximum size of the text in a [`Fact::Odd`], in bytes. The bytes beyond it are only counted.
const RAW_BYTES_MAX: usize = 4096;

/// A value, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// The value was read and parsed.
    Known(T),
    /// The machine does not have the value.
    Absent {
        /// In words, with the path.
        why: String,
    },
    /// The capture does not contain the value, usually because evenkeel did not read it when it took the capture.
    /// The machine may have the value, so no knob may be reported as not applicable because of it.
    /// In JSON, the value is `absent` with its reason.
    Unseen {
        /// In words, with the path.
        why: String,
    },
    /// The value exists, but this user or the kernel's lockdown may not read it.
    Denied {
        /// In words, with the path and the error's name.
        why: String,
    },
    /// The kernel forbids the read (`EPERM`), as its lockdown does even for root. In JSON, the value is `denied` with its reason.
    Forbidden {
        /// In words, with the path and the error's name.
        why: String,
    },
    /// The text was read but could not be parsed. The fact stores the text.
    Odd {
        /// In words.
        why: String,
        /// The path.
        path: String,
        /// The text as it was read, up to 4 KiB.
        raw: String,
    },
}

impl<T> Fact<T> {
    /// A value that the machine does not have, with our own reason.
    pub fn absent(why: impl Into<String>) -> Fact<T> {
        Fact::Absent { why: why.into() }
    }

    /// A text at `path` that could not be parsed.
    pub fn odd(path: &str, raw: &str, why: impl Into<String>) -> Fact<T> {
        let mut raw_kept = raw.to_owned();
        if raw.len() > RAW_BYTES_MAX {
            let end = (0..=RAW_BYTES_MAX).rev().find(|at| raw.is_char_boundary(*at)).unwrap_or(0);
            raw_kept.truncate(end);
            raw_kept.push_str(&format!("… ({} bytes in all)", raw.len()));
        }
        Fact::Odd { why: why.into(), path: path.to_owned(), raw: raw_kept }
    }

    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Why the value is unknown. `None` if the value is known.
    pub fn unknown_why(&self) -> Option<&str> {
        match self {
            Fact::Known(_) => None,
            Fact::Absent { why }
            | Fact::Unseen { why }
            | Fact::Denied { why }
            | Fact::Forbidden { why }
            | Fact::Odd { why, .. } => Some(why),
        }
    }

    /// Whether the value is absent: the machine does not have it, or the capture does not contain it.
    pub fn is_absent(&self) -> bool {
        matches!(self, Fact::Absent { .. } | Fact::Unseen { .. })
    }

    /// The fact about a value that is computed from this value. An unknown fact stays unknown, with its reason.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Known(value) => Fact::Known(of(value)),
            Fact::Absent { why } => Fact::Absent { why },
            Fact::Unseen { why } => Fact::Unseen { why },
            Fact::Denied { why } => Fact::Denied { why },
            Fact::Forbidden { why } => Fact::Forbidden { why },
            Fact::Odd { why, path, raw } => Fact::Odd { why, path, raw },
        }
    }
}

impl<T> From<Refusal> for Fact<T> {
    fn from(refusal: Refusal) -> Fact<T> {
        let why = match refusal.why {
            Why::NotCaptured => format!("{} is not in the capture", refusal.path),
            why => format!("{}: {why}", refusal.path),
        };
        match refusal.why {
            Why::Errno(Errno::PERM) => Fact::Forbidden { why },
            Why::Errno(errno) if errno.is_denial() => Fact::Denied { why },
            Why::Errno(errno) if !errno.is_absence() => Fact::Odd { why, path: refusal.path, raw: String::new() },
            Why::Errno(_) => Fact::Absent { why },
            Why::OtherNetwork => Fact::Denied { why },
            Why::NotCaptured => Fact::Unseen { why },
        }
    }
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Known(value) => value.fmt(f),
            Fact::Absent { why } | Fact::Unseen { why } => write!(f, "absent ({why})"),
            Fact::Denied { why } | Fact::Forbidden { why } => write!(f, "denied ({why})"),
            Fact::Odd { why, raw, .. } => write!(f, "odd ({why}: {raw:?})"),
        }
    }
}

/// The value itself, or `{"unknown": "absent" | "denied" | "odd", "why": …}`: never 0 or null.
impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unknown, why) = match self {
            Fact::Known(value) => return value.serialize(serializer),
            Fact::Absent { why } | Fact::Unseen { why } => ("absent", why),
            Fact::Denied { why } | Fact::Forbidden { why } => ("denied", why),
            Fact::Odd { why, .. } => ("odd", why),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("unknown", unknown)?;
        map.serialize_entry("why", why)?;
        if let Fact::Odd { path, raw, .. } = self {
            map.serialize_entry("path", path)?;
            map.serialize_entry("raw", raw)?;
        }
        map.end()
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    /// The JSON of an unknown value, for its schema only.
    #[derive(serde::Serialize, JsonSchema)]
    #[serde(tag = "unknown", rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Unknown {
        Absent { why: String },
        Denied { why: String },
        Odd { why: String, path: String, raw: String },
    }

    impl<T: JsonSchema> JsonSchema for super::Fact<T> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            format!("Fact_of_{}", T::schema_name()).into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            json_schema!({ "anyOf": [generator.subschema_for::<T>(), generator.subschema_for::<Unknown>()] })
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_unknown_is_never_zero_or_null() {
        let refusal = |why| Refusal { path: "/sys/x".into(), why };
        let facts: Vec<Fact<u64>> = vec![
            Fact::Known(0),
            refusal(Why::NotCaptured).into(),
            refusal(Why::Errno(Errno::NOENT)).into(),
            refusal(Why::Errno(Errno::ACCESS)).into(),
            refusal(Why::Errno(Errno::IO)).into(),
            Fact::odd("/sys/x", "12 monkeys", "no number"),
        ];
        expect![[r#"
            [0,{"unknown":"absent","why":"/sys/x is not in the capture"},{"unknown":"absent","why":"/sys/x: no such file or directory (ENOENT)"},{"unknown":"denied","why":"/sys/x: permission denied (EACCES)"},{"unknown":"odd","why":"/sys/x: input/output error (EIO)","path":"/sys/x","raw":""},{"unknown":"odd","why":"no number","path":"/sys/x","raw":"12 monkeys"}]
        "#]]
        .assert_eq(&(serde_json::to_string(&facts).unwrap() + "\n"));
    }

    #[test]
    fn a_long_raw_text_is_cut_at_a_character() {
        let raw = "é".repeat(RAW_BYTES_MAX);
        let Fact::<u64>::Odd { raw, .. } = Fact::odd("/x", &raw, "long") else { panic!("odd") };
        assert!(raw.ends_with("é… (8192 bytes in all)"), "{}", &raw[4080..]);
    }
}
