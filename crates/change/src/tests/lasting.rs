//! Tests what persists over a boot:
//! the files and commands of a transaction, their undo, and what `verify` reports after the boot.

use evenkeel_host::{Facts, Plan};
use evenkeel_hostfs::{Capture, Entry, Root, Tree, TreeError};
use evenkeel_sys::Errno;

use super::{HOST, SWAPPINESS, Stage, plan};
use crate::outside::Outside;
use crate::persist_plan::Lasting;
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedCommand, PersistedFile};
use crate::{
    Failure, Job, OnFailure, Outcome, OwnedStep, PersistedOutcome, State, Transaction, Until, Verification, WaitsFor,
    Which, carry_out, confirm, expire, revert, unconfirmed, verify,
};

pub(super) const SYSCTL: &str = "/etc/sysctl.d/90-evenkeel.conf";
const GRUB: &str = "/etc/default/grub.d/90-evenkeel.cfg";
const BALANCE: &str = "/etc/default/irqbalance";

/// The usual host, with a file of another owner and without files of evenkeel.
pub(super) fn host() -> String {
    let etc = format!("{GRUB} ! ENOENT\n{BALANCE} =\n| # a comment\n| IRQBALANCE_ARGS=\n{SYSCTL} ! ENOENT\n")
        + super::session_units::FILES;
    HOST.replacen('\n', &format!("\n{etc}"), 1)
}

fn carried(setting: &str, by: &str) -> Carried {
    Carried { setting: setting.into(), by: by.into(), takes_effect: evenkeel_host::TakesEffect::Reboot }
}

pub(super) fn lasting(swappiness: &str) -> Lasting {
    let whole = |text: String| Content::Whole { text, mode: 0o644 };
    let file = |path: &str, content| PersistedFile { path: path.into(), content };
    let update = || vec!["update-grub".to_owned()];
    let persist = PersistPlan {
        files: vec![
            file(SYSCTL, whole(format!("vm.swappiness = {swappiness}\n"))),
            file(GRUB, whole("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX processor.max_cstate=1\"\n".into())),
            file(BALANCE, Content::Block { lines: "IRQBALANCE_BANNED_CPULIST=1\n".into() }),
        ],
        commands: vec![PersistedCommand {
            argv: update(),
            undo: update(),
            after: vec![GRUB.into()],
            why: "the boot loader reads it".into(),
            only_booted: false,
        }],
        carried: vec![
            carried(&format!("vm.swappiness={swappiness}"), SYSCTL),
            carried("cmdline.processor.max_cstate=1", GRUB),
        ],
        cannot: vec![],
    };
    Lasting { unit: Some("memcached.service".into()), again: None, persist }
}

fn steps(swappiness: &str) -> Plan {
    let mut plan = plan(&[&format!("vm.swappiness={swappiness}")]);
    let mut argument = super::step("cmdline.intel_idle.max_cstate=1");
    argument.knob = "cmdline.processor.max_cstate".into();
    argument.action = evenkeel_host::Action::KernelArgument { argument: "processor.max_cstate=1".into() };
    plan.steps.push(argument);
    plan
}

pub(super) fn keep_it(stage: &Stage, state: &mut State, swappiness: &str) -> Result<Transaction, crate::ApplyError> {
    let (plan, lasting) = (steps(swappiness), lasting(swappiness));
    let settings = [format!("vm.swappiness={swappiness}"), "cmdline.processor.max_cstate=1".to_owned()];
    let job = Job { settings: &settings, lasting: Some(&lasting), ..Job::new(&plan, "t") };
    carry_out(&stage.root, &stage.writer, state, &job, |_| Ok(()))
}

fn check(stage: &Stage) -> Verification {
    verify(&stage.root, &Facts::probe(&stage.root), stage.state().log())
}

