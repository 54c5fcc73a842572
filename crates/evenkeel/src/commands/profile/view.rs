//! `evenkeel profile view`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_profile::firefox;
use evenkeel_profile::fold::{Base, Folded, thread_name};
use evenkeel_profile::graph::{self, Direction, Quantity, Style};
use evenkeel_profile::offcpu::{self, OffCpuInterval};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::summary;
use evenkeel_profile::ticks::cut::{self, Wanted};
use evenkeel_profile::tree::Tree;

use super::input::Opened;
use super::pick::{By, Pick, Picked};
use super::source::{self, Source};
use super::written::{self, Kind, Output};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::profile::view::{Answer, CpuRow, EventRow, FunctionRow, Inlined, RecordingInfo, ThreadRow};
use crate::show::units::{part, percent};
use crate::show::{Out, profile};
use crate::view::terminal;

/// The minimum number of samples for an answer without a caveat.
const FEW_SAMPLES: usize = 1000;
/// If functions without names have at least this share of the weight, the answer gets a caveat.
const UNNAMED_SHARE_MIN: f64 = 0.05;

/// Show a recording: CPU time by function, CPU and stack
///
/// Prints the functions that took most CPU time;
/// --output writes a flame graph, folded stacks, or a file for the Firefox Profiler.
/// FILE is a perf.data file of evenkeel or perf, the output of `perf script`, or folded stacks.
/// `perf report -i FILE` opens recordings of evenkeel too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel profile view perf.data
  evenkeel profile view perf.data --output flame.html --by process
  evenkeel profile view perf.data --thread main --off-cpu")]
pub(crate) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    output: Output,
    /// Draw the graph from the top down
    #[arg(long)]
    icicle: bool,
    /// What the base of each stack shows
    #[arg(long, value_enum, default_value_t)]
    by: By,
    #[command(flatten)]
    pick: Pick,
    /// Show where threads had no CPU instead, with the reason innermost; the recording needs switches
    #[arg(long, conflicts_with = "event")]
    off_cpu: bool,
    /// How many functions to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let wanted = args.output.wanted()?;
    let source = source::open(&args.file)?;
    let mut graph = None;
    let mut answer = match &source {
        Source::Recording(opened) if !args.off_cpu => {
            let picked = args.pick.select(&opened.recording)?;
            // The page and the graph share one tree.
            let tree = source::tree(opened, &picked, args.by);
            let answer = of_recording(args, opened, &picked, &tree.above(args.by.base().levels()));
            graph = Some((tree, answer.quantity.clone()));
            answer
        }
        Source::Recording(opened) => off_cpu(args, opened)?,
        Source::Folded(_) => {
            let (tree, quantity) = source.tree(&args.pick, args.by, &args.file)?;
            let caveats = Vec::new();
            let (file, functions) = (args.file.display().to_string(), functions(&tree, args.top));
            let (unit, weight) = (unit(&quantity), tree.total());
            Answer { file, recording: None, unit, weight, functions, names: None, caveats, written: None, quantity }
        }
    };
    if let Some((path, kind)) = wanted {
        write(args, &source, graph, &answer, (path, kind))?;
        answer.written = Some(path.display().to_string());
    }
    out.answer(&answer, || terminal::text(&profile::view::blocks(&answer)))?;
    Ok(exit::WELL)
}

fn of_recording(args: &Args, opened: &Opened, picked: &Picked<'_>, tree: &Tree) -> Answer {
    Answer {
        file: args.file.display().to_string(),
        unit: unit(&picked.quantity),
        weight: tree.total(),
        functions: functions(tree, args.top),
        names: Some(opened.coverage.clone()),
        caveats: caveats(opened, picked, tree),
        written: None,
        recording: Some(info(opened, picked, args.top)),
        quantity: picked.quantity.clone(),
    }
}

/// The answer for --off-cpu.
fn off_cpu(args: &Args, opened: &Opened) -> Result<Answer, Failure> {
    let recording = &opened.recording;
    let intervals = intervals(args, opened)?;
    let tree = Tree::from(&offcpu::folded(recording, &opened.names, &intervals, Base::Nothing));
    let mut info = info(opened, &args.pick.select(recording)?, args.top);
    // In this answer, `samples` counts off-CPU intervals.
    // The event's text is a value of the JSON format, so it must not change.
    (info.event, info.samples) = ("intervals off the CPU".to_owned(), intervals.len() as u64);
    (info.cpus, info.threads) = (Vec::new(), threads(recording, &intervals, args.top));
    info.idle_samples = None;
    Ok(Answer {
        file: args.file.display().to_string(),
        unit: unit(&Quantity::OffCpuTime),
        weight: tree.total(),
        functions: functions(&tree, args.top),
        caveats: lost(recording),
        names: Some(opened.coverage.clone()),
        written: None,
        recording: Some(info),
        quantity: Quantity::OffCpuTime,
    })
}

