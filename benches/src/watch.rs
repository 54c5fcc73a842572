//! `watch` and `watch-memory`: the cost of a live collector on a host with four servers, at one sample a second. The costs are CPU time per
//! second, and resident memory. Peers also collect each second. Peers that only answer requests get one request a second, as from
//! Prometheus.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use evenkeel_rt::TickLoop;
use evenkeel_rt::telemetry::TelemetrySettings;
use evenkeel_sys::clock::realtime_ns;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::audit::{beside_us, version};
use crate::row::{Measured, Measurements, Row};

const ROUNDS: usize = 6;
/// The time in which a contender finds its servers. If a server has no telemetry page, evenkeel searches for its tick from the second look
/// at the process on, some ten seconds after the start. The search takes 3 to 9 seconds.
const WARM_UP_S: u64 = 24;
const WINDOW_S: u64 = 8;
const SERVERS: u64 = 4;
const SECOND: Duration = Duration::from_secs(1);
/// The argument with which this program runs as one of the servers that have no telemetry page.
pub(crate) const SERVER_ARGUMENT: &str = "--watched-server";

/// How the servers publish their ticks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    /// In telemetry pages.
    WithPages,
    /// Not at all. A collector must find the ticks from outside.
    Silent,
}

/// A collector to compare.
struct Contender {
    name: &'static str,
    program: String,
    arguments: Vec<String>,
    version: String,
    /// A mode of evenkeel that is reported but not compared.
    is_other_mode: bool,
    servers: Servers,
    /// The port at which metrics are requested each second, if the collector only answers requests.
    port: Option<u16>,
}

/// CPU time in milliseconds per second, and resident memory in MiB.
#[derive(Clone, Copy)]
struct Cost {
    cpu_ms: f64,
    resident_mib: f64,
}

pub(crate) fn measure_cpu() -> anyhow::Result<Row> {
    measure("watch", "ms of CPU a second", |cost| cost.cpu_ms)
}

pub(crate) fn measure_memory() -> anyhow::Result<Row> {
    measure("watch-memory", "MiB", |cost| cost.resident_mib)
}

fn measure(row: &'static str, unit: &'static str, of: fn(&Cost) -> f64) -> anyhow::Result<Row> {
    let scratch = tempfile::tempdir()?;
    let (contenders, skipped) = contenders(scratch.path())?;
    let seed = realtime_ns();
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        order.shuffle(&mut chance);
        for at in order {
            let cost = one(&contenders[at]).with_context(|| format!("measure {}", contenders[at].name))?;
            rounds[at].push(of(&cost));
        }
    }
    let (modes, all): (Vec<_>, Vec<_>) =
        contenders.into_iter().zip(rounds).partition(|(contender, _)| contender.is_other_mode);
    let [modes, all] = [modes, all].map(|list| {
        let named =
            |(one, rounds): (Contender, _)| Measured { name: one.name.to_owned(), version: one.version, rounds };
        list.into_iter().map(named).collect::<Vec<Measured>>()
    });
    Row::new(Measurements { row, unit, all, skipped, seed })?.with_modes(&modes)
}

/// All contenders: evenkeel, its other modes, then the peers. Their output goes to `scratch`.
fn contenders(scratch: &Path) -> anyhow::Result<(Vec<Contender>, BTreeMap<String, String>)> {
    let ours = beside_us("evenkeel")?;
    let our_version =
        version(&ours, "--version").with_context(|| format!("{ours} does not run: 'make bench' builds it"))?;
    let free = || -> anyhow::Result<u16> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()) };
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let state = scratch.join("state");
    let serve = |name, more: &str, servers| -> anyhow::Result<Contender> {
        let port = free()?;
        let line = format!("serve --listen 127.0.0.1:{port} --state {} {more}", state.display());
        let (program, version) = (ours.clone(), our_version.clone());
        let is_other_mode = servers == Servers::Silent;
        Ok(Contender { name, program, arguments: words(&line), version, is_other_mode, servers, port: Some(port) })
    };
    let mut all = vec![
        serve("evenkeel serve", "--no-find", Servers::WithPages)?,
        serve("evenkeel serve, ticks from outside", "", Servers::Silent)?,
        serve("evenkeel serve --gaps, ticks from outside", "--gaps", Servers::Silent)?,
    ];
    let mut skipped = BTreeMap::new();
    let exporter_port = free()?;
    let raw = scratch.join("atop");
    let peers = [
        (
            "prometheus-node-exporter",
            format!("--web.listen-address=127.0.0.1:{exporter_port}"),
            "--version",
            Some(exporter_port),
            "prometheus-node-exporter",
        ),
        ("atop", format!("-w {} 1", raw.display()), "-V", None, "atop"),
        ("/usr/lib/sysstat/sadc", "-S ALL 1 /dev/null".to_owned(), "-V", None, "sysstat"),
    ];
    for (program, line, how, port, package) in peers {
        match version(program, how) {
            Some(version) => all.push(Contender {
                name: program,
                program: program.to_owned(),
                arguments: words(&line),
                version,
                is_other_mode: false,
                servers: Servers::WithPages,
                port,
            }),
            None => {
                let why = format!("not installed: apt-get install --no-install-recommends {package}");
                skipped.insert(program.to_owned(), why);
            }
        }
    }
    Ok((all, skipped))
}

