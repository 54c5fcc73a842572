//! Tests `verify`: drift, values that wait for a boot, and what counts as in force.

use evenkeel_host::Facts;
use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::Errno;
use expect_test::expect;

use super::{HOST, SWAPPINESS, Stage, THP, plan};
use crate::apply::is_booted_with;
use crate::{Verification, Which, apply, revert, verify};

fn check(stage: &Stage) -> Verification {
    verify(&stage.root, &Facts::probe(&stage.root), stage.state().log())
}

fn shown(stage: &Stage) -> String {
    serde_json::to_string_pretty(&check(stage)).unwrap() + "\n"
}

#[test]
fn drift_says_what_was_found_and_what_mends_it() {
    let mut stage = Stage::new();
    let settings =
        plan(&["vm.swappiness=10", "thp.enabled=never", "net.rps_cpus=0-1", "irq.affinity=1", "net.core.busy_poll=0"]);
    apply(&stage.root, &stage.writer, &mut stage.state(), &settings, "t").unwrap();
    let verification = check(&stage);
    assert_eq!((verification.holds, verification.drift.len()), (5, 0), "{verification:?}");

    stage.writer.write(SWAPPINESS, "77").unwrap();
    stage.writer.write("/proc/sys/net/core/busy_poll", "50").unwrap();
    let mut capture = stage.root.capture();
    capture.saw_text(THP, Ok("always madvise never\n".to_owned()));
    capture.saw_text("/proc/irq/25/effective_affinity_list", Ok("0\n".to_owned()));
    capture.saw_text("/sys/class/net/eth0/queues/rx-0/rps_cpus", Err(Errno::NOENT));
    stage.root = Root::captured(capture);
    expect![[r#"
        {
          "holds": 0,
          "drift": [
            {
              "knob": "vm.swappiness",
              "place": "/proc/sys/vm/swappiness",
              "wanted": "10",
              "found": "77",
              "why": "somebody changed /proc/sys/vm/swappiness after transaction 1",
              "mend": "evenkeel apply vm.swappiness@/proc/sys/vm/swappiness=10"
            },
            {
              "knob": "thp.enabled",
              "place": "/sys/kernel/mm/transparent_hugepage/enabled",
              "wanted": "never",
              "found": "always madvise never",
              "why": "read /sys/kernel/mm/transparent_hugepage/enabled: \"always madvise never\\n\" is not a value",
              "mend": "evenkeel apply thp.enabled@/sys/kernel/mm/transparent_hugepage/enabled=never"
            },
            {
              "knob": "net.rps_cpus",
              "place": "eth0/rx-0",
              "wanted": "0-1",
              "found": {
                "unknown": "absent",
                "why": "/sys/class/net/eth0/queues/rx-0/rps_cpus: no such file or directory (ENOENT)"
              },
              "why": "evenkeel can no longer read what transaction 1 set: read /sys/class/net/eth0/queues/rx-0/rps_cpus: no such file or directory (ENOENT)",
              "mend": "evenkeel apply net.rps_cpus@eth0/rx-0=0-1"
            },
            {
              "knob": "irq.affinity",
              "place": "25",
              "wanted": "1",
              "found": "0",
              "why": "/proc/irq/25/effective_affinity_list does not follow the value that was set after transaction 1",
              "mend": "evenkeel apply irq.affinity@25=1"
            },
            {
              "knob": "net.core.busy_poll",
              "place": "/proc/sys/net/core/busy_poll",
              "wanted": "0",
              "found": "50",
              "why": "somebody changed /proc/sys/net/core/busy_poll after transaction 1",
              "mend": "evenkeel apply net.core.busy_poll@/proc/sys/net/core/busy_poll=0"
            }
          ],
          "pending": [],
          "interrupted": [],
          "ended_by_reboot": []
        }
    "#]].assert_eq(&shown(&stage));
}

#[test]
fn the_newest_transaction_on_a_file_counts() {
    let stage = Stage::new();
    for setting in ["vm.swappiness=10", "vm.swappiness=20"] {
        apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&[setting]), setting).unwrap();
        assert_eq!(check(&stage).holds, 1);
    }
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::Transaction(2)).unwrap();
    let verification = check(&stage);
    assert_eq!((verification.holds, verification.drift.len()), (1, 0), "back at the first one's value");
    revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
    assert_eq!(check(&stage), crate::Verification::default());
}

#[test]
fn pending_settings_are_no_drift() {
    let mut stage = Stage::new();
    let settings = plan(&["cmdline.intel_idle.max_cstate=0", "cpuidle.dma_latency_us=0", "vm.swappiness=10"]);
    apply(&stage.root, &stage.writer, &mut stage.state(), &settings, "t").unwrap();
    expect![[r#"
        {
          "holds": 1,
          "drift": [],
          "pending": [
            {
              "knob": "cmdline.intel_idle.max_cstate",
              "place": "intel_idle.max_cstate",
              "wanted": "0",
              "waits_for": "user",
              "todo": "add intel_idle.max_cstate=0 to the kernel command line in the boot loader's configuration, and reboot"
            }
          ],
          "interrupted": [],
          "ended_by_reboot": []
        }
    "#]].assert_eq(&shown(&stage));

    stage.root = Root::captured(Capture::parse(&HOST.replace("aaaa", "bbbb")).unwrap());
    let verification = check(&stage);
    assert_eq!((verification.holds, verification.ended_by_reboot), (0, vec![1]));
}

#[test]
fn arguments_of_init_are_not_the_kernels() {
    let stage = Stage::on(&HOST.replace("max_cstate=1\n", "max_cstate=1 -- idle=poll\n"));
    assert!(is_booted_with(&stage.root, "intel_idle.max_cstate=1"));
    assert!(!is_booted_with(&stage.root, "idle=poll"));
}
