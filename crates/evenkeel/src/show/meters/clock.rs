//! The page of `measure clock`.

use evenkeel_measure::meters::clock::Report;

use crate::show::blocks::Block;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    report.costs.iter().cloned().map(Block::Histogram).collect()
}
