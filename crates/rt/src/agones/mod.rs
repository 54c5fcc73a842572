//! Agones: reports to the sidecar of a game server in Kubernetes that the server is ready, healthy, and shutting down.
//! A server is healthy while it ticks. If no ticks come, we send no health messages, and Agones treats the server as hung.
//!
//! A thread of its own talks to the sidecar. The tick's thread only stores to memory.
//!
//! ```no_run
//! use evenkeel_rt::agones::{Agones, AgonesSettings};
//! use evenkeel_rt::TickLoop;
//!
//! let agones = Agones::start(AgonesSettings::from_environment()?)?;
//! let mut ticks = TickLoop::builder().build()?;
//! agones.ready(); // as soon as the sidecar listens
//! # let is_over = true;
//! loop {
//!     let _tick = ticks.wait();
//!     agones.tick();
//!     // … move the world …
//!     if is_over {
//!         break;
//!     }
//! }
//! agones.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod game_server;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use client::{AgonesError, Client, Request};
pub use evenkeel_sys::http::BadAnswer;
pub use game_server::{GameServer, HealthSpec, ObjectMeta, Port, Spec, Status};

/// The bits for requests to the thread.
const READY: u32 = 1;
const SHUTDOWN: u32 = 2;
const END: u32 = 4;

/// The wait before we repeat a failed request: after the first failure, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(2);

/// Settings for Agones.
#[derive(Clone, Copy, Debug)]
pub struct AgonesSettings {
    /// The sidecar to report to.
    pub client: Client,
    /// The time from one health message to the next.
    /// Agones judges by `spec.health.periodSeconds`, 5 s by default: use a shorter time.
    pub health_period: Duration,
    /// After this time without a tick, health messages stop.
    pub stall: Duration,
}

impl AgonesSettings {
    /// The default settings for the sidecar that the environment names.
    /// The thread sends a health message every two seconds, and none after two seconds without a tick.
    pub fn from_environment() -> Result<AgonesSettings, AgonesError> {
        Ok(AgonesSettings::at(Client::from_environment()?))
    }

    /// The default settings with a client of your own.
    pub fn at(client: Client) -> AgonesSettings {
        AgonesSettings { client, health_period: Duration::from_secs(2), stall: Duration::from_secs(2) }
    }
}

/// The state of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Not requested.
    #[default]
    NotRequested,
    /// The sidecar has not accepted the request yet. The thread repeats it.
    Asked,
    /// The sidecar accepted the request.
    Done,
}

/// The state of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgonesReport {
    /// Health messages that the sidecar accepted.
    pub health_sent: u64,
    /// Health messages that were not sent, because no tick came.
    pub health_withheld: u64,
    /// Requests of any kind that failed.
    pub failures: u64,
    /// The state of the request by [`Agones::ready`].
    pub ready: Progress,
    /// The state of the request by [`Agones::shutdown`].
    pub shutdown: Progress,
    /// The error of the last request that failed.
    pub last_failure: Option<String>,
}

/// Reports to the sidecar from a thread of its own, until the `Agones` is dropped.
/// Start it before you set up the tick's thread: a new thread inherits the CPUs of the thread that starts it.
///
/// ```
/// use evenkeel_rt::agones::{Agones, AgonesReport, AgonesSettings, Client, Progress};
///
/// let settings = AgonesSettings::at(Client::at(1)); // no sidecar listens there
/// let agones = Agones::start(settings)?;
/// agones.ready();
/// agones.tick();
/// agones.shutdown();
/// let AgonesReport { ready, failures, .. } = agones.report();
/// assert_eq!(ready, Progress::Asked); // the thread repeats it until the sidecar accepts
/// println!("{failures} requests failed");
/// assert!(agones.game_server().is_err()); // waits for the answer: not in a tick
/// println!("{:?}", AgonesSettings::from_environment()?.health_period);
/// # Ok::<(), evenkeel_rt::agones::AgonesError>(())
/// ```
#[derive(Debug)]
pub struct Agones {
    shared: Arc<Shared>,
    client: Client,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// How many ticks began.
    beats: AtomicU64,
    asked: AtomicU32,
    report: Mutex<AgonesReport>,
}

impl Agones {
    /// Starts the thread. It is not an error if the sidecar does not listen yet.
    pub fn start(settings: AgonesSettings) -> Result<Agones, AgonesError> {
        let shared = Arc::new(Shared::default());
        let reporter = Reporter::new(settings, Arc::clone(&shared), Instant::now());
        let thread = thread::Builder::new().name("evenkeel-agones".into()).spawn(move || reporter.run());
        Ok(Agones { shared, client: settings.client, thread: Some(thread.map_err(AgonesError::Thread)?) })
    }

    /// Call this method in each tick, from one thread. It costs a load and a store. Before the first call, we send no health message.
    #[inline]
    pub fn tick(&self) {
        // The counter only shows that ticks happen, so a lost increment does not matter.
        let beats = self.shared.beats.load(Ordering::Relaxed);
        self.shared.beats.store(beats.wrapping_add(1), Ordering::Relaxed);
    }

    /// Reports that players may connect. Returns at once. The thread repeats the report until the sidecar accepts it.
    pub fn ready(&self) {
        self.ask(READY);
    }

    /// Requests the end of the game server. Returns at once. The thread repeats the request until the sidecar accepts it.
    /// When the `Agones` is dropped, the thread tries once more.
    pub fn shutdown(&self) {
        self.ask(SHUTDOWN);
    }

