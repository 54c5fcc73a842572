//! `evenkeel disturb spinner`.

use evenkeel_measure::disturb::spinner::{self, Duty};
use evenkeel_sys::CpuSet;

use super::context::{Context, RunArgs, What, failure, of_threads};
use super::page::went_offline;
use super::values;
use crate::experiment;
use crate::failure::Outcome;
use crate::show::units::{part, percent};
use crate::view::Block;

/// Keep CPUs busy with ordinary threads, as another program does
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel disturb spinner --cpus 1 -- ./my-server
  evenkeel disturb spinner --threads 4 --busy 0.3 --seconds 60")]
pub(crate) struct Args {
    /// Pin the threads to these CPUs in order [default: not pinned]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    cpus: Option<CpuSet>,
    /// Number of threads [default: one per CPU of --cpus, else one]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Nice value; below 0 needs privileges
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    nice: i32,
    /// Be busy only for this share of each period
    #[arg(long, value_name = "SHARE", conflicts_with = "random_ms")]
    busy: Option<f64>,
    /// The period of --busy
    #[arg(long, value_name = "MS", default_value = "10", value_parser = values::ms)]
    period_ms: u64,
    /// Be busy and idle by turns of random lengths with these means, as BUSY,IDLE
    #[arg(long, value_name = "MS,MS", value_parser = values::two_ms)]
    random_ms: Option<(u64, u64)>,
    /// Seed of the random lengths [default: random, and reported]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    run: RunArgs,
}

of_threads!(spinner);

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let duty = match (args.busy, args.random_ms) {
        (Some(share_busy), _) => Duty::Share { share_busy, period_ns: args.period_ms },
        (None, Some((busy_ns_mean, idle_ns_mean))) => Duty::Random { busy_ns_mean, idle_ns_mean, seed },
        _ => Duty::Always,
    };
    let cpus = args.cpus.clone().unwrap_or_default();
    let threads = args.threads.unwrap_or_else(|| cpus.len().max(1));
    let settings = spinner::Settings { cpus, threads, nice: args.nice, duty };
    let by = match duty {
        Duty::Always => "always",
        Duty::Share { .. } => "share",
        Duty::Random { .. } => "random",
    };
    let what = What { kind: "spinner", by, asked: &settings, run: &args.run };
    context.disturb(what, |until_ns| spinner::start(&settings, until_ns).map_err(failure), page)
}

fn page(report: &spinner::Report) -> Vec<Block> {
    let rows = report.threads.iter().map(|thread| {
        [
            thread.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            thread.turns.to_string(),
            percent(part(thread.wanted_ns, thread.elapsed_ns)),
            percent(thread.share_taken),
        ]
    });
    let mut blocks = vec![Block::table(["CPU", "slices", "wanted", "got"], rows.collect())];
    let gone = report.threads.iter().filter(|thread| thread.went_offline).filter_map(|thread| thread.cpu);
    blocks.extend(gone.map(went_offline));
    blocks
}