/// The machine after a restart: the kernel has lost written values, and the boot files have set their values.
fn reboot(stage: &mut Stage, swappiness: &str, cmdline: &str) {
    let mut capture = stage.root.capture();
    capture.saw_text("/proc/sys/kernel/random/boot_id", Ok("bbbb\n".into()));
    capture.saw_text(SWAPPINESS, Ok(format!("{swappiness}\n")));
    capture.saw_text("/proc/cmdline", Ok(format!("{cmdline}\n")));
    stage.root = Root::captured(capture);
    stage.writer = stage.root.writer().unwrap();
}

#[test]
fn files_come_and_go_with_their_transaction() {
    let stage = Stage::on(&host());
    let before = stage.root.capture();
    let done = keep_it(&stage, &mut stage.state(), "10").unwrap();
    let kept: Vec<(&str, bool)> = done.persisted.iter().map(|kept| (kept.what.as_str(), kept.changed)).collect();
    assert_eq!(kept, [(SYSCTL, true), (GRUB, true), (BALANCE, true), ("update-grub", true)]);
    assert_eq!(stage.text(SYSCTL), "vm.swappiness = 10");
    assert!(
        stage.text(BALANCE).starts_with("# a comment\nIRQBALANCE_ARGS=\n# evenkeel begin"),
        "{}",
        stage.text(BALANCE)
    );

    // A person undoes the newest record first.
    // So the undo of the file also runs the boot loader's command, after it removes the file.
    assert!(stage.journal().contains(&format!("\"undo\":\"rm -f '{GRUB}'; update-grub\"")), "{}", stage.journal());

    let again = keep_it(&stage, &mut stage.state(), "10").unwrap();
    assert!(again.persisted.iter().all(|kept| !kept.changed), "{again:?}");

    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert!(report.all_undone && stage.is_as(&before), "{report:?}");
}

#[test]
fn files_that_others_changed_stay() {
    let stage = Stage::on(&host());
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    let tree = stage.root.tree().unwrap();
    let theirs =
        Entry::File { text: stage.text(BALANCE).replace("IRQBALANCE_ARGS=", "IRQBALANCE_ARGS=-d") + "\n", mode: 0o644 };
    tree.put(BALANCE, &theirs).unwrap();
    let drift = check(&stage).drift;
    assert!(drift.is_empty(), "our lines are there: {drift:?}");
    tree.put(SYSCTL, &Entry::File { text: "vm.swappiness = 77\n".into(), mode: 0o644 }).unwrap();
    let drift = check(&stage).drift;
    assert_eq!((drift.len(), drift[0].place.as_str(), drift[0].knob.as_str()), (1, SYSCTL, "vm.swappiness"));
    assert_eq!(
        drift[0].mend,
        "evenkeel apply --persist --unit memcached.service vm.swappiness=10 cmdline.processor.max_cstate=1"
    );

    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    let outcome =
        |path: &str| report.transactions[0].persisted.iter().find(|kept| kept.what == path).unwrap().undo.clone();
    assert_eq!((outcome(BALANCE), outcome(SYSCTL)), (PersistedOutcome::Foreign, PersistedOutcome::Foreign));
    assert_eq!(outcome("update-grub"), PersistedOutcome::Ran);
    assert_eq!(stage.text(BALANCE), "# a comment\nIRQBALANCE_ARGS=-d");
    assert_eq!(tree.look(SYSCTL), Ok(Entry::Absent));
}

