//! `evenkeel measure ticks`.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_measure::meters::ticks::account::Due;
use evenkeel_measure::meters::ticks::choice::{Choice, Unclear, Wanted};
use evenkeel_measure::meters::ticks::function::TickFunction;
use evenkeel_measure::meters::ticks::loops::{TickLoop, Waits};
use evenkeel_measure::meters::ticks::picture::Picture;
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::tempo::{NoTick, Pacing};
use evenkeel_measure::meters::ticks::views::Workers;
use evenkeel_measure::meters::ticks::{self, Report, Thread, Ticks};
use evenkeel_measure::{Samples, Unit};

use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::output_file::{self, refuse_unwritable};
use crate::show::finding::{Finding, Grade};
use crate::show::units::{percent, percent_to, quantity, real_quantity};
use crate::view::Block;
use crate::{exit, tick_function};

/// The maximum number of listed threads.
const THREADS_MAX: usize = 12;

/// The maximum size of a recording: about ten minutes of a busy server.
const RECORDING_BYTES_MAX: u64 = 256 << 20;

/// Find the tick of a running server: its rate, the lateness and duration of ticks, and who interrupts them
///
/// Reads the kernel's records of when the server's threads got a CPU.
/// The server needs no symbols, and the meter does not stop it.
/// The meter searches all threads for loops; the tick is the loop with most of the server's work.
/// The page lists the loops if two of them may be the tick, or if the only loop may be a poll for packets.
/// Choose one with --tick, --tick-thread or --tick-function.
/// You need root for --tick-function, for servers of other users, and if kernel.perf_event_paranoid forbids it.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("whose").args(["pid", "recording"]).required(true))]
#[command(after_help = "Examples:
  evenkeel measure ticks --pid 1234
  evenkeel measure ticks --pid 1234 --tick 50 --save ticks.txt
  evenkeel measure ticks --recording ticks.txt")]
pub(crate) struct Args {
    /// The process of the server; separate several with commas
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// Read a recording of --save instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "save"])]
    recording: Option<PathBuf>,
    /// The tick rate in Hz, if you know it. The meter takes the loop with the nearest rate
    #[arg(long, value_name = "HZ", value_parser = rate)]
    tick: Option<f64>,
    /// Consider only threads of this name
    #[arg(long, value_name = "NAME", alias = "thread")]
    tick_thread: Option<String>,
    /// The function that the server enters once a tick: SYMBOL of its program, or BINARY:SYMBOL of a loaded file.
    /// A tick begins at this function and lasts until the thread waits. Each entry costs the server a few microseconds
    #[arg(long, value_name = "SYMBOL", conflicts_with_all = ["tick", "tick_thread"], value_parser = tick_function::parse)]
    tick_function: Option<TickFunction>,
    /// Duration
    #[arg(long, value_name = "TIME", default_value_t = 10, value_parser = crate::times::whole_seconds(1..=600))]
    seconds: u64,
    /// Also write the recording to FILE, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Meter for Args {
    const NAME: &'static str = "ticks";
    const TITLE: &'static str = "The tick";
    /// The answer of format 1 had only one thread, with its tick.
    const FORMAT: u32 = 2;
    const NEEDS_IDLE: bool = false;
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        self.save.as_deref().map_or(Ok(()), refuse_unwritable)?;
        let wanted =
            Wanted { tick_hz: self.tick, thread: self.tick_thread.clone(), function: self.tick_function.clone() };
        let settings =
            ticks::Settings { pids: self.pid.clone(), wanted: wanted.clone(), for_ns: self.seconds * 1_000_000_000 };
        let stream = match &self.recording {
            Some(file) => read(file)?,
            None => context.measure(|watch| ticks::record(&settings, watch))?,
        };
        if let Some(file) = &self.save {
            std::fs::write(file, stream.to_text()).map_err(|error| output_file::failure(file, &error))?;
        }
        Ok(ticks::report(&stream, &wanted))
    }

    fn finding(report: &Report) -> Option<Finding> {
        Some(match (report.choice.tick(), &report.ticks) {
            (Ok(_), Some(ticks)) => on_time(ticks),
            (Ok(_), None) => Finding::unknown("the ticks of this loop could not be followed"),
            (Err(why), _) => Finding::unknown(format!("no loop is clearly the tick: {why}")),
        })
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("The tick")];
        match (report.choice.tick(), &report.ticks) {
            (Ok(tick), Some(ticks)) => blocks.extend(numbers(tick, ticks)),
            (Ok(_), None) => {}
            (Err(why), _) => {
                blocks.push(Block::Note(hint(&why)));
                blocks.extend(children(&report.children));
            }
        }
        blocks.push(Block::row("watched", quantity(report.watched_ns, Unit::Ns)));
        blocks.push(Block::row("server's CPU", percent(report.cpu_share)));
        blocks.extend(loops(&report.choice));
        blocks.extend(report.picture.as_ref().map(picture).into_iter().flatten());
        blocks.extend(threads(report));
        blocks.extend(warnings(report));
        blocks.push(Block::Note(format!(
            "Reading the records took {} of one CPU.",
            percent_to(3, report.reader_cpu_share)
        )));
        blocks
    }
}

