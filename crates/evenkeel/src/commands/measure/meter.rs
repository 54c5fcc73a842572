//! `Meter`: the declaration of each file in `meters/`.
//! evenkeel derives the subcommand, its JSON, its page and the meter's part of the card from it.

use serde::Serialize;

use super::card::CardTurn;
use super::context::Context;
use crate::failure::{Failure, Outcome};
use crate::show::finding::{Finding, busy};
use crate::show::json;
use crate::view::Block;

/// A meter. Its type has the arguments as fields. The documentation of the type is the help of the subcommand.
pub(crate) trait Meter: clap::Args {
    /// The name of the meter in `evenkeel measure NAME`.
    const NAME: &'static str;
    /// The title of the HTML page.
    const TITLE: &'static str;
    /// The format number of the JSON answer.
    const FORMAT: u32 = json::FORMAT;
    /// The meter's part of the card of `measure all`; `None` if the card has no numbers of this meter.
    const CARD: Option<CardTurn> = None;
    /// Whether use of the CPUs by other programs makes the numbers wrong.
    const NEEDS_IDLE: bool = true;
    /// The JSON answer.
    type Report: Serialize + schemars::JsonSchema;

    /// Measures, with these arguments.
    fn measure(&self, context: &Context<'_>) -> Result<Self::Report, Failure>;

    /// The first sentence of the page: whether the numbers are good, and compared with what.
    /// `None` if the meter measured nothing.
    fn finding(report: &Self::Report) -> Option<Finding>;

    /// The content of the page below the finding, for the terminal and for HTML.
    fn page(report: &Self::Report) -> Vec<Block>;

    /// Measures, and prints the answer.
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