#[test]
fn after_a_boot_what_is_in_force_counts() {
    let mut stage = Stage::on(&host());
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    let pending = check(&stage).pending;
    assert_eq!((pending.len(), pending[0].waits_for, pending[0].todo.as_str()), (1, WaitsFor::Reboot, "reboot"));

    reboot(&mut stage, "10", "quiet processor.max_cstate=1");
    let found = check(&stage);
    assert_eq!((found.holds, found.drift.len(), found.pending.len()), (5, 0, 0), "{found:?}");
    assert!(found.ended_by_reboot.is_empty());

    // Another owner's sysctl file sorts later, and the boot loader never ran.
    reboot(&mut stage, "60", "quiet");
    let drift = check(&stage).drift;
    let why: Vec<&str> = drift.iter().map(|drift| drift.why.as_str()).collect();
    assert!(why[0].starts_with("after the boot, /proc/sys/vm/swappiness does not have the value"), "{why:?}");
    assert!(why[1].contains("booted without it") && why[1].contains(GRUB), "{why:?}");

    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert!(report.all_undone, "{report:?}");
    assert_eq!(stage.text(SWAPPINESS), "60");
}

#[test]
fn a_value_that_a_boot_set_again_is_put_back() {
    let mut stage = Stage::on(&host());
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    reboot(&mut stage, "10", "quiet processor.max_cstate=1");
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert_eq!(stage.text(SWAPPINESS), "60");
    // If somebody has changed the file since, evenkeel must not restore it.
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    let boot = |stage: &mut Stage| {
        let mut capture = stage.root.capture();
        capture.saw_text("/proc/sys/kernel/random/boot_id", Ok("cccc\n".into()));
        capture.saw_text(SWAPPINESS, Ok("33\n".into()));
        stage.root = Root::captured(capture);
        stage.writer = stage.root.writer().unwrap();
    };
    boot(&mut stage);
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert_eq!(stage.text(SWAPPINESS), "33");
}

#[test]
fn an_earlier_transaction_is_covered_by_a_later_one_in_the_same_file() {
    let stage = Stage::on(&host());
    let before = stage.root.capture();
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    keep_it(&stage, &mut stage.state(), "20").unwrap();
    assert!(revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(1)).is_err());
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(2)).unwrap();
    assert_eq!((stage.text(SYSCTL), stage.text(SWAPPINESS)), ("vm.swappiness = 10".into(), "10".into()));
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(1)).unwrap();
    assert!(stage.is_as(&before));
}

/// A machine on which all commands fail.
struct NoPrograms;

impl Outside for NoPrograms {
    fn rehearse(&mut self, argv: &[String]) -> Result<(), String> {
        Err(format!("{} is not there", argv.join(" ")))
    }
}

#[test]
fn a_command_that_fails_puts_all_back() {
    let stage = Stage::on(&host());
    let before = stage.root.capture();
    let Err(crate::ApplyError::HalfWay(half_way)) = keep_it(&stage, &mut stage.state_on(NoPrograms), "10") else {
        panic!("the command fails");
    };
    assert!(matches!(&half_way.failure, Failure::Command { command, .. } if command == "update-grub"), "{half_way}");
    // The undo fails as well. The command stays pending, and `revert` undoes it once the program works.
    assert!(!half_way.put_back.all_undone && stage.is_as(&before));
    assert!(revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap().all_undone);
}

/// A machine on which one configuration file cannot be written.
struct Stuck;

impl Outside for Stuck {
    fn put(&mut self, tree: &Tree, path: &str, entry: &Entry) -> Result<(), TreeError> {
        if path == GRUB {
            return Err(TreeError { doing: "write", path: path.into(), errno: Errno::IO, why: "EIO".into() });
        }
        tree.put(path, entry)
    }

    fn rehearse(&mut self, _: &[String]) -> Result<(), String> {
        Ok(())
    }
}

/// Regression: `update-grub` ran before the file was removed, and counted as undone.
/// The next revert removed the file, and the boot loader kept the argument.
#[test]
fn a_command_is_owed_until_the_files_that_it_reads_are_back() {
    let stage = Stage::on(&host());
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    let first = revert(&stage.root, &stage.writer, &mut stage.state_on(Stuck), Which::All).unwrap();
    assert!(!first.all_undone, "{first:?}");
    let second = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    let undone: Vec<&str> = second.transactions[0].persisted.iter().map(|kept| kept.what.as_str()).collect();
    assert_eq!(undone, [GRUB, "update-grub"]);
    assert!(second.all_undone, "{second:?}");
}

