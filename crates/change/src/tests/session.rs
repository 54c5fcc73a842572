//! `Session`: switching arms, and leaving nothing behind.

use super::{MIN_FREE, SWAPPINESS, Stage, THP, plan, step};
use crate::{Kind, Miss, Session, SessionError, Status, Which, apply, history, revert, verify};

#[test]
fn arms_switch_and_the_end_is_the_beginning() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    let targets = [step("thp.enabled=never"), step("vm.swappiness=10")];
    let mut session = Session::begin(&stage.root, &stage.hand, &mut state, "a trial", &targets).unwrap();
    assert_eq!((session.before(0), session.before(1), session.before(2)), (Some("madvise"), Some("60"), None));
    let records = stage.journal().lines().count();
    for _ in 0..3 {
        session.set(0, "never").unwrap();
        session.set(1, "10").unwrap();
        assert_eq!((stage.text(MIN_FREE), stage.text(SWAPPINESS)), ("19832".into(), "10".into()));
        session.set(0, "madvise").unwrap();
        session.set(1, "60").unwrap();
        assert!(stage.is_as(&before), "the arm that is the host's own state is the whole of it");
    }
    session.set(0, "never").unwrap();
    assert_eq!(stage.journal().lines().count(), records, "arms write no records");
    let back = session.end();
    assert!(back.all_undone && back.unrecorded.is_none() && stage.is_as(&before));
    let past = history(&stage.root, state.log());
    assert_eq!((past[0].kind, past[0].status), (Kind::Trial, Status::Reverted));
}

#[test]
fn a_value_that_does_not_come_about_is_said_and_the_session_goes_on() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    let targets = [step("clocksource=hpet"), step("vm.swappiness=10")];
    let mut session = Session::begin(&stage.root, &stage.hand, &mut state, "t", &targets).unwrap();
    let failure = session.set(0, "xen").unwrap_err();
    assert!(matches!(&failure.miss, Miss::DidNotTake { found, .. } if found == "tsc"), "{failure}");
    assert!(matches!(session.set(1, "1000").unwrap_err().miss, Miss::Refused { .. }));
    session.set(0, "hpet").unwrap();
    drop(session);
    assert!(stage.is_as(&before), "a drop puts back too");
    assert!(revert(&stage.root, &stage.hand, &mut state, Which::All).unwrap().transactions.is_empty());
}

#[test]
fn a_side_effect_that_is_a_target_itself_is_left_to_its_arm() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    let targets = [step("thp.enabled=never"), step("vm.min_free_kbytes=90000")];
    let mut session = Session::begin(&stage.root, &stage.hand, &mut state, "t", &targets).unwrap();
    session.set(0, "never").unwrap();
    session.set(0, "madvise").unwrap();
    assert_eq!((stage.text(THP), stage.text(MIN_FREE)), ("always [madvise] never".into(), "67584".into()));
    session.set(1, "90000").unwrap();
    session.end();
    assert!(stage.is_as(&before));
}

#[test]
fn what_can_not_be_put_back_is_not_tried() {
    let stage = Stage::new();
    let mut state = stage.state();
    let mut begin = |setting| match Session::begin(&stage.root, &stage.hand, &mut state, "t", &[step(setting)]) {
        Ok(_) => panic!("{setting} was begun"),
        Err(error) => error,
    };
    assert!(matches!(begin("process.timer_slack_ns=1"), SessionError::NotAFile { .. }));
    let error = begin("/proc/sys/vm/nothing=1");
    assert!(matches!(&error, SessionError::Target(failure) if failure.to_string().contains("vm/nothing")), "{error}");
    assert!(stage.journal().is_empty());
}

#[test]
fn a_session_that_was_killed_is_interrupted_until_reverted() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    apply(&stage.root, &stage.hand, &mut state, &plan(&["vm.swappiness=10"]), "kept").unwrap();
    let applied = stage.root.capture();
    let mut session = Session::begin(&stage.root, &stage.hand, &mut state, "t", &[step("vm.swappiness=0")]).unwrap();
    session.set(0, "0").unwrap();
    // Neither ended nor dropped, as after SIGKILL; the kernel then frees the lock, as closing the file does here.
    std::mem::forget(session);
    drop(state);
    let mut state = stage.state();
    assert_eq!(verify(&stage.root, &evenkeel_host::Facts::probe(&stage.root), state.log()).interrupted, [2]);
    assert!(revert(&stage.root, &stage.hand, &mut state, Which::Transaction(2)).unwrap().all_undone);
    assert!(stage.is_as(&applied));
    revert(&stage.root, &stage.hand, &mut state, Which::All).unwrap();
    assert!(stage.is_as(&before));
}
