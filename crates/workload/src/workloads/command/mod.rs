//! Any server of the user. evenkeel starts the server's command unchanged,
//! starts the user's load when the server is ready, and ends the server gracefully.
//! The values come from the output of server or load, from the server's metrics page, and from the kernel's counts.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_stats::Direction;
use evenkeel_sys::{CpuSet, clock};

use crate::caveat::WorkloadCaveat;
use crate::entry::{Entry, Options, unknown};
use crate::error::WorkloadError;
use crate::kit::place::{Mover, PLACEMENT};
use crate::metric::Metric;
use crate::placement::Placement;
use crate::process_knob::ProcessKnobs;
use crate::processes::Used;
use crate::source::json_lines::JsonLines;
use crate::source::lines::{FromLines, Inbox, ReadLine};
use crate::source::named::Directions;
use crate::source::prometheus::Prometheus;
use crate::source::regex::RegexLines;
use crate::source::rule::First;
use crate::source::{InvalidMetric, Source, outside_packets, outside_ticks};
use crate::workload::{Sample, Workload};

mod foreground;
mod load;
mod observers;
mod output;
mod ready;
mod started;

pub use crate::processes::end_left_by;
pub use crate::sockets::{Port, Protocol};
pub use foreground::{Foreground, ForegroundEnd};
pub use load::{InvalidLoad, Runs, Settings as LoadSettings};
pub use observers::Observer;
pub use ready::Ready;
pub use started::Ending;

use load::{Load, Looked, Shown};
use observers::Observers;
use output::Listener;
use ready::{PortCheck, Waiting};
use started::{Program, Started};

/// The time limit of a load that runs once per window, as a multiple of the window's planned length.
const LOAD_OVERRUN_MAX: f64 = 1.25;

const CPU_SHARE: Metric = Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower);

/// The registry entry of the user's server.
pub(super) const ENTRY: Entry = Entry {
    name: "command",
    title: "the server that stands behind --, with a load of yours",
    install: None,
    settings: &[],
    metrics: &[&[CPU_SHARE], outside_ticks::METRICS, outside_packets::METRICS],
    start: |options| Ok(Box::new(Command::start(options, Settings::default())?)),
};

/// The output in which evenkeel searches for values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinesFrom {
    /// The load's standard output if the load runs anew in each window. Otherwise the server's standard output.
    #[default]
    Auto,
    /// The server's standard output.
    Server,
    /// The server's standard error.
    ServerErrors,
    /// The load's standard output.
    Load,
}

/// How a command is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When the server counts as ready.
    pub ready: Ready,
    /// The maximum time until the server is ready.
    pub ready_limit: Duration,
    /// How evenkeel ends server and load.
    pub ending: Ending,
    /// The load. None if the server already has load.
    pub load: Option<LoadSettings>,
    /// The output in which evenkeel searches for values.
    pub lines_from: LinesFrom,
    /// Metrics in JSON lines: see [`JsonLines::new`].
    pub json_metrics: Vec<String>,
    /// Metrics in lines, found by expressions: see [`RegexLines::new`].
    pub regex_metrics: Vec<String>,
    /// The address of the server's metrics page. None if the server has no page.
    pub prometheus: Option<String>,
    /// Metrics on that page: see [`Prometheus::new`].
    pub prometheus_metrics: Vec<String>,
    /// Whether lower or higher is better: see [`Directions::new`].
    pub better: Vec<String>,
    /// What to observe from outside.
    pub observe: Vec<Observer>,
    /// The user's description of the loop that is the tick.
    pub tick: Wanted,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ready: Ready::default(),
            ready_limit: Duration::from_secs(60),
            ending: Ending::default(),
            load: None,
            lines_from: LinesFrom::default(),
            json_metrics: Vec::new(),
            regex_metrics: Vec::new(),
            prometheus: None,
            prometheus_metrics: Vec::new(),
            better: Vec::new(),
            observe: Vec::new(),
            tick: Wanted::default(),
        }
    }
}

/// The sources of a command's values. They are created before the command starts.
struct Sources {
    sources: Vec<Box<dyn Source>>,
    metrics: Vec<Metric>,
    inboxes: Vec<Inbox>,
    lines_from: LinesFrom,
}

