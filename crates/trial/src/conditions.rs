//! `Conditions`: what the machine did during a window.
//! The type has the share of stolen time, pressure, load, evenkeel's own CPU time,
//! and the longest delay with which evenkeel's watching thread woke.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use evenkeel_host::{Counter, Plan};
use evenkeel_hostfs::proc::{CpuTicks, amount, parse_stat};
use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;
use evenkeel_sys::stall::parse_stalls;
use evenkeel_workload::{Clock, Disturbance, Sample, SimulatedMachine, Workload, WorkloadError};
use serde::{Deserialize, Serialize};

use crate::concurrent_trials::ConcurrentTrials;
use crate::counters::{self, IDLE_STATES, IdleEntries, Value, Wanted};

/// How often the watching thread wakes. An idle CPU stays idle at this rate, and the thread sees a pause of 17 ms.
const WATCH_PERIOD_NS: u64 = 5_000_000;

/// The counter of the energy that the first processor package used.
const ENERGY: &str = "/sys/class/powercap/intel-rapl:0/energy_uj";

/// The conditions of one window. If the kernel does not report a value, it is None, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// The duration of the window in microseconds.
    pub span_us: f64,
    /// The share of all CPU time that the hypervisor gave to others, from /proc/stat, whose unit is 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
    /// The share of all CPU time that was not idle, from /proc/stat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
    /// The number of online CPUs, from the ticks in /proc/stat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// The share of the time that some task waited for a CPU, from /proc/pressure/cpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_share: Option<f64>,
    /// The load average of the last minute at the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_1min: Option<f64>,
    /// The CPU time that evenkeel itself used, in microseconds, without its child processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_us: Option<f64>,
    /// Entries into idle states per second, over all CPUs. None unless a knob of the trial concerns idle states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_entries_per_s: Option<f64>,
    /// The mean exit latency of the entered idle states, in microseconds, from the driver's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_exit_latency_us: Option<f64>,
    /// The share of the time of all CPUs in which they were idle and polled. Polling costs power and CPU time of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_polling_share: Option<f64>,
    /// Memory in use on the whole machine at the end of the window, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<f64>,
    /// The power of the processor packages in watts, if the machine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// The counters that show whether the trial's knobs were engaged.
    /// Each value is the change during the window, or the value at the end of the window.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
    /// The longest delay with which the watching thread woke, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_us: Option<f64>,
    /// Other trials that ran at the beginning or the end of the window, as texts.
    #[serde(alias = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub other_trials: Vec<String>,
    /// The server's thread that was ready to run for most of the window but got no CPU, as a text.
    /// A window with this field has no other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cpu: Option<String>,
    /// Why the window has no value that can be compared, as a text. None if the window has a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_value: Option<String>,
    /// Settings whose values at the end of the window differ from their values after the switch to the arm, as texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// The machine's counters at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    at_ns: u64,
    own_cpu_ns: Option<u64>,
    ticks: Option<CpuTicks>,
    pressure_us: Option<u64>,
    load_1min: Option<f64>,
    idle: Option<IdleEntries>,
    memory_used_bytes: Option<f64>,
    energy_uj: Option<u64>,
    counters: BTreeMap<String, Value>,
    other_trials: Vec<String>,
}