#[test]
fn settings_that_last_are_remembered_for_the_next_plan() {
    let stage = Stage::on(&host());
    keep_it(&stage, &mut stage.state(), "10").unwrap();
    keep_it(&stage, &mut stage.state(), "20").unwrap();
    let texts = |unit| stage.state().log().lasting_settings(unit).iter().map(ToString::to_string).collect::<Vec<_>>();
    let (ten, twenty, argument) = ("vm.swappiness=10", "vm.swappiness=20", "cmdline.processor.max_cstate=1");
    assert_eq!(texts(None), [ten, argument, twenty, argument]);
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(2)).unwrap();
    assert_eq!(texts(None), [ten, argument]);
}

fn try_it(stage: &Stage, state: &mut State) -> u64 {
    let plan = plan(&["vm.swappiness=10", "thp.enabled=never"]);
    let job = Job { until: Some(Until { boottime_ns: 5, seconds: 60 }), ..Job::new(&plan, "try") };
    let mut armed = None;
    let done = carry_out(&stage.root, &stage.writer, state, &job, |id| {
        armed = Some(id);
        Ok(())
    });
    assert_eq!(armed, Some(done.unwrap().id));
    armed.unwrap()
}

#[test]
fn unconfirmed_changes_are_reverted() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let id = try_it(&stage, &mut stage.state());
    assert_eq!(check(&stage).unconfirmed, [id]);
    assert_eq!(unconfirmed(&stage.root, stage.state().log()).len(), 1);
    // A later change depends on it.
    crate::apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["vm.swappiness=20"]), "later").unwrap();
    let report = expire(&stage.root, &stage.writer, &mut stage.state(), id).unwrap();
    assert!(report.is_some_and(|report| report.all_undone) && stage.is_as(&before));
    assert!(expire(&stage.root, &stage.writer, &mut stage.state(), id).unwrap().is_none());
    assert!(
        confirm(&stage.root, &mut stage.state(), None)
            .unwrap_err()
            .to_string()
            .contains("no change needs confirmation")
    );
}

#[test]
fn confirmed_changes_stay() {
    let stage = Stage::new();
    let id = try_it(&stage, &mut stage.state());
    assert!(confirm(&stage.root, &mut stage.state(), Some(id + 1)).is_err());
    assert_eq!(confirm(&stage.root, &mut stage.state(), None).unwrap(), [id]);
    assert!(expire(&stage.root, &stage.writer, &mut stage.state(), id).unwrap().is_none());
    assert_eq!(stage.text(SWAPPINESS), "10");
    assert!(check(&stage).unconfirmed.is_empty());
}

#[test]
fn without_its_watchdog_nothing_is_changed() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let plan = plan(&["vm.swappiness=10"]);
    let job = Job { until: Some(Until { boottime_ns: 5, seconds: 60 }), ..Job::new(&plan, "try") };
    let refused = carry_out(&stage.root, &stage.writer, &mut stage.state(), &job, |_| Err("no more processes".into()));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("watchdog that reverts the change: no more processes; nothing was changed")
    );
    assert!(stage.is_as(&before));
}

