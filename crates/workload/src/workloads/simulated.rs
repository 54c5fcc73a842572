//! `simulated`: a simulated server whose true latency is known.
//! The workload measures nothing and no time passes, so you can try a design in a second.
//! A run shows how many pairs an effect of 5 % needs at 4 % noise, or what a report looks like.
//! It also shows how a trial handles a server that dies. evenkeel's own tests use it to run whole trials and searches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_hostfs::{Root, json_words, user_file};
use evenkeel_stats::Direction;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::clock::{Disturbance, SimulatedMachine};
use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::workload::{Sample, Workload};

const NAME: &str = "simulated";
const LATENCY: &str = "latency_us_p50";
const TAIL: &str = "latency_us_p99";
/// The tail of the simulated server's latency before effects, as a multiple of its median.
const TAIL_RATIO: f64 = 3.0;
/// The maximum length of a script in bytes.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// The maximum time for which a window waits for a file.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// How often a window checks whether the file exists.
const LOOK_EVERY: Duration = Duration::from_millis(1);

const METRICS: &[Metric] = &[
    Metric::us(LATENCY, "median latency of the simulated server"),
    Metric::us(TAIL, "99th percentile of the latency of the simulated server"),
    Metric::new("cpu_share", "CPU time of the simulated server in one CPU's", "share", Direction::Lower),
];

/// The registry entry of the workload.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "no server: random numbers around a level that you choose, without waiting, to try out designs and reports",
    install: None,
    settings: &[
        ("level-us=100", "median latency, in microseconds, 1 to 1000000"),
        ("noise-percent=4", "standard deviation of a window of one second, 0 to 100"),
        ("script=", "a JSON file with effects of settings and events in windows, as docs/proving.md describes"),
    ],
    metrics: &[METRICS],
    start: |options| Ok(Box::new(Simulated::start(options)?)),
};

/// The contents of a script: what the simulated server does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    effects: Vec<Effect>,
    #[serde(default)]
    events: Vec<Event>,
    /// How long a switch of the server's process takes, in milliseconds.
    #[serde(default)]
    switch_ms: u64,
    /// How long a restart takes, in milliseconds.
    #[serde(default)]
    restart_ms: u64,
    /// How the latency settles after a switch of the server's process. If absent, the latency settles at once.
    #[serde(default)]
    settles: Option<Settles>,
}

/// After a switch, the latency is multiplied by a factor. The factor is `ratio` at first, and decays to 1 with this time constant.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settles {
    ratio: f64,
    ms: f64,
}

impl Settles {
    /// The mean of the factor over a window that lasts from `from` to `to` after the switch.
    fn mean(self, from: Duration, to: Duration) -> f64 {
        let constant = self.ms.max(1.0) / 1e3;
        let left = |time: Duration| (-time.as_secs_f64() / constant).exp();
        let length = to.saturating_sub(from).as_secs_f64().max(1e-9);
        1.0 + (self.ratio - 1.0) * constant * (left(from) - left(to)) / length
    }
}

/// The latency is multiplied while a setting has this value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Effect {
    /// The setting: the path of a file of the host, or the id of a setting of the server's process.
    of: String,
    /// The value of the setting that has the effect, as it is read back.
    value: String,
    ratio: f64,
    /// A further factor for the tail only.
    #[serde(default = "one")]
    tail_ratio: f64,
}

fn one() -> f64 {
    1.0
}

/// What happens in some windows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    /// The number of the first such window. All measured windows are counted from 1, including short windows and those of the A/A phase.
    window: u64,
    /// The number of the last such window. If absent, only the first window is affected.
    #[serde(default)]
    until: Option<u64>,
    /// The machine pauses for this long, in milliseconds.
    #[serde(default)]
    gap_ms: Option<f64>,
    /// The hypervisor takes this share of the CPU time.
    #[serde(default)]
    steal_share: Option<f64>,
    /// All processes together use this share of the two CPUs.
    #[serde(default)]
    busy_share: Option<f64>,
    /// Some task waits for a CPU for this share of the window.
    #[serde(default)]
    pressure_share: Option<f64>,
    /// Another trial runs at the same time. This text describes that trial.
    #[serde(alias = "beside", default)]
    other_trial: Option<String>,
    /// The server uses this share of a CPU.
    #[serde(default)]
    cpu_share: Option<f64>,
    /// The quantiles are of this many ticks.
    #[serde(default)]
    ticks: Option<f64>,
    /// The window takes this much longer than planned, in milliseconds.
    #[serde(default)]
    overrun_ms: u64,
    /// The server gets no CPU.
    #[serde(default)]
    no_cpu: bool,
    /// The latency, which settings and noise do not change.
    #[serde(default)]
    latency_us: Option<f64>,
    /// The server ends. This text is the reason.
    #[serde(default)]
    dies: Option<String>,
    /// The window waits in real time until this file exists. A file `FILE.waiting` exists during the wait.
    #[serde(default)]
    waits_for: Option<PathBuf>,
}

impl Event {
    fn is_in(&self, window: u64) -> bool {
        (self.window..=self.until.unwrap_or(self.window)).contains(&window)
    }
}

struct Simulated {
    level_us: f64,
    asked_level_us: f64,
    noise: f64,
    script: Script,
    process: BTreeMap<String, String>,
    random: ChaCha8Rng,
    machine: SimulatedMachine,
    /// When a setting of the server's process was last switched. None if no setting was switched.
    switched: Option<Duration>,
    host: Root,
}

