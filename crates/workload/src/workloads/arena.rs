//! The reference game server with its bots, on loopback.
//! If there are two CPUs, server and bots run on separate CPUs.
//! So a round trip goes from CPU to CPU, as a real round trip goes from machine to machine.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_sys::CpuSet;
use serde_json::{Value, json};

use crate::caveat::WorkloadCaveat;
use crate::entry::{Entry, number, one_of, unknown};
use crate::error::WorkloadError;
use crate::kit::child::{Conversation, Program, flatten, sleep};
use crate::kit::full::Fullness;
use crate::kit::place::{Mover, PLACEMENT};
use crate::metric::Metric;
use crate::placement::Placement;
use crate::process_knob::ProcessKnobs;
use crate::workload::{Sample, Workload};

/// How long an answer may take in addition to the command itself. This is longer than a pause of the machine.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The maximum time until all bots have joined.
const JOIN_TIME: Duration = Duration::from_secs(15);

/// The possible values of a tick's extra work, in microseconds.
const WORK_US: RangeInclusive<u32> = 0..=100_000;

const METRICS: &[Metric] = &[
    Metric::us("round_trip_us_p50", "median round trip of a packet, player to server and back"),
    Metric::us("tick_lateness_us_p50", "median lateness of the server's tick"),
    Metric::us("round_trip_us_p90", "90th percentile of the round trip of a packet"),
    Metric::us("round_trip_us_p99", "99th percentile of the round trip of a packet"),
    Metric::us("tick_lateness_us_p90", "90th percentile of the lateness of the server's tick"),
    Metric::us("tick_lateness_us_p99", "99th percentile of the lateness of the server's tick"),
    Metric::us("due_to_done_us_p50", "median time from a tick's due time until it is done"),
    Metric::us("due_to_done_us_p99", "99th percentile of the time from a tick's due time until it is done"),
    Metric::us("work_us_p50", "median time that a tick takes"),
    Metric::us("work_us_p99", "99th percentile of the time that a tick takes"),
    Metric::us("snapshot_jitter_us_p99", "99th percentile of snapshot jitter, as players see it"),
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower),
];

