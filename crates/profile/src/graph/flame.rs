//! Flame graphs as SVG, drawn by inferno.
//!
//! Frames that are too narrow to see are left out before inferno gets them.
//! So the graph of a recording with millions of stacks has only some thousand frames.

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options};
use maud::html;

use super::colors::{self, Rgb};
use super::pair::Pair;
use super::style::{Direction, Quantity, Style};
use crate::tree::{DEPTH_MAX, Kind, MORE, NodeId, ROOT, Tree};

/// Frames below this share are not drawn: a tenth of a pixel in a width of 1200 pixels.
const SHARE_MIN: f64 = 1e-4;
/// The maximum number of bytes that inferno gets for one graph.
/// If a tree needs more bytes, the innermost frames are left out first, and then the narrow frames.
const LINES_MAX_BYTES: u64 = 16 << 20;
/// Frames up to this depth are never left out for their depth. If the input is still too long, narrow frames are left out.
const DEPTH_KEPT: u32 = 32;
/// The maximum sum of weights. Up to this value, sums are exact in the floating-point arithmetic of graphs.
const TOTAL_MAX: u64 = 1 << 52;

/// The maximum length in characters of the line with host, date and command. A longer line does not fit the width.
const ORIGIN_MAX: usize = 180;
/// The background colour of an SVG.
const PAPER: Rgb = Rgb(255, 255, 255);
/// For a change, inferno paints the weaker colour channels between this value (no change) and [`STRONGEST`].
const PALEST: u8 = 250;
const STRONGEST: u8 = 100;

/// A flame graph as SVG.
pub fn svg_of(tree: &Tree, style: &Style) -> String {
    draw(
        tree,
        None,
        style,
        "Green: program. Olive: inlined. Brown: kernel. Blue: generated at run time. Grey: no name.",
    )
}

/// A differential flame graph as SVG.
pub fn differential_of(pair: &Pair, style: &Style) -> String {
    let legend = "Red: the function itself takes more than in the comparison. Blue: less. Grey: the same.";
    draw(&pair.tree, Some(&pair.before), style, legend)
}

fn draw(tree: &Tree, before: Option<&[u64]>, style: &Style, legend: &str) -> String {
    let total = tree.total();
    if total == 0 {
        return nothing(style);
    }
    // The weights in a hostile file may overflow the sums in inferno.
    let shift = (u64::BITS - (total / TOTAL_MAX).leading_zeros()).min(63);
    let scale = 1_u64 << shift;
    let (divisor, words, factor) = match (before, &style.quantity) {
        (None, quantity) => (scale, quantity.words().to_owned(), quantity.factor() * scale as f64),
        // Inferno applies the factor to weights but not to changes, so scale both here.
        (Some(_), Quantity::CpuTime) => (scale.saturating_mul(1000), "us of CPU".to_owned(), 1.0),
        (Some(_), Quantity::OffCpuTime) => (scale.saturating_mul(1000), "us without a CPU".to_owned(), 1.0),
        (Some(_), quantity) => (scale, quantity.words().to_owned(), 1.0),
    };
    let words = if before.is_some() && shift > 0 { format!("times 2^{shift} {words}") } else { words };
    let lines = lines(tree, before, divisor);
    let mut palette = palette(tree);
    let mut options = Options::default();
    options.title = fit(&style.title);
    options.subtitle = (!style.subtitle.is_empty()).then(|| fit(&style.subtitle));
    options.bgcolors = Some(BackgroundColor::Flat(color(PAPER)));
    options.count_name = fit(&words);
    options.factor = factor;
    options.palette_map = before.is_none().then_some(&mut palette);
    options.direction = match style.direction {
        Direction::Flame => flamegraph::Direction::Straight,
        Direction::Icicle => flamegraph::Direction::Inverted,
    };
    options.text_truncate_direction = flamegraph::TextTruncateDirection::Right;
    // With the flame chart option, inferno takes the lines in this order, starting with the last one.
    // Sorted lines would separate stacks with names such as `a b`, which sorts between `a` and `a;c`.
    options.flame_chart = true;
    let mut drawn = Vec::new();
    match flamegraph::from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut drawn) {
        Ok(()) => {
            let legend = format!("Full width: {}. Height: call depth. {legend}", style.quantity.to_text(total));
            finished(&String::from_utf8_lossy(&drawn), &legend, &style.origin, before.is_some())
        }
        // Inferno only fails if there is nothing to draw.
        Err(_) => nothing(style),
    }
}

