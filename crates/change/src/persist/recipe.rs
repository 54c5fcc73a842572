//! What a recipe is, and what it needs to know.

use evenkeel_host::{Facts, Setting};

use crate::ServiceName;
use crate::persist_plan::{Cannot, PersistPlan};

/// What a recipe needs to know beside the settings.
#[derive(Clone, Copy, Debug)]
pub struct PersistContext<'a> {
    /// The machine or the image.
    pub facts: &'a Facts,
    /// The systemd unit of the server, such as `memcached.service`, for settings of its process.
    pub unit: Option<&'a ServiceName>,
    /// Where this program stands on the machine, for the unit that verifies after a boot; none where it does not.
    pub program: Option<&'a str>,
    /// Whether the root is not running: then programs of it can't be told anything.
    pub is_image: bool,
    /// The files of an image that give its kernels arguments, as [`boot_files`](super::boot_files) reads them; none for a machine that runs.
    pub boot_files: &'a [BootFile],
    /// The kernel arguments that earlier transactions of ours added and that still stand, as `NAME=VALUE`: what else the kernel was
    /// started with is somebody else's, and is neither replaced nor removed.
    pub own_arguments: &'a [String],
}

/// One way in which settings outlive a boot.
pub(super) struct Recipe {
    /// Whether a setting is its own; no two recipes take the same.
    pub(super) takes: fn(&Setting) -> bool,
    /// What makes those settings last.
    pub(super) plan: fn(&PersistContext<'_>, &[&Setting]) -> PersistPlan,
}

/// A recipe's own word that it can't.
pub(super) fn refuse(setting: &Setting, why: impl Into<String>, todo: impl Into<String>) -> Cannot {
    Cannot { setting: setting.to_string(), why: why.into(), todo: todo.into() }
}

/// The first lines of every file of ours: who wrote it, and how it goes away again.
pub(crate) const HEAD: &str =
    "# Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.\n";

/// A file of an image that gives its kernels arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFile {
    /// Its path in the image.
    pub path: String,
    /// Its text, or why that can't be read.
    pub text: Result<String, String>,
}
