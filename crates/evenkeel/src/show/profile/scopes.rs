//! The page of `profile scopes`.

use evenkeel_measure::Unit;
use evenkeel_profile::scopes::{Long, Row, Which};
use serde::Serialize;

use crate::show::blocks::Block;
use crate::show::units::quantity;

/// Rows that are shown; all are in the JSON answer.
const ROWS_MAX: usize = 40;

/// How long a CPU is given for, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Quantum {
    /// In nanoseconds.
    pub(crate) quantum_ns: u64,
    /// Who says so.
    pub(crate) quantum_from: From,
}

/// Who says how long a CPU is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    /// An argument.
    Given,
    /// The server, which measured it.
    Telemetry,
    /// The server measured, and found that its CPU is not taken away; the usual one.
    Whole,
    /// Nobody; the usual one.
    Assumed,
}

pub(crate) fn blocks(long: &Long, quantum: Quantum) -> Vec<Block> {
    let ns = |ns: u64| quantity(ns, Unit::Ns);
    let from = match quantum.quantum_from {
        From::Given => "as given",
        From::Telemetry => "as the server measured it",
        From::Whole => "assumed: the server measured that its CPU is not taken away; --quantum-ms says another",
        From::Assumed => "assumed: nobody measured it; --quantum-ms says another, evenkeel measure quantum measures it",
    };
    let which = match long.which {
        Which::Leaf => "that have no other one inside",
        Which::All => "of all depths",
    };
    let mut blocks = vec![
        Block::heading("Scopes that keep the CPU for longer than half a quantum"),
        Block::row("quantum", format!("{}, {from}", ns(quantum.quantum_ns))),
        Block::row("long", format!("over {}, less the time switched out", ns(long.over_ns))),
        Block::row("looked at", format!("{} scopes {which}, in {}", long.scopes, ns(long.length_ns))),
        Block::row("switched out", format!("told by a recording for {} of them", long.covered)),
    ];
    if long.rows.is_empty() {
        let unjudged = long.unjudged.switched_out + long.unjudged.unknown + long.unjudged.cut;
        let none = if unjudged == 0 { "None was long." } else { "None of those that can be judged was long." };
        blocks.push(Block::Note(none.to_owned()));
    } else {
        let seconds = (long.length_ns as f64 / 1e9).max(1e-9);
        let row = |row: &Row| {
            let rate = format!("{:.2}/s", row.count as f64 / seconds);
            let count = format!("{} of {}", row.count, row.of);
            let (name, lengths) = (row.thread.clone(), row.long);
            let thread = row.tid.map_or(name.clone(), |tid| format!("{name} ({tid})"));
            let [p50, p99, max, total] = [lengths.p50_ns, lengths.p99_ns, lengths.max_ns, lengths.total_ns].map(ns);
            [row.scope.clone(), thread, count, rate, p50, p99, max, total]
        };
        let header = ["scope", "thread", "long", "rate", "p50", "p99", "max", "total"];
        blocks.push(Block::table(header, long.rows.iter().take(ROWS_MAX).map(row).collect()));
    }
    if long.rows.len() > ROWS_MAX {
        blocks.push(Block::Note(format!("{ROWS_MAX} of {} rows; the others are in --json.", long.rows.len())));
    }
    blocks.extend(not_judged(long));
    blocks
}

fn not_judged(long: &Long) -> Vec<Block> {
    let unjudged = long.unjudged;
    let table = [
        (
            unjudged.switched_out,
            "were longer, but their thread was switched out for nobody knows how long: record its switches meanwhile, and give --recording",
        ),
        (
            unjudged.unknown,
            "were longer, and whether their thread was switched out is not known: record its switches meanwhile, and give --recording",
        ),
        (unjudged.cut, "were longer, and what was inside them may have been overwritten: give threads longer rings"),
        (
            long.overwritten,
            "older ones were overwritten before they were read: give threads longer rings, or read them sooner",
        ),
    ];
    let counts = table.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| Block::Warning(format!("Not judged: {count} {what}."))).collect()
}
