//! The costs of a setting, and whether the setting was engaged according to its counters.

use std::collections::BTreeMap;

use evenkeel_host::knobs;
use evenkeel_trial::saved::{TrialEntry, by_arm, numbers};
use evenkeel_trial::{ArmName, Engaged, Mechanism, Report};

use super::words::{as_change, trim};
use crate::view::{Block, Column, Text, sentence};

/// All metrics except the primary metric, by arm. The costs come first.
pub(super) fn costs(entry: &TrialEntry) -> Vec<Block> {
    let trial = &entry.report;
    let finite = |(name, number): (&String, &f64)| number.is_finite().then(|| (name.clone(), *number));
    let mut measured = by_arm(trial, |window| window.sample.iter().filter_map(finite).collect());
    measured.remove(trial.metric.name.as_ref());
    for cost in &trial.costs {
        measured.remove(&cost.name);
    }
    // Older reports have no separate costs. Their costs are among the workload's numbers.
    let is_cost = |name: &str| {
        let words = ["rss", "resident", "memory", "power", "joule", "watt"];
        trial.costs.is_empty() && (name.starts_with("cpu") || words.iter().any(|word| name.contains(word)))
    };
    let (mut costs, other): (Medians, Medians) = measured.into_iter().partition(|(name, _)| is_cost(name));
    costs.extend(trial.costs.iter().map(|cost| (cost.name.clone(), [Some(cost.a), Some(cost.b)])));
    let title = |name: &str| {
        let cost = trial.costs.iter().find(|cost| cost.name == name && !cost.title.is_empty());
        cost.map(|cost| cost.title.clone())
    };
    let mut blocks = vec![Block::Subheading("Costs")];
    let risk = |risk| Block::paragraph(format!("Known risk of the setting: {}", sentence(risk)));
    blocks.extend(risks(&entry.knob).into_iter().map(risk));
    if !costs.is_empty() {
        blocks.push(table(trial.other(), &costs, "cost", &title));
    }
    let unknown = unknown(&costs, trial);
    if !unknown.is_empty() {
        blocks.push(Block::paragraph(format!("Not measured in this run: {}.", unknown.join(", "))));
    }
    if !other.is_empty() {
        let note = "Medians over the windows. They do not affect the verdict.".to_owned();
        let table = table(trial.other(), &other, "number", &|_| None);
        blocks.push(Block::Details("All other metrics, by arm".to_owned(), vec![Block::Note(note), table]));
    }
    blocks
}

/// The costs that were not measured. An unknown cost is not zero.
fn unknown(costs: &Medians, trial: &Report) -> Vec<&'static str> {
    let knows = |words: &[&str]| costs.keys().any(|name| words.iter().any(|word| name.contains(word)));
    let knows_cpu = knows(&["cpu"]) || trial.arms.iter().any(|arm| arm.cpu_share.is_some());
    let all = [
        ("CPU time", knows_cpu),
        ("power", knows(&["power", "joule", "watt", "energy"])),
        ("memory", knows(&["rss", "resident", "memory"])),
    ];
    all.into_iter().filter(|(_, known)| !known).map(|(what, _)| what).collect()
}

type Medians = BTreeMap<String, [Option<f64>; 2]>;

/// A table of the numbers of A and of the other arm. `title` returns the title of a metric, if it has one.
fn table(other: ArmName, rows: &Medians, head: &str, title: &dyn Fn(&str) -> Option<String>) -> Block {
    let number = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), trim);
    let row = |(name, [a, b]): (&String, &[Option<f64>; 2])| {
        let title = title(name).map_or_else(String::new, |title| format!("{title}: "));
        let name = Text::from(title).and(Text::code(name));
        [name, number(*a).into(), number(*b).into(), change(*a, *b).into()]
    };
    let header = [
        Column::from(head),
        Column::number("A"),
        Column::number(other.to_string()),
        Column::number(format!("{other} against A")),
    ];
    Block::table(header, rows.iter().map(row).collect())
}

fn change(a: Option<f64>, b: Option<f64>) -> String {
    match (a, b) {
        (Some(a), Some(b)) if a == b => "the same".to_owned(),
        (Some(a), Some(b)) if a > 0.0 && b > 0.0 => as_change(b / a),
        _ => String::new(),
    }
}

/// Whether each knob was engaged, according to the counters of its mechanism.
pub(super) fn engagement(entry: &TrialEntry) -> Vec<Block> {
    let trial = &entry.report;
    let conditions = by_arm(trial, |window| numbers(&window.conditions));
    let is_mechanism = |name: &str| !MACHINE.contains(&name);
    let counted: Medians =
        conditions.iter().filter(|(name, _)| is_mechanism(name)).map(|(name, arms)| (name.clone(), *arms)).collect();
    let mut blocks = vec![Block::Subheading("Was the setting engaged?")];
    if entry.control {
        blocks.push(Block::paragraph("Both arms had the same configuration, so there was nothing to engage."));
    } else if !trial.mechanism.is_empty() {
        blocks.extend(trial.mechanism.iter().flat_map(|knob| mechanism(trial.other(), knob, "counter")));
    } else if counted.is_empty() {
        let words = "No counter of its mechanism was recorded. evenkeel wrote the setting and read it back.";
        blocks.push(Block::paragraph(words));
    } else {
        blocks.push(Block::paragraph("Counters of its mechanism, in the median window of each arm:"));
        blocks.push(table(trial.other(), &counted, "counter", &|_| None));
    }
    if !conditions.is_empty() {
        let table = table(trial.other(), &conditions, "condition", &|_| None);
        blocks.push(Block::Details("Conditions of the machine, by arm".to_owned(), vec![table]));
    }
    blocks
}

/// Whether a knob was engaged, with the readings of its counters.
pub(super) fn mechanism(other: ArmName, knob: &Mechanism, head: &str) -> Vec<Block> {
    let engaged = match &knob.engaged {
        Engaged::Yes => "its counter shows that it was engaged".to_owned(),
        Engaged::No { why } => format!("it was not engaged, because {why}"),
        Engaged::Unknown => "unknown: no counter shows its mechanism; evenkeel wrote it and read it back".to_owned(),
    };
    let mut blocks = vec![Block::Paragraph(Text::code(&knob.knob).and(format!(": {engaged}.")))];
    let readings: Medians =
        knob.readings.iter().map(|reading| (reading.name.clone(), [reading.a, reading.b])).collect();
    if !readings.is_empty() {
        blocks.push(table(other, &readings, head, &|_| None));
    }
    blocks
}

/// The conditions that every trial records.
const MACHINE: &[&str] =
    &["span_us", "steal_share", "busy_share", "cpu_pressure_share", "load_1min", "own_cpu_us", "longest_gap_us"];

/// The risk of each knob in a list of settings.
fn risks(settings: &str) -> Vec<&'static str> {
    let knobs = settings.split(' ').filter_map(|setting| setting.split(['=', '@']).next());
    knobs.filter_map(|id| knobs::find(id).ok()).map(|knob| knob.risk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_need_two_numbers_above_zero() {
        let table = [
            (Some(2.0), Some(1.0), "50 % lower"),
            (Some(0.0), Some(0.0), "the same"),
            (Some(0.0), Some(1.0), ""),
            (None, Some(1.0), ""),
        ];
        for (a, b, expected) in table {
            assert_eq!(change(a, b), expected, "{a:?} {b:?}");
        }
    }
}
