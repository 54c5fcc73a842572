//! `evenkeel measure udp`.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::ValueEnum;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::udp::{
    self, Between, Burst, Ceiling, DirectionCounts, Echo, Fit, Receive, Report, Split, server,
};
use evenkeel_measure::{Samples, Unit};
use serde::Serialize;

use crate::commands::measure::card::{CardTurn, PPM, line, percentiles, value};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::exit;
use crate::failure::Failure;
use crate::show::finding::{A_TICK, Finding, Grade, TICK_NS};
use crate::show::units::{percent, percent_to, quantity, real_quantity};
use crate::view::Block;

const UNKNOWN: &str = "unknown";

/// The end of `--help`.
const EXAMPLES: &str = "\
Without ADDRESS the meter starts a server here and sends packets over loopback between two CPUs. A
round trip counts from the time at which its packet was due, so a stall of the sender is included.
docs/measuring.md explains every option, and how to compare with sockperf.

Examples:
  evenkeel measure udp --seconds 10
  evenkeel measure udp --serve 0.0.0.0:7007     on one host, and on another:
  evenkeel measure udp 10.0.0.2:7007 --rate 5000";

/// Measure UDP round trips, loss and order in each direction, packets per second, and burst capacity
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server, as HOST:PORT
    #[arg(value_name = "ADDRESS", conflicts_with = "serve")]
    to: Option<String>,
    /// Run the server at HOST:PORT, with limits of time, sessions and rates
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
    /// Duration of the echoes, or of the server [default: 5, as server 600]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    seconds: Option<f64>,
    /// Packets per second
    #[arg(long, value_name = "HZ", default_value_t = 1000.0, conflicts_with = "serve")]
    rate: f64,
    /// Bytes of a packet, without headers
    #[arg(long, value_name = "BYTES", default_value_t = 64, conflicts_with = "serve")]
    size: usize,
    /// How the sender waits until a packet is due: awake, sleep or spin
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        hide_possible_values = true,
        conflicts_with = "serve"
    )]
    pace: SendPace,
    /// How the receiver waits for a packet: sleep or spin
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        hide_possible_values = true,
        conflicts_with = "serve"
    )]
    receive: Waiting,
    /// Run on this CPU
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Size of the receive buffer, at most net.core.rmem_max
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<u32>,
    /// Measure only these: echo, split, ceiling, burst
    #[arg(
        long,
        value_enum,
        value_name = "PART,…",
        hide_possible_values = true,
        value_delimiter = ',',
        conflicts_with = "serve"
    )]
    part: Vec<TestArg>,
    /// Limit of echoes per second for one session of the server
    #[arg(long, value_name = "HZ", default_value_t = 200_000, requires = "serve")]
    echoes_max: u64,
}

