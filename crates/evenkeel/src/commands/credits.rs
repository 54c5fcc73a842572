//! `evenkeel credits`: forecasts when the CPU credits of a burstable instance run out.

mod stored;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use evenkeel_fleet::credits::{self, CreditsAsked, CreditsError, CreditsReport, StartCredits, Trace};
use evenkeel_host::Facts;
use evenkeel_host::catalogue::{self, Kind};
use evenkeel_host::credits::CreditMode;
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{self, CpuTicks};
use serde::Serialize;

use crate::args::{HostArgs, MetadataArgs, number};
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::{Failure, Outcome};
use crate::show::{self, Out};
use crate::times;
use crate::user_table;

/// The maximum size of a trace, in bytes.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// How often to read this machine's CPU use.
const EVERY: Duration = Duration::from_secs(1);
/// How often to check for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Forecast when the CPU credits of a burstable instance run out
///
/// Shows when the credits run out, and for how long the instance is then held at its baseline. It also shows the cost of the unlimited mode,
/// and which types of the same cloud serve the whole load from their credits. The CSV has the columns `time` and `cpus` or `cpu_percent`;
/// CloudWatch's `Timestamp` and `CPUUtilization` work too. A folder is a store of `evenkeel watch`. Knows Amazon's T2, T3, T3a and T4g, and Azure's B series.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel credits
  evenkeel credits cpu.csv --type t3.medium
  evenkeel credits /var/lib/evenkeel/watch --type t3.medium
  evenkeel credits cpu.csv --type t3.medium --mode standard --credits launch --days 90
  evenkeel credits --type Standard_B2s --for 10m")]
pub(crate) struct Args {
    /// The CPU use, as CSV, or the folder of a store of `watch` [default: this machine's, observed for --for]
    #[arg(value_name = "CPU.csv|DIR")]
    trace: Option<PathBuf>,
    /// The instance type [default: this machine's]
    #[arg(long = "type", value_name = "TYPE")]
    instance_type: Option<String>,
    /// What happens without credits: standard or unlimited [default: the cloud's default]
    #[arg(long, value_enum, value_name = "MODE", hide_possible_values = true)]
    mode: Option<Mode>,
    /// The credits at the start: full, launch (of a new instance), or a number [default: full]
    #[arg(long, value_name = "CREDITS", default_value = "full", hide_default_value = true, value_parser = start_credits)]
    credits: StartCredits,
    /// Repeat the CPU use for this many days, at most 366 [default: 30]
    #[arg(long, value_name = "DAYS", default_value = "30", hide_default_value = true, value_parser = days)]
    days: f64,
    /// Observe this machine for TIME [default: 1m]
    #[arg(long = "for", value_name = "TIME", default_value = "1m", hide_default_value = true, value_parser = times::time, conflicts_with = "trace")]
    observe: Duration,
    /// The number of CPUs that 100 % in the file means [default: the type's]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    vcpus: Option<u32>,
    /// The minimum memory of other types, in GiB
    #[arg(long, value_name = "GIB", value_parser = positive)]
    memory: Option<f64>,
    /// The price of a CPU hour beyond the credits in US dollars [default: the documented one]
    #[arg(long, value_name = "USD", value_parser = positive)]
    surplus_usd: Option<f64>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
}

/// What happens without credits.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// The cloud limits the instance to its baseline.
    Standard,
    /// The instance continues above its baseline, for a price.
    Unlimited,
}

/// The forecast.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The table of CPU use, or the folder of the store; `null` if this machine was observed.
    file: Option<String>,
    #[serde(flatten)]
    report: CreditsReport,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let name = args.type_of_machine()?;
    let instance = catalogue::instance(&name).ok_or_else(|| args.failure(CreditsError::UnknownType(name.clone())))?;
    // Fail before the observation, because it takes a minute by default.
    credits::rates(&instance).map_err(|error| args.failure(error))?;
    let trace = match &args.trace {
        Some(path) if path.is_dir() => {
            if args.vcpus.is_some() {
                let sentence = format!("--vcpus says what 100 % is, and the store {} has CPU times", path.display());
                return Err(Failure::wrong_use(sentence).hint("leave out --vcpus"));
            }
            stored::read(path)?
        }
        Some(path) => {
            let vcpus = args.vcpus.or_else(|| instance.number(Kind::Vcpus).map(|vcpus| vcpus as u32));
            credits::read_trace(user_table::open(path, TRACE_BYTES_MAX)?, vcpus).map_err(|error| args.failure(error))?
        }
        None => args.observed(out)?,
    };
    let asked = CreditsAsked {
        instance_type: name,
        mode: args.mode.map(|mode| match mode {
            Mode::Standard => CreditMode::Standard,
            Mode::Unlimited => CreditMode::Unlimited,
        }),
        start: args.credits,
        days: args.days,
        memory_gib: args.memory,
        surplus_usd_per_vcpu_hour: args.surplus_usd,
    };
    let report = credits::forecast(&trace, &asked).map_err(|error| args.failure(error))?;
    let answer = Answer { file: args.trace.as_ref().map(|path| path.display().to_string()), report };
    out.answer(&answer, || show::credits::page(&answer.report))?;
    Ok(exit::WELL)
}

