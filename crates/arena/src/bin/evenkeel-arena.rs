//! The arena's server: arguments, signals and streams around [`evenkeel_arena::server`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context;
use clap::Parser;
use clap::value_parser as range;
use evenkeel_arena::console::{channel, narrate, serve, write_line};
use evenkeel_arena::pin::pin_to;
use evenkeel_arena::server::{Server, ServerConfig};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A headless UDP game server to prove settings of a host on.
///
/// Takes commands as lines of JSON on stdin, and answers on stdout.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ticks, and so snapshots to every player, a second
    #[arg(long, default_value_t = 50, value_parser = range!(u16).range(10..=500))]
    tick_hz: u16,
    /// Most players at a time
    #[arg(long, default_value_t = 32, value_parser = range!(u8).range(1..))]
    players: u8,
    /// Decides the ground and where players appear
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Work of each tick beside the game, in microseconds of this machine undisturbed
    #[arg(long, default_value_t = 300, value_parser = range!(u32).range(..=1_000_000))]
    work_us: u32,
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
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    let server = Server::bind(ServerConfig {
        listen: arguments.listen,
        tick_hz: arguments.tick_hz,
        players: arguments.players,
        seed: arguments.seed,
        work_us: arguments.work_us,
    })?;
    write_line(&mut io::stdout(), &server.ready())?;
    let (requests, waiting) = channel();
    let ended = Arc::clone(&stop);
    // Left to end with the process: nothing ends a read of stdin early. The tick must stay on the first thread.
    thread::spawn(move || {
        // A reader that is gone ends the server just as the end of the input does.
        let _ = match arguments.no_control {
            true => narrate(io::stdout(), &requests, &ended),
            false => serve(io::stdin(), io::stdout(), &requests),
        };
        ended.store(true, Ordering::Relaxed);
    });
    Ok(server.run(&waiting, &stop)?)
}
