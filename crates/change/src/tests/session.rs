//! Tests `Session`: it switches arms, and restores everything at its end.

use std::path::PathBuf;

use evenkeel_hostfs::Root;

use super::{MIN_FREE, SWAPPINESS, Stage, THP, plan, step};
use crate::outside::Outside;
use crate::put_back::Undo;
use crate::{
    Job, Kind, Log, OnFailure, Session, SessionError, State, StateError, Status, StepError, Which, apply, carry_out,
    history, revert, verify,
};

#[test]
fn arms_switch_and_the_end_is_the_beginning() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    let targets = [step("thp.enabled=never"), step("vm.swappiness=10")];
    let mut session = Session::begin(&stage.root, &stage.writer, &mut state, "a trial", &targets).unwrap();
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
    let mut session = Session::begin(&stage.root, &stage.writer, &mut state, "t", &targets).unwrap();
    let failure = session.set(0, "xen").unwrap_err();
    assert!(matches!(&failure.error, StepError::DidNotTake { found, .. } if found == "tsc"), "{failure}");
    assert!(matches!(session.set(1, "1000").unwrap_err().error, StepError::Refused { .. }));
    session.set(0, "hpet").unwrap();
    drop(session);
    assert!(stage.is_as(&before), "a drop puts back too");
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap().transactions.is_empty());
}

#[test]
fn a_side_effect_that_is_a_target_itself_is_left_to_its_arm() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    let targets = [step("thp.enabled=never"), step("vm.min_free_kbytes=90000")];
    let mut session = Session::begin(&stage.root, &stage.writer, &mut state, "t", &targets).unwrap();
    session.set(0, "never").unwrap();
    session.set(0, "madvise").unwrap();
    assert_eq!((stage.text(THP), stage.text(MIN_FREE)), ("always [madvise] never".into(), "67584".into()));
    session.set(1, "90000").unwrap();
    session.end();
    assert!(stage.is_as(&before));
}

#[test]
fn values_that_cannot_be_restored_are_not_tried() {
    let stage = Stage::new();
    let mut state = stage.state();
    let mut begin = |setting| match Session::begin(&stage.root, &stage.writer, &mut state, "t", &[step(setting)]) {
        Ok(_) => panic!("{setting} was begun"),
        Err(error) => error,
    };
    assert!(matches!(begin("process.timer_slack_ns=1"), SessionError::NotAFile { .. }));
    let error = begin("/proc/sys/vm/nothing=1");
    assert!(matches!(&error, SessionError::Target(failure) if failure.to_string().contains("vm/nothing")), "{error}");
    assert!(!stage.dir.path().join("journal").exists());
}

#[test]
fn a_session_that_was_killed_is_interrupted_until_reverted() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let mut state = stage.state();
    apply(&stage.root, &stage.writer, &mut state, &plan(&["vm.swappiness=10"]), "kept").unwrap();
    let applied = stage.root.capture();
    let mut session = Session::begin(&stage.root, &stage.writer, &mut state, "t", &[step("vm.swappiness=0")]).unwrap();
    session.set(0, "0").unwrap();
    let facts = evenkeel_host::Facts::probe(&stage.root);
    let log = Log::read(stage.dir.path()).unwrap();
    let meanwhile = verify(&stage.root, &facts, &log);
    let under_way = meanwhile.under_way.unwrap();
    assert_eq!((under_way.transaction, under_way.title.as_str()), (2, "t"));
    assert!(under_way.holder.starts_with(&format!("process {}, journal in ", std::process::id())), "{under_way:?}");
    // The values that the session switches count neither as drift nor as in force.
    assert_eq!((meanwhile.holds, meanwhile.drift, meanwhile.interrupted), (0, vec![], vec![]));
    assert_eq!(history(&stage.root, &log).last().unwrap().status, Status::UnderWay);
    // After SIGKILL, nothing ends or drops the session. The kernel then frees the lock; here closing the file frees it.
    std::mem::forget(session);
    drop(state);
    let mut state = stage.state();
    let log = Log::read(stage.dir.path()).unwrap();
    assert_eq!(verify(&stage.root, &facts, state.log()).interrupted, [2]);
    assert_eq!(history(&stage.root, state.log()).last().unwrap().status, Status::Interrupted);
    assert!(verify(&stage.root, &facts, &log).interrupted.is_empty(), "this test holds the lock");
    assert!(revert(&stage.root, &stage.writer, &mut state, Which::Transaction(2)).unwrap().all_undone);
    assert!(stage.is_as(&applied));
    revert(&stage.root, &stage.writer, &mut state, Which::All).unwrap();
    assert!(stage.is_as(&before));
}

/// A machine whose claims are in this directory.
struct Claiming(PathBuf);

