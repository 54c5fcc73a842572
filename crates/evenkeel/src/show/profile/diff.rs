//! The page of `profile diff`.

use evenkeel_profile::graph::Quantity;
use serde::Serialize;

use super::view::short;
use crate::show::units::percent;
use crate::view::Block;

/// The answer.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    pub(crate) before: Side,
    pub(crate) after: Side,
    /// How the comparison treated the two totals: `equal` if it scaled the first recording, or `raw`.
    pub(crate) totals: &'static str,
    /// The factor by which the comparison multiplied the weights of the first recording.
    pub(crate) scale: f64,
    /// Functions whose own share grew, with the largest change first.
    pub(crate) grew: Vec<Row>,
    /// Functions whose own share shrank, with the largest change first.
    pub(crate) shrank: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<String>,
}

/// One of the two recordings.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Side {
    pub(crate) file: String,
    pub(crate) unit: String,
    pub(crate) weight: u64,
    #[serde(skip)]
    pub(crate) quantity: Quantity,
}

/// A function in both recordings. Shares are of the larger of the two totals.
#[derive(Debug, Serialize, schemars::JsonSchema)]
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
    let side = |side: &Side| format!("{}: {}", side.file, side.quantity.to_text(side.weight));
    let mut blocks = vec![
        Block::heading("Comparison of two recordings"),
        Block::Note(summary(answer)),
        Block::row("before", side(&answer.before)),
        Block::row("after", side(&answer.after)),
    ];
    let how = if answer.totals == "raw" { "without scaling" } else { "as shares of the total" };
    blocks.push(Block::row("compared", how));
    for (title, rows) in
        [("More time in the function itself", &answer.grew), ("Less time in the function itself", &answer.shrank)]
    {
        blocks.push(Block::heading(title));
        blocks.push(if rows.is_empty() { Block::Note("None.".to_owned()) } else { table(rows) });
    }
    if let Some(file) = &answer.written {
        blocks.push(Block::row("written", file));
    }
    blocks
}

/// Text with the largest changes, and the accuracy of a share.
fn summary(answer: &Answer) -> String {
    let largest = |rows: &[Row]| {
        let words = |row: &Row| format!("{} ({:+.1} points)", short(&row.function), row.own_change_share * 100.0);
        rows.first().map_or_else(|| "none".to_owned(), words)
    };
    format!(
        "Largest increase: {}. Largest decrease: {}. Small changes may be chance: with 1000 samples, a share of 10 % is accurate to ±2 points.",
        largest(&answer.grew),
        largest(&answer.shrank)
    )
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
