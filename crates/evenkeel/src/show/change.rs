//! The pages of `apply`, `verify`, `revert` and `history`.

use std::collections::BTreeMap;
use std::path::Path;

use anstyle::Style;
use evenkeel_change::{
    Kind, Log, Loss, Outcome, PersistedOutcome, PutBack, RevertReport, SideEffect, Status, StepError, StepReport,
    Transaction, UnderWay, Undo, Verification, WaitsFor,
};
use serde::Serialize;

use crate::failure::Aftermath;
use crate::show::page::{BAD, DIM, GOOD, HEADING, Indent, PLAIN, Page, WARN};
use crate::show::step::{has_places, value};

/// The column at which the text begins, after a first word such as `applied`.
const TEXT_COLUMN: usize = 16;

/// Notes on the journal itself.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct JournalView {
    /// The size of the incomplete record that a crash left at the journal's end, in bytes.
    torn_bytes: u64,
    /// The number of records that only a newer evenkeel can interpret, by kind.
    passed_over: BTreeMap<String, u64>,
    /// The number of closed transactions that are left out because the journal had grown too long.
    #[serde(skip_serializing_if = "is_none")]
    left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl JournalView {
    pub(crate) fn from_log(log: &Log) -> JournalView {
        JournalView {
            torn_bytes: log.torn_bytes().unwrap_or(0),
            passed_over: log.passed_over().clone(),
            left_out: log.left_out(),
        }
    }

    fn notes(&self, page: &mut Page) {
        if self.torn_bytes > 0 {
            let note =
                format!("the last {} bytes of the journal are a record that was cut by a crash", self.torn_bytes);
            page.paragraph(Indent::all(0), DIM, &note);
        }
        if self.left_out > 0 {
            let note = format!("{} older transactions are left out: the journal had grown too long", self.left_out);
            page.paragraph(Indent::all(0), DIM, &note);
        }
        for (kind, count) in &self.passed_over {
            let note = format!("skipped {count} records of the kind {kind:?}: a newer evenkeel wrote them");
            page.paragraph(Indent::all(0), DIM, &note);
        }
    }
}

pub(crate) fn transaction(transaction: &Transaction) -> String {
    let mut page = Page::default();
    steps(&mut page, transaction);
    page.finish()
}

pub(crate) fn steps(page: &mut Page, transaction: &Transaction) {
    for step in &transaction.steps {
        let (style, word, rest) = outcome(step);
        entry(page, (style, word), &format!("{} = {}", name(&step.knob, &step.place), value(&step.wanted)), &rest);
        if let Outcome::Applied { side_effects, .. } | Outcome::Owned { side_effects, .. } = &step.outcome {
            for SideEffect { path, before, after } in side_effects {
                let after = after.as_deref().unwrap_or("?");
                page.paragraph(Indent::all(TEXT_COLUMN), DIM, &format!("with it: {path}: {before} -> {after}"));
            }
        }
    }
    kept(page, transaction);
}

fn kept(page: &mut Page, transaction: &Transaction) {
    for kept in &transaction.persisted {
        let (style, word) = if kept.changed { (GOOD, "kept") } else { (DIM, "as it was") };
        entry(page, (style, word), &kept.what, "");
    }
}

fn outcome(step: &StepReport) -> (Style, &'static str, String) {
    match &step.outcome {
        Outcome::Applied { before, .. } => (GOOD, "applied", was(before)),
        Outcome::Owned { before, by, .. } => (WARN, "owned by", format!("{}, and may change again: {by}", was(before))),
        Outcome::AlreadySo => (GOOD, "already so", String::new()),
        Outcome::PendingReboot { todo } => (WARN, "to do", todo.clone()),
        Outcome::PendingStart { todo } => (WARN, "to start", todo.clone()),
        Outcome::NotApplicable { instead } => (WARN, "not applicable", instead.clone()),
        Outcome::NotReached => (DIM, "not reached", String::new()),
        Outcome::RolledBack { before } => (WARN, "rolled back", was(before)),
        Outcome::Interrupted { before } => (BAD, "interrupted", was(before)),
        Outcome::Tried { before } => (PLAIN, "tried", was(before)),
        Outcome::Missed(StepError::Refused { errno }) => (BAD, "refused", errno.to_string()),
        Outcome::Missed(StepError::Blocked { by, errno }) => (BAD, "blocked", format!("{errno}: {by}")),
        Outcome::Missed(StepError::DidNotTake { found, read_from }) => {
            (BAD, "did not take", format!("{read_from} reads {found:?}"))
        }
        Outcome::Missed(StepError::Unreadable { why }) => (BAD, "unreadable", why.clone()),
        Outcome::Missed(StepError::NotPutBack { why }) => (BAD, "not put back", why.clone()),
    }
}

