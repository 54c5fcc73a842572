//! Tests drop-ins for the services of sessions:
//! their text, that evenkeel writes and removes them together, and what `verify` reports about running sessions.

use evenkeel_host::Facts;
use evenkeel_hostfs::{Capture, Entry, Root};
use evenkeel_sys::CpuSet;
use expect_test::expect;

use super::{HOST, Stage, lasting};
use crate::persist::{SESSION_UNITS_MAX, SessionUnit, UnitLines, has_unit_file, is_session_unit, session_units};
use crate::{ApplyError, Job, PlanFile, State, Transaction, Which, carry_out, render, revert, verify};

/// None of our drop-ins exists yet.
pub(super) const FILES: &str = "/etc/systemd/system/arena@1.service.d/91-evenkeel-pack.conf ! ENOENT
/etc/systemd/system/arena@2.service.d/91-evenkeel-pack.conf ! ENOENT
";
const FIRST: &str = "/etc/systemd/system/arena@1.service.d/91-evenkeel-pack.conf";

fn session(unit: &str, cpus: &str) -> SessionUnit {
    SessionUnit { unit: unit.parse().unwrap(), cpus: CpuSet::parse_list(cpus).unwrap(), node: None, cpu_weight: None }
}

fn file(root: &Root, lines: UnitLines, cpus: &[&str]) -> PlanFile {
    let sessions: Vec<SessionUnit> =
        (1..).zip(cpus).map(|(number, cpus)| session(&format!("arena@{number}.service"), cpus)).collect();
    let (plan, persist) = session_units(&Facts::probe(root), lines, &sessions).unwrap();
    PlanFile::of_files(root, plan, persist, "t", "evenkeel pack apply sessions.csv")
}

/// Session N gets the N-th of these sets.
pub(super) fn place(stage: &Stage, state: &mut State, cpus: &[&str]) -> Result<Transaction, ApplyError> {
    place_by(stage, state, UnitLines::ControlGroup, cpus)
}

fn place_by(stage: &Stage, state: &mut State, lines: UnitLines, cpus: &[&str]) -> Result<Transaction, ApplyError> {
    let file = file(&stage.root, lines, cpus);
    let plan = file.plan();
    let job = Job { lasting: file.persist.as_ref(), ..Job::new(&plan, "t") };
    carry_out(&stage.root, &stage.writer, state, &job, |_| Ok(()))
}

