//! The page of `profile ticks`.

use std::path::PathBuf;

use evenkeel_measure::{Samples, Unit};
use evenkeel_profile::ticks::compare::{Comparison, Growth, Slow, TicksCaveat};
use evenkeel_profile::ticks::cut::Ends;
use serde::Serialize;

use crate::show::blocks::Block;
use crate::show::units::{part, percent, quantity, real_quantity};

/// Slow ticks that the page lists; JSON has a hundred.
const LISTED: usize = 12;

/// The answer.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// The thread; of several that share the tick, the one with most of its work.
    pub(crate) thread: Thread,
    /// All threads that do the tick's work, that with the most first.
    pub(crate) threads: Vec<Thread>,
    /// Ticks a second; none where they keep no time.
    pub(crate) tick_hz: Option<f64>,
    /// By what ticks are told apart.
    #[serde(flatten)]
    pub(crate) source: TickSource,
    /// What ends a tick.
    pub(crate) ends: Ends,
    /// Ticks whose end was to be told and was not: they are left out.
    pub(crate) unended_ticks: u64,
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

/// What ticks were recognized by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TickSource {
    /// `wakes`, `library`, `packets`, `place` or `event`.
    pub(crate) by: &'static str,
    /// The event at which ticks begin.
    pub(crate) begins_at: Option<String>,
    /// The event at which they end.
    pub(crate) ends_at: Option<String>,
    /// Why another source was not used.
    #[serde(skip)]
    pub(crate) caveat: Option<String>,
}

impl TickSource {
    /// Whether each tick's due time is known, and so how late it began.
    pub(crate) fn is_due_known(&self) -> bool {
        matches!(self.by, "wakes" | "library")
    }
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

pub(crate) fn blocks(answer: &Answer) -> Vec<Block> {
    let said = &answer.comparison;
    let name = answer.thread.name.as_deref().unwrap_or("unknown");
    let others = match answer.threads.len() {
        0 | 1 => String::new(),
        several => format!(", and {} more threads that share the tick", several - 1),
    };
    let mut blocks = vec![
        Block::heading("Slow ticks beside the rest"),
        Block::row("thread", format!("{name} ({}) of process {}{others}", answer.thread.tid, answer.thread.pid)),
    ];
    blocks.extend(answer.tick_hz.map(|hz| Block::row("tick rate", format!("{hz:.3} Hz"))));
    blocks.push(Block::row("told by", source_words(answer)));
    blocks.push(Block::row("ticks", format!("{} seen, {} missed", said.ticks, answer.missed_ticks)));
    blocks.push(Block::Note(format!("{}.", capital(&answer.verdict))));
    let is_due_known = answer.source.is_due_known();
    let whole = match (is_due_known, answer.source.by) {
        (true, _) => "due to done",
        (false, "packets") => "burst to burst",
        (false, _) => "begun to done",
    };
    let lateness = is_due_known.then_some(("lateness", &answer.lateness_ns));
    let lengths = [(whole, &answer.length_ns), ("on a CPU", &answer.ran_ns)].into_iter().chain(lateness);
    blocks.push(Block::table(["", "p50", "p90", "p99", "max"], lengths.map(spread).collect()));
    blocks.push(Block::heading(format!("The mean of the slowest {}, and of the rest", said.slow_ticks)));
    blocks.push(Block::table(["went to", "slow", "rest", "more"], said.growth.iter().map(growth).collect()));
    blocks.push(Block::heading("The slowest"));
    let header = ["tick", "at", "length", "most of it", "more", "in", "ended by"];
    blocks.push(Block::table(header, said.slow.iter().take(LISTED).map(slow).collect()));
    blocks.extend(said.doubts.iter().map(|doubt| Block::Warning(doubted(doubt))));
    blocks.extend(answer.source.caveat.iter().map(|why| Block::Warning(format!("{}.", capital(why)))));
    if answer.unended_ticks > 0 {
        blocks.push(Block::Warning(format!(
            "{} ticks began and were not seen to end: they are left out.",
            answer.unended_ticks
        )));
    }
    if answer.ends == Ends::AtNextBegin {
        blocks.push(Block::Note("The thread does not wait between ticks: one ends where the next begins.".to_owned()));
    }
    if let Some(recorded) = &answer.recorded {
        blocks.extend(recorded.unseen.iter().map(|unseen| Block::Warning(format!("Not to be seen: {unseen}."))));
        blocks.push(Block::Note(format!(
            "{} samples in {}, {} a second of CPU time; reading them took {} of one CPU.",
            recorded.samples,
            quantity(recorded.elapsed_ns, Unit::Ns),
            recorded.hz,
            percent(recorded.reader_cpu_share)
        )));
    }
    blocks.extend(answer.written.as_ref().map(|file| Block::row("written", file.display().to_string())));
    blocks
}

/// By what ticks were told apart.
fn source_words(answer: &Answer) -> String {
    let TickSource { by, begins_at, ends_at, .. } = &answer.source;
    match (*by, begins_at, ends_at) {
        ("packets", _, _) => "the ends of its bursts of packets, no two closer than 1 ms".to_owned(),
        ("library", _, _) => "the marks of evenkeel-rt: due, begun and done".to_owned(),
        (_, Some(begin), Some(end)) => format!("{begin}, up to {end}"),
        (_, Some(begin), None) if answer.ends == Ends::AtItsWait => {
            format!("{begin}, up to the thread's wait")
        }
        (_, Some(begin), None) => format!("{begin}, up to the next one"),
        (_, None, _) => "the thread's wake-ups".to_owned(),
    }
}

/// What makes slow ticks slow, in a sentence.
pub(crate) fn verdict(said: &Comparison) -> String {
    let share = percent(part(said.slow_ticks as u64, said.ticks as u64));
    let more = quantity(said.slow_mean_ns.saturating_sub(said.rest_mean_ns), Unit::Ns);
    let whom = format!("the slowest {share} of ticks ({} of {}) take {more} longer", said.slow_ticks, said.ticks);
    let Some(top) = &said.top else { return whom };
    let mut words = format!("{whom}: {}", top.spent.words());
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
    let own = quantity(top.growth_ns, Unit::Ns);
    words.push_str(&format!(" ({own} of it)"));
    words
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

fn doubted(doubt: &TicksCaveat) -> String {
    match doubt {
        TicksCaveat::FewTicks { enough } => {
            format!("So few ticks have no slowest hundredth worth the name: record at least {enough} (--seconds).")
        }
        TicksCaveat::Lost { records, samples } => {
            format!(
                "Not all was seen: {records} records and {samples} samples are lost, and ticks with them may be cut wrongly."
            )
        }
        TicksCaveat::Coarse { period_ns, enough_hz } => {
            let seldom = period_ns.map_or_else(
                || "There are hardly any samples".to_owned(),
                |period| format!("One sample in {} of CPU time", quantity(period, Unit::Ns)),
            );
            format!("{seldom} sees too little of one tick: record at {enough_hz} Hz or more.")
        }
        TicksCaveat::WaitsUnknown => {
            "It is not known where the thread waits: a tick ends at its first sleep. Record switches with their stacks."
                .to_owned()
        }
        TicksCaveat::Mixed => {
            "Slow ticks are slow for several reasons: the first one is less than half of it.".to_owned()
        }
        TicksCaveat::Alike => {
            "The slowest ticks are hardly longer than the others: there is little to explain.".to_owned()
        }
    }
}
