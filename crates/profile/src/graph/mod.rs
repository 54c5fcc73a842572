//! What is drawn: flame graphs and icicles, differential ones in red and blue, and timelines of threads, as SVG or as a page that needs nothing
//! but itself.

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
