//! A preset whose server is a game's: it plays by itself or waits for players, and tells nothing of its ticks. What is measured is seen from
//! outside: its tick by the kernel's switch records, and the CPU time that it takes.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_sys::{CpuSet, clock};

use crate::error::TrialError;
use crate::metric::Metric;
use crate::source::Source;
use crate::source::outside_ticks::OutsideTicks;
use crate::workload::place::{Mover, PLACEMENT};
use crate::workload::server::{Plan, Ready, Server};
use crate::workload::{Placement, Sample, Workload};

const CPU: Metric = Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower);

/// What a game's preset is.
pub(super) struct Preset {
    /// What it is called.
    pub(super) name: &'static str,
    /// Its program.
    pub(super) program: &'static str,
    /// The one command that installs it.
    pub(super) install: &'static str,
    /// What it says when it serves.
    pub(super) ready: &'static str,
    /// What comes on until it serves fully, bots that join one by one, after it said so.
    pub(super) settle: Duration,
    /// Writes what it needs into its folder and gives its arguments.
    pub(super) arguments: Arguments,
    /// What is played, for the report.
    pub(super) content: String,
    /// Where the server runs: its load is in it, so that it has the first half of the CPUs or all.
    pub(super) placement: Placement,
}

type Arguments = Box<dyn Fn(&Path, SocketAddr) -> std::io::Result<Vec<String>>>;

/// The running server.
pub(super) struct Game {
    preset: Preset,
    server: Server,
    ticks: Ticks,
    metrics: Vec<Metric>,
    cpus: CpuSet,
    mover: Mover,
}

/// The server's tick, seen from outside.
enum Ticks {
    Seen(Box<OutsideTicks>),
    /// A server without players may not tick at all, and a user may not be allowed to look.
    Unseen {
        why: String,
    },
}

impl Ticks {
    fn of(server: &Server) -> Ticks {
        match OutsideTicks::of(&[server.pid()], None) {
            Ok(ticks) => Ticks::Seen(Box::new(ticks)),
            Err(error) => Ticks::Unseen { why: error.to_string() },
        }
    }
}

impl Game {
    /// Starts it and waits until it serves.
    pub(super) fn start(preset: Preset) -> Result<Game, TrialError> {
        let (cpus, _) = preset.placement.cpus();
        let mut server = run(&preset, &cpus)?;
        let ticks = Ticks::of(&server);
        server.must_run()?;
        let mut metrics = vec![CPU];
        if let Ticks::Seen(ticks) = &ticks {
            metrics.splice(0..0, ticks.metrics());
        }
        Ok(Game { preset, server, ticks, metrics, cpus, mover: Mover::default() })
    }
}

fn run(preset: &Preset, cpus: &CpuSet) -> Result<Server, TrialError> {
    let mut server = Server::start(&Plan {
        name: preset.name,
        program: preset.program,
        install: preset.install,
        cpus,
        ready: Ready::Says(preset.ready),
        arguments: &*preset.arguments,
    })?;
    std::thread::sleep(preset.settle);
    server.must_run()?;
    Ok(server)
}

impl Workload for Game {
    fn describe(&self) -> String {
        let place = match self.cpus.is_empty() {
            true => "on whatever CPUs the kernel gives it".to_owned(),
            false => format!("on CPUs {}", self.cpus),
        };
        let ticks = match &self.ticks {
            Ticks::Seen(ticks) => format!("; {}", ticks.describe()),
            Ticks::Unseen { .. } => String::new(),
        };
        format!("{}: {}, loopback; {place}{ticks}", self.preset.name, self.preset.content)
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, TrialError> {
        match knob {
            PLACEMENT => {
                self.mover.set(self.preset.placement, value, &[self.server.pid()], &[]).map(|(placement, _)| placement)
            }
            _ => self.server.set_process(knob, value),
        }
    }

    fn restart(&mut self) -> Result<(), TrialError> {
        self.server.stop();
        self.server = run(&self.preset, &self.cpus)?;
        self.mover = Mover::default();
        let saw = matches!(self.ticks, Ticks::Seen(_));
        self.ticks = Ticks::of(&self.server);
        match &self.ticks {
            Ticks::Unseen { why } if saw => {
                Err(self.server.error(&format!("its tick was seen before, and is not now: {why}")))
            }
            _ => Ok(()),
        }
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, TrialError> {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        clock::sleep_until_ns(clock::monotonic_ns().saturating_add(ns(settle)));
        self.server.must_run()?;
        if let Ticks::Seen(ticks) = &mut self.ticks {
            ticks.begin()?;
        }
        begin();
        let before = self.server.used();
        clock::sleep_until_ns(clock::monotonic_ns().saturating_add(ns(window)));
        let after = self.server.used();
        let ended = match &mut self.ticks {
            Ticks::Seen(ticks) => ticks.end(),
            Ticks::Unseen { .. } => Ok(Sample::new()),
        };
        // A server that has died says more than that its numbers are missing.
        self.server.must_run()?;
        let mut sample = ended?;
        after.put_since(&before, &mut sample);
        Ok(sample)
    }

    fn doubts(&self) -> Vec<String> {
        match &self.ticks {
            Ticks::Seen(_) => Vec::new(),
            Ticks::Unseen { why } => {
                vec![format!("only the server's CPU time was measured, since its tick is not to be seen: {why}")]
            }
        }
    }

    fn stop(&mut self) {
        self.server.stop();
    }
}
