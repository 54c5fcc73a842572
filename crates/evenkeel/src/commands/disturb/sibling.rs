//! `evenkeel disturb sibling`.

use evenkeel_measure::Unit;
use evenkeel_measure::disturb::sibling;
use evenkeel_sys::CpuSet;

use super::context::{Context, RunArgs, What, failure, of_threads};
use super::page::went_offline;
use super::values;
use crate::failure::Outcome;
use crate::show::units::{percent, real_quantity};
use crate::view::Block;

/// Thrash caches and floating-point units, like a neighbour on the other hyperthread
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel disturb sibling --of 0 -- ./my-server
  evenkeel disturb sibling --cpus 1 --working-set-mib 64 --seconds 30")]
pub(crate) struct Args {
    /// The CPUs to run on
    #[arg(long, value_name = "LIST", value_parser = values::cpus, required_unless_present = "of")]
    cpus: Option<CpuSet>,
    /// Run on the sibling of this CPU, the other hyperthread of its core
    #[arg(long, value_name = "CPU", conflicts_with = "cpus")]
    of: Option<usize>,
    /// Memory that each thread walks through; use more than the cache holds
    #[arg(long, value_name = "MIB", default_value = "128", value_parser = values::mib)]
    working_set_mib: u64,
    #[command(flatten)]
    run: RunArgs,
}

of_threads!(sibling);

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let cpus = match args.of {
        Some(cpu) => sibling::siblings_of(cpu).map_err(failure)?,
        None => args.cpus.clone().unwrap_or_default(),
    };
    let settings = sibling::Settings { cpus, working_set_bytes: args.working_set_mib };
    let what = What { kind: "sibling", by: "thrasher", asked: &settings, run: &args.run };
    context.disturb(what, |until_ns| sibling::start(&settings, until_ns).map_err(failure), page)
}

fn page(report: &sibling::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        let per_s = cpu.lines as f64 * 1e9 / cpu.elapsed_ns.max(1) as f64;
        [cpu.cpu.to_string(), real_quantity(per_s, Unit::PerS), format!("{:.1}", cpu.passes), percent(cpu.share_taken)]
    });
    let mut blocks = vec![Block::table(["CPU", "lines", "passes", "CPU time"], rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}