#[test]
fn going_on_puts_back_only_what_failed() {
    let stage = Stage::new();
    let plan = plan(&["vm.swappiness=10", "irq.affinity@26=1", "clocksource=xen", "net.core.busy_poll=50"]);
    let job = Job { on_failure: OnFailure::GoOn, ..Job::new(&plan, "t") };
    let done = carry_out(&stage.root, &stage.writer, &mut stage.state(), &job, |_| Ok(())).unwrap();
    let outcomes: Vec<String> = done
        .steps
        .iter()
        .map(|step| serde_json::to_value(&step.outcome).unwrap()["outcome"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(outcomes, ["applied", "blocked", "did-not-take", "applied"]);
    assert_eq!((stage.text(SWAPPINESS), stage.text("/proc/irq/26/smp_affinity_list")), ("10".into(), "0-1".into()));
    let found = check(&stage);
    assert_eq!((found.holds, found.drift.len()), (2, 0), "a missed value is not drift: {found:?}");
}

#[test]
fn settings_of_other_owners_are_reported_as_theirs() {
    let stage = Stage::new();
    let plan = plan(&["vm.swappiness=10", "clocksource=tsc", "net.core.busy_poll=50"]);
    let owned = [0, 1].map(|step| OwnedStep { step, by: "TuneD's profile network-latency sets it".to_owned() });
    let job = Job { owned: &owned, ..Job::new(&plan, "t") };
    let done = carry_out(&stage.root, &stage.writer, &mut stage.state(), &job, |_| Ok(())).unwrap();
    let by = owned[0].by.clone();
    let theirs = Outcome::Owned { before: "60".into(), side_effects: vec![], by };
    let outcomes: Vec<&Outcome> = done.steps.iter().map(|step| &step.outcome).collect();
    let ours = Outcome::Applied { before: "0".into(), side_effects: vec![] };
    assert_eq!(outcomes, [&theirs, &Outcome::AlreadySo, &ours], "only what was written can be theirs");
    assert_eq!(stage.text(SWAPPINESS), "10");
    let again = crate::history(&stage.root, stage.state().log());
    assert_eq!(again[0].steps[0].outcome, theirs, "it is in the journal");
}

#[test]
fn an_image_lists_what_its_first_boot_does() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["etc/sysctl.d", "etc/default/grub.d", "var/lib"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    std::fs::write(dir.path().join("etc/default/irqbalance"), "IRQBALANCE_ARGS=\n").unwrap();
    let root = Root::mounted(dir.path()).unwrap();
    let writer = evenkeel_hostfs::HostWriter::on_nothing();
    let journal = dir.path().join("var/lib/evenkeel");
    let (plan, lasting) = (steps("10"), lasting("10"));
    let settings = ["vm.swappiness=10".to_owned(), "cmdline.processor.max_cstate=1".to_owned()];
    let job = Job { settings: &settings, lasting: Some(&lasting), ..Job::new(&plan, "t") };
    let mut state = State::open(&journal).unwrap();
    let done = carry_out(&root, &writer, &mut state, &job, |_| Ok(())).unwrap();
    let shown = serde_json::to_string(&done.steps).unwrap();
    assert!(shown.contains("boot the image"), "{shown}");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("etc/sysctl.d/90-evenkeel.conf")).unwrap(),
        "vm.swappiness = 10\n"
    );

    // This root is the machine that boots from the image.
    let booted = host()
        .replace("aaaa", "bbbb")
        .replace(&format!("{SYSCTL} ! ENOENT\n"), &format!("{SYSCTL} = vm.swappiness = 10\n"));
    let booted = Root::captured(Capture::parse(&booted).unwrap());
    let found = verify(&booted, &Facts::probe(&booted), state.log());
    assert!(found.drift.iter().any(|drift| drift.knob == "vm.swappiness" && drift.place == SWAPPINESS), "{found:?}");
    assert!(found.holds >= 1, "{found:?}");

    let report = revert(&root, &writer, &mut state, Which::All).unwrap();
    assert!(report.all_undone, "{report:?}");
    let last = report.transactions[0].persisted.last().unwrap();
    assert_eq!(
        (last.what.as_str(), &last.undo),
        ("update-grub", &PersistedOutcome::ToRun),
        "somebody may have run it in there"
    );
    assert!(!dir.path().join("etc/sysctl.d/90-evenkeel.conf").exists());
    assert_eq!(std::fs::read_to_string(dir.path().join("etc/default/irqbalance")).unwrap(), "IRQBALANCE_ARGS=\n");
}