fn was(before: &str) -> String {
    format!("was {}", value(before))
}

pub(crate) fn aftermath(aftermath: &Aftermath) -> String {
    let mut page = Page::default();
    steps(&mut page, &aftermath.transaction);
    files(&mut page, &aftermath.put_back);
    page.finish()
}

fn files(page: &mut Page, back: &PutBack) {
    for file in &back.files {
        let (style, word, rest) = match &file.undo {
            Undo::AsBefore => (GOOD, "as before", String::new()),
            Undo::Restored { found } => (GOOD, "put back", was(found)),
            Undo::Foreign { found } => (WARN, "put back", format!("somebody else had made it {found:?}")),
            Undo::PassedOn { found, to } => {
                let rest = format!(
                    "other journals hold it, and it is {}; the next one, in {to}, puts this back",
                    value(found)
                );
                (WARN, "left", rest)
            }
            Undo::Gone { why } => (DIM, "gone", why.clone()),
            Undo::Failed { why } => (BAD, "NOT put back", why.clone()),
        };
        entry(page, (style, word), &format!("{} = {}", file.path, value(&file.before)), &rest);
    }
    for kept in &back.persisted {
        let (style, word, rest) = match &kept.undo {
            PersistedOutcome::AsBefore => (GOOD, "as before", ""),
            PersistedOutcome::Restored => (GOOD, "put back", ""),
            PersistedOutcome::Foreign => (WARN, "put back", "somebody else had changed it: only what was ours is gone"),
            PersistedOutcome::Ran => (GOOD, "ran", ""),
            PersistedOutcome::ToRun => (WARN, "to run", "inside the image, or on its first boot"),
            PersistedOutcome::Failed { why } => (BAD, "NOT put back", why.as_str()),
        };
        entry(page, (style, word), &kept.what, rest);
    }
    if let Some(why) = &back.unrecorded {
        let id = back.id;
        let note = format!(
            "not recorded: that transaction {id} is put back. The journal can't be written: {why}. Until you run `evenkeel revert` with a \
             journal that can be written, `verify` and `history` show transaction {id} as before."
        );
        page.paragraph(Indent::all(0), WARN, &note);
    }
}

/// The line about a change that this command has just undone, because nobody confirmed it in time.
pub(crate) fn expired(id: u64, seconds: u64, report: &RevertReport) -> String {
    let mut page = Page::default();
    let head =
        format!("Transaction {id} was not confirmed within {seconds} s, and nothing had undone it. It is undone now:");
    page.paragraph(Indent::all(0), WARN, &head);
    for back in &report.transactions {
        page.line(HEADING, &format!("{}  {}", back.id, back.title));
        files(&mut page, back);
    }
    page.finish()
}

/// The page of `revert`. `of_root` is root's journal, if it exists and the command used another journal.
pub(crate) fn reverted(report: &RevertReport, of_root: Option<&Path>) -> String {
    let mut page = Page::default();
    for back in &report.transactions {
        page.line(HEADING, &format!("{}  {}", back.id, back.title));
        if back.ended_by_reboot {
            page.paragraph(Indent::all(0), DIM, "the machine was restarted since: the kernel has forgotten the values");
        }
        files(&mut page, back);
    }
    losses(&mut page, &report.losses);
    match (report.all_undone, report.transactions.is_empty()) {
        (true, true) => {
            page.line(PLAIN, "There was nothing to put back.");
            if let Some(of_root) = of_root {
                let shown = format!(
                    "This is your own journal. What root changed is in {}: `sudo evenkeel revert` puts that back.",
                    of_root.display()
                );
                page.paragraph(Indent::all(0), WARN, &shown);
            }
        }
        (true, false) if passed_on(report) => {
            let text =
                "Nothing of this journal is left to put back. What is marked as left is in force by other journals.";
            page.paragraph(Indent::all(0), WARN, text);
        }
        (true, false) => page.line(GOOD, "Everything is as it was."),
        (false, _) => page.line(BAD, "Not everything is as it was: see above."),
    }
    page.finish()
}

/// Whether other journals took over some values, and will restore them.
fn passed_on(report: &RevertReport) -> bool {
    let mut files = report.transactions.iter().flat_map(|back| &back.files);
    files.any(|file| matches!(file.undo, Undo::PassedOn { .. }))
}

fn losses(page: &mut Page, losses: &[Loss]) {
    if losses.is_empty() {
        return;
    }
    page.line(BAD, "The journal is damaged. The settings listed above are restored from what can be read of it.");
    for loss in losses {
        page.paragraph(Indent::all(2), BAD, &loss.to_string());
    }
    let advice =
        "Look whether the settings above are as you want them, then move the journal and journal.last-record away.";
    page.paragraph(Indent::all(0), PLAIN, advice);
}

