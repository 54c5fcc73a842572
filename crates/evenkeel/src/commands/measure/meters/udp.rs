//! `evenkeel measure udp`.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::ValueEnum;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::udp::{self, Between, Burst, Ceiling, Echo, Fit, Receive, Report, Split, Way, server};
use evenkeel_measure::{Samples, Unit};
use serde::Serialize;

use crate::commands::measure::card::{CardTurn, PPM, line, percentiles};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::exit;
use crate::failure::Failure;
use crate::show::blocks::Block;
use crate::show::units::{percent, quantity, real_quantity};

const UNKNOWN: &str = "unknown";

/// UDP round trips, loss and order each way, packets a second, and bursts that fit
///
/// Without ADDRESS a server is started here and packets go over loopback between two CPUs. Between two hosts: `measure udp --serve
/// 0.0.0.0:7007` on one, `measure udp HOST:7007` on the other. Packets are sent on an open loop, and a round trip counts from the
/// time at which its packet was due: a stall can't hide by keeping the meter from sending. sockperf's times are half of a round trip,
/// counted from the send: `from_send_ns` halved compares with them, its ping-pong with `--pace awake` and under-load with `--pace spin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server, as HOST:PORT
    #[arg(value_name = "ADDRESS", conflicts_with = "serve")]
    to: Option<String>,
    /// Be the server, at HOST:PORT: bounded in time, sessions and rates, and of no use to forge addresses with
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
    /// How long: of the echoes, or of the server [default: 5, of the server 600]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Packets a second
    #[arg(long, value_name = "HZ", default_value_t = 1000.0, conflicts_with = "serve")]
    rate: f64,
    /// Bytes of a packet, headers not counted
    #[arg(long, value_name = "BYTES", default_value_t = 64, conflicts_with = "serve")]
    size: usize,
    /// How the sender waits for a packet's time
    #[arg(long, value_enum, default_value_t, conflicts_with = "serve")]
    pace: SendPace,
    /// How the receiver waits for a packet
    #[arg(long, value_enum, default_value_t, conflicts_with = "serve")]
    receive: Waiting,
    /// Run on this CPU
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Ask for a receive buffer of so many bytes; the kernel doubles it, and takes no more than net.core.rmem_max
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<u32>,
    /// Measure these parts only
    #[arg(long, value_enum, value_name = "PART,…", value_delimiter = ',', conflicts_with = "serve")]
    part: Vec<Part>,
    /// Echoes that one session of the server gets in a second, at the most
    #[arg(long, value_name = "HZ", default_value_t = 200_000, requires = "serve")]
    echoes_max: u64,
}

impl Meter for Args {
    const NAME: &'static str = "udp";
    const TITLE: &'static str = "What the way does to UDP packets";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.5,
        run: |pace, watch| {
            let settings = udp::Settings {
                to: None,
                rate_hz: 1000.0,
                bytes: 100,
                seconds: pace.of(1.5, 0.6),
                pace: udp::Pace::Sleep,
                receive: Receive::Sleep,
                cpu: None,
                receive_buffer_bytes: None,
                parts: vec![udp::Part::Echo, udp::Part::Ceiling],
            };
            Ok(lines(&udp::run(&settings, watch)?))
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

    fn page(answer: &Answer) -> Vec<Block> {
        match answer {
            Answer::Measured(report) => measured(report),
            Answer::Served(report) => served(report),
        }
    }
}

/// Either side of the measurement.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Measured(Box<Report>),
    Served(server::Report),
}

fn measured(report: &Report) -> Vec<Block> {
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

/// How the sender waits for a packet's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SendPace {
    /// It stays awake, and sleeps only for the newest answer, as ping-pong programs do: takes most of a CPU
    #[default]
    Awake,
    /// It sleeps until shortly before, as a server between ticks does: its CPU comes from idle
    Sleep,
    /// It spins, and another thread takes the answers: takes all of a CPU
    Spin,
}

/// What to do until it is time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Waiting {
    #[default]
    Sleep,
    Spin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Round trips, loss and order
    Echo,
    /// Where the time of a round trip goes
    Split,
    /// Packets a second that a core sends and takes
    Ceiling,
    /// Packets that fit while nobody reads
    Burst,
}

fn parts(asked: &[Part]) -> Vec<udp::Part> {
    let all = [Part::Echo, Part::Split, Part::Ceiling, Part::Burst];
    let asked = if asked.is_empty() { &all } else { asked };
    let meant = asked.iter().map(|part| match part {
        Part::Echo => udp::Part::Echo,
        Part::Split => udp::Part::Split,
        Part::Ceiling => udp::Part::Ceiling,
        Part::Burst => udp::Part::Burst,
    });
    meant.collect()
}

/// The first address of `HOST:PORT`.
pub(super) fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| Failure::text(exit::WRONG_USE, format!("understand the address {text:?}"), why);
    let mut found =
        text.to_socket_addrs().map_err(|error| wrong(format!("{error}; it is HOST:PORT, as 10.0.0.2:7007")))?;
    found.next().ok_or_else(|| wrong("the name has no address".to_owned()))
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.01..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("it takes 0.01 to 86400".to_owned()) }
}

/// What a server did.
pub(super) fn served(report: &server::Report) -> Vec<Block> {
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

fn lines(report: &Report) -> Vec<CardLine> {
    let mut lines = Vec::new();
    if let Some(echo) = &report.echo {
        let trips = percentiles("udp_echo_ns", "echo over loopback", Better::Lower, &echo.from_send_ns);
        lines.extend(trips.into_iter().flatten());
        let ways: Vec<_> = [&echo.there, &echo.back].into_iter().flatten().collect();
        let (sent, lost) = ways.iter().fold((0, 0), |(sent, lost), way| (sent + way.sent, lost + way.lost));
        if sent > 0 {
            let share = lost as f64 / sent as f64 * PPM;
            lines.push(line("udp_echo_lost_ppm", "lost on the way", Unit::Ppm, Better::Lower, share));
        }
    }
    if let Some(ceiling) = &report.ceiling {
        let send = ceiling.send.per_cpu_s;
        lines.push(line("udp_send_per_cpu_s", "packets a core sends", Unit::PerS, Better::Higher, send));
        let receive = ceiling.receive.map(|rate| rate.per_cpu_s);
        let receive =
            receive.map(|rate| line("udp_receive_per_cpu_s", "packets a core takes", Unit::PerS, Better::Higher, rate));
        lines.extend(receive);
    }
    lines
}
