//! `Loader`: the threads of a load, window by window.
//! Between windows the load sends nothing, so that a setting is switched while the server is quiet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sys::{CpuSet, clock};

use super::connection::{Connection, Waits};
use super::counts::{RequestCounts, Span};
use super::draw::{Draw, Popularity};
use super::fault::Fault;
use super::protocol::Protocol;
use super::schedule::{Arrivals, Schedule};
use super::worker::{SILENCE_NS, Turn, Worker};
use crate::workload::Sample;

/// The maximum number of threads of a load.
const THREADS_MAX: usize = 8;
/// The time from the start of the threads until the first request is due, in nanoseconds.
const START_NS: u64 = 2_000_000;
/// How long due requests may wait for a connection after the window's end, in nanoseconds.
const GIVE_UP_NS: u64 = 1_000_000_000;
/// How many values the load stores before it waits for the answers. The answers are far smaller than a socket's buffer.
const STORED_TOGETHER: u32 = 64;
/// How often a thread checks whether the load still runs while it waits for the window's end.
const LOOK: Duration = Duration::from_millis(50);

/// When to send requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: each connection sends its next request as soon as its last request is answered.
    Closed,
    /// Open loop: requests are due at times that are fixed beforehand.
    Open {
        /// The number of requests per second over all connections. It must be above 0.
        rate_per_s: f64,
        /// How the due times are distributed.
        arrivals: Arrivals,
    },
}

/// What a load sends, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The number of connections, at least 1. Each connection has at most one request without an answer.
    pub connections: u32,
    /// When requests are sent.
    pub pace: Pace,
    /// The number of keys, at least 1.
    pub keys: u32,
    /// How often each key is requested.
    pub popularity: Popularity,
    /// The share of reads, from 0 to 1.
    pub get_share: f64,
    /// The seed of all random choices.
    pub seed: u64,
}

/// A load with open connections.
pub struct Loader {
    workers: Vec<Worker>,
    cpus: CpuSet,
}

impl Loader {
    /// Opens the connections, exchanges greetings, and stores every value that the protocol needs.
    /// The load has one thread for each CPU in `cpus`. If the set is empty, the load has one thread.
    ///
    /// # Errors
    /// Fails if the server does not accept the connections or does not store the values.
    pub fn connect(
        address: SocketAddr,
        protocol: &Arc<dyn Protocol>,
        shape: &Shape,
        cpus: &CpuSet,
    ) -> Result<Loader, Fault> {
        prefill(address, &**protocol)?;
        let connections = shape.connections.max(1) as usize;
        let threads = cpus.len().clamp(1, THREADS_MAX).min(connections);
        let draw = Draw::new(shape.keys, shape.popularity, shape.get_share, shape.seed);
        let mut workers = Vec::with_capacity(threads);
        for index in 0..threads {
            let own = (index..connections).step_by(threads);
            let own: Result<Vec<_>, _> =
                own.map(|number| Connection::open(address, number as u32, &**protocol)).collect();
            let own = own?;
            let turn = match shape.pace {
                Pace::Closed => Turn::AtOnce,
                Pace::Open { rate_per_s, arrivals } => {
                    let own_rate = rate_per_s * own.len() as f64 / connections as f64;
                    Turn::Due(Schedule::new(own_rate, arrivals, shape.seed.wrapping_add(index as u64)))
                }
            };
            workers.push(Worker::new(Arc::clone(protocol), own, turn, draw.part(index, threads))?);
        }
        Ok(Loader { workers, cpus: cpus.clone() })
    }

    /// Moves the load to other CPUs from the next window on. The number of threads stays the same.
    /// With an empty set, the kernel chooses the CPUs.
    pub fn run_on(&mut self, cpus: CpuSet) {
        self.cpus = cpus;
    }

    /// The CPUs of the load, and its number of threads.
    pub fn runs_on(&self) -> (&CpuSet, usize) {
        (&self.cpus, self.workers.len())
    }

    /// Runs the load for `settle` and then for `window`, and returns the window's values.
    /// Calls `begin` when the window begins, and `end` when it ends, on the calling thread.
    ///
    /// # Errors
    /// Fails if the server does not answer, or answers incorrectly.
    pub fn window(
        &mut self,
        settle: Duration,
        window: Duration,
        begin: &mut dyn FnMut(),
        end: &mut dyn FnMut(),
    ) -> Result<Sample, Fault> {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let start_ns = clock::monotonic_ns() + START_NS;
        let begin_ns = start_ns.saturating_add(ns(settle));
        let end_ns = begin_ns.saturating_add(ns(window));
        let span = Span { start_ns, begin_ns, end_ns, give_up_ns: end_ns.saturating_add(GIVE_UP_NS) };
        let failed = AtomicBool::new(false);
        let cpus = &self.cpus;
        let tallies: Vec<Result<RequestCounts, Fault>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    scope.spawn(|| {
                        Worker::settle(cpus);
                        let counts = worker.run(span);
                        failed.fetch_or(counts.is_err(), Ordering::Relaxed);
                        counts
                    })
                })
                .collect();
            sleep_unless(&failed, begin_ns);
            begin();
            sleep_unless(&failed, end_ns);
            end();
            let fell = || Err(Fault::Io { why: "a thread of the load generator panicked".to_owned() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| fell())).collect()
        });
        let mut sum = RequestCounts::new();
        for counts in tallies {
            sum.merge(&counts?);
        }
        if sum.is_empty() {
            return Err(Fault::Idle);
        }
        Ok(sum.sample(span.end_ns - span.begin_ns))
    }
}

fn sleep_unless(failed: &AtomicBool, until_ns: u64) {
    while !failed.load(Ordering::Relaxed) {
        let now_ns = clock::monotonic_ns();
        if now_ns >= until_ns {
            return;
        }
        clock::sleep_until_ns(until_ns.min(now_ns + LOOK.as_nanos() as u64));
    }
}

/// Stores every value once, so that reads find them.
fn prefill(address: SocketAddr, protocol: &dyn Protocol) -> Result<(), Fault> {
    let values = protocol.prefill();
    if values == 0 {
        return Ok(());
    }
    let mut connection = Connection::open(address, u32::MAX, protocol)?;
    connection.wait(Waits::InRead)?;
    for first in (0..values).step_by(STORED_TOGETHER as usize) {
        connection.store(first..values.min(first + STORED_TOGETHER), protocol, SILENCE_NS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::load::{Dataset, Http, Sizes};

    /// A server that reads but never answers.
    fn hangs() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || std::io::copy(&mut stream.unwrap(), &mut std::io::sink()));
            }
        });
        address
    }

    #[test]
    fn one_that_hangs_is_given_up() {
        let data = Arc::new(Dataset::new(10, Sizes::Fixed(20), Sizes::Fixed(20), 1).unwrap());
        let protocol: Arc<dyn Protocol> = Arc::new(Http { data });
        let open = Pace::Open { rate_per_s: 500.0, arrivals: Arrivals::Even };
        for (connections, pace) in [(1, Pace::Closed), (3, open)] {
            let shape = Shape { connections, pace, keys: 10, popularity: Popularity::Uniform, get_share: 1.0, seed: 1 };
            let mut loader = Loader::connect(hangs(), &protocol, &shape, &CpuSet::default()).unwrap();
            for worker in &mut loader.workers {
                worker.silence_ns = 20_000_000;
            }
            // The error comes before the end of the window.
            let day = Duration::from_secs(86_400);
            let fault = loader.window(Duration::ZERO, day, &mut || {}, &mut || {}).unwrap_err();
            assert_eq!(fault, Fault::Silent { seconds: 0 });
        }
    }
}
