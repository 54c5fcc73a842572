//! The pages of `measure all` and `measure compare`.

use std::collections::BTreeSet;

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, Card, Compared, Comparison, Line, MeterResults, Outcome, Taken, Trait};
use serde::Serialize;

use crate::show::finding::Finding;
use crate::show::units::real_quantity;
use crate::view::Block;

/// The answer of `measure compare`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The first machine.
    pub(crate) a: Side,
    /// The second machine.
    pub(crate) b: Side,
    #[serde(flatten)]
    pub(crate) comparison: Comparison,
}

/// One of the two machines.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Side {
    /// The file of the machine's card.
    pub(crate) file: String,
    pub(crate) taken: Taken,
    pub(crate) host: Vec<Trait>,
}

pub(crate) fn blocks(card: &Card, findings: &[(&'static str, Finding)], busy: Option<String>) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Findings")];
    blocks.extend(findings.iter().map(|(meter, finding)| Block::Finding(Some(meter), finding.clone())));
    blocks.extend(busy.map(Block::Warning));
    blocks.push(Block::heading("The machine"));
    blocks.extend(card.host.iter().map(|one| Block::row(&one.name, one.value.clone())));
    blocks.push(Block::row("taken", taken(&card.taken)));
    if card.taken.interrupted {
        blocks.push(Block::Warning("It was stopped before its end: numbers are of the rounds until then.".to_owned()));
    }
    blocks.extend(card.meters.iter().flat_map(part));
    blocks.extend(references(card));
    blocks.push(Block::Note(
        "Each number is the median of the rounds. The bar shows the lowest and the highest round on a logarithmic scale, from half the \
         median to twice the median: a long bar is a number that varies."
            .to_owned(),
    ));
    blocks
}

fn taken(taken: &Taken) -> String {
    let Taken { at, by, pace, rounds, seconds, .. } = taken;
    format!("{at} by {by}, {rounds} rounds at the pace {pace}, in {seconds:.0} s")
}

fn part(part: &MeterResults) -> Vec<Block> {
    let mut blocks = vec![Block::heading(&part.meter)];
    if !part.lines.is_empty() {
        let rows = part.lines.iter().map(|line| {
            let of = |value| quantity(value, &line.unit);
            let figure = line.reference.as_ref().map_or_else(String::new, |reference| reference.figure.clone());
            let range = format!("{} to {}", of(line.low), of(line.high));
            [line.title.clone(), of(line.value), bar(line), range, arrow(line).to_owned(), figure]
        });
        blocks.push(Block::table(["", "median", "½ … 2", "rounds", "better", "published"], rows.collect()));
    }
    if let Some(why) = &part.failed {
        blocks.push(Block::Warning(format!("failed to {why}")));
    } else if part.lines.is_empty() {
        blocks.push(Block::Warning("It said nothing.".to_owned()));
    }
    blocks
}

/// Half the width of a bar, in columns.
const HALF: i32 = 5;

/// A bar for the range over the rounds. It extends from half the median to twice the median.
fn bar(line: &Line) -> String {
    let column = |value: f64| match value / line.value {
        ratio if ratio > 0.0 => ((ratio.log2() * f64::from(HALF)).round() as i32).clamp(-HALF, HALF),
        // The median or the lowest round is 0, so the ratio is not a positive number.
        _ if value < line.value => -HALF,
        _ if value > line.value => HALF,
        _ => 0,
    };
    let (low, high) = (column(line.low), column(line.high));
    let cell = |at: i32| match at {
        0 => '┼',
        _ if at == low => '├',
        _ if at == high => '┤',
        _ if low < at && at < high => '─',
        _ => '·',
    };
    (-HALF..=HALF).map(cell).collect()
}

fn arrow(line: &Line) -> &'static str {
    match line.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "",
    }
}

/// The sources of the published figures, each once.
fn references(card: &Card) -> Vec<Block> {
    let mut seen = BTreeSet::new();
    let references = card.lines().filter_map(|(_, line)| line.reference.as_ref());
    let published: Vec<Block> = references
        .filter(|reference| seen.insert((&reference.source, &reference.says)))
        .map(|reference| Block::Note(format!("{}: {}.", reference.source, reference.says)))
        .collect();
    if published.is_empty() {
        published
    } else {
        [vec![Block::heading("Published of other machines")], published].concat()
    }
}

