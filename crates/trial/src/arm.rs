//! `Arm`: the value that each setting of a trial has while a window is measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of arms of a session, including the unchanged machine.
/// The windows of a block should be close in time.
/// Each additional arm also makes all arms need more evidence.
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

    /// The names of the arms other than A, for a session with `arms` arms.
    pub fn further(arms: usize) -> impl DoubleEndedIterator<Item = ArmName> {
        ArmName::ALL.into_iter().take(arms).skip(1)
    }
}

/// Prints the same name as in JSON.
impl fmt::Display for ArmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The value that an arm gives to one setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The value before the trial. The arm also writes this value, so that all arms switch in the same way.
    AsItWas,
    /// The value that the user requested.
    Planned,
    /// Another value, in the kernel's form. The trial checks this value like the requested one.
    Value(String),
}

/// What an arm does to the host: one level for each requested setting, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arm(pub Vec<Level>);

impl Arm {
    /// An arm that keeps all settings as they were before the trial.
    pub fn as_it_was(settings: usize) -> Arm {
        Arm(vec![Level::AsItWas; settings])
    }

    /// An arm that gives all settings their requested values.
    pub fn planned(settings: usize) -> Arm {
        Arm(vec![Level::Planned; settings])
    }

    /// The level of a setting. If the arm does not have the setting, its value stays as it was.
    pub fn level(&self, setting: usize) -> &Level {
        self.0.get(setting).unwrap_or(&Level::AsItWas)
    }

    /// Whether the arm leaves all settings unchanged.
    pub fn is_as_it_was(&self) -> bool {
        self.0.iter().all(|level| *level == Level::AsItWas)
    }
}