/// The selected off-CPU intervals.
fn intervals(args: &Args, opened: &Opened) -> Result<Vec<OffCpuInterval>, Failure> {
    let recording = &opened.recording;
    if recording.switches.is_empty() {
        let why = "the recording has no switches";
        return Err(Failure::text(exit::WRONG_USE, "show where threads had no CPU", why)
            .hint("record with switches: evenkeel profile record --switches, or perf record --switch-events"));
    }
    let span = args.pick.select(recording)?.span;
    let is_wanted = |interval: &OffCpuInterval| {
        span.contains(interval.span.start_ns) && args.pick.is_of(recording, interval.pid, interval.tid, interval.cpu)
    };
    Ok(offcpu::intervals(recording, &opened.names).into_iter().filter(is_wanted).collect())
}

fn threads(recording: &Recording, intervals: &[OffCpuInterval], top: u32) -> Vec<ThreadRow> {
    let mut by_thread: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for interval in intervals {
        let sums = by_thread.entry((interval.pid, interval.tid)).or_default();
        (sums.0, sums.1) = (sums.0 + 1, sums.1.saturating_add(interval.span.length_ns()));
    }
    let mut rows: Vec<ThreadRow> = by_thread
        .into_iter()
        .map(|((pid, tid), (samples, weight))| ThreadRow {
            pid,
            tid,
            name: thread_name(recording, tid),
            samples,
            weight,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.weight));
    rows.truncate(top as usize);
    rows
}

fn unit(quantity: &Quantity) -> String {
    match quantity {
        Quantity::CpuTime | Quantity::OffCpuTime => "ns".to_owned(),
        other => other.words().to_owned(),
    }
}

fn info(opened: &Opened, picked: &Picked<'_>, top: u32) -> RecordingInfo {
    let recording = &opened.recording;
    let samples = || picked.samples.iter().copied();
    let span_ns = picked.span.length_ns();
    let is_time = picked.quantity == Quantity::CpuTime;
    let cpu_row = |cpu: summary::Cpu| CpuRow {
        cpu: cpu.cpu,
        samples: cpu.samples,
        weight: cpu.weight,
        sampled_share: (is_time && span_ns > 0).then(|| cpu.weight as f64 / span_ns as f64),
        idle_share: (is_time && span_ns > 0 && cpu.idle > 0).then(|| cpu.idle as f64 / span_ns as f64),
        top_thread: cpu.thread.0,
        top_thread_share: part(cpu.thread.1, cpu.weight),
        top_function: cpu.function.0,
        top_function_share: part(cpu.function.1, cpu.weight),
    };
    let mut counts = vec![0_u64; recording.events.len()];
    recording.samples.iter().for_each(|sample| {
        if let Some(count) = counts.get_mut(usize::from(sample.event)) {
            *count += 1;
        }
    });
    let events = recording.events.iter().zip(counts);
    let threads = summary::threads(recording, samples()).into_iter().take(top as usize);
    RecordingInfo {
        host: recording.machine.host.clone(),
        kernel: recording.machine.kernel.clone(),
        command: recording.machine.command.clone(),
        event: picked.event.clone(),
        span_ns,
        samples: picked.samples.len() as u64,
        idle_samples: Some(picked.idle.len() as u64).filter(|count| *count > 0),
        events: events.map(|(event, samples)| EventRow { event: event.name.clone(), samples }).collect(),
        cpus: summary::cpus(recording, &opened.names, samples(), picked.idle.iter().copied())
            .into_iter()
            .map(cpu_row)
            .collect(),
        threads: threads
            .map(|part| ThreadRow {
                pid: part.pid,
                tid: part.tid,
                name: part.name,
                samples: part.samples,
                weight: part.weight,
            })
            .collect(),
        lost: recording.lost.into(),
    }
}

fn functions(tree: &Tree, top: u32) -> Vec<FunctionRow> {
    let total = tree.total();
    let row = |one: summary::Function| FunctionRow {
        kind: one.kind.word(),
        own_weight: one.own,
        own_share: part(one.own, total),
        with_weight: one.with,
        with_share: part(one.with, total),
        most_inlined: one.inlined.map(|(function, own)| Inlined { function, own_share: part(own, total) }),
        function: one.name,
    };
    summary::functions(tree).into_iter().take(top as usize).map(row).collect()
}

