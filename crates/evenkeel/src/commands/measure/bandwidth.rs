//! `evenkeel measure bandwidth`.

use clap::ValueEnum;
use evenkeel_measure::meters::bandwidth::{self, By, Way};

use super::Context;
use super::udp::{resolve, seconds};
use crate::failure::Outcome;
use crate::show::meters;

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    #[default]
    Tcp,
    Udp,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    if let Some(at) = &args.serve {
        let (at, seconds) = (resolve(at)?, args.seconds.unwrap_or(600.0));
        let reverse_bits_per_s_max = u64::from(args.reverse_max) * 1_000_000;
        let settings = bandwidth::ServeSettings { at, seconds, cpu: args.cpu, reverse_bits_per_s_max };
        let report = context.measure(|watch| bandwidth::Server::bind(&settings)?.run(watch))?;
        return context.answer("What was served", &report, meters::bandwidth::served);
    }
    let settings = bandwidth::Settings {
        way: if args.reverse { Way::FromServer } else { Way::ToServer },
        to: args.to.as_deref().map(resolve).transpose()?,
        by: if args.by == Protocol::Udp { By::Udp } else { By::Tcp },
        streams: args.streams,
        seconds: args.seconds.unwrap_or(5.0),
        bytes: args.size,
        bits_per_s: args.rate.map(|mbit| mbit * 1e6),
        cpu: args.cpu,
    };
    let report = context.measure(|watch| bandwidth::run(&settings, watch))?;
    context.answer("Bytes a second", &report, meters::bandwidth::blocks)
}
