//! `evenkeel profile record`.

mod child;
mod named;
mod outlet;
pub(crate) mod page;
mod waiting;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_profile::live::{
    self, FileSink, RecordConfig, RecordSummary, Sink, Status, Switches, Targets, Window, probe,
};
use evenkeel_sys::CpuSet;

use self::child::Child;
use self::outlet::{Dumps, Pull, Whole};
use self::page::{Answer, Meanwhile};
use super::begins::At;
use super::now;
use crate::args::cpus;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::show::Out;
use crate::view::terminal;

/// The maximum memory of a window, in bytes.
const WINDOW_BYTES: usize = 512 << 20;
/// How much of the stack each sample copies, in bytes. perf has the same default.
const STACK_BYTES: u32 = 8192;

/// The end of `--help`.
const EXAMPLES: &str = "\
It records the whole machine unless an option says less, until Ctrl-C, --seconds, or the end of the
command or of the last process of --pid. Samples come from hardware cycles if the machine counts
them, else from the kernel's clock. `evenkeel profile view` and `perf report -i FILE` open the
recording. docs/profiling.md explains every option.

Examples:
  sudo evenkeel profile record --pid 1234 --seconds 30
  sudo evenkeel profile record --switches --output server.data -- ./my-server
  sudo evenkeel profile record --window 30s --when-line 'tick overran' -- ./my-server";

/// Record what runs on the CPUs, with stacks, into a perf.data file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the recording to FILE; an existing file is renamed to FILE.old
    #[arg(long, short, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Record these processes, their threads, and processes that they start
    #[arg(long, short, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304), group = "whom")]
    pid: Vec<u32>,
    /// Record these CPUs, for example 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpus, group = "whom")]
    cpu: Option<CpuSet>,
    /// Record the control group at this path, and the groups below it
    #[arg(long, value_name = "FOLDER", group = "whom")]
    group: Option<PathBuf>,
    /// Record threads of this name; with --pid, only threads of those processes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpu", "group"])]
    thread: Option<String>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = live::CLOCK_HZ, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How long to record, such as 10 or 2m [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = crate::times::whole_seconds(1..=86_400))]
    seconds: Option<u64>,
    /// Also record each context switch, with the stack of the thread that leaves the CPU
    #[arg(long)]
    switches: bool,
    #[command(flatten)]
    at: At,
    /// How to unwind user stacks: frame-pointers, or dwarf (copies 8 KiB of each stack)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Stacks::FramePointers, hide_possible_values = true)]
    stacks: Stacks,
    /// Keep only this much, in memory; SIGUSR2 writes it to FILE-1, FILE-2, …
    #[arg(long, value_name = "TIME", value_parser = crate::times::whole_seconds(1..=3600))]
    window: Option<u64>,
    /// Write the window when this file appears
    #[arg(long, value_name = "FILE", requires = "window")]
    when_file: Option<PathBuf>,
    /// Write the window when the command prints a line that contains TEXT
    #[arg(long, value_name = "TEXT", requires = "window", requires = "command")]
    when_line: Option<String>,
    /// Start this command, and record it until it ends; write `--` before it
    #[arg(last = true, value_name = "CMD", conflicts_with = "whom")]
    command: Vec<String>,
}

/// How user stacks are unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    FramePointers,
    Dwarf,
}