impl Conditions {
    /// The differences between two snapshots of one machine.
    pub fn between(start: &Snapshot, end: &Snapshot) -> Conditions {
        let span_us = end.at_ns.saturating_sub(start.at_ns) as f64 / 1e3;
        let ticks = start.ticks.zip(end.ticks).map(|(start, end)| end.since(&start));
        let share = |part: u64, total: u64| part as f64 / total as f64;
        let ticks = ticks.filter(|ticks| ticks.total() > 0);
        let pressure_us = start.pressure_us.zip(end.pressure_us).map(|(start, end)| end.saturating_sub(start) as f64);
        let idle = start.idle.as_ref().zip(end.idle.as_ref()).map(|(start, end)| end.since(start));
        let idle = idle.filter(|_| span_us > 0.0);
        let polling = |idled: counters::Idled| Some(idled.polled_us? / (span_us * idled.cpus.max(1) as f64));
        let mut counters = counters::between(&start.counters, &end.counters);
        counters.extend(idle.map(|idled| (IDLE_STATES.to_owned(), idled.states as f64)));
        // The energy counter wraps around. If that happened during the window, there is no value.
        let energy_uj = start.energy_uj.zip(end.energy_uj).and_then(|(start, end)| end.checked_sub(start));
        Conditions {
            span_us,
            idle_entries_per_s: idle.map(|idled| idled.entries as f64 / span_us * 1e6),
            idle_exit_latency_us: idle.and_then(|idled| idled.exit_latency_us),
            idle_polling_share: idle.and_then(polling),
            memory_used_bytes: end.memory_used_bytes,
            power_w: energy_uj.filter(|_| span_us > 0.0).map(|energy_uj| energy_uj as f64 / span_us),
            counters,
            steal_share: ticks.map(|ticks| share(ticks.steal, ticks.total())),
            // A tick is 10 ms of one CPU.
            cpus: ticks.filter(|_| span_us > 0.0).map(|ticks| (ticks.total() as f64 * 1e4 / span_us).round() as u32),
            busy_share: ticks.map(|ticks| share(ticks.busy(), ticks.total())),
            cpu_pressure_share: pressure_us.filter(|_| span_us > 0.0).map(|pressure_us| pressure_us / span_us),
            load_1min: end.load_1min,
            own_cpu_us: start.own_cpu_ns.zip(end.own_cpu_ns).map(|(start, end)| end.saturating_sub(start) as f64 / 1e3),
            longest_gap_us: None,
            other_trials: start
                .other_trials
                .iter()
                .chain(&end.other_trials)
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            no_cpu: None,
            no_value: None,
            changed: Vec::new(),
        }
    }
}

impl Conditions {
    /// The sample of a window. None if the server got no CPU or returned no value.
    /// The conditions record the reason, and the window is dropped whichever arm it belongs to.
    ///
    /// # Errors
    /// Returns any other reason why the window was not measured.
    pub(crate) fn sample_of(
        &mut self,
        measured: Result<Sample, WorkloadError>,
    ) -> Result<Option<Sample>, WorkloadError> {
        match measured {
            Err(WorkloadError::NoCpu { program, waited_ms, span_ms }) => {
                self.no_cpu = Some(format!("{program} was ready to run for {waited_ms} ms of {span_ms} ms"));
                Ok(None)
            }
            Err(WorkloadError::NoValue { program, why }) => {
                self.no_value = Some(format!("{program}: {why}"));
                Ok(None)
            }
            measured => measured.map(Some),
        }
    }

    /// The conditions of a simulated machine's last window, including simulated disturbances.
    fn disturbed_by(self, machine: &SimulatedMachine) -> Conditions {
        let Disturbance { longest_gap_us, steal_share, busy_share, cpu_pressure_share, other_trial } =
            machine.disturbed();
        let (cpus, other_trials) = (busy_share.map(|_| SimulatedMachine::CPUS), other_trial.into_iter().collect());
        Conditions { longest_gap_us, steal_share, busy_share, cpus, cpu_pressure_share, other_trials, ..self }
    }

