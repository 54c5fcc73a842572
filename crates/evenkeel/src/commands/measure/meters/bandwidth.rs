//! `evenkeel measure bandwidth`.

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::bandwidth::{self, By, Direction, Report, Served};
use evenkeel_measure::meters::udp::Between;
use serde::Serialize;

use super::udp::{resolve, seconds, served as served_by_udp};
use crate::commands::measure::card::{CardTurn, line, value};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{percent_to, real_quantity};
use crate::view::Block;

const UNKNOWN: &str = "unknown";

/// Measure TCP and UDP bandwidth in either direction, counted at the receiver
///
/// Without ADDRESS the meter starts a server here and streams over loopback between two CPUs.
/// Between two hosts,
/// run `measure bandwidth --serve 0.0.0.0:7007` on one and `measure bandwidth HOST:7007` on the other.
/// With `--reverse` the server sends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure bandwidth
  evenkeel measure bandwidth --serve 0.0.0.0:7007          on one host, and on the other:
  evenkeel measure bandwidth HOST:7007")]
pub(crate) struct Args {
    /// The server, as HOST:PORT
    #[arg(value_name = "ADDRESS", conflicts_with = "serve")]
    to: Option<String>,
    /// Run the server at HOST:PORT, for TCP and UDP. The server limits time and streams
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
    /// Duration of the streams, or of the server [default: 5, as server 600]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    seconds: Option<f64>,
    /// The protocol
    #[arg(long, value_enum, default_value_t, conflicts_with = "serve")]
    by: Protocol,
    /// Send from the server to here, for at most 60 seconds
    #[arg(short = 'R', long, conflicts_with = "serve")]
    reverse: bool,
    /// Maximum UDP rate that the server sends with --reverse, in Mbit/s. With 0 it sends nothing, also over TCP
    #[arg(long, value_name = "MBIT", default_value_t = 1000, requires = "serve")]
    reverse_max: u32,
    /// Concurrent streams, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "serve")]
    streams: usize,
    /// Bytes of a UDP packet, or of one write to a TCP stream [default: 1400 or 131072]
    #[arg(long, value_name = "BYTES", conflicts_with = "serve")]
    size: Option<usize>,
    /// Rate of all UDP streams together, in Mbit/s [default: unlimited]
    #[arg(long, value_name = "MBIT", conflicts_with = "serve")]
    rate: Option<f64>,
    /// Run on this CPU
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Meter for Args {
    const NAME: &'static str = "bandwidth";
    const TITLE: &'static str = "Bandwidth";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 1.0,
        run: |pace, watch| {
            let settings = bandwidth::Settings {
                way: Direction::ToServer,
                to: None,
                by: By::Tcp,
                streams: 1,
                seconds: pace.choose(1.0, 0.5),
                bytes: None,
                bits_per_s: None,
                cpu: None,
            };
            Ok(lines(&bandwidth::run(&settings, watch)?))
        },
        finding: |lines| {
            through(Between::Loopback, value(lines, "tcp_loopback_bytes_per_s").map(|bytes| bytes * 8.0), None)
        },
    });
    type Report = Answer;

    fn measure(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        if let Some(at) = &self.serve {
            let (at, seconds) = (resolve(at)?, self.seconds.unwrap_or(600.0));
            let reverse_bits_per_s_max = u64::from(self.reverse_max) * 1_000_000;
            let settings = bandwidth::ServeSettings { at, seconds, cpu: self.cpu, reverse_bits_per_s_max };
            return context.measure(|watch| bandwidth::Server::bind(&settings)?.run(watch)).map(Answer::Served);
        }
        let settings = bandwidth::Settings {
            way: if self.reverse { Direction::FromServer } else { Direction::ToServer },
            to: self.to.as_deref().map(resolve).transpose()?,
            by: if self.by == Protocol::Udp { By::Udp } else { By::Tcp },
            streams: self.streams,
            seconds: self.seconds.unwrap_or(5.0),
            bytes: self.size,
            bits_per_s: self.rate.map(|mbit| mbit * 1e6),
            cpu: self.cpu,
        };
        context.measure(|watch| bandwidth::run(&settings, watch)).map(|report| Answer::Measured(Box::new(report)))
    }

    fn finding(answer: &Answer) -> Option<Finding> {
        let Answer::Measured(report) = answer else { return None };
        Some(through(report.between, report.arrived_bits_per_s, report.lost_share))
    }

    fn page(answer: &Answer) -> Vec<Block> {
        match answer {
            Answer::Measured(report) => measured(report),
            Answer::Served(report) => served(report),
        }
    }
}

