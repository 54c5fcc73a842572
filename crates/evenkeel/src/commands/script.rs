//! `script`: writes the changes that `apply` would make as a shell script,
//! cloud-init user data or an Ansible role, for review and for other machines.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_change::render::{self, RenderError, RenderedFile, ToDo};
use evenkeel_change::{Log, PlanFile};
use evenkeel_host::{Action, Facts};
use evenkeel_hostfs::Root;
use serde::Serialize;

use crate::args::HostArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::overdue;
use crate::selection::{Selected, Selection, Term};
use crate::show::Out;

/// Write a change as a script, for machines without evenkeel
///
/// The POSIX shell script skips values that are already in force, saves each old value
/// before it changes it, and reads each value back.
/// If one value fails, the script restores all of them. cloud-init and Ansible use the same script.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel script --advised
  evenkeel script --advised --format cloud-init --output user-data")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the script that restores the values which the plan recorded
    #[arg(long)]
    undo: bool,
    /// Write to FILE instead of standard output; for ansible, make the role in the folder of this name
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the settings after a reboot too
    #[arg(long)]
    persist: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// The format in which a plan is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// A POSIX shell script.
    #[default]
    Sh,
    /// User data for cloud-init, which runs the script at the first boot.
    CloudInit,
    /// A role for Ansible, which runs the script on the machines of an inventory.
    Ansible,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer {
    kind: Format,
    undoes: bool,
    settings: Vec<String>,
    files: Vec<RenderedFile>,
    todo: Vec<ToDo>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.undo && args.format != Format::Sh {
        return Err(wrong_use("--undo is written as a shell script alone")
            .hint("a role has it as a task: include_role with tasks_from: undo"));
    }
    let root = args.host.open()?;
    overdue::settle_own(&root, out);
    let facts = Facts::probe(&root);
    let plan = plan(args, &root, &facts)?;
    let files = render(args, &plan).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let todo = if args.undo { Vec::new() } else { render::todo(&plan) };
    let answer = Answer { kind: args.format, undoes: args.undo, settings: plan.settings, files, todo };
    match (&args.output, &answer.files[..]) {
        (None, [file]) => out.answer(&answer, || file.text.clone())?,
        (None, _) => match args.format {
            Format::Ansible if !out.is_json() => {
                return Err(wrong_use("a role is a folder of files").hint("name it with --output DIR"));
            }
            _ => out.answer(&answer, String::new)?,
        },
        (Some(path), files) => {
            write(path, args.format, files)?;
            out.answer(&answer, || format!("Written: {}\n{}", path.display(), how_to_use(args.format, path)))?;
        }
    }
    Ok(exit::WELL)
}

fn wrong_use(cause: &str) -> Failure {
    Failure::text(exit::WRONG_USE, "write the plan as a script", cause)
}

fn render(args: &Args, plan: &PlanFile) -> Result<Vec<RenderedFile>, RenderError> {
    let one = |end: &str, mode, text| vec![RenderedFile { path: format!("{}{end}", render::name(plan)), mode, text }];
    match args.format {
        Format::Sh if args.undo => Ok(one("-undo.sh", 0o755, render::undo_script(plan)?)),
        Format::Sh => Ok(one(".sh", 0o755, render::script(plan)?)),
        Format::CloudInit => Ok(one(".yaml", 0o644, render::cloud_init(plan)?)),
        Format::Ansible => render::role(plan),
    }
}

/// The plan to write. evenkeel plans the settings of a plan file again, and must get the same steps.
/// Only the undo part comes from the file, because it has the values from the time when the plan was made.
fn plan(args: &Args, root: &Root, facts: &Facts) -> Result<PlanFile, Failure> {
    let term = if args.persist { Term::Lasting } else { Term::Runtime };
    // Use no journal: the script may run on another machine.
    let Selected { mut plan, stale, given } = args.selection.plan(root, facts, &Log::default(), term)?;
    let stale = match given {
        Some(given) if args.undo => {
            take_what_was_seen(&mut plan, &given);
            given.agrees_with(&plan).err()
        }
        _ => stale,
    };
    stale.map_or(Ok(plan), |stale| Err(Failure::new(exit::NOT_POSSIBLE, stale)))
}

fn take_what_was_seen(now: &mut PlanFile, given: &PlanFile) {
    for (now, given) in now.steps.iter_mut().zip(&given.steps) {
        let is_along = |path: &String| given.along.iter().find(|along| along.path == *path).cloned();
        if let Action::Write { side_effects, .. } = &now.step.action {
            now.along = side_effects.iter().filter_map(is_along).collect();
        }
        now.seen.clone_from(&given.seen);
        now.already_so = given.already_so;
    }
}

fn write(path: &Path, format: Format, files: &[RenderedFile]) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        let path = if format == Format::Ansible { path.join(&file.path) } else { path.to_owned() };
        let written = (|| {
            if let (Format::Ansible, Some(folder)) = (format, path.parent()) {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, &file.text)?;
            // Keep the permissions of a terminal, a pipe or /dev/null, because these are not scripts.
            match std::fs::metadata(&path)?.is_file() {
                true => std::fs::set_permissions(&path, std::fs::Permissions::from_mode(file.mode)),
                false => Ok(()),
            }
        })();
        written.map_err(|error| output_file::failure(&path, &error))?;
    }
    Ok(())
}

fn how_to_use(format: Format, path: &Path) -> String {
    let path = path.display();
    match format {
        Format::Sh => format!("Run as root: sh {path}\n"),
        Format::CloudInit => format!("Check: cloud-init schema --config-file {path}\n"),
        Format::Ansible => format!("Use: ansible.builtin.include_role with name: {path}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_file_is_made_to_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let files = [RenderedFile { path: "it.sh".into(), mode: 0o755, text: "exit 0\n".into() }];
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let plain = folder.path().join("plain");
        write(&plain, Format::Sh, &files).unwrap();
        assert_eq!((std::fs::read_to_string(&plain).unwrap().as_str(), mode(&plain)), ("exit 0\n", 0o755));
        // The test uses a named pipe instead of a device, so that a bug can't damage the machine's /dev/null.
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let before = mode(&pipe);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || std::fs::read_to_string(pipe).unwrap()
            });
            write(path, Format::Sh, &files).unwrap();
            assert_eq!(reader.join().unwrap(), "exit 0\n");
            assert_eq!(mode(&pipe), before, "{}", path.display());
        }
        assert_ne!(before, 0o755);
    }
}
