//! The collector: each call reads one [`Sample`], and changes nothing. If the user may not read a file, the sample has the reason.

mod busiest;
mod credits;
mod discover;
mod gaps;
mod groups;
mod host;
mod outside;
mod process;
mod read;
mod servers;
mod settings;
mod sockets;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_host::Facts;
use evenkeel_hostfs::{Root, RootKind, Why};
use evenkeel_sys::clock;
use evenkeel_sys::schedstat::RunDelay;

use crate::ledger::{self, Usual};
use crate::recorder::{Dumper, FlightRecorder, RecorderOptions};
use crate::sample::{Asked, CollectorSample, LedgerSample, Moment, Sample, Unreadable};
use credits::Credits;
use gaps::GapMeter;
use groups::Groups;
use host::Devices;
pub use servers::ServerOptions;
use servers::Servers;
use settings::Settings;

/// The maximum time to sleep before checking for a stop.
const NAP_NS: u64 = 100_000_000;
/// The minimum interval. A sample takes some milliseconds.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The maximum interval.
pub const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// What to watch.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// The time between two samples. It is clamped to [`INTERVAL_MIN`] and [`INTERVAL_MAX`].
    pub interval: Duration,
    /// A tick is late if it begins this much after its due time. `None` means a quarter of the server's period.
    pub late_after: Option<Duration>,
    /// Which servers to watch.
    pub servers: ServerOptions,
    /// Whether to measure the missing time of each CPU, which costs less than a hundredth of a CPU. Ignored unless the root is live.
    pub gaps: bool,
    /// The flight recorder. Ignored unless the root is live.
    pub recorder: Option<RecorderOptions>,
    /// The folder of the journal, to compare the host with the values that were applied. None without a journal.
    pub journal: Option<PathBuf>,
    /// The option that a command needs to find this journal, such as ` --state DIR`. Empty for the default journal.
    pub state_option: String,
}

impl Default for CollectorOptions {
    fn default() -> CollectorOptions {
        CollectorOptions {
            interval: Duration::from_secs(1),
            late_after: None,
            servers: ServerOptions::default(),
            gaps: false,
            recorder: None,
            journal: None,
            state_option: String::new(),
        }
    }
}

/// Reads samples of a host.
#[derive(Debug)]
pub struct Collector {
    root: Root,
    /// The process whose /proc/PID/net shows the host's network.
    process: &'static str,
    asked: Asked,
    due_ns: Option<u64>,
    groups: Groups,
    devices: Devices,
    servers: Servers,
    settings: Settings,
    credits: Option<Credits>,
    gaps: Option<GapMeter>,
    recorder: Option<FlightRecorder>,
    unreadable: BTreeSet<Unreadable>,
    /// The previous sample, which the ledger compares with the next.
    before: Option<Sample>,
    usual: Usual,
}

impl Collector {
    /// Reads what does not change: the facts of the machine. The findings of the audit and the computation of CPU credits need these facts.
    pub fn new(root: Root, options: CollectorOptions) -> Collector {
        let root = root.unrecorded();
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let interval = options.interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
        let facts = Facts::probe(&root);
        let late_after_ns = options.late_after.map(nanoseconds);
        Collector {
            process: host_process(&root),
            asked: Asked { interval_ns: nanoseconds(interval), late_after_ns },
            due_ns: None,
            groups: Groups::default(),
            devices: Devices::default(),
            servers: Servers::new(&root, options.servers, late_after_ns),
            settings: Settings::new(&facts, options.journal, options.state_option),
            credits: Credits::new(&root, &facts),
            gaps: (options.gaps && root.kind() == RootKind::Live).then(GapMeter::start),
            recorder: options.recorder.filter(|_| root.kind() == RootKind::Live).map(|of| FlightRecorder::start(&of)),
            unreadable: BTreeSet::new(),
            before: None,
            usual: Usual::default(),
            root,
        }
    }

    /// A handle to request dumps of the flight recorder. `None` if the recorder does not run.
    pub fn dumper(&self) -> Option<Dumper> {
        self.recorder.as_ref().map(FlightRecorder::dumper)
    }

    /// The due time of the next sample on the monotonic clock. `None` before the first sample, which is due at once.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Sleeps until the next sample is due. Returns true if it is due, and false if `stop` was set.
    pub fn wait(&self, stop: &AtomicBool) -> bool {
        let due_ns = self.due_ns.unwrap_or(0);
        loop {
            let now_ns = clock::monotonic_ns();
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            if now_ns >= due_ns {
                return true;
            }
            clock::sleep_until_ns_or_signal(due_ns.min(now_ns.saturating_add(NAP_NS)));
        }
    }