impl Meter for Args {
    const NAME: &'static str = "udp";
    const TITLE: &'static str = "UDP round trips";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.5,
        run: |pace, watch| {
            let settings = udp::Settings {
                to: None,
                rate_hz: 1000.0,
                bytes: 100,
                seconds: pace.choose(1.5, 0.6),
                pace: udp::Pace::Sleep,
                receive: Receive::Sleep,
                cpu: None,
                receive_buffer_bytes: None,
                parts: vec![udp::UdpTest::Echo, udp::UdpTest::Ceiling],
            };
            Ok(lines(&udp::run(&settings, watch)?))
        },
        finding: |lines| {
            let lost = value(lines, "udp_echo_lost_ppm").map(|ppm| ppm / PPM);
            round_trip(Between::Loopback, value(lines, "udp_echo_ns_p99"), lost)
        },
    });
    type Report = Answer;

    fn measure(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        if let Some(at) = &self.serve {
            let settings = server::Settings {
                at: resolve(at)?,
                seconds: self.seconds.unwrap_or(600.0),
                cpu: self.cpu,
                echoes_per_s_max: self.echoes_max,
                give_bits_per_s_max: 0,
                receive_buffer_bytes: self.receive_buffer,
            };
            return context.measure(|watch| server::Server::bind(&settings)?.run(watch)).map(Answer::Served);
        }
        let settings = udp::Settings {
            to: self.to.as_deref().map(resolve).transpose()?,
            rate_hz: self.rate,
            bytes: self.size,
            seconds: self.seconds.unwrap_or(5.0),
            pace: match self.pace {
                SendPace::Awake => udp::Pace::Awake,
                SendPace::Sleep => udp::Pace::Sleep,
                SendPace::Spin => udp::Pace::Spin,
            },
            receive: if self.receive == Waiting::Spin { udp::Receive::Spin } else { udp::Receive::Sleep },
            cpu: self.cpu,
            receive_buffer_bytes: self.receive_buffer,
            parts: parts(&self.part),
        };
        context.measure(|watch| udp::run(&settings, watch)).map(|report| Answer::Measured(Box::new(report)))
    }

    fn finding(answer: &Answer) -> Option<Finding> {
        let Answer::Measured(report) = answer else { return None };
        let Some(echo) = &report.echo else { return Some(Finding::unknown("round trips were not measured")) };
        let p99 = echo.from_due_ns.histogram.quantile(0.99).map(|ns| ns as f64);
        Some(round_trip(report.between, p99, lost_share(echo)))
    }

    fn page(answer: &Answer) -> Vec<Block> {
        match answer {
            Answer::Measured(report) => measured(report),
            Answer::Served(report) => served(report),
        }
    }
}

/// The finding on round trips. The limits for loopback are lower, because players need additional time for the network.
fn round_trip(between: Between, p99_ns: Option<f64>, lost: Option<f64>) -> Finding {
    let Some(ns) = p99_ns else { return Finding::unknown("no packet came back") };
    let (way, good, fair) = match between {
        Between::Loopback => ("over loopback", TICK_NS / 50.0, TICK_NS / 10.0),
        Between::Network => ("over the network", TICK_NS / 4.0, TICK_NS),
    };
    let loss = lost.map_or_else(|| "an unknown share".to_owned(), |share| percent_to(2, share));
    let says = format!(
        "a round trip {way} takes {} (p99) and {loss} of the packets are lost; {A_TICK}",
        real_quantity(ns, Unit::Ns)
    );
    let worse = Grade::of_low(ns, good, fair).min(lost.map_or(Grade::Good, |share| Grade::of_low(share, 0.0001, 0.01)));
    Finding::new(worse, says)
}

fn lost_share(echo: &Echo) -> Option<f64> {
    let ways = [&echo.there, &echo.back].into_iter().flatten();
    let (sent, lost) = ways.fold((0, 0), |(sent, lost), way| (sent + way.sent, lost + way.lost));
    (sent > 0).then(|| lost as f64 / sent as f64)
}

/// The report of the client, or of the server.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub(crate) enum Answer {
    Measured(Box<Report>),
    Served(server::Report),
}

fn measured(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::row("server", report.to.to_string())];
    if report.between == Between::Loopback {
        let words = "This is loopback between two threads, without a network. Between hosts, run `evenkeel measure udp --serve ADDRESS` on \
                     the other and `evenkeel measure udp ADDRESS` here.";
        blocks.push(Block::Note(words.to_owned()));
    }
    blocks.extend(report.echo.iter().flat_map(echo));
    blocks.extend(report.split.iter().flat_map(split));
    blocks.extend(report.ceiling.iter().flat_map(ceiling));
    blocks.extend(report.burst.iter().flat_map(burst));
    if !report.not_measured.is_empty() {
        let parts: Vec<&str> = report.not_measured.iter().map(|part| part_words(*part)).collect();
        blocks.push(Block::Warning(format!(
            "Not measured, because the meter was stopped earlier: {}.",
            parts.join(", ")
        )));
    }
    blocks
}

