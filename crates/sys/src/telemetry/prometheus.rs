//! Snapshots as text for Prometheus (exposition format 0.0.4).
//! The text has seconds, and buckets at 1, 2 and 5 of each power of ten. One block per metric has all sessions, as the format requires.

use std::fmt::Write;

use super::layout::{BOUNDS_NS, Count};
use super::snapshot::{PageHistogram, PageSlices, Snapshot};

/// The bounds to print within each power of ten: 1, 2 and 5.
const PRINTED: [usize; 3] = [0, 6, 14];
const A_TENFOLD: usize = 20;

/// A metric with one number per session.
type Number = fn(&Snapshot) -> Option<f64>;

const COUNTERS: [(&str, &str, Number); 4] = [
    ("evenkeel_ticks_total", "Ticks that were done.", |page| Some(page.ticks as f64)),
    ("evenkeel_missed_ticks_total", "Ticks that were missed.", |page| Some(page.missed as f64)),
    ("evenkeel_tick_period_changes_total", "How often the time between ticks changed.", |page| {
        Some(page.period_changes as f64)
    }),
    (
        "evenkeel_swapped_in_pages_total",
        "Pages that the whole system read back from swap since the session began.",
        |page| page.swapped_in.map(|pages| pages as f64),
    ),
];

const GAUGES: [(&str, &str, Number); 5] = [
    ("evenkeel_session_start_time_seconds", "When the session began, since 1970 UTC.", |page| {
        Some(page.began_realtime_ns as f64 / 1e9)
    }),
    ("evenkeel_tick_period_seconds", "Time from one tick to the next.", |page| {
        page.period_ns.map(|ns| ns as f64 / 1e9)
    }),
    ("evenkeel_cpu_turn_period_seconds", "Period of the CPU's time slices, or of the CPU limit.", |page| {
        turns(page).map(|(period_ns, _)| period_ns as f64 / 1e9)
    }),
    ("evenkeel_cpu_turn_share_ratio", "Share of that period in which the server has the CPU.", |page| {
        turns(page).map(|(_, share)| share)
    }),
    ("evenkeel_players", "Players that are there.", |page| page.count(Count::Players).map(|players| players as f64)),
];

type Histogram = fn(&Snapshot) -> &PageHistogram;

const HISTOGRAMS: [(&str, &str, Histogram); 3] = [
    ("evenkeel_tick_lateness_seconds", "From when a tick was due to when it began.", |page| &page.lateness),
    ("evenkeel_tick_work_seconds", "From when a tick began to when it was done.", |page| &page.work),
    ("evenkeel_tick_due_to_done_seconds", "From when a tick was due to when it was done.", |page| &page.due_to_done),
];

/// Counters with a label: metric, help, label, and the counter for each value of the label.
type Labelled = (&'static str, &'static str, &'static str, [(&'static str, Number); 2]);

const LABELLED: [Labelled; 3] = [
    (
        "evenkeel_page_faults_total",
        "Page faults of the tick's thread; major ones waited for a disk.",
        "kind",
        [
            ("major", |page| page.faults.map(|faults| faults.major as f64)),
            ("minor", |page| page.faults.map(|faults| faults.minor as f64)),
        ],
    ),
    (
        "evenkeel_packets_total",
        "Datagrams.",
        "direction",
        [("in", |page| number(page, Count::PacketsIn)), ("out", |page| number(page, Count::PacketsOut))],
    ),
    (
        "evenkeel_packet_bytes_total",
        "Bytes in datagrams.",
        "direction",
        [("in", |page| number(page, Count::BytesIn)), ("out", |page| number(page, Count::BytesOut))],
    ),
];

const PLAIN: [(&str, &str, Count); 2] = [
    ("evenkeel_jobs_total", "Jobs that were run.", Count::Jobs),
    ("evenkeel_dropped_packets_total", "Datagrams that were lost because there was no room.", Count::Drops),
];

fn number(page: &Snapshot, count: Count) -> Option<f64> {
    page.count(count).map(|count| count as f64)
}

fn turns(page: &Snapshot) -> Option<(u64, f64)> {
    match page.turns {
        PageSlices::Slots { period_ns, share } | PageSlices::Bucket { period_ns, share } => Some((period_ns, share)),
        PageSlices::Unknown | PageSlices::Whole => None,
    }
}

/// The text for these sessions. It omits unknown values and never prints them as 0.
pub fn prometheus(pages: &[Snapshot]) -> String {
    let mut text = String::new();
    let labels: Vec<String> =
        pages.iter().map(|page| format!("session=\"{}\",pid=\"{}\"", escaped(&page.session), page.owner.pid)).collect();
    let sessions = || pages.iter().zip(&labels);
    for (name, help, of) in COUNTERS {
        let lines = sessions().filter_map(|(page, labels)| Some((format!("{name}{{{labels}}}"), of(page)?)));
        block(&mut text, &[name, help, "counter"], lines);
    }
    for (name, help, count) in PLAIN {
        let lines = sessions().filter_map(|(page, labels)| Some((format!("{name}{{{labels}}}"), number(page, count)?)));
        block(&mut text, &[name, help, "counter"], lines);
    }
    for (name, help, label, values) in LABELLED {
        let lines = sessions().flat_map(|(page, labels)| {
            values
                .iter()
                .filter_map(move |(value, of)| Some((format!("{name}{{{labels},{label}=\"{value}\"}}"), of(page)?)))
        });
        block(&mut text, &[name, help, "counter"], lines);
    }
    for (name, help, of) in GAUGES {
        let lines = sessions().filter_map(|(page, labels)| Some((format!("{name}{{{labels}}}"), of(page)?)));
        block(&mut text, &[name, help, "gauge"], lines);
    }
    for (name, help, of) in HISTOGRAMS {
        let lines = sessions().flat_map(|(page, labels)| histogram(name, labels, of(page)));
        block(&mut text, &[name, help, "histogram"], lines);
    }
    text
}

fn block(text: &mut String, [name, help, kind]: &[&str; 3], lines: impl Iterator<Item = (String, f64)>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    // Writing to a string can't fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (series, value) in lines {
        let _ = writeln!(text, "{series} {value}");
    }
}

/// Buckets are cumulative: each bucket counts all values up to its bound.
fn histogram(name: &str, labels: &str, histogram: &PageHistogram) -> Vec<(String, f64)> {
    let mut lines = Vec::new();
    let mut sum = 0_u64;
    for (at, (bound_ns, count)) in BOUNDS_NS.iter().zip(&histogram.buckets).enumerate() {
        sum = sum.saturating_add(*count);
        if PRINTED.contains(&(at % A_TENFOLD)) {
            let bound = *bound_ns as f64 / 1e9;
            lines.push((format!("{name}_bucket{{{labels},le=\"{bound}\"}}"), sum as f64));
        }
    }
    lines.push((format!("{name}_bucket{{{labels},le=\"+Inf\"}}"), histogram.count as f64));
    lines.push((format!("{name}_sum{{{labels}}}"), histogram.sum_ns as f64 / 1e9));
    lines.push((format!("{name}_count{{{labels}}}"), histogram.count as f64));
    lines
}

/// Escapes backslashes, quotes and newlines in a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
