//! A preset of a game server that does not report its ticks.
//! Either players join, or bots play in the server itself. evenkeel measures the server from outside:
//! by its players if it has any, by its tick in the kernel's switch records, and by its CPU time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_stats::{Direction, median};
use evenkeel_sys::{CpuSet, clock, thread};

use crate::caveat::WorkloadCaveat;
use crate::error::WorkloadError;
use crate::kit::full::{Full, Fullness, Ran};
use crate::kit::place::{Mover, PLACEMENT};
use crate::kit::server::{Plan, Ready, Server};
use crate::load::ddnet::Crowd;
use crate::metric::Metric;
use crate::placement::Placement;
use crate::processes::Used;
use crate::source::Source;
use crate::source::outside_ticks::OutsideTicks;
use crate::workload::{Sample, Workload};

pub(crate) const CPU: Metric =
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower);
/// The metrics that the players measure.
pub(crate) const PLAYED: [Metric; 7] = [
    Metric::us("round_trip_us_p50", "median time until a player's input with its ping is answered"),
    Metric::us("round_trip_us_p90", "90th percentile of the time until a player's input with its ping is answered"),
    Metric::us("round_trip_us_p99", "99th percentile of the time until a player's input with its ping is answered"),
    Metric::us("snapshot_lateness_us_p50", "median lateness of a tick's snapshot, as players see it"),
    Metric::us("snapshot_lateness_us_p90", "90th percentile of the lateness of a tick's snapshot, as players see it"),
    Metric::us("snapshot_lateness_us_p99", "99th percentile of the lateness of a tick's snapshot, as players see it"),
    Metric::new("snapshots_share", "share of the snapshots due that came", "share", Direction::Higher),
];
/// If the players send more than this share of inputs late, the load was not the requested load.
const BEHIND_SHARE_MAX: f64 = 0.01;
/// How often a wait checks whether the user asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// The maximum number of windows to store for that caveat.
const WINDOWS_MAX: usize = 20_000;

/// The preset of a game.
pub(crate) struct Preset {
    /// The name of the game.
    pub(crate) name: &'static str,
    /// The name of the server's program.
    pub(crate) program: &'static str,
    /// The command that installs the server.
    pub(crate) install: &'static str,
    /// The text of the server's output that shows that the server is ready.
    pub(crate) ready: &'static str,
    /// How long the ready server needs until it is fully active, because bots join one by one.
    pub(crate) settle: Duration,
    /// Writes the server's files into its folder, and returns its arguments.
    pub(crate) arguments: Arguments,
    /// A description of the game, for the report.
    pub(crate) content: String,
    /// The players that join. None if bots play in the server itself.
    pub(crate) players: Option<Players>,
    /// How CPUs are assigned to the server and its players. Even without players, the server gets only the first half of the CPUs.
    pub(crate) placement: Placement,
    /// A flag that is set when the user asks to stop.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The players that join a game.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Players {
    /// The number of players.
    pub(crate) count: u32,
    /// The seed of the players' actions.
    pub(crate) seed: u64,
}

type Arguments = Box<dyn Fn(&Path, SocketAddr) -> std::io::Result<Vec<String>>>;

/// A running game server, with its players.
pub(crate) struct Game {
    preset: Preset,
    server: Server,
    crowd: Option<Crowd>,
    ticks: Ticks,
    metrics: Vec<Metric>,
    cpus: CpuSet,
    mover: Mover,
    fullness: Fullness,
    /// For each window, the share of inputs that were sent late.
    behind: Vec<f64>,
}

/// The server's tick, observed from outside.
enum Ticks {
    Seen(Box<OutsideTicks>),
    /// The tick is not observable: without players a server may not tick, or the user may not have the right to watch the server.
    Unseen {
        why: String,
    },
}

