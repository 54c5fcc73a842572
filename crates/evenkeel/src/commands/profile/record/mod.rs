//! `evenkeel profile record`.

mod child;
mod named;
mod outlet;
mod page;
mod waiting;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_profile::live::{self, FileSink, Sink, Status, Switches, Targets, Told, Window, Wishes, probe};
use evenkeel_sys::CpuSet;

use self::child::Child;
use self::outlet::{Dumps, Pull, Whole};
use self::page::{Answer, Meanwhile};
use super::begins::At;
use super::now;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::show::blocks;

/// Of a window no more than this is kept in memory.
const WINDOW_BYTES: usize = 512 << 20;
/// How much of a stack is copied with each sample: what perf copies too.
const STACK_BYTES: u32 = 8192;

/// Record what runs, with its stacks, into a perf.data file
///
/// Of the whole machine, unless told otherwise; until it is interrupted, the time is over, or the command or the last
/// process of --pid, with what it started, has ended. Hardware cycles are counted
/// where the machine has counters, else the kernel's clock is used. What is written opens in `evenkeel profile view` and in
/// `perf report -i FILE` alike. With --window nothing is written before something happens: see there. At the end names of functions are found
/// and kept, for 10 s at the most: programs, and maps of code that they made, may be gone later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the recording to FILE; one that is there already is kept as FILE.old
    #[arg(long, short, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Of these processes, their threads, and what they start
    #[arg(long, short, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304), group = "whom")]
    pid: Vec<u32>,
    /// Of these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpus, group = "whom")]
    cpu: Option<CpuSet>,
    /// Of the control group in this folder, and those below it
    #[arg(long, value_name = "FOLDER", group = "whom")]
    group: Option<PathBuf>,
    /// Of the threads of this name; with --pid, of those processes alone
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpu", "group"])]
    thread: Option<String>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = live::CLOCK_HZ, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How long to record
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Record each time a thread gives its CPU away too, and where it was
    #[arg(long)]
    switches: bool,
    #[command(flatten)]
    at: At,
    /// How stacks of user code are followed: by its frame pointers, or by its unwinding tables, from a copy of the top of each stack
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Stacks::FramePointers)]
    stacks: Stacks,
    /// Keep the last S seconds in memory, and write them to FILE-1, FILE-2, … each time that this process gets SIGUSR2 or what --when-file
    /// and --when-line wait for happens; and to FILE at the end
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    window: Option<u64>,
    /// Write the window when this file appears
    #[arg(long, value_name = "FILE", requires = "window")]
    when_file: Option<PathBuf>,
    /// Write the window when the command says a line with TEXT in it
    #[arg(long, value_name = "TEXT", requires = "window", requires = "command")]
    when_line: Option<String>,
    /// Start this command, and record it until it ends
    #[arg(last = true, value_name = "CMD", conflicts_with = "whom")]
    command: Vec<String>,
}

/// How stacks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    FramePointers,
    Dwarf,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text)
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| "not a list of CPUs such as 0-3,8".to_owned())
}

impl Args {
    fn wishes(&self, child: Option<u32>) -> Result<Wishes, Failure> {
        let pids: Vec<u32> = self.pid.iter().copied().chain(child).collect();
        // A command has not begun yet: of it only files are known.
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
        Ok(Wishes {
            targets,
            clock_hz: Some(self.hz),
            switches: if self.switches { Switches::WithStacks } else { Switches::None },
            user_stack_bytes: (self.stacks == Stacks::Dwarf).then_some(STACK_BYTES),
            probes,
            ..Wishes::default()
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
    let wishes = args.wishes(child.as_ref().map(Child::pid))?;
    let (told, dumps) = match args.window {
        None => (to_file(args, out, &wishes, &stop, &mut child)?, Vec::new()),
        Some(seconds) => to_window(args, out, &wishes, &stop, &mut child, (seconds, pulled))?,
    };
    let ended = child.map(Child::finish);
    let files: Vec<PathBuf> = dumps.iter().chain([&args.output]).cloned().collect();
    let mut answer = Answer::of(args.output.clone(), args.hz, told, dumps, ended);
    // Who ended the recording by Ctrl-C may end this by another one.
    stop.store(false, Ordering::Relaxed);
    answer.names = named::keep(&files, out, &stop);
    out.answer(&answer, || blocks::text(&answer.page()))?;
    Ok(exit::WELL)
}

fn to_file(
    args: &Args,
    out: &Out,
    wishes: &Wishes,
    stop: &AtomicBool,
    child: &mut Option<Child>,
) -> Result<Told, Failure> {
    let not_written = |error| Failure::io(exit::WRONG_USE, format!("write {}", args.output.display()), &error);
    let file = Whole::new(&args.output).map_err(not_written)?;
    let mut sink = FileSink::begin(file.writer().map_err(not_written)?).map_err(not_written)?;
    let told = record(args, out, wishes, stop, child, &mut sink)?;
    file.keep().map_err(not_written)?;
    Ok(told)
}

/// With the files that were written before the end.
fn to_window(
    args: &Args,
    out: &Out,
    wishes: &Wishes,
    stop: &AtomicBool,
    child: &mut Option<Child>,
    (seconds, pulled): (u64, Arc<AtomicBool>),
) -> Result<(Told, Vec<PathBuf>), Failure> {
    // Nothing is written for long: that it can be is better known now.
    Whole::new(&args.output)
        .map_err(|error| Failure::io(exit::WRONG_USE, format!("write {}", args.output.display()), &error))?;
    let dumps = Dumps::new(&args.output, Pull::new(pulled, args.when_file.clone()), *out);
    let mut sink = Window::new(seconds * 1_000_000_000, WINDOW_BYTES, dumps);
    let mut told = record(args, out, wishes, stop, child, &mut sink)?;
    if sink.was_cut() {
        let why = format!("no more than {} MiB of it is kept", WINDOW_BYTES >> 20);
        told.unseen.push(format!("the beginning of the window: {why}").into());
    }
    Ok((told, sink.outlet().written().to_vec()))
}

fn record(
    args: &Args,
    out: &Out,
    wishes: &Wishes,
    stop: &AtomicBool,
    child: &mut Option<Child>,
    sink: &mut dyn Sink,
) -> Result<Told, Failure> {
    let limit_ns = args.seconds.map_or(u64::MAX, |seconds| seconds * 1_000_000_000);
    let mut meanwhile = Meanwhile::new(out, args.seconds);
    let not_begun = RefCell::new(None);
    let mut until = |status: &Status| {
        meanwhile.show(status);
        // All events are there by now, so that nothing of it goes unseen.
        let goes_on = child.as_mut().map_or(Ok(true), Child::goes_on);
        let goes_on = goes_on.unwrap_or_else(|failure| {
            not_begun.replace(Some(failure));
            false
        });
        goes_on && !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns
    };
    let told = live::record(wishes, &mut until, sink);
    meanwhile.end();
    match not_begun.into_inner() {
        Some(failure) => Err(failure),
        None => told.map_err(now::refused),
    }
}
