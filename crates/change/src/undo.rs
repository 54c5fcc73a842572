//! Restores what a transaction changed. A failed plan, the end of a trial, and `revert` use the same code.

use evenkeel_host::{Facts, Reading};
use evenkeel_hostfs::WriteError;

use crate::effects::Effects;
use crate::exclusive_pair::{self, Old};
use crate::holders::{Leaver, Share};
use crate::log::{PendingUndo, boot_id};
use crate::persist_exec::restore_persisted;
use crate::place::{ReadError, Target, look, same};
use crate::put_back::{FileUndo, PutBack, Undo};
use crate::record::{Event, Intent};
use crate::renumber::renumbered;
use crate::state_error::StateError;

/// Restores what transaction `txn` changed, the last change first. Records `ending` if everything is restored.
/// If evenkeel cannot restore a file, it still restores the others.
///
/// These writes need no new records.
/// The intents on disk already describe them, and evenkeel repeats an interrupted restore from the same intents.
pub(crate) fn put_back(effects: &mut Effects<'_>, txn: u64, ending: Event) -> PutBack {
    let logged = effects.state.log().begun(txn);
    let (title, pending) = (logged.title.clone(), logged.pending());
    let lost = logged.lost_steps();
    let mut back = PutBack::new(txn, title);
    back.all_undone = lost.is_empty();
    restore_persisted(effects, txn, &mut back);
    let is_this_boot = is_this_boot(effects, txn);
    for pending in pending {
        let pending = if is_this_boot { Some(pending) } else { still_ours(effects, txn, pending) };
        let Some(pending) = pending else { continue };
        let files = restore_for_good(effects, &pending);
        if files.iter().all(FileUndo::is_undone) {
            let recorded = effects.record_undone(Event::Undone { txn, step: pending.intent.step });
            if recorded.is_ok() {
                pending.intent.paths().for_each(|path| effects.tidy(path));
            }
            back.note(recorded);
        } else {
            back.all_undone = false;
        }
        back.files.extend(files);
    }
    if back.all_undone {
        back.note(effects.record_undone(ending));
    }
    back
}

fn is_this_boot(effects: &Effects<'_>, txn: u64) -> bool {
    effects.state.log().begun(txn).is_of_boot(boot_id(effects.root).as_deref())
}

/// For a change of an earlier boot: returns the values that must be restored.
/// These are values that the persisted files have set again. evenkeel finds interrupts by name.
fn still_ours(effects: &mut Effects<'_>, txn: u64, mut pending: PendingUndo) -> Option<PendingUndo> {
    if pending.intent.path.starts_with("/proc/irq/") {
        let step = effects.state.log().begun(txn).steps.get(pending.intent.step)?;
        let step = renumbered(&Facts::probe(effects.root), step)?;
        pending.intent.path = Target::from_step(&step)?.path.to_owned();
        pending.intent.place = step.place;
    }
    // If another evenkeel holds the file, its value may belong to a trial. `restore` reports that the file is busy.
    if effects.state.claim(effects.root, &pending.intent.path).is_err() {
        return Some(pending);
    }
    let is_ours = match look(effects.root, &pending.intent.path, pending.intent.reading) {
        // If another journal found our value, that journal must restore the value before ours.
        Ok(now) => pending.done.as_ref().is_some_and(|done| {
            same(&now, &done.found) || effects.has_follower(&pending.intent.path, &done.found).unwrap_or(true)
        }),
        // If we skipped an unreadable file, evenkeel would report it as restored.
        Err(error) => matches!(error, ReadError::Refused(_)) && !error.is_gone(),
    };
    is_ours.then_some(pending)
}

/// Restores one step's file, then the files that the kernel changes along with it,
/// because writing the step's file changes those again.
/// In an exclusive pair, evenkeel first restores the file that was in use: writing it sets the other to 0.
pub(crate) fn restore(effects: &mut Effects<'_>, pending: &PendingUndo) -> Vec<FileUndo> {
    let sheets = Sheet::all_of(pending);
    if let Err(busy) = claim(effects, &sheets) {
        return failed(&pending.intent, &sheets, &busy);
    }
    let found = sheets.iter().map(|sheet| look(effects.root, sheet.path, sheet.reading)).collect();
    put_sheets_back(effects, &pending.intent, sheets, found)
}

