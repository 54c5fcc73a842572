//! Defines a recipe and its context.

use evenkeel_host::{Facts, Setting};

use crate::ServiceName;
use crate::persist_plan::{Cannot, PersistPlan};

/// What a recipe needs to know besides the settings.
#[derive(Clone, Copy, Debug)]
pub struct PersistContext<'a> {
    /// The machine or the image.
    pub facts: &'a Facts,
    /// The systemd unit of the server, such as `memcached.service`, for settings of its process.
    pub unit: Option<&'a ServiceName>,
    /// The path of this program on the machine, for the unit that verifies after a boot;
    /// `None` if the program is not installed.
    pub program: Option<&'a str>,
    /// Whether the root is an image that does not run. Then evenkeel can notify no program.
    pub is_image: bool,
    /// The files of an image that contain its kernel arguments,
    /// as [`boot_files`](super::boot_files) reads them; empty for a running machine.
    pub boot_files: &'a [BootFile],
    /// The kernel arguments that earlier evenkeel transactions added and that are still in force, as `NAME=VALUE`.
    /// All other arguments of the kernel belong to other owners, and evenkeel neither replaces nor removes them.
    pub own_arguments: &'a [String],
}

/// One way to make settings persist over a boot.
pub(super) struct Recipe {
    /// Whether the recipe handles a setting. No two recipes handle the same setting.
    pub(super) takes: fn(&Setting) -> bool,
    /// Makes these settings persist.
    pub(super) plan: fn(&PersistContext<'_>, &[&Setting]) -> PersistPlan,
}

/// A recipe's refusal.
pub(super) fn refuse(setting: &Setting, why: impl Into<String>, todo: impl Into<String>) -> Cannot {
    Cannot { setting: setting.to_string(), why: why.into(), todo: todo.into() }
}

/// The first line of every file of evenkeel: who wrote it, and how to remove it.
pub(crate) const HEAD: &str =
    "# Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.\n";

/// A file of an image that contains kernel arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFile {
    /// Its path in the image.
    pub path: String,
    /// The text of the file, or why evenkeel cannot read it.
    pub text: Result<String, String>,
}
