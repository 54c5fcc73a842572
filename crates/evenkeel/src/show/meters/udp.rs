//! The pages of `measure udp`: what was measured, and what was served.

use evenkeel_measure::meters::udp::{Between, Burst, Ceiling, Echo, Fit, Report, Split, Way, server};
use evenkeel_measure::{Samples, Unit};

use crate::show::blocks::Block;
use crate::show::units::{percent, quantity, real_quantity};

const UNKNOWN: &str = "unknown";

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::row("server", report.to.to_string())];
    if report.between == Between::Loopback {
        let words = "This is loopback: two threads of one host and no network. Between hosts: `evenkeel measure udp --serve ADDRESS` on the \
                     other, `evenkeel measure udp ADDRESS` here.";
        blocks.push(Block::Note(words.to_owned()));
    }
    blocks.extend(report.echo.iter().flat_map(echo));
    blocks.extend(report.split.iter().flat_map(split));
    blocks.extend(report.ceiling.iter().flat_map(ceiling));
    blocks.extend(report.burst.iter().flat_map(burst));
    blocks
}

/// What a server did.
pub(crate) fn served(report: &server::Report) -> Vec<Block> {
    let packets = &report.packets;
    let mut blocks = vec![
        Block::row("served at", report.at.to_string()),
        Block::row("for", quantity((report.seconds * 1e9) as u64, Unit::Ns)),
        Block::row("sessions", packets.sessions.to_string()),
        Block::row(
            "packets",
            format!("{} taken, {} bytes in, {} bytes out", packets.taken, report.bytes_in, report.bytes_out),
        ),
        Block::row("CPU time", quantity(report.cpu_ns, Unit::Ns)),
    ];
    let dropped = packets.malformed + packets.unproven + packets.too_many;
    if dropped > 0 {
        let words = format!(
            "{dropped} packets got no answer: {} were none of ours, {} had no session or no good cookie, {} were too many.",
            packets.malformed, packets.unproven, packets.too_many
        );
        blocks.push(Block::Warning(words));
    }
    if let Some(count) = report.dropped_at_socket.filter(|count| *count > 0) {
        blocks.push(Block::Warning(format!("{count} packets found no room in the socket's receive buffer.")));
    }
    blocks
}

fn times(label: &str, samples: &Samples) -> [String; 6] {
    let summary = samples.histogram.summary();
    let of = |pick: fn(&evenkeel_stats::Summary) -> u64| {
        summary.as_ref().map_or_else(|| UNKNOWN.to_owned(), |summary| quantity(pick(summary), Unit::Ns))
    };
    [label.to_owned(), of(|s| s.p50), of(|s| s.p90), of(|s| s.p99), of(|s| s.p999), of(|s| s.max)]
}

const TIMES: [&str; 6] = ["", "p50", "p90", "p99", "p99.9", "max"];

fn echo(echo: &Echo) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(format!("Round trips: {} bytes, {} packets a second", echo.bytes, echo.rate_hz)),
        Block::table(
            TIMES,
            vec![
                times("from when it was due", &echo.from_due_ns),
                times("from when it was sent", &echo.from_send_ns),
                times("sent late by", &echo.late_ns),
            ],
        ),
    ];
    let ways = [("there", &echo.there), ("back", &echo.back)];
    let rows: Vec<_> = ways.iter().filter_map(|(name, way)| way.as_ref().map(|way| row(name, way))).collect();
    if rows.is_empty() {
        blocks.push(Block::Warning("The server did not tell what it counted: loss each way is unknown.".to_owned()));
    } else {
        blocks.push(Block::table(["way", "sent", "lost", "dropped at socket", "reordered", "by up to", "twice"], rows));
    }
    let sent_share = echo.sent_hz / echo.rate_hz;
    if sent_share < 0.99 {
        let words = format!("Only {} of {} packets a second could be sent.", echo.sent_hz.round(), echo.rate_hz);
        blocks.push(Block::Warning(words));
    }
    if echo.not_sent > 0 {
        blocks.push(Block::Warning(format!("The kernel here did not take {} packets.", echo.not_sent)));
    }
    if let Some(others) = echo.others.filter(|others| *others > 0) {
        blocks.push(Block::Warning(format!("The server had {others} other sessions at the same time.")));
    }
    let server = echo.server_cpu_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    blocks.push(Block::row("CPU", format!("{} of one here, {server} of one at the server", percent(echo.cpu_share))));
    blocks.push(Block::Histogram(echo.from_due_ns.clone()));
    blocks
}