impl Sources {
    fn new(settings: &Settings) -> Result<Sources, InvalidMetric> {
        let directions = Directions::new(&settings.better)?;
        let per_window = settings.load.as_ref().is_some_and(|load| load.runs == Runs::PerWindow);
        let lines_from = match settings.lines_from {
            LinesFrom::Auto if per_window => LinesFrom::Load,
            LinesFrom::Auto => LinesFrom::Server,
            LinesFrom::Load if settings.load.is_none() => return Err("lines of a load need a load (--load)".into()),
            chosen => chosen,
        };
        let first = if per_window && lines_from == LinesFrom::Load { First::Counts } else { First::SpeaksForBefore };
        let mut made = Sources { sources: Vec::new(), metrics: Vec::new(), inboxes: Vec::new(), lines_from };
        if !settings.json_metrics.is_empty() {
            made.lines(Arc::new(JsonLines::new(&settings.json_metrics, &directions)?), first);
        }
        if !settings.regex_metrics.is_empty() {
            made.lines(Arc::new(RegexLines::new(&settings.regex_metrics, &directions)?), first);
        }
        match (&settings.prometheus, settings.prometheus_metrics.is_empty()) {
            (Some(url), false) => {
                made.add(Box::new(Prometheus::new(url, &settings.prometheus_metrics, &directions)?));
            }
            (None, true) => {}
            (Some(url), true) => {
                return Err(format!("--prometheus {url}: name its metrics with --prometheus-metric").into());
            }
            (None, false) => return Err("--prometheus-metric: name the page with --prometheus http://…".into()),
        }
        made.check(&directions)?;
        Ok(made)
    }

    fn lines(&mut self, reader: Arc<dyn ReadLine>, first: First) {
        let source = FromLines::new(reader, first);
        self.inboxes.push(source.inbox());
        self.add(Box::new(source));
    }

    fn add(&mut self, source: Box<dyn Source>) {
        self.metrics.extend(source.metrics());
        self.sources.push(source);
    }

    fn check(&self, directions: &Directions) -> Result<(), InvalidMetric> {
        for (index, metric) in self.metrics.iter().enumerate() {
            let name = &metric.name;
            if self.metrics[..index].iter().any(|before| before.name == *name) || *name == CPU_SHARE.name {
                return Err(format!("two metrics are called {name}").into());
            }
            if directions.get(name).is_none() {
                return Err(
                    format!("which way is better for {name}? (--better '{name}=lower' or '{name}=higher')").into()
                );
            }
        }
        let known = |name: &str| self.metrics.iter().any(|metric| metric.name == name);
        match directions.names().find(|name| !known(name)) {
            Some(name) => Err(format!("--better {name}: no metric has this name").into()),
            None => Ok(()),
        }
    }

    /// The listeners that take the lines of this output.
    fn listeners(&self, of: LinesFrom) -> Vec<Listener> {
        if self.lines_from != of {
            return Vec::new();
        }
        let listener = |inbox: &Inbox| -> Listener {
            let inbox = inbox.clone();
            Arc::new(move |line: &str| inbox.line(line))
        };
        self.inboxes.iter().map(listener).collect()
    }
}

/// A user's running command with its load.
pub struct Command {
    command: Vec<String>,
    settings: Settings,
    sources: Sources,
    observers: Observers,
    metrics: Vec<Metric>,
    placement: Placement,
    server_cpus: CpuSet,
    load_cpus: CpuSet,
    server: Option<Started>,
    seen: Option<PortCheck>,
    load: Option<Load>,
    /// How long the load took in its first run. None if there was no such run.
    load_takes: Option<Duration>,
    /// The properties that are set in the server's threads.
    knobs: ProcessKnobs,
    /// Moves the threads of server and load to other CPUs.
    mover: Mover,
    /// A flag that is set when the user asks to stop.
    stop: Arc<AtomicBool>,
    /// A value that must exist while the server may run, such as the guard that ends the server if this process is killed.
    kept: Option<Box<dyn Any>>,
}

impl Command {
    /// Starts the server, waits until it is ready, and starts the load.
    ///
    /// # Errors
    /// Fails if the settings contradict each other, if server or load do not start or do not become ready, or if the user asked to stop.
    pub fn start(options: &Options, settings: Settings) -> Result<Command, WorkloadError> {
        if let Some(name) = options.set.keys().next() {
            return Err(unknown(&ENTRY, name));
        }
        if options.players.is_some() {
            return Err(WorkloadError::Options(
                "players: a command has no players; choose its load with --load".into(),
            ));
        }
        if options.command.is_empty() {
            return Err(WorkloadError::Options("which command? Write it after --, with its arguments".into()));
        }
        let sources = Sources::new(&settings).map_err(invalid)?;
        let (server_cpus, load_cpus) = options.placement.cpus();
        let observers = Observers::new(&settings.observe, &settings.tick).map_err(invalid)?;
        let metrics = metrics(&sources, &observers).map_err(invalid)?;
        let load = settings.load.clone().map(|load| {
            let (cpus, output) = (load_cpus.clone(), sources.listeners(LinesFrom::Load));
            Load::new(load, cpus, settings.ending, output, Arc::clone(&options.stop))
        });
        let mut command = Command {
            command: options.command.clone(),
            settings,
            sources,
            observers,
            metrics,
            placement: options.placement,
            server_cpus,
            load_cpus,
            server: None,
            seen: None,
            load,
            load_takes: None,
            knobs: ProcessKnobs::default(),
            mover: Mover::default(),
            stop: Arc::clone(&options.stop),
            kept: None,
        };
        command.start_server()?;
        // The default metric may depend on what can be observed.
        command.metrics = self::metrics(&command.sources, &command.observers).map_err(invalid)?;
        Ok(command)
    }

