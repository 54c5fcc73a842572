//! The page of `profile diff`.

use super::view::short;
use crate::commands::profile::diff::{Answer, Row, Side};
use crate::show::blocks::Block;
use crate::show::units::percent;

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
