//! The page of `profile scopes`.

use evenkeel_measure::Unit;
use evenkeel_profile::scopes::{Long, Row, Which};
use serde::Serialize;

use crate::show::units::quantity;
use crate::view::Block;

/// The maximum number of rows on the page. The JSON answer has all rows.
const ROWS_MAX: usize = 40;

/// The quantum and its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Quantum {
    /// The quantum, in nanoseconds.
    pub(crate) quantum_ns: u64,
    /// The source of the quantum.
    pub(crate) quantum_from: From,
}

/// The source of the quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    /// The command line.
    Given,
    /// The server's own measurement.
    Telemetry,
    /// The default value. The server measured that nothing takes CPU time away from it.
    Whole,
    /// The default value, because no measurement exists.
    Assumed,
}

pub(crate) fn blocks(long: &Long, quantum: Quantum) -> Vec<Block> {
    let ns = |ns: u64| quantity(ns, Unit::Ns);
    let from = match quantum.quantum_from {
        From::Given => "from --quantum-ms",
        From::Telemetry => "measured by the server",
        From::Whole => {
            "assumed, because the server measured that nothing takes its CPU away; to change it: --quantum-ms"
        }
        From::Assumed => "assumed; measure it with evenkeel measure quantum, and pass it with --quantum-ms",
    };
    let which = match long.which {
        Which::Leaf => "without inner scopes",
        Which::All => "of all depths",
    };
    let mut blocks = vec![
        Block::heading("Scopes that keep the CPU for longer than half a quantum"),
        Block::row("quantum", format!("{}, {from}", ns(quantum.quantum_ns))),
        Block::row("long", format!("over {} on the CPU", ns(long.over_ns))),
        Block::row("examined", format!("{} scopes {which}, in {}", long.scopes, ns(long.length_ns))),
        Block::row("switched out", format!("known from the recording for {} of them", long.covered)),
    ];
    if long.rows.is_empty() {
        let unjudged = long.unjudged.switched_out + long.unjudged.unknown + long.unjudged.cut;
        let none = if unjudged == 0 { "Good: no scope was long." } else { "No scope that can be judged was long." };
        blocks.push(Block::Note(none.to_owned()));
    } else {
        let count: u64 = long.rows.iter().map(|row| row.count).sum();
        blocks.push(Block::Note(format!(
            "{count} of {} scopes were long. They are likely to be interrupted; a server without long scopes has 0. Divide this work, or move it.",
            long.scopes
        )));
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
        blocks.push(Block::Note(format!("These are {ROWS_MAX} of {} rows; --json has all.", long.rows.len())));
    }
    blocks.extend(not_judged(long));
    blocks
}

fn not_judged(long: &Long) -> Vec<Block> {
    let unjudged = long.unjudged;
    let table = [
        (
            unjudged.switched_out,
            "scopes in which the thread was switched out for an unknown time. Record switches at the same time, and pass --recording",
        ),
        (
            unjudged.unknown,
            "scopes in which the thread may have been switched out. Record switches at the same time, and pass --recording",
        ),
        (unjudged.cut, "scopes whose inner scopes may have been overwritten. Use longer rings"),
        (
            long.overwritten,
            "older scopes, which were overwritten before they were read. Use longer rings, or read them more often",
        ),
    ];
    let counts = table.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| Block::Warning(format!("Not judged: {count} {what}."))).collect()
}
