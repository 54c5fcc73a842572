//! `inspect`: prints the facts about this machine.

use clap::ValueEnum;
use evenkeel_host::Facts;
use evenkeel_host::facts::Counters;
use serde::Serialize;

use crate::args::{HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::overdue;
use crate::show::{self, Out};

/// Show what this machine is: hypervisor, CPUs, NUMA, clock, idle states, memory, network, limits
///
/// Prints a short summary. `--all` prints every fact, or the reason why it is unknown. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel inspect
  evenkeel inspect --topology=svg > machine.svg
  evenkeel inspect --all --host capture.txt")]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Show every fact
    #[arg(long, conflicts_with = "topology")]
    all: bool,
    /// Draw sockets, cores with their threads, caches, memory nodes, and the CPUs that serve the network
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(conflicts_with = "json")]
    topology: Option<Form>,
    /// Show every fact, and the counters of the kernel and the drivers: packets lost, interrupts, memory by node
    #[arg(long, conflicts_with = "topology")]
    counters: bool,
}

/// The form of the drawing.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Letters and numbers.
    Text,
    /// A picture for browsers and documents.
    Svg,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    facts: &'a Facts,
    /// Present only if requested, because counters change all the time.
    /// The other fields stay the same as long as the machine does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<&'a Counters>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = args.metadata.open(&args.host)?;
    overdue::settle_own(&root, out);
    let facts = Facts::probe(&root);
    match args.topology {
        Some(Form::Text) => out.text(&show::topology::text(&facts))?,
        Some(Form::Svg) => out.text(&show::topology::svg(&facts))?,
        None => {
            let answer = Answer { facts: &facts, counters: args.counters.then_some(&facts.counters) };
            out.answer(&answer, || match args.all || args.counters {
                true => show::facts::page(&facts, args.counters),
                false => show::facts::summary(&facts),
            })?;
        }
    }
    Ok(exit::WELL)
}