    /// Combines the conditions of interleaves of the same length: the total time, the mean of shares and counters, and the longest gap.
    pub(crate) fn of_interleaves(interleaves: &[Conditions]) -> Conditions {
        let of = |number: fn(&Conditions) -> Option<f64>| interleaves.iter().filter_map(number);
        let sum = |number: fn(&Conditions) -> Option<f64>| of(number).reduce(|one, other| one + other);
        let mean = |number: fn(&Conditions) -> Option<f64>| Some(sum(number)? / of(number).count() as f64);
        let all = |words: fn(&Conditions) -> &Vec<String>| {
            interleaves.iter().flat_map(words).cloned().collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut counters: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in interleaves.iter().flat_map(|interleave| &interleave.counters) {
            *counters.entry(name.clone()).or_default() += value / interleaves.len() as f64;
        }
        Conditions {
            span_us: interleaves.iter().map(|interleave| interleave.span_us).sum(),
            steal_share: mean(|interleave| interleave.steal_share),
            busy_share: mean(|interleave| interleave.busy_share),
            cpus: interleaves.iter().find_map(|interleave| interleave.cpus),
            cpu_pressure_share: mean(|interleave| interleave.cpu_pressure_share),
            load_1min: of(|interleave| interleave.load_1min).next_back(),
            own_cpu_us: sum(|interleave| interleave.own_cpu_us),
            idle_entries_per_s: mean(|interleave| interleave.idle_entries_per_s),
            idle_exit_latency_us: mean(|interleave| interleave.idle_exit_latency_us),
            idle_polling_share: mean(|interleave| interleave.idle_polling_share),
            memory_used_bytes: of(|interleave| interleave.memory_used_bytes).next_back(),
            power_w: mean(|interleave| interleave.power_w),
            counters,
            longest_gap_us: of(|interleave| interleave.longest_gap_us).reduce(f64::max),
            other_trials: all(|interleave| &interleave.other_trials),
            no_cpu: interleaves.iter().find_map(|interleave| interleave.no_cpu.clone()),
            no_value: interleaves.iter().find_map(|interleave| interleave.no_value.clone()),
            changed: all(|interleave| &interleave.changed),
        }
    }
}

/// Watches one machine through its root.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    knobs: Vec<String>,
    wanted: Wanted,
    gaps: Option<GapThread>,
    concurrent: Option<Arc<ConcurrentTrials>>,
    clock: Clock,
}

impl Watch {
    /// Starts observing the machine, including the counters that show whether the knobs of `plans` are engaged.
    /// On a captured machine, counters do not change, and no thread measures gaps.
    pub fn start(root: &Root, plans: &[Plan]) -> Watch {
        let gaps = (root.kind() == RootKind::Live).then(GapThread::start).flatten();
        let mut knobs: Vec<String> = Vec::new();
        for step in plans.iter().flat_map(|plan| &plan.steps) {
            if !knobs.contains(&step.knob) {
                knobs.push(step.knob.clone());
            }
        }
        let wanted = Wanted::from_plans(plans, counters::counter_of);
        Watch { root: root.clone(), knobs, wanted, gaps, concurrent: None, clock: Clock::Machine }
    }

    /// Also records with each window which other trials run at the same time. A captured machine has no other trials.
    pub fn with_concurrent(self, concurrent: &Arc<ConcurrentTrials>) -> Watch {
        let concurrent = (self.root.kind() == RootKind::Live).then(|| Arc::clone(concurrent));
        Watch { concurrent, ..self }
    }

    /// If the workload simulates a machine, time and conditions come from the simulation instead of the real machine.
    pub fn of_workload(self, workload: &dyn Workload) -> Watch {
        match workload.simulated() {
            Some(machine) => Watch { gaps: None, concurrent: None, clock: Clock::Simulated(machine), ..self },
            None => self,
        }
    }

    /// The clock that the trial uses.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The knobs whose counters are read.
    pub fn knobs(&self) -> Vec<String> {
        self.knobs.clone()
    }

