//! `PersistPlan`: the files below `/etc` and `/boot` and the commands that make settings persist over a boot, as data.
//! The recipes in [`persist`](crate::persist) build it.
//! `persist_exec` applies it, and other code prints it or renders it as a script.

use serde::{Deserialize, Serialize};

use evenkeel_host::TakesEffect;

/// The files and commands that make settings persist over a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PersistPlan {
    /// The files, in the order of writing. evenkeel restores them in the opposite order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PersistedFile>,
    /// The commands that run after the files are written, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<PersistedCommand>,
    /// Which file carries which setting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Carried>,
    /// Settings that evenkeel cannot persist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cannot: Vec<Cannot>,
}

/// One file and its new content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PersistedFile {
    /// The file's path, below `/etc` or `/boot`.
    pub path: String,
    /// Its new content.
    #[serde(flatten)]
    pub content: Content,
}

/// The new content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "content", rename_all = "kebab-case")]
pub enum Content {
    /// evenkeel owns the whole file.
    Whole {
        /// Its text.
        text: String,
        /// The file's permission bits: 420 is 0o644, 493 is 0o755.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: String,
    },
    /// A block of evenkeel's lines between two marks, at the end of another owner's file.
    Block {
        /// The lines, each with its newline.
        lines: String,
    },
    /// Arguments at the end of a line of kernel arguments in a file of another owner:
    /// an `options` line of the Boot Loader Specification, or `/etc/kernel/cmdline`, which contains only arguments.
    /// The file must exist.
    KernelArguments {
        /// The arguments, in their order.
        arguments: Vec<String>,
    },
}

/// A command that makes a program read the written files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PersistedCommand {
    /// Program and arguments; no shell reads them.
    pub argv: Vec<String>,
    /// The command that undoes this command after the files are restored; often the same command.
    pub undo: Vec<String>,
    /// The command runs only if evenkeel changed one of these files. Without files it always runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Its purpose, in a few words.
    pub why: String,
    /// Whether the command applies only to a running system. evenkeel skips such a command in an unbooted image.
    pub only_booted: bool,
}

/// A setting, and the file or command that persists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Carried {
    /// The setting, as `KNOB=VALUE`.
    pub setting: String,
    /// The file that persists the setting, or else the command.
    pub by: String,
    /// When the file takes effect, if the setting is not in force immediately.
    pub takes_effect: TakesEffect,
}

/// A setting that evenkeel cannot persist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cannot {
    /// The setting.
    pub setting: String,
    /// Why the setting cannot persist.
    pub why: String,
    /// What to do instead.
    pub todo: String,
}

impl PersistPlan {
    /// Whether the plan has nothing to write and nothing to run.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.commands.is_empty()
    }

    /// Adds the result of another recipe.
    pub(crate) fn add(&mut self, other: PersistPlan) {
        self.files.extend(other.files);
        self.commands.extend(other.commands);
        self.carried.extend(other.carried);
        self.cannot.extend(other.cannot);
    }
}

/// The plan to persist, and the server that the plan is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lasting {
    /// The server's systemd unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The command that writes the files again, if evenkeel does not derive them from settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
    /// Files and commands.
    #[serde(flatten)]
    pub persist: PersistPlan,
}
