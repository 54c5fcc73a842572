//! Tests what `apply` does and reports, step by step.

use std::fs::File;

use evenkeel_hostfs::{HostWriter, WriteError};
use evenkeel_sys::Errno;
use expect_test::{Expect, expect};

use super::{HOST, Quick, SWAPPINESS, Stage, plan, without_checksums};
use crate::outside::Outside;
use crate::{ApplyError, apply};

/// Applies settings to the captured host. Shows the outcome of each step, and what changed on the host.
fn check(settings: &[&str], expect: Expect) {
    let stage = Stage::new();
    let before = stage.root.capture();
    let outcome = apply(&stage.root, &stage.writer, &mut stage.state(), &plan(settings), "a test");
    let (transaction, error) = match outcome {
        Ok(transaction) => (transaction, None),
        Err(ApplyError::HalfWay(half_way)) => {
            assert!(half_way.put_back.all_undone && stage.is_as(&before), "{half_way:?}");
            (half_way.transaction.clone(), Some(half_way.to_string()))
        }
        Err(error) => panic!("{error}"),
    };
    let mut shown = format!("{}\n", serde_json::to_value(transaction.status).unwrap().as_str().unwrap());
    for step in &transaction.steps {
        shown += &format!("{}\n", serde_json::to_string(step).unwrap());
    }
    shown.extend(error.map(|error| format!("failed to {error}\n")));
    let after = stage.root.capture().to_string();
    shown.extend(after.lines().filter(|line| !before.to_string().contains(line)).map(|line| format!("host: {line}\n")));
    expect.assert_eq(&shown);
}

