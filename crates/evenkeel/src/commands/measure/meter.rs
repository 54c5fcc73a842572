//! `Meter`: the declarations of a file in `meters/`. The subcommand, its JSON, its page and the meter's part of the card derive from it.

use serde::Serialize;

use super::card::CardTurn;
use super::context::Context;
use crate::failure::{Failure, Outcome};
use crate::show::finding::{Finding, busy};
use crate::show::json;
use crate::view::Block;

/// A meter. The implementing type holds its arguments, and the documentation of that type is the help of the subcommand.
pub(crate) trait Meter: clap::Args {
    /// The name in `evenkeel measure NAME`.
    const NAME: &'static str;
    /// The title of the HTML page.
    const TITLE: &'static str;
    /// The format number of the JSON answer.
    const FORMAT: u32 = json::FORMAT;
    /// How `measure all` runs it; none if the card has no part for it.
    const CARD: Option<CardTurn> = None;
    /// Whether other programs that use the CPUs spoil the numbers.
    const NEEDS_IDLE: bool = true;
    /// The JSON answer.
    type Report: Serialize + schemars::JsonSchema;

    /// Measures as the arguments say.
    fn measure(&self, context: &Context<'_>) -> Result<Self::Report, Failure>;

    /// The sentence that the page opens with: whether the numbers are good, and compared with what. None if nothing was measured.
    fn finding(report: &Self::Report) -> Option<Finding>;

    /// The content of the terminal and HTML page below the finding.
    fn page(report: &Self::Report) -> Vec<Block>;

    /// Measures, and gives the answer.
    fn run(&self, context: &Context<'_>) -> Outcome {
        let report = self.measure(context)?;
        let others = Self::NEEDS_IDLE.then(|| context.others()).flatten();
        let page = |report: &Self::Report| {
            let finding = Self::finding(report).map(|finding| Block::Finding(None, finding.if_idle(others)));
            let busy = finding.as_ref().and(busy(others)).map(Block::Warning);
            finding.into_iter().chain(busy).chain(Self::page(report)).collect()
        };
        context.answer_in(Self::FORMAT, Self::TITLE, &report, page)
    }
}
