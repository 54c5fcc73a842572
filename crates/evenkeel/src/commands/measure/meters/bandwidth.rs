//! `evenkeel measure bandwidth`.

use clap::ValueEnum;
use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::bandwidth::{self, By, Report, Served, Way};
use evenkeel_measure::meters::udp::Between;
use serde::Serialize;

use super::udp::{resolve, seconds, served as served_by_udp};
use crate::commands::measure::card::{CardTurn, line};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::blocks::Block;
use crate::show::units::{percent_to, real_quantity};

const UNKNOWN: &str = "unknown";

/// Bytes a second by TCP and UDP, there or back, counted where they arrive
///
/// Without ADDRESS a server is started here and streams go over loopback between two CPUs. Between two hosts: `measure bandwidth --serve
/// 0.0.0.0:7007` on one, `measure bandwidth HOST:7007` on the other; with `--reverse` the server sends, as players' downloads go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server, as HOST:PORT
    #[arg(value_name = "ADDRESS", conflicts_with = "serve")]
    to: Option<String>,
    /// Be the server, at HOST:PORT, by TCP and UDP: bounded in time and streams
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<String>,
    /// How long: of the streams, or of the server [default: 5, of the server 600]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// By what
    #[arg(long, value_enum, default_value_t, conflicts_with = "serve")]
    by: Protocol,
    /// From the server to here, 60 seconds at the most
    #[arg(short = 'R', long, conflicts_with = "serve")]
    reverse: bool,
    /// Megabits a second of UDP that the server sends to who asks with --reverse, at the most; 0 sends none, by TCP neither
    #[arg(long, value_name = "MBIT", default_value_t = 1000, requires = "serve")]
    reverse_max: u32,
    /// Streams at once, a thread each
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "serve")]
    streams: usize,
    /// Bytes of a UDP packet, or of one write to a TCP stream [default: 1400, 131072]
    #[arg(long, value_name = "BYTES", conflicts_with = "serve")]
    size: Option<usize>,
    /// Megabits a second of all UDP streams together; as fast as it goes without
    #[arg(long, value_name = "MBIT", conflicts_with = "serve")]
    rate: Option<f64>,
    /// Run on this CPU
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Meter for Args {
    const NAME: &'static str = "bandwidth";
    const TITLE: &'static str = "Bytes a second";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 1.0,
        run: |pace, watch| {
            let settings = bandwidth::Settings {
                way: Way::ToServer,
                to: None,
                by: By::Tcp,
                streams: 1,
                seconds: pace.of(1.0, 0.5),
                bytes: None,
                bits_per_s: None,
                cpu: None,
            };
            Ok(lines(&bandwidth::run(&settings, watch)?))
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
            way: if self.reverse { Way::FromServer } else { Way::ToServer },
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
    Served(Served),
}

fn measured(report: &Report) -> Vec<Block> {
    let by = if report.by == By::Tcp { "TCP" } else { "UDP" };
    let told = |bits_per_s: Option<f64>| bits_per_s.map_or_else(|| UNKNOWN.to_owned(), bits);
    let way = if report.way == Way::ToServer { "to the server" } else { "from the server" };
    let mut blocks = vec![
        Block::row("server", report.to.to_string()),
        Block::row("streams", format!("{} by {by}, {way}", report.streams.len())),
        Block::row("arrived", told(report.arrived_bits_per_s)),
        Block::row("sent", told(report.sent_bits_per_s)),
    ];
    if let Some(cut) = report.cut_to_bits_per_s {
        let words = format!("The server sends no more than {} in all: --reverse-max there says how much.", bits(cut));
        blocks.push(Block::Note(words));
    }
    if report.between == Between::Loopback {
        let words = "This is loopback: the speed of memory and of the kernel, and of no network. Between hosts: `evenkeel measure bandwidth \
                     --serve ADDRESS` on the other, `evenkeel measure bandwidth ADDRESS` here.";
        blocks.insert(1, Block::Note(words.to_owned()));
    }
    if let Some(share) = report.lost_share {
        blocks.push(Block::row("lost", format!("{} of the packets", percent_to(2, share))));
    }
    let percent = |share: f64| percent_to(0, share);
    let server = report.server_cpu_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    blocks.push(Block::row("CPU", format!("{} of one here, {server} of one at the server", percent(report.cpu_share))));
    if report.untold > 0 {
        let words =
            format!("Of {} streams the server did not tell what it counted: they are not in it.", report.untold);
        blocks.push(Block::Warning(words));
    }
    let not_sent: u64 = report.streams.iter().map(|stream| stream.not_sent).sum();
    if not_sent > 0 {
        blocks.push(Block::Warning(format!("The kernel here did not take {not_sent} packets.")));
    }
    blocks
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    #[default]
    Tcp,
    Udp,
}

/// `9.41 Gbit/s`: networks are told in bits, by thousands.
fn bits(per_s: f64) -> String {
    let told = real_quantity(per_s, Unit::PerS);
    told.strip_suffix("/s").map_or_else(|| told.clone(), |number| format!("{number}bit/s"))
}

/// What a server did.
fn served(report: &Served) -> Vec<Block> {
    let Served { streams, bytes, sent_bytes, refused, .. } = report;
    let streams = format!("{streams}, {bytes} bytes came, {sent_bytes} sent; {refused} connections refused");
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
    fn bits_read_as_people_say_them() {
        assert_eq!(bits(9.41e9), "9.41 Gbit/s");
        assert_eq!(bits(0.0), "0 bit/s");
        assert_eq!(bits(940_000_000.0), "940 Mbit/s");
    }
}