/// Like [`restore`], for a permanent undo.
/// If another journal has changed a file since, the file stays unchanged,
/// and that journal takes over the value to restore.
pub(crate) fn restore_for_good(effects: &mut Effects<'_>, pending: &PendingUndo) -> Vec<FileUndo> {
    let PendingUndo { intent, done } = pending;
    let mut sheets = Sheet::all_of(pending);
    if let Err(busy) = claim(effects, &sheets) {
        return failed(intent, &sheets, &busy);
    }
    let found: Vec<_> = sheets.iter().map(|sheet| look(effects.root, sheet.path, sheet.reading)).collect();
    let mut shares = Vec::new();
    for (sheet, found) in sheets.iter().zip(&found) {
        let is_own = sheet.path == intent.path;
        let wanted = intent.wanted.as_deref().filter(|_| is_own && done.is_none());
        let leaver = Leaver {
            intent,
            path: sheet.path,
            before: &sheet.before,
            ours: sheet.ours.or(wanted),
            found: found.as_deref().ok(),
        };
        match effects.leave(&leaver) {
            Ok(share) => shares.push(share),
            Err(error) => return failed(intent, &sheets, &error),
        }
    }
    for ((sheet, share), found) in sheets.iter_mut().zip(shares).zip(&found) {
        sheet.take(share, found);
    }
    put_sheets_back(effects, intent, sheets, found)
}

/// Locks the files before evenkeel reads them, because the current value may belong to a trial of another evenkeel.
fn claim(effects: &mut Effects<'_>, sheets: &[Sheet<'_>]) -> Result<(), StateError> {
    sheets.iter().try_for_each(|sheet| effects.state.claim(effects.root, sheet.path))
}

fn failed(intent: &Intent, sheets: &[Sheet<'_>], error: &StateError) -> Vec<FileUndo> {
    let undo = Undo::Failed { why: error.to_string() };
    sheets.iter().map(|sheet| sheet.report(intent, undo.clone())).collect()
}

/// `found` has the values of the side effects. evenkeel read them before its own write changed them.
fn put_sheets_back(
    effects: &mut Effects<'_>,
    intent: &Intent,
    mut sheets: Vec<Sheet<'_>>,
    mut found: Vec<Result<String, ReadError>>,
) -> Vec<FileUndo> {
    let own = Old { path: &intent.path, text: &sheets[0].before };
    if exclusive_pair::goes_last(own, intent.side_effects.iter().map(|side| side.path.as_str())) {
        sheets.rotate_left(1);
        found.rotate_left(1);
    }
    let mut files = Vec::new();
    for (sheet, found) in sheets.iter().zip(found) {
        let undo = sheet.put_back(effects, found);
        files.push(sheet.report(intent, undo));
    }
    files
}

/// A file's original value, and the value after our change if known.
struct Sheet<'a> {
    path: &'a str,
    reading: Reading,
    before: String,
    ours: Option<&'a str>,
    /// The journal that will own the file, the value that it will restore, and the current value.
    passed_on: Option<PassedOn>,
}

struct PassedOn {
    to: String,
    before: String,
    found: String,
}

