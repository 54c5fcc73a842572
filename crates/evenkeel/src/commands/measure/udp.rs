//! `evenkeel measure udp`.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::ValueEnum;
use evenkeel_measure::meters::udp::{self, server};

use super::Context;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::meters;

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
    pace: Pace,
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

/// How the sender waits for a packet's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Pace {
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

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Outcome {
    if let Some(at) = &args.serve {
        let settings = server::Settings {
            at: resolve(at)?,
            seconds: args.seconds.unwrap_or(600.0),
            cpu: args.cpu,
            echoes_per_s_max: args.echoes_max,
            give_bits_per_s_max: 0,
            receive_buffer_bytes: args.receive_buffer,
        };
        let report = context.measure(|watch| server::Server::bind(&settings)?.run(watch))?;
        return context.answer("What was served", &report, meters::udp::served);
    }
    let settings = udp::Settings {
        to: args.to.as_deref().map(resolve).transpose()?,
        rate_hz: args.rate,
        bytes: args.size,
        seconds: args.seconds.unwrap_or(5.0),
        pace: match args.pace {
            Pace::Awake => udp::Pace::Awake,
            Pace::Sleep => udp::Pace::Sleep,
            Pace::Spin => udp::Pace::Spin,
        },
        receive: if args.receive == Waiting::Spin { udp::Receive::Spin } else { udp::Receive::Sleep },
        cpu: args.cpu,
        receive_buffer_bytes: args.receive_buffer,
        parts: parts(&args.part),
    };
    let report = context.measure(|watch| udp::run(&settings, watch))?;
    context.answer("What the way does to UDP packets", &report, meters::udp::blocks)
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