impl Args {
    /// The type that the user named, or else this machine's type.
    fn type_of_machine(&self) -> Result<String, Failure> {
        if let Some(name) = &self.instance_type {
            return Ok(name.clone());
        }
        let root = self.metadata.open(&self.host)?;
        let found = Facts::probe(&root).machine.instance_type;
        found.known().cloned().ok_or_else(|| {
            Failure::text(
                exit::NOT_POSSIBLE,
                "forecast the credits of this machine",
                format_args!("its instance type is {found}"),
            )
            .hint("name it with --type, such as --type t3.medium, or ask the cloud with --metadata")
        })
    }

    /// Observes the CPU use of this machine.
    fn observed(&self, out: &Out) -> Result<Trace, Failure> {
        if !self.host.is_this_machine() {
            let sentence = "a captured machine does not show its CPU use over time".to_owned();
            return Err(Failure::wrong_use(sentence).hint("name a CSV file: evenkeel credits CPU.csv --host FILE"));
        }
        let stop = stop_flag()?;
        let seconds = self.observe.as_secs_f64();
        if !out.is_json() {
            out.warn(&format!(
                "observing the CPU use of this machine for {}; Ctrl-C ends it sooner\n",
                times::words(self.observe)
            ));
        }
        let (begun, mut before) = (Instant::now(), (Instant::now(), all_cpus()?));
        let first = before;
        let mut stretches = Vec::new();
        while begun.elapsed().as_secs_f64() < seconds && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY.min(self.observe));
            let now = (Instant::now(), all_cpus()?);
            if now.0 - before.0 >= EVERY || begun.elapsed().as_secs_f64() >= seconds {
                stretches.push(stretch(before, now));
                before = now;
            }
        }
        let whole = before.1.since(&first.1);
        let share = whole.steal as f64 / whole.total().max(1) as f64;
        let trace = Trace::new(stretches).map(|trace| trace.with_steal(share));
        trace
            .ok_or_else(|| Failure::text(exit::NOT_POSSIBLE, "observe the CPU use", "it ended before the first second"))
    }

    fn failure(&self, error: CreditsError) -> Failure {
        let tried = match &self.trace {
            Some(path) => format!("forecast the credits for {}", path.display()),
            None => "forecast the credits".to_owned(),
        };
        let columns =
            "a table of CPU use has a column time, and a column cpus or cpu_percent. docs/credits.md has examples";
        let hint = match &error {
            CreditsError::Table(error) => {
                // Only errors of a file have a line number, so the user named a file.
                let path = self.trace.as_deref().unwrap_or(Path::new("the trace"));
                return user_table::failure(path, error, columns);
            }
            CreditsError::TooShort => columns,
            CreditsError::PercentOfWhat => "name the number with --vcpus",
            CreditsError::UnknownType(_) => {
                "docs/instances.md lists the types; name one with --type, such as --type t3.medium"
            }
            CreditsError::NoCredits(_) => "nothing runs out; name a burstable type with --type to compare",
            CreditsError::Undocumented { .. } => "evenkeel measure gaps shows whether the CPU time is limited now",
            CreditsError::NotUnlimited(_) => "leave out --mode",
            CreditsError::UnderMinute(_) => "are its times in seconds? docs/credits.md has the formats",
            CreditsError::TooMany { .. } => "--credits full takes the highest balance",
        };
        let code = match error {
            CreditsError::NoCredits(_) | CreditsError::Undocumented { .. } => exit::NOT_POSSIBLE,
            _ => exit::WRONG_USE,
        };
        Failure::text(code, tried, error).hint(hint)
    }
}

fn all_cpus() -> Result<CpuTicks, Failure> {
    let stat = Root::live().text("/proc/stat").ok().and_then(|text| proc::parse_stat(&text)?.all);
    stat.ok_or_else(|| Failure::text(exit::NOT_POSSIBLE, "read the CPU use", "/proc/stat can't be read"))
}

/// The length of the observation in seconds, and the mean number of busy CPUs.
fn stretch(before: (Instant, CpuTicks), now: (Instant, CpuTicks)) -> (f64, f64) {
    let seconds = (now.0 - before.0).as_secs_f64();
    let busy_ns = now.1.since(&before.1).busy() * proc::TICK_NS;
    (seconds, busy_ns as f64 / 1e9 / seconds)
}

fn start_credits(text: &str) -> Result<StartCredits, String> {
    match text {
        "full" => Ok(StartCredits::Full),
        "launch" => Ok(StartCredits::Launch),
        credits => number(credits, 0.0..=1e6, "full, launch, or a number of credits").map(StartCredits::Number),
    }
}

fn days(text: &str) -> Result<f64, String> {
    number(text, f64::MIN_POSITIVE..=366.0, "a number of days above 0, at most 366")
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, f64::MIN_POSITIVE..=1e6, "a number above 0, at most 1000000")
}
