//! `LeftOut`: a knob that a search does not try, with the reason.

use serde::Serialize;

/// A knob that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The knob's id.
    pub knob: String,
    /// Why.
    pub why: LeftOutReason,
}

/// Why a knob is not tried. In JSON it is its sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOutReason {
    /// The user is not root.
    #[error("it is the whole host's, and takes root")]
    NeedsRoot,
    /// So many other candidates rank before it.
    #[error("{candidates} others go first")]
    TooMany {
        /// How many are tried.
        candidates: usize,
    },
    /// Its value is in force.
    #[error("it is so already")]
    AlreadyInForce,
    /// Neither the advice nor the list of values that are worth a trial has one.
    #[error("no value is advised for it here: name one")]
    NoValue,
    /// It could interrupt the connection of whoever types.
    #[error("it is a network device's, and a change may cut the line: only when asked for")]
    NetworkDevice,
    /// It acts on interfaces that come up later.
    #[error("it takes effect on interfaces that are brought up afterwards")]
    NewInterfaces,
    /// It acts after a reboot.
    #[error("it takes effect after a reboot")]
    NeedsReboot,
    /// evenkeel can't set it.
    #[error("it is done by hand: {todo}")]
    ByHand {
        /// What to do.
        todo: String,
    },
    /// The advice on every place of it says that it can do nothing here.
    #[error("{0}")]
    Advice(String),
    /// No plan can be made of its setting.
    #[error("{0}")]
    NoPlan(String),
    /// Its value can't be read, or reads otherwise than it works.
    #[error("{0}")]
    Unreadable(String),
    /// Another program sets it.
    #[error("{0}")]
    Owned(String),
    /// The workload can't be switched to it.
    #[error("{0}")]
    Workload(String),
    /// As the log of a search has it.
    #[error("{0}")]
    Logged(String),
}

impl Serialize for LeftOutReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
