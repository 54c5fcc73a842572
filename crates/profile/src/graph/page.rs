//! Flame graphs as one self-contained HTML page.
//! The script receives the tree as JSON and writes names as text only, and the page may load nothing.
//! So even a hostile function name cannot become markup.

use maud::{Markup, html};
use serde::Serialize;

use super::colors;
use super::pair::Pair;
use super::shell::Shell;
use super::style::{Direction, Quantity, Style};
use crate::tree::{Kind, MORE, NodeId, Tree, clean};

/// The maximum number of frames of a page. If there are more frames, the narrowest are left out, and the page shows how many.
const NODES_MAX: usize = 60_000;
/// The number of rows of the table below the graph.
const ROWS: usize = 40;
/// Up to this value, sums are exact in JavaScript numbers.
const TOTAL_MAX: u64 = 1 << 52;

/// A flame graph as a page.
pub fn html_of(tree: &Tree, style: &Style) -> String {
    page(tree, None, style, &functions(tree, &style.quantity))
}

/// A differential flame graph as a page.
pub fn html_differential_of(pair: &Pair, style: &Style) -> String {
    page(&pair.tree, Some(&pair.before), style, &changes(pair))
}

/// The input of the page's script. Lists have one element for each node, in depth-first order from the root on.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Data<'a> {
    unit: &'a str,
    factor: f64,
    direction: &'static str,
    names: Vec<&'a str>,
    kinds: Vec<u8>,
    /// The colour of each name, in the syntax of CSS.
    colors: Vec<String>,
    parent: Vec<u32>,
    name: Vec<u32>,
    own: Vec<u64>,
    before: Option<Vec<u64>>,
}

fn page(tree: &Tree, before: Option<&[u64]>, style: &Style, table: &Markup) -> String {
    let (data, left_out) = data(tree, before, style);
    let main = html! {
        p.no-script { "The graph needs JavaScript, which is off in this browser. The table below works without it." }
        div.tools.needs-script {
            input type="search" id="find" placeholder="Find a function (regular expression)"
                aria-label="Find a function by a regular expression" autocomplete="off" spellcheck="false";
            button type="button" id="back" disabled { "Show all" }
            button type="button" id="turn" { "Upside down" }
            @if before.is_some() { label { input type="checkbox" id="old"; " widths of the first recording" } }
            span id="found" role="status" {}
        }
        p.keys.needs-script {
            @if before.is_some() {
                span.box.grew style="--much: 100%" {} "▲ more than before, including what it calls"
                span.box.shrank style="--much: 100%" {} "▼ less"
            } @else {
                span.box.kind0 {} "program" span.box.kind2 {} "inlined" span.box.kind1 {} "kernel"
                span.box.kind3 {} "generated at run time" span.box.kind4 {} "no name"
            }
        }
        div.needs-script id="axis" {}
        div.needs-script id="scroll" { div.flame id="graph" role="tree" aria-label=(clean(&style.title)) {} }
        p.needs-script id="detail" aria-live="polite" {}
        p.keys.help.needs-script {
            "Width: " (style.quantity.words()) ". Height: call depth, each function next to its caller. "
            kbd { "/" } " find, " kbd { "←" } " " kbd { "→" } " " kbd { "↑" } " " kbd { "↓" } " move, "
            kbd { "Enter" } " or click zoom in, " kbd { "Esc" } " zoom out"
        }
        @if left_out > 0 {
            p.keys { (left_out) " frames are too narrow to show. Their callers include their share." }
        }
        (table)
    };
    let colors = colors::css();
    let (css, js) = (&[colors.as_str(), include_str!("page.css")], include_str!("page.js"));
    let parts = [style.subtitle.as_str(), style.origin.as_str()];
    let subtitle = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    Shell { title: &style.title, subtitle: &subtitle, css, main, js }.html(&data)
}

