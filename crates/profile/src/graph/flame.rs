//! Trees as SVG, drawn by inferno.
//!
//! Of what can't be seen nothing is drawn, nor even written as a line: a recording of millions of stacks is a graph of some thousand frames.

use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{self, Options};
use maud::html;

use super::pair::Pair;
use super::style::{Direction, Quantity, Style};
use crate::tree::{DEPTH_MAX, Kind, MORE, NodeId, ROOT, Tree};

/// What is narrower is not drawn: a tenth of a pixel of 1200.
const SHARE_MIN: f64 = 1e-4;
/// No more bytes than this are written as lines for one graph: of what is too much, the ends of stacks are left out, then its narrow parts.
const LINES_MAX_BYTES: u64 = 16 << 20;
/// So deep stacks are drawn before narrow parts are left out.
const DEPTH_KEPT: u32 = 32;
/// Sums up to here are exact in the arithmetic of graphs.
const TOTAL_MAX: u64 = 1 << 52;

/// A flame graph as SVG.
pub fn svg_of(tree: &Tree, style: &Style) -> String {
    draw(tree, None, style, "colours: green user, yellow inlined, orange kernel, blue made at run time, grey unnamed")
}

/// A differential flame graph as SVG.
pub fn differential_of(pair: &Pair, style: &Style) -> String {
    draw(&pair.tree, Some(&pair.before), style, "as wide as after; red: more in itself than before, blue: less")
}

fn draw(tree: &Tree, before: Option<&[u64]>, style: &Style, legend: &str) -> String {
    let total = tree.total();
    if total == 0 {
        return nothing(style);
    }
    // Numbers that no machine counts to would overflow in sums of others; a file may hold them all the same.
    let shift = (u64::BITS - (total / TOTAL_MAX).leading_zeros()).min(63);
    let scale = 1_u64 << shift;
    let (divisor, words, factor) = match (before, &style.quantity) {
        (None, quantity) => (scale, quantity.words().to_owned(), quantity.factor() * scale as f64),
        // Inferno multiplies what is seen by the factor, and not what changed: numbers are written as they are meant.
        (Some(_), Quantity::CpuTime) => (scale.saturating_mul(1000), "us of CPU".to_owned(), 1.0),
        (Some(_), Quantity::OffCpuTime) => (scale.saturating_mul(1000), "us without a CPU".to_owned(), 1.0),
        (Some(_), quantity) => (scale, quantity.words().to_owned(), 1.0),
    };
    let words = if before.is_some() && shift > 0 { format!("times 2^{shift} {words}") } else { words };
    let lines = lines(tree, before, divisor);
    let mut palette = palette(tree);
    let mut options = Options::default();
    let parts = [style.subtitle.as_str(), legend];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    options.title = fit(&style.title);
    options.subtitle = Some(fit(&parts.join(" · ")));
    options.count_name = fit(&words);
    options.factor = factor;
    options.palette_map = before.is_none().then_some(&mut palette);
    options.direction = match style.direction {
        Direction::Flame => flamegraph::Direction::Straight,
        Direction::Icicle => flamegraph::Direction::Inverted,
    };
    options.text_truncate_direction = flamegraph::TextTruncateDirection::Right;
    // Lines are in the tree's order, with which no stack is torn apart by a name such as `a b` between `a` and `a;c`. This takes them as they
    // come, the last first.
    options.flame_chart = true;
    let mut drawn = Vec::new();
    match flamegraph::from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut drawn) {
        Ok(()) => String::from_utf8_lossy(&drawn).into_owned(),
        // It fails alone where there is nothing to draw.
        Err(_) => nothing(style),
    }
}

/// What is to be drawn, as lines; what is too narrow, or too deep, together with its siblings.
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
        // What all stacks stand on says more than the ends of a few.
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

/// What is drawn of a tree, and what is not.
struct Cut<'a> {
    tree: &'a Tree,
    ordered: Vec<NodeId>,
    totals: Vec<u64>,
    old_totals: Option<Vec<u64>>,
    /// What is narrower is left out.
    least: u64,
    /// What is deeper is left out.
    deepest: u32,
}

impl Cut<'_> {
    fn is_out(&self, id: NodeId) -> bool {
        id != ROOT && (self.totals[id as usize] < self.least || self.tree.nodes()[id as usize].depth > self.deepest)
    }

    /// What is left out right above each node that is not, after and before.
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

    /// How many bytes the lines would take.
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

/// A node's stack, in which no name ends like a number of samples.
fn line(tree: &Tree, id: NodeId) -> String {
    let mut line = tree.line(id);
    if let Some(space) = line.rfind(' ')
        && line[space + 1..].chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    {
        line.replace_range(space..=space, "\u{a0}");
    }
    line
}

/// A colour for each name: by what it is, and of a shade of its own that is the same in every graph.
fn palette(tree: &Tree) -> PaletteMap {
    let mut palette = PaletteMap::default();
    for name in 1..tree.name_count() {
        let text = tree.text(name as u32);
        let (kind, bare) = Kind::of(text);
        palette.insert(text, color(kind, bare));
    }
    palette.insert(MORE, color(Kind::Unnamed, MORE));
    palette.insert("", Color { r: 224, g: 224, b: 216 });
    palette
}

fn color(kind: Kind, name: &str) -> Color {
    // FNV-1a: the same on every machine and in every version.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let shade = |base: u8, spread: u32, of: u32| base.saturating_add((of % spread) as u8);
    let (a, b) = (hash >> 8, hash >> 20);
    match kind {
        Kind::User => Color { r: shade(110, 40, a), g: shade(190, 40, b), b: shade(105, 35, a) },
        Kind::Inlined => Color { r: shade(215, 30, a), g: shade(205, 30, b), b: shade(85, 45, a) },
        Kind::Kernel => Color { r: shade(230, 20, a), g: shade(140, 40, b), b: shade(75, 35, a) },
        Kind::Jit => Color { r: shade(110, 40, a), g: shade(170, 40, b), b: shade(225, 25, a) },
        Kind::Unnamed => Color { r: shade(185, 20, a), g: shade(185, 20, a), b: shade(185, 20, a) },
    }
}

/// Without letters that no page may hold.
fn fit(text: &str) -> String {
    if text.is_empty() { String::new() } else { crate::tree::clean(text) }
}

fn nothing(style: &Style) -> String {
    let picture = html! {
        svg version="1.1" width="1200" height="80" viewBox="0 0 1200 80" xmlns="http://www.w3.org/2000/svg" {
            text x="600" y="30" text-anchor="middle" font-size="17" { (fit(&style.title)) }
            text x="600" y="60" text-anchor="middle" font-size="12" { "Nothing was seen." }
        }
    };
    format!("<?xml version=\"1.0\" standalone=\"no\"?>\n{}\n", picture.into_string())
}
