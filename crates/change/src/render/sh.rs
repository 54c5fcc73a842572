//! The script: fixed functions, which are printed only if needed, and then one line of data per step.

use std::fmt::Write;

use evenkeel_host::{Action, Reading};
use evenkeel_sys::CpuSet;

use super::undo::{self, Needs};
use super::words::{argument, reading_name, words};
use super::{RenderError, carried, comment, config_path, kernel_path, line, lines, name, refused, todo};
use crate::persist_plan::{Content, PersistPlan, PersistedCommand, PersistedFile};
use crate::plan_file::{PlanFile, PlannedStep};
use crate::shell::{quoted, word};

/// The script that does what `apply` does with the plan, on the machine where it runs.
///
/// # Errors
/// If a text of the plan is not allowed in a script.
pub fn script(plan: &PlanFile) -> Result<String, RenderError> {
    let persist = plan.persist.as_ref().map(|lasting| &lasting.persist);
    let mut text = head(plan);
    push(
        &mut text,
        "\n# The plan. The last lines of this file start it, so an incomplete copy does nothing.\nplan() {\n",
    );
    for planned in &plan.steps {
        step(&mut text, planned, persist)?;
    }
    for file in persist.into_iter().flat_map(|persist| &persist.files) {
        self::file(&mut text, file)?;
    }
    for command in persist.into_iter().flat_map(|persist| &persist.commands) {
        self::command(&mut text, command)?;
    }
    let left = todo(plan);
    let left: String = left.iter().map(|todo| comment(&format!("  {}: {}", todo.setting, todo.todo)) + "\n").collect();
    if !left.is_empty() {
        push(&mut text, &format!("\n# Steps that a script cannot do.\ncat <<'END'\nTo do by hand:\n{left}END\n"));
    }
    if !does_something(plan) && left.is_empty() {
        push(&mut text, ":\n");
    }
    push(&mut text, "}\n\n");
    functions(&mut text, &Needs::from_plan(plan));
    push(&mut text, include_str!("sh/end.sh"));
    Ok(text)
}

fn push(text: &mut String, more: &str) {
    text.push_str(more);
}

