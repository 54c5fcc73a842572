//! The page of `profile switches`.

use evenkeel_measure::Unit;
use evenkeel_profile::graph;
use evenkeel_profile::offcpu::table::{Report, Row, Share, Strip, Thread, Wait};
use evenkeel_profile::offcpu::{Faults, Reason};

use crate::show::units::{part, percent, quantity};
use crate::view::Block;

/// The maximum number of threads with a table.
/// The page shows the threads with the most CPU time; the JSON answer has more.
const TABLES_MAX: usize = 8;
/// The maximum number of lines of the timeline.
const LINES_MAX: usize = 24;
const FAULTS_MAX: usize = 12;
/// The maximum number of waits in the list. The JSON answer and the HTML page have more.
const WAITS_MAX: usize = 8;

pub(crate) fn blocks(report: &Report, steal_ns: Option<u64>, unseen: &[String], written: Option<&str>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading("Why threads had no CPU"),
        Block::Note(summary(report)),
        Block::row("recorded", quantity(report.recorded_ns, Unit::Ns)),
        Block::row("threads", (report.threads.len() as u64 + report.threads_left_out).to_string()),
    ];
    blocks.extend(steal_ns.map(|ns| Block::row("steal time", quantity(ns, Unit::Ns))));
    for thread in report.threads.iter().take(TABLES_MAX) {
        blocks.extend(of_thread(thread));
    }
    let left_out = report.threads.len().saturating_sub(TABLES_MAX);
    if left_out > 0 {
        let words =
            format!("{left_out} threads with less CPU time are not shown. Use --pid for one process, or --json.");
        blocks.push(Block::Note(words));
    }
    blocks.extend(faults(&report.faults));
    blocks.extend(longest(&report.longest_waits));
    blocks.extend(timeline(report));
    blocks.extend(written.map(|file| Block::row("written", file)));
    blocks.extend(caveats(report, unseen).map(Block::Warning));
    blocks
}

/// The caveats, and the data that evenkeel could not record.
pub(crate) fn caveats(report: &Report, unseen: &[String]) -> impl Iterator<Item = String> {
    let caveats = report.caveats.iter().map(|caveat| sentence(&caveat.to_string()));
    caveats.chain(unseen.iter().map(|unseen| format!("Not recorded: {unseen}.")))
}

/// The longest waits, for the table of the HTML page.
pub(crate) fn longest_rows(report: &Report) -> Vec<graph::Row> {
    let row = |wait: &Wait| graph::Row {
        tid: wait.interval.tid,
        at_ns: wait.interval.at_ns,
        length_ns: wait.interval.length_ns,
        cells: wait_cells(wait),
    };
    report.longest_waits.iter().map(row).collect()
}

/// Text about how long the busiest thread was ready to run without a CPU, and why.
fn summary(report: &Report) -> String {
    const FORCED: [Reason; 3] = [Reason::Preempted, Reason::Throttled, Reason::Steal];
    let Some(thread) = report.threads.first() else { return "No thread ran.".to_owned() };
    let rows = || thread.reasons.iter().filter(|row| FORCED.iter().any(|reason| reason.words() == row.reason));
    let total_ns: u64 = rows().map(|row| row.total_ns).fold(0, u64::saturating_add);
    let longest = match rows().filter_map(|row| row.max_ns).max() {
        // The start and the end of a recording can leave at most two intervals open.
        // Steal intervals are only estimates.
        _ if rows().any(|row| row.max_ns.is_none() && row.open > 2 && row.reason != Reason::Steal.words()) => {
            "; how long at a time is unknown".to_owned()
        }
        Some(ns) => format!(", at most {} at a time", quantity(ns, Unit::Ns)),
        None => String::new(),
    };
    format!(
        "The busiest thread, {} ({}), was ready but had no CPU for {} ({}){longest}. A thread with a CPU of its own has 0.",
        name(thread),
        thread.tid,
        quantity(total_ns, Unit::Ns),
        percent(part(total_ns, report.recorded_ns))
    )
}

fn longest(waits: &[Wait]) -> Vec<Block> {
    if waits.is_empty() {
        return Vec::new();
    }
    vec![
        Block::heading("Longest waits, without sleep and poll"),
        Block::table(
            ["at", "length", "reason", "thread", "where, or which thread took the CPU"],
            waits.iter().take(WAITS_MAX).map(wait_cells).collect(),
        ),
    ]
}

