//! Names that the cluster sees.

/// The group of the custom resources, of the labels and of the annotations.
pub const GROUP: &str = "evenkeel.dev";
/// The condition of a node.
pub const NODE_CONDITION: &str = "EvenkeelSettings";
/// The annotation of a goal that requests the undo of its rollout.
pub const UNDO: &str = "evenkeel.dev/undo";
/// The annotation of a node with its last reboot for goals, in JSON.
pub const REBOOT: &str = "evenkeel.dev/reboot";
/// The annotation of a goal that a trial releases and withdraws; its value is the trial's id. No rollout touches such a goal.
pub const TRIAL: &str = "evenkeel.dev/trial";
