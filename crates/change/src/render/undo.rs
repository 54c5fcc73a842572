//! Undoes a plan: the functions of every undo script, and the script that is made from the values in the plan.

use std::fmt::Write;

use evenkeel_host::Action;
use evenkeel_hostfs::Entry;

use super::words::{argument, reading_name, words};
use super::{RenderError, comment, config_path, kernel_path, line};
use crate::edit;
use crate::persist_plan::Content;
use crate::plan_file::PlanFile;
use crate::shell::{quoted, word};

/// Sets `boot` to the current boot, so that the script restores no values of an earlier boot.
/// The kernel has lost the values of an earlier boot, and interrupts may have other numbers.
pub(super) const BOOT: &str = r#"boot=$(cat "$root/proc/sys/kernel/random/boot_id" 2>/dev/null) || boot=none
case $boot in '' | *[!0-9a-z-]*) boot=none ;; esac
"#;

/// The marks around a block. They come from the output of [`edit`](crate::edit), so that both use the same marks.
pub(super) fn marks() -> String {
    // A line that no file contains.
    const HERE: &str = "\0";
    let around = |before: &str| {
        let before = Entry::File { text: before.to_owned(), mode: 0o644 };
        match edit::with(&before, &Content::Block { lines: HERE.to_owned() }) {
            Ok(Entry::File { text, .. }) => text,
            _ => String::new(),
        }
    };
    let (empty, open) = (around(""), around("x"));
    let (begin, end) = empty.split_once(HERE).unwrap_or_default();
    let (begin_open, _) = open.strip_prefix('x').unwrap_or_default().split_once(HERE).unwrap_or_default();
    format!("begin={}\nbegin_open={}\nend={}\n", quoted(begin), quoted(begin_open), quoted(end))
}

/// The functions that a script needs.
pub(super) struct Needs {
    pub(super) values: bool,
    pub(super) files: bool,
    pub(super) links: bool,
    pub(super) blocks: bool,
    pub(super) arguments: bool,
    pub(super) commands: bool,
}

impl Needs {
    pub(super) fn from_plan(plan: &PlanFile) -> Needs {
        let persist = plan.persist.as_ref().map(|lasting| &lasting.persist);
        let has = |is: fn(&Content) -> bool| {
            persist.is_some_and(|persist| persist.files.iter().any(|file| is(&file.content)))
        };
        Needs {
            values: plan.steps.iter().any(|planned| matches!(planned.step.action, Action::Write { .. })),
            files: has(|_| true),
            links: has(|content| matches!(content, Content::Link { .. })),
            blocks: has(|content| matches!(content, Content::Block { .. })),
            arguments: has(|content| matches!(content, Content::KernelArguments { .. })),
            commands: persist.is_some_and(|persist| !persist.commands.is_empty()),
        }
    }
}

/// The functions of an undo script.
pub(super) fn functions(text: &mut String, needs: &Needs) {
    let edits = needs.blocks || needs.arguments;
    let parts = [
        (true, "failed=0\n\n"),
        (true, include_str!("sh/look.sh")),
        (needs.files, "\n"),
        (needs.files, include_str!("sh/own_root.sh")),
        (needs.values, "\n"),
        (needs.values, include_str!("sh/undo_values.sh")),
        (needs.files, "\n"),
        (needs.files, include_str!("sh/take_place.sh")),
        (needs.blocks, "\n"),
        (needs.blocks, &marks()),
        (edits, "\n"),
        (edits, include_str!("sh/edits.sh")),
        (needs.files, "\n"),
        (needs.files, include_str!("sh/undo_files.sh")),
        (needs.commands, "\n"),
        (needs.commands, include_str!("sh/undo_commands.sh")),
    ];
    text.extend(parts.iter().filter(|(is_needed, _)| *is_needed).map(|(_, part)| *part));
}

/// The script that undoes a plan from the values in the plan, for users who did not run its script or lost its records.
///
/// A plan does not contain the original content of files. The script removes files that evenkeel owns completely.
/// From other files, it removes evenkeel's part.
///
/// # Errors
/// If a text of the plan is not allowed in a script.
pub fn undo_script(plan: &PlanFile) -> Result<String, RenderError> {
    let persist = plan.persist.as_ref().map(|lasting| &lasting.persist);
    let mut text = format!(
        "#!/bin/sh\n\
         # evenkeel {}: undoes {}\n\
         #\n\
         # Run it as root on the machine of the plan. It restores the values that evenkeel read when it made the plan, the last change\n\
         # first. It removes the files of the plan, and removes evenkeel's part from files of other owners.\n\
         # EVENKEEL_ROOT=DIR works on the root at DIR, and only prints the commands that would run there.\n\
         # shellcheck disable=SC2016 # Single quotes on purpose: the shell must not expand the text in them.\n\
         set -u\n\
         export LC_ALL=C\n\
         umask 077\n\
         root=${{EVENKEEL_ROOT-}}\n\
         root=${{root%/}}\n\
         case $root in '' | /*) ;; *) root=$PWD/$root ;; esac\n\
         dir=''\n",
        comment(&plan.evenkeel),
        comment(&plan.title),
    );
    text.push_str(BOOT);
    functions(&mut text, &Needs::from_plan(plan));
    text.push_str("\n# The last change first:\n");
    for file in persist.into_iter().flat_map(|persist| &persist.files).rev() {
        let how = match &file.content {
            Content::Whole { .. } | Content::Link { .. } => String::new(),
            Content::Block { .. } => " edited block".to_owned(),
            Content::KernelArguments { arguments } => format!(" edited arguments {}", words(arguments, argument)?),
        };
        // Writing to a String cannot fail, here and in the rest of the function.
        let _ = writeln!(text, "old_file {} ours{how}", word(config_path(&file.path)?));
    }
    for command in persist.into_iter().flat_map(|persist| &persist.commands).filter(|command| !command.undo.is_empty())
    {
        let _ = writeln!(text, "old_command {}", words(&command.undo, |text| line("the command", text))?);
    }
    for planned in plan.steps.iter().rev() {
        values(&mut text, planned)?;
    }
    text.push('\n');
    text.push_str(include_str!("sh/undo_end.sh"));
    Ok(text)
}

fn values(text: &mut String, planned: &crate::plan_file::PlannedStep) -> Result<(), RenderError> {
    let (Action::Write { path, reading, .. }, false) = (&planned.step.action, planned.already_so) else {
        return Ok(());
    };
    let path = word(kernel_path(path)?);
    let Some(seen) = &planned.seen else {
        let _ = writeln!(text, "# {path} was not read when the plan was made");
        return Ok(());
    };
    let old = reading.text(seen);
    let _ = write!(text, "old_value any {} {path} {}", reading_name(*reading), word(line("the value", &old)?));
    for side in &planned.along {
        let _ = write!(text, " {} {}", word(kernel_path(&side.path)?), word(line("the value", &side.before)?));
    }
    text.push('\n');
    Ok(())
}
