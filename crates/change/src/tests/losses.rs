//! Tests journals that lost something. evenkeel detects and names each loss, and restores everything else.

use super::{SWAPPINESS, Stage, THP, lasting, plan};
use crate::{Loss, State, StateError, Which, apply, history, revert};

fn applied() -> Stage {
    let stage = Stage::new();
    apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["thp.enabled=never", "vm.swappiness=10"]), "t")
        .unwrap();
    stage
}

fn put(stage: &Stage, lines: &[&str]) {
    std::fs::write(stage.dir.path().join("journal"), lines.concat()).unwrap();
}

fn lines(journal: &str) -> Vec<&str> {
    journal.split_inclusive('\n').collect()
}

/// The losses that evenkeel reports when it opens the journal to change something,
/// and when it opens the journal to revert.
fn losses(stage: &Stage) -> Vec<Loss> {
    let report = revert(&stage.root, &stage.writer, &mut stage.state_to_revert(), Which::All).unwrap();
    assert_eq!(report.all_undone, report.losses.is_empty());
    let refused = State::open(stage.dir.path()).err().map(|error| match error {
        StateError::Damaged { losses, .. } => losses,
        error => panic!("{error}"),
    });
    assert_eq!(refused.unwrap_or_default().is_empty(), report.losses.is_empty());
    report.losses
}

#[test]
fn each_record_that_is_missing_is_named_by_its_number() {
    let whole = applied().journal();
    let all = lines(&whole);
    for first in 0..all.len() - 1 {
        for last in first..all.len() - 1 {
            let stage = applied();
            put(&stage, &[&all[..first], &all[last + 1..]].concat());
            let missing = Loss::Records { first: first as u64 + 1, last: last as u64 + 1 };
            let found = losses(&stage);
            assert_eq!(found.first(), Some(&missing), "{first} to {last}");
            let intent_left = |at: usize| at < first || at > last;
            assert_eq!(stage.text(THP) == "always [madvise] never", intent_left(1), "{first} to {last}");
            assert_eq!(stage.text(SWAPPINESS) == "60", intent_left(3), "{first} to {last}");
            let lost = found.iter().filter(|loss| matches!(loss, Loss::Before { .. })).count();
            let expected = usize::from(!intent_left(1)) + usize::from(!intent_left(3));
            // If the first record is lost, evenkeel cannot know steps that have no other record.
            if intent_left(0) || first == last {
                assert_eq!(lost, expected, "{first} to {last}: {found:?}");
            }
        }
    }
}

#[test]
fn the_end_of_a_journal_is_missed_too() {
    let whole = applied().journal();
    let all = lines(&whole);
    for left in 0..all.len() {
        let stage = applied();
        put(&stage, &all[..left]);
        let missing = Loss::Records { first: left as u64 + 1, last: all.len() as u64 };
        assert_eq!(losses(&stage), [missing], "{left} records left");
    }
    // The journal has one record more than the note, because its writer was killed before it wrote the note.
    let stage = applied();
    let note = stage.dir.path().join("journal.last-record");
    let text = std::fs::read_to_string(&note).unwrap();
    assert_eq!(text.trim(), all.len().to_string());
    std::fs::write(&note, text.replace(&all.len().to_string(), &(all.len() - 1).to_string())).unwrap();
    assert_eq!(losses(&stage), []);
}

#[test]
fn records_in_another_order_are_no_journal() {
    let whole = applied().journal();
    let all = lines(&whole);
    for at in 0..all.len() - 1 {
        let stage = applied();
        let mut swapped = all.clone();
        swapped.swap(at, at + 1);
        put(&stage, &swapped);
        assert!(!losses(&stage).is_empty(), "{at}");
        let stage = applied();
        put(&stage, &[&all[..=at], &all[at..]].concat());
        assert!(matches!(losses(&stage)[..], [Loss::Unreadable { .. }]), "{at} twice");
    }
}

/// Adjacent losses count as one loss, and the list of losses is limited.
#[test]
fn a_file_that_is_no_journal_has_few_losses() {
    let stage = applied();
    put(&stage, &[&"\n".repeat(100_000), "torn"]);
    let found = losses(&stage);
    assert!(matches!(found[..], [Loss::Unreadable { bytes: 100_000, .. }, Loss::Records { .. }]), "{found:?}");

    let mut alternating = String::new();
    for seq in 1..500 {
        let json = format!(r#"{{"format":3,"seq":{seq},"at_ns":0,"record":"drop-in"}}"#);
        alternating += &format!("x\n{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    }
    put(&stage, &[&alternating]);
    let found = losses(&stage);
    assert!(found.len() < 110 && matches!(found.last(), Some(Loss::More { count }) if *count > 300), "{}", found.len());
}

/// Older programs did not number records. The remaining records of a transaction show what is missing.
#[test]
fn persistent_files_without_a_record_are_named() {
    let stage = Stage::on(&lasting::host());
    lasting::keep_it(&stage, &mut stage.state(), "10").unwrap();
    let whole = stage.journal();
    let all = lines(&whole);
    let at = all.iter().position(|line| line.contains("\"record\":\"file\"")).unwrap();
    put(&stage, &[&all[..at], &all[at + 1..]].concat());
    let found = losses(&stage);
    let is_named = |loss: &Loss| matches!(loss, Loss::Before { knob: Some(knob), .. } if knob.starts_with("/etc/"));
    assert!(found.iter().any(is_named), "{found:?}");
    let left = history(&stage.root, stage.state_to_revert().log());
    assert_eq!(left[0].status, crate::Status::Interrupted, "it is not called put back");
}
