//! `evenkeel profile ticks`.

use std::path::{Path, PathBuf};

use evenkeel_measure::{Samples, Unit};
use evenkeel_profile::graph::{Pair, Quantity, Style, Totals};
use evenkeel_profile::live::{self, LiveError, RecordConfig, Switches, Targets, probe};
use evenkeel_profile::offcpu;
use evenkeel_profile::ticks::compare::Comparison;
use evenkeel_profile::ticks::cut::{Cut, NoTicks, Wanted};
use evenkeel_profile::ticks::{Tick, Ticks};
use evenkeel_profile::tree::Tree;

use super::begins::{Begins, By};
use super::input::{self, Opened};
use super::written::{self, Kind, Output};
use super::{diff, now};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::profile::ticks::{Answer, Recorded, Thread, TickSource};
use crate::show::{Out, profile};
use crate::view::terminal;

/// How much of the stack each sample copies, in bytes. perf has the same default.
const STACK_BYTES: u32 = 8192;

/// The end of `--help`.
const EXAMPLES: &str = "\
evenkeel divides the time of the server's tick threads into ticks, and compares the slowest with the
rest: time on a CPU, each kind of wait, and lateness. The tick is the loop that does most of the
server's work, unless --tick or --thread names another. If a runtime moves the tick between threads,
these threads count as one. FILE is a recording of `profile record --switches --at …`, or of
`perf record -e cpu-clock -e context-switches -c 1 -g --switch-events`. docs/profiling.md explains
every option.

Examples:
  sudo evenkeel profile ticks --pid 1234 --seconds 30
  sudo evenkeel profile ticks --pid 1234 --at game::World::tick --output slow.svg
  evenkeel profile ticks perf.data --tick 20";

/// Show what makes the slowest ticks slow
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("whom").args(["file", "pid", "thread"]).required(true).multiple(true), after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A recording with switches [default: record now]
    #[arg(value_name = "FILE", conflicts_with_all = ["pid", "seconds", "hz", "stacks"])]
    file: Option<PathBuf>,
    /// Record these processes
    #[arg(long, short, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// The tick thread, by name
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// The tick rate in Hz [default: the rate of the busiest loop]
    #[arg(long, value_name = "HZ", conflicts_with = "thread", value_parser = crate::commands::measure::tick_rate)]
    tick: Option<f64>,
    /// How long to record, such as 10 or 2m
    #[arg(long, value_name = "TIME", default_value_t = 10, value_parser = crate::times::whole_seconds(1..=3600))]
    seconds: u64,
    /// Samples a second of CPU time
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How to unwind user stacks: frame-pointers, or dwarf (costs more)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Stacks::FramePointers, hide_possible_values = true)]
    stacks: Stacks,
    /// The share of ticks that counts as slow
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    slowest: f64,
    #[command(flatten)]
    begins: Begins,
    #[command(flatten)]
    output: Output,
}

/// How user stacks are unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    FramePointers,
    Dwarf,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.01..=50.0).contains(percent));
    percent.ok_or_else(|| "expected a percentage from 0.01 to 50".to_owned())
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let wanted = args.output.wanted()?;
    let (opened, recorded) = match &args.file {
        Some(file) => {
            let opened = input::open(file)?;
            opened.warn(file, out);
            (opened, None)
        }
        None => record(args).map(|(opened, recorded)| (opened, Some(recorded)))?,
    };
    let tried = "divide the recording into ticks";
    let Opened { recording, names, .. } = &opened;
    let intervals = offcpu::intervals(recording, names);
    let is_wanted = |tid: u32| {
        let name = recording.threads.get(&tid).and_then(|thread| thread.name.as_ref());
        args.thread.is_none() || args.thread.as_ref() == name
    };
    let (of_thread, source) = args.begins.ticks(recording, &is_wanted)?;
    let ticks = match &of_thread {
        Some(of_thread) => Ticks::at(recording, names, &intervals, of_thread),
        None => {
            let wanted = match (args.tick, &args.thread) {
                (Some(hz), _) => Wanted::Rate(hz),
                (None, Some(name)) => Wanted::Named(name.clone()),
                (None, None) => Wanted::Any,
            };
            Ticks::find(recording, names, &intervals, &wanted).map_err(|error| refused(tried, error))?
        }
    };
    let comparison = ticks.compare(recording, names, args.slowest / 100.0).ok_or_else(|| {
        let why = format!("{} ticks are too few to compare", ticks.cut.ticks.len());
        Failure::text(exit::NOT_POSSIBLE, tried, why).hint("record longer (--seconds)")
    })?;
    if let Some((path, kind)) = wanted {
        written::write(path, graph(&comparison, &opened.origin(), path, kind)?.as_bytes())?;
    }
    let written = wanted.map(|(path, _)| path.to_owned());
    let answer = answer(&opened, &ticks, source, comparison, recorded, written);
    out.answer(&answer, || terminal::text(&profile::ticks::blocks(&answer)))?;
    Ok(exit::WELL)
}