/// The registry entry of the arena.
pub(super) const ENTRY: Entry = Entry {
    name: "arena",
    title: "evenkeel's reference game server with its bots, on loopback",
    install: None,
    settings: &[
        ("tick-hz=50", "ticks a second, 10 to 500"),
        ("work-us=300", "work in each tick in addition to the game's own, in microseconds, 0 to 100000"),
        ("tail-us=0", "extra work in one tick of fifty, to simulate a tail, in microseconds, 0 to 100000"),
        ("tick=plain", "how the tick thread keeps time: plain as most servers do, steady as evenkeel-rt does"),
        ("phases=off", "on spreads the ticks of all arenas on this host, so that fewer of them collide"),
    ],
    metrics: &[METRICS],
    start: |options| {
        let mut config = Config {
            programs: options.programs.clone(),
            bots: 16,
            tick_hz: 50,
            work_us: 300,
            tail_us: 0,
            is_steady: false,
            phases: false,
            seed: options.seed,
            placement: options.placement,
        };
        if let Some(players) = options.players {
            config.bots = u8::try_from(players)
                .ok()
                .filter(|bots| (1..=254).contains(bots))
                .ok_or_else(|| WorkloadError::Options(format!("{players} players: the arena takes 1 to 254")))?;
        }
        for (name, value) in &options.set {
            match name.as_str() {
                "tick-hz" => config.tick_hz = number(name, value, 10..=500)?,
                "work-us" => config.work_us = number(name, value, WORK_US)?,
                "tail-us" => config.tail_us = number(name, value, WORK_US)?,
                "tick" => config.is_steady = one_of(name, value, ["plain", "steady"])?,
                "phases" => config.phases = one_of(name, value, ["off", "on"])?,
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        Ok(Box::new(Arena::start(config)?))
    },
};

/// The configuration of an arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder with `evenkeel-arena` and `evenkeel-bots`.
    pub programs: PathBuf,
    /// The number of bots.
    pub bots: u8,
    /// The tick rate in Hz.
    pub tick_hz: u16,
    /// Work in each tick in addition to the game's own work, in microseconds.
    pub work_us: u32,
    /// Further work in one of fifty ticks, in microseconds.
    pub tail_us: u32,
    /// Whether the tick thread keeps time as `evenkeel-rt` does.
    /// If false, the thread is an ordinary thread, on which the host's knobs have the same effect as on most servers.
    pub is_steady: bool,
    /// Whether the phases of all arenas on this host are spread.
    pub phases: bool,
    /// The seed of the match.
    pub seed: u64,
    /// How CPUs are assigned to server and bots.
    pub placement: Placement,
}

/// The running server with its bots.
pub struct Arena {
    server: Conversation,
    bots: Conversation,
    /// The timer slack of the tick thread when it started, in nanoseconds.
    slack_ns_before: u64,
    knobs: ProcessKnobs,
    mover: Mover,
    config: Config,
    server_cpus: CpuSet,
    bots_cpus: CpuSet,
    fullness: Fullness,
}

impl Arena {
    /// Starts server and bots, and waits until every bot has joined.
    ///
    /// # Errors
    /// Fails if the server or the bots do not start, or if not all bots join in time.
    pub fn start(config: Config) -> Result<Arena, WorkloadError> {
        let (server_cpus, bots_cpus) = config.placement.cpus();
        let path = config.programs.join("evenkeel-arena");
        let mut server_arguments = arguments(&[
            ("--tick-hz", config.tick_hz.into()),
            ("--players", u64::from(config.bots) + 1),
            ("--seed", config.seed),
            ("--work-us", config.work_us.into()),
            ("--tail-us", config.tail_us.into()),
        ]);
        let tick = if config.is_steady { "steady" } else { "plain" };
        server_arguments.extend(["--tick", tick].map(String::from));
        server_arguments.extend(config.phases.then(|| "--phases".to_owned()));
        let mut server = Conversation::start(&Program {
            name: "evenkeel-arena",
            path: must_exist(&path)?,
            arguments: server_arguments,
            cpus: server_cpus.clone(),
        })?;
        let ready = server.hear(ANSWER_TIME)?;
        let Some(address) = ready.get("addr").and_then(Value::as_str) else {
            return Err(server.error(format!("it began with {ready}, without its address")));
        };
        let path = config.programs.join("evenkeel-bots");
        let mut bot_arguments = arguments(&[("--bots", config.bots.into()), ("--seed", config.seed)]);
        bot_arguments.extend(["--connect".to_owned(), address.to_owned()]);
        let mut bots = Conversation::start(&Program {
            name: "evenkeel-bots",
            path: must_exist(&path)?,
            arguments: bot_arguments,
            cpus: bots_cpus.clone(),
        })?;
        let joined = bots.hear(JOIN_TIME)?;
        if joined.get("event").and_then(Value::as_str) != Some("ready") {
            return Err(bots.error(format!("not every bot joined: {joined}")));
        }
        let slack_ns_before = timer_slack_ns(&mut server, None)?;
        Ok(Arena {
            server,
            bots,
            slack_ns_before,
            knobs: ProcessKnobs::default(),
            mover: Mover::default(),
            config,
            server_cpus,
            bots_cpus,
            fullness: Fullness::default(),
        })
    }
}

impl Workload for Arena {
    fn describe(&self) -> String {
        let Config { bots, tick_hz, work_us, tail_us, is_steady, phases, .. } = self.config;
        let tail = match tail_us {
            0 => String::new(),
            _ => format!(" and {tail_us} us more in one of fifty"),
        };
        let steady = if is_steady { ", steady ticks" } else { "" };
        let spread = if phases { ", spread ticks" } else { "" };
        let place = match self.server_cpus.is_empty() {
            true => "server and bots on whatever CPUs the kernel gives them".to_owned(),
            false => format!("server on CPUs {}, bots on CPUs {}", self.server_cpus, self.bots_cpus),
        };
        format!(
            "arena: {bots} bots, {tick_hz} ticks a second, {work_us} us of extra work a tick{tail}{steady}{spread}, loopback; {place}"
        )
    }

    fn ticks_per_s(&self) -> Option<f64> {
        Some(self.config.tick_hz.into())
    }

    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    fn passes_network_devices(&self) -> bool {
        false
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        if knob == PLACEMENT {
            let (server, bots) = (self.server.pid(), self.bots.pid());
            return self.mover.set(self.config.placement, value, &[server], &[bots]).map(|(placement, _)| placement);
        }
        // The server can set its own timer slack without a privilege. evenkeel sets all other properties from outside.
        if knob != "process.timer_slack_ns" {
            return self.knobs.set(&self.pids(), knob, value);
        }
        let bad = |_| WorkloadError::Switch {
            knob: knob.into(),
            wanted: value.unwrap_or_default().into(),
            why: "no number".into(),
        };
        let slack_ns = value.map_or(Ok(self.slack_ns_before), str::parse).map_err(bad)?;
        Ok(timer_slack_ns(&mut self.server, Some(slack_ns))?.to_string())
    }

    fn set_live(&mut self, name: &str, value: Option<&str>) -> Result<Option<String>, WorkloadError> {
        let (command, before) = match name {
            "work-us" => ("work_us", self.config.work_us),
            "tail-us" => ("tail_us", self.config.tail_us),
            _ => return Ok(None),
        };
        let us = value.map_or(Ok(before), |value| number(name, value, WORK_US))?;
        let answer = self.server.ask(&json!({"cmd": command, "value": us}), ANSWER_TIME)?;
        let read_back = answer.get(command).and_then(Value::as_u64);
        let value = read_back.ok_or_else(|| self.server.error(format!("it answered {answer} to {command}")))?;
        Ok(Some(value.to_string()))
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.stop();
        let fullness = std::mem::take(&mut self.fullness);
        *self = Arena { fullness, ..Arena::start(self.config.clone())? };
        Ok(())
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let command = json!({"cmd": "window"});
        sleep(settle);
        self.server.ask(&command, ANSWER_TIME)?;
        self.bots.ask(&command, ANSWER_TIME)?;
        begin();
        sleep(window);
        let server = self.server.ask(&command, ANSWER_TIME)?;
        let bots = self.bots.ask(&command, ANSWER_TIME)?;
        let (mut sample, mut felt) = (Sample::new(), Sample::new());
        flatten("", &server, &mut sample);
        flatten("", &bots, &mut felt);
        // The bots' values are what players notice. So these values get a prefix only if the server has a value of the same name.
        for (name, value) in felt {
            let name = if sample.contains_key(&name) { format!("bots_{name}") } else { name };
            sample.insert(name, value);
        }
        if let (Some(cpu_us), Some(span_us)) = (sample.get("cpu_us"), sample.get("span_us")) {
            sample.insert("cpu_share".into(), cpu_us / span_us);
        }
        let (bots, server) = (self.bots.pid(), self.server.pid());
        self.fullness.note_reported(&sample, (bots, ["bots_cpu_us", "bots_span_us"]), (server, ["cpu_us", "span_us"]));
        Ok(sample)
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        self.fullness.caveat().into_iter().collect()
    }

    fn stop(&mut self) {
        self.bots.stop();
        self.server.stop();
    }
}

fn timer_slack_ns(server: &mut Conversation, value: Option<u64>) -> Result<u64, WorkloadError> {
    let answer = server.ask(&json!({"cmd": "timer_slack_ns", "value": value}), ANSWER_TIME)?;
    let read_back = answer.get("timer_slack_ns").and_then(Value::as_u64);
    read_back.ok_or_else(|| server.error(format!("it answered {answer} to a question for its timer slack")))
}

fn arguments(pairs: &[(&str, u64)]) -> Vec<String> {
    pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect()
}

fn must_exist(path: &Path) -> Result<&Path, WorkloadError> {
    if path.is_file() {
        return Ok(path);
    }
    Err(WorkloadError::Start {
        program: path.display().to_string(),
        why: "it does not exist; put the arena's programs into the folder of evenkeel (`cargo build --release` builds them)".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_numbers_with_whole_names() {
        let mut sample = Sample::new();
        flatten(
            "",
            &json!({"ticks": 50, "work_us": {"count": 50, "p50": 1.5}, "event": "x", "none": null}),
            &mut sample,
        );
        let names: Vec<_> = sample.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["ticks=50", "work_us_count=50", "work_us_p50=1.5"]);
    }

    #[test]
    fn programs_that_are_missing_are_named() {
        let config = Config {
            programs: "/nowhere".into(),
            bots: 4,
            tick_hz: 50,
            work_us: 0,
            tail_us: 0,
            is_steady: false,
            phases: false,
            seed: 1,
            placement: Placement::Apart,
        };
        let message = Arena::start(config).err().map(|error| error.to_string()).unwrap();
        assert!(message.starts_with("start /nowhere/evenkeel-arena: it does not exist"), "{message}");
    }
}
