//! `evenkeel instances`: finds the instance type for the needs of sessions.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_fleet::instances::{
    self, Architecture, InstancesAsked, InstancesReport, PriceBook, PriceError, PricesWanted,
};
use evenkeel_fleet::{Session, TableError, pack, read_sessions};
use evenkeel_host::catalogue;
use evenkeel_hostfs::json_words;
use serde::Serialize;

use super::pack::SESSION_COLUMNS;
use crate::args::{cloud, number};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::{self, Out};
use crate::user_table;

/// The maximum size of a price file. Amazon's list of all regions takes several gigabytes.
const PRICES_BYTES_MAX: u64 = 64 << 30;
/// The maximum size of a table of sessions.
const SESSIONS_BYTES_MAX: u64 = 16 << 20;

/// Choose the instance type with the lowest cost of a session
///
/// Computes from documented figures how many sessions each instance type of Amazon, Azure and Google holds.
/// The limits are cores, memory, sustained network rate and CPU credits.
/// Prices are files that you downloaded: Amazon's price list or spot price history,
/// Azure's retail prices, Google's SKUs, or CSV with the columns instance_type, usd_per_hour and region.
/// docs/instances-for-sessions.md describes them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel instances --session cpus=0.12,memory_mib=300 --prices aws.json
  evenkeel instances sessions.csv --prices azure.json --prices mine.csv --no-burst --sessions 20
  evenkeel instances --session cpus=0.4 --cloud google --arch arm64")]
pub(crate) struct Args {
    /// The sessions, as CSV
    #[arg(value_name = "SESSIONS.csv", required_unless_present = "session")]
    sessions: Option<PathBuf>,
    /// What a session needs; repeatable for several kinds, with count=N
    #[arg(long, value_name = "cpus=N,…", value_parser = session, conflicts_with = "sessions")]
    session: Vec<Session>,
    /// Read prices from FILE; repeatable
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// Use the prices of spot capacity
    #[arg(long, requires = "prices")]
    spot: bool,
    /// Only types with a price in this region, as the cloud names it
    #[arg(long, value_name = "REGION", requires = "prices")]
    region: Option<String>,
    /// Only types of this cloud: aws, azure or google; repeatable
    #[arg(long, value_name = "CLOUD", hide_possible_values = true, value_parser = cloud())]
    cloud: Vec<String>,
    /// Only types with this architecture: x86_64 or arm64
    #[arg(long, value_enum, value_name = "ARCH", hide_possible_values = true)]
    arch: Option<Arch>,
    /// No burstable types
    #[arg(long)]
    no_burst: bool,
    /// Only types that hold at least N sessions [default: 1]
    #[arg(long = "sessions", value_name = "N", default_value = "1", hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sessions_min: u32,
    /// The highest load of a core, from 0.05 to 1 [default: 0.7]
    #[arg(long, value_name = "SHARE", default_value_t = pack::LOAD_MAX, hide_default_value = true, value_parser = super::pack::load)]
    load_max: f64,
    /// The value of a core's second thread, as a share of the first [default: 0]
    #[arg(long, value_name = "SHARE", default_value = "0", hide_default_value = true, value_parser = share)]
    second_thread: f64,
    /// The type that the needs were measured on: evenkeel scales CPU time by the clock
    #[arg(long, value_name = "TYPE")]
    measured_on: Option<String>,
    /// Show N types; JSON has all [default: 12]
    #[arg(long, value_name = "N", default_value = "12", hide_default_value = true, value_parser = clap::value_parser!(u16).range(1..=2000))]
    rows: u16,
}

/// The architecture of a processor.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Arch {
    /// AMD and Intel.
    #[value(name = "x86_64")]
    X86,
    /// Graviton, Ampere and others.
    #[value(name = "arm64")]
    Arm,
}

