//! Draws flame graphs and icicles, differential graphs in red and blue, and timelines of threads.
//! The result is an SVG or a self-contained page.

mod colors;
mod flame;
mod page;
mod pair;
mod shell;
mod style;
mod timeline;

pub use flame::{differential_of, svg_of};
pub use page::{html_differential_of, html_of};
pub use pair::{Changed, Pair, Totals};
pub use style::{Direction, Quantity, Style};
pub use timeline::{PageHead, Row, timeline_html};

use crate::fold::Folded;
use crate::tree::Tree;

/// A flame graph as SVG.
pub fn svg(folded: &Folded, style: &Style) -> String {
    svg_of(&Tree::from(folded), style)
}

/// A differential flame graph as SVG. The widths are the weights in `after`.
/// Red means more weight than in `before`, and blue means less. Both recordings are scaled to the same total.
pub fn differential(before: &Folded, after: &Folded, style: &Style) -> String {
    differential_of(&Pair::new(&Tree::from(before), &Tree::from(after), Totals::Equal), style)
}

/// A flame graph as a self-contained page with search, zoom and dark mode. It is readable on a phone and on paper.
pub fn html(folded: &Folded, style: &Style) -> String {
    html_of(&Tree::from(folded), style)
}

/// A differential flame graph as a self-contained page. Both recordings are scaled to the same total.
pub fn html_differential(before: &Folded, after: &Folded, style: &Style) -> String {
    html_differential_of(&Pair::new(&Tree::from(before), &Tree::from(after), Totals::Equal), style)
}
