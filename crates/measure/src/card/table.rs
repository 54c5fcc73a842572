//! Combines the cards of many machines into one table by generation (machines with the same traits).
//! The table has medians, spreads, and how many machines meet all limits.

use std::collections::BTreeMap;

use evenkeel_stats::quantile;
use serde::Serialize;

use super::{Better, Card, Line, Trait};

/// The trait that follows from the numbers of the meter `quantum`.
pub const TIME_SLICES: &str = "time slices";

/// The traits, limits and numbers that the user asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableAsked {
    /// The traits that define a generation.
    pub by: Vec<String>,
    /// Numbers with a maximum for each machine, or with a minimum if higher is better.
    pub limits: Vec<(String, f64)>,
    /// Numbers that the user wants to see.
    pub lines: Vec<String>,
}

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GenerationTable {
    /// The traits that define a generation.
    pub by: Vec<String>,
    /// The generations, with the largest generations first.
    pub generations: Vec<Generation>,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// Machines with the same traits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Generation {
    /// The traits that these machines share, in the order of [`GenerationTable::by`].
    pub traits: Vec<Trait>,
    /// The files of their cards.
    pub cards: Vec<String>,
    /// How many machines meet all limits, how many do not, and how many lack a number that has a limit.
    pub holds: Holds,
    /// Every number that at least one of the machines has.
    pub lines: Vec<Spread>,
}