fn through(between: Between, bits_per_s: Option<f64>, lost: Option<f64>) -> Finding {
    let Some(per_s) = bits_per_s else { return Finding::unknown("the server did not report what arrived") };
    let rate = bits(per_s);
    let loss = lost.map(|share| format!(", with {} of the packets lost", percent_to(2, share))).unwrap_or_default();
    match between {
        Between::Loopback => Finding::new(
            Grade::of_low(-per_s, -10e9, -1e9),
            format!("the kernel moves {rate} over loopback{loss}, compared with a network card of 10 Gbit/s"),
        ),
        Between::Network => Finding::unknown(format!(
            "{rate} arrived{loss}, and evenkeel does not know what this link should carry; 1 Gbit/s is 1000 players at 1 Mbit/s"
        )),
    }
}

/// The report of the client, or of the server.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub(crate) enum Answer {
    Measured(Box<Report>),
    Served(Served),
}

fn measured(report: &Report) -> Vec<Block> {
    let by = if report.by == By::Tcp { "TCP" } else { "UDP" };
    let shown = |bits_per_s: Option<f64>| bits_per_s.map_or_else(|| UNKNOWN.to_owned(), bits);
    let direction = if report.way == Direction::ToServer { "to the server" } else { "from the server" };
    let mut blocks = vec![
        Block::row("server", report.to.to_string()),
        Block::row("streams", format!("{} over {by}, {direction}", report.streams.len())),
        Block::row("arrived", shown(report.arrived_bits_per_s)),
        Block::row("sent", shown(report.sent_bits_per_s)),
    ];
    if let Some(cut) = report.cut_to_bits_per_s {
        let words = format!("The server limits what it sends to {}; change it with --reverse-max there.", bits(cut));
        blocks.push(Block::Note(words));
    }
    if report.between == Between::Loopback {
        let words = "This is loopback: the speed of memory and the kernel, without a network. Between hosts, run `evenkeel measure bandwidth \
                     --serve ADDRESS` on the other and `evenkeel measure bandwidth ADDRESS` here.";
        blocks.insert(1, Block::Note(words.to_owned()));
    }
    if let Some(share) = report.lost_share {
        blocks.push(Block::row("lost", format!("{} of the packets", percent_to(2, share))));
    }
    let percent = |share: f64| percent_to(0, share);
    let server = report.server_cpu_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    blocks.push(Block::row(
        "CPU",
        format!("{} of one CPU here, {server} of one at the server", percent(report.cpu_share)),
    ));
    if report.unreported > 0 {
        let words =
            format!("The server did not report its counts for {} streams. They are not included.", report.unreported);
        blocks.push(Block::Warning(words));
    }
    let not_sent: u64 = report.streams.iter().map(|stream| stream.not_sent).sum();
    if not_sent > 0 {
        blocks.push(Block::Warning(format!("The local kernel refused {not_sent} packets.")));
    }
    blocks
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    #[default]
    Tcp,
    Udp,
}

/// `9.41 Gbit/s`: network rates are in bits, with decimal prefixes.
fn bits(per_s: f64) -> String {
    let rate = real_quantity(per_s, Unit::PerS);
    rate.strip_suffix("/s").map_or_else(|| rate.clone(), |number| format!("{number}bit/s"))
}

/// The page of a bandwidth server.
fn served(report: &Served) -> Vec<Block> {
    let Served { streams, bytes, sent_bytes, refused, .. } = report;
    let streams = format!("{streams}, {bytes} bytes received, {sent_bytes} sent; {refused} connections refused");
    let mut blocks = vec![Block::row("TCP streams", streams)];
    blocks.extend(served_by_udp(&report.udp));
    blocks
}

fn lines(report: &Report) -> Vec<CardLine> {
    let of = |bits: f64| {
        line("tcp_loopback_bytes_per_s", "one TCP stream over loopback", Unit::BytesPerS, Better::Higher, bits / 8.0)
    };
    report.arrived_bits_per_s.map(of).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_not_graded() {
        assert_eq!(through(Between::Loopback, Some(30e9), None).grade, Grade::Good);
        assert_eq!(through(Between::Loopback, Some(5e9), None).grade, Grade::Fair);
        assert_eq!(through(Between::Network, Some(30e9), Some(0.1)).grade, Grade::Unknown);
    }

    #[test]
    fn bits_read_as_people_say_them() {
        assert_eq!(bits(9.41e9), "9.41 Gbit/s");
        assert_eq!(bits(0.0), "0 bit/s");
        assert_eq!(bits(940_000_000.0), "940 Mbit/s");
    }
}
