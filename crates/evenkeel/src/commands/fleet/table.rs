//! `fleet table`: the cards of many machines by generation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_measure::card::table::{GenerationTable, TIME_SLICES, TableAsked, table};
use evenkeel_measure::card::{Card, MAX_CARD_BYTES};
use serde::Serialize;

use crate::args::named_limit;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::{self, Out};

/// The most cards.
const CARDS_MAX: usize = 10_000;
/// What holds a tick if nobody says so: a packet wakes its thread within 2 ms in 99 of 100 cases.
const USUAL_LIMIT: (&str, f64) = ("wake_udp_100us_ns_p99", 2e6);
/// The numbers on the page if nobody chooses.
const USUAL_LINES: [&str; 5] =
    ["wake_udp_100us_ns_p99", "gaps_longest_ns", "quantum_share_ppm", "clock_all_busy_khz", "memory_65536kib_small_ps"];

/// Merge the cards of many machines by hardware generation: medians, spreads, and which generations hold a tick
///
/// A card is the file of `evenkeel measure all --output FILE.json`. Machines with the same traits are a generation. Names of traits and of numbers are those
/// of the cards; `time slices` follows from the numbers of the quantum meter. A machine holds the limits if each number is at most N, or at
/// least N where more is better.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel fleet table cards/*.json
  evenkeel fleet table cards/ --by CPU --limit gaps_longest_ns=5000000
  evenkeel fleet table cards/ --line udp_echo_ns_p99 --line disk_sync_write_ns_p99")]
pub(crate) struct Args {
    /// Cards, or folders with cards (*.json)
    #[arg(value_name = "CARD.json", required = true)]
    cards: Vec<PathBuf>,
    /// The traits that make a generation [default: instance type, CPU, time slices]
    #[arg(long, value_name = "TRAIT,…", value_delimiter = ',')]
    by: Vec<String>,
    /// A number that a machine has to hold; repeatable [default: wake_udp_100us_ns_p99=2000000]
    #[arg(long, value_name = "NUMBER=N", value_parser = limit)]
    limit: Vec<(String, f64)>,
    /// A number on the page; repeatable. JSON has all
    #[arg(long, value_name = "NUMBER")]
    line: Vec<String>,
}

/// The table of generations.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    #[serde(flatten)]
    table: GenerationTable,
    /// Files that are no cards, with the reason for each.
    unread: Vec<Unread>,
}

/// A file that is no card.
#[derive(Serialize, schemars::JsonSchema)]
struct Unread {
    file: String,
    why: String,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let (mut cards, mut unread) = (Vec::new(), Vec::new());
    for path in files(&args.cards)? {
        let file = path.display().to_string();
        let text = user_file::read_text(&path, MAX_CARD_BYTES as u64).map_err(|error| error.to_string());
        match text.and_then(|text| Card::parse(&text).map_err(|error| format!("failed to {error}"))) {
            Ok(card) => cards.push((file, card)),
            Err(why) => unread.push(Unread { file, why }),
        }
    }
    if cards.is_empty() {
        let why = unread
            .first()
            .map_or_else(|| "there is no file *.json".to_owned(), |one| format!("{}: {}", one.file, one.why));
        return Err(Failure::text(exit::WRONG_USE, "find a card", why)
            .hint("`evenkeel measure all --output FILE.json` writes a card"));
    }
    let usual_by = || ["instance type", "CPU", TIME_SLICES].map(str::to_owned).to_vec();
    let asked = TableAsked {
        by: if args.by.is_empty() { usual_by() } else { args.by.clone() },
        limits: if args.limit.is_empty() {
            vec![(USUAL_LIMIT.0.to_owned(), USUAL_LIMIT.1)]
        } else {
            args.limit.clone()
        },
    };
    let answer = Answer { table: table(&cards, &asked), unread };
    let lines = if args.line.is_empty() { USUAL_LINES.map(str::to_owned).to_vec() } else { args.line.clone() };
    let unread = answer.unread.iter().map(|one| format!("{}: {}", one.file, one.why)).collect::<Vec<_>>();
    out.answer(&answer, || show::fleet::table::page(&answer.table, &lines, &unread))?;
    Ok(exit::WELL)
}

/// The files that are named, and the *.json of the folders that are named.
fn files(named: &[PathBuf]) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut files = BTreeSet::new();
    for path in named {
        if path.is_dir() {
            files.extend(of_folder(path)?);
        } else {
            files.insert(path.clone());
        }
        if files.len() > CARDS_MAX {
            return Err(Failure::text(exit::WRONG_USE, "read the cards", format_args!("more than {CARDS_MAX} files")));
        }
    }
    Ok(files)
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::io(exit::WRONG_USE, format_args!("read the folder {}", folder.display()), &error);
    let entries = std::fs::read_dir(folder).map_err(failed)?.take(CARDS_MAX + 1);
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect())
}

fn limit(text: &str) -> Result<(String, f64), String> {
    named_limit(text, "gaps_longest_ns=5000000")
}