/// The page of `verify`. The commands on the page end with `again`, which names the journal unless it is the default.
pub(crate) fn verification(found: &Verification, journal: &JournalView, again: &str) -> String {
    let mut page = Page::default();
    for drift in &found.drift {
        let now = drift.found.known().map_or_else(|| "not to be read".to_owned(), |found| format!("{found:?}"));
        entry(
            &mut page,
            (BAD, "drift"),
            &format!("{} = {}", name(&drift.knob, &drift.place), value(&drift.wanted)),
            &format!("is {now}: {}", drift.why),
        );
        page.line(PLAIN, &format!("{:TEXT_COLUMN$}{}", "", drift.mend));
    }
    for pending in &found.pending {
        let word = match pending.waits_for {
            WaitsFor::Reboot => "at reboot",
            WaitsFor::Start => "at restart",
            WaitsFor::User => "to do",
        };
        entry(&mut page, (WARN, word), &format!("{} = {}", pending.knob, pending.wanted), &pending.todo);
    }
    for id in &found.interrupted {
        let rest = format!("it was killed half-way: `evenkeel revert {id}{again}` puts it back");
        entry(&mut page, (BAD, "interrupted"), &format!("transaction {id}"), &rest);
    }
    if let Some(UnderWay { transaction, title, holder }) = &found.under_way {
        let rest = format!("{holder} works on it, so its settings are not judged: verify again when it has ended");
        entry(&mut page, (WARN, "under way"), &format!("transaction {transaction}: {title}"), &rest);
    }
    for id in &found.overdue {
        entry(&mut page, (BAD, "overdue"), &format!("transaction {id}"), &overdue(*id, again));
    }
    for id in &found.unconfirmed {
        let rest = format!("it undoes itself soon unless you confirm it: `evenkeel confirm {id}{again}`");
        entry(&mut page, (WARN, "unconfirmed"), &format!("transaction {id}"), &rest);
    }
    for id in &found.ended_by_reboot {
        let rest = format!(
            "the machine was restarted since, and its values are gone: `evenkeel revert {id}{again}` closes it"
        );
        entry(&mut page, (WARN, "ended"), &format!("transaction {id}"), &rest);
    }
    let waiting = if found.pending.is_empty() { String::new() } else { format!(", {} wait", found.pending.len()) };
    let hold = if found.holds == 1 { "holds" } else { "hold" };
    page.line(PLAIN, &format!("{} {hold}, {} drifted{waiting}.", values(found.holds), found.drift.len()));
    journal.notes(&mut page);
    page.finish()
}

/// The text for a transaction that should already have been undone.
fn overdue(id: u64, again: &str) -> String {
    format!("it was not confirmed in time and is still in force: `evenkeel revert {id}{again}` puts it back")
}

fn values(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

/// The page of `history`. `again` has the same meaning as in [`verification`].
pub(crate) fn history(transactions: &[Transaction], journal: &JournalView, again: &str) -> String {
    let mut page = Page::default();
    for transaction in transactions {
        let (style, status) = match transaction.status {
            Status::InForce => (GOOD, "in force"),
            Status::Reverted => (DIM, "reverted"),
            Status::RolledBack => (DIM, "rolled back"),
            Status::Interrupted => (BAD, "interrupted"),
            Status::UnderWay => (PLAIN, "under way"),
            Status::Overdue => (BAD, "overdue"),
            Status::EndedByReboot => (DIM, "ended by reboot"),
        };
        let kind = match transaction.kind {
            Kind::Apply => "",
            Kind::Trial => "trial: ",
        };
        page.parts(&[
            (HEADING, &format!("{}  {}  ", transaction.id, utc(transaction.at_ns))),
            (style, status),
            (PLAIN, &format!("  {kind}{}", transaction.title)),
        ]);
        if transaction.status == Status::Overdue {
            page.paragraph(Indent::all(0), BAD, &overdue(transaction.id, again));
        }
        steps(&mut page, transaction);
    }
    journal.notes(&mut page);
    page.finish()
}

/// A time such as `2026-03-14T09:26:53Z`.
pub(crate) fn utc(at_ns: u64) -> String {
    let seconds = i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "unknown time".to_owned(), |time| time.to_string())
}

/// An entry: a word in the first column, then the subject, and the rest on the lines below.
pub(crate) fn entry(page: &mut Page, (style, word): (Style, &str), about: &str, rest: &str) {
    page.parts(&[(style, &format!("{word:TEXT_COLUMN$}")), (PLAIN, about)]);
    if !rest.is_empty() {
        page.paragraph(Indent::all(TEXT_COLUMN), DIM, rest);
    }
}

/// The knob, with its place if the knob has several places.
pub(crate) fn name(knob: &str, place: &str) -> String {
    if has_places(knob) { format!("{knob}@{place}") } else { knob.to_owned() }
}
