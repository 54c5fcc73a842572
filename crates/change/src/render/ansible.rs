//! The script as an Ansible role of builtin modules. The role installs and runs the script, and has tasks to undo it.
//!
//! The role runs one script, instead of one task per value and file.
//! `sysctl` is not a builtin module, and `copy` replaces a file below `/sys` instead of writing to it.
//! No module records the original values, or restores all of them when one step fails.
//! The role's YAML contains no text of the plan, so the plan cannot inject a template.

use super::{RenderError, RenderedFile, name, script};
use crate::plan_file::PlanFile;

/// The files of a role, with their paths in the role's folder.
///
/// # Errors
/// If a text of the plan is not allowed in a script.
pub fn role(plan: &PlanFile) -> Result<Vec<RenderedFile>, RenderError> {
    let name = name(plan);
    let text = |path: &str, template: &str| RenderedFile {
        path: path.to_owned(),
        mode: 0o644,
        text: template.replace("NAME", &name),
    };
    Ok(vec![
        text("defaults/main.yml", include_str!("ansible/defaults.yml")),
        text("handlers/main.yml", include_str!("ansible/handlers.yml")),
        text("meta/main.yml", include_str!("ansible/meta.yml")),
        text("tasks/main.yml", include_str!("ansible/tasks.yml")),
        text("tasks/undo.yml", include_str!("ansible/undo.yml")),
        RenderedFile { path: format!("files/{name}.sh"), mode: 0o755, text: script(plan)? },
    ])
}