/// The finding on lateness. A tick that ends after the next tick is due delays that next tick.
fn on_time(ticks: &Ticks) -> Finding {
    let known = ticks.due != Due::Unknown;
    let samples = if known { &ticks.due_to_done_ns } else { &ticks.work_ns };
    let Some(p99) = samples.histogram.quantile(0.99) else { return Finding::unknown("no tick was seen") };
    let period_ns = 1e9 / ticks.tick_hz;
    let (took, next) = (quantity(p99, Unit::Ns), real_quantity(period_ns, Unit::Ns));
    let says = if known {
        format!("a tick ends {took} after it was due (p99); the next tick is due after {next}")
    } else {
        format!("a tick works for {took} (p99); the next tick begins after {next}")
    };
    Finding::new(Grade::of_low(p99 as f64, period_ns / 2.0, period_ns), says)
}

/// Parses a tick rate. The rate must be in the range that the meter can find.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rates = ticks::tempo::RATE_HZ;
    let hz = text.parse().ok().filter(|hz| rates.contains(hz));
    hz.ok_or_else(|| format!("expected a rate from {} to {} Hz", rates.start(), rates.end()))
}

fn read(file: &Path) -> Result<Stream, Failure> {
    let tried = || format!("read {}", file.display());
    let text = user_file::read_text(file, RECORDING_BYTES_MAX).map_err(|error| Failure::user_file(tried(), &error))?;
    Stream::parse(&text).map_err(|why| Failure::text(exit::WRONG_USE, tried(), why))
}

/// Characters of the timeline, from idle to busy.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A server may do its work in other processes.
fn children(pids: &[u32]) -> Option<Block> {
    let (first, more) = pids.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(Block::Note(format!(
        "It has child processes ({first}{more}), which were not watched. If they do the work, name them: --pid {first}."
    )))
}