/// A child process that is killed on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn one(contender: &Contender) -> anyhow::Result<Cost> {
    let _servers = start_servers(contender.servers)?;
    let mut command = Command::new(&contender.program);
    command.args(&contender.arguments).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    let mut running = Ended(command.spawn()?);
    let pid = running.0.id();
    let ask = || contender.port.map_or(Ok(()), scrape);
    for _ in 0..WARM_UP_S {
        std::thread::sleep(SECOND);
        // The collector may not listen yet.
        let _ = ask();
    }
    let before_ns = cpu_ns(pid)?;
    for _ in 0..WINDOW_S {
        std::thread::sleep(SECOND);
        ask()?;
    }
    if let Some(status) = running.0.try_wait()? {
        anyhow::bail!("it ended: {status}");
    }
    let used_ns = cpu_ns(pid)?.saturating_sub(before_ns);
    Ok(Cost { cpu_ms: used_ns as f64 / 1e6 / WINDOW_S as f64, resident_mib: resident_mib(pid)? })
}

/// The servers, which run until this is dropped.
enum Running {
    Loops(Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>),
    Processes { _all: Vec<Ended> },
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Running::Loops(stop, threads) = self {
            stop.store(true, Ordering::Relaxed);
            threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

fn start_servers(servers: Servers) -> anyhow::Result<Running> {
    match servers {
        Servers::WithPages => {
            let stop = Arc::new(AtomicBool::new(false));
            let start = |number: u64| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let settings = TelemetrySettings::named(&format!("bench-{}-{number}", std::process::id()));
                    let built = TickLoop::builder().period(period(number)).telemetry(settings).build();
                    let Ok(mut ticks) = built else { return };
                    while !stop.load(Ordering::Relaxed) {
                        drop(ticks.wait());
                        work();
                    }
                })
            };
            let threads = (0..SERVERS).map(start).collect();
            Ok(Running::Loops(stop, threads))
        }
        Servers::Silent => {
            let us = std::env::current_exe()?;
            let start = |number: u64| -> anyhow::Result<Ended> {
                let mut command = Command::new(&us);
                let mut child = command.args([SERVER_ARGUMENT, &number.to_string()]).stdout(Stdio::piped()).spawn()?;
                let out = child.stdout.take().context("a pipe")?;
                BufReader::new(out).read_line(&mut String::new())?;
                Ok(Ended(child))
            };
            Ok(Running::Processes { _all: (0..SERVERS).map(start).collect::<anyhow::Result<_>>()? })
        }
    }
}

/// The period of this server's tick, for 20 to 64 ticks a second.
fn period(number: u64) -> Duration {
    Duration::from_nanos(1_000_000_000 / [20, 30, 50, 64][number as usize % 4])
}

/// Uses the CPU for half a millisecond.
fn work() {
    let until_ns = evenkeel_sys::clock::monotonic_ns() + 500_000;
    while evenkeel_sys::clock::monotonic_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// Runs a server with a UDP socket and without a telemetry page, until it is killed.
pub(crate) fn serve_silently(number: &str) -> anyhow::Result<()> {
    let _socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let period_ns = u64::try_from(period(number.parse().unwrap_or(0)).as_nanos())?;
    println!("ready");
    let mut due_ns = evenkeel_sys::clock::monotonic_ns();
    loop {
        work();
        due_ns += period_ns;
        evenkeel_sys::clock::sleep_until_ns(due_ns);
    }
}

/// Reads all metrics once.
fn scrape(port: u16) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(SECOND * 5))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.starts_with(b"HTTP/1.1 200"), "it does not answer");
    Ok(())
}

/// The CPU time of all threads of a process.
fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Ok(tasks.filter_map(of).sum())
}

fn resident_mib(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("its status has no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib / 1024.0)
}
