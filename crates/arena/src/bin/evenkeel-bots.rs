//! The arena's bots: arguments, signals and streams around [`evenkeel_arena::bots`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::Parser;
use clap::value_parser as range;
use evenkeel_arena::bots::{Bots, BotsConfig};
use evenkeel_arena::console::{channel, narrate, serve, write_line};
use evenkeel_arena::place::stay_on;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Bots that play on evenkeel-arena, and a probe that times round trips
///
/// They walk the shortest ways, turn to visible opponents, and shoot.
/// They report what players would notice: how often snapshots arrive, how old they are, how long an input takes to show, what was lost,
/// and how far shots were rewound.
///
/// The first line on stdout is JSON and says how many bots have joined.
/// Then they read commands as lines of JSON from stdin, and answer each with one line: {"cmd":"window"}, {"cmd":"stop"}.
/// They end when stdin is closed, and on SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-bots", version, after_help = EXAMPLES)]
struct Arguments {
    /// The server's address
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: SocketAddr,
    /// Bots, not counting the probe: 1 to 254
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = range!(u8).range(1..=254))]
    bots: u8,
    /// Inputs per second from each bot: 1 to 200
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = range!(u16).range(1..=200))]
    input_hz: u16,
    /// Seed of everything that the bots do
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long the probe sleeps after each answer, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = range!(u32).range(..=1_000_000))]
    probe_gap_us: u32,
    /// The time limit for all of them to join, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = range!(u32).range(1..=600_000))]
    join_timeout_ms: u32,
    /// Real-time priority of the playing thread, 1 to 99, so that a busy machine does not delay the measurement. Needs CAP_SYS_NICE;
    /// without it, the thread runs at normal priority
    #[arg(long, value_name = "PRIORITY", value_parser = range!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Run on this CPU only
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Ignore stdin, and print one line per second for people
    #[arg(long)]
    no_control: bool,
}

const EXAMPLES: &str = "\
Example:
  evenkeel-arena --listen 127.0.0.1:27960 --no-control
  evenkeel-bots --connect 127.0.0.1:27960 --bots 64 --no-control";

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(cpu) = arguments.cpu {
        stay_on(cpu).map_err(|error| anyhow!(error))?;
    }
    let joined = Bots::join(BotsConfig {
        connect: arguments.connect,
        bots: arguments.bots,
        input_hz: arguments.input_hz,
        seed: arguments.seed,
        fifo: arguments.fifo,
        probe_gap: Duration::from_micros(arguments.probe_gap_us.into()),
        join_timeout: Duration::from_millis(arguments.join_timeout_ms.into()),
    });
    let bots = match joined {
        Ok(bots) => bots,
        Err(error) => {
            write_line(&mut io::stdout(), &error.event())?;
            return Err(error.into());
        }
    };
    // Handle signals only from here on. While the bots join, a signal may simply end the process.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    write_line(&mut io::stdout(), &bots.ready())?;
    let (requests, waiting) = channel();
    let ended = Arc::clone(&stop);
    // This thread ends only with the process, because nothing interrupts a read of stdin.
    thread::spawn(move || {
        // If the reader of stdout is gone, the bots end as they do when stdin is closed.
        let _ = match arguments.no_control {
            true => narrate(io::stdout(), &requests, &ended),
            false => serve(io::stdin(), io::stdout(), &requests),
        };
        ended.store(true, Ordering::Relaxed);
    });
    Ok(bots.run(&waiting, &stop)?)
}
