//! `Reading`: how the text of a file tells a knob's value, and how a value is written there.

use evenkeel_sys::CpuSet;
use serde::{Deserialize, Serialize};

use crate::probe::chosen_word;

/// How the text of a file tells its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The text without the white space around it.
    Plain,
    /// Words with single spaces between them, however many spaces and tabs the kernel puts there.
    Words,
    /// The word in brackets.
    ChosenWord,
    /// A list of CPUs.
    CpuList,
    /// A mask of CPUs; values are lists all the same.
    CpuMask,
}

impl Reading {
    /// The value that a file's text tells, in the spelling that settings use.
    pub fn value(self, text: &str) -> Option<String> {
        match self {
            Reading::Plain => Some(text.trim().to_owned()),
            Reading::Words => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            Reading::ChosenWord => chosen_word(text).map(str::to_owned),
            Reading::CpuList => CpuSet::parse_list(text).map(|cpus| cpus.to_string()),
            Reading::CpuMask => CpuSet::parse_mask(text).map(|cpus| cpus.to_string()),
        }
    }

    /// The text that is written to give the file this value.
    pub fn text(self, value: &str) -> String {
        match self {
            // A mask without leading zeros: every kernel takes it, however wide its own masks are.
            Reading::CpuMask => CpuSet::parse_list(value).map_or_else(|| value.to_owned(), |cpus| cpus.to_mask(1)),
            _ => value.to_owned(),
        }
    }
}
