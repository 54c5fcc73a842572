//! `evenkeel measure ticks`.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_measure::meters::ticks;
use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::function::TickFunction;
use evenkeel_measure::meters::ticks::stream::Stream;

use super::Context;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::meters;
use crate::tick_function;

/// The number of its JSON format: 1 knew one thread and its tick.
const FORMAT: u32 = 2;
/// A recording is no longer than this: about ten minutes of a busy server.
const RECORDING_BYTES_MAX: u64 = 256 << 20;

/// Which loop of a running server is its tick, how often it ticks, how late and how long ticks are, who interrupts them
///
/// Reads the kernel's records of when the server's threads were given a CPU. The server needs no symbols, is not stopped and does not notice.
/// All its threads together are searched for loops; the tick is the loop that holds most of the server's work. If two loops may be the tick,
/// or the only one may be a poll for packets, the page lists them; choose one with --tick, --tick-thread or --tick-function. You need root
/// for --tick-function, for servers of other users, and wherever kernel.perf_event_paranoid forbids it.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("whose").args(["pid", "recording"]).required(true))]
pub(crate) struct Args {
    /// The server's process; several of them with commas
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// Read this file, which --save wrote, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "save"])]
    recording: Option<PathBuf>,
    /// The tick rate in Hz, where you know it: the loop that is nearest to it is the tick
    #[arg(long, value_name = "HZ", value_parser = rate)]
    tick: Option<f64>,
    /// Look at the threads of this name only
    #[arg(long, value_name = "NAME", alias = "thread")]
    tick_thread: Option<String>,
    /// The function that the server enters once a tick: SYMBOL of its program, or BINARY:SYMBOL of a file that it runs. A tick then begins
    /// there, and lasts until the thread waits. Each entry costs the server some microseconds
    #[arg(long, value_name = "SYMBOL", conflicts_with_all = ["tick", "tick_thread"], value_parser = tick_function::parse)]
    tick_function: Option<TickFunction>,
    /// How long to watch
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Write what was recorded to FILE too, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// A tick rate that can be found.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rates = ticks::tempo::RATE_HZ;
    let hz = text.parse().ok().filter(|hz| rates.contains(hz));
    hz.ok_or_else(|| format!("expected a rate from {} to {} Hz", rates.start(), rates.end()))
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    let wanted = Wanted { tick_hz: args.tick, thread: args.tick_thread.clone(), function: args.tick_function.clone() };
    let settings =
        ticks::Settings { pids: args.pid.clone(), wanted: wanted.clone(), for_ns: args.seconds * 1_000_000_000 };
    let stream = match &args.recording {
        Some(file) => read(file)?,
        None => context.measure(|watch| ticks::record(&settings, watch))?,
    };
    if let Some(file) = &args.save {
        let tried = format!("write {}", file.display());
        std::fs::write(file, stream.to_text()).map_err(|error| Failure::io(exit::NOT_POSSIBLE, tried, &error))?;
    }
    let report = ticks::report(&stream, &wanted);
    context.answer_in(FORMAT, "The tick, seen from outside", &report, meters::ticks::blocks)
}

fn read(file: &Path) -> Result<Stream, Failure> {
    let tried = || format!("read {}", file.display());
    let text = user_file::read_text(file, RECORDING_BYTES_MAX).map_err(|error| Failure::user_file(tried(), &error))?;
    Stream::parse(&text).map_err(|why| Failure::text(exit::WRONG_USE, tried(), why))
}
