//! Applies a [`PersistPlan`] and undoes it: configuration files, then the commands that make programs read them.

use evenkeel_hostfs::{Entry, Root, RootKind, Tree, TreeError};

use crate::edit;
use crate::effects::Effects;
use crate::failure::Failure;
use crate::holders::revert_command;
use crate::persist_plan::{Content, PersistPlan, PersistedCommand, PersistedFile};
use crate::put_back::{PersistedOutcome, PersistedUndo, PutBack};
use crate::record::{CommandIntent, Event, FileIntent};
use crate::shell;

/// Writes the files and runs the commands of a plan. Returns the indices of those that were already in place.
/// The indices begin at `first`, because the steps have the lower indices.
pub(crate) fn persist(
    effects: &mut Effects<'_>,
    txn: u64,
    first: usize,
    plan: &PersistPlan,
) -> Result<Vec<usize>, Failure> {
    if plan.is_empty() {
        return Ok(Vec::new());
    }
    let tree = effects.root.tree().map_err(|error| Failure::Root(error.to_string()))?;
    let mut already_so = Vec::new();
    let mut changed: Vec<&str> = Vec::new();
    for (index, file) in (first..).zip(&plan.files) {
        // A person undoes the newest record first,
        // and a command must not run before the file that it reads is restored.
        // So each file's record ends with the commands that read the file.
        let readers = plan.commands.iter().filter(|command| command.after.contains(&file.path));
        let readers: String = readers.map(|command| format!("; {}", shell_words(&command.undo))).collect();
        if take_file(effects, &tree, StepKey { txn, index }, file, &readers)? {
            changed.push(&file.path);
        } else {
            already_so.push(index);
        }
    }
    // If a process was killed between a file and its command, that command is still pending.
    let is_pending = |command: &PersistedCommand| effects.state.log().has_pending_command(txn, &command.argv);
    let runs: Vec<bool> = plan
        .commands
        .iter()
        .map(|command| {
            let concerned =
                command.after.is_empty() || command.after.iter().any(|path| changed.contains(&path.as_str()));
            concerned || is_pending(command)
        })
        .collect();
    for ((index, command), runs) in (first + plan.files.len()..).zip(&plan.commands).zip(runs) {
        if runs && effects.root.kind() != RootKind::Mounted {
            take_command(effects, StepKey { txn, index }, command)?;
        } else {
            already_so.push(index);
        }
    }
    Ok(already_so)
}

/// Whether every file of `plan` is already in place, so that no write is needed.
///
/// # Errors
/// If a file can't be read.
pub fn is_in_place(root: &Root, plan: &PersistPlan) -> Result<bool, TreeError> {
    let Ok(tree) = root.tree() else { return Ok(false) };
    for file in &plan.files {
        let now = tree.look(&file.path)?;
        if edit::with(&now, &file.content).is_ok_and(|wanted| wanted != now) {
            return Ok(false);
        }
    }
    // evenkeel cannot find out whether a command that reads none of the files has already run.
    Ok(plan.commands.iter().all(|command| !command.after.is_empty()))
}

/// The current and the new text of a file, for a review of the plan.
///
/// # Errors
/// If the file can't be read, or can't be edited.
pub fn before_and_after(root: &Root, file: &PersistedFile) -> Result<(String, String), String> {
    let tree = root.tree().map_err(|error| error.to_string())?;
    let before = tree.look(&file.path).map_err(|error| error.to_string())?;
    let after = edit::with(&before, &file.content)?;
    let text = |entry: Entry| match entry {
        Entry::Absent => String::new(),
        Entry::File { text, .. } => text,
        Entry::Link { target } => format!("-> {target}\n"),
    };
    Ok((text(before), text(after)))
}

/// A step of a transaction.
#[derive(Clone, Copy)]
struct StepKey {
    txn: u64,
    index: usize,
}