fn wait_cells(wait: &Wait) -> [String; 5] {
    let mut notes = Vec::new();
    notes.extend(wait.taken_by_name.as_ref().map(|name| format!("by {name}")));
    notes.extend(wait.interval.place.as_ref().map(|place| format!("in {place}")));
    notes.extend(wait.woken_by_name.as_ref().map(|name| format!("woken by {name}")));
    [
        format!("{:.4} s", wait.interval.at_ns as f64 / 1e9),
        quantity(wait.interval.length_ns, Unit::Ns),
        wait.interval.reason.to_owned(),
        wait.thread.clone(),
        notes.join(", "),
    ]
}

fn of_thread(thread: &Thread) -> Vec<Block> {
    let rows = thread.reasons.iter().map(row).collect();
    vec![
        Block::heading(format!(
            "{} ({}): {} on a CPU, {} off",
            name(thread),
            thread.tid,
            quantity(thread.on_cpu_ns, Unit::Ns),
            quantity(thread.off_cpu_ns, Unit::Ns)
        )),
        Block::table(
            ["reason", "count", "total", "p50", "p99", "longest", "where, or which thread took the CPU"],
            rows,
        ),
    ]
}

fn row(row: &Row) -> [String; 7] {
    let length = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| quantity(ns, Unit::Ns));
    let count = if row.open == 0 { row.count.to_string() } else { format!("{} ({} open)", row.count, row.open) };
    let mut notes = Vec::new();
    notes.extend(row.taken_by.as_ref().map(|share| format!("by {}", shared(share))));
    notes.extend(row.place.as_ref().map(|share| format!("in {}", shared(share))));
    notes.extend(row.woken_by.as_ref().map(|share| format!("woken by {}", shared(share))));
    notes.extend(
        row.woken_to_on_cpu_ns_max.map(|ns| format!("then up to {} until it had a CPU", quantity(ns, Unit::Ns))),
    );
    [
        row.reason.to_owned(),
        count,
        quantity(row.total_ns, Unit::Ns),
        length(row.p50_ns),
        length(row.p99_ns),
        length(row.max_ns),
        notes.join(", "),
    ]
}

/// A share as text. Empty for 100 %.
fn shared(share: &Share) -> String {
    let percent = share.share * 100.0;
    if percent >= 99.5 { share.name.clone() } else { format!("{} ({percent:.0} %)", share.name) }
}

fn faults(faults: &[Faults]) -> Vec<Block> {
    if faults.is_empty() {
        return Vec::new();
    }
    let row = |faults: &Faults| {
        let mapped = match (&faults.mapped, faults.is_swap) {
            (Some(mapped), false) => mapped.clone(),
            (Some(mapped), true) => format!("{mapped}, from swap"),
            (None, true) => "memory in swap".to_owned(),
            (None, false) => "unknown".to_owned(),
        };
        [
            mapped,
            faults.pid.to_string(),
            faults.count.to_string(),
            quantity(faults.total_ns, Unit::Ns),
            quantity(faults.max_ns, Unit::Ns),
        ]
    };
    vec![
        Block::heading("Page faults that waited for a disk"),
        Block::table(
            ["mapped file", "process", "count", "waited", "longest"],
            faults.iter().take(FAULTS_MAX).map(row).collect(),
        ),
    ]
}

fn timeline(report: &Report) -> Vec<Block> {
    let lines: Vec<(&Thread, &Strip)> =
        report.threads.iter().filter_map(|thread| Some((thread, thread.strip.as_ref()?))).take(LINES_MAX).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let rows = lines.iter().map(|(thread, strip)| [format!("{} ({})", name(thread), thread.tid), strip.0.clone()]);
    let mut said: Vec<(char, &str)> =
        Strip::legend().filter(|(letter, _)| lines.iter().any(|(_, strip)| strip.0.contains(*letter))).collect();
    said.dedup();
    let legend: Vec<String> = said.iter().map(|(letter, words)| format!("{letter} {words}")).collect();
    vec![
        Block::heading(format!("Timeline of {}: the main state in each part", quantity(report.recorded_ns, Unit::Ns))),
        Block::table(["thread", "timeline"], rows.collect()),
        Block::Note(format!("{}.", legend.join(", "))),
    ]
}