fn refused(tried: &str, why: NoTicks) -> Failure {
    let hint = match &why {
        NoTicks::Unclear { why, .. } => Some(crate::commands::measure::tick_hint(why)),
        NoTicks::None { .. } => {
            Some("give the tick rate with --tick, or with --at a function that is entered once a tick".to_owned())
        }
        NoTicks::NoSwitches(_) => None,
    };
    let failure = Failure::text(exit::NOT_POSSIBLE, tried, why);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn answer(
    opened: &Opened,
    ticks: &Ticks,
    source: TickSource,
    comparison: Comparison,
    recorded: Option<Recorded>,
    written: Option<PathBuf>,
) -> Answer {
    let samples = |name: &str, values: &mut dyn Iterator<Item = u64>| {
        let mut samples = Samples::new(name, Unit::Ns, []);
        values.for_each(|value| samples.record(value));
        samples
    };
    let Cut { tid, tids, ends, missed, unended, ticks: cut, .. } = &ticks.cut;
    let thread = |tid: u32| {
        let known = opened.recording.threads.get(&tid);
        let (pid, name) = (known.map_or(tid, |thread| thread.pid), known.and_then(|thread| thread.name.clone()));
        Thread { pid, tid, name }
    };
    Answer {
        thread: thread(*tid),
        threads: tids.iter().map(|tid| thread(*tid)).collect(),
        tick_hz: ticks.hz(),
        source,
        ends: *ends,
        unended_ticks: *unended,
        missed_ticks: *missed,
        verdict: profile::ticks::verdict(&comparison),
        recorded,
        length_ns: samples("tick_length_ns", &mut cut.iter().map(|tick| tick.span.length_ns())),
        ran_ns: samples("tick_ran_ns", &mut ticks.accounts.iter().map(|account| account.ran_ns)),
        lateness_ns: samples("tick_lateness_ns", &mut cut.iter().map(Tick::lateness_ns)),
        comparison,
        written,
    }
}

/// Records the server.
fn record(args: &Args) -> Result<(Opened, Recorded), Failure> {
    let targets = match &args.thread {
        Some(name) if args.pid.is_empty() => Targets::Threads { name: name.clone(), pids: Vec::new() },
        _ => Targets::Processes(args.pid.clone()),
    };
    let pids = match &args.thread {
        Some(name) if args.pid.is_empty() => probe::processes_with(name),
        _ => args.pid.clone(),
    };
    let config = RecordConfig {
        targets,
        about: Vec::new(),
        clock_hz: Some(args.hz),
        switches: Switches::WithStacks,
        faults: true,
        wakes: true,
        mappings: true,
        packets: args.begins.by == By::Packets,
        probes: args.begins.at.probes(&pids)?,
        user_stack_bytes: (args.stacks == Stacks::Dwarf).then_some(STACK_BYTES),
        ring_bytes: if args.stacks == Stacks::Dwarf { live::RING_BYTES * 8 } else { live::RING_BYTES },
    };
    let mut config = config;
    let mut unseen = Vec::new();
    if matches!(args.begins.by, By::Auto | By::Library) && config.probes.is_empty() {
        config.probes = probe::library_marks(&pids).unwrap_or_default();
        match live::try_probes(&config) {
            Err(LiveError::NoProbe { errno, why, .. }) if args.begins.by == By::Auto => {
                unseen.push(format!("the markers of evenkeel-rt: {errno}, because {why}"));
                config.probes.clear();
            }
            said => said.map_err(now::refused)?,
        }
    }
    let now = now::record(&config, args.seconds)?;
    unseen.extend(now.summary.unseen_of(&[]));
    unseen.extend(now.is_cut.then(|| "the end of the recording: its memory (512 MiB) was full".to_owned()));
    let elapsed_ns = now.summary.status.elapsed_ns;
    let recorded = Recorded {
        elapsed_ns,
        hz: args.hz,
        samples: now.summary.status.samples,
        reader_cpu_share: now.reader_cpu_ns as f64 / elapsed_ns.max(1) as f64,
        unseen,
    };
    Ok((now.opened, recorded))
}

/// The differential flame graph: the slow ticks compared with the other ticks.
fn graph(said: &Comparison, origin: &str, path: &Path, kind: Kind) -> Result<String, Failure> {
    let (rest, slow) = (Tree::from(&said.rest_folded), Tree::from(&said.slow_folded));
    let style = Style {
        title: format!("The slowest {} of {} ticks, compared with the rest", said.slow_ticks, said.ticks),
        subtitle: profile::ticks::verdict(said),
        origin: origin.to_owned(),
        quantity: Quantity::Other("ns in the average tick".to_owned()),
        ..Style::default()
    };
    diff::drawn(&Pair::new(&rest, &slow, Totals::Raw), &style, path, kind)
}
