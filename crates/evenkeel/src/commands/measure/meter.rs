//! `Meter`: all that a file in `meters/` declares. The subcommand, its JSON, its page and the meter's part of the card derive from it.

use serde::Serialize;

use super::card::CardTurn;
use super::context::Context;
use crate::failure::{Failure, Outcome};
use crate::show::blocks::Block;
use crate::show::json;

/// A meter. The implementing type holds its arguments, and the documentation of that type is the help of the subcommand.
pub(crate) trait Meter: clap::Args {
    /// As in `evenkeel measure NAME`.
    const NAME: &'static str;
    /// The title of the HTML page.
    const TITLE: &'static str;
    /// The format number of the JSON answer.
    const FORMAT: u32 = json::FORMAT;
    /// How `measure all` runs it; none if the card has no part for it.
    const CARD: Option<CardTurn> = None;
    /// The JSON answer.
    type Report: Serialize;

    /// Measures as the arguments say.
    fn measure(&self, context: &Context<'_>) -> Result<Self::Report, Failure>;

    /// What the terminal and the HTML page show.
    fn page(report: &Self::Report) -> Vec<Block>;

    /// Measures, and gives the answer.
    fn run(&self, context: &Context<'_>) -> Outcome {
        let report = self.measure(context)?;
        context.answer_in(Self::FORMAT, Self::TITLE, &report, Self::page)
    }
}
