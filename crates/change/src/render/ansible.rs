//! The script as an Ansible role of builtin modules: it lays the script down and runs it, and has tasks that undo it.
//!
//! The script does the work, rather than a task for each value and file: `sysctl` is no builtin module, `copy` on a file below
//! `/sys` replaces instead of writes, and no module notes what was there before or puts all of it back when one step fails.
//! No text of the plan stands in the role's YAML, so none can be a template in it.

use super::{RenderError, RenderedFile, name, script};
use crate::plan_file::PlanFile;

/// The files of a role, by their paths in its folder.
///
/// # Errors
/// If a text of the plan must not get into a script.
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
