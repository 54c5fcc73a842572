//! `Reading`: how a file's text contains a knob's value, and how to write a value.

use evenkeel_sys::CpuSet;
use serde::{Deserialize, Serialize};

use crate::probe::chosen_word;

/// How a file's text contains its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The text without surrounding white space.
    Plain,
    /// Words with single spaces between them, whatever separator the kernel uses.
    Words,
    /// The word in brackets.
    ChosenWord,
    /// A list of CPUs.
    CpuList,
    /// A mask of CPUs. The values of settings are still lists.
    CpuMask,
}

impl Reading {
    /// The value in a file's text, in the form that settings use.
    pub fn value(self, text: &str) -> Option<String> {
        match self {
            Reading::Plain => Some(text.trim().to_owned()),
            Reading::Words => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            Reading::ChosenWord => chosen_word(text).map(str::to_owned),
            Reading::CpuList => CpuSet::parse_list(text).map(|cpus| cpus.to_string()),
            Reading::CpuMask => CpuSet::parse_mask(text).map(|cpus| cpus.to_string()),
        }
    }

    /// The text to write for this value.
    pub fn text(self, value: &str) -> String {
        match self {
            // Write a mask without leading zeros. Every kernel accepts this form, whatever the width of its masks.
            Reading::CpuMask => CpuSet::parse_list(value).map_or_else(|| value.to_owned(), |cpus| cpus.to_mask(1)),
            _ => value.to_owned(),
        }
    }
}