/// Adds legend and origin to inferno's graph.
/// Replaces the pale colours of changes, of frames below the zoomed frame, and of the search button.
fn finished(svg: &str, legend: &str, origin: &str, is_pair: bool) -> String {
    let colored = if is_pair { with_changes(svg) } else { svg.to_owned() };
    let height = colored.split_once("height=\"").and_then(|(_, rest)| rest.split('"').next()?.parse::<u32>().ok());
    let line = html! { text x="50%" y=(height.unwrap_or(0).saturating_sub(5)) text-anchor="middle" { (fit(legend)) } };
    let origin = match origin.char_indices().nth(ORIGIN_MAX) {
        Some((end, _)) => format!("{}…", &origin[..end]),
        None => origin.to_owned(),
    };
    // The origin is below the subtitle (or below the title, without a subtitle) and above the highest frame.
    let origin_y = if svg.contains("id=\"subtitle\"") { "59" } else { "35" };
    let origin = html! { text x="50%" y=(origin_y) text-anchor="middle" style="font-size:10px" { (fit(&origin)) } };
    let css = format!(
        "#search {{ opacity:0.7; }}\n.parent {{ opacity:1; }}\n.parent rect {{ fill:{}; }}\n",
        colors::plain().css()
    );
    let frames = format!("{}{}<svg id=\"frames\"", origin.into_string(), line.into_string());
    colored.replacen("</style>", &format!("{css}</style>"), 1).replacen("<svg id=\"frames\"", &frames, 1)
}

/// Replaces inferno's colours of changes, which range from near white to light red or light blue, by colours of this palette.
fn with_changes(svg: &str) -> String {
    const FILL: &str = " fill=\"rgb(";
    let mut parts = svg.split(FILL);
    let mut recolored = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((numbers, rest)) = part.split_once(')') else { continue };
        let channels: Vec<u8> = numbers.split(',').filter_map(|number| number.parse().ok()).collect();
        let share = |pale: u8| f64::from(PALEST.saturating_sub(pale)) / f64::from(PALEST - STRONGEST);
        match channels.as_slice() {
            [255, pale, other] if pale == other => {
                recolored += &format!(" fill=\"{}", colors::changed(share(*pale)).css());
            }
            [pale, other, 255] if pale == other => {
                recolored += &format!(" fill=\"{}", colors::changed(-share(*pale)).css());
            }
            [PALEST, PALEST, PALEST] => recolored += &format!(" fill=\"{}", colors::changed(0.0).css()),
            _ => recolored += &format!("{FILL}{numbers})"),
        }
        recolored += rest;
    }
    recolored
}

/// The stacks to draw, one line each. Neighbouring frames that are too narrow or too deep are combined into one frame.
fn lines(tree: &Tree, before: Option<&[u64]>, divisor: u64) -> Vec<String> {
    let totals = tree.totals();
    let mut cut = Cut {
        tree,
        old_totals: before.map(|before| tree.summed(before.to_vec())),
        least: ((totals[0] as f64 * SHARE_MIN) as u64).max(1),
        deepest: DEPTH_MAX,
        ordered: tree.ordered(),
        totals,
    };
    let is_line = |at: usize| tree.nodes()[at].own > 0 || before.is_some_and(|before| before[at] > 0);
    let mut left_out = cut.left_out();
    while cut.bytes(&left_out, is_line) > LINES_MAX_BYTES {
        // The outer frames that many stacks share matter more than the innermost frames of a few stacks.
        if cut.deepest > DEPTH_KEPT {
            cut.deepest /= 2;
        } else {
            cut.least = cut.least.saturating_mul(2);
        }
        left_out = cut.left_out();
    }
    let mut lines = Vec::new();
    let mut write = |line: &str, after: u64, old: u64| {
        let after = after / divisor;
        match before {
            Some(_) => lines.push(format!("{line} {} {after}", (old / divisor).min(TOTAL_MAX))),
            None if after > 0 => lines.push(format!("{line} {after}")),
            None => {}
        }
    };
    for id in cut.ordered.iter().copied().filter(|id| !cut.is_out(*id)) {
        let (at, (after, old)) = (id as usize, left_out[id as usize]);
        if !is_line(at) && after == 0 {
            continue;
        }
        let line = line(tree, id);
        if is_line(at) {
            write(&line, tree.nodes()[at].own, before.map_or(0, |before| before[at]));
        }
        if after > 0 {
            write(&format!("{line};{MORE}"), after, old);
        }
    }
    if left_out[0].0 > 0 {
        write(MORE, left_out[0].0, left_out[0].1);
    }
    lines
}

