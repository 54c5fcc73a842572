//! Tests journals that have grown too long.
//! evenkeel drops the oldest closed transactions, and loses no transaction that is in force.

use super::crash::Fuse;
use super::{SWAPPINESS, Stage, plan};
use crate::compact::Limits;
use crate::{Log, State, Which, apply, history, revert};

/// Limits so small that a few changes exceed them.
const SMALL: Limits = Limits { journal: 1 << 20, long: 6000, kept: 1500, worth: 1 };

fn limited(mut state: State) -> State {
    state.limits = SMALL;
    state
}

fn change_and_revert(stage: &Stage, state: &mut State, value: u32) {
    let change = plan(&[&format!("vm.swappiness={value}")]);
    if apply(&stage.root, &stage.writer, state, &change, &format!("change {value}")).is_ok() {
        let last = history(&stage.root, state.log()).last().unwrap().id;
        let _ = revert(&stage.root, &stage.writer, state, Which::Transaction(last));
    }
}

#[test]
fn closed_transactions_are_left_out_and_numbers_go_on() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = limited(stage.state());
    apply(&stage.root, &stage.writer, &mut state, &plan(&["thp.enabled=never"]), "stays").unwrap();
    for value in 1..=30 {
        change_and_revert(&stage, &mut state, value);
        assert!(stage.journal().len() < 12_000, "{} bytes", stage.journal().len());
    }
    let in_memory: Vec<u64> = history(&stage.root, state.log()).iter().map(|one| one.id).collect();
    drop(state);
    let log = Log::read(stage.dir.path()).unwrap();
    let listed: Vec<u64> = history(&stage.root, &log).iter().map(|one| one.id).collect();
    assert_eq!(listed, in_memory);
    assert_eq!((listed.first(), listed.last()), (Some(&1), Some(&31)), "what is in force stays, and the newest");
    assert_eq!(log.left_out() + listed.len() as u64, 31);
    assert!(log.left_out() > 20, "{}", log.left_out());

    let mut state = limited(stage.state());
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone);
    assert!(stage.is_as(&before));
    apply(&stage.root, &stage.writer, &mut state, &plan(&["vm.swappiness=5"]), "t").unwrap();
    assert_eq!(history(&stage.root, state.log()).last().unwrap().id, 32);
}

#[test]
fn a_crash_while_a_journal_is_made_shorter_loses_nothing() {
    let mut died = 0;
    for dies_at in 0.. {
        let stage = Stage::new();
        let before = stage.root.capture();
        let mut state = stage.state();
        apply(&stage.root, &stage.writer, &mut state, &plan(&["thp.enabled=never"]), "stays").unwrap();
        while stage.journal().len() < 7000 {
            change_and_revert(&stage, &mut state, 10);
        }
        drop(state);
        let length = stage.journal().len();
        let fuse = Fuse::new(dies_at);
        let mut state = limited(stage.state_on(fuse.clone()));
        change_and_revert(&stage, &mut state, 20);
        change_and_revert(&stage, &mut state, 30);
        drop(state);
        if !fuse.has_died() {
            assert!(stage.journal().len() < length, "it was made shorter");
            break;
        }
        died += 1;
        // Opening the journal shows that it lost no records.
        let mut state = limited(stage.state());
        assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().all_undone, "killed at {dies_at}");
        assert!(stage.is_as(&before), "killed at {dies_at}: {}", stage.text(SWAPPINESS));
    }
    assert!(died > 30, "{died}");
}
