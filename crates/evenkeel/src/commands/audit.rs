//! `audit`: advice on every knob, ranked, in the form that its reader wants: a page, JSON, Markdown or SARIF.

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

/// Say which settings would suit the server on this machine, and why
///
/// What is worth setting comes first, by what has to happen before it counts: nothing, new sockets, a restart of the server, a
/// reboot, or something done by hand; within each the largest expected effect first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    goal: GoalArgs,
    /// End with exit code 1 if there are findings at or over LEVEL; waived ones do not count
    #[arg(long, value_enum, value_name = "LEVEL")]
    fail_on: Option<Level>,
    /// Findings to live with, a TOML file: each waiver has id (or knob), reason, and expires = YYYY-MM-DD [default for this
    /// machine: /etc/evenkeel/waivers.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,
    /// Answer in Markdown: a table for each group
    #[arg(long, conflicts_with_all = ["json", "sarif"])]
    md: bool,
    /// Answer in SARIF 2.1.0, for what shows findings of many tools
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
}

/// The findings that somebody may have to act on, the most urgent first; each level includes those before it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// Another value would suit better.
    Set,
    /// Another program or file sets it.
    OwnedBy,
    /// It would help, but can't be changed here.
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
        _ => out.answer(&audit, || show::advice::page(&audit, &facts))?,
    }
    let fails = |level: Level| audit.open().any(|finding| finding.advice.state <= level.state());
    Ok(if args.fail_on.is_some_and(fails) { exit::NO } else { exit::WELL })
}

/// The file that was named; else that of this machine, if it has one. Another machine's findings are not ours to waive.
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
    fn state(self) -> State {
        match self {
            Level::Set => State::Set,
            Level::OwnedBy => State::OwnedBy,
            Level::Blocked => State::Blocked,
            Level::Unknown => State::Unknown,
        }
    }
}
