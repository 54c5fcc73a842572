//! `evenkeel disturb sibling`.

use evenkeel_measure::disturb::sibling;
use evenkeel_sys::CpuSet;

use super::context::{Context, RunArgs, What, failure};
use super::values;
use crate::failure::Outcome;
use crate::show::disturbers;

/// Thrash caches and floating-point units, as a neighbour on the other hyperthread does
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// On these CPUs
    #[arg(long, value_name = "LIST", value_parser = values::cpus, required_unless_present = "of")]
    cpus: Option<CpuSet>,
    /// On the sibling of this CPU: the other hyperthread of its core
    #[arg(long, value_name = "CPU", conflicts_with = "cpus")]
    of: Option<usize>,
    /// What each walks through: more than the cache that is to be emptied
    #[arg(long, value_name = "MIB", default_value = "128", value_parser = values::mib)]
    working_set_mib: u64,
    #[command(flatten)]
    run: RunArgs,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let cpus = match args.of {
        Some(cpu) => sibling::siblings_of(cpu).map_err(failure)?,
        None => args.cpus.clone().unwrap_or_default(),
    };
    let settings = sibling::Settings { cpus, working_set_bytes: args.working_set_mib };
    let what = What { kind: "sibling", by: "thrasher", asked: &settings, run: &args.run };
    context.disturb(what, |until_ns| sibling::start(&settings, until_ns).map_err(failure), disturbers::sibling)
}
