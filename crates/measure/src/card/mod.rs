//! The machine's card: the main numbers of all meters on one page, each with its spread over several rounds.
//! Cards of two machines can be compared.
//! A card may come from a stranger, so the reader never trusts its content.

mod compare;
pub mod table;

use std::collections::BTreeSet;

use evenkeel_hostfs::json_words;
use evenkeel_stats::quantile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Unit;

pub use compare::{CardCaveat, Compared, Comparison, Figure, Outcome, WhichCard, compare};

/// The format number that evenkeel writes, and the only one that it reads.
pub const FORMAT: u64 = 1;
/// The value of `kind` that marks a JSON object as a card.
pub const KIND: &str = "evenkeel-card";
/// The maximum size of a card to read. A normal card has some 20 kB.
pub const MAX_CARD_BYTES: usize = 4 << 20;

const PARTS_MAX: usize = 256;
const LINES_MAX: usize = 4096;
const TEXT_BYTES_MAX: usize = 4096;

/// The card of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Card {
    /// The constant text [`KIND`], which marks a card.
    pub kind: String,
    /// How and when the card was taken.
    pub taken: Taken,
    /// The machine's properties: names with values, in reading order.
    pub host: Vec<Trait>,
    /// The results of each meter.
    pub meters: Vec<MeterResults>,
}

/// How and when a card was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// The time when the card was taken, in UTC.
    pub at: String,
    /// The program and its version.
    pub by: String,
    /// `full` or `quick`. Cards of different paces were measured for different times.
    pub pace: String,
    /// How many rounds each meter ran.
    pub rounds: u32,
    /// How long all rounds together took, in seconds.
    pub seconds: f64,
    /// Whether the measurement was stopped early.
    pub interrupted: bool,
}

/// A property of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trait {
    /// The property's name.
    pub name: String,
    /// The value in words, or the reason why it is unknown.
    pub value: String,
}

/// The results of one meter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeterResults {
    /// The meter's name, as in `evenkeel measure NAME`.
    pub meter: String,
    /// The numbers that the meter measured.
    pub lines: Vec<Line>,
    /// Why numbers are missing, in all rounds or in some rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// The identifier, which is the same on every machine. It ends with the unit.
    pub id: String,
    /// What the number measures, in words.
    pub title: String,
    /// The unit, in the form of [`Unit`].
    pub unit: String,
    /// Whether a lower or a higher number is better.
    pub better: Better,
    /// The median over the rounds.
    pub value: f64,
    /// The lowest value of a round.
    pub low: f64,
    /// The highest value of a round.
    pub high: f64,
    /// The number of rounds that measured this number.
    pub rounds: u32,
    /// A published figure for another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

/// Whether a lower or a higher number is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A lower number is better.
    Lower,
    /// A higher number is better.
    Higher,
    /// The number distinguishes machines, but neither direction is better.
    Neither,
}

/// A published figure for a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    /// The figure, short, with its unit.
    pub figure: String,
    /// The source document.
    pub source: String,
    /// What the source says.
    pub says: String,
}

/// One number of a meter in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct CardLine {
    /// The same as [`Line::id`].
    pub id: String,
    /// The same as [`Line::title`].
    pub title: String,
    /// The unit.
    pub unit: Unit,
    /// Whether a lower or a higher number is better.
    pub better: Better,
    /// The number.
    pub value: f64,
    /// The same as [`Line::reference`].
    pub reference: Option<Reference>,
}

/// Why a text is not a card. The message continues a sentence that begins with the failed action and a colon.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The text is not JSON.
    #[error("{}", json_words::plain(.0))]
    Json(serde_json::Error),
    /// The text is not a card, for this reason.
    #[error("{0}")]
    Other(String),
    /// The card has another format number, such as that of a newer evenkeel.
    #[error("it has format {0}, but this evenkeel knows format {FORMAT}")]
    Format(Value),
    /// The card has invalid numbers.
    #[error("{0}")]
    Odd(String),
}

impl MeterResults {
    /// Builds the lines of one meter from the results of each round. Numbers that are missing in the first round come last.
    pub fn of_rounds(meter: &str, rounds: &[Vec<CardLine>], failed: Option<String>) -> MeterResults {
        let mut ids: Vec<&str> = Vec::new();
        for line in rounds.iter().flatten() {
            if !ids.contains(&line.id.as_str()) {
                ids.push(&line.id);
            }
        }
        let lines = ids.into_iter().filter_map(|id| line(id, rounds)).collect();
        MeterResults { meter: meter.to_owned(), lines, failed }
    }
}

