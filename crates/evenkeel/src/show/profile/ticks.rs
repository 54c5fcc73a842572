//! The page of `profile ticks`.

use std::path::PathBuf;

use evenkeel_measure::{Samples, Unit};
use evenkeel_profile::ticks::compare::{Comparison, Growth, Slow, TicksCaveat};
use evenkeel_profile::ticks::cut::Ends;
use serde::Serialize;

use crate::show::units::{part, percent, quantity, real_quantity};
use crate::view::Block;

/// The maximum number of slow ticks on the page. The JSON answer has a hundred.
const LISTED: usize = 12;

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The tick thread. If several threads share the work of a tick, the thread with the most work.
    pub(crate) thread: Thread,
    /// All threads that do the work of a tick, with the most work first.
    pub(crate) threads: Vec<Thread>,
    /// The rate of ticks, in Hz; `null` if the ticks have no fixed rate.
    pub(crate) tick_hz: Option<f64>,
    /// How ticks were recognized.
    #[serde(flatten)]
    pub(crate) source: TickSource,
    /// Where ticks end.
    pub(crate) ends: Ends,
    /// The number of ticks without a recorded end. The answer leaves them out.
    pub(crate) unended_ticks: u64,
    /// The number of ticks that were due but did not run.
    pub(crate) missed_ticks: u64,
    /// Why slow ticks are slow, in one sentence.
    pub(crate) verdict: String,
    /// The cost of recording; `null` for a recording from a file.
    pub(crate) recorded: Option<Recorded>,
    /// How long ticks took, from the due time to the end. If the due time is unknown, from the beginning to the end.
    pub(crate) length_ns: Samples,
    /// The time for which ticks ran on a CPU.
    pub(crate) ran_ns: Samples,
    /// How late ticks began.
    pub(crate) lateness_ns: Samples,
    /// The comparison of the slow ticks with the other ticks.
    #[serde(flatten)]
    pub(crate) comparison: Comparison,
    /// The file of the graph; `null` if evenkeel wrote none.
    pub(crate) written: Option<PathBuf>,
}

/// How ticks were recognized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct TickSource {
    /// `wakes`, `library`, `packets`, `place` or `event`.
    pub(crate) by: &'static str,
    /// The event at which ticks begin; `null` if no event marks it.
    pub(crate) begins_at: Option<String>,
    /// The event at which ticks end; `null` if no event marks it.
    pub(crate) ends_at: Option<String>,
    /// Why evenkeel did not use another source; `None` without another source.
    #[serde(skip)]
    pub(crate) caveat: Option<String>,
}

impl TickSource {
    /// Whether the due time of each tick is known. The lateness needs the due time.
    pub(crate) fn is_due_known(&self) -> bool {
        matches!(self.by, "wakes" | "library")
    }
}

/// A tick thread.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: Option<String>,
}

/// The cost of recording.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Recorded {
    /// How long the recording took, in nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// The requested samples a second, in Hz.
    pub(crate) hz: u32,
    /// The number of samples of all events. Each sample costs the server a few microseconds.
    pub(crate) samples: u64,
    /// The share of a CPU that reading the samples took, from 0 to 1.
    pub(crate) reader_cpu_share: f64,
    /// The data that evenkeel could not record, and why.
    pub(crate) unseen: Vec<String>,
}

