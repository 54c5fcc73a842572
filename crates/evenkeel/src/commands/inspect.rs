//! `inspect`: what this machine is.

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
}

#[derive(Serialize)]
struct Answer<'a> {
    facts: &'a Facts,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let facts = Facts::probe(&args.metadata.open(&args.host)?);
    out.answer(&Answer { facts: &facts }, || show::facts::page(&facts))?;
    Ok(exit::WELL)
}
