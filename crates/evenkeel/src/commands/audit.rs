//! `audit`: advice on every knob, sorted by importance, as a page, JSON, Markdown or SARIF.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evenkeel_host::{AdviceContext, Facts, State, advise};
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::args::{GoalArgs, HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::overdue;
use crate::show::advice::{Audit, Finding, WaiversView};
use crate::show::{self, Out};
use crate::waivers::{DEFAULT_FILE, Waivers};

/// List the settings that are worth changing on this machine
///
/// Prints a short summary: the advised settings, the largest expected effect first.
/// `--all` adds the reason, the risk and the commands for each, and all other knobs. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel audit
  evenkeel audit --all --goal throughput
  evenkeel audit --fail-on set     exit code 1 if a setting is advised, for CI")]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    goal: GoalArgs,
    /// Show every finding with its reason, its risk and the commands that prove and apply it
    #[arg(long)]
    all: bool,
    /// Exit with code 1 if findings at LEVEL or above exist; waived findings do not count
    #[arg(long, value_enum, value_name = "LEVEL")]
    fail_on: Option<Level>,
    /// A TOML file of findings to accept: each waiver has id (or knob), reason, and expires = YYYY-MM-DD [default
    /// for this machine: /etc/evenkeel/waivers.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,
    /// Print Markdown: a table for each group
    #[arg(long, conflicts_with_all = ["json", "sarif"])]
    md: bool,
    /// Print SARIF 2.1.0, for viewers that collect the findings of many tools
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
}

/// The levels of findings that may need an action, the most urgent first. Each level includes the levels before it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Another value would suit better.
    Set,
    /// Another program or file sets the value.
    OwnedBy,
    /// The setting would help, but can't be changed here.
    Blocked,
    /// Not enough is known.
    Unknown,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let waivers = waivers(args)?;
    let root = args.metadata.open(&args.host)?;
    overdue::settle_own(&root, out);
    let facts = Facts::probe(&root);
    let context = args.goal.context();
    let AdviceContext { goal, server } = context;
    let advice = advise(&facts, &context);
    let (waived, warnings) = match &waivers {
        Some(waivers) => waivers.judge(&advice, today()),
        None => (vec![None; advice.len()], Vec::new()),
    };
    let findings = advice.iter().zip(waived).map(|(advice, waived)| Finding { advice, waived }).collect();
    let waivers = waivers.as_ref().map(|waivers| WaiversView { file: waivers.file().display().to_string(), warnings });
    let audit = Audit { goal, server, findings, waivers };
    match (args.md, args.sarif) {
        (true, _) => out.text(&show::markdown::page(&audit))?,
        (_, true) => out.text(&show::sarif::log(&audit, &facts)?)?,
        _ => out.answer(&audit, || match args.all {
            true => show::advice::page(&audit, &facts),
            false => show::advice::summary(&audit, &args.host.again()),
        })?,
    }
    let fails = |level: Level| audit.open().any(|finding| finding.advice.state <= level.state());
    Ok(if args.fail_on.is_some_and(fails) { exit::NO } else { exit::WELL })
}

/// Reads the waivers from the named file, or else from this machine's default file, if it exists.
/// The default file does not apply to another machine.
fn waivers(args: &Args) -> Result<Option<Waivers>, Failure> {
    match &args.waivers {
        Some(file) => Waivers::read(file).map(Some),
        None if args.host.is_this_machine() && Path::new(DEFAULT_FILE).exists() => {
            Waivers::read(Path::new(DEFAULT_FILE)).map(Some)
        }
        None => Ok(None),
    }
}

fn today() -> Date {
    jiff::Timestamp::now().to_zoned(TimeZone::UTC).date()
}

impl Level {
    pub(crate) fn state(self) -> State {
        match self {
            Level::Set => State::Set,
            Level::OwnedBy => State::OwnedBy,
            Level::Blocked => State::Blocked,
            Level::Unknown => State::Unknown,
        }
    }
}
