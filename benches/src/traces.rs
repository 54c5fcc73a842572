//! `record-trace`: how much this machine disturbs constant work, window after window, in the format of the text files in
//! `crates/testkit/src/noise/traces/`. The tests of the rates of false claims use such recorded noise, and simulated noise.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use evenkeel_stats::Histogram;
use evenkeel_sys::clock::{monotonic_ns, thread_cpu_ns};
use evenkeel_sys::thread;

use crate::locks::{pin, steps_of, work};

const ROUND_TRIPS: usize = 900;
const ROUND_TRIPS_NS: u64 = 100_000_000;
const COMPUTES: usize = 3000;
const COMPUTE_NS: u64 = 20_000_000;
/// If a datagram on the loopback takes longer, it counts as lost.
const LOST: Duration = Duration::from_secs(2);

/// `record-trace udp|cpu FILE NOTE`.
///
/// # Errors
/// With other arguments, with fewer than two CPUs for `udp`, or if the file cannot be written.
pub(crate) fn record(arguments: &[String]) -> anyhow::Result<()> {
    let [kind, file, note] = arguments else {
        bail!("record-trace takes udp or cpu, the file to write, and a note on the machine and what else ran on it");
    };
    let (what, rows) = match kind.as_str() {
        "udp" => ("UDP round trips on the loopback between two CPUs, one at a time, in windows of 0.1 s", udp()?),
        "cpu" => ("the same work of about 20 ms on one CPU, again and again", cpu()?),
        other => bail!("unknown trace {other}; known: udp, cpu"),
    };
    let mut text = format!("# {what}.\n# {note}\n# Made by: evenkeel-bench record-trace {kind} FILE NOTE\n");
    text += &rows;
    std::fs::write(file, text).with_context(|| format!("write {file}"))
}

fn cpus() -> anyhow::Result<Vec<usize>> {
    Ok(thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?.iter().collect())
}

fn udp() -> anyhow::Result<String> {
    let cpus = cpus()?;
    let [one, other, ..] = cpus[..] else { bail!("only {} CPU may be used, and two are needed", cpus.len()) };
    let socket = || -> anyhow::Result<UdpSocket> {
        let socket = UdpSocket::bind("127.0.0.1:0").context("open a socket")?;
        socket.set_read_timeout(Some(LOST)).context("set its timeout")?;
        Ok(socket)
    };
    let (server, client) = (socket()?, socket()?);
    server.connect(client.local_addr()?).context("connect the sockets")?;
    client.connect(server.local_addr()?).context("connect the sockets")?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> anyhow::Result<()> {
            pin(one)?;
            let mut packet = [0; 64];
            while !done.load(Ordering::Relaxed) {
                let length = server.recv(&mut packet).context("receive at the server")?;
                server.send(&packet[..length]).context("send the answer")?;
            }
            Ok(())
        });
        let rows = pin(other).and_then(|()| round_trips(&client, &done));
        echo.join().map_err(|_| anyhow!("the server's thread panicked"))?.and(rows)
    })
}

/// One row per window. Sets `done` before the last round trip, so that the server stops after it.
fn round_trips(client: &UdpSocket, done: &AtomicBool) -> anyhow::Result<String> {
    let mut rows = String::from("# p50_us p99_us\n");
    let mut packet = [0; 64];
    let mut once = || -> anyhow::Result<u64> {
        let start_ns = monotonic_ns();
        client.send(&packet).context("send")?;
        client.recv(&mut packet).context("receive an answer")?;
        Ok(monotonic_ns() - start_ns)
    };
    for _ in 0..ROUND_TRIPS {
        let (mut seen, end_ns) = (Histogram::new(), monotonic_ns() + ROUND_TRIPS_NS);
        while monotonic_ns() < end_ns {
            seen.record(once()?);
        }
        let summary = seen.summary().context("no round trip in a window")?;
        writeln!(rows, "{:.2} {:.2}", summary.p50 as f64 / 1e3, summary.p99 as f64 / 1e3)?;
    }
    done.store(true, Ordering::Relaxed);
    once()?;
    Ok(rows)
}

fn cpu() -> anyhow::Result<String> {
    let cpu = cpus()?.pop().context("no CPU may be used")?;
    let steps = steps_of(COMPUTE_NS, cpu)?;
    pin(cpu)?;
    let mut rows = String::from("# wall_ms cpu_ms\n");
    for _ in 0..COMPUTES {
        let (start_ns, start_cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        work(steps);
        let (wall_ns, cpu_ns) = (monotonic_ns() - start_ns, thread_cpu_ns() - start_cpu_ns);
        writeln!(rows, "{:.3} {:.3}", wall_ns as f64 / 1e6, cpu_ns as f64 / 1e6)?;
    }
    Ok(rows)
}