impl<'a> Sheet<'a> {
    /// The step's own file, then the files that the kernel changes together with it.
    fn all_of(pending: &'a PendingUndo) -> Vec<Sheet<'a>> {
        let PendingUndo { intent, done } = pending;
        let mut sheets = vec![Sheet {
            path: &intent.path,
            reading: intent.reading,
            before: intent.before.clone(),
            ours: done.as_ref().map(|done| done.found.as_str()),
            passed_on: None,
        }];
        for side in &intent.side_effects {
            let after = done.as_ref().map(|done| {
                let changed = done.side_effects.iter().find(|changed| changed.path == side.path);
                changed.and_then(|changed| changed.after.as_deref()).unwrap_or(&side.before)
            });
            let (path, before) = (&side.path, side.before.clone());
            sheets.push(Sheet { path, reading: Reading::Plain, before, ours: after, passed_on: None });
        }
        sheets
    }

    /// Applies the register's decision. A file that another journal now owns keeps its current value.
    /// If one of our writes changes the file as a side effect, the undo writes that value back.
    fn take(&mut self, share: Share, found: &Result<String, ReadError>) {
        match share {
            Share::Back(before) => self.before = before,
            Share::PassedOn { to, before } => {
                let (Ok(found) | Err(ReadError::Odd { text: found, .. })) = found else { return };
                self.before.clone_from(found);
                self.ours = None;
                self.passed_on = Some(PassedOn { to: to.display().to_string(), before, found: found.clone() });
            }
        }
    }

    fn report(&self, intent: &Intent, undo: Undo) -> FileUndo {
        let (before, undo) = match (&self.passed_on, undo) {
            (Some(passed), Undo::AsBefore | Undo::Restored { .. }) if same(&passed.found, &passed.before) => {
                (&passed.before, Undo::AsBefore)
            }
            (Some(PassedOn { to, before, found }), Undo::AsBefore | Undo::Restored { .. }) => {
                (before, Undo::PassedOn { found: found.clone(), to: to.clone() })
            }
            (_, undo) => (&self.before, undo),
        };
        FileUndo {
            knob: intent.knob.clone(),
            place: intent.place.clone(),
            path: self.path.to_owned(),
            before: before.clone(),
            undo,
        }
    }

    /// `found` is the file's value before evenkeel restored anything.
    fn put_back(&self, effects: &mut Effects<'_>, found: Result<String, ReadError>) -> Undo {
        let found = match found {
            Ok(found) | Err(ReadError::Odd { text: found, .. }) => found,
            Err(error) if error.is_gone() => return Undo::Gone { why: error.why() },
            Err(error) => return Undo::Failed { why: error.why() },
        };
        let was_before = same(&found, &self.before);
        match is_back(look(effects.root, self.path, self.reading), &self.before) {
            Ok(true) => return if was_before { Undo::AsBefore } else { self.restored(found) },
            Ok(false) => {}
            Err(why) => return Undo::Failed { why },
        }
        if let Err(error) = self.write(effects) {
            return if error.errno.is_absence() {
                Undo::Gone { why: error.to_string() }
            } else {
                Undo::Failed { why: error.to_string() }
            };
        }
        match look(effects.root, self.path, self.reading) {
            Ok(now) if same(&now, &self.before) => self.restored(found),
            Ok(now) => Undo::Failed { why: format!("restore {:?} in {}: it reads {now:?}", self.before, self.path) },
            Err(error) => Undo::Failed { why: error.why() },
        }
    }

    fn write(&self, effects: &mut Effects<'_>) -> Result<(), WriteError> {
        match exclusive_pair::zeroed_by(Old { path: self.path, text: &self.before }) {
            None => effects.write(self.path, &self.reading.text(&self.before)),
            // The share's original value is also 0. Otherwise restoring the share would have set these bytes to 0.
            // Write 1 first, because writing an unchanged 0 has no effect.
            Some(share) => ["1", "0"].into_iter().try_for_each(|text| effects.write(share, text)),
        }
    }

    fn restored(&self, found: String) -> Undo {
        let theirs = !same(&found, &self.before) && self.ours.is_some_and(|ours| !same(&found, ours));
        if theirs { Undo::Foreign { found } } else { Undo::Restored { found } }
    }
}

/// Whether a file has its original value, if it now reads `now`.
/// evenkeel must not write a file that it cannot read at this moment.
/// A write to the other file of the pair may already have restored this file,
/// and writing this file would set the other file to 0 again.
fn is_back(now: Result<String, ReadError>, before: &str) -> Result<bool, String> {
    match now {
        Ok(now) => Ok(same(&now, before)),
        Err(error @ ReadError::Refused(_)) if !error.is_gone() => Err(error.why()),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Refusal, Why};
    use evenkeel_sys::Errno;

    use super::*;

    /// Regression: after `revert` had restored the share, it got an I/O error on reading `vm.dirty_background_bytes`.
    /// It wrote the share again to make the bytes 0, left the share at 0, and reported success.
    #[test]
    fn unreadable_files_are_not_written() {
        let refused = |errno| ReadError::Refused(Refusal { path: "/proc/x".to_owned(), why: Why::Errno(errno) });
        let odd = ReadError::Odd { text: "?".to_owned(), why: "odd".to_owned() };
        let table = [
            (Ok("0".to_owned()), Ok(true)),
            (Ok("5".to_owned()), Ok(false)),
            (Err(odd), Ok(false)),
            (Err(refused(Errno::NOENT)), Ok(false)),
            (Err(refused(Errno::IO)), Err(())),
            (Err(refused(Errno::ACCESS)), Err(())),
        ];
        for (now, expected) in table {
            let shown = format!("{now:?}");
            assert_eq!(is_back(now, "0").map_err(drop), expected, "{shown}");
        }
    }
}
