//! The script as user data of cloud-init: `write_files` lays it down, `runcmd` runs it at the first boot.
//!
//! The files that make settings last are written by the script too, not by `write_files`: only the script notes what was there
//! before, adds blocks and links, makes folders, and runs a command only if a file changed. One way in, one way out.

use std::fmt::Write;

use super::{RenderError, comment, name, script};
use crate::plan_file::PlanFile;

/// How far the lines of the script are indented in the literal block that holds them.
const INDENT: &str = "      ";

/// The user data, which begins with `#cloud-config`.
///
/// # Errors
/// If a text of the plan must not get into a script.
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
        if plan.persist.is_some() { "" } else { " What must outlive that boot takes `evenkeel script --persist`." },
    );
    // A literal block takes every line as it is. The script's texts were checked to have no letter that YAML can't show there,
    // and its first line begins with no space, which tells how far all are indented.
    for line in script(plan)?.lines() {
        let indent = if line.is_empty() { "" } else { INDENT };
        // A String takes every write.
        let _ = writeln!(text, "{indent}{line}");
    }
    let _ = write!(text, "runcmd:\n  - [sh, {path}]\n");
    Ok(text)
}