impl Ticks {
    fn observe(server: &Server, stop: &AtomicBool) -> Result<Ticks, WorkloadError> {
        match OutsideTicks::start(&[server.pid()], &Wanted::default(), stop) {
            Ok(ticks) => Ok(Ticks::Seen(Box::new(ticks))),
            Err(WorkloadError::Stopped) => Err(WorkloadError::Stopped),
            Err(error) => Ok(Ticks::Unseen { why: error.to_string() }),
        }
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        match self {
            Ticks::Seen(ticks) => ticks.begin(),
            Ticks::Unseen { .. } => Ok(()),
        }
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        match self {
            Ticks::Seen(ticks) => ticks.end(),
            Ticks::Unseen { .. } => Ok(Sample::new()),
        }
    }
}

impl Game {
    /// Starts the server and waits until it is ready.
    pub(crate) fn start(preset: Preset) -> Result<Game, WorkloadError> {
        let (cpus, load_cpus) = preset.placement.cpus();
        let mut server = run(&preset, &cpus)?;
        let crowd = join(&preset, &mut server, &load_cpus)?;
        let ticks = Ticks::observe(&server, &preset.stop)?;
        server.must_run()?;
        let mut metrics = Vec::new();
        if crowd.is_some() {
            metrics.extend(PLAYED);
        }
        if let Ticks::Seen(ticks) = &ticks {
            metrics.extend(ticks.metrics());
        }
        metrics.push(CPU);
        let (mover, fullness) = (Mover::default(), Fullness::default());
        Ok(Game { preset, server, crowd, ticks, metrics, cpus, mover, fullness, behind: Vec::new() })
    }

    /// Stores the share of late inputs in a window, for the caveats.
    fn note_load(&mut self, sample: &Sample) {
        let Some(crowd) = &self.crowd else { return };
        let Some(share) = sample.get("load_cpu_share").copied() else { return };
        let on = |cpus: &CpuSet| if cpus.is_empty() { thread::affinity().unwrap_or_default() } else { cpus.clone() };
        let load = Ran { cpus: share, on: on(crowd.cpus()) };
        let server_on = thread::affinity_of(self.server.pid()).unwrap_or_default();
        let server = Ran { cpus: sample.get("cpu_share").copied().unwrap_or(0.0), on: server_on };
        self.fullness.note(Some(share), Full::new(&load, &server));
        if self.behind.len() < WINDOWS_MAX {
            self.behind.extend(sample.get("load_behind_share"));
        }
    }

    /// Measures a window of a server without players.
    fn watch(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        clock::sleep_until_ns(clock::monotonic_ns().saturating_add(ns(settle)));
        self.server.must_run()?;
        self.ticks.begin()?;
        begin();
        let before = self.server.used();
        clock::sleep_until_ns(clock::monotonic_ns().saturating_add(ns(window)));
        let after = self.server.used();
        let ended = self.ticks.end();
        // If the server has ended, report that instead of a missing value.
        self.server.must_run()?;
        let mut sample = ended?;
        after.put_since(&before, &mut sample);
        Ok(sample)
    }

    /// Measures a window of a server with players.
    fn play(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let Game { crowd: Some(crowd), server, ticks, .. } = self else { return self.watch(settle, window, begin) };
        let (mut before, mut after) = (Used::default(), Used::default());
        let (mut begun, mut ended) = (Ok(()), Ok(Sample::new()));
        let ticks = std::cell::RefCell::new(ticks);
        let played = crowd.window(
            settle,
            window,
            &mut || {
                begun = ticks.borrow_mut().begin();
                begin();
                before = server.used();
            },
            &mut || {
                after = server.used();
                ended = ticks.borrow_mut().end();
            },
        );
        server.must_run()?;
        let mut sample = played.map_err(|fault| server.error(&fault.to_string()))?;
        begun?;
        sample.extend(ended?);
        after.put_since(&before, &mut sample);
        self.note_load(&sample);
        Ok(sample)
    }
}

