//! The page of `profile diff`.

use evenkeel_profile::graph::Quantity;
use serde::Serialize;

use super::view::short;
use crate::show::blocks::Block;
use crate::show::units::percent;

/// What changed.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) before: Side,
    pub(crate) after: Side,
    /// `equal` or `raw`.
    pub(crate) totals: &'static str,
    /// What weights from before were multiplied by.
    pub(crate) scale: f64,
    /// Those with more in themselves than before, by how much.
    pub(crate) grew: Vec<Row>,
    /// Those with less.
    pub(crate) shrank: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<String>,
}

/// One of the two.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    pub(crate) file: String,
    pub(crate) unit: String,
    pub(crate) weight: u64,
    #[serde(skip)]
    pub(crate) quantity: Quantity,
}

/// A function in both. Shares are of the larger of the two wholes.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) function: String,
    pub(crate) kind: &'static str,
    pub(crate) own_before_share: f64,
    pub(crate) own_after_share: f64,
    pub(crate) own_change_share: f64,
    pub(crate) with_before_share: f64,
    pub(crate) with_after_share: f64,
}

pub(crate) fn blocks(answer: &Answer) -> Vec<Block> {
    let side = |side: &Side| format!("{}: {}", side.file, side.quantity.say(side.weight));
    let mut blocks = vec![
        Block::heading("What changed"),
        Block::row("before", side(&answer.before)),
        Block::row("after", side(&answer.after)),
    ];
    let how = if answer.totals == "raw" { "as they are" } else { "as shares of the whole" };
    blocks.push(Block::row("compared", how));
    for (title, rows) in [("Grew, in themselves", &answer.grew), ("Shrank, in themselves", &answer.shrank)] {
        blocks.push(Block::heading(title));
        blocks.push(if rows.is_empty() { Block::Note("None.".to_owned()) } else { table(rows) });
    }
    if let Some(file) = &answer.written {
        blocks.push(Block::row("written", file));
    }
    blocks
}

fn table(rows: &[Row]) -> Block {
    let row = |one: &Row| {
        [
            format!("{:+.1} points", one.own_change_share * 100.0),
            percent(one.own_before_share),
            percent(one.own_after_share),
            format!("{} → {}", percent(one.with_before_share), percent(one.with_after_share)),
            one.kind.to_owned(),
            short(&one.function),
        ]
    };
    Block::table(["change", "before", "after", "with calls", "kind", "function"], rows.iter().map(row).collect())
}