/// A number with its unit. Prints an unknown unit of a newer card unchanged.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match serde_json::from_value::<Unit>(unit.into()) {
        Ok(unit) => real_quantity(value, unit),
        Err(_) => format!("{value:.3} {unit}"),
    }
}

pub(crate) fn comparison(answer: &Answer) -> Vec<Block> {
    let compared = &answer.comparison;
    let mut blocks = vec![Block::heading("Two machines")];
    let names: Vec<&str> = answer.a.host.iter().map(|one| one.name.as_str()).collect();
    let mut names: Vec<&str> = [names, answer.b.host.iter().map(|one| one.name.as_str()).collect()].concat();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    for name in names {
        let of = |side: &Side| {
            side.host.iter().find(|one| one.name == name).map_or_else(|| "unknown".to_owned(), |one| one.value.clone())
        };
        let (a, b) = (of(&answer.a), of(&answer.b));
        blocks.push(Block::row(name, if a == b { a } else { format!("{a}; B: {b}") }));
    }
    blocks.push(Block::row("A", format!("{}: {}", answer.a.file, taken(&answer.a.taken))));
    blocks.push(Block::row("B", format!("{}: {}", answer.b.file, taken(&answer.b.taken))));
    blocks.extend(by_meter(&compared.lines));
    blocks.push(Block::heading("In all"));
    let count = |outcome| compared.lines.iter().filter(|line| line.outcome == outcome).count();
    let within = count(Outcome::WithinSpread);
    let words = format!(
        "of {} numbers A is better in {}, B in {}; {} differ and neither is better; {within} are within the spread",
        compared.lines.len(),
        compared.a_better,
        compared.b_better,
        count(Outcome::Different)
    );
    blocks.push(Block::row("beyond the spread", words));
    for (name, only) in [("only A has", &compared.only_a), ("only B has", &compared.only_b)] {
        if !only.is_empty() {
            blocks.push(Block::row(name, only.join(", ")));
        }
    }
    blocks.extend(compared.caveats.iter().map(|caveat| Block::Warning(format!("{caveat}."))));
    if let Some(share) = compared.by_chance {
        blocks.push(Block::Note(format!(
            "On one machine that never changes, {:.1} % of the numbers would be beyond the spread by chance. Machines do change: take each \
             card twice, at different times, before you choose a machine by it.",
            share * 100.0
        )));
    }
    blocks
}

fn by_meter(lines: &[Compared]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for lines in lines.chunk_by(|one, next| one.meter == next.meter) {
        blocks.extend(lines.first().map(|first| Block::heading(&first.meter)));
        let row = |line: &Compared| {
            let of = |value| quantity(value, &line.unit);
            let ratio = line.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            [line.title.clone(), of(line.a.value), of(line.b.value), ratio, outcome(line.outcome).to_owned()]
        };
        blocks.push(Block::table(["", "A", "B", "B / A", "beyond the spread"], lines.iter().map(row).collect()));
    }
    blocks
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ABetter => "A is better",
        Outcome::BBetter => "B is better",
        Outcome::Different => "different",
        Outcome::WithinSpread => "",
        Outcome::NoSpread => "one round: no spread",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_far_the_rounds_are_from_the_median() {
        let of = |low, value, high| {
            let (id, title, unit) = (String::new(), String::new(), "ns".to_owned());
            bar(&Line { id, title, unit, better: Better::Lower, value, low, high, rounds: 5, reference: None })
        };
        assert_eq!(of(10.0, 10.0, 10.0), "·····┼·····");
        assert_eq!(of(5.0, 10.0, 20.0), "├────┼────┤");
        assert_eq!(of(1.0, 10.0, 14.0), "├────┼─┤···");
        assert_eq!(of(0.0, 0.0, 3.0), "·····┼────┤");
        assert_eq!(of(0.0, 0.0, 0.0), "·····┼·····");
        assert_eq!(of(0.0, 4.0, 4.0), "├────┼·····");
    }
}
