//! `fleet table`: merges the cards of many machines by hardware generation.

use std::path::PathBuf;

use evenkeel_fleet::audit::Unread;
use evenkeel_hostfs::user_file;
use evenkeel_measure::card::table::{GenerationTable, TIME_SLICES, TableAsked, table};
use evenkeel_measure::card::{Card, MAX_CARD_BYTES};
use serde::Serialize;

use super::files::Wanted;
use crate::args::named_limit;
use crate::exit;
use crate::failure::Outcome;
use crate::show::{self, Out};

const CARDS: Wanted = Wanted {
    noun: "card",
    extension: "json",
    made_by: "`evenkeel measure all --output FILE.json` writes a card",
    max: 10_000,
};
/// The default limit for a machine that holds a tick: in 99 of 100 cases, a packet wakes its thread within 2 ms.
const USUAL_LIMIT: (&str, f64) = ("wake_udp_100us_ns_p99", 2e6);
/// The numbers that the page shows by default.
const USUAL_LINES: [&str; 5] =
    ["wake_udp_100us_ns_p99", "gaps_longest_ns", "quantum_share_ppm", "clock_all_busy_khz", "memory_65536kib_small_ps"];

/// Merge the cards of many machines by hardware generation: medians, spreads, and which generations hold a tick
///
/// A card is the file of `evenkeel measure all --output FILE.json`. Machines with the same traits are a generation.
/// Traits and numbers have the names that the cards use;
/// `time slices` is derived from the numbers of the quantum meter.
/// A machine holds the limits if each number is at most N, or at least N where more is better.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel fleet table cards/*.json
  evenkeel fleet table cards/ --by CPU --limit gaps_longest_ns=5000000
  evenkeel fleet table cards/ --line udp_echo_ns_p99 --line disk_sync_write_ns_p99")]
pub(crate) struct Args {
    /// Cards, or folders with cards (*.json)
    #[arg(value_name = "CARD.json", required = true)]
    cards: Vec<PathBuf>,
    /// The traits that define a generation [default: instance type, CPU, time slices]
    #[arg(long, value_name = "TRAIT,…", value_delimiter = ',')]
    by: Vec<String>,
    /// A limit that a machine has to hold; repeatable [default: wake_udp_100us_ns_p99=2000000]
    #[arg(long, value_name = "NUMBER=N", value_parser = limit)]
    limit: Vec<(String, f64)>,
    /// A number to show on the page; repeatable. JSON has all
    #[arg(long, value_name = "NUMBER")]
    line: Vec<String>,
}

/// The table of generations.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    #[serde(flatten)]
    table: GenerationTable,
    /// Files that are not cards, with the reason for each.
    unread: Vec<Unread>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let (mut cards, mut unread) = (Vec::new(), Vec::new());
    for path in CARDS.files(&args.cards, &mut unread)? {
        let file = path.display().to_string();
        let text = user_file::read_text(&path, MAX_CARD_BYTES as u64).map_err(|error| error.to_string());
        match text.and_then(|text| Card::parse(&text).map_err(|error| error.to_string())) {
            Ok(card) => cards.push((file, card)),
            Err(why) => unread.push(Unread { file, why }),
        }
    }
    if cards.is_empty() {
        return Err(CARDS.none(&args.cards, &unread));
    }
    let usual_by = || ["instance type", "CPU", TIME_SLICES].map(str::to_owned).to_vec();
    let asked = TableAsked {
        by: if args.by.is_empty() { usual_by() } else { args.by.clone() },
        limits: if args.limit.is_empty() {
            vec![(USUAL_LIMIT.0.to_owned(), USUAL_LIMIT.1)]
        } else {
            args.limit.clone()
        },
        lines: args.line.clone(),
    };
    let answer = Answer { table: table(&cards, &asked), unread };
    let lines = if args.line.is_empty() { USUAL_LINES.map(str::to_owned).to_vec() } else { args.line.clone() };
    let unread = answer.unread.iter().map(|one| format!("{}: {}", one.file, one.why)).collect::<Vec<_>>();
    out.answer(&answer, || show::fleet::table::page(&answer.table, &lines, &unread))?;
    Ok(exit::WELL)
}

fn limit(text: &str) -> Result<(String, f64), String> {
    named_limit(text, "gaps_longest_ns=5000000")
}
