//! The targets for the program's own inputs: cards, journals, plans, settings.

use std::fs;
use std::sync::LazyLock;

use evenkeel_change::{Log, PlanFile, State, Which, history, revert};
use evenkeel_host::guide::{Guide, GuideFormat, Readings, judge};
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

/// A machine's card from a stranger. A valid card can be compared with itself, and is not better than itself.
pub(super) fn card(text: &str) {
    let Ok(card) = Card::parse(text) else { return };
    let comparison = compare(&card, &card);
    assert_eq!((comparison.a_better, comparison.b_better), (0, 0));
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty());
}

/// A guide from a stranger, in the format that is recognised and in each that may be forced. No line is lost, and each setting is judged on a
/// machine.
pub(super) fn guide(text: &str) {
    let root = Root::captured(machine(QUEUES));
    let facts = Facts::probe(&root);
    let forced = GuideFormat::ALL.iter().map(|(_, format)| Some(*format));
    for format in forced.chain([None]) {
        let Ok(guide) = Guide::parse("guide", text, format, &|name| name.contains('a').then(|| text.to_owned())) else {
            continue;
        };
        let own = guide.lines.iter().filter(|line| line.file.is_none()).count();
        assert_eq!(own, text.lines().count(), "{format:?}");
        let guides = [guide];
        let readings = Readings::take(&root, &facts, &guides);
        let judged = judge(&facts, &readings, &Goal::Latency.into(), &guides[0]);
        assert_eq!(judged.len(), guides[0].asks().count());
        assert!(judged.iter().all(|judged| !judged.why.is_empty()));
    }
}

/// A journal whose records have correct checksums but arbitrary contents. Each line of the text is one record's JSON.
pub(super) fn journal(text: &str) {
    let record = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let journal: String = text.lines().map(record).collect();
    fs::write(DIR.path().join("journal"), journal).expect("/dev/shm takes a file");
    if let Ok(log) = Log::read_damaged(DIR.path()) {
        let _ = history(&Root::captured(Capture::default()), &log);
    }
}

/// A journal after a crash or from a stranger. Each character is a byte, and after the line `=` comes its note of the last record. Its
/// changes are reverted on a captured machine or reported as lost. Afterwards nothing is left to revert.
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

/// A plan from a stranger. A valid plan prints to its own text. It is compared with the result of its settings on a machine, and only that
/// result is ever applied.
pub(super) fn plan(text: &str) {
    let Ok(plan) = PlanFile::parse(text) else { return };
    let written = plan.text().expect("a plan is plain data");
    assert_eq!(PlanFile::parse(&written).as_ref(), Ok(&plan), "{written}");
    assert_eq!(plan.agrees_with(&plan), Ok(()));
    assert_eq!(plan.plan().steps.len(), plan.steps.len());
    let Ok(settings) = plan.settings() else { return };
    let root = Root::captured(machine(QUEUES));
    let facts = Facts::probe(&root);
    if let Ok(now) = PlanFile::new(&root, &facts, &settings, &plan.title, None) {
        assert_eq!(now.agrees_with(&now), Ok(()));
        let _ = (plan.agrees_with(&now), plan.is_done(&root));
    }
}

/// Command-line texts about a server and a goal.
pub(super) fn server(text: &str) {
    let _ = text.parse::<Goal>();
    let _ = text.parse::<Server>();
}

/// A setting for `apply` and `prove`. A valid setting prints so that it parses to the same setting.
pub(super) fn setting(text: &str) {
    if let Ok(setting) = Setting::parse(text) {
        let written = setting.to_string();
        assert_eq!(Setting::parse(&written).map(|setting| setting.to_string()), Ok(written));
    }
}
