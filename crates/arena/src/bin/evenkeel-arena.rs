//! The arena's server: arguments, signals and streams around [`evenkeel_arena::server`].

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, anyhow};
use clap::value_parser as range;
use clap::{Parser, ValueEnum};
use evenkeel_arena::console::{channel, narrate, serve, write_line};
use evenkeel_arena::place::stay_on;
use evenkeel_arena::record::replay;
use evenkeel_arena::server::{Keeping, Server, ServerConfig};
use evenkeel_arena::worker_group::WorkerGroup;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A headless UDP game server in the manner of a tactical shooter, for 10 to 64 players
///
/// It simulates a match, judges each shot by what the shooter saw up to 250 ms ago, and sends each player a snapshot each tick.
/// A snapshot has the visible players, as changes from an earlier snapshot, in at most 1,200 bytes. evenkeel-bots plays on it.
///
/// The first line on stdout is JSON and says where it listens.
/// Then it reads commands as lines of JSON from stdin, and answers each with one line: {"cmd":"window"}, {"cmd":"delay_us","value":5000},
/// {"cmd":"work_us","value":300}, {"cmd":"tail_us","value":5000}, {"cmd":"timer_slack_ns","value":1}, {"cmd":"stop"}.
/// It ends when stdin is closed, and on SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ticks per second: 10 to 500. Each tick sends a snapshot to every player
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = range!(u16).range(10..=500))]
    tick_hz: u16,
    /// The maximum number of players at a time: 1 to 255
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = range!(u8).range(1..))]
    players: u8,
    /// Seed of the map and of the places where players appear
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Extra work of each tick, in microseconds on this machine when undisturbed, split into a thousand jobs
    #[arg(long, value_name = "US", default_value_t = 300, value_parser = range!(u32).range(..=1_000_000))]
    work_us: u32,
    /// Additional work in one tick of fifty, in microseconds, to create a tail
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = range!(u32).range(..=1_000_000))]
    tail_us: u32,
    /// Extra threads that share the work of the tick thread; 0 is best with one CPU or little work
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = range!(u8).range(..=63))]
    workers: u8,
    /// How the tick thread keeps time
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Tick::Steady)]
    tick: Tick,
    /// Spread the ticks of all sessions on this host that have this option, so that fewer of them collide
    #[arg(long)]
    phases: bool,
    /// Real-time priority of the tick thread, 1 to 99. Needs CAP_SYS_NICE; without it, the thread runs at normal priority
    #[arg(long, value_name = "PRIORITY", value_parser = range!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Run on this CPU only
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Publish the server's figures in shared memory under this name, for other programs to read while it runs
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Write the match to this file, for --replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Replay the match in this file instead of serving, and check that the result is the same. The exit code is 1 if it is not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "listen"])]
    replay: Option<PathBuf>,
    /// Ignore stdin, and print one line per second for people
    #[arg(long)]
    no_control: bool,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel-arena --listen 127.0.0.1:27960 --no-control
  evenkeel-bots --connect 127.0.0.1:27960 --bots 64 --no-control
  evenkeel-arena --record match.ek --no-control
  evenkeel-arena --replay match.ek --workers 1";

/// [`Keeping`] as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tick {
    /// Use a short slice, exact timers, and spin for a learned margin before each tick if the process has CPUs to spare
    Steady,
    /// As an ordinary thread, with the kernel's defaults
    Plain,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(cpu) = arguments.cpu {
        stay_on(cpu).map_err(|error| anyhow!(error))?;
    }
    if let Some(path) = &arguments.replay {
        return again(path, arguments.workers.into());
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
        tail_us: arguments.tail_us,
        workers: arguments.workers.into(),
        keeping: match arguments.tick {
            Tick::Steady => Keeping::Steady,
            Tick::Plain => Keeping::Plain,
        },
        phases: arguments.phases,
        fifo: arguments.fifo,
        session: arguments.session,
        record: arguments.record,
    })?;
    write_line(&mut io::stdout(), &server.ready())?;
    let (requests, waiting) = channel();
    let ended = Arc::clone(&stop);
    // This thread ends only with the process, because nothing interrupts a read of stdin. The tick must stay on the first thread.
    thread::spawn(move || {
        // If the reader of stdout is gone, the server ends as it does when stdin is closed.
        let _ = match arguments.no_control {
            true => narrate(io::stdout(), &requests, &ended),
            false => serve(io::stdin(), io::stdout(), &requests),
        };
        ended.store(true, Ordering::Relaxed);
    });
    server.run(&waiting, &stop)?;
    Ok(ExitCode::SUCCESS)
}

/// Plays a record again, and reports the result.
fn again(path: &Path, workers: usize) -> anyhow::Result<ExitCode> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let replayed = replay(&bytes, &mut WorkerGroup::new(workers)?).with_context(|| path.display().to_string())?;
    match replayed.first_difference {
        None => println!("{} ticks, every state and every datagram as recorded", replayed.ticks),
        Some(tick) => println!("{} ticks, other than recorded from tick {tick} on", replayed.ticks),
    }
    Ok(if replayed.first_difference.is_none() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