impl Generation {
    /// The traits of the generation, in words.
    pub fn name(&self) -> String {
        let words = self.traits.iter().map(|one| match one.value.as_str() {
            // The values "unknown" and "none" mean nothing without the name of their trait.
            "unknown" | "none" => format!("{} {}", one.name, one.value),
            value => value.to_owned(),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The number of machines by whether they meet the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holds {
    /// Machines that meet all limits.
    pub held: usize,
    /// Machines that exceed at least one limit.
    pub broken: usize,
    /// Machines that meet the other limits, but whose card lacks a number that has a limit.
    pub unknown: usize,
}

/// A number over the machines of a generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The number's identifier, as on the cards.
    pub id: String,
    /// The number's name in words, as on the cards.
    pub title: String,
    /// The number's unit, as on the cards.
    pub unit: String,
    /// Whether a lower or a higher number is better.
    pub better: Better,
    /// How many machines of the generation have this number.
    pub machines: usize,
    /// The median of the machines' medians.
    pub median: f64,
    /// The lowest median of a machine.
    pub low: f64,
    /// The highest median of a machine.
    pub high: f64,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum Caveat {
    #[error("{0} has one card only: nothing is known of how machines of this generation differ")]
    OneCard(String),
    #[error("cards were taken at different paces: a longer run shows more rare events")]
    Paces,
    #[error("{0} was stopped early")]
    Interrupted(String),
    #[error("no card has the number {0}, which is a limit")]
    NoSuchNumber(String),
    #[error("no card has the number {0}, which --line names")]
    NoSuchLine(String),
    #[error("no card has the trait {0}: those of a card are the names in its list `host`, and `{TIME_SLICES}`")]
    NoSuchTrait(String),
}

/// Makes the table of cards. Each card comes with the name of its file.
pub fn table(cards: &[(String, Card)], asked: &TableAsked) -> GenerationTable {
    let mut groups: BTreeMap<Vec<String>, Vec<&(String, Card)>> = BTreeMap::new();
    for card in cards {
        groups.entry(asked.by.iter().map(|name| trait_of(&card.1, name)).collect()).or_default().push(card);
    }
    let mut generations: Vec<Generation> =
        groups.into_iter().map(|(values, cards)| generation(values, &cards, asked)).collect();
    generations.sort_by_key(|one| std::cmp::Reverse(one.cards.len()));
    let caveats = caveats(cards, asked, &generations).iter().map(ToString::to_string).collect();
    GenerationTable { by: asked.by.clone(), generations, caveats }
}

fn generation(values: Vec<String>, cards: &[&(String, Card)], asked: &TableAsked) -> Generation {
    let traits = asked.by.iter().zip(values).map(|(name, value)| Trait { name: name.clone(), value }).collect();
    let mut holds = Holds::default();
    for (_, card) in cards {
        *(match is_held(card, &asked.limits) {
            Some(true) => &mut holds.held,
            Some(false) => &mut holds.broken,
            None => &mut holds.unknown,
        }) += 1;
    }
    let mut order: Vec<&str> = Vec::new();
    let mut lines: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for (_, line) in cards.iter().flat_map(|(_, card)| card.lines()) {
        let same = lines.entry(&line.id).or_default();
        if same.is_empty() {
            order.push(&line.id);
        }
        // A stranger's card may have another unit under this name.
        if same.first().is_none_or(|first| first.unit == line.unit) {
            same.push(line);
        }
    }
    let lines = order.iter().filter_map(|id| spread(lines.get(id)?)).collect();
    Generation { traits, cards: cards.iter().map(|(file, _)| file.clone()).collect(), holds, lines }
}

fn spread(lines: &[&Line]) -> Option<Spread> {
    let first = lines.first()?;
    let values: Vec<f64> = lines.iter().map(|line| line.value).collect();
    Some(Spread {
        id: first.id.clone(),
        title: first.title.clone(),
        unit: first.unit.clone(),
        better: first.better,
        machines: values.len(),
        median: quantile(&values, 0.5)?,
        low: quantile(&values, 0.0)?,
        high: quantile(&values, 1.0)?,
    })
}

/// The value of a trait. It is `unknown` for a card without this trait.
fn trait_of(card: &Card, name: &str) -> String {
    if name == TIME_SLICES {
        return time_slices(card).to_owned();
    }
    let found = card.host.iter().find(|one| one.name.eq_ignore_ascii_case(name));
    found.map_or_else(|| "unknown".to_owned(), |one| one.value.clone())
}

/// How the hypervisor gives CPU time, from the numbers of `quantum`: `fixed slots`, `irregular`, `none` or `unknown`.
pub fn time_slices(card: &Card) -> &'static str {
    match (number(card, "quantum_slots_ppm"), number(card, "quantum_irregular_ppm")) {
        (None, _) | (_, None) => "unknown",
        (Some(slots), _) if slots > 0.0 => "fixed slots",
        (_, Some(irregular)) if irregular > 0.0 => "irregular",
        _ => "none",
    }
}

fn number(card: &Card, id: &str) -> Option<f64> {
    line(card, id).map(|line| line.value)
}

fn line<'a>(card: &'a Card, id: &str) -> Option<&'a Line> {
    card.lines().map(|(_, line)| line).find(|line| line.id == id)
}

/// Whether a machine meets all limits.
/// If the machine exceeds one limit, a missing number does not change the result.
/// None if a number is missing and the machine meets the other limits.
fn is_held(card: &Card, limits: &[(String, f64)]) -> Option<bool> {
    let held = |(id, limit): &(String, f64)| {
        let line = line(card, id)?;
        Some(if line.better == Better::Higher { line.value >= *limit } else { line.value <= *limit })
    };
    let held: Vec<Option<bool>> = limits.iter().map(held).collect();
    if held.contains(&Some(false)) {
        Some(false)
    } else {
        held.into_iter().collect::<Option<Vec<bool>>>().map(|_| true)
    }
}

fn caveats(cards: &[(String, Card)], asked: &TableAsked, generations: &[Generation]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let paces = cards.iter().any(|(_, card)| card.taken.pace != cards[0].1.taken.pace);
    caveats.extend(paces.then_some(Caveat::Paces));
    let stopped = cards.iter().filter(|(_, card)| card.taken.interrupted);
    caveats.extend(stopped.map(|(file, _)| Caveat::Interrupted(file.clone())));
    let missing = asked.limits.iter().filter(|(id, _)| cards.iter().all(|(_, card)| number(card, id).is_none()));
    caveats.extend(missing.map(|(id, _)| Caveat::NoSuchNumber(id.clone())));
    let missing = asked.lines.iter().filter(|id| cards.iter().all(|(_, card)| number(card, id).is_none()));
    caveats.extend(missing.map(|id| Caveat::NoSuchLine(id.clone())));
    let has = |card: &Card, name: &str| card.host.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    let missing = asked.by.iter().filter(|name| *name != TIME_SLICES && !cards.iter().any(|(_, card)| has(card, name)));
    caveats.extend(missing.map(|name| Caveat::NoSuchTrait(name.clone())));
    let alone = generations.iter().filter(|one| one.cards.len() == 1);
    caveats.extend(alone.map(|one| Caveat::OneCard(one.name())));
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{FORMAT, KIND};

    fn card(cpu: &str, numbers: &[(&str, f64, &str)]) -> Card {
        let lines: Vec<serde_json::Value> = numbers
            .iter()
            .map(|(id, value, better)| {
                serde_json::json!({"id": id, "title": id, "unit": "ns", "better": better, "value": value, "low": value, "high": value, "rounds": 5})
            })
            .collect();
        let text = serde_json::json!({
            "format": FORMAT, "kind": KIND,
            "taken": {"at": "2026-11-26", "by": "evenkeel", "pace": "full", "rounds": 5, "seconds": 1.0, "interrupted": false},
            "host": [{"name": "CPU", "value": cpu}],
            "meters": [{"meter": "wake", "lines": lines}],
        });
        Card::parse(&text.to_string()).unwrap()
    }

    fn from_cards(cards: Vec<Card>, limits: &[(&str, f64)]) -> GenerationTable {
        let cards: Vec<(String, Card)> =
            cards.into_iter().enumerate().map(|(at, card)| (format!("{at}.json"), card)).collect();
        let limits = limits.iter().map(|(id, value)| ((*id).to_owned(), *value)).collect();
        table(&cards, &TableAsked { by: vec!["CPU".to_owned(), TIME_SLICES.to_owned()], limits, lines: Vec::new() })
    }

    #[test]
    fn names_that_no_card_has_are_caveats() {
        let asked = TableAsked {
            by: vec!["cpu".to_owned(), "colour".to_owned()],
            limits: vec![("none_ns".to_owned(), 1.0)],
            lines: vec!["late_ns_p99".to_owned(), "other_ns".to_owned()],
        };
        let cards = [("a.json".to_owned(), card("A", &[("late_ns_p99", 1.0, "lower")]))];
        let expected = [
            "no card has the number none_ns, which is a limit",
            "no card has the number other_ns, which --line names",
            "no card has the trait colour: those of a card are the names in its list `host`, and `time slices`",
        ];
        assert_eq!(table(&cards, &asked).caveats[..3], expected);
    }

    #[test]
    fn machines_are_grouped_and_their_medians_spread() {
        let late = |ns: f64| {
            [("late_ns_p99", ns, "lower"), ("quantum_slots_ppm", 0.0, "lower"), ("quantum_irregular_ppm", 0.0, "lower")]
        };
        let sliced = [
            ("late_ns_p99", 9e6, "lower"),
            ("quantum_slots_ppm", 1e6, "lower"),
            ("quantum_irregular_ppm", 0.0, "lower"),
        ];
        let cards = vec![
            card("A", &late(1e6)),
            card("A", &late(3e6)),
            card("A", &late(2e6)),
            card("A", &sliced),
            card("B", &[]),
        ];
        let found = from_cards(cards, &[("late_ns_p99", 2.5e6)]);
        let seen: Vec<(Vec<&str>, usize, Holds)> = found
            .generations
            .iter()
            .map(|one| (one.traits.iter().map(|one| one.value.as_str()).collect(), one.cards.len(), one.holds))
            .collect();
        let holds = |held, broken, unknown| Holds { held, broken, unknown };
        assert_eq!(
            seen,
            [
                (vec!["A", "none"], 3, holds(2, 1, 0)),
                (vec!["A", "fixed slots"], 1, holds(0, 1, 0)),
                (vec!["B", "unknown"], 1, holds(0, 0, 1)),
            ]
        );
        let line = &found.generations[0].lines[0];
        assert_eq!((line.machines, line.median, line.low, line.high), (3, 2e6, 1e6, 3e6));
        assert_eq!(found.caveats.len(), 2, "{:?}", found.caveats);
    }

    #[test]
    fn a_limit_of_which_more_is_better_is_the_least() {
        let found = from_cards(vec![card("A", &[("share", 0.4, "higher")])], &[("share", 0.5)]);
        assert_eq!(found.generations[0].holds, Holds { held: 0, broken: 1, unknown: 0 });
        let (late, both) = ([("late_ns", 9.0, "lower")], [("share", 0.5), ("late_ns", 2.0)]);
        let found = from_cards(vec![card("A", &late)], &both);
        assert_eq!(
            found.generations[0].holds,
            Holds { held: 0, broken: 1, unknown: 0 },
            "it is late, whatever its share"
        );
        let found = from_cards(vec![card("A", &[])], &[("share", 0.5)]);
        assert!(found.caveats.iter().any(|caveat| caveat.contains("no card has the number share")));
        assert!(from_cards(Vec::new(), &[]).generations.is_empty());
    }
}