    /// Stores a value until the server has ended.
    pub fn keeping(mut self, thing: Box<dyn Any>) -> Command {
        self.kept = Some(thing);
        self
    }

    fn start_server(&mut self) -> Result<(), WorkloadError> {
        let waiting = Waiting::new(&self.settings.ready, self.settings.ready_limit)?;
        let mut program = Program {
            command: self.command.clone(),
            cpus: self.server_cpus.clone(),
            ending: self.settings.ending,
            output: self.sources.listeners(LinesFrom::Server),
            errors: self.sources.listeners(LinesFrom::ServerErrors),
        };
        program.output.extend(waiting.listener());
        program.errors.extend(waiting.listener());
        let mut server = Started::start(&program)?;
        self.seen = waiting.wait(&mut server, &self.stop).inspect_err(|_| server.take_orphans())?;
        if let Some(load) = &mut self.load {
            load.start().inspect_err(|_| server.take_orphans())?;
        }
        let pids: Vec<u32> = server.stats().iter().map(|stat| stat.pid).collect();
        self.server = Some(server);
        self.observers.open(&pids, &self.stop)
    }

    fn end_server(&mut self) {
        if let Some(load) = &mut self.load {
            load.stop();
        }
        self.observers.close();
        if let Some(server) = &mut self.server {
            server.take_orphans();
        }
        self.server = None;
    }

    /// The running server. It exists from the start to the stop.
    fn server(&mut self) -> Result<&mut Started, WorkloadError> {
        let program = started::name_of(&self.command);
        self.server.as_mut().ok_or_else(|| WorkloadError::Program { program, why: "it was ended".into() })
    }

    fn watch_for(&mut self, time: Duration) -> Result<(), WorkloadError> {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.server()?.watch_until(clock::monotonic_ns().saturating_add(ns))
    }

    fn switch(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let pids = self.pids();
        if knob != PLACEMENT {
            return self.knobs.set(&pids, knob, value);
        }
        let load = self.load.as_ref().map_or_else(Vec::new, Load::pids);
        let (placement, load_cpus) = self.mover.set(self.placement, value, &pids, &load)?;
        if let Some(load) = &mut self.load {
            load.run_on(load_cpus);
        }
        Ok(placement)
    }

    /// Before the first window, runs a load per window once. If windows were far too short for the load, every window would be dropped.
    fn try_load(&mut self, window: Duration) -> Result<(), WorkloadError> {
        let (Some(load), Some(server)) = (&mut self.load, &mut self.server) else { return Ok(()) };
        if load.settings().runs != Runs::PerWindow {
            return Ok(());
        }
        let took = match self.load_takes {
            Some(took) => took,
            None => load.run_once(window, server, Duration::ZERO)?.0,
        };
        self.load_takes = Some(took);
        if took <= window.mul_f64(LOAD_OVERRUN_MAX) {
            return Ok(());
        }
        let program = started::name_of(&load.settings().command);
        let why = format!(
            "the load took {} ms, and a window lasts {} ms: --window {}ms makes it long enough, or make the load shorter",
            took.as_millis(),
            window.as_millis(),
            (took.as_millis() / 100 + 2) * 100
        );
        Err(WorkloadError::Program { program, why })
    }

    /// The run times of load and server so far. They are used only if the load runs throughout.
    fn look(&mut self) -> Result<Looked, WorkloadError> {
        match (&mut self.load, &mut self.server) {
            (Some(load), Some(server)) => load.look(server),
            _ => Ok(Looked::default()),
        }
    }

    fn in_words(&self, of_source: impl Fn(&dyn Source) -> String) -> String {
        let mut text = format!("{} ({})", shown(&self.command), self.settings.ready);
        if let Some(load) = &self.load {
            let when = if load.settings().runs == Runs::PerWindow { "once in each window" } else { "throughout" };
            text += &format!(", load {when}: {}", shown(&load.settings().command));
        }
        for source in self.sources.sources.iter().map(AsRef::as_ref).chain(self.observers.open_sources()) {
            text += &format!("; {}", of_source(source));
        }
        text + &match self.server_cpus.is_empty() {
            true => "; on whatever CPUs the kernel gives them".to_owned(),
            false => format!("; server on CPUs {}, load on CPUs {}", self.server_cpus, self.load_cpus),
        }
    }

