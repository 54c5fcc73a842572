//! `inspect`: what this machine is.

use clap::ValueEnum;
use evenkeel_host::Facts;
use evenkeel_host::facts::Counters;
use serde::Serialize;

use crate::args::{HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::overdue;
use crate::show::{self, Out};

/// Tell what this machine is: hypervisor, CPUs and siblings, NUMA, clock, idle, memory, network, limits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Draw sockets, cores with their threads, caches, memory nodes, and the CPUs that serve the network
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(conflicts_with = "json")]
    topology: Option<Form>,
    /// Also tell what the kernel and the drivers have counted: packets lost and where, interrupts and memory by place
    #[arg(long, conflicts_with = "topology")]
    counters: bool,
}

/// How the machine is drawn.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Letters and numbers.
    Text,
    /// A picture for browsers and documents.
    Svg,
}

#[derive(Serialize)]
struct Answer<'a> {
    facts: &'a Facts,
    /// Only where they are asked for: they move, and the rest of the answer stays the same while the machine does.
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
            out.answer(&answer, || show::facts::page(&facts, args.counters))?;
        }
    }
    Ok(exit::WELL)
}
