//! `fleet audit`: advice for many captured hosts, as a matrix of knobs and groups.

use evenkeel_fleet::audit::FleetAudit;

use super::hosts::{CaptureArgs, read};
use crate::commands::audit::Level;
use crate::exit;
use crate::failure::Outcome;
use crate::show::{self, Out};

/// Audit many captured machines: findings by level, knobs by group, and the hosts that differ from their group
///
/// A capture is the file of `evenkeel capture --output FILE`.
/// Hosts with the same instance type, kernel (its first two numbers) and CPU model are a group.
/// A host differs if more than half of its group have another value or other advice.
/// An unknown value does not count as a difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel fleet audit hosts/
  evenkeel fleet audit hosts/*.txt --by instance --md
  evenkeel fleet audit hosts/ --fail-on set     exit code 1 if a setting is advised on any host")]
pub(crate) struct Args {
    #[command(flatten)]
    captures: CaptureArgs,
    /// Exit with code 1 if a host has findings at LEVEL or above
    #[arg(long, value_enum, value_name = "LEVEL")]
    fail_on: Option<Level>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let read = read(&args.captures)?;
    let audit = FleetAudit::new(&read.hosts, &args.captures.by(), args.captures.context(), read.unread);
    match args.captures.md {
        true => out.text(&show::fleet::audit::markdown(&audit, args.captures.all))?,
        false => out.answer(&audit, || show::fleet::audit::page(&audit, args.captures.all))?,
    }
    let fails = |level: Level| audit.findings_at(level.state()) > 0;
    Ok(if args.fail_on.is_some_and(fails) { exit::NO } else { exit::WELL })
}