fn line(id: &str, rounds: &[Vec<CardLine>]) -> Option<Line> {
    let said: Vec<&CardLine> = rounds.iter().filter_map(|round| round.iter().find(|line| line.id == id)).collect();
    let values: Vec<f64> = said.iter().map(|line| line.value).filter(|value| value.is_finite()).collect();
    let at = |q| quantile(&values, q);
    let first = said.first()?;
    Some(Line {
        id: id.to_owned(),
        title: first.title.clone(),
        unit: first.unit.name().to_owned(),
        better: first.better,
        value: at(0.5)?,
        low: at(0.0)?,
        high: at(1.0)?,
        rounds: u32::try_from(values.len()).ok()?,
        reference: first.reference.clone(),
    })
}

impl Card {
    /// Reads a card.
    ///
    /// # Errors
    /// Fails if the text is not a card, has another format, or has invalid numbers.
    pub fn parse(text: &str) -> Result<Card, CardError> {
        if text.len() > MAX_CARD_BYTES {
            return Err(CardError::Other(format!("it has more than {MAX_CARD_BYTES} bytes")));
        }
        let value: Value = serde_json::from_str(text).map_err(CardError::Json)?;
        if value.get("kind").and_then(Value::as_str) != Some(KIND) {
            let error = value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
            let why = error.map_or_else(
                || format!("it is not a card: it does not say \"kind\": \"{KIND}\""),
                |message| format!("it is an error of evenkeel: {}", message.chars().take(200).collect::<String>()),
            );
            return Err(CardError::Other(why));
        }
        match value.get("format") {
            Some(format) if format.as_u64() == Some(FORMAT) => {}
            Some(format) if format.is_number() => return Err(CardError::Format(format.clone())),
            _ => return Err(CardError::Other("it has no format number".to_owned())),
        }
        let card: Card = serde_json::from_value(value).map_err(CardError::Json)?;
        card.check().map_err(CardError::Odd)?;
        Ok(card)
    }

    /// Every number of the card, with the meter that measured it.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &Line)> {
        self.meters.iter().flat_map(|part| part.lines.iter().map(|line| (part.meter.as_str(), line)))
    }

    /// The machine's properties, by name.
    pub fn host_trait(&self, name: &str) -> Option<&str> {
        self.host.iter().find(|one| one.name == name).map(|one| one.value.as_str())
    }

    fn check(&self) -> Result<(), String> {
        if self.meters.len() > PARTS_MAX || self.lines().count() > LINES_MAX || self.host.len() > LINES_MAX {
            return Err(format!("it has more than {PARTS_MAX} meters or {LINES_MAX} lines"));
        }
        if !self.taken.seconds.is_finite() || self.taken.seconds < 0.0 {
            return Err(format!("it took {} seconds", self.taken.seconds));
        }
        let mut ids = BTreeSet::new();
        for (meter, line) in self.lines() {
            let Line { id, value, low, high, rounds, .. } = line;
            if !ids.insert(id) {
                return Err(format!("{id} is there twice"));
            }
            if ![value, low, high].into_iter().all(|number| number.is_finite()) {
                return Err(format!("{id} of {meter} is not a number"));
            }
            if !(low <= value && value <= high) || *rounds == 0 {
                return Err(format!("{id} of {meter} is {value}, not within {low} to {high} of {rounds} rounds"));
            }
        }
        match self.texts().find(|text| text.len() > TEXT_BYTES_MAX) {
            Some(text) => Err(format!("a text has {} bytes, more than {TEXT_BYTES_MAX}", text.len())),
            None => Ok(()),
        }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        let taken = [&self.taken.at, &self.taken.by, &self.taken.pace];
        let host = self.host.iter().flat_map(|one| [&one.name, &one.value]);
        let parts = self.meters.iter().flat_map(|part| [&part.meter].into_iter().chain(&part.failed));
        let lines = self.lines().flat_map(|(_, line)| [&line.id, &line.title, &line.unit]);
        let references = self.lines().filter_map(|(_, line)| line.reference.as_ref());
        let references = references.flat_map(|reference| [&reference.figure, &reference.source, &reference.says]);
        taken.into_iter().chain(host).chain(parts).chain(lines).chain(references)
    }
}

#[cfg(test)]
mod tests;
