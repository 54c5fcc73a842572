//! `evenkeel profile switches`.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::{Root, proc};
use evenkeel_profile::graph::{self, PageHead};
use evenkeel_profile::live::{RecordConfig, Switches, Targets};
use evenkeel_profile::offcpu::timeline::Timeline;
use evenkeel_profile::offcpu::{self, OffCpuInterval, table};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::NameCoverage;
use evenkeel_profile::ticks::cut::{self, Cut, Wanted};
use serde::Serialize;

use super::input::Opened;
use super::{input, now, pick, written};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::{Out, profile};
use crate::view::terminal;

/// The size of each CPU's ring buffer. With 70,000 switches a second, a server would fill 1 MiB in a fifth of a second.
const RING_BYTES: usize = 8 << 20;

/// Show why threads had no CPU: off-CPU intervals by reason and length
///
/// Names the thread that took the CPU, the function that waited for a lock, and the file of a page fault.
/// Reads a recording, or records now. It records all CPUs if this user may, to see which thread takes them.
/// perf must record switches (--switch-events) and their stacks (-e context-switches -c 1 -g).
/// An interval with an unknown end counts as open. --html writes a timeline of the busiest threads,
/// with the server's ticks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel profile switches --pid 1234 --html timeline.html
  evenkeel profile switches perf.data")]
pub(crate) struct Args {
    /// A recording: a perf.data file [default: record now]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// How long to record, such as 10 or 2m
    #[arg(long, value_name = "TIME", default_value_t = 5, conflicts_with = "file", value_parser = crate::times::whole_seconds(1..=600))]
    seconds: u64,
    /// Write a timeline to FILE: one HTML page with a lane for each thread, which loads nothing from the network
    #[arg(long, visible_alias = "output", value_name = "FILE")]
    html: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, requires = "html")]
    force: bool,
    /// Mark the ticks of this thread in the timeline [default: the periodic thread with the most work]
    #[arg(long, value_name = "NAME", requires = "html")]
    tick_thread: Option<String>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer<'a> {
    #[serde(flatten)]
    report: &'a table::Report,
    /// The steal time of all CPUs during the recording, as the kernel counts it, in nanoseconds; `null` for a file.
    steal_ns: Option<u64>,
    /// Data that evenkeel could not record, and why.
    unseen: Vec<String>,
    /// Code without names, with the reason and a remedy.
    names: &'a NameCoverage,
    /// The file of the timeline; absent if evenkeel wrote none.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(path) = &args.html {
        written::is_free(path, args.force)?;
    }
    let (opened, unseen, steal_ns) = match &args.file {
        Some(file) => {
            let opened = input::open_of(file, &mut |recording| narrow(args, recording))?;
            opened.warn(file, out);
            (opened, Vec::new(), None)
        }
        None => recorded(args)?,
    };
    if args.file.is_some() {
        pick::check_processes(&opened.recording, &args.pid)?;
    }
    let intervals = offcpu::intervals(&opened.recording, &opened.names);
    let is_wanted = |pid| args.pid.is_empty() || args.pid.contains(&pid);
    let report = table::report(&opened.recording, &opened.names, &intervals, is_wanted);
    if let Some(path) = &args.html {
        write(args, path, &opened, (&intervals, &report), &unseen)?;
    }
    let written = args.html.as_ref().map(|path| path.display().to_string());
    let answer = Answer { report: &report, steal_ns, unseen, names: &opened.coverage, written };
    out.answer(&answer, || {
        let written = answer.written.as_deref();
        terminal::text(&profile::switches::blocks(&report, steal_ns, &answer.unseen, written))
    })?;
    Ok(exit::WELL)
}

/// Writes the timeline.
fn write(
    args: &Args,
    path: &Path,
    opened: &Opened,
    (intervals, report): (&[OffCpuInterval], &table::Report),
    unseen: &[String],
) -> Result<(), Failure> {
    let recording = &opened.recording;
    let ticks = ticks(args, opened, intervals)?;
    let is_wanted = |pid| args.pid.is_empty() || args.pid.contains(&pid);
    let marked = ticks.as_ref().map(|cut| (cut.tid, cut.ticks.as_slice()));
    let timeline = Timeline::from_recording(recording, &opened.names, intervals, is_wanted, marked);
    let name = args.file.as_ref().and_then(|file| file.file_name());
    let name = name.map_or_else(|| "just now".into(), |name| name.to_string_lossy());
    let seconds = recording.span.length_ns() as f64 / 1e9;
    let said = PageHead {
        title: format!("Why threads had no CPU: {name}"),
        subtitle: format!(
            "{} threads, {} off-CPU intervals in {seconds:.2} s · {}",
            timeline.lanes.len(),
            timeline.intervals,
            opened.origin()
        ),
        caveats: profile::switches::caveats(report, unseen).collect(),
    };
    let rows = profile::switches::longest_rows(report);
    written::write(path, graph::timeline_html(&timeline, &said, &rows).as_bytes())
}

/// The ticks of the thread that the user named, which must exist.
/// If the user named no thread, the ticks of a periodic thread, if the recording has one.
fn ticks(args: &Args, opened: &Opened, intervals: &[OffCpuInterval]) -> Result<Option<Cut>, Failure> {
    let own: Vec<OffCpuInterval> =
        intervals.iter().filter(|interval| args.pid.is_empty() || args.pid.contains(&interval.pid)).copied().collect();
    let lives = cut::by_thread(&own);
    match &args.tick_thread {
        None => Ok(cut::find(&opened.recording, &lives, &Wanted::Any).ok()),
        Some(name) => cut::find(&opened.recording, &lives, &Wanted::Named(name.clone()))
            .map(Some)
            .map_err(|error| Failure::text(exit::NOT_POSSIBLE, "mark ticks in the timeline", error)),
    }
}

/// Drops the stacks of other processes, because finding the names for a whole machine would take long.
fn narrow(args: &Args, recording: &mut Recording) {
    if !args.pid.is_empty() {
        recording.keep_stacks(|sample| args.pid.contains(&sample.pid));
    }
}

fn recorded(args: &Args) -> Result<(Opened, Vec<String>, Option<u64>), Failure> {
    let of = |targets| RecordConfig {
        targets,
        about: args.pid.clone(),
        switches: Switches::WithStacks,
        faults: true,
        wakes: true,
        ring_bytes: RING_BYTES,
        ..RecordConfig::default()
    };
    let mut own = |recording: &mut Recording| narrow(args, recording);
    let before_ns = steal_ns();
    let now = match now::record_of(&of(Targets::Machine), args.seconds, &mut own) {
        // Without the right to record all CPUs, record only these processes. Every user may record their own processes.
        Err(failure) if failure.exit == exit::NOT_ALLOWED && !args.pid.is_empty() => {
            now::record_of(&of(Targets::Processes(args.pid.clone())), args.seconds, &mut own)?
        }
        recorded => recorded?,
    };
    let stolen_ns = steal_ns().zip(before_ns).map(|(after_ns, before_ns)| after_ns.saturating_sub(before_ns));
    let mut unseen = now.summary.unseen_of(&args.pid);
    if now.is_cut {
        unseen.push("the end of the recording: its memory (512 MiB) was full".to_owned());
    }
    Ok((now.opened, unseen, stolen_ns))
}

/// The steal time of all CPUs since boot, in nanoseconds; `None` if the kernel does not count it.
fn steal_ns() -> Option<u64> {
    let stat = proc::parse_stat(&Root::live().text("/proc/stat").ok()?)?;
    stat.all?.steal.checked_mul(proc::TICK_NS)
}