    /// Returns what Agones knows about the game server. Blocks until the answer or the timeout, so do not call it on the tick's thread.
    pub fn game_server(&self) -> Result<GameServer, AgonesError> {
        self.client.game_server()
    }

    /// Returns the state of all requests.
    pub fn report(&self) -> AgonesReport {
        let mut report = self.shared.report().clone();
        // Requests that the thread has not seen yet count as `Asked`.
        let asked = self.shared.asked.load(Ordering::Relaxed);
        for (bit, progress) in [(READY, &mut report.ready), (SHUTDOWN, &mut report.shutdown)] {
            if asked & bit != 0 && *progress == Progress::NotRequested {
                *progress = Progress::Asked;
            }
        }
        report
    }

    fn ask(&self, bit: u32) {
        self.shared.asked.fetch_or(bit, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Agones {
    /// Ends the thread. This takes at most two timeouts of the client.
    fn drop(&mut self) {
        self.ask(END);
        if let Some(thread) = self.thread.take() {
            // The thread has no code that panics. If it panics nevertheless, this server is ending anyway.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn report(&self) -> std::sync::MutexGuard<'_, AgonesReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is repeated until it succeeds.
#[derive(Debug)]
struct Errand {
    bit: u32,
    is_done: bool,
    wait: Duration,
    next: Instant,
}

impl Errand {
    fn new(bit: u32, now: Instant) -> Errand {
        Errand { bit, is_done: false, wait: RETRY_FIRST, next: now }
    }

    fn is_due(&self, asked: u32, now: Instant) -> bool {
        self.is_open(asked) && now >= self.next
    }

    fn is_open(&self, asked: u32) -> bool {
        asked & self.bit != 0 && !self.is_done
    }

    fn tried(&mut self, is_done: bool, now: Instant) {
        self.is_done = is_done;
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(RETRY_MOST);
    }
}

/// The state that only the thread uses.
#[derive(Debug)]
struct Reporter {
    settings: AgonesSettings,
    shared: Arc<Shared>,
    ready: Errand,
    shutdown: Errand,
    next_health: Instant,
    next_withheld: Instant,
    /// The number of ticks when that number last changed, and the time when the thread noticed the change.
    beats: u64,
    beat: Option<Instant>,
}

impl Reporter {
    fn new(settings: AgonesSettings, shared: Arc<Shared>, now: Instant) -> Reporter {
        let [ready, shutdown] = [READY, SHUTDOWN].map(|bit| Errand::new(bit, now));
        Reporter { settings, shared, ready, shutdown, next_health: now, next_withheld: now, beats: 0, beat: None }
    }

    fn run(mut self) {
        // A new thread inherits the scheduling of the thread that started it, which may be real-time.
        // If the change to ordinary scheduling fails, it does little harm: this thread sleeps nearly all the time.
        let _ = evenkeel_sys::sched::set_ordinary(None);
        // Runs until `Agones` asks the thread to end. The thread sleeps between two rounds.
        loop {
            let asked = self.shared.asked.load(Ordering::Relaxed);
            let now = Instant::now();
            if self.ready.is_due(asked, now) && asked & END == 0 {
                let said = self.settings.client.ready();
                self.ready.tried(self.count(said, |report| report.ready = Progress::Done), Instant::now());
            }
            if self.shutdown.is_due(asked, now) || asked & END != 0 && self.shutdown.is_open(asked) {
                let said = self.settings.client.shutdown();
                self.shutdown.tried(self.count(said, |report| report.shutdown = Progress::Done), Instant::now());
            }
            if asked & END != 0 {
                return;
            }
            if self.health_is_due(Instant::now()) {
                let said = self.settings.client.health();
                self.count(said, |report| report.health_sent += 1);
            }
            thread::park_timeout(self.sleep(asked, Instant::now()));
        }
    }

    /// Whether to send a health message now: the message is due, and a tick came recently.
    fn health_is_due(&mut self, now: Instant) -> bool {
        let beats = self.shared.beats.load(Ordering::Relaxed);
        if beats != self.beats {
            (self.beats, self.beat) = (beats, Some(now));
        }
        if now < self.next_health {
            return false;
        }
        let is_well = self.beat.is_some_and(|beat| now.duration_since(beat) <= self.settings.stall);
        if is_well {
            self.next_health = now + self.settings.health_period;
        } else if now >= self.next_withheld {
            // The message stays due, so we send it at the next tick. We count it as withheld once per period.
            self.next_withheld = now + self.settings.health_period;
            self.shared.report().health_withheld += 1;
        }
        is_well
    }

    /// The time to the next check for new ticks. If the check sees a tick late, the tick counts as late, so check often.
    fn look(&self) -> Duration {
        let shorter = self.settings.stall.min(self.settings.health_period);
        (shorter / 4).clamp(Duration::from_millis(1), Duration::from_millis(500))
    }

    fn sleep(&self, asked: u32, now: Instant) -> Duration {
        let open = [&self.ready, &self.shutdown].into_iter().filter(|errand| errand.is_open(asked));
        let next = open.map(|errand| errand.next.saturating_duration_since(now)).min();
        next.unwrap_or(self.look()).min(self.look())
    }

    /// Records the result of a request. Returns whether it succeeded.
    fn count(&self, said: Result<(), AgonesError>, done: impl FnOnce(&mut AgonesReport)) -> bool {
        let mut report = self.shared.report();
        match said {
            Ok(()) => {
                done(&mut report);
                true
            }
            Err(error) => {
                report.failures += 1;
                report.last_failure = Some(error.to_string());
                false
            }
        }
    }
}