impl Simulated {
    fn start(options: &Options) -> Result<Simulated, WorkloadError> {
        let (mut level, mut noise, mut script) = (100_u32, 4_u32, Script::default());
        for (name, value) in &options.set {
            match name.as_str() {
                "level-us" => level = number(name, value, 1..=1_000_000)?,
                "noise-percent" => noise = number(name, value, 0..=100)?,
                "script" if value.is_empty() => {}
                "script" => script = read_script(Path::new(value))?,
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        Ok(Simulated {
            level_us: level.into(),
            asked_level_us: level.into(),
            noise: f64::from(noise) / 100.0,
            script,
            process: BTreeMap::new(),
            random: ChaCha8Rng::seed_from_u64(options.seed),
            machine: options.simulated.clone(),
            switched: None,
            host: Root::live(),
        })
    }

    /// A standard normal number, as the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0
    }

    /// The factors of median and tail with the current settings.
    fn ratios(&self) -> (f64, f64) {
        let acts = |effect: &&Effect| match effect.of.starts_with('/') {
            true => self.host.text(&effect.of).is_ok_and(|text| text.trim() == effect.value),
            false => self.process.get(&effect.of) == Some(&effect.value),
        };
        let acting = self.script.effects.iter().filter(acts);
        acting.fold((1.0, 1.0), |(ratio, tail), effect| (ratio * effect.ratio, tail * effect.tail_ratio))
    }

    fn ended(&self, why: &str) -> WorkloadError {
        WorkloadError::Program { program: NAME.to_owned(), why: why.to_owned() }
    }
}

fn read_script(path: &Path) -> Result<Script, WorkloadError> {
    let refused = |why: String| WorkloadError::setting("script", path.display(), why);
    let text = user_file::read_text(path, SCRIPT_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refused(json_words::plain(&error)))
}

/// Waits in real time until the file exists.
fn wait_for(path: &Path) -> Result<(), WorkloadError> {
    let waiting = PathBuf::from(format!("{}.waiting", path.display()));
    let failed = |error: std::io::Error| WorkloadError::Program {
        program: NAME.to_owned(),
        why: format!("write {}: {error}", waiting.display()),
    };
    std::fs::write(&waiting, "").map_err(failed)?;
    let begun = Instant::now();
    while !path.exists() {
        if begun.elapsed() > WAIT_MAX {
            let why = format!("{} did not come within {} s", path.display(), WAIT_MAX.as_secs());
            return Err(WorkloadError::Program { program: NAME.to_owned(), why });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let _ = std::fs::remove_file(&waiting);
    Ok(())
}

impl Workload for Simulated {
    fn describe(&self) -> String {
        let Simulated { level_us, noise, .. } = self;
        format!("simulated: {level_us} us with {:.0} % of noise; no server, no time passes", noise * 100.0)
    }

    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn simulated(&self) -> Option<SimulatedMachine> {
        Some(self.machine.clone())
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        self.machine.advance(Duration::from_millis(self.script.switch_ms));
        let before = match value {
            Some(value) => self.process.insert(knob.to_owned(), value.to_owned()),
            None => self.process.remove(knob),
        };
        if before.as_deref() != value {
            self.switched = Some(self.machine.now());
        }
        Ok(value.unwrap_or("50000").to_owned())
    }

    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        if name != "level-us" {
            return Ok(None);
        }
        self.level_us = match value {
            Some(value) => f64::from(number::<u32>(name, value, 1..=1_000_000)?),
            None => self.asked_level_us,
        };
        Ok(Some(self.level_us.to_string()))
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.machine.advance(Duration::from_millis(self.script.restart_ms));
        Ok(())
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let at = self.machine.begin_window();
        self.machine.advance(settle);
        begin();
        let events: Vec<Event> = self.script.events.iter().filter(|event| event.is_in(at)).cloned().collect();
        let (mut value_us, mut own) = (None, Sample::new());
        for event in events {
            event.waits_for.as_deref().map_or(Ok(()), wait_for)?;
            if let Some(why) = &event.dies {
                return Err(self.ended(why));
            }
            self.machine.advance(Duration::from_millis(event.overrun_ms));
            self.machine.disturb(Disturbance {
                longest_gap_us: event.gap_ms.map(|ms| ms * 1e3),
                steal_share: event.steal_share,
                busy_share: event.busy_share,
                cpu_pressure_share: event.pressure_share,
                other_trial: event.other_trial.clone(),
            });
            own.extend(event.cpu_share.map(|share| ("cpu_share".to_owned(), share)));
            own.extend(event.ticks.map(|ticks| ("ticks".to_owned(), ticks)));
            value_us = event.latency_us.or(value_us);
            if event.no_cpu {
                let span_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
                return Err(WorkloadError::NoCpu { program: NAME.to_owned(), waited_ms: span_ms, span_ms });
            }
        }
        let began = self.machine.now();
        self.machine.advance(window);
        let (mut ratio, tail_ratio) = self.ratios();
        if let (Some(settles), Some(switched)) = (self.script.settles, self.switched) {
            ratio *= settles.mean(began.saturating_sub(switched), self.machine.now().saturating_sub(switched));
        }
        // In a longer window, the mean varies less.
        let noise = self.noise / window.as_secs_f64().max(0.001).sqrt();
        let us = value_us.unwrap_or(self.level_us * ratio * (noise * self.normal()).exp());
        let tail_us = us * TAIL_RATIO * tail_ratio * (noise * self.normal()).exp();
        let cpu_share = 0.1 * ratio;
        let mut sample =
            Sample::from([(LATENCY.to_owned(), us), (TAIL.to_owned(), tail_us), ("cpu_share".to_owned(), cpu_share)]);
        sample.extend(own);
        Ok(sample)
    }

    fn stop(&mut self) {}
}
