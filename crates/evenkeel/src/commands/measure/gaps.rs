//! `evenkeel measure gaps`.

use evenkeel_measure::meters::gaps::{self, Class, Keep, Mode, Order, Settings};
use evenkeel_sys::CpuSet;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// Time that was missing on each CPU, and who took it
///
/// A thread on each CPU spins and notes each moment in which it did not run. It needs no rights; as root it also tells which thread ran
/// instead. It takes the whole of each CPU while it runs: on a host with players, use --sample.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=864_000))]
    seconds: u64,
    /// CPUs to watch, as 0-3,8 [default: all that may be used]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// One CPU after the other, each for its share of the time
    #[arg(long)]
    one_at_a_time: bool,
    /// The shortest gap that is told of, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1.0, value_parser = least_us)]
    min_us: f64,
    /// For a production host: windows of 0.1 ms at random moments, less than 1 % of one CPU in all. Reports the share of the time that is
    /// missing with its 95 % interval
    #[arg(long, conflicts_with = "fifo")]
    sample: bool,
    /// Spin in real time, before all ordinary threads (starves them for 95 % of the time; needs rights)
    #[arg(long)]
    fifo: bool,
    /// List so many of the longest gaps of each CPU one by one
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    keep: u64,
    /// List the newest instead of the longest
    #[arg(long)]
    newest: bool,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).filter(|set| !set.is_empty()).ok_or_else(|| "not a list of CPUs such as 0-3,8".to_owned())
}

fn least_us(text: &str) -> Result<f64, String> {
    let us: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.5..=1e6).contains(&us) { Ok(us) } else { Err("outside 0.5 to 1,000,000".to_owned()) }
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let settings = Settings {
        cpus: args.cpus.clone(),
        length_ns: args.seconds * 1_000_000_000,
        threshold_ns: (args.min_us * 1000.0) as u64,
        mode: if args.sample { Mode::Sample } else { Mode::Spin },
        order: if args.one_at_a_time { Order::OneAtATime } else { Order::AllAtOnce },
        class: if args.fifo { Class::Fifo } else { Class::Ordinary },
        keep: if args.newest { Keep::Newest(keep) } else { Keep::Longest(keep) },
    };
    let report = context.measure(|watch| gaps::run(&settings, watch))?;
    context.answer("Time that was missing", &report, meters::gaps::blocks)
}