/// The candidates.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The table of sessions; `null` if options gave the needs.
    file: Option<String>,
    #[serde(flatten)]
    report: InstancesReport,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let sessions = args.needs()?;
    let asked = args.asked()?;
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let wanted = PricesWanted { is_spot: args.spot, region: args.region.clone(), at: Some(at) };
    let mut book = PriceBook::new(wanted);
    for path in &args.prices {
        let file = user_table::open(path, PRICES_BYTES_MAX)?;
        book.add(&path.display().to_string(), file).map_err(|error| args.of_prices(path, &error))?;
    }
    if let Some(first) = args.prices.first() {
        book.refuse_empty().map_err(|error| args.of_prices(first, &error))?;
    }
    let report = instances::choose(&sessions, &asked, &book);
    let answer = Answer { file: args.sessions.as_ref().map(|path| path.display().to_string()), report };
    out.answer(&answer, || show::instances::page(&answer.report, usize::from(args.rows)))?;
    Ok(if answer.report.candidates.is_empty() { exit::NO } else { exit::WELL })
}

impl Args {
    fn needs(&self) -> Result<Vec<Session>, Failure> {
        let Some(path) = &self.sessions else { return Ok(self.session.clone()) };
        let table = user_table::open(path, SESSIONS_BYTES_MAX)?;
        read_sessions(table).map_err(|error| user_table::failure(path, &error, SESSION_COLUMNS))
    }

    fn asked(&self) -> Result<InstancesAsked, Failure> {
        let measured_on = self.measured_on.as_ref().map(|name| {
            catalogue::instance(name).ok_or_else(|| {
                let why = format!("the catalogue of instance types does not have {name:?}");
                Failure::text(exit::WRONG_USE, "scale by the clock", why)
                    .hint("docs/instances.md lists the types; without --measured-on, nothing is scaled")
            })
        });
        Ok(InstancesAsked {
            clouds: self.cloud.clone(),
            region: self.region.clone(),
            architecture: self.arch.map(|arch| match arch {
                Arch::X86 => Architecture::X86,
                Arch::Arm => Architecture::Arm,
            }),
            is_burst_excluded: self.no_burst,
            is_spot: self.spot,
            sessions_min: self.sessions_min,
            load_max: self.load_max,
            second_thread_share: self.second_thread,
            measured_on: measured_on.transpose()?,
        })
    }

    fn of_prices(&self, path: &Path, error: &PriceError) -> Failure {
        let formats = "prices are Amazon's price list (JSON or CSV) or spot price history, Azure's retail prices (JSON), Google's SKUs (JSON), or \
                       CSV with the columns instance_type, usd_per_hour and region. docs/instances-for-sessions.md says where to get them";
        let hint = match error {
            PriceError::Read(error) => {
                return Failure::io(exit::WRONG_USE, format_args!("read {}", path.display()), error).hint(formats);
            }
            PriceError::Table(error) => return user_table::failure(path, error, formats),
            PriceError::Json(error) => {
                let why = json_words::plain(error);
                return Failure::text(exit::WRONG_USE, format_args!("read {}", path.display()), why).hint(formats);
            }
            PriceError::Currencies { .. } => {
                "convert them, and give the prices as CSV with the column usd_per_hour".to_owned()
            }
            PriceError::NoPrices(_) => match (&self.region, self.spot) {
                (Some(region), _) => format!("is {region} the region's name in this file?"),
                (None, true) => "leave out --spot for the prices on demand".to_owned(),
                (None, false) => "--spot takes the prices of spot capacity".to_owned(),
            },
            _ => formats.to_owned(),
        };
        Failure::text(exit::WRONG_USE, format_args!("read {}", path.display()), error).hint(hint)
    }
}

/// Parses `cpus=0.12,memory_mib=300` as one row of the table of sessions.
fn session(text: &str) -> Result<Session, String> {
    let pairs: Option<Vec<(&str, &str)>> = text.split(',').map(|pair| pair.split_once('=')).collect();
    let pairs = pairs.ok_or_else(|| "write KEY=N, such as cpus=0.12,memory_mib=300".to_owned())?;
    let (names, values): (Vec<&str>, Vec<&str>) = pairs.into_iter().unzip();
    let table = format!("{}\n{}\n", names.join(","), values.join(","));
    let mut sessions = read_sessions(table.as_bytes()).map_err(|error| match error {
        TableError::Line { fault, .. } | TableError::Whole(fault) => fault.to_string(),
        TableError::Read(error) => error.to_string(),
    })?;
    sessions.pop().ok_or_else(|| "write KEY=N, such as cpus=0.12".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1.0, "a share from 0 to 1")
}
