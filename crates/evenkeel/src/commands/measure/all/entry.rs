//! `Entry`: a meter on the card, how long its turns are, and the lines that it says.

use evenkeel_measure::card::{Better, CardLine, Reference};
use evenkeel_measure::{MeterError, Samples, Unit, Watch};

/// How long each turn is, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Full,
    Quick,
}

impl Pace {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pace::Full => "full",
            Pace::Quick => "quick",
        }
    }

    /// Fewer would not tell the spread from chance: of two times five rounds, all of one machine, one in 126 orders keeps the two apart;
    /// of two times three, one in ten.
    pub(super) fn rounds(self) -> usize {
        match self {
            Pace::Full => 5,
            Pace::Quick => 3,
        }
    }

    /// Of two settings the one for this pace.
    pub(super) fn of<T>(self, full: T, quick: T) -> T {
        match self {
            Pace::Full => full,
            Pace::Quick => quick,
        }
    }
}

/// A meter on the card.
pub(super) struct Entry {
    /// As `evenkeel measure NAME`.
    pub(super) name: &'static str,
    /// What a turn takes at full pace, in seconds: for the bar that shows how far it is.
    pub(super) seconds: f64,
    /// One turn.
    pub(super) turn: fn(Pace, &Watch<'_>) -> Result<Vec<CardLine>, MeterError>,
}

/// A line of the card.
pub(super) fn line(
    id: impl Into<String>,
    title: impl Into<String>,
    unit: Unit,
    better: Better,
    value: f64,
) -> CardLine {
    CardLine { id: id.into(), title: title.into(), unit, better, value, reference: None }
}

/// The same with what somebody published of some machine.
pub(super) fn with(line: CardLine, figure: &str, source: &str, says: &str) -> CardLine {
    let reference = Reference { figure: figure.to_owned(), source: source.to_owned(), says: says.to_owned() };
    CardLine { reference: Some(reference), ..line }
}

/// Two lines, of the median and of the ninety-ninth of a hundred samples; none where there are no samples.
pub(super) fn percentiles(id: &str, title: &str, better: Better, samples: &Samples) -> Option<[CardLine; 2]> {
    let summary = samples.histogram.summary()?;
    let of = |name: &str, value: u64| {
        line(format!("{id}_{name}"), format!("{title}, {name}"), samples.unit, better, value as f64)
    };
    Some([of("p50", summary.p50), of("p99", summary.p99)])
}
