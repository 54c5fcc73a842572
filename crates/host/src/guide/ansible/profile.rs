//! TuneD profiles as the text of a key, as in objects of Kubernetes.

use super::super::line::{Guide, GuideFormat, Skip};
use super::super::tuned;
use super::lines::Lines;
use super::yaml::{Kind, Node};

/// Sections with which the text of a profile begins.
const SECTIONS: [&str; 2] = ["main", "sysctl"];

/// Whether a text is a profile.
pub(super) fn is_one(value: &Node) -> bool {
    let is_section = |text: &str| tuned::header(text.trim()).is_some_and(|name| SECTIONS.contains(&name));
    matches!(&value.kind, Kind::Lines(texts) if texts.iter().any(|(_, text)| is_section(text)))
}

/// Reads each line of a profile.
pub(super) fn read(value: &Node, lines: &mut Lines) {
    let Kind::Lines(texts) = &value.kind else { return };
    let whole: String = texts.iter().map(|(_, text)| format!("{}\n", text.trim())).collect();
    let mut profile = Guide { name: String::new(), format: GuideFormat::Tuned, lines: Vec::new() };
    tuned::read(&mut profile, &whole, &|_| None);
    for ((line, _), said) in texts.iter().zip(profile.lines) {
        if !lines.is_done(*line) {
            lines.add(*line, said.content);
            lines.done(*line, Skip::Structure);
        }
    }
}
