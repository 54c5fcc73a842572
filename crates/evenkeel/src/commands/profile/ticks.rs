//! `evenkeel profile ticks`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use evenkeel_measure::{Samples, Unit};
use evenkeel_profile::graph::{self, Pair, Quantity, Style, Totals};
use evenkeel_profile::live::{self, LiveError, Memory, Switches, Targets, Wishes};
use evenkeel_profile::offcpu;
use evenkeel_profile::ticks::compare::Comparison;
use evenkeel_profile::ticks::cut::{Cut, Ends, Wanted};
use evenkeel_profile::ticks::{Tick, Ticks};
use evenkeel_profile::tree::Tree;
use evenkeel_sys::clock;
use serde::Serialize;

use super::input::{self, Opened};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome, exit_of};
use crate::show::{Out, blocks, profile};

/// As much as a recording may take of memory.
const BYTES_MAX: usize = 512 << 20;
/// What is copied of a stack with each sample: what perf copies too.
const STACK_BYTES: u32 = 8192;

/// What the slowest ticks have that the others do not
///
/// The time of the thread that keeps the tick is cut by its ticks: of --pid, the one that keeps time and works most, unless --thread names it.
/// Each nanosecond of a tick is told: where it ran, what it waited for and why, and how late it began. The slowest are set beside the rest, and
/// --output draws the two as one differential flame graph: red is what slow ticks have more. FILE is a recording with switches and their
/// stacks, as `perf record -e cpu-clock -e context-switches -c 1 -g --switch-events` makes one too.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("whom").args(["file", "pid", "thread"]).required(true).multiple(true))]
pub(crate) struct Args {
    /// A recording with switches; without one the server is recorded now
    #[arg(value_name = "FILE", conflicts_with_all = ["pid", "seconds", "hz", "stacks"])]
    file: Option<PathBuf>,
    /// Record these processes
    #[arg(long, short, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// The thread that keeps the tick, by its name; without --pid and FILE, threads of this name are recorded alone
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// How long to record
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Samples a second, of the time that it runs: at 99 a stall of 3 ms in one tick would have a third of one
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How stacks are followed: by the program's frame pointers, or by its unwinding tables, which takes more of the server
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Stacks::FramePointers)]
    stacks: Stacks,
    /// How many of a hundred ticks are the slow ones
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    slowest: f64,
    /// Write the differential flame graph to FILE, by its ending: .svg, .html, or .folded
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How stacks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    FramePointers,
    Dwarf,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.01..=50.0).contains(percent));
    percent.ok_or_else(|| "a number from 0.01 to 50 is expected".to_owned())
}

/// The answer.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// The thread.
    pub(crate) thread: Thread,
    /// Ticks a second; none where they keep no time.
    pub(crate) tick_hz: Option<f64>,
    /// What ends a tick.
    pub(crate) ends: Ends,
    /// Ticks that were due and did not come.
    pub(crate) missed_ticks: u64,
    /// What makes slow ticks slow, in a sentence.
    pub(crate) verdict: String,
    /// What it took to record; none of a file.
    pub(crate) recorded: Option<Recorded>,
    /// From when a tick was due, or began, until it was done.
    pub(crate) length_ns: Samples,
    /// Of that on a CPU.
    pub(crate) ran_ns: Samples,
    /// How late it began.
    pub(crate) lateness_ns: Samples,
    /// The slow ones beside the rest.
    #[serde(flatten)]
    pub(crate) comparison: Comparison,
    /// Where the graph was written.
    pub(crate) written: Option<PathBuf>,
}

/// The thread that keeps the tick.
#[derive(Serialize)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: Option<String>,
}

/// What it took to record.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Recorded {
    /// How long, in nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// How often the clock was to come, in Hz.
    pub(crate) hz: u32,
    /// Samples of all events: each costs the server some microseconds.
    pub(crate) samples: u64,
    /// What reading them took of a CPU, from 0 to 1.
    pub(crate) reader_cpu_share: f64,
    /// What cannot be seen, and why.
    pub(crate) unseen: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let wanted = args.output.as_deref().map(Form::of).transpose()?;
    let (opened, recorded) = match &args.file {
        Some(file) => (input::open(file)?, None),
        None => record(args).map(|(opened, recorded)| (opened, Some(recorded)))?,
    };
    let tried = "cut the recording by ticks";
    let Opened { recording, names, .. } = &opened;
    let spells = offcpu::spells(recording, names);
    let thread = args.thread.clone().map_or(Wanted::Any, Wanted::Named);
    let ticks = Ticks::find(recording, names, &spells, &thread)
        .map_err(|error| Failure::text(exit::NOT_POSSIBLE, tried, error))?;
    let comparison = ticks.compare(recording, names, args.slowest / 100.0).ok_or_else(|| {
        let why = format!("{} ticks are too few to set some beside the others", ticks.cut.ticks.len());
        Failure::text(exit::NOT_POSSIBLE, tried, why).hint("record for longer (--seconds)")
    })?;
    if let Some((path, form)) = args.output.as_deref().zip(wanted) {
        write(path, &form.text(&comparison))?;
    }
    let answer = answer(&opened, &ticks, comparison, recorded, args.output.clone());
    out.answer(&answer, || blocks::text(&profile::ticks::blocks(&answer)))?;
    Ok(exit::WELL)
}

