//! The script as user data of cloud-init: `write_files` installs it, and `runcmd` runs it at the first boot.
//!
//! The script, and not `write_files`, also writes the files that persist settings.
//! Only the script records the original content, adds blocks and links, creates folders,
//! and runs a command only if a file changed.

use std::fmt::Write;

use super::{RenderError, comment, name, script};
use crate::plan_file::PlanFile;

/// The indentation of the script in its literal block.
const INDENT: &str = "      ";

/// The user data, which begins with `#cloud-config`.
///
/// # Errors
/// If a text of the plan is not allowed in a script.
pub fn cloud_init(plan: &PlanFile) -> Result<String, RenderError> {
    let path = format!("/var/lib/evenkeel/script/{}.sh", name(plan));
    let mut text = format!(
        "#cloud-config\n\
         # evenkeel {}: {}\n\
         # cloud-init runs it once, at the first boot of an instance.{}\n\
         write_files:\n\
         \x20 - path: {path}\n\
         \x20   owner: root:root\n\
         \x20   permissions: '0700'\n\
         \x20   content: |\n",
        comment(&plan.evenkeel),
        comment(&plan.title),
        if plan.persist.is_some() {
            ""
        } else {
            " For settings that persist over later boots, use `evenkeel script --persist`."
        },
    );
    // A literal block takes every line unchanged. The script contains only characters that YAML can show.
    // The first line of the script begins without a space, so it sets the indentation.
    for line in script(plan)?.lines() {
        let indent = if line.is_empty() { "" } else { INDENT };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{indent}{line}");
    }
    let _ = write!(text, "runcmd:\n  - [sh, {path}]\n");
    Ok(text)
}