/// Advice for a user whose server has no clear tick.
pub(crate) fn hint(why: &Unclear) -> String {
    match why {
        Unclear::NoLoop { reason: NoTick::NeverSleeps } => "A server that waits for its next tick in a busy loop shows no ticks to the kernel. Name the \
                                                            function that it enters once a tick with --tick-function SYMBOL."
            .to_owned(),
        Unclear::NoLoop { .. } => "If the server ticks only with players, connect some. If you know its rate, use --tick HZ. A server that \
                                   waits for requests has no tick: measure its requests instead (`evenkeel prove` with --regex-metric, --json-metric)."
            .to_owned(),
        Unclear::Unwatched { .. } => "A server that starts a thread for each tick can't be followed: measure its own numbers instead (`evenkeel prove` with \
                                      --regex-metric, --json-metric)."
            .to_owned(),
        Unclear::Woken { hz } => format!(
            "A server that works when packets come has no tick: measure its requests or packets instead (`evenkeel prove` with --regex-metric, \
             --json-metric, --observe packets). If this loop is its tick all the same, pass --tick {hz:.1}."
        ),
        Unclear::Several { first_hz, .. } => {
            format!("Choose one with --tick (for example --tick {first_hz:.1}), --tick-thread NAME or --tick-function SYMBOL.")
        }
        Unclear::RateChanges { hz, other_hz } => format!(
            "Keep the server in one state while you measure, for example with the same number of players. Or choose the rate that matters: \
             --tick {hz:.1} or --tick {other_hz:.1}."
        ),
        Unclear::HeavierWakes { heavier_hz, .. } => format!(
            "Put load on the server and measure again: its ticks then do more than its polls. If {heavier_hz:.1} Hz is its rate, pass --tick {heavier_hz:.1}."
        ),
        Unclear::LittleWork { hz, .. }
        | Unclear::Poll { hz, .. }
        | Unclear::Sparse { hz, .. }
        | Unclear::Idle { hz, .. } => {
            format!("Put load on the server and measure again. If this loop is its tick, pass --tick {hz:.1}.")
        }
        Unclear::NotEntered { .. } => "Name a function that the server enters while it ticks. One that the compiler put into its caller is never \
                                       entered: name the caller. If the server ticks only with players, connect some."
            .to_owned(),
        Unclear::EnteredIrregularly { .. } => {
            "Name a function that the server enters once a tick, such as the body of its main loop.".to_owned()
        }
        Unclear::NoSuchRate { .. } => "Name the rate of one of the loops below, or leave --tick out.".to_owned(),
    }
}

fn numbers(tick: &TickLoop, ticks: &Ticks) -> Vec<Block> {
    let pacing = match ticks.pacing {
        Pacing::FixedTimes => "at fixed times: a late tick does not delay the next",
        Pacing::Chained => "chained: a late tick delays all later ticks",
        Pacing::Unknown => "fixed times or chained: unknown",
    };
    let row = |name: &str, samples: &Samples| {
        let summary = samples.histogram.summary();
        let of = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| quantity(value, Unit::Ns));
        let [p50, p99, max] = [summary.map(|s| s.p50), summary.map(|s| s.p99), summary.map(|s| s.max)].map(of);
        [name.to_owned(), p50, p99, max]
    };
    let mut rows = vec![row("interval", &ticks.interval_ns)];
    if ticks.due != Due::Unknown {
        rows.push(row("lateness", &ticks.lateness_ns));
    }
    rows.extend([row("CPU time", &ticks.work_ns), row("start to end", &ticks.wall_ns)]);
    if ticks.due != Due::Unknown {
        rows.push(row("due to end", &ticks.due_to_done_ns));
    }
    let begins = match &tick.of {
        Workers::Function(name) => Some(Block::row("begins", format!("when a thread enters {name}"))),
        _ => None,
    };
    let mut blocks = vec![
        Block::row("tick rate", format!("{:.3} Hz, {pacing}", ticks.tick_hz)),
        Block::row("threads", carriers(tick)),
        Block::row(
            "ticks",
            format!(
                "{} observed, {} missed, {} began within other work",
                ticks.ticks, ticks.missed_ticks, ticks.hidden_ticks
            ),
        ),
        Block::row(
            "interrupted",
            format!("{} ticks lost the CPU, {} continued on another CPU", ticks.preempted_ticks, ticks.moved_ticks),
        ),
        Block::table(["", "p50", "p99", "max"], rows),
    ];
    if let Some(begins) = begins {
        blocks.insert(1, begins);
    }
    let note = match ticks.due {
        Due::AsAsked => None,
        Due::Earliest => Some(
            "evenkeel could not read when the server asked to be woken, so lateness counts from the earliest ticks. It excludes any delay that \
             all ticks have.",
        ),
        Due::Unknown => Some("Lateness is unknown, because these ticks have no known due times. Compare intervals."),
    };
    blocks.extend(note.map(|words| Block::Note(words.to_owned())));
    blocks
}