fn join(preset: &Preset, server: &mut Server, cpus: &CpuSet) -> Result<Option<Crowd>, WorkloadError> {
    let Some(players) = preset.players else { return Ok(None) };
    match Crowd::join(server.address(), players.count, players.seed, cpus, &preset.stop) {
        Ok(crowd) => Ok(Some(crowd)),
        Err(_) if preset.stop.load(Ordering::Relaxed) => Err(WorkloadError::Stopped),
        Err(fault) => Err(server.error(&fault.to_string())),
    }
}

fn run(preset: &Preset, cpus: &CpuSet) -> Result<Server, WorkloadError> {
    let mut server = Server::start(&Plan {
        name: preset.name,
        program: preset.program,
        install: preset.install,
        cpus,
        ready: Ready::Says(preset.ready),
        stop: &preset.stop,
        arguments: &*preset.arguments,
    })?;
    let begun = Instant::now();
    while begun.elapsed() < preset.settle {
        if preset.stop.load(Ordering::Relaxed) {
            return Err(WorkloadError::Stopped);
        }
        std::thread::sleep(LOOK.min(preset.settle.saturating_sub(begun.elapsed())));
    }
    server.must_run()?;
    Ok(server)
}

impl Game {
    fn in_words(&self, of_ticks: impl Fn(&OutsideTicks) -> String) -> String {
        let place = match (self.cpus.is_empty(), self.crowd.as_ref().map(Crowd::cpus)) {
            (true, None) => "on whatever CPUs the kernel gives it".to_owned(),
            (true, Some(_)) => "server and players on whatever CPUs the kernel gives them".to_owned(),
            (false, None) => format!("on CPUs {}", self.cpus),
            (false, Some(players)) => format!("server on CPUs {}, players on CPUs {players}", self.cpus),
        };
        let ticks = match &self.ticks {
            Ticks::Seen(ticks) => format!("; {}", of_ticks(ticks)),
            Ticks::Unseen { .. } => String::new(),
        };
        format!("{}: {}, loopback; {place}{ticks}", self.preset.name, self.preset.content)
    }
}

impl Workload for Game {
    fn describe(&self) -> String {
        self.in_words(OutsideTicks::describe)
    }

    fn identity(&self) -> String {
        self.in_words(OutsideTicks::identity)
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        match knob {
            PLACEMENT => {
                let (placement, cpus) = self.mover.set(self.preset.placement, value, &[self.server.pid()], &[])?;
                if let Some(crowd) = &mut self.crowd {
                    crowd.run_on(cpus);
                }
                Ok(placement)
            }
            _ => self.server.set_process(knob, value),
        }
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.stop();
        self.server = run(&self.preset, &self.cpus)?;
        self.crowd = join(&self.preset, &mut self.server, &self.preset.placement.cpus().1)?;
        self.mover = Mover::default();
        let saw = matches!(self.ticks, Ticks::Seen(_));
        self.ticks = Ticks::observe(&self.server, &self.preset.stop)?;
        match &self.ticks {
            Ticks::Unseen { why } if saw => Err(self.server.error(&format!("its tick is no longer observable: {why}"))),
            _ => Ok(()),
        }
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        match self.crowd {
            Some(_) => self.play(settle, window, begin),
            None => self.watch(settle, window, begin),
        }
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        // Use the median window, so that a single pause of the machine does not matter.
        let behind = median(&self.behind).filter(|share| *share > BEHIND_SHARE_MAX);
        let late = behind.map(|share| WorkloadCaveat::PlayersLate { share });
        let unseen = match &self.ticks {
            Ticks::Unseen { why } => {
                Some(WorkloadCaveat::TickUnseen { why: why.clone(), has_players: self.crowd.is_some() })
            }
            Ticks::Seen(_) => None,
        };
        self.fullness.caveat().into_iter().chain(late).chain(unseen).collect()
    }

    fn stop(&mut self) {
        // Let the players leave before the server ends.
        self.crowd = None;
        self.server.stop();
    }
}
