//! Tests the files for Prometheus that evenkeel ships: rules with their tests, and examples of service discovery.
//! The tests of `serve` check that the metrics exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel_testkit::skipped;
use serde_json::Value;

use crate::support::Scene;

const TOKEN: &str = "0123456789abcdefghij";

/// Each alert has a test in which the alert fires.
/// Each recorded series that a dashboard or a rule uses has a recording rule.
#[test]
fn rules_are_tested() {
    let read = |name: &str| fs::read_to_string(folder().join(name)).unwrap();
    let both = ["evenkeel", "evenkeel-fleet"];
    let rules: String = both.iter().map(|name| read(&format!("{name}.rules.yml"))).collect();
    for file in both.iter().flat_map(|name| [format!("{name}.rules.yml"), format!("{name}.dashboard.json")]) {
        let text = read(&file);
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        for word in words.filter(|word| word.starts_with("evenkeel:")) {
            assert!(rules.contains(&format!("- record: {word}\n")), "{file}: {word} is not recorded");
        }
    }
    for name in both {
        let alerts = read(&format!("{name}.rules.yml")).matches("- alert: ").count();
        let tested = read(&format!("{name}.rules.test.yml"));
        let fire = tested
            .split("alertname: ")
            .skip(1)
            .filter(|rest| rest.lines().nth(1).is_some_and(|line| line.contains("exp_alerts")));
        assert_eq!(fire.count(), alerts, "{name}: each alert has a test in which it fires");
        let tests = format!("{name}.rules.test.yml");
        let Some(output) = promtool(&["test", "rules", &tests], &folder()) else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The examples of service discovery are valid, and give each host its name and its group.
#[test]
fn scrape_examples_name_hosts_and_groups() {
    const LABELS: [(&str, &str, &str); 2] = [
        (
            "kubernetes_sd",
            "'__meta_kubernetes_pod_phase': Running, '__meta_kubernetes_pod_ip': 10.0.0.5, \
             '__meta_kubernetes_pod_node_name': node-a, \
             '__meta_kubernetes_node_label_node_kubernetes_io_instance_type': c7i.large, \
             '__meta_kubernetes_node_label_topology_kubernetes_io_zone': eu-1",
            "node-a",
        ),
        (
            "ec2_sd",
            "'__meta_ec2_instance_id': i-0123, '__meta_ec2_instance_type': c7i.large, '__meta_ec2_availability_zone': eu-1",
            "i-0123",
        ),
    ];
    let scene = Scene::new();
    for rules in ["evenkeel.rules.yml", "evenkeel-fleet.rules.yml"] {
        scene.write(rules, fs::read(folder().join(rules)).unwrap());
    }
    scene.write("token", TOKEN);
    let example = |name: &str| fs::read_to_string(folder().join(format!("scrape/{name}.yml"))).unwrap();
    scene.write("file_sd.yml", example("file_sd"));
    let Some(checked) = promtool(&["check", "config", "file_sd.yml"], &scene.path(".")) else { return };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    for (name, labels, instance) in LABELS {
        let text = example(name);
        // The Prometheus of Debian lacks some kinds of discovery, and no kind could reach its service here.
        // So a file provides the labels that the discovery would find.
        let (head, rest) = text.split_once(&format!("    {name}_configs:\n")).unwrap();
        let (_, relabel) = rest.split_once("    relabel_configs:\n").unwrap();
        let found = "    file_sd_configs: [{files: [found.yml]}]\n    relabel_configs:\n";
        scene.write("config.yml", format!("{head}{found}{relabel}"));
        scene.write("found.yml", format!("[{{targets: ['10.0.0.5:9177'], labels: {{{labels}}}}}]"));
        let Some(found) = discovered(&scene.path(".")) else { return };
        let labels = &found[0]["labels"];
        assert_eq!(labels["instance"], instance, "{name}: {found}");
        assert_eq!(labels["group"], "c7i.large", "{name}: {found}");
        assert_eq!(labels["__address__"], "10.0.0.5:9177", "{name}: {found}");
        let checked = promtool(&["check", "config", "--syntax-only", &format!("{name}.yml")], &folder().join("scrape"));
        let said = checked.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
        if said.contains(&format!("field {name}_configs not found")) {
            skipped(format_args!("{name}_configs is unknown to this promtool, which was built without it"));
        } else {
            assert!(!said.contains("FAILED"), "{name}: {said}");
        }
    }
}

/// The targets that `config.yml` discovers. promtool lists the targets that it finds within a given time.
/// The test extends that time until promtool finds a target.
fn discovered(place: &Path) -> Option<Value> {
    for seconds in [2, 8, 32, 128] {
        let limit = format!("--timeout={seconds}s");
        let output = promtool(&["check", "service-discovery", &limit, "config.yml", "evenkeel"], place)?;
        let said = String::from_utf8_lossy(&output.stdout);
        match serde_json::from_str::<Value>(&said) {
            Ok(found) if found[0].is_object() => return Some(found),
            Ok(_) => {}
            Err(error) => panic!("{error}: {said} {output:?}"),
        }
    }
    panic!("promtool found no target");
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus")
}

/// The output of promtool. Prints a skip and returns `None` if promtool is not installed.
fn promtool(words: &[&str], place: &Path) -> Option<Output> {
    let output = Command::new("promtool").args(words).current_dir(place).output();
    if output.is_err() {
        skipped("promtool is not installed (Debian: prometheus)");
    }
    output.ok()
}
