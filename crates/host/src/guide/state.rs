//! The state of a guide's setting on one machine, together with the setting.

use serde::{Deserialize, Serialize};

use crate::setting::Setting;

/// The state of a guide's setting on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingState {
    /// The setting would change the machine, and can be tried.
    Try,
    /// It is in force already.
    AlreadySo,
    /// A later line sets the same thing, and wins.
    Overridden,
    /// The setting takes effect after a reboot.
    NeedsReboot,
    /// evenkeel does not set it, but the user can.
    ByHand,
    /// This machine or its container does not have the setting, or the setting has no effect here.
    NotHere,
    /// The setting would take effect, and do harm on this machine.
    NotAdvised,
    /// The kernel has removed or renamed it, or ignores it.
    Outdated,
    /// evenkeel does not accept the value: it is out of range, or of another form.
    BadValue,
    /// The setting can cut the connection, stop the machine or open it to attacks. evenkeel never writes it.
    Dangerous,
    /// The present value is not known, so it could not be restored.
    Unknown,
}

impl SettingState {
    /// Every state, in the order in which pages show the states.
    pub const ALL: [SettingState; 11] = [
        SettingState::Try,
        SettingState::AlreadySo,
        SettingState::Overridden,
        SettingState::NeedsReboot,
        SettingState::ByHand,
        SettingState::NotHere,
        SettingState::NotAdvised,
        SettingState::Outdated,
        SettingState::BadValue,
        SettingState::Dangerous,
        SettingState::Unknown,
    ];
}

/// One setting of a guide, judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The index of the setting's line in the guide.
    pub line: usize,
    /// The setting, as the guide has it.
    pub asked: String,
    /// The knob's id, if evenkeel has a knob. For a sysctl whose knob is not in the list, `sysctl:NAME`.
    pub knob: Option<&'static str>,
    /// The setting, if evenkeel can try it.
    pub setting: Option<Setting>,
    /// The value in force.
    pub current: Option<String>,
    /// Its state on this machine.
    pub state: SettingState,
    /// Why.
    pub why: String,
    /// Whether the value is the kernel's default.
    pub is_default: bool,
}

/// A state with its reason.
pub(super) type Because = (SettingState, String);