/// The caveat about lost records, if the recording lost any.
fn lost(recording: &Recording) -> Vec<String> {
    let mut caveats = Vec::new();
    let lost = recording.lost;
    if lost.records > 0 || lost.samples > 0 {
        let (records, samples) = (lost.records, lost.samples);
        caveats.push(format!("{records} records and {samples} samples were lost, so their time is missing here"));
    }
    if lost.throttled > 0 {
        caveats.push(format!(
            "the kernel paused sampling {} times, because sampling took too much CPU time",
            lost.throttled
        ));
    }
    if lost.odd > 0 {
        caveats.push(format!("{} records were invalid and skipped", lost.odd));
    }
    caveats.extend(recording.caveats.iter().map(ToString::to_string));
    caveats
}

/// The caveats of a page.
fn caveats(opened: &Opened, picked: &Picked<'_>, tree: &Tree) -> Vec<String> {
    let mut caveats = lost(&opened.recording);
    let count = picked.samples.len();
    if count == 0 && !picked.idle.is_empty() {
        caveats.push("the selected part has only samples of the idle thread".to_owned());
    } else if count == 0 {
        caveats.push("the selected part has no samples".to_owned());
    } else if count < FEW_SAMPLES {
        // Twice the standard error of a share of 0.5, in percentage points.
        let points = 100.0 / (count as f64).sqrt();
        caveats.push(format!("with only {count} samples, a share is accurate to about ±{points:.0} points"));
    }
    caveats.extend(opened.coverage.said());
    let unnamed = summary::unnamed(tree).iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
    let unnamed = part(unnamed, tree.total());
    if unnamed >= UNNAMED_SHARE_MIN {
        caveats.push(format!("{} is in functions without names", percent(unnamed)));
    }
    caveats
}

fn write(
    args: &Args,
    source: &Source,
    graph: Option<(Tree, Quantity)>,
    answer: &Answer,
    (path, kind): (&Path, Kind),
) -> Result<(), Failure> {
    let (tree, quantity) = match (source, graph) {
        (_, Some(graph)) => graph,
        (Source::Recording(opened), None) if args.off_cpu => {
            let folded = offcpu::folded(&opened.recording, &opened.names, &intervals(args, opened)?, args.by.base());
            (Tree::from(&folded), Quantity::OffCpuTime)
        }
        (source, None) => source.tree(&args.pick, args.by, &args.file)?,
    };
    let origin = match source {
        Source::Recording(opened) => opened.origin(),
        Source::Folded(_) => String::new(),
    };
    let style = style(args, answer, quantity, origin);
    let text = match kind {
        Kind::Svg => graph::svg_of(&tree, &style),
        Kind::Html => graph::html_of(&tree, &style),
        Kind::Folded => Folded::from(&tree).lines.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect(),
        Kind::Firefox => firefox(args, source, path, &style.title)?,
    };
    written::write(path, text.as_bytes())
}

fn firefox(args: &Args, source: &Source, path: &Path, title: &str) -> Result<String, Failure> {
    let tried = format!("write {}", path.display());
    let Source::Recording(opened) = source else {
        let why = "folded stacks have no threads and times, which the Firefox Profiler needs";
        return Err(Failure::text(exit::WRONG_USE, tried, why).hint("use the extension .svg or .html"));
    };
    let recording = &opened.recording;
    let picked = args.pick.select(recording)?;
    let intervals = if recording.switches.is_empty() { Vec::new() } else { intervals(args, opened)? };
    let mut marks = firefox::interval_marks(recording, &intervals);
    if let Ok(cut) = cut::find(recording, &cut::by_thread(&intervals), &Wanted::Any) {
        marks.extend(firefox::tick_marks(recording, cut.tid, &cut.ticks));
    }
    firefox::json(title, recording, &opened.names, &picked.samples, marks)
        .map_err(|error| Failure::text(exit::NOT_POSSIBLE, tried, error))
}

fn style(args: &Args, answer: &Answer, quantity: Quantity, origin: String) -> Style {
    let name = args.file.file_name().map_or_else(|| answer.file.clone(), |name| name.to_string_lossy().into_owned());
    let title = format!("{name}: {}", quantity.to_text(answer.weight));
    let subtitle = answer.recording.as_ref().map_or_else(String::new, |info| {
        let seconds = info.span_ns as f64 / 1e9;
        let event = match answer.quantity {
            Quantity::OffCpuTime => "off-CPU intervals".to_owned(),
            _ => format!("samples of {}", info.event),
        };
        format!("{} {event} in {seconds:.1} s", info.samples)
    });
    let direction = if args.icicle { Direction::Icicle } else { Direction::Flame };
    Style { title, subtitle, origin, quantity, direction }
}