#[test]
fn a_drop_in_replaces_earlier_lists() {
    let root = Root::captured(Capture::parse(HOST).unwrap());
    let all = SessionUnit { node: Some(1), cpu_weight: Some(200), ..session("a.service", "4-7") };
    let text = |lines, one: &SessionUnit| {
        let (_, persist) = session_units(&Facts::probe(&root), lines, std::slice::from_ref(one)).unwrap();
        let command = persist.commands[0].argv.join(" ");
        format!(
            "{}\n{:?}\n{command} after {}\n",
            persist.files[0].path,
            persist.files[0].content,
            persist.commands[0].after.len()
        )
        .replace("\\n", "\n")
    };
    expect![[r##"
        /etc/systemd/system/a.service.d/91-evenkeel-pack.conf
        Whole { text: "# Written by `evenkeel pack apply`; `evenkeel revert` removes it.
        [Service]
        AllowedCPUs=
        AllowedCPUs=4-7
        AllowedMemoryNodes=
        AllowedMemoryNodes=1
        CPUWeight=200
        ", mode: 420 }
        systemctl daemon-reload after 1
        /etc/systemd/system/a.service.d/91-evenkeel-pack.conf
        Whole { text: "# Written by `evenkeel pack apply`; `evenkeel revert` removes it.
        [Service]
        CPUAffinity=
        CPUAffinity=4-7
        NUMAPolicy=bind
        NUMAMask=
        NUMAMask=1
        CPUWeight=200
        ", mode: 420 }
        systemctl daemon-reload after 1
        /etc/systemd/system/a.service.d/91-evenkeel-pack.conf
        Whole { text: "# Written by `evenkeel pack apply`; `evenkeel revert` removes it.
        [Service]
        AllowedCPUs=
        AllowedCPUs=4-7
        ", mode: 420 }
        systemctl daemon-reload after 1
    "##]]
    .assert_eq(
        &[
            text(UnitLines::ControlGroup, &all),
            text(UnitLines::Process, &all),
            text(UnitLines::ControlGroup, &session("a.service", "4-7")),
        ]
        .concat(),
    );
    let many = vec![all; SESSION_UNITS_MAX + 1];
    let error = session_units(&Facts::probe(&root), UnitLines::Process, &many).unwrap_err();
    assert_eq!(error, "place 1001 services: one transaction has at most 1000");
}

#[test]
fn systemd_of_this_machine_is_read_and_never_guessed() {
    let lines = |line: &str| {
        let text = HOST.replacen('\n', &format!("\n{line}"), 1);
        UnitLines::of_machine(&Root::captured(Capture::parse(&text).unwrap()))
    };
    let controllers = "/sys/fs/cgroup/cgroup.controllers";
    assert_eq!(lines(&format!("{controllers} = cpuset cpu io memory\n")), Ok(UnitLines::ControlGroup));
    assert_eq!(lines(&format!("{controllers} = cpu io memory\n")), Ok(UnitLines::Process));
    assert_eq!(lines(&format!("{controllers} ! ENOENT\n")), Ok(UnitLines::Process));
    assert_eq!(
        lines(&format!("{controllers} ! EACCES\n")),
        Err(format!("read {controllers}: permission denied (EACCES)"))
    );
    assert_eq!(lines(""), Err(format!("read {controllers}: not in the capture")));
}

#[test]
fn a_service_without_a_unit_is_noticed() {
    let has = |lines: &str, unit: &str| {
        let text = HOST.replacen('\n', &format!("\n{lines}"), 1);
        has_unit_file(&Root::captured(Capture::parse(&text).unwrap()), &unit.parse().unwrap())
    };
    assert_eq!(has("/usr/lib/systemd/system/arena@.service =\n| [Service]\n", "arena@3.service"), Ok(true));
    assert_eq!(has("/etc/systemd/system/a.service =\n| [Service]\n", "a.service"), Ok(true));
    let why = has("", "a.service").unwrap_err();
    assert_eq!(why, "read /etc/systemd/system/a.service: not in the capture");
    let dir = tempfile::tempdir().unwrap();
    let image = Root::mounted(dir.path()).unwrap();
    assert_eq!(has_unit_file(&image, &"arena@3.service".parse().unwrap()), Ok(false));
    assert!(is_session_unit(FIRST) && !is_session_unit("/etc/systemd/system/a.service.d/90-evenkeel.conf"));
}

#[test]
fn the_services_of_all_sessions_are_one_transaction() {
    let stage = Stage::on(&lasting::host());
    let before = stage.root.capture();
    let done = place(&stage, &mut stage.state(), &["0", "0-1"]).unwrap();
    let changed: Vec<&str> = done.persisted.iter().filter(|one| one.changed).map(|one| &*one.what).collect();
    assert_eq!((changed.len(), changed[0], changed[2]), (3, FIRST, "systemctl daemon-reload"));
    assert!(stage.text(FIRST).ends_with("AllowedCPUs=\nAllowedCPUs=0"), "{}", stage.text(FIRST));
    assert!(stage.journal().contains("; systemctl daemon-reload\""), "{}", stage.journal());

    stage.root.tree().unwrap().put(FIRST, &Entry::Absent).unwrap();
    let found = verify(&stage.root, &Facts::probe(&stage.root), stage.state().log());
    let drift: Vec<(&str, &str)> = found.drift.iter().map(|drift| (&*drift.place, &*drift.mend)).collect();
    assert_eq!(drift, [(FIRST, "evenkeel pack apply sessions.csv")]);

    let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert!(report.all_undone && stage.is_as(&before), "{report:?}");
}

#[test]
fn running_sessions_are_judged_by_their_process() {
    let group = r"/sys/fs/cgroup/system.slice/system-arena.slice";
    let found = |lines, cpus: &str, start_ticks: u32| {
        let runs = format!(
            "{group}/arena@1.service/cgroup.procs = 41\n/proc/41/status =\n| Cpus_allowed_list:\t{cpus}\n\
             /proc/stat =\n| cpu 1 0 0 0 0 0 0 0\n| btime 1700000000\n/proc/41/stat = 41 (a) S 1 1 1 {}{start_ticks} 1 0\n",
            "0 ".repeat(15),
        );
        let stage = Stage::on(&lasting::host().replacen('\n', &format!("\n{runs}"), 1));
        let done = place_by(&stage, &mut stage.state(), lines, &["0-1", "1"]).unwrap();
        let found = verify(&stage.root, &Facts::probe(&stage.root), stage.state().log());
        let drift = found.drift.iter().map(|drift| format!("drift {}: {}; {}", drift.place, drift.why, drift.mend));
        let pending = found.pending.iter().map(|pending| format!("pending {}: {}", pending.place, pending.todo));
        let steps = done.steps.iter().map(|step| format!("{:?}", step.outcome));
        format!("{}\n", [drift.collect::<Vec<_>>(), pending.collect(), steps.collect()].concat().join("\n"))
    };
    expect![[r#"
        pending arena@2.service: systemctl start arena@2.service
        PendingStart { todo: "systemctl start arena@1.service, if it does not run; `evenkeel verify` shows its CPUs" }
        PendingStart { todo: "systemctl start arena@2.service, if it does not run; `evenkeel verify` shows its CPUs" }
        drift arena@1.service: process 41 of arena@1.service may run on other CPUs than /etc/systemd/system/arena@1.service.d/91-evenkeel-pack.conf allows; systemctl daemon-reload
        pending arena@2.service: systemctl start arena@2.service
        PendingStart { todo: "systemctl start arena@1.service, if it does not run; `evenkeel verify` shows its CPUs" }
        PendingStart { todo: "systemctl start arena@2.service, if it does not run; `evenkeel verify` shows its CPUs" }
        pending arena@2.service: systemctl start arena@2.service
        PendingStart { todo: "systemctl restart arena@1.service" }
        PendingStart { todo: "systemctl restart arena@2.service" }
        pending arena@1.service: systemctl restart arena@1.service
        pending arena@2.service: systemctl start arena@2.service
        PendingStart { todo: "systemctl restart arena@1.service" }
        PendingStart { todo: "systemctl restart arena@2.service" }
        drift arena@1.service: process 41 of arena@1.service was started with this value, which was changed since: by the program itself, or before Linux 6.2 by the kernel, when the CPUs of its control group or of a group above it change, as they do with AllowedCPUs= of another service; systemctl restart arena@1.service
        pending arena@2.service: systemctl start arena@2.service
        PendingStart { todo: "systemctl restart arena@1.service" }
        PendingStart { todo: "systemctl restart arena@2.service" }
    "#]].assert_eq(
        &[
            found(UnitLines::ControlGroup, "1", 0),
            found(UnitLines::ControlGroup, "0-3", 0),
            found(UnitLines::Process, "0-1", 0),
            found(UnitLines::Process, "0-3", 0),
            // The process was started with the value, and has another value now.
            found(UnitLines::Process, "0-3", 1000),
        ]
        .concat(),
    );
}

#[test]
fn a_script_places_the_services_too() {
    let root = Root::captured(Capture::parse(&lasting::host()).unwrap());
    let (one, other) = (file(&root, UnitLines::ControlGroup, &["0"]), file(&root, UnitLines::ControlGroup, &["1"]));
    let text = render::script(&one).unwrap();
    assert!(text.contains("AllowedCPUs=0\n") && text.contains("systemctl daemon-reload"), "{text}");
    assert!(render::todo(&one).is_empty(), "{:?}", render::todo(&one));
    assert_ne!(render::name(&one), render::name(&other));
}
