//! Advice for whole machines: compares the advice for every captured host under `hosts/` with the golden advice.
//! Also compares the advice with what an engineer who knows the machine would recommend.

use std::path::{Path, PathBuf};

use evenkeel_host::{Advice, Facts, Goal, Place, State, advise, knobs};
use evenkeel_hostfs::{Capture, Root, Why};
use expect_test::expect_file;
use serde_json::{Value, json};

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts")
}

fn advice_for(file: &Path, goal: Goal) -> Vec<Advice> {
    advise(&Facts::probe(&Root::captured(Capture::load(file).unwrap())), &goal.into())
}

/// The parts of the advice that depend on the machine. The other parts are the knob's own data, which docs/knobs.md contains.
fn shown(advice: &[Advice]) -> String {
    let row = |advice: &Advice| -> Value {
        json!({
            "knob": advice.knob,
            "place": advice.place,
            "state": advice.state,
            "current": advice.current,
            "wanted": advice.wanted,
            "reason": advice.reason,
        })
    };
    serde_json::to_string_pretty(&advice.iter().map(row).collect::<Vec<_>>()).unwrap() + "\n"
}

#[test]
fn every_captured_host_gets_the_advice_that_it_should() {
    let mut seen = 0;
    for entry in std::fs::read_dir(hosts()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let advice = advice_for(&path, Goal::Latency);
            expect_file![hosts().join(format!("golden/{name}.advice.json"))].assert_eq(&shown(&advice));
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}

/// A capture without the readings of one path, like a capture by an older evenkeel.
fn without(capture: &str, path: &str) -> Capture {
    let mut kept = String::new();
    let mut is_left_out = false;
    for line in capture.lines() {
        if !line.starts_with('|') {
            is_left_out = line.split_once(' ').is_some_and(|(of, _)| of == path);
        }
        if !is_left_out {
            kept += &format!("{line}\n");
        }
    }
    Capture::parse(&kept).unwrap()
}

#[test]
fn a_capture_older_than_a_look_makes_it_unknown() {
    let text = std::fs::read_to_string(hosts().join("gcp-n2-kvm-swap-5.14.txt")).unwrap();
    let goal = Goal::Latency.into();
    let of = |advice: &[Advice], knob: &str| -> Vec<Advice> {
        advice.iter().filter(|advice| advice.knob == knob).cloned().collect()
    };
    let before = advise(&Facts::probe(&Root::captured(Capture::parse(&text).unwrap())), &goal);
    let mut unknown = Vec::new();
    for knob in knobs::ALL {
        let Place::File { path, .. } = knob.place else { continue };
        let root = Root::captured(without(&text, path));
        assert_eq!(root.text(path).unwrap_err().why, Why::NotCaptured, "{path}");
        let after = of(&advise(&Facts::probe(&root), &goal), knob.id);
        // If other facts already exclude the knob, its own file is not needed.
        if after == of(&before, knob.id) {
            continue;
        }
        for advice in &after {
            assert_eq!((advice.state, &advice.wanted), (State::Unknown, &None), "{}: {}", knob.id, advice.reason);
            assert!(advice.reason.contains("capture the machine again"), "{}: {}", knob.id, advice.reason);
        }
        unknown.push(knob.id);
    }
    assert!(unknown.len() > 20, "{unknown:?}");
}

#[test]
fn advice_matches_that_of_an_engineer() {
    // Columns: machine, knob, place (empty for any), state, wanted.
    let table = [
        ("aws-c4.8xlarge-xen-3.14", "cmdline.intel_idle.max_cstate", "", State::Set, Some("1")),
        ("aws-c4.8xlarge-xen-3.14", "clocksource", "", State::Set, Some("tsc")),
        ("aws-c4.8xlarge-xen-3.14", "haltpoll.guest_halt_poll_ns", "", State::NotHere, None),
        ("aws-a1.xlarge-arm64-4.14", "cmdline.intel_idle.max_cstate", "", State::NotHere, None),
        ("aws-a1.xlarge-arm64-4.14", "clocksource", "", State::Keep, None),
        ("aws-c5n.xlarge-nitro-6.1", "clocksource", "", State::Keep, None),
        ("aws-c5n.xlarge-nitro-6.1", "vm.swappiness", "", State::NotHere, None),
        ("aws-m4.xlarge-xen-4.4", "clocksource", "", State::Set, Some("tsc")),
        ("azure-a1-hyperv-1vcpu", "net.rps_cpus", "", State::NotHere, None),
        ("azure-a1-hyperv-1vcpu", "net.core.busy_poll", "", State::NotHere, None),
        ("azure-a1-hyperv-1vcpu", "clocksource", "", State::Keep, None),
        ("gcp-n2-kvm-swap-5.14", "vm.swappiness", "", State::Set, Some("30")),
        ("gcp-n2-kvm-swap-5.14", "thp.enabled", "", State::Set, Some("madvise")),
        ("firecracker-2vcpu-6.18", "haltpoll.guest_halt_poll_ns", "", State::Set, Some("200000")),
        ("aws-c4.8xlarge-xen-3.14", "disk.scheduler", "xvda", State::Set, Some("noop")),
        ("aws-c4.8xlarge-xen-3.14", "thp.defrag", "", State::Set, Some("madvise")),
        ("aws-c4.8xlarge-xen-3.14", "kernel.numa_balancing", "", State::Keep, None),
        ("aws-c4.8xlarge-xen-3.14", "vm.compaction_proactiveness", "", State::NotHere, None),
        ("aws-m4.xlarge-xen-4.4", "thp.defrag", "", State::Keep, None),
        ("aws-c5n.xlarge-nitro-6.1", "disk.scheduler", "nvme0n1", State::Keep, None),
        ("aws-c5n.xlarge-nitro-6.1", "process.numa_policy", "", State::NotHere, None),
        ("gcp-n2-kvm-swap-5.14", "process.memory_lock", "", State::Set, Some("all")),
        ("firecracker-2vcpu-6.18", "vm.stat_interval", "", State::Set, Some("10")),
        ("firecracker-2vcpu-6.18", "net.core.rmem_max", "", State::Keep, None),
    ];
    for (host, knob, place, state, wanted) in table {
        let advice = advice_for(&hosts().join(format!("{host}.txt")), Goal::Latency);
        let of_knob: Vec<&Advice> =
            advice.iter().filter(|advice| advice.knob == knob && advice.place.contains(place)).collect();
        assert!(!of_knob.is_empty(), "{host}: {knob}");
        for advice in of_knob {
            assert_eq!(advice.state, state, "{host}: {knob}: {}", advice.reason);
            if let Some(wanted) = wanted {
                assert_eq!(advice.wanted.as_deref(), Some(wanted), "{host}: {knob}");
            }
        }
    }
}

#[test]
fn advice_is_whole_for_every_goal() {
    for goal in Goal::ALL {
        let advice = advice_for(&hosts().join("aws-c4.8xlarge-xen-3.14.txt"), goal);
        for knob in knobs::ALL {
            let of_knob = advice.iter().filter(|advice| advice.knob == knob.id);
            assert!(of_knob.clone().count() >= 1, "{goal}: {}", knob.id);
            assert!(of_knob.clone().all(|advice| !advice.reason.is_empty()), "{goal}: {}", knob.id);
        }
        assert!(advice.is_sorted_by_key(|advice| advice.state), "advice that needs action comes first");
    }
}