fn row(name: &str, way: &Way) -> [String; 7] {
    [
        name.to_owned(),
        way.sent.to_string(),
        way.lost.to_string(),
        way.dropped_at_socket.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string()),
        way.counts.reordered.to_string(),
        way.counts.extent_max.to_string(),
        way.counts.duplicates.to_string(),
    ]
}

fn split(split: &Split) -> Vec<Block> {
    let rows = vec![
        times("our wake-up: sent late by", &split.late_ns),
        times("kernel, to the driver", &split.send_path_ns),
        times("network, there and back", &split.network_ns),
        times("server: softirq, queue, wake", &split.server_wait_ns),
        times("server: its turn", &split.server_turn_ns),
        times("here: softirq and wake", &split.woken_ns),
        times("here: softirq and queue, awake", &split.queued_ns),
        times("here: softirq alone", &split.softirq_ns),
        times("all, from when it was due", &split.from_due_ns),
    ];
    let mut blocks = vec![Block::heading("Where the time goes"), Block::table(TIMES, rows)];
    for samples in [&split.network_ns, &split.softirq_ns] {
        if samples.lost.count > 0 {
            let why = samples.lost.why.as_deref().unwrap_or(UNKNOWN);
            blocks.push(Block::Warning(format!("{} round trips are not in the split: {why}.", samples.lost.count)));
        }
    }
    blocks
}

fn ceiling(ceiling: &Ceiling) -> Vec<Block> {
    let row = |name: &str, rate: Option<evenkeel_measure::meters::udp::Rate>| {
        let of = |pick: fn(&evenkeel_measure::meters::udp::Rate) -> f64| {
            rate.as_ref().map_or_else(|| UNKNOWN.to_owned(), |rate| real_quantity(pick(rate), Unit::PerS))
        };
        [name.to_owned(), of(|rate| rate.per_s), of(|rate| rate.per_cpu_s)]
    };
    let rows = vec![row("sent", Some(ceiling.send)), row("taken by the server", ceiling.receive)];
    let mut blocks = vec![
        Block::heading(format!("Packets a second, {} bytes, as fast as they go", ceiling.bytes)),
        Block::table(["", "a second", "a second of a core"], rows),
    ];
    if let Some(lost) = ceiling.lost.filter(|lost| *lost > 0) {
        let dropped = ceiling.dropped_at_socket.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
        blocks.push(Block::row("lost", format!("{lost}; {dropped} at the server's socket")));
    }
    blocks
}

fn burst(burst: &Burst) -> Vec<Block> {
    let unknown = || UNKNOWN.to_owned();
    let row = |fit: &Fit| {
        let at_least = if fit.full { "" } else { "at least " };
        [
            fit.bytes.to_string(),
            fit.sent.map_or_else(unknown, |sent| sent.to_string()),
            format!("{at_least}{}", fit.fit),
            fit.dropped_at_socket.map_or_else(unknown, |count| count.to_string()),
            fit.lost_before.map_or_else(unknown, |count| count.to_string()),
            fit.held_bytes_each.map_or_else(unknown, |bytes| format!("{bytes:.0} bytes")),
        ]
    };
    vec![
        Block::heading("Bursts that fit while nobody reads"),
        Block::row("receive buffer", format!("{} bytes as the kernel counts them", burst.receive_buffer_bytes)),
        Block::table(
            ["bytes", "sent", "fit", "dropped at socket", "lost before", "each takes"],
            burst.fits.iter().map(row).collect(),
        ),
    ]
}