fn head(plan: &PlanFile) -> String {
    let name = name(plan);
    let settings: String = plan.settings.iter().map(|setting| format!("#   {}\n", comment(setting))).collect();
    format!(
        r#"#!/bin/sh
# evenkeel {version}: {title}
#
# Run it as root. It applies these settings to the machine:
{settings}#
# It skips settings that are already set, so you can run it twice. Before each change it writes the undo script to disk. If a step
# fails, it restores everything. To undo it later:
#   sh /var/lib/evenkeel/script/{name}/undo.sh
#
# EVENKEEL_ROOT=DIR works on the root at DIR, and only prints the commands that would run there.
# EVENKEEL_UNDO=DIR keeps the undo script below DIR.
# Exit codes: 3 not root, 4 failed before any change, 5 failed and restored everything, 6 failed and could not restore everything.
# shellcheck disable=SC2016 # Single quotes on purpose: the shell must not expand the text in them.
set -eu
export LC_ALL=C
umask 077

root=${{EVENKEEL_ROOT-}}
root=${{root%/}}
case $root in '' | /*) ;; *) root=$PWD/$root ;; esac
dir=${{EVENKEEL_UNDO:-$root/var/lib/evenkeel/script}}/{name}
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
{boot}title={quoted}
"#,
        version = comment(&plan.evenkeel),
        title = comment(&plan.title),
        boot = undo::BOOT,
        quoted = quoted(&comment(&plan.title)),
    )
}

/// The functions that a plan and its undo script need.
fn functions(text: &mut String, needs: &Needs) {
    push(text, include_str!("sh/look.sh"));
    push(text, "\n");
    push(text, include_str!("sh/own_root.sh"));
    push(text, "\n");
    push(text, include_str!("sh/run.sh"));
    push(text, "\n# The beginning and the end of the undo script.\nundo_head() {\n");
    push(
        text,
        r#"    printf '#!/bin/sh\n# Undoes %s\n# shellcheck disable=SC2016 # single quotes are meant\n' "$title"
    printf 'set -u\nexport LC_ALL=C\numask 077\nroot=%s\ndir=%s\n' "$(quoted "$root")" "$(quoted "$dir")"
    cat <<'EVENKEEL_UNDO'
"#,
    );
    push(text, undo::BOOT);
    push(text, "\n");
    undo::functions(text, needs);
    push(text, "\n# The last change first:\nEVENKEEL_UNDO\n}\n\nundo_end() {\n    cat <<'EVENKEEL_UNDO'\n");
    push(text, include_str!("sh/undo_end.sh"));
    push(text, "EVENKEEL_UNDO\n}\n");
    let parts = [
        (needs.values, include_str!("sh/values.sh")),
        (needs.files, include_str!("sh/take_place.sh")),
        (needs.files, include_str!("sh/files.sh")),
        (needs.links, include_str!("sh/link.sh")),
        (needs.blocks, &undo::marks()),
        (needs.blocks || needs.arguments, include_str!("sh/edits.sh")),
        (needs.blocks || needs.arguments, include_str!("sh/current.sh")),
        (needs.blocks, include_str!("sh/block.sh")),
        (needs.arguments, include_str!("sh/arguments.sh")),
        (needs.commands, include_str!("sh/commands.sh")),
    ];
    for (_, part) in parts.into_iter().filter(|(is_needed, _)| *is_needed) {
        push(text, "\n");
        push(text, part);
    }
    push(
        text,
        r#"
if [ -z "$root" ] && [ "$(id -u)" -ne 0 ]; then
    printf 'evenkeel: failed to start: only root may change this machine; try sudo sh %s\n' "$0" >&2
    exit 3
fi

"#,
    );
}

fn step(text: &mut String, planned: &PlannedStep, persist: Option<&PersistPlan>) -> Result<(), RenderError> {
    let step = &planned.step;
    line("the knob", &step.knob)?;
    line("the place", &step.place)?;
    line("the value", &step.wanted)?;
    let setting = format!("{}={}", step.knob, step.wanted);
    let at = if step.place.starts_with('/') { String::new() } else { format!(" at {}", step.place) };
    // Writing to a String cannot fail, here and in the rest of the function.
    let _ = writeln!(text, "\n# {}", comment(&format!("{setting}{at}")));
    if let Action::Write { path, reading, in_force, side_effects, .. } = &step.action {
        push(text, &write_line(path, *reading, &step.wanted)?);
        if in_force.is_some() || !side_effects.is_empty() {
            let _ = write!(text, " {}", word(in_force.as_deref().map_or(Ok(""), kernel_path)?));
        }
        for path in side_effects {
            let _ = write!(text, " {}", word(kernel_path(path)?));
        }
        push(text, "\n");
        return Ok(());
    }
    let what = match (&step.action, carried(persist, step)) {
        _ if planned.already_so => "already set".to_owned(),
        (_, Some(by)) => format!("set by {by}: see below"),
        (Action::KernelArgument { argument }, None) => format!("by hand: add {argument} to the kernel's command line"),
        (Action::Hold { path }, None) => {
            format!("lasts only while a process keeps {path} open: a script cannot do this")
        }
        (Action::ByHand { todo }, None) => format!("by hand: {todo}"),
        (Action::Process | Action::Write { .. }, None) => "the server itself sets it when it starts".to_owned(),
    };
    let _ = writeln!(text, "# {}", comment(&what));
    Ok(())
}

/// The line `set_value READING PATH TEXT`, with the text that the executor would write.
fn write_line(path: &str, reading: Reading, wanted: &str) -> Result<String, RenderError> {
    let is_cpus = matches!(reading, Reading::CpuList | Reading::CpuMask);
    if is_cpus && CpuSet::parse_list(wanted).is_none() {
        return Err(refused("the value", wanted, "it must be a list of CPUs such as 0-3,8"));
    }
    let value = reading.text(wanted);
    Ok(format!("set_value {} {} {}", reading_name(reading), word(kernel_path(path)?), word(line("the value", &value)?)))
}

fn file(text: &mut String, file: &PersistedFile) -> Result<(), RenderError> {
    let path = word(config_path(&file.path)?);
    let call = match &file.content {
        Content::Whole { text, mode } => {
            if mode & !0o777 != 0 {
                return Err(refused("the mode", &format!("{mode:o}"), "only permission bits are allowed"));
            }
            let cut = if text.ends_with('\n') { "" } else { " cut" };
            format!("place {mode:o} {path}{cut} {}", here_document(lines("the file", text)?))
        }
        Content::Link { target } => format!("link {} {path}\n", word(line("the link", target)?)),
        Content::Block { lines: block } => {
            if !block.ends_with('\n') {
                return Err(refused("the block", block, "its last line must end with a newline"));
            }
            format!("block {path} {}", here_document(lines("the block", block)?))
        }
        Content::KernelArguments { arguments } => {
            format!("kernel_arguments {path} {}\n", words(arguments, argument)?)
        }
    };
    push(text, "\n");
    push(text, &call);
    Ok(())
}

/// `text` unchanged as a here-document. Its end word does not occur in the text.
fn here_document(text: &str) -> String {
    let mut end = "END".to_owned();
    while text.contains(&end) {
        end.push('_');
    }
    let gap = if text.ends_with('\n') { "" } else { "\n" };
    format!("<<'{end}'\n{text}{gap}{end}\n")
}

fn command(text: &mut String, command: &PersistedCommand) -> Result<(), RenderError> {
    let all = |argv: &[String]| words(argv, |text| line("the command", text));
    if command.argv.first().is_none_or(|program| program.is_empty() || program.starts_with('-')) {
        return Err(refused("the command", &command.argv.join(" "), "it must begin with a program"));
    }
    let (run, undo) = (all(&command.argv)?, all(&command.undo)?);
    let mut calls = vec![format!("run {run}")];
    if !command.undo.is_empty() {
        calls.insert(0, format!("undone_by {undo}"));
    }
    let _ = writeln!(text, "\n# {}", comment(&command.why));
    let when = match command.after.is_empty() {
        true => format!("not_run {run}"),
        false => format!("after {}", words(&command.after, config_path)?),
    };
    let _ = writeln!(text, "if {when}; then\n    {}\nfi", calls.join("\n    "));
    Ok(())
}

/// Whether the plan's function has a command. In sh, a function of only comments is an error.
fn does_something(plan: &PlanFile) -> bool {
    let needs = Needs::from_plan(plan);
    needs.values || needs.files || needs.commands
}
