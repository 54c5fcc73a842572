//! Functions with which the meters create their lines of the card.

use evenkeel_measure::card::{Better, CardLine, Line, Reference};
use evenkeel_measure::{MeterError, Samples, Unit, Watch};

use crate::show::finding::Finding;

/// Converts a share to parts per million, the unit of shares on the card.
pub(crate) const PPM: f64 = 1e6;

/// The number of rounds, and the duration of the meters in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Full,
    Quick,
}

impl Pace {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pace::Full => "full",
            Pace::Quick => "quick",
        }
    }

    /// The number of rounds.
    /// Take two cards of one machine: with five rounds each,
    /// the ranges of a number do not overlap by chance in 1 of 126 cases.
    /// With three rounds, this happens in 1 of 10 cases.
    pub(crate) fn rounds(self) -> usize {
        match self {
            Pace::Full => 5,
            Pace::Quick => 3,
        }
    }

    /// Returns the first value at full pace, and the second value at quick pace.
    pub(crate) fn choose<T>(self, full: T, quick: T) -> T {
        match self {
            Pace::Full => full,
            Pace::Quick => quick,
        }
    }
}

/// The meter's part of the card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardTurn {
    /// How long the meter takes at full pace, in seconds, for the progress bar.
    pub(crate) seconds: f64,
    /// Measures, and returns the meter's numbers for the card.
    pub(crate) run: fn(Pace, &Watch<'_>) -> Result<Vec<CardLine>, MeterError>,
    /// Whether these numbers are good.
    pub(crate) finding: fn(&[Line]) -> Finding,
}

/// The value of the card's line with this id; `None` if the card has no such line.
pub(crate) fn value(lines: &[Line], id: &str) -> Option<f64> {
    lines.iter().find(|line| line.id == id).map(|line| line.value)
}

/// Builds a line without a published figure.
pub(crate) fn line(
    id: impl Into<String>,
    title: impl Into<String>,
    unit: Unit,
    better: Better,
    value: f64,
) -> CardLine {
    CardLine { id: id.into(), title: title.into(), unit, better, value, reference: None }
}

/// Adds a published figure to a line.
pub(crate) fn with(line: CardLine, figure: &str, source: &str, says: &str) -> CardLine {
    let reference = Reference { figure: figure.to_owned(), source: source.to_owned(), says: says.to_owned() };
    CardLine { reference: Some(reference), ..line }
}

/// The lines for p50 and p99; `None` without samples.
pub(crate) fn percentiles(id: &str, title: &str, better: Better, samples: &Samples) -> Option<[CardLine; 2]> {
    let summary = samples.histogram.summary()?;
    let of = |name: &str, value: u64| {
        line(format!("{id}_{name}"), format!("{title}, {name}"), samples.unit, better, value as f64)
    };
    Some([of("p50", summary.p50), of("p99", summary.p99)])
}