impl Outside for Claiming {
    fn claims_dir(&self, _: &Root) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

/// Regression: two trials with separate journals recorded each other's values as the original.
/// The trial that ended last restored the value of the other trial.
#[test]
fn a_journal_does_not_change_values_of_another() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let other = tempfile::tempdir().unwrap();
    let claims = other.path().join("claims");
    let mut ours = stage.state_on(Claiming(claims.clone()));
    let mut theirs = State::open_on(&other.path().join("state"), Box::new(Claiming(claims))).unwrap();
    apply(&stage.root, &stage.writer, &mut theirs, &plan(&["net.core.busy_poll=50"]), "earlier").unwrap();

    let targets = [step("vm.swappiness=10"), step("thp.enabled=never")];
    let mut session = Session::begin(&stage.root, &stage.writer, &mut ours, "ours", &targets).unwrap();
    session.set(0, "10").unwrap();
    for taken in ["vm.swappiness=20", "vm.min_free_kbytes=90000"] {
        let error = Session::begin(&stage.root, &stage.writer, &mut theirs, "theirs", &[step(taken)]).err().unwrap();
        let who = format!("another evenkeel (process {}, journal in ", std::process::id());
        assert!(matches!(&error, SessionError::Journal(StateError::Busy { .. })) && error.to_string().contains(&who));
        let error = apply(&stage.root, &stage.writer, &mut theirs, &plan(&[taken]), "theirs").unwrap_err();
        assert!(error.to_string().contains(&who) && error.to_string().contains("nothing was changed"), "{error}");
    }
    assert_eq!(stage.text(SWAPPINESS), "10", "their tries changed nothing of ours");
    assert!(theirs.met_another());
    // evenkeel restores values that only those transactions have changed.
    // It does not restore values that our session holds.
    drop(session);
    assert!(!ours.met_another());
    assert!(revert(&stage.root, &stage.writer, &mut theirs, Which::All).unwrap().all_undone);
    assert!(stage.is_as(&before));
    drop(ours);
    drop(Session::begin(&stage.root, &stage.writer, &mut theirs, "later", &targets).unwrap());
    assert!(stage.is_as(&before));
}

/// The value may differ from the original or not. In both cases the trial will restore its own original.
#[test]
fn values_in_another_journals_trial_are_not_restored() {
    for tried in ["10", "60"] {
        let stage = Stage::new();
        let other = tempfile::tempdir().unwrap();
        let claims = other.path().join("claims");
        let theirs = || State::open_on(&other.path().join("state"), Box::new(Claiming(claims.clone()))).unwrap();
        apply(&stage.root, &stage.writer, &mut theirs(), &plan(&["vm.swappiness=30"]), "earlier").unwrap();
        let mut ours = stage.state_on(Claiming(claims.clone()));
        let target = step(&format!("vm.swappiness={tried}"));
        let mut session = Session::begin(&stage.root, &stage.writer, &mut ours, "ours", &[target]).unwrap();
        session.set(0, tried).unwrap();
        let mut late = theirs();
        let report = revert(&stage.root, &stage.writer, &mut late, Which::All).unwrap();
        assert!(!report.all_undone && late.met_another(), "{report:?}");
        drop(late);
        let undo = &report.transactions[0].files[0].undo;
        assert!(matches!(undo, Undo::Failed { why } if why.contains("another evenkeel")), "{undo:?}");
        assert_eq!(stage.text(SWAPPINESS), tried);
        session.end();
        drop(ours);
        assert_eq!(stage.text(SWAPPINESS), "30");
        assert!(revert(&stage.root, &stage.writer, &mut theirs(), Which::All).unwrap().all_undone);
        assert_eq!(stage.text(SWAPPINESS), "60");
    }
}

/// Another evenkeel holds the place of one step. The journal records that, and the other steps are applied.
#[test]
fn a_busy_place_does_not_stop_a_plan_that_is_to_go_on() {
    let stage = Stage::new();
    let other = tempfile::tempdir().unwrap();
    let claims = other.path().join("claims");
    let mut ours = stage.state_on(Claiming(claims.clone()));
    let session = Session::begin(&stage.root, &stage.writer, &mut ours, "ours", &[step("vm.swappiness=10")]).unwrap();
    let mut theirs = State::open_on(&other.path().join("state"), Box::new(Claiming(claims))).unwrap();
    let plan = plan(&["vm.swappiness=20", "net.core.busy_poll=50"]);
    let job = Job { on_failure: OnFailure::GoOn, ..Job::new(&plan, "theirs") };
    carry_out(&stage.root, &stage.writer, &mut theirs, &job, |_| Ok(())).unwrap();
    assert_eq!((stage.text(SWAPPINESS), stage.text("/proc/sys/net/core/busy_poll")), ("60".into(), "50".into()));
    session.end();
}