/// How the sender waits until a packet is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SendPace {
    /// Stay awake and sleep only for the newest answer, as ping-pong programs do; uses most of a CPU
    #[default]
    Awake,
    /// Sleep until shortly before the packet is due, as a server between ticks does, so its CPU goes idle
    Sleep,
    /// Spin, while another thread receives the answers; uses a whole CPU
    Spin,
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Waiting {
    #[default]
    Sleep,
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestArg {
    /// Round trips, loss and order
    Echo,
    /// The parts of a round trip
    Split,
    /// Packets per second that a core sends and receives
    Ceiling,
    /// Packets that fit into the buffer while no thread reads
    Burst,
}

fn part_words(part: udp::UdpTest) -> &'static str {
    match part {
        udp::UdpTest::Echo => "round trips",
        udp::UdpTest::Split => "the parts of a round trip",
        udp::UdpTest::Ceiling => "packet rates",
        udp::UdpTest::Burst => "burst capacity",
    }
}

fn parts(asked: &[TestArg]) -> Vec<udp::UdpTest> {
    let all = [TestArg::Echo, TestArg::Split, TestArg::Ceiling, TestArg::Burst];
    let asked = if asked.is_empty() { &all } else { asked };
    let meant = asked.iter().map(|part| match part {
        TestArg::Echo => udp::UdpTest::Echo,
        TestArg::Split => udp::UdpTest::Split,
        TestArg::Ceiling => udp::UdpTest::Ceiling,
        TestArg::Burst => udp::UdpTest::Burst,
    });
    meant.collect()
}

/// The first address to which `HOST:PORT` resolves.
pub(super) fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| {
        Failure::text(exit::WRONG_USE, format!("understand the address {text:?}"), why)
            .hint("name the host that runs the other side, and the port that its --serve was given")
    };
    let is_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
    if !text.rsplit_once(':').is_some_and(is_port) {
        return Err(wrong("expected HOST:PORT, such as 10.0.0.2:7007".to_owned()));
    }
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address".to_owned()))
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = crate::times::seconds(text).filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.01 to 86400 seconds, or a time such as 250ms or 90s".to_owned())
}

/// The page of a UDP server.
pub(super) fn served(report: &server::Report) -> Vec<Block> {
    let packets = &report.packets;
    let mut blocks = vec![
        Block::row("server", report.at.to_string()),
        Block::row("duration", quantity((report.seconds * 1e9) as u64, Unit::Ns)),
        Block::row("sessions", packets.sessions.to_string()),
        Block::row(
            "packets",
            format!("{} received, {} bytes in, {} bytes out", packets.taken, report.bytes_in, report.bytes_out),
        ),
        Block::row("CPU time", quantity(report.cpu_ns, Unit::Ns)),
    ];
    let dropped = packets.malformed + packets.unproven + packets.too_many;
    if dropped > 0 {
        let words = format!(
            "{dropped} packets got no answer: {} were malformed, {} had no session or a wrong cookie, {} exceeded the rate limit.",
            packets.malformed, packets.unproven, packets.too_many
        );
        blocks.push(Block::Warning(words));
    }
    if let Some(count) = report.dropped_at_socket.filter(|count| *count > 0) {
        blocks.push(Block::Warning(format!("The receive buffer of the socket was full for {count} packets.")));
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
        Block::heading(format!("Round trips: {} bytes, {} packets per second", echo.bytes, echo.rate_hz)),
        Block::table(
            TIMES,
            vec![
                times("from its due time", &echo.from_due_ns),
                times("from its send time", &echo.from_send_ns),
                times("send delay", &echo.late_ns),
            ],
        ),
    ];
    let ways = [("to the server", &echo.there), ("back", &echo.back)];
    let rows: Vec<_> = ways.iter().filter_map(|(name, way)| way.as_ref().map(|way| row(name, way))).collect();
    if rows.is_empty() {
        blocks.push(Block::Warning(
            "The server did not report its counts, so the loss in each direction is unknown.".to_owned(),
        ));
    } else {
        blocks.push(Block::table(
            ["direction", "sent", "lost", "dropped at socket", "reordered", "by up to", "duplicates"],
            rows,
        ));
    }
    let sent_share = echo.sent_hz / echo.rate_hz;
    if sent_share < 0.99 {
        let words = format!("Only {} of {} packets per second were sent.", echo.sent_hz.round(), echo.rate_hz);
        blocks.push(Block::Warning(words));
    }
    if echo.not_sent > 0 {
        blocks.push(Block::Warning(format!("The local kernel refused {} packets.", echo.not_sent)));
    }
    if let Some(others) = echo.others.filter(|others| *others > 0) {
        blocks.push(Block::Warning(format!("The server had {others} other sessions at the same time.")));
    }
    let server = echo.server_cpu_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    blocks
        .push(Block::row("CPU", format!("{} of one CPU here, {server} of one at the server", percent(echo.cpu_share))));
    blocks.push(Block::Histogram(echo.from_due_ns.clone()));
    blocks
}

