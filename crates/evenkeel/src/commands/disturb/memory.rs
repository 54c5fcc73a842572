//! `evenkeel disturb memory`. If memory runs out, the kernel first kills the process with the memory pressure.
//! So if a command runs, the pressure runs in a separate process.
//! That process is this program again, without the command.

use std::ffi::OsString;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::disturb::all_cpus;
use evenkeel_measure::disturb::memory::{bandwidth, pressure};
use evenkeel_sys::{CpuSet, clock, process};

use super::context::{Context, Disturbance, RunArgs, What, failure, of_threads};
use super::page::went_offline;
use super::values;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::units::{bytes, part, percent, quantity, real_quantity};
use crate::view::Block;

/// The separate process sends this text when it has filled the memory.
const FILLED: &[u8] = b"filled\n";

/// The maximum size of the separate process's report, and the time limit for it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

const LOOK_EVERY_NS: u64 = 2_000_000;

/// Allocate memory, or use up its bandwidth
///
/// `--by pressure` allocates and touches memory, and always leaves a reserve.
/// It frees memory as soon as others need more, and is the first process that the kernel would kill.
/// `--by bandwidth` copies memory with a thread on each CPU.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel disturb memory -- ./my-server
  evenkeel disturb memory --by bandwidth --cpus 1 --seconds 30")]
pub(crate) struct Args {
    /// The method
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Amount: in total for pressure [default: 1024], per CPU for bandwidth [default: 256]
    #[arg(long, value_name = "MIB", value_parser = values::mib)]
    mib: Option<u64>,
    /// Available memory that pressure leaves, at least 128
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = values::mib)]
    leave_mib: u64,
    /// The CPUs for bandwidth [default: all that evenkeel may use]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    cpus: Option<CpuSet>,
    /// Report when the memory is filled; for the process next to a command
    #[arg(long, hide = true)]
    say_filled: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// The method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// Allocate memory
    #[default]
    Pressure,
    /// Copy memory
    Bandwidth,
}

of_threads!(bandwidth, pressure);

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    if args.by == By::Bandwidth {
        let cpus = args.cpus.clone().map_or_else(all_cpus, Ok).map_err(failure)?;
        let settings = bandwidth::Settings { cpus, working_set_bytes: args.mib.unwrap_or(256 << 20) };
        let what = What { kind: "memory", by: "bandwidth", asked: &settings, run: &args.run };
        return context.disturb(
            what,
            |until_ns| bandwidth::start(&settings, until_ns).map_err(failure),
            bandwidth_page,
        );
    }
    if args.cpus.is_some() {
        return Err(Failure::text(
            exit::WRONG_USE,
            "take memory on chosen CPUs",
            "--cpus applies only to --by bandwidth",
        ));
    }
    let settings = pressure::Settings { amount_bytes: args.mib.unwrap_or(1024 << 20), reserve_bytes: args.leave_mib };
    let what = What { kind: "memory", by: "pressure", asked: &settings, run: &args.run };
    if args.run.command.is_empty() {
        return context.disturb(what, |until_ns| fill(&settings, args.say_filled, until_ns, context), pressure_page);
    }
    context.disturb(what, |until_ns| SeparateProcess::start(&settings, until_ns), pressure_page)
}

/// Starts to fill memory, and returns when the memory is full.
fn fill(
    settings: &pressure::Settings,
    say: bool,
    until_ns: u64,
    context: &Context<'_>,
) -> Result<pressure::Running, Failure> {
    let running = pressure::start(settings, until_ns).map_err(failure)?;
    while !running.is_filled() && !context.stopped() && clock::monotonic_ns() < until_ns {
        clock::sleep_until_ns(clock::monotonic_ns() + LOOK_EVERY_NS);
    }
    if say {
        context.out().text(&String::from_utf8_lossy(FILLED))?;
    }
    Ok(running)
}

/// The separate process that fills memory.
#[derive(Debug)]
struct SeparateProcess {
    child: Child,
    answer: ChildStdout,
}

impl SeparateProcess {
    fn start(settings: &pressure::Settings, until_ns: u64) -> Result<SeparateProcess, Failure> {
        let failed = |why: String| Failure::text(exit::NOT_POSSIBLE, "start the process that takes memory", why);
        // Check the settings here, because the separate process could not report why it refuses them.
        pressure::check(settings).map_err(failure)?;
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let arguments = [
            ("--mib", (settings.amount_bytes >> 20).to_string()),
            ("--leave-mib", (settings.reserve_bytes >> 20).to_string()),
            ("--seconds", (left_ns as f64 / 1e9).max(0.01).to_string()),
        ];
        let words = arguments.into_iter().flat_map(|(name, value)| [OsString::from(name), OsString::from(value)]);
        let mut command = Command::new(program);
        command.args(["--json", "disturb", "memory", "--say-filled"]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = process::die_with_parent(&mut command).spawn().map_err(|error| failed(error.to_string()))?;
        let Some(answer) = child.stdout.take() else { return Err(failed("it has no standard output".to_owned())) };
        let mut process = SeparateProcess { child, answer };
        match process::read_within(&mut process.answer, FILLED.len(), Duration::from_nanos(left_ns)) {
            Ok(said) if said == FILLED => Ok(process),
            Ok(_) => Err(failed("it ended before it had filled the memory".to_owned())),
            Err(errno) => Err(failed(errno.to_string())),
        }
    }
}

impl Drop for SeparateProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Disturbance for SeparateProcess {
    type Report = pressure::Report;

    fn stop(mut self) -> Result<pressure::Report, Failure> {
        process::ask_to_end(self.child.id());
        // If the process hangs, dropping `self` kills the process.
        let said = process::read_within(&mut self.answer, ANSWER_BYTES_MAX, ANSWER_LIMIT).unwrap_or_default();
        let answer = serde_json::from_slice::<serde_json::Value>(&said).unwrap_or_default();
        let report = serde_json::from_value(answer["did"].clone());
        Ok(report.unwrap_or_else(|_| pressure::Report {
            ended_because: Some(
                "its process was killed before it could report, by the kernel for memory or by somebody else"
                    .to_owned(),
            ),
            ..pressure::Report::default()
        }))
    }
}

fn bandwidth_page(report: &bandwidth::Report) -> Vec<Block> {
    let rows = report.cpus.iter().map(|cpu| {
        [
            cpu.cpu.to_string(),
            real_quantity(cpu.copied_bytes_per_s, Unit::BytesPerS),
            percent(part(cpu.taken_ns, cpu.elapsed_ns)),
        ]
    });
    let mut blocks = vec![Block::table(["CPU", "copied", "CPU time"], rows.collect())];
    blocks.extend(report.cpus.iter().filter(|cpu| cpu.went_offline).map(|cpu| went_offline(cpu.cpu)));
    blocks
}

fn pressure_page(report: &pressure::Report) -> Vec<Block> {
    let mut blocks = vec![
        Block::row("largest amount", bytes(report.held_bytes_max)),
        Block::row("filled in", quantity(report.filled_ns, Unit::Ns)),
        Block::row("smallest amount left", report.left_bytes_min.map_or_else(|| "unknown".to_owned(), bytes)),
    ];
    if report.held_back {
        blocks.push(Block::row("freed again", bytes(report.given_back_bytes)));
        blocks.push(Block::Warning("It held less than requested, to keep the reserve.".to_owned()));
    }
    if let Some(why) = &report.ended_because {
        blocks.push(Block::Warning(format!("It ended early: {why}.")));
    }
    blocks
}
