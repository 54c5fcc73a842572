//! `evenkeel regions`: chooses regions for servers by the latency of the players.

use std::path::{Path, PathBuf};

use evenkeel_fleet::regions::{
    self, Answer as Chosen, CANDIDATES_MAX, Candidate, Candidates, Goal, RegionsError, Report,
};
use serde::Serialize;

use crate::args::{cloud, number};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::show::{self, Out};
use crate::user_table;

/// The maximum size of a table of players. A million rows with sixty latencies take half a gigabyte.
const TABLE_BYTES_MAX: u64 = 8 << 30;
/// The maximum size of a list of regions.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// The hint that describes a table of players.
const COLUMNS: &str = "a table of players has a column for each region, or the columns latitude and longitude; and optionally players and \
                   group. A column of another name counts as a region. docs/regions.md has examples";

/// Choose the cloud regions with the lowest latency for nearly all players
///
/// Reads a CSV file with one row for each player, or for each group of players.
/// Its columns are latencies in milliseconds, one column a region;
/// or latitude and longitude, from which evenkeel estimates latencies.
/// A column `players` is the size of a group, a column `group` or `country` its name.
/// With --count, chooses that many regions with the lowest p95.
/// With --within, chooses the fewest regions that keep p95 within the limit.
/// Then lists the players who are left behind, and the region that would serve them.
/// The answer is exact for up to 60 regions;
/// if the search becomes too long, it reports how much better another set could be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel regions pings.csv --count 3
  evenkeel regions pings.csv --within 80
  evenkeel regions players.csv --provider aws --count 4 --keep us-east-1 --map map.svg
  evenkeel regions players.csv --candidates mine.csv --within 60 --percentile 99")]
pub(crate) struct Args {
    /// The players, as CSV
    #[arg(value_name = "PLAYERS.csv")]
    players: PathBuf,
    /// Choose N regions with the lowest percentile of latency
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    count: Option<u32>,
    /// Choose the fewest regions that keep the percentile within MS milliseconds;
    /// with --count, only list the players above MS
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    within: Option<f64>,
    /// The percentage of players whose latency counts, from 1 to 100
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = thousandths)]
    percentile: u32,
    /// Choose from the regions of this cloud; repeatable
    #[arg(long, value_name = "CLOUD", value_parser = cloud())]
    provider: Vec<String>,
    /// Choose from the regions in FILE instead: CSV with the columns region, latitude, longitude
    #[arg(long, value_name = "FILE", conflicts_with = "provider")]
    candidates: Option<PathBuf>,
    /// Choose only from these regions
    #[arg(long, value_name = "REGION,…", value_delimiter = ',')]
    among: Vec<String>,
    /// Always include these regions; they count for --count
    #[arg(long, value_name = "REGION,…", value_delimiter = ',')]
    keep: Vec<String>,
    /// Write a map of regions and players to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Overwrite FILE of --map if it exists
    #[arg(long, requires = "map")]
    force: bool,
}

/// The chosen regions.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The table of players.
    file: String,
    #[serde(flatten)]
    report: Report,
    /// The file of the map; `null` without --map.
    map: Option<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(path) = &args.map {
        output_file::is_free(path, args.force)?;
    }
    if args.count.is_none() && args.within.is_none() {
        let sentence = "evenkeel regions needs --count N or --within MS".to_owned();
        return Err(Failure::wrong_use(sentence)
            .hint("--count 3 chooses three regions; --within 80 chooses the fewest that keep p95 within 80 ms"));
    }
    let candidates = Candidates { listed: args.listed()?, among: args.among.clone(), keep: args.keep.clone() };
    let goal = Goal { count: args.count, within_ms: args.within, thousandths: args.percentile };
    let table = user_table::open(&args.players, TABLE_BYTES_MAX)?;
    let chosen = regions::choose(table, &candidates, &goal).map_err(|error| args.failure(error))?;
    let map = args.map.as_ref().map(|path| write_map(path, &chosen)).transpose()?;
    let answer = Answer { file: args.players.display().to_string(), report: chosen.report, map };
    out.answer(&answer, || show::regions::page(&answer.report, answer.map.as_deref()))?;
    Ok(exit::WELL)
}