/// The data, and how many nodes are left out.
fn data<'a>(tree: &'a Tree, before: Option<&[u64]>, style: &'a Style) -> (Data<'a>, usize) {
    let mut totals = tree.totals();
    if let Some(before) = before {
        let old = tree.summed(before.to_vec());
        totals.iter_mut().zip(old).for_each(|(total, old)| *total = (*total).max(old));
    }
    let shift = (u64::BITS - (totals[0] / TOTAL_MAX).leading_zeros()).min(63);
    let least = least(&totals);
    let ordered = tree.ordered();
    let mut data = Data {
        unit: style.quantity.words(),
        factor: style.quantity.factor() * 2_f64.powi(shift as i32),
        direction: if style.direction == Direction::Icicle { "icicle" } else { "flame" },
        names: Vec::new(),
        kinds: Vec::new(),
        colors: Vec::new(),
        parent: vec![0],
        name: vec![0],
        own: vec![tree.nodes()[0].own >> shift],
        before: before.map(|before| vec![before[0] >> shift]),
    };
    let mut name_of = vec![u32::MAX; tree.name_count()];
    // The index of each node in the page. If a node is left out, this is the index of its caller.
    let mut place = vec![0_u32; tree.nodes().len()];
    let mut left_out = 0;
    for id in ordered {
        let (at, node) = (id as usize, tree.nodes()[id as usize]);
        let parent = place[node.parent as usize];
        if totals[at] < least {
            left_out += 1;
            place[at] = parent;
            data.own[parent as usize] += node.own >> shift;
            if let (Some(old), Some(before)) = (&mut data.before, before) {
                old[parent as usize] += before[at] >> shift;
            }
            continue;
        }
        let name = &mut name_of[node.name as usize];
        if *name == u32::MAX {
            *name = data.names.len() as u32;
            let (kind, bare) = Kind::parse(tree.text(node.name));
            data.names.push(bare);
            data.kinds.push(kind_number(kind));
            data.colors.push(colors::of_function(kind, bare).css());
        }
        place[at] = data.parent.len() as u32;
        data.parent.push(parent);
        data.name.push(*name);
        data.own.push(node.own >> shift);
        if let (Some(old), Some(before)) = (&mut data.before, before) {
            old.push(before[at] >> shift);
        }
    }
    (data, left_out)
}

/// The smallest total of a node for which the page shows the node.
fn least(totals: &[u64]) -> u64 {
    if totals.len() <= NODES_MAX {
        return 1;
    }
    let mut sorted = totals.to_vec();
    let (_, at_limit, _) = sorted.select_nth_unstable_by(NODES_MAX, |a, b| b.cmp(a));
    at_limit.saturating_add(1)
}

/// The number of a kind in the page's script.
fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::User => 0,
        Kind::Kernel => 1,
        Kind::Inlined => 2,
        Kind::Jit => 3,
        Kind::Unnamed => 4,
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// The functions with the largest own weight.
fn functions(tree: &Tree, quantity: &Quantity) -> Markup {
    let total = tree.total();
    let mut rows: Vec<(usize, (u64, u64))> = tree.by_name().into_iter().enumerate().skip(1).collect();
    rows.retain(|(name, (own, _))| *own > 0 && tree.text(*name as NodeId) != MORE);
    rows.sort_by_key(|(name, (own, total))| (std::cmp::Reverse(*own), std::cmp::Reverse(*total), *name));
    html! {
        h2 { "Functions" }
        table {
            thead {
                tr {
                    th.n { "itself" } th.n { "with calls" } th.n.wide-only { "itself, " (quantity.words()) }
                    th.wide-only { "kind" } th { "function" }
                }
            }
            tbody {
                @for (name, (own, with)) in rows.into_iter().take(ROWS) {
                    @let (kind, bare) = Kind::parse(tree.text(name as u32));
                    tr {
                        td.n { (share(own, total)) }
                        td.n { (share(with, total)) }
                        td.n.wide-only { (format!("{:.2}", own as f64 * quantity.factor())) }
                        td.wide-only { (kind.word()) }
                        td { button.name type="button" { (bare) } }
                    }
                }
            }
        }
    }
}

/// The functions that changed most.
fn changes(pair: &Pair) -> Markup {
    let (old, new) = (pair.old().total(), pair.tree.total());
    let changed = pair.changed();
    html! {
        h2 { "What changed" }
        table {
            thead { tr { th.n { "change" } th.n { "before" } th.n { "after" } th { "function, itself" } } }
            tbody {
                @for one in changed.iter().filter(|one| one.own_change() != 0).take(ROWS) {
                    @let change = 100.0 * one.own_change() as f64 / new.max(old).max(1) as f64;
                    tr {
                        td.n { (if change < 0.0 { "▼" } else { "▲" }) (format!(" {change:+.2} %")) }
                        td.n { (share(one.before.0, old)) }
                        td.n { (share(one.after.0, new)) }
                        td { button.name type="button" { (Kind::parse(&one.name).1) } }
                    }
                }
            }
        }
    }
}
