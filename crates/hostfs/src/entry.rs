//! The entry at a path of a configuration file.

use serde::{Deserialize, Serialize};

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// The file's whole text.
        text: String,
        /// The file's permission bits, such as 0o644.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// The link's target, as written in the link.
        target: String,
    },
}