/// Writes one file of the plan. Returns whether a write was needed.
fn take_file(
    effects: &mut Effects<'_>,
    tree: &Tree,
    step: StepKey,
    file: &PersistedFile,
    readers: &str,
) -> Result<bool, Failure> {
    let PersistedFile { path, content } = file;
    let before = tree.look(path)?;
    let after = edit::with(&before, content).map_err(|why| Failure::File { path: path.clone(), why })?;
    if before == after {
        return Ok(false);
    }
    let folders = tree.missing_folders(path)?;
    effects.state.claim(effects.root, path)?;
    effects.hold((step.txn, step.index), [(path.as_str(), "")])?;
    let undo = undo_line(path, &before, &folders) + readers;
    effects.record(Event::File(FileIntent {
        txn: step.txn,
        step: step.index,
        path: path.clone(),
        content: content.clone(),
        before,
        folders: folders.clone(),
        undo,
    }))?;
    for folder in &folders {
        effects.state.outside.make_folder(tree, folder)?;
    }
    effects.state.outside.put(tree, path, &after)?;
    if tree.look(path)? != after {
        return Err(Failure::File { path: path.clone(), why: "it does not contain what evenkeel wrote".to_owned() });
    }
    effects.done(step.txn, step.index)?;
    Ok(true)
}

fn take_command(effects: &mut Effects<'_>, step: StepKey, command: &PersistedCommand) -> Result<(), Failure> {
    let PersistedCommand { argv, undo, .. } = command;
    effects.record(Event::Command(CommandIntent {
        txn: step.txn,
        step: step.index,
        argv: argv.clone(),
        undo_argv: undo.clone(),
        undo: shell_words(undo),
    }))?;
    effects.run(argv).map_err(|why| Failure::Command { command: shell_words(argv), why })?;
    effects.done(step.txn, step.index)?;
    Ok(())
}

impl Effects<'_> {
    fn done(&mut self, txn: u64, step: usize) -> Result<(), crate::StateError> {
        self.record(Event::Done { txn, step, found: String::new(), side_effects: Vec::new() })
    }

    /// Only pretends to run the command if the machine is captured, because a captured machine has no programs.
    fn run(&mut self, argv: &[String]) -> Result<(), String> {
        match self.root.kind() {
            RootKind::Live => self.state.outside.run(argv),
            RootKind::Captured | RootKind::Mounted => self.state.outside.rehearse(argv),
        }
    }
}

/// Restores the files of transaction `txn`, the last change first, then runs the commands that undo its commands.
pub(crate) fn restore_persisted(effects: &mut Effects<'_>, txn: u64, back: &mut PutBack) {
    let logged = effects.state.log().begun(txn);
    let (files, commands) = (logged.pending_files(), logged.pending_commands());
    if files.is_empty() && commands.is_empty() {
        return;
    }
    let tree = match effects.root.tree() {
        Ok(tree) => tree,
        Err(error) => {
            let undo = PersistedOutcome::Failed { why: error.to_string() };
            back.all_undone = false;
            back.persisted.push(PersistedUndo { what: "/".to_owned(), undo });
            return;
        }
    };
    for file in &files {
        let undo = restore(effects, &tree, file);
        let is_recorded = back.settle(effects, txn, file.step, PersistedUndo { what: file.path.clone(), undo });
        if is_recorded {
            effects.tidy(&file.path);
        }
    }
    if effects.root.kind() == RootKind::Mounted && !files.is_empty() {
        back.persisted.extend(to_run(effects, txn));
    }
    // Commands run once for all files, because they must read all restored files.
    // If a file is not restored, the command stays pending, and runs again when that file is restored.
    let all_back = back.persisted.iter().all(PersistedUndo::is_undone);
    for command in &commands {
        let undo = match effects.root.kind() {
            RootKind::Mounted => PersistedOutcome::ToRun,
            _ => effects
                .run(&command.undo_argv)
                .map_or_else(|why| PersistedOutcome::Failed { why }, |()| PersistedOutcome::Ran),
        };
        let undone = PersistedUndo { what: shell_words(&command.undo_argv), undo };
        if all_back {
            back.settle(effects, txn, command.step, undone);
        } else {
            back.persisted.push(undone);
        }
    }
}