impl Args {
    fn config(&self, child: Option<u32>) -> Result<RecordConfig, Failure> {
        let pids: Vec<u32> = self.pid.iter().copied().chain(child).collect();
        // The command has not started yet, so evenkeel can't examine its process.
        let looked_at = match (&self.thread, child) {
            (Some(name), None) if pids.is_empty() => probe::processes_with(name),
            (_, None) => pids.clone(),
            (_, Some(_)) => Vec::new(),
        };
        let probes = self.at.probes(&looked_at)?;
        let targets = match (&self.thread, &self.cpu, &self.group) {
            (Some(name), ..) => Targets::Threads { name: name.clone(), pids },
            (None, Some(cpus), _) => Targets::Cpus(cpus.clone()),
            (None, None, Some(group)) => Targets::Group(group.clone()),
            (None, None, None) if !pids.is_empty() => Targets::Processes(pids),
            (None, None, None) => Targets::Machine,
        };
        Ok(RecordConfig {
            targets,
            clock_hz: Some(self.hz),
            switches: if self.switches { Switches::WithStacks } else { Switches::None },
            user_stack_bytes: (self.stacks == Stacks::Dwarf).then_some(STACK_BYTES),
            probes,
            ..RecordConfig::default()
        })
    }
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let stop = experiment::stop_flag()?;
    let pulled = Arc::new(AtomicBool::new(false));
    if args.window.is_some() {
        signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::clone(&pulled))
            .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "listen for SIGUSR2", &error))?;
    }
    let mut child = match args.command.as_slice() {
        [] => None,
        command => Some(Child::hold(command, args.when_line.as_deref(), &pulled, out)?),
    };
    let config = args.config(child.as_ref().map(Child::pid))?;
    let (summary, dumps) = match args.window {
        None => (to_file(args, out, &config, &stop, &mut child)?, Vec::new()),
        Some(seconds) => to_window(args, out, &config, &stop, &mut child, (seconds, pulled))?,
    };
    let ended = child.map(Child::finish);
    let files: Vec<PathBuf> = dumps.iter().chain([&args.output]).cloned().collect();
    let mut answer = Answer::new(args.output.clone(), args.hz, summary, dumps, ended);
    // A second Ctrl-C stops the search for names.
    stop.store(false, Ordering::Relaxed);
    answer.names = named::store(&files, out, &stop);
    out.answer(&answer, || terminal::text(&answer.page()))?;
    Ok(exit::WELL)
}

fn to_file(
    args: &Args,
    out: &Out,
    config: &RecordConfig,
    stop: &AtomicBool,
    child: &mut Option<Child>,
) -> Result<RecordSummary, Failure> {
    let not_written = |error| output_file::failure(&args.output, &error);
    let file = Whole::new(&args.output).map_err(not_written)?;
    let mut sink = FileSink::begin(file.writer().map_err(not_written)?).map_err(not_written)?;
    let summary = record(args, out, config, stop, child, &mut sink)?;
    file.keep().map_err(not_written)?;
    Ok(summary)
}

/// Records into a window. Also returns the windows that evenkeel wrote before the end.
fn to_window(
    args: &Args,
    out: &Out,
    config: &RecordConfig,
    stop: &AtomicBool,
    child: &mut Option<Child>,
    (seconds, pulled): (u64, Arc<AtomicBool>),
) -> Result<(RecordSummary, Vec<PathBuf>), Failure> {
    // Check now whether evenkeel can write the file, not hours later.
    Whole::new(&args.output).map_err(|error| output_file::failure(&args.output, &error))?;
    let dumps = Dumps::new(&args.output, Pull::new(pulled, args.when_file.clone()), *out);
    let mut sink = Window::new(seconds * 1_000_000_000, WINDOW_BYTES, dumps);
    let mut summary = record(args, out, config, stop, child, &mut sink)?;
    if sink.was_cut() {
        let why = format!("a window keeps at most {} MiB", WINDOW_BYTES >> 20);
        summary.unseen.push(format!("the beginning of the window, because {why}").into());
    }
    Ok((summary, sink.outlet().written().to_vec()))
}

fn record(
    args: &Args,
    out: &Out,
    config: &RecordConfig,
    stop: &AtomicBool,
    child: &mut Option<Child>,
    sink: &mut dyn Sink,
) -> Result<RecordSummary, Failure> {
    let limit_ns = args.seconds.map_or(u64::MAX, |seconds| seconds * 1_000_000_000);
    let mut meanwhile = Meanwhile::new(out, args.seconds);
    let not_begun = RefCell::new(None);
    let mut until = |status: &Status| {
        meanwhile.show(status);
        // All events are open now, so the recording contains the command's first instruction.
        let goes_on = child.as_mut().map_or(Ok(true), Child::goes_on);
        let goes_on = goes_on.unwrap_or_else(|failure| {
            not_begun.replace(Some(failure));
            false
        });
        goes_on && !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns
    };
    let summary = live::record(config, &mut until, sink);
    meanwhile.end();
    match not_begun.into_inner() {
        Some(failure) => Err(failure),
        None => summary.map_err(now::refused),
    }
}