    /// Reads the counters now.
    pub fn snapshot(&self) -> Snapshot {
        let is_simulated = matches!(self.clock, Clock::Simulated(_));
        let live = self.root.kind() == RootKind::Live && !is_simulated;
        let text = |path| if is_simulated { None } else { self.root.text(path).ok() };
        Snapshot {
            at_ns: u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX),
            own_cpu_ns: live.then(clock::process_cpu_ns),
            ticks: text("/proc/stat").and_then(|text| parse_stat(&text)?.all),
            pressure_us: text("/proc/pressure/cpu").and_then(|text| Some(parse_stalls(&text)?.some_us)),
            load_1min: text("/proc/loadavg").as_deref().and_then(parse_load),
            idle: self.wanted.has(Counter::IdleStates).then(|| IdleEntries::read(&self.root)).flatten(),
            memory_used_bytes: text("/proc/meminfo").as_deref().and_then(used_bytes),
            energy_uj: text(ENERGY).and_then(|text| text.trim().parse().ok()),
            counters: self.wanted.read(&self.root),
            other_trials: Vec::new(),
        }
    }

    /// Starts a window: resets the longest gap and reads the counters.
    pub(crate) fn begin_window(&self) -> Snapshot {
        // Read this as near to the window's start as possible. The read costs the same in both arms.
        let other_trials = self.others();
        if let Some(gaps) = &self.gaps {
            gaps.longest_ns.store(0, Ordering::Relaxed);
        }
        Snapshot { other_trials, ..self.snapshot() }
    }

    /// Ends a window that began at `start`, and returns its conditions.
    pub(crate) fn end_window(&self, start: &Snapshot) -> Conditions {
        let end = self.snapshot();
        let longest_gap_us = self.gaps.as_ref().map(|gaps| gaps.longest_ns.load(Ordering::Relaxed) as f64 / 1e3);
        let end = Snapshot { other_trials: self.others(), ..end };
        let conditions = Conditions { longest_gap_us, ..Conditions::between(start, &end) };
        match &self.clock {
            Clock::Machine => conditions,
            Clock::Simulated(machine) => conditions.disturbed_by(machine),
        }
    }

    fn others(&self) -> Vec<String> {
        self.concurrent.as_ref().map(|concurrent| concurrent.look()).unwrap_or_default()
    }
}

/// A thread that sleeps and records how late it wakes. It ends when the watch is dropped.
#[derive(Debug)]
struct GapThread {
    longest_ns: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl GapThread {
    /// `None` if no thread can be started. The trial then runs without this thread, and the longest gap is unknown.
    fn start() -> Option<GapThread> {
        let longest_ns = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (longest, end) = (Arc::clone(&longest_ns), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("gaps".to_owned()).spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let due_ns = clock::monotonic_ns() + WATCH_PERIOD_NS;
                clock::sleep_until_ns(due_ns);
                longest.fetch_max(clock::monotonic_ns().saturating_sub(due_ns), Ordering::Relaxed);
            }
        });
        Some(GapThread { longest_ns, stop, thread: Some(thread.ok()?) })
    }
}

impl Drop for GapThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread ends within one period. If it panicked, only the longest gap is unknown.
            let _ = thread.join();
        }
    }
}

