//! `evenkeel-live`: runs the live checks of all crates, one at a time. Each passes, fails, or could not be judged on this machine.
//! `make live` starts it.

mod check;
mod choose;
mod programs;
mod results;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;

use check::Check;
use choose::Choice;
use results::{Outcome, Results};

/// Every chosen check passed.
const ALL_PASSED: u8 = 0;
/// At least one check failed on a fit machine.
const SOME_FAILED: u8 = 1;
/// No check has such a name, or the checks could not be built.
const WRONG_USE: u8 = 2;
/// No check failed, and some could not be judged here.
const NOT_ALL_JUDGED: u8 = 4;

/// Run the live checks one at a time. They need a quiet machine
///
/// Exit codes: 0 if all passed, 1 if some failed, 4 if none failed but some could not be judged on this machine,
/// 2 for wrong use or checks that could not be built.
#[derive(Debug, Parser)]
struct Args {
    /// Only checks whose name contains one of these, such as measure::gaps
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the checks with their expected seconds, and run none
    #[arg(long)]
    list: bool,
    /// Skip the checks that passed in the last run, which was interrupted or had failures
    #[arg(long)]
    resume: bool,
    /// Also run the checks that take very long, or are ignored for another reason
    #[arg(long)]
    extra: bool,
    /// Run a sample that takes about this many seconds.
    /// The sample first has checks of the crates that commits of the last day touched, then other checks.
    /// The others change from day to day, so that each check runs from time to time
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
    /// Write the seconds that each check took into the list of expected seconds
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    run_checks(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("evenkeel-live: {error:#}");
        ExitCode::from(WRONG_USE)
    })
}

fn run_checks(args: &Args) -> Result<ExitCode> {
    let top = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let checks = programs::find(&top).context("find the live checks")?;
    if args.list {
        let extra = |check: &Check| if check.is_extra { " (only with --extra)" } else { "" };
        checks.iter().for_each(|check| println!("{:>4} s  {}{}", check.seconds, check.name, extra(check)));
        return Ok(ExitCode::from(ALL_PASSED));
    }
    let mut results = Results::open(&top, args.resume)?;
    let choice = Choice {
        names: &args.names,
        extra: args.extra,
        passed: &results.passed(),
        within: args.within.map(Duration::from_secs),
        touched: &if args.within.is_some() { programs::touched_crates(&top) } else { Vec::new() },
        day: std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs() / 86_400,
    };
    let chosen: Vec<&Check> = choice.select(&checks);
    if chosen.is_empty() && !args.resume {
        bail!("no live check has a name like {:?}; --list shows all", args.names);
    }
    let seconds: u64 = chosen.iter().map(|check| check.seconds + run::LOOK_SECONDS).sum();
    println!("{} of {} live checks, about {}", chosen.len(), checks.len(), results::time(seconds));
    println!("Interrupt at any time: `make live RESUME=1` continues after the last check that passed.\n");
    for (at, check) in chosen.iter().enumerate() {
        results.announce(at + 1, chosen.len(), check);
        let result = run::run(check)?;
        results.add(result)?;
    }
    if args.record {
        programs::record(&top, &checks, &results)?;
    }
    results.summary();
    let any = |outcome: fn(&Outcome) -> bool| results.this_run().iter().any(|result| outcome(&result.outcome));
    Ok(ExitCode::from(match (any(Outcome::is_failed), any(Outcome::is_not_judged)) {
        (true, _) => SOME_FAILED,
        (false, true) => NOT_ALL_JUDGED,
        (false, false) => ALL_PASSED,
    }))
}
