//! The load of a user's command. The load runs throughout all windows, or starts anew for each window.
//! The file also detects a load at its limit.
//! With such a load, a trial would measure the load instead of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_hostfs::proc::ProcessStat;
use evenkeel_stats::median;
use evenkeel_sys::{CpuSet, clock, thread};

use crate::caveat::WorkloadCaveat;
use crate::error::{WorkloadError, only_shown};
use crate::kit::full::{Full, Fullness, Ran};
use crate::processes;
use crate::workloads::command::output::Listener;
use crate::workloads::command::started::{Ending, Program, Started, name_of};

/// If reading the threads' run times takes longer than this, the reading was interrupted, and its time is inexact.
/// The reading is then repeated, up to the number in the next constant.
const READING_NS_MIN: u64 = 1_000_000;
const READING_NS_A_THREAD: u64 = 100_000;
const READINGS_MAX: usize = 3;
/// How often the threads are read, if a load ends with its window.
const LOOK: Duration = Duration::from_millis(50);
/// The time limit of a load that runs once per window: this multiple of the window's length, and at least the next constant.
const WINDOWS_MAX: u32 = 4;
/// There is a caveat if a load takes less than this share of its window.
const TOOK_SHARE_MIN: f64 = 0.1;
/// The maximum number of windows to store for that caveat.
const WINDOWS_KEPT: usize = 20_000;
const LOAD_LIMIT_MIN: Duration = Duration::from_secs(30);

/// When the load runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// The load runs from the first window to the last.
    #[default]
    Throughout,
    /// The load starts anew for each window, and the window lasts until the load ends.
    PerWindow,
}

only_shown! {
    /// An invalid load.
    InvalidLoad
}

/// The load that a user requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// When it runs.
    pub runs: Runs,
}

impl Settings {
    /// Splits a command line into words as a shell does. The command runs without a shell.
    ///
    /// # Errors
    /// Fails if a quote is not closed, or there is no word.
    pub fn parse(text: &str, runs: Runs) -> Result<Settings, InvalidLoad> {
        let command = shlex::split(text).ok_or_else(|| format!("--load {text}: a quote is not closed"))?;
        if command.first().is_none_or(String::is_empty) {
            return Err("--load: a command is wanted".into());
        }
        Ok(Settings { command, runs })
    }
}

/// The load of one server.
pub(super) struct Load {
    settings: Settings,
    cpus: CpuSet,
    ending: Ending,
    output: Vec<Listener>,
    throughout: Option<Started>,
    fullness: Fullness,
    /// For each window, the share of the window's length that the load took.
    took_shares: Vec<f64>,
    stop: Arc<AtomicBool>,
}

/// The run time of each thread, and the CPUs on which the threads may run.
#[derive(Clone, Debug, Default)]
struct Busy {
    at_ns: u64,
    ran_ns: BTreeMap<u32, u64>,
    on: CpuSet,
}

/// The run times of load and server at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Looked {
    load: Busy,
    server: Busy,
}

/// How much of the CPUs a load used in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// The share of the time in which the load's busiest thread ran.
    pub(super) busiest: f64,
    full: Option<Full>,
}

impl Shown {
    /// How much of the load's CPUs was used, as a share of these CPUs: by the load, and by the server if it has the same CPUs.
    /// None if unknown.
    pub(super) fn cpus_used(&self) -> Option<f64> {
        self.full.map(|full| full.share())
    }
}

impl Looked {
    fn now(load: &mut Started, server: &mut Started) -> Looked {
        Looked { load: Busy::now(&load.alive()), server: Busy::now(&server.alive()) }
    }

    fn since(&self, before: &Looked) -> Option<Shown> {
        let busiest = self.load.busiest_since(&before.load)?;
        let [load, server] = [(&self.load, &before.load), (&self.server, &before.server)]
            .map(|(now, before)| Ran { cpus: now.cpus_since(before), on: now.on.clone() });
        Some(Shown { busiest, full: Full::new(&load, &server) })
    }
}

impl Busy {
    fn now(of: &[ProcessStat]) -> Busy {
        let (at_ns, ran_ns) = read_at(|| processes::ran_ns(of));
        let affinities = ran_ns.keys().filter_map(|tid| thread::affinity_of(*tid).ok());
        Busy { at_ns, on: affinities.fold(CpuSet::default(), |all, own| all.or(&own)), ran_ns }
    }

    /// How many CPUs these threads used since `before`, on average. A new thread counts from its start.
    fn cpus_since(&self, before: &Busy) -> f64 {
        let since = |(thread, ran_ns): (&u32, &u64)| {
            ran_ns.saturating_sub(before.ran_ns.get(thread).copied().unwrap_or(0)) as f64
        };
        self.ran_ns.iter().map(since).sum::<f64>() / self.at_ns.saturating_sub(before.at_ns) as f64
    }