/// The undo of commands that could not run in an image.
/// A machine that booted from the image may have run the commands since.
fn to_run(effects: &Effects<'_>, txn: u64) -> Vec<PersistedUndo> {
    let lasting = effects.state.log().begun(txn).lasting.iter();
    let commands = lasting.flat_map(|lasting| &lasting.persist.commands).filter(|command| !command.only_booted);
    commands.map(|command| PersistedUndo { what: shell_words(&command.undo), undo: PersistedOutcome::ToRun }).collect()
}

impl PutBack {
    /// Records the outcome of an undo. Returns whether the journal now contains the outcome.
    fn settle(&mut self, effects: &mut Effects<'_>, txn: u64, step: usize, undo: PersistedUndo) -> bool {
        let recorded = undo.is_undone().then(|| effects.record_undone(Event::Undone { txn, step }));
        self.all_undone &= undo.is_undone();
        self.persisted.push(undo);
        let is_recorded = matches!(recorded, Some(Ok(())));
        self.note(recorded.unwrap_or(Ok(())));
        is_recorded
    }
}

fn restore(effects: &mut Effects<'_>, tree: &Tree, file: &FileIntent) -> PersistedOutcome {
    if let Err(why) = refuse_if_covered(effects, tree, file) {
        return PersistedOutcome::Failed { why };
    }
    restore_file(effects, tree, file).unwrap_or_else(|error| match error.errno {
        // Somebody removed the folder together with our file.
        errno if errno.is_absence() && file.before == Entry::Absent => PersistedOutcome::AsBefore,
        _ => PersistedOutcome::Failed { why: error.to_string() },
    })
}

/// If another journal has rewritten our file since, that journal owns the file.
/// Restoring our original would remove its content.
/// Kernel arguments are exempt, because each journal removes only its own arguments.
fn refuse_if_covered(effects: &mut Effects<'_>, tree: &Tree, file: &FileIntent) -> Result<(), String> {
    effects.state.claim(effects.root, &file.path).map_err(|busy| busy.to_string())?;
    if matches!(file.content, Content::KernelArguments { .. })
        || tree.look(&file.path).is_ok_and(|now| now == file.before)
    {
        return Ok(());
    }
    match effects.later_holder((file.txn, file.step), &file.path) {
        Ok(None) => Ok(()),
        Ok(Some(dir)) => {
            let (dir, command) = (dir.display().to_string(), revert_command(&dir));
            Err(format!("the journal in {dir} changed {} after this one: run `{command}` first", file.path))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn restore_file(effects: &mut Effects<'_>, tree: &Tree, file: &FileIntent) -> Result<PersistedOutcome, TreeError> {
    let FileIntent { path, content, before, .. } = file;
    tree.sweep(path)?;
    let now = tree.look(path)?;
    let is_ours = edit::with(before, content).is_ok_and(|ours| ours == now);
    let outcome = if now == *before {
        PersistedOutcome::AsBefore
    } else if is_ours || matches!(content, Content::Whole { .. } | Content::Link { .. }) {
        effects.state.outside.put(tree, path, before)?;
        if is_ours { PersistedOutcome::Restored } else { PersistedOutcome::Foreign }
    } else {
        // In a file of another owner, evenkeel removes only our content.
        // An earlier version may have put our content at another place in the file.
        let without = edit::without(&now, content);
        effects.state.outside.put(tree, path, &without)?;
        if without == *before { PersistedOutcome::Restored } else { PersistedOutcome::Foreign }
    };
    for folder in file.folders.iter().rev() {
        effects.state.outside.remove_empty_folder(tree, folder)?;
    }
    Ok(outcome)
}

fn shell_words(argv: &[String]) -> String {
    argv.iter().map(|word| shell::word(word)).collect::<Vec<_>>().join(" ")
}

/// The shell commands that restore a file.
fn undo_line(path: &str, before: &Entry, folders: &[String]) -> String {
    let quoted = shell::quoted(path);
    let mut line = match before {
        Entry::Absent => format!("rm -f {quoted}"),
        Entry::Link { target } => format!("ln -sfn -- {} {quoted}", shell::quoted(target)),
        Entry::File { text, mode } => {
            format!("printf %s {} > {quoted}; chmod {mode:o} {quoted}", shell::quoted(text))
        }
    };
    for folder in folders.iter().rev() {
        line += &format!("; rmdir {}", shell::quoted(folder));
    }
    line
}
