//! `evenkeel measure ticks`.

use evenkeel_measure::meters::ticks;

use super::Context;
use crate::failure::Outcome;
use crate::show::meters;

/// A running server's tick, seen from outside: its rate, how late it is, how long it takes, who interrupts it
///
/// From the kernel's records of when the server's threads were given a CPU. The server needs no symbols, is not stopped and does not
/// notice. Of all its threads the one is taken that keeps time and works most. When it is due is read from what it asks the kernel to
/// sleep for; where that can't be seen, lateness is counted from the earliest ticks, and the page says so. Takes root for other users'
/// servers, and wherever kernel.perf_event_paranoid forbids it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server's process; several of them with commas
    #[arg(long, value_name = "PID,…", value_delimiter = ',', required = true, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// Watch the thread of this name [default: the one that keeps time and works most]
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// How long to watch, after some three seconds in which the thread is found
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let settings =
        ticks::Settings { pids: args.pid.clone(), thread: args.thread.clone(), for_ns: args.seconds * 1_000_000_000 };
    let report = context.measure(|watch| ticks::run(&settings, watch))?;
    context.answer("The tick, seen from outside", &report, meters::ticks::blocks)
}