    /// The largest share of the time since `before` in which a single thread ran.
    /// Only threads in both readings count. None if no thread is in both.
    fn busiest_since(&self, before: &Busy) -> Option<f64> {
        let span_ns = self.at_ns.saturating_sub(before.at_ns) as f64;
        let ran = |(thread, ran_ns): (&u32, &u64)| Some(ran_ns.saturating_sub(*before.ran_ns.get(thread)?) as f64);
        self.ran_ns
            .iter()
            .filter_map(ran)
            .map(|ran_ns| ran_ns / span_ns)
            .filter(|share| share.is_finite())
            .reduce(f64::max)
    }
}

/// Reads the threads' run times. Also returns the time of the reading, which is the middle of the shortest attempt.
fn read_at(mut read: impl FnMut() -> BTreeMap<u32, u64>) -> (u64, BTreeMap<u32, u64>) {
    let mut reading = || {
        let begun_ns = clock::monotonic_ns();
        let ran_ns = read();
        (clock::monotonic_ns().saturating_sub(begun_ns), begun_ns, ran_ns)
    };
    let mut best = reading();
    for _ in 1..READINGS_MAX {
        if best.0 <= READING_NS_MIN.max(READING_NS_A_THREAD * best.2.len() as u64) {
            break;
        }
        let next = reading();
        if next.0 < best.0 {
            best = next;
        }
    }
    let (took_ns, begun_ns, ran_ns) = best;
    (begun_ns + took_ns / 2, ran_ns)
}