/// Which nodes of a tree are drawn.
struct Cut<'a> {
    tree: &'a Tree,
    ordered: Vec<NodeId>,
    totals: Vec<u64>,
    old_totals: Option<Vec<u64>>,
    /// Nodes with a smaller weight are left out.
    least: u64,
    /// Deeper nodes are left out.
    deepest: u32,
}

impl Cut<'_> {
    fn is_out(&self, id: NodeId) -> bool {
        id != ROOT && (self.totals[id as usize] < self.least || self.tree.nodes()[id as usize].depth > self.deepest)
    }

    /// For each drawn node, the weight of its children that are left out: first in the second recording, then in the first recording.
    fn left_out(&self) -> Vec<(u64, u64)> {
        let mut left_out = vec![(0_u64, 0_u64); self.tree.nodes().len()];
        for id in self.ordered.iter().copied().filter(|id| self.is_out(*id)) {
            let parent = self.tree.nodes()[id as usize].parent;
            if !self.is_out(parent) {
                let sum = &mut left_out[parent as usize];
                sum.0 = sum.0.saturating_add(self.totals[id as usize]);
                sum.1 = sum.1.saturating_add(self.old_totals.as_ref().map_or(0, |old| old[id as usize]));
            }
        }
        left_out
    }

    /// The length of all lines of the drawn nodes, in bytes.
    fn bytes(&self, left_out: &[(u64, u64)], is_line: impl Fn(usize) -> bool) -> u64 {
        let mut on_path: Vec<u64> = vec![0];
        let mut sum = 0_u64;
        for id in self.ordered.iter().copied().filter(|id| !self.is_out(*id)) {
            let node = self.tree.nodes()[id as usize];
            on_path.truncate(node.depth as usize);
            let bytes = on_path.last().unwrap_or(&0) + self.tree.text(node.name).len() as u64 + 1;
            on_path.push(bytes);
            let lines = u64::from(is_line(id as usize)) + u64::from(left_out[id as usize].0 > 0);
            sum = sum.saturating_add(bytes * lines);
        }
        sum
    }
}

/// The stack of a node. A name that ends in a space and a number gets a no-break space, because inferno would take the number for a weight.
fn line(tree: &Tree, id: NodeId) -> String {
    let mut line = tree.line(id);
    if let Some(space) = line.rfind(' ')
        && line[space + 1..].chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    {
        line.replace_range(space..=space, "\u{a0}");
    }
    line
}

/// Maps each name of a function to its colour.
fn palette(tree: &Tree) -> PaletteMap {
    let mut palette = PaletteMap::default();
    for name in 1..tree.name_count() {
        let text = tree.text(name as u32);
        let (kind, bare) = Kind::parse(text);
        palette.insert(text, color(colors::of_function(kind, bare)));
    }
    palette.insert(MORE, color(colors::of_function(Kind::Unnamed, MORE)));
    palette.insert("", color(colors::plain()));
    palette
}

fn color(Rgb(r, g, b): Rgb) -> Color {
    Color { r, g, b }
}

/// Removes control characters, which XML forbids.
fn fit(text: &str) -> String {
    if text.is_empty() { String::new() } else { crate::tree::clean(text) }
}

fn nothing(style: &Style) -> String {
    let picture = html! {
        svg version="1.1" width="1200" height="80" viewBox="0 0 1200 80" xmlns="http://www.w3.org/2000/svg" {
            text x="600" y="30" text-anchor="middle" font-size="17" { (fit(&style.title)) }
            text x="600" y="60" text-anchor="middle" font-size="12" { "There are no samples." }
        }
    };
    format!("<?xml version=\"1.0\" standalone=\"no\"?>\n{}\n", picture.into_string())
}
