//! Facts of whole machines. Compares every captured host under `hosts/` with its golden facts, and this machine with its own capture.
//! Also tests hostile captures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_host::Facts;
use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::Errno;
use expect_test::expect_file;

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts")
}

fn captured_hosts() -> Vec<(String, Capture)> {
    let entries = std::fs::read_dir(hosts()).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut hosts: Vec<_> = texts.map(|path| (name(&path), Capture::load(&path).unwrap())).collect();
    hosts.sort_by(|one, other| one.0.cmp(&other.0));
    hosts
}

/// Facts as JSON, without the texts of sysctls. These texts are copies, and grow with the table of knobs.
fn shown(facts: &Facts) -> String {
    let facts = Facts { sysctls: BTreeMap::new(), ..facts.clone() };
    serde_json::to_string_pretty(&facts).unwrap() + "\n"
}

/// Leaves out the texts of sysctls. A new knob reads a file that an old capture lacks, so the value is unknown in that capture.
#[test]
fn captured_hosts_answer_every_look_of_a_fact() {
    for (name, capture) in captured_hosts() {
        let facts = shown(&Facts::probe(&Root::captured(capture)));
        let unanswered: Vec<&str> = facts.lines().filter(|line| line.contains("is not in the capture")).collect();
        assert!(unanswered.is_empty(), "{name}: add what it would say, a refusal included: {unanswered:#?}");
    }
}

#[test]
fn every_captured_host_is_what_it_is_known_to_be() {
    let captured = captured_hosts();
    assert!(captured.len() >= 7, "{}", captured.len());
    for (name, capture) in captured {
        let facts = Facts::probe(&Root::captured(capture));
        expect_file![hosts().join(format!("golden/{name}.facts.json"))].assert_eq(&shown(&facts));
    }
}

#[test]
fn a_capture_of_this_machine_has_its_facts() {
    let root = Root::live();
    let facts = Facts::probe(&root);
    let text = root.capture().to_string();
    let replayed = Facts::probe(&Root::captured(Capture::parse(&text).unwrap()));
    assert_eq!(shown(&replayed), shown(&facts));
    assert_eq!(replayed, facts);
}

#[test]
fn this_machine_mounted_is_the_same_machine() {
    let root = Root::mounted(Path::new("/")).unwrap();
    let facts = Facts::probe(&root);
    let live = Facts::probe(&Root::live());
    assert_eq!((&facts.cpus, &facts.numa.nodes.is_absent()), (&live.cpus, &live.numa.nodes.is_absent()));
    let of =
        |facts: &Facts| (facts.kernel.clone(), facts.machine.hypervisor.clone(), facts.machine.distribution.clone());
    assert_eq!(of(&facts), of(&live));
    assert_eq!(Facts::probe(&Root::captured(root.capture())), facts);
}

/// The reasons of all unknowns. Panics at a known value.
fn whys(value: &serde_json::Value) -> Vec<&str> {
    match value {
        serde_json::Value::Object(fields) if fields.contains_key("unknown") => vec![fields["why"].as_str().unwrap()],
        serde_json::Value::Object(fields) => fields.values().flat_map(whys).collect(),
        serde_json::Value::Array(items) if items.is_empty() => vec![],
        known => panic!("{known} is known of nothing"),
    }
}

#[test]
fn an_empty_machine_has_only_unknown_facts() {
    let facts = Facts::probe(&Root::captured(Capture::default()));
    let json = serde_json::to_value(&facts).unwrap();
    let whys = whys(&json);
    assert!(whys.len() > 30, "{whys:#?}");
    for why in whys {
        assert!(why.ends_with(" is not in the capture"), "{why}");
    }
}

/// A captured host with each of its texts and links changed.
fn with_each(capture: &Capture, change: impl Fn(&str) -> Result<String, Errno>) -> Capture {
    let root = Root::captured(capture.clone());
    let mut changed = Capture::default();
    for line in capture.to_string().lines() {
        let Some((path, operator)) = line.split_once(' ') else { continue };
        if operator.starts_with('=') {
            changed.saw_text(path, root.text(path).map_or(Err(Errno::IO), |text| change(&text)));
        } else if operator.starts_with("-> ") {
            changed.saw_link(path, root.link(path).map_or(Err(Errno::IO), |target| change(&target)));
        }
    }
    changed
}

#[test]
fn hostile_captures_give_facts_not_panics() {
    let huge = "9".repeat(100_000);
    let texts =
        ["", "\n", "\0", "0-4294967295", "-1", "18446744073709551616", "[", "ffffffff,".repeat(600).leak(), &huge];
    for (name, capture) in captured_hosts() {
        for text in texts {
            let facts = Facts::probe(&Root::captured(with_each(&capture, |_| Ok(text.to_owned()))));
            assert!(facts.cpus.cpus.len() <= 8192, "{name}");
        }
        let halves = with_each(&capture, |text| Ok(text.chars().take(text.chars().count() / 2).collect()));
        let reversed = with_each(&capture, |text| Ok(text.chars().rev().collect()));
        for capture in [halves, reversed] {
            let _ = serde_json::to_string(&Facts::probe(&Root::captured(capture))).unwrap();
        }
    }
}

#[test]
fn a_machine_that_refuses_everything_is_odd_not_empty() {
    let capture = Capture::load(&hosts().join("aws-c5n.xlarge-nitro-6.1.txt")).unwrap();
    let facts = Facts::probe(&Root::captured(with_each(&capture, |_| Err(Errno::IO))));
    let whys = [
        facts.cpus.online.unknown_why(),
        facts.clock.current.unknown_why(),
        facts.memory.swaps.unknown_why(),
        facts.machine.hypervisor.unknown_why(),
        facts.machine.container.unknown_why(),
        facts.limits.cpu.unknown_why(),
    ];
    for why in whys {
        assert!(why.is_some_and(|why| why.ends_with("input/output error (EIO)")), "{why:?}");
    }
    assert!(facts.cpus.cpus.is_empty());
}