pub(crate) fn blocks(answer: &Answer) -> Vec<Block> {
    let said = &answer.comparison;
    let name = answer.thread.name.as_deref().unwrap_or("unknown");
    let others = match answer.threads.len() {
        0 | 1 => String::new(),
        several => format!(", and {} more threads with the same tick", several - 1),
    };
    let mut blocks = vec![
        Block::heading("Slow ticks compared with the rest"),
        Block::row("thread", format!("{name} ({}) of process {}{others}", answer.thread.tid, answer.thread.pid)),
    ];
    blocks.extend(answer.tick_hz.map(|hz| Block::row("tick rate", format!("{hz:.3} Hz"))));
    blocks.push(Block::row("ticks from", source_words(answer)));
    blocks.push(Block::row("ticks", format!("{} recorded, {} missed", said.ticks, answer.missed_ticks)));
    blocks.push(Block::Note(format!("{}.", capital(&answer.verdict))));
    blocks.extend(answer.tick_hz.and_then(|hz| budget(hz, &answer.length_ns)).map(Block::Note));
    let is_due_known = answer.source.is_due_known();
    let whole = match (is_due_known, answer.source.by) {
        (true, _) => "due to done",
        (false, "packets") => "burst to burst",
        (false, _) => "begun to done",
    };
    let lateness = is_due_known.then_some(("lateness", &answer.lateness_ns));
    let lengths = [(whole, &answer.length_ns), ("on a CPU", &answer.ran_ns)].into_iter().chain(lateness);
    blocks.push(Block::table(["", "p50", "p90", "p99", "max"], lengths.map(spread).collect()));
    blocks.push(Block::heading(format!("Average of the slowest {} ticks, and of the rest", said.slow_ticks)));
    blocks.push(Block::table(["time in", "slow", "rest", "difference"], said.growth.iter().map(growth).collect()));
    blocks.push(Block::heading("The slowest ticks"));
    let header = ["tick", "at", "length", "mainly", "difference", "in", "ended by"];
    blocks.push(Block::table(header, said.slow.iter().take(LISTED).map(slow).collect()));
    blocks.extend(said.caveats.iter().map(|caveat| Block::Warning(caveat_text(caveat))));
    blocks.extend(answer.source.caveat.iter().map(|why| Block::Warning(format!("{}.", capital(why)))));
    if answer.unended_ticks > 0 {
        blocks.push(Block::Warning(format!("{} ticks have no recorded end and are left out.", answer.unended_ticks)));
    }
    if answer.ends == Ends::AtNextBegin {
        blocks.push(Block::Note(
            "The thread does not wait between ticks, so a tick ends where the next begins.".to_owned(),
        ));
    }
    if let Some(recorded) = &answer.recorded {
        blocks.extend(recorded.unseen.iter().map(|unseen| Block::Warning(format!("Not recorded: {unseen}."))));
        blocks.push(Block::Note(format!(
            "{} samples in {}, at {} a second of CPU time. Reading them used {} of one CPU.",
            recorded.samples,
            quantity(recorded.elapsed_ns, Unit::Ns),
            recorded.hz,
            percent(recorded.reader_cpu_share)
        )));
    }
    blocks.extend(answer.written.as_ref().map(|file| Block::row("written", file.display().to_string())));
    blocks
}

/// Text about how evenkeel recognized the ticks.
fn source_words(answer: &Answer) -> String {
    let TickSource { by, begins_at, ends_at, .. } = &answer.source;
    match (*by, begins_at, ends_at) {
        ("packets", _, _) => "bursts of packets, at least 1 ms apart".to_owned(),
        ("library", _, _) => "the markers of evenkeel-rt".to_owned(),
        (_, Some(begin), Some(end)) => format!("{begin} to {end}"),
        (_, Some(begin), None) if answer.ends == Ends::AtItsWait => {
            format!("{begin} to the thread's wait")
        }
        (_, Some(begin), None) => format!("{begin} to the next one"),
        (_, None, _) => "the thread's wake-ups".to_owned(),
    }
}

