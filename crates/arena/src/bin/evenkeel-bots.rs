//! The arena's bots: arguments, signals and streams around [`evenkeel_arena::bots`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use clap::value_parser as range;
use evenkeel_arena::bots::{Bots, BotsConfig};
use evenkeel_arena::console::{channel, narrate, serve, write_line};
use evenkeel_arena::pin::pin_to;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Bots that play on the arena's server, and a probe that times round trips.
///
/// Takes commands as lines of JSON on stdin, and answers on stdout.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The server's address
    #[arg(long)]
    connect: SocketAddr,
    /// Bots, beside the probe
    #[arg(long, default_value_t = 16, value_parser = range!(u8).range(1..=254))]
    bots: u8,
    /// Inputs a second from each bot
    #[arg(long, default_value_t = 30, value_parser = range!(u16).range(1..=200))]
    input_hz: u16,
    /// Decides all that the bots do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long the probe sleeps after each answer, in microseconds
    #[arg(long, default_value_t = 100, value_parser = range!(u32).range(..=1_000_000))]
    probe_gap_us: u32,
    /// How long all together may take to join, in milliseconds
    #[arg(long, default_value_t = 5_000, value_parser = range!(u32).range(1..=600_000))]
    join_timeout_ms: u32,
    /// Run on this CPU only
    #[arg(long)]
    cpu: Option<usize>,
    /// Ignore stdin, and print one line for people a second
    #[arg(long)]
    no_control: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(cpu) = arguments.cpu {
        pin_to(cpu).with_context(|| format!("run on CPU {cpu}"))?;
    }
    let joined = Bots::join(BotsConfig {
        connect: arguments.connect,
        bots: arguments.bots,
        input_hz: arguments.input_hz,
        seed: arguments.seed,
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
    // Only now: while they join, a signal may simply end the process.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    write_line(&mut io::stdout(), &bots.ready())?;
    let (requests, waiting) = channel();
    let ended = Arc::clone(&stop);
    // Left to end with the process: nothing ends a read of stdin early.
    thread::spawn(move || {
        // A reader that is gone ends the bots just as the end of the input does.
        let _ = match arguments.no_control {
            true => narrate(io::stdout(), &requests, &ended),
            false => serve(io::stdin(), io::stdout(), &requests),
        };
        ended.store(true, Ordering::Relaxed);
    });
    Ok(bots.run(&waiting, &stop)?)
}
