//! `inspect`: what this machine is.

use clap::ValueEnum;
use evenkeel_host::Facts;
use serde::Serialize;

use crate::args::{HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::Outcome;
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
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let facts = Facts::probe(&args.metadata.open(&args.host)?);
    match args.topology {
        Some(Form::Text) => out.text(&show::topology::text(&facts))?,
        Some(Form::Svg) => out.text(&show::topology::svg(&facts))?,
        None => out.answer(&Answer { facts: &facts }, || show::facts::page(&facts))?,
    }
    Ok(exit::WELL)
}