fn parse_load(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// Memory in use that the kernel cannot reclaim, in bytes.
fn used_bytes(meminfo: &str) -> Option<f64> {
    Some(amount(meminfo, "MemTotal")?.checked_sub(amount(meminfo, "MemAvailable")?)? as f64)
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    fn snapshot(stat: &str, pressure: &str, at_ns: u64) -> Snapshot {
        Snapshot {
            at_ns,
            own_cpu_ns: None,
            ticks: parse_stat(stat).and_then(|stat| stat.all),
            pressure_us: parse_stalls(pressure).map(|stalls| stalls.some_us),
            load_1min: None,
            idle: None,
            memory_used_bytes: None,
            energy_uj: None,
            counters: BTreeMap::new(),
            other_trials: Vec::new(),
        }
    }

    #[test]
    fn shares_are_of_what_passed_between() {
        let start = snapshot("cpu  100 0 50 800 50 0 0 10 7 0\n", "some avg10=0.00 total=1000\nfull total=5\n", 0);
        let end = snapshot("cpu  150 0 60 910 60 0 0 30 9 0\n", "some avg10=9.00 total=251000\n", 1_000_000_000);
        let conditions = Conditions::between(&start, &end);
        assert_eq!(conditions.span_us, 1e6);
        assert_eq!(conditions.steal_share, Some(0.1));
        assert_eq!(conditions.busy_share, Some(0.3));
        assert_eq!(conditions.cpu_pressure_share, Some(0.25));
    }

    #[test]
    fn missing_files_give_unknown_values() {
        assert_eq!(parse_load("nan 1 1"), None);
        let still = snapshot("cpu  1 2 3 4 5 6 7 8", "", 5);
        let conditions = Conditions::between(&still, &still);
        assert_eq!((conditions.steal_share, conditions.cpu_pressure_share), (None, None));
    }

    #[test]
    fn a_captured_machine_is_watched_without_a_thread() {
        let root =
            Root::captured(Capture::parse("evenkeel-capture 1\n/proc/loadavg = 0.50 0.4 0.3 1/80 900\nend\n").unwrap());
        let watch = Watch::start(&root, &[]);
        let conditions = watch.end_window(&watch.begin_window());
        assert_eq!(conditions.load_1min, Some(0.5));
        assert_eq!((conditions.longest_gap_us, conditions.own_cpu_us, conditions.steal_share), (None, None, None));
    }

    #[test]
    fn interleaves_make_one_window() {
        let interleave = |span_us: f64, steal: f64, gap_us: f64, passed: f64| Conditions {
            span_us,
            steal_share: Some(steal),
            own_cpu_us: Some(10.0),
            load_1min: Some(gap_us),
            longest_gap_us: Some(gap_us),
            counters: BTreeMap::from([("passed".to_owned(), passed), ("level".to_owned(), 7.0)]),
            ..Conditions::default()
        };
        let whole = Conditions::of_interleaves(&[interleave(100.0, 0.0, 5.0, 1.0), interleave(120.0, 0.2, 3.0, 0.0)]);
        let expected = Conditions {
            span_us: 220.0,
            steal_share: Some(0.1),
            own_cpu_us: Some(20.0),
            load_1min: Some(3.0),
            longest_gap_us: Some(5.0),
            counters: BTreeMap::from([("passed".to_owned(), 0.5), ("level".to_owned(), 7.0)]),
            ..Conditions::default()
        };
        assert_eq!(whole, expected);
    }

    #[test]
    fn a_trial_that_ran_at_either_end_ran_during_the_window() {
        let at = |other_trials: &[&str]| Snapshot {
            other_trials: other_trials.iter().map(|who| (*who).to_owned()).collect(),
            ..snapshot("", "", 0)
        };
        assert_eq!(Conditions::between(&at(&["b"]), &at(&["a", "b"])).other_trials, ["a", "b"]);
        let (ours, _theirs) = (Arc::new(ConcurrentTrials::begin("prove")), ConcurrentTrials::begin("tune"));
        let watched = |root: &Root| {
            let watch = Watch::start(root, &[]).with_concurrent(&ours);
            watch.end_window(&watch.begin_window()).other_trials
        };
        let tune = format!("evenkeel tune (pid {})", std::process::id());
        assert!(watched(&Root::live()).contains(&tune));
        let captured =
            Root::captured(Capture::parse("evenkeel-capture 1\n/proc/loadavg = 1 1 1 1/8 9\nend\n").unwrap());
        assert!(watched(&captured).is_empty(), "nobody else tries a captured machine");
    }

    #[test]
    fn the_live_machine_shows_what_it_did() {
        let watch = Watch::start(&Root::live(), &[]);
        let start = watch.begin_window();
        clock::sleep_until_ns(clock::monotonic_ns() + 4 * WATCH_PERIOD_NS);
        // The watching thread may start late, so wait for its first gap.
        let until_ns = clock::monotonic_ns() + 20_000_000_000;
        let mut conditions = watch.end_window(&start);
        while conditions.longest_gap_us == Some(0.0) && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + WATCH_PERIOD_NS);
            conditions = watch.end_window(&start);
        }
        assert!(conditions.span_us >= 4.0 * WATCH_PERIOD_NS as f64 / 1e3);
        assert!(conditions.longest_gap_us.is_some_and(|gap_us| gap_us > 0.0), "no sleep ends early: {conditions:?}");
        assert!(conditions.own_cpu_us.is_some());
    }
}