impl Args {
    /// The candidates that the options name; `None` if the options name no candidates.
    fn listed(&self) -> Result<Option<Vec<Candidate>>, Failure> {
        if let Some(path) = &self.candidates {
            let listed = regions::read_candidates(user_table::open(path, LIST_BYTES_MAX)?);
            return listed.map(Some).map_err(|error| user_table::failure(path, &error, COLUMNS));
        }
        if self.provider.is_empty() {
            return Ok(None);
        }
        let is_wanted =
            |one: &Candidate| one.provider.as_ref().is_some_and(|provider| self.provider.contains(provider));
        Ok(Some(regions::catalogue().into_iter().filter(is_wanted).collect()))
    }

    fn failure(&self, error: RegionsError) -> Failure {
        let tried = format!("choose regions for the players in {}", self.players.display());
        let hint = match &error {
            RegionsError::Table(error) => return user_table::failure(&self.players, error, COLUMNS),
            RegionsError::NoCandidates => {
                "name a cloud with --provider aws, azure or google, or your own regions with --candidates FILE"
                    .to_owned()
            }
            RegionsError::ListedAndMeasured => {
                "leave out --provider and --candidates; --among chooses from the columns".to_owned()
            }
            RegionsError::TooManyCandidates(_) => {
                format!("choose from at most {CANDIDATES_MAX}: name one --provider, or the regions with --among")
            }
            RegionsError::UnknownRegion(_) => {
                "--among and --keep take names of columns, or of regions of --provider or --candidates".to_owned()
            }
            RegionsError::OutOfReach { .. } => {
                "raise --within, lower --percentile, or choose --count regions and read who is left behind".to_owned()
            }
            RegionsError::TooFewReach { .. } => "raise --count, lower --percentile, or measure more players".to_owned(),
            RegionsError::Unmeasured { .. } => "lower --percentile, or measure more players".to_owned(),
            RegionsError::TooFew { .. } => "raise --count, or keep fewer regions".to_owned(),
            RegionsError::NoGoal => "name --count or --within".to_owned(),
        };
        // An unreachable goal is the answer to the user's question, not wrong use.
        let code = match error {
            RegionsError::OutOfReach { .. } | RegionsError::TooFewReach { .. } | RegionsError::Unmeasured { .. } => {
                exit::NO
            }
            _ => exit::WRONG_USE,
        };
        Failure::text(code, tried, error).hint(hint)
    }
}

fn write_map(path: &Path, chosen: &Chosen) -> Result<String, Failure> {
    let missing = || {
        let why = "no position is known of any of these regions";
        Failure::text(exit::WRONG_USE, format_args!("draw the map {}", path.display()), why)
            .hint("name the columns as the clouds name their regions, such as us-east-1, or leave out --map")
    };
    output_file::write(path, chosen.map().ok_or_else(missing)?.as_bytes())?;
    Ok(path.display().to_string())
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms = crate::times::ms(text).filter(|ms| *ms > 0.0 && *ms <= 60_000.0);
    ms.ok_or_else(|| "expected milliseconds above 0, at most 60000, such as 80 or 80ms".to_owned())
}

fn thousandths(text: &str) -> Result<u32, String> {
    const EXPECTED: &str = "a percentage from 1 to 100 with at most one decimal, such as 99.9";
    let tenths = number(text, 1.0..=100.0, EXPECTED)? * 10.0;
    // The number is in range, so the conversion is exact.
    if (tenths - tenths.round()).abs() < 1e-6 { Ok(tenths.round() as u32) } else { Err(EXPECTED.to_owned()) }
}