fn name(thread: &Thread) -> &str {
    thread.name.as_deref().unwrap_or("unnamed thread")
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use evenkeel_profile::offcpu::table::{ListedInterval, SwitchesCaveat};
    use expect_test::expect;

    use super::*;
    use crate::view::terminal::text;

    #[test]
    fn a_page_names_the_lock_the_taker_and_the_file() {
        let share = |name: &str, share: f64| Some(Share { name: name.to_owned(), share });
        let futex = Row {
            reason: "futex",
            count: 12,
            open: 1,
            total_ns: 60_000_000,
            p50_ns: Some(4_000_000),
            p99_ns: Some(9_000_000),
            max_ns: Some(9_000_000),
            place: share("World::lock", 0.93),
            woken_by: share("saver (12)", 1.0),
            ..Row::default()
        };
        let preempted = Row {
            reason: "preempted",
            count: 3,
            total_ns: 6_000_000,
            p50_ns: Some(2_000_000),
            p99_ns: Some(2_000_000),
            max_ns: Some(2_000_000),
            taken_by: share("cc1 (99)", 1.0),
            ..Row::default()
        };
        let thread = Thread {
            pid: 10,
            tid: 11,
            name: Some("tick".to_owned()),
            on_cpu_ns: 900_000_000,
            off_cpu_ns: 66_000_000,
            reasons: vec![futex, preempted],
            strip: Some(Strip("##f##P##".to_owned())),
        };
        let fault = Faults {
            pid: 10,
            mapped: Some("/srv/map.bin".to_owned()),
            count: 2,
            waits: 2,
            total_ns: 3_000_000,
            max_ns: 2_500_000,
            ..Faults::default()
        };
        let caveats = vec![SwitchesCaveat::Lost { records: 7 }];
        let recorded_ns = 1_000_000_000;
        let interval = ListedInterval {
            tid: 11,
            at_ns: 412_345_678,
            length_ns: 9_000_000,
            reason: "futex",
            place: Some("World::lock".to_owned()),
            ..ListedInterval::default()
        };
        let thread_name = "tick (11)".to_owned();
        let wait =
            Wait { interval, thread: thread_name, woken_by_name: Some("saver (12)".to_owned()), taken_by_name: None };
        let report = Report {
            recorded_ns,
            threads: vec![thread],
            faults: vec![fault],
            longest_waits: vec![wait],
            caveats,
            ..Report::default()
        };
        let unseen = ["who wakes whom".to_owned()];
        let blocks = blocks(&report, Some(20_000_000), &unseen, Some("out.html"));
        let page = anstream::adapter::strip_str(&text(&blocks)).to_string();
        expect![[r#"
            Why threads had no CPU
              The busiest thread, tick (11), was ready but had no CPU for 6.00 ms (0.6 %),
              at most 2.00 ms at a time. A thread with a CPU of its own has 0.
              recorded          1.00 s
              threads           1
              steal time        20.0 ms

            tick (11): 900 ms on a CPU, 66.0 ms off
              reason     count        total    p50      p99      longest  where, or which
                                                                          thread took the
                                                                          CPU
              futex      12 (1 open)  60.0 ms  4.00 ms  9.00 ms  9.00 ms  in World::lock (93
                                                                          %), woken by saver
                                                                          (12)
              preempted  3            6.00 ms  2.00 ms  2.00 ms  2.00 ms  by cc1 (99)

            Page faults that waited for a disk
              mapped file   process  count  waited   longest
              /srv/map.bin  10       2      3.00 ms  2.50 ms

            Longest waits, without sleep and poll
              at        length   reason  thread     where, or which thread took the CPU
              0.4123 s  9.00 ms  futex   tick (11)  in World::lock, woken by saver (12)

            Timeline of 1.00 s: the main state in each part
              thread     timeline
              tick (11)  ##f##P##
              # ran, f futex, P preempted.
              written           out.html
              7 records were lost; intervals with lost records count as open.
              Not recorded: who wakes whom.
        "#]]
        .assert_eq(&page);
    }
}