    /// Reads a sample now, and sets the due time of the next one.
    pub fn sample(&mut self) -> Sample {
        let at = now();
        let late_ns = self.due_ns.map(|due_ns| at.monotonic_ns.saturating_sub(due_ns));
        let run_delay_ns =
            RunDelay::of_this_thread().and_then(|delay| delay.read()).ok().map(|counted| counted.run_delay_ns);
        let servers = self.servers.read(&self.root, at.monotonic_ns);
        let of_servers = servers.list.iter().filter_map(|server| server.process.as_ref().ok()?.group.clone()).collect();
        let groups = self.groups.read(&self.root, &of_servers, at.monotonic_ns);
        let mut host = host::read(&self.root, self.process, groups, &mut self.devices);
        if let Some(before) = &self.before {
            host::keep_idle_times(&before.host, &mut host);
        }
        let settings = self.settings.read(&self.root, at.monotonic_ns);
        let credits = self.credits.as_mut().and_then(|credits| credits.read(&host, at.monotonic_ns));
        let denied = read::denied(&host, &servers.list, evenkeel_sys::process::is_root());
        // Over months, many servers start and end, so the list has a maximum length.
        let room = UNREADABLE_MAX.saturating_sub(self.unreadable.len());
        let is_new = |one: &Unreadable| !self.unreadable.contains(one);
        let new: Vec<Unreadable> = denied.into_iter().filter(is_new).take(room).collect();
        self.unreadable.extend(new);
        self.due_ns = Some(next_due(self.due_ns, at.monotonic_ns, self.asked.interval_ns));
        let mut sample = Sample {
            at,
            is_live: self.root.kind() != RootKind::Captured,
            asked: self.asked,
            collector: CollectorSample { late_ns, cpu_ns: clock::thread_cpu_ns(), run_delay_ns },
            host,
            servers: servers.list,
            servers_beyond: servers.beyond,
            settings,
            credits,
            ledger: LedgerSample::default(),
            gaps: self.gaps.as_mut().map(|gaps| gaps.read(at.monotonic_ns)),
            recorder: self.recorder.as_ref().map(FlightRecorder::state),
            unreadable: self.unreadable.iter().cloned().collect(),
        };
        if let Some(before) = self.before.take() {
            sample.ledger = ledger::entries(&before, &sample, &self.usual);
            self.usual.add(&before, &sample);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.add(&sample);
        }
        self.before = Some(sample.clone());
        sample
    }
}

/// Reads the time on all clocks. The clocks are read in turn, and the thread may lose its CPU in between.
fn now() -> Moment {
    const TRIES: u32 = 10;
    const TOGETHER_NS: u64 = 100_000;
    let read = || {
        let monotonic_ns = clock::monotonic_ns();
        let (boottime_ns, realtime_ns) = (clock::boottime_ns(), clock::realtime_ns());
        (Moment { monotonic_ns, boottime_ns, realtime_ns }, clock::monotonic_ns().saturating_sub(monotonic_ns))
    };
    let mut found = read();
    for _ in 0..TRIES {
        if found.1 <= TOGETHER_NS {
            break;
        }
        found = read();
    }
    found.0
}

/// The maximum number of entries in the list of unreadable files.
const UNREADABLE_MAX: usize = 64;

/// Keeps the due times of samples whole intervals apart, so that they do not drift. Skips the due times that passed during a long pause.
fn next_due(due_ns: Option<u64>, now_ns: u64, interval_ns: u64) -> u64 {
    let next = due_ns.unwrap_or(now_ns).saturating_add(interval_ns);
    if next > now_ns { next } else { now_ns.saturating_add(interval_ns) }
}

/// A process in the host's network namespace: our own process, or process 1 if the root is mounted.
/// Our own process number has no meaning in a mounted root.
fn host_process(root: &Root) -> &'static str {
    let is_not_captured = || root.text("/proc/self/net/snmp").is_err_and(|refusal| refusal.why == Why::NotCaptured);
    match root.kind() {
        RootKind::Live => "/proc/self",
        RootKind::Captured if !is_not_captured() => "/proc/self",
        RootKind::Mounted | RootKind::Captured => "/proc/1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_on_their_grid() {
        let table = [
            ((None, 5, 10), 15),
            ((Some(15), 15, 10), 25),
            ((Some(15), 17, 10), 25),
            ((Some(15), 24, 10), 25),
            ((Some(15), 25, 10), 35),
            // The machine was suspended.
            ((Some(15), 1000, 10), 1010),
            ((Some(u64::MAX), u64::MAX, 10), u64::MAX),
        ];
        for ((due, now, interval), expected) in table {
            assert_eq!(next_due(due, now, interval), expected, "{due:?} {now}");
        }
    }
}
