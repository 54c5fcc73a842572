//! `Style`: the title, the unit and the direction of a graph.

/// The title and other head lines of a graph, the unit of its widths, and the direction of its stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The title.
    pub title: String,
    /// A line below the title that describes the graph, or empty.
    pub subtitle: String,
    /// The host, date and command of the recording, or empty.
    pub origin: String,
    /// The unit of widths.
    pub quantity: Quantity,
    /// The direction of stacks.
    pub direction: Direction,
}

/// The unit of widths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds of CPU time.
    CpuTime,
    /// Nanoseconds off CPU.
    OffCpuTime,
    /// Samples.
    #[default]
    Samples,
    /// Bytes.
    Bytes,
    /// Another unit, in the plural.
    Other(String),
}

/// The direction of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The outermost function is at the bottom.
    #[default]
    Flame,
    /// The outermost function is at the top.
    Icicle,
}

impl Quantity {
    /// The unit's name.
    pub fn words(&self) -> &str {
        match self {
            Quantity::CpuTime => "ms of CPU",
            Quantity::OffCpuTime => "ms without a CPU",
            Quantity::Samples => "samples",
            Quantity::Bytes => "bytes",
            Quantity::Other(words) => words,
        }
    }

    /// The factor that converts a weight to the unit of [`words`](Quantity::words).
    pub fn factor(&self) -> f64 {
        match self {
            Quantity::CpuTime | Quantity::OffCpuTime => 1e-6,
            _ => 1.0,
        }
    }

    /// A weight as text with its unit.
    pub fn to_text(&self, weight: u64) -> String {
        let number = weight as f64 * self.factor();
        let words = self.words();
        if self.factor() == 1.0 || number >= 100.0 {
            format!("{number:.0} {words}")
        } else {
            format!("{number:.2} {words}")
        }
    }
}