impl Load {
    pub(super) fn new(
        settings: Settings,
        cpus: CpuSet,
        ending: Ending,
        output: Vec<Listener>,
        stop: Arc<AtomicBool>,
    ) -> Load {
        Load {
            settings,
            cpus,
            ending,
            output,
            throughout: None,
            fullness: Fullness::default(),
            took_shares: Vec::new(),
            stop,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn start_one(&self) -> Result<Started, WorkloadError> {
        Started::start(&Program {
            command: self.settings.command.clone(),
            cpus: self.cpus.clone(),
            ending: self.ending,
            output: self.output.clone(),
            errors: Vec::new(),
        })
    }

    /// The living processes of the load.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.throughout.iter().flat_map(Started::stats).map(|stat| stat.pid).collect()
    }

    /// Sets the CPUs for the load's next start. An empty set means all CPUs of this process.
    pub(super) fn run_on(&mut self, cpus: CpuSet) {
        self.cpus = cpus;
    }

    /// Starts the load, if the load runs throughout. The server must be ready.
    pub(super) fn start(&mut self) -> Result<(), WorkloadError> {
        if self.settings.runs == Runs::Throughout {
            self.throughout = Some(self.start_one()?);
        }
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.throughout = None;
    }

    /// Checks that the load still runs, and reads the run times of the load's threads and of the server's threads.
    ///
    /// # Errors
    /// Fails if the load has ended.
    pub(super) fn look(&mut self, server: &mut Started) -> Result<Looked, WorkloadError> {
        let Some(load) = &mut self.throughout else { return Ok(Looked::default()) };
        if let Err(error) = load.watch_until(0) {
            return Err(match error {
                WorkloadError::Program { program, why } => WorkloadError::Program {
                    program,
                    why: format!("the load must run through all windows, or anew in each (--load-per-window); {why}"),
                },
                other => other,
            });
        }
        Ok(Looked::now(load, server))
    }

    /// Adds to an error why the load's values are missing, if the reason is known.
    pub(super) fn explained(&mut self, error: WorkloadError) -> WorkloadError {
        match (&mut self.throughout, error) {
            (Some(load), error) => load.explained(error),
            // A load that runs once per window has already ended.
            (None, WorkloadError::Program { program: source, why }) => {
                WorkloadError::Program { program: name_of(&self.settings.command), why: format!("{why} ({source})") }
            }
            (None, error) => error,
        }
    }

    /// Stores how much CPU the load used since `before`, and returns this.
    pub(super) fn note_since(&mut self, before: &Looked, now: &Looked) -> Option<Shown> {
        let shown = now.since(before)?;
        self.note(shown);
        Some(shown)
    }

    fn note(&mut self, shown: Shown) {
        self.fullness.note(Some(shown.busiest), shown.full);
    }

    /// Runs the load once to its end. Returns the load's duration and how much CPU it used.
    /// If the user asks to stop, the function waits at most for the load's time limit.
    ///
    /// # Errors
    /// Fails if the load fails or takes far longer than `window`, if the server ends in the meantime, or if the user asked to stop.
    pub(super) fn run_once(
        &mut self,
        window: Duration,
        server: &mut Started,
        may_take: Duration,
    ) -> Result<(Duration, Option<Shown>), WorkloadError> {
        let limit = (window * WINDOWS_MAX).max(LOAD_LIMIT_MIN);
        let begun = Instant::now();
        let mut load = self.start_one()?;
        let mut first: Option<Looked> = None;
        let mut shown: Option<Shown> = None;
        let status = loop {
            if let Some(status) = load.await_end(LOOK) {
                break status;
            }
            server.watch_until(0)?;
            let now = Looked::now(&mut load, server);
            match &first {
                Some(first) => shown = now.since(first).or(shown),
                None => first = Some(now),
            }
            if self.stop.load(Ordering::Relaxed) && begun.elapsed() > may_take {
                return Err(WorkloadError::Stopped);
            }
            if begun.elapsed() > limit {
                return Err(load.error(format!("the load of a window has not ended within {} s", limit.as_secs())));
            }
        };
        let took = begun.elapsed();
        load.await_output(Duration::from_secs(2));
        if !status.success() {
            return Err(load.error(format!("the load failed ({status})")));
        }
        if let Some(shown) = shown {
            self.note(shown);
        }
        if self.took_shares.len() < WINDOWS_KEPT {
            self.took_shares.push(took.as_secs_f64() / window.as_secs_f64());
        }
        Ok((took, shown))
    }

    /// The caveat that the load itself may limit the result.
    pub(super) fn caveat(&self) -> Option<WorkloadCaveat> {
        let share = median(&self.took_shares).filter(|share| *share < TOOK_SHARE_MIN);
        self.fullness.caveat().or(share.map(|share| WorkloadCaveat::LoadShort { share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_split_into_words_like_a_shell() {
        let words = |text| Settings::parse(text, Runs::Throughout).map(|settings| settings.command);
        let expected = ["redis-benchmark", "-t", "get set", "$HOME"].map(str::to_owned).to_vec();
        assert_eq!(words("redis-benchmark -t 'get set' $HOME"), Ok(expected));
        assert_eq!(words("a 'b"), Err("--load a 'b: a quote is not closed".into()));
        for empty in ["", "  ", "''"] {
            assert_eq!(words(empty), Err("--load: a command is wanted".into()));
        }
    }

    #[test]
    fn the_busiest_thread_counts() {
        let busy = |at_ns, threads: &[(u32, u64)]| {
            let on = CpuSet::parse_list("1").unwrap();
            Busy { at_ns, ran_ns: threads.iter().copied().collect(), on }
        };
        let before = busy(1000, &[(1, 10), (2, 500), (3, 0)]);
        assert_eq!(busy(2000, &[(1, 990), (2, 600), (4, 5000)]).busiest_since(&before), Some(0.98));
        assert_eq!(busy(2000, &[(4, 5000)]).busiest_since(&before), None);
        assert_eq!(busy(1000, &[(3, 0)]).busiest_since(&before), None);
        let settings = Settings { command: vec!["x".into()], runs: Runs::PerWindow };
        let mut load = Load::new(settings, CpuSet::default(), Ending::default(), Vec::new(), Arc::default());
        assert_eq!(load.caveat(), None);
        for busiest in [0.2, 0.96, 0.99] {
            load.note(Shown { busiest, full: None });
        }
        assert!(
            load.caveat()
                .unwrap()
                .to_string()
                .starts_with("a thread of the load used 96 % of a CPU in the median window: ")
        );
    }

    #[test]
    fn an_interrupted_reading_is_repeated() {
        let (mut readings, mut begun_ns) = (0, 0);
        let (at_ns, ran_ns) = read_at(|| {
            readings += 1;
            if readings == 1 {
                std::thread::sleep(Duration::from_millis(200));
                begun_ns = clock::monotonic_ns();
            }
            BTreeMap::from([(readings, 7)])
        });
        assert!(!ran_ns.contains_key(&1) && at_ns >= begun_ns, "{ran_ns:?}");
        let mut readings = 0;
        read_at(|| {
            readings += 1;
            std::thread::sleep(Duration::from_millis(2));
            BTreeMap::new()
        });
        assert_eq!(readings, READINGS_MAX, "a machine that is always slow is not read for ever");
    }

    #[test]
    fn threads_that_share_a_cpu_fill_it_together() {
        let looked = |at_ns, threads: &[(u32, u64)], server: (&str, u64)| {
            let busy = |ran_ns: &[(u32, u64)], on: &str| {
                let on = CpuSet::parse_list(on).unwrap();
                Busy { at_ns, ran_ns: ran_ns.iter().copied().collect(), on }
            };
            Looked { load: busy(threads, "1"), server: busy(&[(9, server.1)], server.0) }
        };
        let caveat_of = |on: &str, threads: &[(u32, u64)], server_ns: u64| {
            let settings = Settings { command: vec!["x".into()], runs: Runs::Throughout };
            let mut load = Load::new(settings, CpuSet::default(), Ending::default(), Vec::new(), Arc::default());
            let before = looked(1000, &[(1, 10), (2, 500), (3, 0)], (on, 100));
            let shown = load.note_since(&before, &looked(2000, threads, (on, 100 + server_ns))).unwrap();
            assert!(shown.busiest < 0.95, "{shown:?}");
            load.caveat().map(|caveat| caveat.to_string()).unwrap_or_default()
        };
        // The CPU is full, although no single thread is always busy and the fourth thread is new.
        let four = [(1, 260), (2, 740), (3, 250), (4, 240)];
        assert!(caveat_of("0", &four, 300).starts_with("the load used 98 % of all CPUs that it may run on: "));
        let two = [(1, 260), (2, 740)];
        assert_eq!(caveat_of("0", &two, 480), "");
        let both = caveat_of("1", &two, 480);
        assert!(
            both.starts_with("the load used 49 % and the server 48 % of all CPUs that the load may run on: "),
            "{both}"
        );
    }
}
