//! `Arm`: what is done to each setting of a trial while a window is measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of arms of a session, including the unchanged machine. The windows of a block should be close in time, and each
/// additional arm requires more evidence for all of them.
pub const ARMS_MAX: usize = 8;

/// The name of an arm; A is the machine as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the names say it")]
pub enum ArmName {
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
}

impl ArmName {
    /// All names, in order.
    pub const ALL: [ArmName; ARMS_MAX] =
        [ArmName::A, ArmName::B, ArmName::C, ArmName::D, ArmName::E, ArmName::F, ArmName::G, ArmName::H];

    /// The arms other than A, for a total number of arms.
    pub fn further(arms: usize) -> impl DoubleEndedIterator<Item = ArmName> {
        ArmName::ALL.into_iter().take(arms).skip(1)
    }
}

/// Prints the name as in JSON.
impl fmt::Display for ArmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What an arm does to one setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The value before the trial. It is written too, so that all arms take the same path.
    AsItWas,
    /// The value that was asked for.
    Planned,
    /// Another value, in the kernel's form, checked like the requested one.
    Value(String),
}

/// What an arm does to the host: a level for each requested setting, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arm(pub Vec<Level>);

impl Arm {
    /// The machine as it was before the trial.
    pub fn as_it_was(settings: usize) -> Arm {
        Arm(vec![Level::AsItWas; settings])
    }

    /// Everything that was asked for.
    pub fn planned(settings: usize) -> Arm {
        Arm(vec![Level::Planned; settings])
    }

    /// The level of a setting. A setting that was never named keeps its value.
    pub fn level(&self, setting: usize) -> &Level {
        self.0.get(setting).unwrap_or(&Level::AsItWas)
    }

    /// Whether it leaves everything unchanged.
    pub fn is_as_it_was(&self) -> bool {
        self.0.iter().all(|level| *level == Level::AsItWas)
    }
}