/// The loops that the meter found, with the evidence for each.
fn loops(choice: &Choice) -> Vec<Block> {
    if choice.loops.is_empty() {
        return Vec::new();
    }
    let row = |(at, one): (usize, &TickLoop)| {
        let mark = if choice.tick == Some(at) { "tick" } else { "" };
        [
            mark.to_owned(),
            format!("{:.2} Hz", one.tempo.hz()),
            percent(one.work_share),
            quantity(one.tick_work_ns_p50, Unit::Ns),
            percent(one.tempo.presence),
            carriers(one),
            waits(one),
        ]
    };
    let rows = choice.loops.iter().enumerate().map(row).collect();
    vec![
        Block::heading("Loops of the server"),
        Block::table(["", "rate", "of CPU time", "work (p50)", "present", "threads", "sleeps"], rows),
    ]
}

fn carriers(one: &TickLoop) -> String {
    let names = one.carriers.iter().take(3).map(|carrier| match one.of {
        Workers::Thread(_) => format!("{} ({})", carrier.name, carrier.tid),
        Workers::Pool(_) | Workers::Process | Workers::Function(_) => {
            format!("{} ({}) {}", carrier.name, carrier.tid, percent(carrier.share))
        }
    });
    let more = one.carriers.len().saturating_sub(3);
    let names: Vec<String> = names.chain((more > 0).then(|| format!("{more} more"))).collect();
    names.join(", ")
}

fn waits(one: &TickLoop) -> String {
    let waits = match one.waits {
        Waits::PollsFor { ns } => format!("polls, {} each time", quantity(ns, Unit::Ns)),
        Waits::ForItsTime => "until a time".to_owned(),
        Waits::WokenBefore => "woken from outside".to_owned(),
        Waits::Unseen => "unknown".to_owned(),
    };
    match (one.within_hz, one.holds_hz) {
        (Some(hz), _) => format!("{waits}; every few wakes of the {hz:.1} Hz loop"),
        (None, Some(hz)) => format!("{waits}; without the ticks of the {hz:.1} Hz loop"),
        (None, None) => waits,
    }
}

fn picture(picture: &Picture) -> Vec<Block> {
    let width = picture.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(16);
    let lines = picture.rows.iter().map(|row| {
        let level = |share: &f64| {
            let at = if *share > 0.0 { (share * 8.0).ceil().clamp(1.0, 8.0) as usize } else { 0 };
            LEVELS[at]
        };
        let name: String = row.name.chars().take(width).collect();
        [name, row.cells.iter().map(level).collect::<String>()]
    });
    vec![
        Block::heading(format!("Timeline, {} per cell", quantity(picture.cell_ns as u64, Unit::Ns))),
        Block::table(["thread", "awake"], lines.collect()),
    ]
}

fn threads(report: &Report) -> Vec<Block> {
    let row = |one: &Thread| {
        [one.name.clone(), one.tid.to_string(), percent(one.cpu_share), format!("{:.1}", one.wakes_per_s)]
    };
    let rows: Vec<_> = report.threads.iter().take(THREADS_MAX).map(row).collect();
    if rows.len() < 2 {
        return Vec::new();
    }
    vec![
        Block::heading(format!("The busiest of {} threads", report.threads.len() + report.unwatched_threads)),
        Block::table(["thread", "id", "of a CPU", "wakes per second"], rows),
    ]
}

fn warnings(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    let unseen = &report.unseen;
    if !unseen.is_nothing() {
        let words = format!(
            "Some records are missing: {} lost, ring buffer full {} times, {} wakes over the limit. Missed ticks may be due to this.",
            unseen.records, unseen.overflows, unseen.wakes
        );
        blocks.push(Block::Warning(words));
    }
    if report.unwatched_threads > 0 {
        blocks.push(Block::Warning(format!(
            "{} threads were not watched, only the busiest. Name one with --tick-thread.",
            report.unwatched_threads
        )));
    }
    if report.is_over {
        blocks.push(Block::Warning(
            "The server ended during the measurement. The numbers cover the time before.".to_owned(),
        ));
    }
    blocks
}
