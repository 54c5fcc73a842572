//! How a graph is titled, what it counts and which way it grows.

/// How a graph looks, and what it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// What it is of.
    pub title: String,
    /// What is to be known beside it; none if it is empty.
    pub subtitle: String,
    /// What widths stand for.
    pub quantity: Quantity,
    /// Which way stacks grow.
    pub direction: Direction,
}

/// What a width stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds of a CPU.
    CpuTime,
    /// Nanoseconds without a CPU.
    OffCpuTime,
    /// How often something was seen.
    #[default]
    Samples,
    /// Bytes.
    Bytes,
    /// Something else that is counted, in the plural.
    Other(String),
}

/// Which way stacks grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The outermost function lies at the bottom.
    #[default]
    Flame,
    /// It hangs from the top.
    Icicle,
}

impl Quantity {
    /// What a number is of, in words.
    pub fn words(&self) -> &str {
        match self {
            Quantity::CpuTime => "ms of CPU",
            Quantity::OffCpuTime => "ms without a CPU",
            Quantity::Samples => "samples",
            Quantity::Bytes => "bytes",
            Quantity::Other(words) => words,
        }
    }

    /// What a weight is multiplied by before it is written in front of those words.
    pub fn factor(&self) -> f64 {
        match self {
            Quantity::CpuTime | Quantity::OffCpuTime => 1e-6,
            _ => 1.0,
        }
    }

    /// A weight as people say it.
    pub fn say(&self, weight: u64) -> String {
        let number = weight as f64 * self.factor();
        let words = self.words();
        if self.factor() == 1.0 || number >= 100.0 {
            format!("{number:.0} {words}")
        } else {
            format!("{number:.2} {words}")
        }
    }
}
