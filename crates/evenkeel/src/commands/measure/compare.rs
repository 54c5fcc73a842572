//! `evenkeel measure compare`: compares two cards.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_measure::card::{Card, CardError, MAX_CARD_BYTES, compare};

use super::Context;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::card::{self, Answer, Side};

/// Compare two machines' cards: which is better, and which differences are beyond the spread of the rounds
///
/// A difference counts if the ranges of the rounds on the two cards do not overlap.
/// The page also lists numbers that only one card has.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure compare card-a.json card-b.json")]
pub(crate) struct Args {
    /// The first card, which `measure all --output` wrote
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The second card
    #[arg(value_name = "B.json")]
    b: PathBuf,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b);
    let side = |file: &Path, card: Card| Side { file: file.display().to_string(), taken: card.taken, host: card.host };
    let answer = Answer { a: side(&args.a, a), b: side(&args.b, b), comparison };
    context.answer("Two machines", &answer, card::comparison)
}

fn read(file: &Path) -> Result<Card, Failure> {
    let tried = || format!("read the card {}", file.display());
    let hint = "`evenkeel measure all --output FILE.json` writes a card";
    let text = user_file::read_text(file, MAX_CARD_BYTES as u64)
        .map_err(|error| Failure::user_file(tried(), &error).or_hint(hint))?;
    Card::parse(&text).map_err(|error: CardError| Failure::text(exit::WRONG_USE, tried(), error).hint(hint))
}