    /// Waits for the window's length, or runs the load of the window. Returns how much CPU the load used.
    fn pass(&mut self, window: Duration, before: &Looked) -> Result<Option<Shown>, WorkloadError> {
        if let (Some(load), Some(server)) = (&mut self.load, &mut self.server)
            && load.settings().runs == Runs::PerWindow
        {
            return Ok(load.run_once(window, server, window.mul_f64(LOAD_OVERRUN_MAX))?.1);
        }
        self.watch_for(window)?;
        let now = self.look()?;
        Ok(self.load.as_mut().and_then(|load| load.note_since(before, &now)))
    }
}

impl Workload for Command {
    fn describe(&self) -> String {
        self.in_words(|source| source.describe())
    }

    fn identity(&self) -> String {
        self.in_words(|source| source.identity())
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn events_per_s(&self) -> Option<f64> {
        self.observers.events_per_s()
    }

    /// True only if evenkeel observes a tick from outside. Lines, pages and a load per window do not allow interleaving.
    fn takes_turns(&self) -> bool {
        let is_load_steady = self.load.as_ref().is_none_or(|load| load.settings().runs != Runs::PerWindow);
        is_load_steady && self.sources.sources.is_empty() && self.observers.takes_turns()
    }

    /// We do not know whether the server's packets pass a network device, so assume that they do.
    fn passes_network_devices(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        self.server.as_ref().map_or_else(Vec::new, |server| server.stats().iter().map(|stat| stat.pid).collect())
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        self.switch(knob, value).or_else(|error| {
            // If the server has ended, report its end instead of the setting that failed.
            self.server.as_mut().map_or(Ok(()), |server| server.watch_until(0))?;
            Err(error)
        })
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.end_server();
        // After a restart, the thread numbers may belong to other threads, so forget their values.
        (self.knobs, self.mover) = (ProcessKnobs::default(), Mover::default());
        // The load starts with its original CPUs. The current placement is applied after the start.
        if let Some(load) = &mut self.load {
            load.run_on(self.load_cpus.clone());
        }
        self.start_server()
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        self.try_load(window)?;
        self.watch_for(settle)?;
        for source in &mut self.sources.sources {
            source.begin()?;
        }
        self.observers.begin()?;
        let looked = self.look()?;
        let before = Used::until_now(&self.server()?.alive());
        begin();
        let shown = self.pass(window, &looked)?;
        let mut sample = Sample::new();
        Used::until_now(&self.server()?.alive()).put_since(&before, &mut sample);
        if let Some(shown) = shown {
            sample.insert("load_busiest_share".into(), shown.busiest);
            sample.extend(shown.cpus_used().map(|share| ("load_cpus_used_share".into(), share)));
        }
        // The first sources are those that read lines.
        let (lines, lines_from) = (self.sources.inboxes.len(), self.sources.lines_from);
        for (index, source) in self.sources.sources.iter_mut().enumerate() {
            let ended = source.end();
            // If the server has ended, report its end instead of a missing value.
            self.server.as_mut().map_or(Ok(()), |server| server.watch_until(0))?;
            sample.extend(ended.map_err(|error| match (&mut self.load, &mut self.server) {
                (Some(load), _) if index < lines && lines_from == LinesFrom::Load => load.explained(error),
                (_, Some(server)) => server.explained(error),
                (_, None) => error,
            })?);
        }
        let seen_outside = self.observers.end();
        self.server.as_mut().map_or(Ok(()), |server| server.watch_until(0))?;
        sample.extend(seen_outside?);
        if let (Some(seen), Some(server)) = (self.seen, &self.server) {
            ready::still_has(seen, server)?;
        }
        Ok(sample)
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        self.load.as_ref().and_then(Load::caveat).into_iter().collect()
    }

    fn stop(&mut self) {
        self.end_server();
        // Release the guard now. It recognizes our servers only by our process, so it would also end the next server that we start.
        drop(self.kept.take());
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        self.stop();
    }
}

fn invalid(error: InvalidMetric) -> WorkloadError {
    WorkloadError::Options(error.to_string())
}

/// The metrics of a window: first the metrics that the user named, then those observed from outside, then the kernel's counts.
fn metrics(sources: &Sources, observers: &Observers) -> Result<Vec<Metric>, InvalidMetric> {
    let seen: Vec<Metric> = observers.metrics();
    let twice = |own: &&Metric| seen.iter().any(|metric| metric.name == own.name);
    if let Some(own) = sources.metrics.iter().find(twice) {
        return Err(format!("two metrics are called {}: one is observed from outside (--observe)", own.name).into());
    }
    Ok(sources.metrics.iter().cloned().chain(seen).chain([CPU_SHARE]).collect())
}

/// A command as a user would type it.
fn shown(command: &[String]) -> String {
    shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| command.join(" "))
}
