//! The targets of what the program itself is given: cards, journals, plans, settings.

use std::fs;
use std::sync::LazyLock;

use evenkeel_change::{Log, PlanFile, State, Which, history, revert};
use evenkeel_host::{Facts, Goal, Server, Setting};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_measure::card::{Card, compare};
use tempfile::TempDir;

use super::machines::{QUEUES, machine};

static DIR: LazyLock<TempDir> = LazyLock::new(folder);
static FILE_DIR: LazyLock<TempDir> = LazyLock::new(folder);

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").expect("/dev/shm takes a folder")
}

/// A machine's card that a stranger sends: what is one can be put beside itself, and is no better than itself.
pub(super) fn card(text: &str) {
    let Ok(card) = Card::parse(text) else { return };
    let comparison = compare(&card, &card);
    assert_eq!((comparison.a_better, comparison.b_better), (0, 0));
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty());
}

/// A journal whose records are whole, as their checksums say, but say anything: each line of the text is one record's JSON.
pub(super) fn journal(text: &str) {
    let record = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let journal: String = text.lines().map(record).collect();
    fs::write(DIR.path().join("journal"), journal).expect("/dev/shm takes a file");
    if let Ok(log) = Log::read_damaged(DIR.path()) {
        let _ = history(&Root::captured(Capture::default()), &log);
    }
}

/// A journal as a crash or somebody else left it, each character a byte, and behind the line `=` its note of the last record: what it says is
/// put back on a captured machine or said to be lost, and then nothing is left of it that could be put back.
pub(super) fn journal_file(text: &str) {
    let bytes = |text: &str| text.chars().map(|char| char as u8).collect::<Vec<u8>>();
    let dir = FILE_DIR.path();
    let (journal, note) = text.split_once("\n=\n").unwrap_or((text, ""));
    fs::write(dir.join("journal"), bytes(&format!("{journal}\n"))).expect("/dev/shm takes a file");
    fs::write(dir.join("journal.last-record"), bytes(note)).expect("/dev/shm takes a file");
    let root = Root::captured(machine(QUEUES));
    let writer = root.writer().expect("a captured machine can be changed");
    if let Ok(log) = Log::read_damaged(dir) {
        let _ = history(&root, &log);
    }
    let put_back = || revert(&root, &writer, &mut State::open_to_revert(dir).ok()?, Which::All).ok();
    if put_back().is_some_and(|report| report.all_undone) {
        let again = put_back().expect("a journal that was read can be read again");
        assert!(again.all_undone && again.transactions.is_empty(), "{again:?}");
    }
}

/// A plan that a stranger sends: what is one has its own text, does what it does, and is held against what the settings that it
/// names come to on a machine, which is all that is ever carried out of it.
pub(super) fn plan(text: &str) {
    let Ok(plan) = PlanFile::parse(text) else { return };
    let written = plan.text().expect("a plan is plain data");
    assert_eq!(PlanFile::parse(&written).as_ref(), Ok(&plan), "{written}");
    assert_eq!(plan.agrees_with(&plan), Ok(()));
    assert_eq!(plan.plan().steps.len(), plan.steps.len());
    let Ok(settings) = plan.settings() else { return };
    let root = Root::captured(machine(QUEUES));
    let facts = Facts::probe(&root);
    if let Ok(now) = PlanFile::of(&root, &facts, &settings, &plan.title, None) {
        assert_eq!(now.agrees_with(&now), Ok(()));
        let _ = (plan.agrees_with(&now), plan.is_done(&root));
    }
}

/// What the command line tells of a server and of the goal.
pub(super) fn server(text: &str) {
    let _ = text.parse::<Goal>();
    let _ = text.parse::<Server>();
}

/// A setting as `apply` and `prove` take it: what is one is written so that it reads the same.
pub(super) fn setting(text: &str) {
    if let Ok(setting) = Setting::parse(text) {
        let written = setting.to_string();
        assert_eq!(Setting::parse(&written).map(|setting| setting.to_string()), Ok(written));
    }
}
