//! Trees as a page that needs nothing but itself. The script in it gets the tree as data and writes names as text alone, and the page may
//! load nothing: a function's name can't become a part of the page, whatever it is.

use std::fmt::Write as _;

use serde::Serialize;

use super::flame::escaped;
use super::shell::{Shell, titled};
use super::{Direction, Pair, Quantity, Style};
use crate::tree::{Kind, MORE, NodeId, Tree};

/// No page has more frames than this: what is narrower than the rest is left out, and the page says so.
const NODES_MAX: usize = 60_000;
/// Rows of the table below the graph.
const ROWS: usize = 40;
/// Sums up to here are exact in a browser.
const TOTAL_MAX: u64 = 1 << 52;

/// A flame graph as a page.
pub fn html_of(tree: &Tree, style: &Style) -> String {
    page(tree, None, style, &functions(tree, &style.quantity))
}

/// A differential flame graph as a page.
pub fn html_differential_of(pair: &Pair, style: &Style) -> String {
    page(&pair.tree, Some(&pair.before), style, &changes(pair))
}

/// What the page's script gets. Lists are by node, in the order of the tree; the first is the root.
#[derive(Serialize)]
struct Data<'a> {
    unit: &'a str,
    factor: f64,
    direction: &'static str,
    names: Vec<&'a str>,
    kinds: Vec<u8>,
    parent: Vec<u32>,
    name: Vec<u32>,
    own: Vec<u64>,
    before: Option<Vec<u64>>,
}

fn page(tree: &Tree, before: Option<&[u64]>, style: &Style, table: &str) -> String {
    let (data, left_out) = data(tree, before, style);
    let title = titled(&style.title);
    let legend = if before.is_some() { CHANGE_KEYS } else { KIND_KEYS };
    let old =
        if before.is_some() { "<label><input type=\"checkbox\" id=\"old\"> as wide as before</label>" } else { "" };
    let left_out = match left_out {
        0 => String::new(),
        count => format!(
            "<p class=\"keys\">{count} frames too narrow to be seen are not in this page; what called them has their time.</p>"
        ),
    };
    let turn = "<button type=\"button\" id=\"turn\">Turn over</button>";
    let main = format!(
        r#"<p class="no-script">The graph needs JavaScript, which is off here; the table below does not.</p>
<div class="tools needs-script">
<input type="search" id="find" placeholder="Find a function (regular expression)" aria-label="Find a function, by a regular expression" autocomplete="off" spellcheck="false">
<button type="button" id="back" disabled>Show all</button>{turn}{old}<span id="found" role="status"></span>
</div>
<p class="keys needs-script">{legend}</p>
<div id="scroll" class="needs-script"><div id="graph" class="flame" role="tree" aria-label="{title}"></div></div>
<p id="detail" class="needs-script" aria-live="polite"></p>
<p class="keys help needs-script"><kbd>/</kbd> find, <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> go, <kbd>Enter</kbd> or a click look closer, <kbd>Esc</kbd> back</p>
{left_out}{table}"#
    );
    let (css, js) = (include_str!("page.css"), include_str!("page.js"));
    Shell { title: &style.title, subtitle: &style.subtitle, css: &[css], main: &main, js }.html(&data)
}

const KIND_KEYS: &str = concat!(
    "<span class=\"box kind0\"></span>user<span class=\"box kind2\"></span>inlined<span class=\"box kind1\"></span>kernel",
    "<span class=\"box kind3\"></span>made at run time<span class=\"box kind4\"></span>unnamed",
);
const CHANGE_KEYS: &str = concat!(
    "<span class=\"box grew\" style=\"--much: 100%\"></span>▲ more than before, with all that it calls",
    "<span class=\"box shrank\" style=\"--much: 100%\"></span>▼ less",
);

/// The data, and how many nodes are not in it.
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
        parent: vec![0],
        name: vec![0],
        own: vec![tree.nodes()[0].own >> shift],
        before: before.map(|before| vec![before[0] >> shift]),
    };
    let mut name_of = vec![u32::MAX; tree.name_count()];
    // Where each node is in the page; one that is left out is where what called it is.
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
            let (kind, bare) = Kind::of(tree.text(node.name));
            data.names.push(bare);
            data.kinds.push(kind_number(kind));
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

/// The least total with which a node is in the page.
fn least(totals: &[u64]) -> u64 {
    if totals.len() <= NODES_MAX {
        return 1;
    }
    let mut sorted = totals.to_vec();
    let (_, at_limit, _) = sorted.select_nth_unstable_by(NODES_MAX, |a, b| b.cmp(a));
    at_limit.saturating_add(1)
}

/// As the script numbers them.
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

/// The functions in which most was seen.
fn functions(tree: &Tree, quantity: &Quantity) -> String {
    let total = tree.total();
    let mut rows: Vec<(usize, (u64, u64))> = tree.by_name().into_iter().enumerate().skip(1).collect();
    rows.retain(|(name, (own, _))| *own > 0 && tree.text(*name as NodeId) != MORE);
    rows.sort_by_key(|(name, (own, total))| (std::cmp::Reverse(*own), std::cmp::Reverse(*total), *name));
    let mut table = format!(
        "<h2>Where it was</h2><table><thead><tr><th class=\"n\">itself</th><th class=\"n\">with what it calls</th>\
         <th class=\"n wide-only\">itself, {}</th><th class=\"wide-only\">kind</th><th>function</th></tr></thead><tbody>",
        escaped(quantity.words())
    );
    for (name, (own, with)) in rows.into_iter().take(ROWS) {
        let (kind, bare) = Kind::of(tree.text(name as u32));
        // Writing into a text can't fail.
        let _ = write!(
            table,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n wide-only\">{:.2}</td><td class=\"wide-only\">{}</td>\
             <td><button type=\"button\" class=\"name\">{}</button></td></tr>",
            share(own, total),
            share(with, total),
            own as f64 * quantity.factor(),
            kind.word(),
            escaped(bare)
        );
    }
    table + "</tbody></table>"
}

/// The functions that changed most.
fn changes(pair: &Pair) -> String {
    let (old, new) = (pair.old().total(), pair.tree.total());
    let mut table = String::from(
        "<h2>What changed</h2><table><thead><tr><th class=\"n\">change</th><th class=\"n\">before</th><th class=\"n\">after</th>\
         <th>function, itself</th></tr></thead><tbody>",
    );
    for one in pair.changed().into_iter().filter(|one| one.own_change() != 0).take(ROWS) {
        let change = 100.0 * one.own_change() as f64 / new.max(old).max(1) as f64;
        let _ = write!(
            table,
            "<tr><td class=\"n\">{} {change:+.2} %</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td><button type=\"button\" class=\"name\">{}</button></td></tr>",
            if change < 0.0 { "▼" } else { "▲" },
            share(one.before.0, old),
            share(one.after.0, new),
            escaped(Kind::of(&one.name).1)
        );
    }
    table + "</tbody></table>"
}
