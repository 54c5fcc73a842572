//! Checks values from outside against a knob's data, and converts them to the kernel's form.

use std::fmt;

use evenkeel_sys::CpuSet;

use crate::finding::shown;
use crate::knob::{Knob, Place, Values};
use crate::least;
use crate::number::kernel_number;

/// The longest value of any knob, in bytes. A mask of 8,192 CPUs has 2,303 bytes.
const VALUE_BYTES_MAX: usize = 4096;

/// The longest value of a sysctl for which no knob exists, in bytes.
const SYSCTL_BYTES_MAX: usize = 256;

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The text has no `=`.
    NoValue {
        /// The text.
        text: String,
    },
    /// No knob has this id.
    UnknownKnob {
        /// The given id.
        id: String,
        /// The nearest id, if one is similar.
        nearest: Option<&'static str>,
    },
    /// A sysctl that evenkeel never writes.
    Never {
        /// The sysctl.
        id: String,
        /// Why.
        why: String,
    },
    /// The knob does not accept this value.
    BadValue {
        /// The knob's id.
        knob: &'static str,
        /// The given value.
        value: String,
        /// The accepted values.
        takes: String,
    },
}

impl Knob {
    /// The value in the kernel's form, if the knob accepts it.
    ///
    /// # Errors
    /// [`SettingError::BadValue`] with the accepted values.
    /// [`SettingError::Never`] if the sysctl has no knob, and the value would harm the machine because it is too small.
    pub fn check(&'static self, value: &str) -> Result<String, SettingError> {
        let value = value.trim();
        let taken = if value.len() > VALUE_BYTES_MAX { None } else { self.values.take(value, self.base()) };
        let taken = taken.ok_or_else(|| SettingError::BadValue {
            knob: self.id,
            value: shown(value),
            takes: self.values.to_string(),
        })?;
        match self.too_little(&taken) {
            Some(why) => Err(SettingError::Never { id: format!("{}={}", self.id, shown(&taken)), why }),
            None => Ok(taken),
        }
    }
}

/// How a number is written.
#[derive(Clone, Copy)]
enum Base {
    /// Always in base 10.
    Ten,
    /// As the kernel reads sysctls: octal after `0`, hexadecimal after `0x`.
    AsPrefixed,
}

impl Knob {
    fn base(&self) -> Base {
        let is_prefixed =
            |path: &&str| ["/proc/sys/", "/sys/kernel/debug/"].iter().any(|folder| path.starts_with(folder));
        if self.place.files().iter().any(is_prefixed) { Base::AsPrefixed } else { Base::Ten }
    }
}

impl Base {
    fn number(self, text: &str) -> Option<i64> {
        match self {
            Base::Ten => text.parse().ok(),
            Base::AsPrefixed => kernel_number(text),
        }
    }
}

impl Knob {
    /// Why a sysctl without its own knob must not have this value. `None` if it may have the value.
    fn too_little(&self, value: &str) -> Option<String> {
        match (self.values, self.place) {
            (Values::Sysctl, Place::File { path, .. }) => least::too_little(path, value),
            _ => None,
        }
    }
}

impl Values {
    fn take(self, value: &str, base: Base) -> Option<String> {
        match self {
            Values::Number { min, max, .. } => {
                let number = base.number(value)?;
                (min..=max).contains(&number).then(|| number.to_string())
            }
            Values::Numbers { count, min, max, .. } => {
                let number = |word: &str| base.number(word).filter(|number| (min..=max).contains(number));
                let numbers: Vec<String> =
                    value.split_whitespace().map(|word| Some(number(word)?.to_string())).collect::<Option<_>>()?;
                (numbers.len() == count).then(|| numbers.join(" "))
            }
            Values::Words(words) => words.contains(&value).then(|| value.to_owned()),
            Values::Name => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                (!value.is_empty() && value.len() <= 64 && value.bytes().all(plain)).then(|| value.to_owned())
            }
            Values::Sysctl => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:+/ ".contains(&byte);
                let words = value.split_whitespace().collect::<Vec<_>>().join(" ");
                (!words.is_empty() && words.len() <= SYSCTL_BYTES_MAX && words.bytes().all(plain)).then_some(words)
            }
            Values::Cpus { may_be_empty } => {
                let cpus = CpuSet::parse_list(value)?;
                (may_be_empty || !cpus.is_empty()).then(|| cpus.to_string())
            }
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Number { min, max, unit: "" } => write!(f, "a whole number from {min} to {max}"),
            Values::Number { min, max, unit } => write!(f, "a whole number of {unit} from {min} to {max}"),
            Values::Numbers { count, min, max, unit } => {
                write!(f, "{count} whole numbers of {unit}, each from {min} to {max}, separated by spaces")
            }
            Values::Words([word]) => write!(f, "only {word}"),
            Values::Words(words) => write!(f, "one of {}", words.join(", ")),
            Values::Name => f.write_str("a name of letters, digits, - and _ that the kernel offers"),
            Values::Sysctl => f.write_str("numbers or words without quotes, as the kernel takes them"),
            Values::Cpus { may_be_empty: true } => f.write_str("a list of CPUs such as 0-3,8, or nothing for none"),
            Values::Cpus { may_be_empty: false } => f.write_str("a list of CPUs such as 0-3,8"),
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::NoValue { text } => write!(f, "{text:?} is not a setting: expected KNOB=VALUE"),
            SettingError::UnknownKnob { id, nearest: None } => {
                write!(f, "unknown knob {id:?}: `evenkeel explain` lists the knobs")
            }
            SettingError::UnknownKnob { id, nearest: Some(nearest) } => {
                write!(f, "unknown knob {id:?}: did you mean {nearest:?}? `evenkeel explain` lists the knobs")
            }
            SettingError::Never { id, why } => write!(f, "evenkeel never writes {id}: {why}"),
            SettingError::BadValue { knob, value, takes } => {
                write!(f, "{knob} does not accept {value:?}: it accepts {takes}")
            }
        }
    }
}

impl std::error::Error for SettingError {}