/// Why slow ticks are slow, in one sentence.
pub(crate) fn verdict(said: &Comparison) -> String {
    let share = percent(part(said.slow_ticks as u64, said.ticks as u64));
    let more = quantity(said.slow_mean_ns.saturating_sub(said.rest_mean_ns), Unit::Ns);
    let whom = format!(
        "the slowest {share} of ticks ({} of {}) take {more} longer than the rest",
        said.slow_ticks, said.ticks
    );
    let Some(top) = &said.top else { return whom };
    let own = quantity(top.growth_ns, Unit::Ns);
    let mut words = format!("{whom}, of which {own}: {}", top.spent.words());
    if let Some(function) = &top.function {
        words.push_str(&format!(" in {function}"));
    }
    if let Some(from) = &top.from {
        words.push_str(&format!(" from {from}"));
    }
    if let Some(thread) = &top.ended_by {
        words.push_str(&match top.spent.name() {
            "futex" => format!(", held by thread {thread}"),
            _ => format!(", ended by thread {thread}"),
        });
    }
    if let Some(thread) = &top.taken_by {
        words.push_str(&format!(", taken by thread {thread}"));
    }
    words
}

/// Text about how long ticks took compared with the time between ticks.
fn budget(hz: f64, length_ns: &Samples) -> Option<String> {
    let period_ns = (1e9 / hz) as u64;
    let of = |share: f64| length_ns.histogram.quantile(share);
    let (p99_ns, max_ns) = (of(0.99)?, of(1.0)?);
    let verdict = match (p99_ns > period_ns, max_ns > period_ns) {
        (true, _) => "more than one tick in a hundred overran",
        (false, true) => "the longest overran, but 99 of 100 ticks were in time",
        (false, false) => "every tick was in time",
    };
    let [period, p99, max] = [period_ns, p99_ns, max_ns].map(|ns| quantity(ns, Unit::Ns));
    Some(format!("A tick has {period}. The p99 was {p99} and the longest {max}: {verdict}."))
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn spread((name, samples): (&str, &Samples)) -> [String; 5] {
    let histogram = &samples.histogram;
    let of = |share: f64| histogram.quantile(share).map_or_else(|| "unknown".to_owned(), |ns| quantity(ns, Unit::Ns));
    [name.to_owned(), of(0.5), of(0.9), of(0.99), of(1.0)]
}

fn growth(growth: &Growth) -> [String; 4] {
    [
        growth.spent.name().to_owned(),
        quantity(growth.slow_ns, Unit::Ns),
        quantity(growth.rest_ns, Unit::Ns),
        real_quantity(growth.ns() as f64, Unit::Ns),
    ]
}

fn slow(slow: &Slow) -> [String; 7] {
    [
        slow.number.to_string(),
        quantity(slow.at_ns, Unit::Ns),
        quantity(slow.length_ns, Unit::Ns),
        slow.spent.name().to_owned(),
        quantity(slow.growth_ns, Unit::Ns),
        slow.function.clone().unwrap_or_default(),
        slow.ended_by.clone().unwrap_or_default(),
    ]
}

fn caveat_text(caveat: &TicksCaveat) -> String {
    match caveat {
        TicksCaveat::FewTicks { enough } => {
            format!("There are too few ticks to find the slowest 1 %. Record at least {enough} ticks (--seconds).")
        }
        TicksCaveat::Lost { records, samples } => {
            format!("{records} records and {samples} samples were lost, so some ticks may be divided wrongly.")
        }
        TicksCaveat::Coarse { period_ns, enough_hz } => {
            let seldom = period_ns.map_or_else(
                || "There are almost no samples".to_owned(),
                |period| format!("There is one sample for each {} of CPU time", quantity(period, Unit::Ns)),
            );
            format!("{seldom}, too few to show what happens in a tick. Record with --hz {enough_hz} or more.")
        }
        TicksCaveat::WaitsUnknown => {
            "The recording has no stacks of switches, so a tick ends at its first sleep. Record switches with stacks."
                .to_owned()
        }
        TicksCaveat::Mixed => {
            "Slow ticks have several causes: the largest is less than half of the difference.".to_owned()
        }
        TicksCaveat::Alike => {
            "The slowest ticks are hardly longer than the rest, so there is little to explain.".to_owned()
        }
    }
}