fn answer(
    opened: &Opened,
    ticks: &Ticks,
    comparison: Comparison,
    recorded: Option<Recorded>,
    written: Option<PathBuf>,
) -> Answer {
    let samples = |name: &str, values: &mut dyn Iterator<Item = u64>| {
        let mut samples = Samples::new(name, Unit::Ns, []);
        values.for_each(|value| samples.record(value));
        samples
    };
    let Cut { tid, tempo, ends, missed, ticks: cut } = &ticks.cut;
    let known = opened.recording.threads.get(tid);
    Answer {
        thread: Thread {
            pid: known.map_or(*tid, |thread| thread.pid),
            tid: *tid,
            name: known.and_then(|thread| thread.name.clone()),
        },
        tick_hz: tempo.map(|tempo| tempo.hz()),
        ends: *ends,
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
    let stop = experiment::stop_flag()?;
    let targets = match &args.thread {
        Some(name) if args.pid.is_empty() => Targets::Threads { name: name.clone(), pids: Vec::new() },
        _ => Targets::Processes(args.pid.clone()),
    };
    let wishes = Wishes {
        targets,
        clock_hz: Some(args.hz),
        switches: Switches::WithStacks,
        faults: true,
        wakes: true,
        user_stack_bytes: (args.stacks == Stacks::Dwarf).then_some(STACK_BYTES),
        ring_bytes: if args.stacks == Stacks::Dwarf { live::RING_BYTES * 8 } else { live::RING_BYTES },
    };
    let limit_ns = args.seconds * 1_000_000_000;
    let mut memory = Memory::new(BYTES_MAX);
    let before_ns = clock::process_cpu_ns();
    let told =
        live::record(&wishes, &mut |status| !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns, &mut memory);
    let told = told.map_err(failure)?;
    let reader_cpu_ns = clock::process_cpu_ns() - before_ns;
    let recorded = Recorded {
        elapsed_ns: told.status.elapsed_ns,
        hz: args.hz,
        samples: told.status.samples,
        reader_cpu_share: reader_cpu_ns as f64 / told.status.elapsed_ns.max(1) as f64,
        unseen: told.unseen,
    };
    let opened = input::opened(&memory.into_bytes())
        .map_err(|error| Failure::text(exit::NOT_POSSIBLE, "read what was recorded", error))?;
    Ok((opened, recorded))
}

fn failure(error: LiveError) -> Failure {
    match &error {
        LiveError::Denied { mend, .. } => {
            let hint = mend.clone();
            Failure::new(exit::NOT_ALLOWED, error).hint(hint)
        }
        LiveError::NotThere { .. } | LiveError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        LiveError::Refused { errno, .. } | LiveError::Write(errno) => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error)
        }
    }
}

/// What a file holds, by its ending.
#[derive(Clone, Copy, Debug)]
enum Form {
    Svg,
    Html,
    Folded,
}

impl Form {
    fn of(path: &Path) -> Result<Form, Failure> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => Ok(Form::Svg),
            Some("html" | "htm") => Ok(Form::Html),
            Some("folded" | "txt") => Ok(Form::Folded),
            _ => {
                let why = "its ending does not tell what it is to hold";
                let failure = Failure::text(exit::WRONG_USE, format_args!("write {}", path.display()), why);
                Err(failure.hint("end it in .svg, .html or .folded"))
            }
        }
    }

    fn text(self, said: &Comparison) -> String {
        let (rest, slow) = (Tree::from(&said.rest_folded), Tree::from(&said.slow_folded));
        let pair = Pair::new(&rest, &slow, Totals::Raw);
        let style = Style {
            title: format!("The slowest {} of {} ticks, beside the rest", said.slow_ticks, said.ticks),
            subtitle: profile::ticks::verdict(said),
            quantity: Quantity::Other("ns in the mean tick".to_owned()),
            ..Style::default()
        };
        match self {
            Form::Svg => graph::differential_of(&pair, &style),
            Form::Html => graph::html_differential_of(&pair, &style),
            Form::Folded => {
                let mut stacks: Vec<&String> =
                    said.rest_folded.lines.keys().chain(said.slow_folded.lines.keys()).collect();
                stacks.sort_unstable();
                stacks.dedup();
                let of = |lines: &std::collections::BTreeMap<String, u64>, stack: &String| {
                    lines.get(stack).copied().unwrap_or(0)
                };
                let line = |stack: &String| {
                    format!("{stack} {} {}\n", of(&said.rest_folded.lines, stack), of(&said.slow_folded.lines, stack))
                };
                stacks.into_iter().map(line).collect()
            }
        }
    }
}

/// Writes a file whole or not at all, and over nothing.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", path.display()), &error)
            .hint("a file that is there already is not written over")
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| failed(error.error))?;
    Ok(())
}
