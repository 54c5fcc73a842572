//! The labels of a node that describe its machine. They come from the facts, and from stored measurements.
//! Somebody stored these when preparing the image or the host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use evenkeel_fleet::kubernetes::GROUP;
use evenkeel_measure::card::table::time_slices;
use evenkeel_measure::card::{Card, MAX_CARD_BYTES};
use serde_json::Value;

/// The path of the stored answer of `evenkeel measure all --json`, below the host's root.
const CARD: &str = "etc/evenkeel/card.json";
/// The path of the stored answer of `evenkeel capacity --json`, below the host's root.
const CAPACITY: &str = "etc/evenkeel/capacity.json";
/// The maximum length of a label's value.
const VALUE_BYTES_MAX: usize = 63;

/// Builds the labels from the answer of `evenkeel inspect` and from files below `root`. Unknown values give no label.
pub(super) fn labels(inspected: Option<&Value>, root: &Path) -> BTreeMap<String, String> {
    let fact = |pointer: &str| inspected?.pointer(pointer)?.as_str().map(str::to_owned);
    let values = [
        ("hypervisor", fact("/facts/hypervisor/kind")),
        ("cpu-model", fact("/facts/cpus/model")),
        ("quantum", quantum(root)),
        ("sessions", sessions(root)),
    ];
    let known = values.into_iter().filter_map(|(label, value)| Some((label, label_value(&value?))));
    known.filter(|(_, value)| !value.is_empty()).map(|(label, value)| (format!("{GROUP}/{label}"), value)).collect()
}

/// How the hypervisor gives CPU time, according to the stored card.
fn quantum(root: &Path) -> Option<String> {
    let card = Card::parse(&text(&root.join(CARD))?).ok()?;
    Some(time_slices(&card)).filter(|slices| *slices != "unknown").map(str::to_owned)
}

/// How many sessions fit on the machine, according to the stored answer of `capacity`.
fn sessions(root: &Path) -> Option<String> {
    let answer: Value = serde_json::from_str(&text(&root.join(CAPACITY))?).ok()?;
    answer.pointer("/found/sessions")?.as_u64().map(|sessions| sessions.to_string())
}

/// The text of a file, at most [`MAX_CARD_BYTES`] long. `None` if the file can't be read.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    file.take(MAX_CARD_BYTES as u64).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Replaces characters that are not allowed in the value of a label.
fn label_value(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let safe: String = text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(VALUE_BYTES_MAX).collect();
    let words: Vec<&str> = safe.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-").trim_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn labels_have_only_the_characters_that_kubernetes_takes() {
        let table = [
            ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", "Intel-R-Xeon-R-Platinum-8259CL-CPU-2.50GHz"),
            ("kvm", "kvm"),
            ("--a--", "a"),
            ("...", ""),
            ("EPYC .", "EPYC"),
            ("", ""),
        ];
        for (text, value) in table {
            assert_eq!(label_value(text), value, "{text}");
        }
        assert!(label_value(&"x y".repeat(100)).len() <= VALUE_BYTES_MAX);
    }

    #[test]
    fn what_was_measured_becomes_a_label_and_what_cannot_be_read_none() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("etc/evenkeel");
        fs::create_dir_all(&folder).unwrap();
        let inspected =
            serde_json::json!({"facts": {"hypervisor": {"kind": "kvm"}, "cpus": {"model": {"unknown": "x"}}}});
        let found = || {
            let labels = labels(Some(&inspected), root.path());
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(), "evenkeel.dev/hypervisor=kvm");
        fs::write(root.path().join(CAPACITY), r#"{"found": {"sessions": 12, "at_least": 11, "at_most": null}}"#)
            .unwrap();
        let number = |id: &str, value: f64| {
            serde_json::json!({"id": id, "title": id, "unit": "ppm", "better": "lower", "value": value, "low": value,
                "high": value, "rounds": 1})
        };
        let card = serde_json::json!({
            "format": 1, "kind": "evenkeel-card", "host": [],
            "taken": {"at": "2026-01-01T00:00:00Z", "by": "evenkeel", "pace": "full", "rounds": 1, "seconds": 1.0,
                "interrupted": false},
            "meters": [{"meter": "quantum",
                "lines": [number("quantum_slots_ppm", 1e6), number("quantum_irregular_ppm", 0.0)]}],
        });
        fs::write(root.path().join(CARD), card.to_string()).unwrap();
        assert_eq!(found(), "evenkeel.dev/hypervisor=kvm evenkeel.dev/quantum=fixed-slots evenkeel.dev/sessions=12");
        // `pack agones` selects nodes by this label.
        assert_eq!(evenkeel_fleet::agones::SESSIONS_LABEL, format!("{GROUP}/sessions"));
        for text in ["", "{", "[]", r#"{"found": {"sessions": "x y"}}"#, r#"{"found": {"sessions": -1}}"#] {
            fs::write(root.path().join(CAPACITY), text).unwrap();
            fs::write(root.path().join(CARD), text).unwrap();
            assert_eq!(found(), "evenkeel.dev/hypervisor=kvm", "{text}");
        }
    }
}
