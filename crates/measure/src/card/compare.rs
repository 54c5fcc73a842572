//! Compares two cards.
//! A difference counts when it exceeds the spread of each machine, which means that the ranges over their rounds do not overlap.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{Better, Card, Line};

/// The comparison of two cards.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The numbers that both cards have.
    pub lines: Vec<Compared>,
    /// Numbers that only the first card has, or that the second card has in another unit.
    pub only_a: Vec<String>,
    /// Numbers that only the second card has, or that the first card has in another unit.
    pub only_b: Vec<String>,
    /// How many numbers are better on the first card, beyond the spread.
    pub a_better: usize,
    /// How many numbers are better on the second card, beyond the spread.
    pub b_better: usize,
    /// Caveats of the comparison.
    pub caveats: Vec<CardCaveat>,
    /// The share of lines that would differ by chance if all rounds came from one unchanged machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_chance: Option<f64>,
}

/// A caveat of the comparison of two cards. The JSON form is the sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum CardCaveat {
    /// The two cards were taken at different paces.
    #[error("the first has the pace {first}, the second {second}: a longer run shows more rare events")]
    Paces {
        /// The pace of the first card.
        first: String,
        /// The pace of the second card.
        second: String,
    },
    /// One card is incomplete.
    #[error("the {card} was stopped early")]
    Interrupted {
        /// The incomplete card.
        card: WhichCard,
    },
    /// A meter failed on one of the cards.
    #[error("{meter} of the {card} failed: {why}")]
    Failed {
        /// The card.
        card: WhichCard,
        /// The meter.
        meter: String,
        /// Why the meter failed.
        why: String,
    },
    /// Different versions of evenkeel took the two cards.
    #[error("they were made by different versions: {first} and {second}")]
    Versions {
        /// The version that made the first card.
        first: String,
        /// The version that made the second card.
        second: String,
    },
}

impl Serialize for CardCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One of two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as what they are")]
pub enum WhichCard {
    First,
    Second,
}

impl fmt::Display for WhichCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhichCard::First => "first",
            WhichCard::Second => "second",
        })
    }
}

/// One number that both cards have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// The meter that measured the number.
    pub meter: String,
    /// The number's identifier, as on both cards.
    pub id: String,
    /// The number's name in words, as on the first card.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// Whether a lower or a higher number is better.
    pub better: Better,
    /// The number on the first card.
    pub a: Figure,
    /// The number on the second card.
    pub b: Figure,
    /// B divided by A. Missing if A is 0 or the signs differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether the number differs, and on which card it is better.
    pub outcome: Outcome,
}

/// A number with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The median of the rounds.
    pub value: f64,
    /// The lowest value of a round.
    pub low: f64,
    /// The highest value of a round.
    pub high: f64,
    /// How many rounds measured the number.
    pub rounds: u32,
}

/// The outcome of comparing one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The number is better on the first card, beyond the spread.
    ABetter,
    /// The number is better on the second card, beyond the spread.
    BBetter,
    /// The number differs beyond the spread. Neither direction of this number is better.
    Different,
    /// The ranges of the rounds overlap.
    WithinSpread,
    /// One of the cards has only one round, so its spread is unknown.
    NoSpread,
}

impl Figure {
    fn from_line(line: &Line) -> Figure {
        Figure { value: line.value, low: line.low, high: line.high, rounds: line.rounds }
    }
}

/// Compares two cards. The result has the order of the first card.
pub fn compare(a: &Card, b: &Card) -> Comparison {
    let in_b = |line: &Line| b.lines().find(|(_, other)| other.id == line.id && other.unit == line.unit);
    let in_a = |line: &Line| a.lines().any(|(_, other)| other.id == line.id && other.unit == line.unit);
    let mut lines = Vec::new();
    let mut only_a = Vec::new();
    for (meter, line) in a.lines() {
        match in_b(line) {
            Some((_, other)) => lines.push(compared(meter, line, other)),
            None => only_a.push(line.id.clone()),
        }
    }
    let only_b = b.lines().filter(|(_, line)| !in_a(line)).map(|(_, line)| line.id.clone()).collect();
    let of = |outcome| lines.iter().filter(|line: &&Compared| line.outcome == outcome).count();
    Comparison {
        a_better: of(Outcome::ABetter),
        b_better: of(Outcome::BBetter),
        by_chance: by_chance(&lines),
        caveats: caveats(a, b),
        lines,
        only_a,
        only_b,
    }
}

fn compared(meter: &str, a: &Line, b: &Line) -> Compared {
    let ratio = b.value / a.value;
    let outcome = if a.rounds < 2 || b.rounds < 2 {
        Outcome::NoSpread
    } else if a.low <= b.high && b.low <= a.high {
        Outcome::WithinSpread
    } else {
        match (a.better, a.value < b.value) {
            (Better::Neither, _) => Outcome::Different,
            _ if a.better != b.better => Outcome::Different,
            (Better::Lower, true) | (Better::Higher, false) => Outcome::ABetter,
            (Better::Lower, false) | (Better::Higher, true) => Outcome::BBetter,
        }
    };
    Compared {
        meter: meter.to_owned(),
        id: a.id.clone(),
        title: a.title.clone(),
        unit: a.unit.clone(),
        better: a.better,
        a: Figure::from_line(a),
        b: Figure::from_line(b),
        ratio: (ratio.is_finite() && ratio > 0.0).then_some(ratio),
        outcome,
    }
}

/// The rounds of the two cards can come in C(a + b, a) orders. In exactly two of these orders the ranges of the cards do not overlap.
fn by_chance(lines: &[Compared]) -> Option<f64> {
    let of = |line: &Compared| {
        let (a, b) = (line.a.rounds.min(1000), line.b.rounds.min(1000));
        // The result is 2 / C(a + b, a).
        (1..=a).fold(2.0, |share, i| share * f64::from(i) / f64::from(b + i))
    };
    let shares: Vec<f64> = lines.iter().filter(|line| line.outcome != Outcome::NoSpread).map(of).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

fn caveats(a: &Card, b: &Card) -> Vec<CardCaveat> {
    let mut caveats = Vec::new();
    let both = |of: fn(&Card) -> &String| (of(a).clone(), of(b).clone());
    let (first, second) = both(|card| &card.taken.pace);
    if first != second {
        caveats.push(CardCaveat::Paces { first, second });
    }
    for (which, card) in [(WhichCard::First, a), (WhichCard::Second, b)] {
        if card.taken.interrupted {
            caveats.push(CardCaveat::Interrupted { card: which });
        }
        for part in &card.meters {
            caveats.extend(part.failed.clone().map(|why| {
                let meter = part.meter.clone();
                CardCaveat::Failed { card: which, meter, why }
            }));
        }
    }
    let (first, second) = both(|card| &card.taken.by);
    if first != second {
        caveats.push(CardCaveat::Versions { first, second });
    }
    caveats
}