fn row(name: &str, way: &DirectionCounts) -> [String; 7] {
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
        times("wake-up of the sender", &split.late_ns),
        times("kernel to the driver", &split.send_path_ns),
        times("network, both directions", &split.network_ns),
        times("server: softirq, queue, wake", &split.server_wait_ns),
        times("server: processing", &split.server_turn_ns),
        times("receiver: softirq and wake-up", &split.woken_ns),
        times("receiver: softirq and queue, awake", &split.queued_ns),
        times("receiver: softirq only", &split.softirq_ns),
        times("total, from its due time", &split.from_due_ns),
    ];
    let mut blocks = vec![Block::heading("Parts of a round trip"), Block::table(TIMES, rows)];
    for samples in [&split.network_ns, &split.softirq_ns] {
        if samples.lost.count > 0 {
            let why = samples.lost.why.as_deref().unwrap_or(UNKNOWN);
            blocks.push(Block::Warning(format!("{} round trips could not be split: {why}.", samples.lost.count)));
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
    let rows = vec![row("sent", Some(ceiling.send)), row("received by the server", ceiling.receive)];
    let mut blocks = vec![
        Block::heading(format!("Maximum packet rate, {} bytes", ceiling.bytes)),
        Block::table(["", "per second", "per second of CPU"], rows),
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
        Block::heading("Burst capacity while nobody reads"),
        Block::row("receive buffer", format!("{} bytes, as the kernel counts", burst.receive_buffer_bytes)),
        Block::table(
            ["bytes", "sent", "fit", "dropped at socket", "lost before", "memory each"],
            burst.fits.iter().map(row).collect(),
        ),
    ]
}

fn lines(report: &Report) -> Vec<CardLine> {
    let mut lines = Vec::new();
    if let Some(echo) = &report.echo {
        let trips = percentiles("udp_echo_ns", "echo over loopback", Better::Lower, &echo.from_send_ns);
        lines.extend(trips.into_iter().flatten());
        let lost = lost_share(echo);
        lines
            .extend(lost.map(|share| line("udp_echo_lost_ppm", "packets lost", Unit::Ppm, Better::Lower, share * PPM)));
    }
    if let Some(ceiling) = &report.ceiling {
        let send = ceiling.send.per_cpu_s;
        lines.push(line("udp_send_per_cpu_s", "packets sent per CPU second", Unit::PerS, Better::Higher, send));
        let receive = ceiling.receive.map(|rate| rate.per_cpu_s);
        let receive = receive.map(|rate| {
            line("udp_receive_per_cpu_s", "packets received per CPU second", Unit::PerS, Better::Higher, rate)
        });
        lines.extend(receive);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_time_and_loss_decides() {
        let of = |between, p99_ns, lost| round_trip(between, Some(p99_ns), lost).grade;
        assert_eq!(of(Between::Loopback, 50e3, Some(0.0)), Grade::Good);
        assert_eq!(of(Between::Network, 3e6, None), Grade::Good);
        assert_eq!(of(Between::Loopback, 3e6, Some(0.0)), Grade::Poor);
        assert_eq!(of(Between::Network, 3e6, Some(0.02)), Grade::Poor);
        assert_eq!(round_trip(Between::Network, None, Some(1.0)).grade, Grade::Unknown);
    }
}
