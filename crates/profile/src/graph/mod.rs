//! What is drawn: flame graphs and icicles, differential ones in red and blue, and timelines of threads, as SVG or as a page that needs nothing
//! but itself.

mod flame;
mod page;
mod pair;
mod shell;
mod timeline;

pub use flame::{differential_of, svg_of};
pub use page::{html_differential_of, html_of};
pub use pair::{Changed, Pair, Totals};
pub use timeline::{Row, Said, timeline_html};

use crate::fold::Folded;
use crate::tree::Tree;

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

/// A flame graph as SVG.
pub fn svg(folded: &Folded, style: &Style) -> String {
    svg_of(&Tree::from(folded), style)
}

/// A differential flame graph as SVG: as wide as `after`, red where it has more than `before` and blue where it has less, both taken as
/// equally much in the whole.
pub fn differential(before: &Folded, after: &Folded, style: &Style) -> String {
    differential_of(&Pair::new(&Tree::from(before), &Tree::from(after), Totals::Equal), style)
}

/// A flame graph as a page that needs nothing but itself: to be searched, zoomed, read in the dark, on a telephone and on paper.
pub fn html(folded: &Folded, style: &Style) -> String {
    html_of(&Tree::from(folded), style)
}

/// A differential flame graph as such a page, both taken as equally much in the whole.
pub fn html_differential(before: &Folded, after: &Folded, style: &Style) -> String {
    html_differential_of(&Pair::new(&Tree::from(before), &Tree::from(after), Totals::Equal), style)
}