#[test]
fn the_outcomes_of_steps() {
    check(
        &["vm.swappiness=10", "net.core.busy_poll=0", "net.rps_cpus=0-1", "irq.affinity=1"],
        expect![[r#"
        in-force
        {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","outcome":"applied","before":"60"}
        {"knob":"net.core.busy_poll","place":"/proc/sys/net/core/busy_poll","wanted":"0","outcome":"already-so"}
        {"knob":"net.rps_cpus","place":"eth0/rx-0","wanted":"0-1","outcome":"applied","before":""}
        {"knob":"irq.affinity","place":"25","wanted":"1","outcome":"applied","before":"0-1"}
        host: /proc/irq/25/effective_affinity = 2
        host: /proc/irq/25/effective_affinity_list = 1
        host: /proc/irq/25/smp_affinity = 2
        host: /proc/irq/25/smp_affinity_list = 1
        host: /proc/sys/vm/swappiness = 10
        host: /sys/class/net/eth0/queues/rx-0/rps_cpus = 3
    "#]],
    );
    check(
        &["thp.enabled=never"],
        expect![[r#"
        in-force
        {"knob":"thp.enabled","place":"/sys/kernel/mm/transparent_hugepage/enabled","wanted":"never","outcome":"applied","before":"madvise","side_effects":[{"path":"/proc/sys/vm/min_free_kbytes","before":"70000","after":"19832"}]}
        host: /proc/sys/vm/min_free_kbytes = 19832
        host: /sys/kernel/mm/transparent_hugepage/enabled = always madvise [never]
    "#]],
    );
    check(
        &[
            "cmdline.intel_idle.max_cstate=0",
            "cmdline.intel_idle.max_cstate=1",
            "cpuidle.dma_latency_us=0",
            "process.timer_slack_ns=1",
        ],
        expect![[r#"
            in-force
            {"knob":"cmdline.intel_idle.max_cstate","place":"intel_idle.max_cstate","wanted":"0","outcome":"pending-reboot","todo":"add intel_idle.max_cstate=0 to the kernel command line in the boot loader's configuration, and reboot"}
            {"knob":"cmdline.intel_idle.max_cstate","place":"intel_idle.max_cstate","wanted":"1","outcome":"already-so"}
            {"knob":"cpuidle.dma_latency_us","place":"/dev/cpu_dma_latency","wanted":"0","outcome":"not-applicable","instead":"it lasts only while a process keeps /dev/cpu_dma_latency open, as `evenkeel prove cpuidle.dma_latency_us=0` does"}
            {"knob":"process.timer_slack_ns","place":"server","wanted":"1","outcome":"not-applicable","instead":"the server sets it when it starts (prctl, or TimerSlackNSec= of its systemd unit); `evenkeel prove process.timer_slack_ns=1` tests it"}
        "#]],
    );
    check(
        &[],
        expect![[r#"
        in-force
    "#]],
    );
}

#[test]
fn a_step_that_fails_takes_the_others_with_it() {
    check(
        &["thp.enabled=never", "vm.swappiness=201", "net.core.busy_poll=50"],
        expect![[r#"
            rolled-back
            {"knob":"thp.enabled","place":"/sys/kernel/mm/transparent_hugepage/enabled","wanted":"never","outcome":"rolled-back","before":"madvise"}
            {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"201","outcome":"refused","errno":"EINVAL"}
            {"knob":"net.core.busy_poll","place":"/proc/sys/net/core/busy_poll","wanted":"50","outcome":"not-reached"}
            failed to set vm.swappiness to "201": the kernel refused the write to /proc/sys/vm/swappiness: invalid argument (EINVAL); all earlier changes are restored
        "#]],
    );
    check(
        &["vm.swappiness=10", "irq.affinity@26=1"],
        expect![[r#"
            rolled-back
            {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","outcome":"rolled-back","before":"60"}
            {"knob":"irq.affinity@26","place":"26","wanted":"1","outcome":"blocked","by":"managed-irq","errno":"EIO"}
            failed to set irq.affinity@26 to "1": /proc/irq/26/smp_affinity_list: input/output error (EIO): the kernel manages this interrupt and spreads it over the CPUs: you cannot set its affinity; all earlier changes are restored
        "#]],
    );
    check(
        &["vm.swappiness=10", "clocksource=xen"],
        expect![[r#"
            rolled-back
            {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","outcome":"rolled-back","before":"60"}
            {"knob":"clocksource","place":"/sys/devices/system/clocksource/clocksource0/current_clocksource","wanted":"xen","outcome":"did-not-take","found":"tsc","read_from":"/sys/devices/system/clocksource/clocksource0/current_clocksource"}
            failed to set clocksource to "xen": the kernel accepted the write to /sys/devices/system/clocksource/clocksource0/current_clocksource, but /sys/devices/system/clocksource/clocksource0/current_clocksource reads "tsc"; all earlier changes are restored
        "#]],
    );
    check(
        &["vm.swappiness=10", "/proc/sys/vm/nothing=1"],
        expect![[r#"
            rolled-back
            {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","outcome":"rolled-back","before":"60"}
            {"knob":"/proc/sys/vm/nothing","place":"/proc/sys/vm/nothing","wanted":"1","outcome":"unreadable","why":"read /proc/sys/vm/nothing: not in the capture"}
            failed to set /proc/sys/vm/nothing to "1": read /proc/sys/vm/nothing: not in the capture; all earlier changes are restored
        "#]],
    );
    check(
        &["clocksource=xen"],
        expect![[r#"
            rolled-back
            {"knob":"clocksource","place":"/sys/devices/system/clocksource/clocksource0/current_clocksource","wanted":"xen","outcome":"did-not-take","found":"tsc","read_from":"/sys/devices/system/clocksource/clocksource0/current_clocksource"}
            failed to set clocksource to "xen": the kernel accepted the write to /sys/devices/system/clocksource/clocksource0/current_clocksource, but /sys/devices/system/clocksource/clocksource0/current_clocksource reads "tsc"; nothing was changed
        "#]],
    );
    check(
        &["vm.swappiness=10", "/proc/meminfo=1"],
        expect![[r#"
            rolled-back
            {"knob":"vm.swappiness","place":"/proc/sys/vm/swappiness","wanted":"10","outcome":"rolled-back","before":"60"}
            {"knob":"/proc/meminfo","place":"/proc/meminfo","wanted":"1","outcome":"refused","errno":"EACCES"}
            failed to set /proc/meminfo to "1": the kernel refused the write to /proc/meminfo: permission denied (EACCES); all earlier changes are restored
        "#]],
    );
}

#[test]
fn a_repeated_setting_is_already_in_force() {
    let stage = Stage::new();
    let mut state = stage.state();
    let settings = plan(&["thp.enabled=never", "irq.affinity=1", "net.rps_cpus=0-1"]);
    apply(&stage.root, &stage.writer, &mut state, &settings, "once").unwrap();
    let once = stage.root.capture();
    let again = apply(&stage.root, &stage.writer, &mut state, &settings, "twice").unwrap();
    assert!(again.steps.iter().all(|step| step.outcome == crate::Outcome::AlreadySo), "{again:?}");
    assert!(stage.is_as(&once));
}

/// Here the kernel accepts the mask, but another CPU still serves the interrupt.
#[test]
fn the_value_in_force_counts_not_the_requested_one() {
    let stage = Stage::on(&HOST.replace("25/effective_affinity_list = 0", "27/x = 0"));
    let mut settings = plan(&["irq.affinity=1"]);
    apply(&stage.root, &stage.writer, &mut stage.state(), &settings, "an old kernel does not show it").unwrap();
    let evenkeel_host::Action::Write { in_force, .. } = &mut settings.steps[0].action else { panic!("a write") };
    *in_force = Some("/proc/irq/26/smp_affinity_list".into());
    settings.steps[0].wanted = "0".into();
    let error = apply(&stage.root, &stage.writer, &mut stage.state(), &settings, "t").unwrap_err();
    assert!(error.to_string().contains("/proc/irq/26/smp_affinity_list reads \"0-1\""), "{error}");
    assert_eq!(stage.text("/proc/irq/25/smp_affinity_list"), "1");
}

/// At each write to the host, records what is not synced yet, and the content of the journal.
struct Watch {
    journal: std::path::PathBuf,
    unsynced: usize,
    writes: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Outside for Watch {
    fn append(&mut self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        self.unsynced += 1;
        Quick.append(file, bytes)
    }

    fn sync(&mut self, _: &File) -> Result<(), Errno> {
        self.unsynced = 0;
        Ok(())
    }

    fn write(&mut self, writer: &HostWriter, path: &str, value: &str) -> Result<(), WriteError> {
        let journal = std::fs::read_to_string(&self.journal).unwrap();
        assert_eq!(self.unsynced, 0, "written to {path} before the journal was synced");
        assert!(journal.contains(&format!("> '{path}'")), "written to {path} before its undo was in {journal}");
        self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        writer.write(path, value)
    }
}

#[test]
fn the_journal_is_on_disk_before_the_write_it_describes() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let writes = std::sync::Arc::default();
    let journal = stage.dir.path().join("journal");
    let mut state = stage.state_on(Watch { journal, unsynced: 0, writes: std::sync::Arc::clone(&writes) });
    apply(&stage.root, &stage.writer, &mut state, &plan(&["thp.enabled=never", "vm.swappiness=10"]), "t").unwrap();
    apply(&stage.root, &stage.writer, &mut state, &plan(&["irq.affinity=1", "clocksource=xen"]), "t").unwrap_err();
    crate::revert(&stage.root, &stage.writer, &mut state, crate::Which::All).unwrap();
    assert!(stage.is_as(&before));
    assert_eq!(writes.load(std::sync::atomic::Ordering::Relaxed), 8, "5 values, 3 of them and a side effect put back");
}

/// A shell runs the undo commands that a person without this program would find.
/// The kernel's files are moved to a directory.
#[test]
fn the_journal_shows_a_person_what_undoes_it() {
    let stage = Stage::new();
    apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["thp.enabled=never"]), "evenkeel apply …").unwrap();
    let journal = stage.journal();
    expect![[r#"
        {"format":3,"seq":1,"at_ns":1700000000000000000,"record":"begin","txn":1,"kind":"apply","title":"evenkeel apply …","boot_id":"aaaa","steps":[{"knob":"thp.enabled","place":"/sys/kernel/mm/transparent_hugepage/enabled","wanted":"never","action":"write","path":"/sys/kernel/mm/transparent_hugepage/enabled","reading":"chosen-word","side_effects":["/proc/sys/vm/min_free_kbytes","/proc/sys/vm/not-here"]}],"captured":true}
        {"format":3,"seq":2,"at_ns":1700000000000000000,"record":"intent","txn":1,"step":0,"knob":"thp.enabled","place":"/sys/kernel/mm/transparent_hugepage/enabled","path":"/sys/kernel/mm/transparent_hugepage/enabled","reading":"chosen-word","wanted":"never","before":"madvise","before_text":"always [madvise] never\n","side_effects":[{"path":"/proc/sys/vm/min_free_kbytes","before":"70000"}],"undo":"printf '%s\\n' 'madvise' > '/sys/kernel/mm/transparent_hugepage/enabled'; printf '%s\\n' '70000' > '/proc/sys/vm/min_free_kbytes'"}
        {"format":3,"seq":3,"at_ns":1700000000000000000,"record":"done","txn":1,"step":0,"found":"never","side_effects":[{"path":"/proc/sys/vm/min_free_kbytes","before":"70000","after":"19832"}]}
        {"format":3,"seq":4,"at_ns":1700000000000000000,"record":"commit","txn":1,"already_so":[]}
    "#]].assert_eq(&without_checksums(&journal));

    let intent = journal.lines().find(|line| line.contains(r#""record":"intent""#)).unwrap();
    let intent: serde_json::Value = serde_json::from_str(&intent[9..]).unwrap();
    let kernel = tempfile::tempdir().unwrap();
    for dir in ["proc/sys/vm", "sys/kernel/mm/transparent_hugepage"] {
        std::fs::create_dir_all(kernel.path().join(dir)).unwrap();
    }
    let moved = intent["undo"].as_str().unwrap().replace("> '/", &format!("> '{}/", kernel.path().display()));
    assert!(std::process::Command::new("sh").args(["-c", &moved]).status().unwrap().success());
    let written = |path: &str| std::fs::read_to_string(kernel.path().join(&path[1..])).unwrap();
    assert_eq!((written(super::THP), written(super::MIN_FREE)), ("madvise\n".to_owned(), "70000\n".to_owned()));
}

#[test]
fn a_plan_too_long_for_a_record_changes_nothing() {
    let stage = Stage::new();
    let before = stage.root.capture();
    let long = "1".repeat(1 << 20);
    let error = apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&[&format!("vm.swappiness={long}")]), "t")
        .unwrap_err();
    assert!(matches!(error, ApplyError::Journal(crate::StateError::TooLong { .. })), "{error}");
    assert!(stage.is_as(&before) && stage.text(SWAPPINESS) == "60");
}
