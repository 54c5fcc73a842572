//! The page of `measure ticks`.

use evenkeel_measure::meters::ticks::account::Due;
use evenkeel_measure::meters::ticks::tempo::Pacing;
use evenkeel_measure::meters::ticks::threads::Candidate;
use evenkeel_measure::meters::ticks::{Report, Ticks};
use evenkeel_measure::{Samples, Unit};

use crate::show::blocks::{Block, quantity};

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let chosen = &report.look.chosen;
    let mut blocks = vec![Block::heading("The tick, seen from outside")];
    blocks.push(Block::row("thread", format!("{} ({}) of process {}", chosen.name, chosen.tid, chosen.pid)));
    blocks.push(Block::row("watched", quantity(report.watched_ns, Unit::Ns)));
    blocks.push(Block::row("of a CPU", percent(report.cpu_share)));
    blocks.push(Block::row("wakes", format!("{:.1} a second", report.wakes_per_s)));
    match (&report.ticks, report.why) {
        (Some(ticks), _) => blocks.extend(tick(ticks)),
        (None, why) => {
            let why = why.map_or_else(|| "nothing was seen".to_owned(), |why| why.to_string());
            blocks.push(Block::Warning(format!("No tick is to be seen here: {why}.")));
        }
    }
    blocks.extend(threads(report));
    blocks.extend(warnings(report));
    blocks.push(Block::Note(format!("Reading the records took {:.3} % of one CPU.", report.reader_cpu_share * 100.0)));
    blocks
}

fn tick(ticks: &Ticks) -> Vec<Block> {
    let pacing = match ticks.pacing {
        Pacing::Kept => "at set times: a late one does not move the others",
        Pacing::Walks => "each a period after the one before, however late that was",
    };
    let row = |name: &str, samples: &Samples| {
        let summary = samples.histogram.summary();
        let of = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| quantity(value, Unit::Ns));
        let [p50, p99, max] = [summary.map(|s| s.p50), summary.map(|s| s.p99), summary.map(|s| s.max)].map(of);
        [name.to_owned(), p50, p99, max]
    };
    let rows = vec![
        row("interval", &ticks.interval_ns),
        row("lateness", &ticks.lateness_ns),
        row("work, on a CPU", &ticks.work_ns),
        row("begun to done", &ticks.wall_ns),
        row("due to done", &ticks.due_to_done_ns),
    ];
    let mut blocks = vec![
        Block::row("tick rate", format!("{:.3} Hz, {pacing}", ticks.tick_hz)),
        Block::row(
            "ticks",
            format!(
                "{} seen, {} missed, {} began within other work",
                ticks.ticks, ticks.missed_ticks, ticks.hidden_ticks
            ),
        ),
        Block::row(
            "interrupted",
            format!("{} ticks lost the CPU, {} went on on another", ticks.preempted_ticks, ticks.moved_ticks),
        ),
        Block::row(
            "other wakes",
            format!("{:.1} a second; ticks are {} of its work", ticks.other_wakes_per_s, percent(ticks.work_share)),
        ),
        Block::table(["", "p50", "p99", "max"], rows),
    ];
    if ticks.due == Due::Earliest {
        let words = "It was not to be seen what the thread asked to be woken at: lateness is counted from the earliest ticks, and what is added to all of them is not in it.";
        blocks.push(Block::Note(words.to_owned()));
    }
    blocks
}

fn threads(report: &Report) -> Vec<Block> {
    if report.look.others.is_empty() {
        return Vec::new();
    }
    let row = |one: &Candidate| {
        let rate = match (&one.tempo, one.why) {
            (Some(tempo), _) => format!("{:.1} Hz", tempo.hz()),
            (None, Some(why)) => format!("none: {why}"),
            (None, None) => "unknown".to_owned(),
        };
        [one.name.clone(), one.tid.to_string(), percent(one.cpu_share), format!("{:.0}", one.turns_per_s), rate]
    };
    let rows = report.look.others.iter().map(row).collect();
    vec![
        Block::heading(format!("Others of its {} threads", report.look.threads)),
        Block::table(["thread", "number", "of a CPU", "turns a second", "tick"], rows),
    ]
}

fn warnings(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    let unseen = &report.unseen;
    if !unseen.is_nothing() {
        let words = format!(
            "Not all was seen: {} records lost, the ring found full {} times, {} wakes too many to hold. Missed ticks may be of these.",
            unseen.records, unseen.overflows, unseen.wakes
        );
        blocks.push(Block::Warning(words));
    }
    if report.is_over {
        blocks.push(Block::Warning("The thread ended meanwhile: the numbers are of the time before.".to_owned()));
    }
    blocks
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
