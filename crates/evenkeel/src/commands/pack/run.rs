//! `pack run`: starts the sessions on their CPUs in the foreground,
//! or places running processes, until the user stops it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_change::{ProcessCpus, ProcessCpusError};
use evenkeel_fleet::pack::Report;
use evenkeel_host::{CpuSet, Facts};
use evenkeel_workload::command::{Foreground, ForegroundEnd};

use super::question::Question;
use crate::args::HostArgs;
use crate::commands::guard::{Guard, Undo};
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::{Failure, Outcome, exit_of};
use crate::show::pack_run::{Answer, Ended, RunSession, count};
use crate::show::{self, Out};
use crate::times;

/// The placeholder for the number of a session in the command line of a server, as in `evenkeel capacity`.
/// Numbers start at 0.
const NUMBER: &str = "{session}";
/// The placeholder for its port.
const PORT: &str = "{port}";
/// The maximum number of sessions of one run.
/// With `--pid`, each session needs one of the 1,024 changes that a guard accepts.
const SESSIONS_MAX: usize = 1000;
/// How often to check whether a session has ended.
/// The interval is long, so that evenkeel takes little CPU time from the sessions.
const LOOK: Duration = Duration::from_millis(200);
/// How many sessions to end at the same time.
const ENDED_AT_ONCE: usize = 32;

/// Start the sessions on their CPUs in the foreground, to try a placement
///
/// Places the sessions as `evenkeel pack plan` does, starts your command once for each session on the session's CPUs,
/// and ends all of them on Ctrl-C.
/// In the command, {session} stands for the number of the session from 0, and {port} for its port.
/// With --pid, it places processes that already run, in the order of the table, and restores their CPUs at the end.
/// If evenkeel is killed, the sessions also end or get their CPUs back.
/// At the end it shows the CPU time of each session next to the value in the table.
/// It does not show the output of the sessions.
#[derive(Debug, clap::Args)]
#[group(id = "to_place", required = true, args = ["pid", "command"])]
#[command(
    override_usage = "evenkeel pack run [OPTIONS] <SESSIONS.csv> -- <CMD>...\n       evenkeel pack run [OPTIONS] <SESSIONS.csv> --pid <PID>"
)]
#[command(after_help = "Examples:
  evenkeel pack run sessions.csv -- ./server --port {port}
  evenkeel pack run sessions.csv --time 60s --cpu-sets one -- ./server --port {port}
  evenkeel pack run sessions.csv --pid 4711,4712")]
pub(crate) struct Args {
    /// The sessions, as CSV
    #[arg(value_name = "SESSIONS.csv")]
    sessions: PathBuf,
    #[command(flatten)]
    question: Question,
    /// End after TIME [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    time: Option<Duration>,
    /// The port of the first session, for {port}
    #[arg(long, value_name = "PORT", default_value = "27100")]
    first_port: u16,
    /// Place running processes instead of starting a command: one for each session
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["command", "first_port"])]
    pid: Vec<u32>,
    /// Your server and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// A session that has a place.
struct Place {
    session: String,
    cpus: CpuSet,
    node: Option<u32>,
    planned_cpus: f64,
}

/// A session under way.
enum Running {
    Server(Foreground),
    Process(ProcessCpus),
    Ended(ForegroundEnd),
    /// A process that evenkeel did not start has ended.
    Gone,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = HostArgs::default().open()?;
    let machine = args.question.machine(&root, Facts::probe(&root))?;
    let report = args.question.place(&args.sessions, &machine)?;
    let places = args.places(&report)?;
    let stop = stop_flag()?;
    let mut guard = Guard::start()?;
    let begun = Instant::now();
    let started = args.start(&places, &mut guard);
    let mut running = match started {
        Ok(running) => running,
        Err(failure) => {
            guard.end()?;
            return Err(failure);
        }
    };
    let verb = if args.pid.is_empty() { "end" } else { "put back" };
    out.status(&format!("{} on their CPUs. Ctrl-C: {verb} all of them.", count(places.len())));
    let why = args.wait(&mut running, &stop, begun);
    let seconds = begun.elapsed().as_secs_f64();
    let sessions = places.iter().zip(&mut running).map(|(place, one)| place.report(one, seconds)).collect();
    end_all(running);
    guard.end()?;
    let answer =
        Answer { file: args.sessions.display().to_string(), seconds, ended: why, sessions, caveats: report.caveats };
    out.answer(&answer, || show::pack_run::page(&answer))?;
    Ok(if answer.sessions.iter().any(RunSession::has_failed) { exit::NO } else { exit::WELL })
}

impl Args {
    fn places(&self, report: &Report) -> Result<Vec<Place>, Failure> {
        let refused = |code, why: String| Failure::text(code, format_args!("run {}", self.sessions.display()), why);
        let left_out: u32 = report.left_out.iter().map(|one| one.count).sum();
        if left_out > 0 {
            let hint = "`evenkeel pack plan` shows them with the reasons; lower the counts, or raise --load-max";
            return Err(refused(exit::NO, format!("{left_out} of the sessions have no place")).hint(hint));
        }
        let places: Vec<Place> = report
            .placements
            .iter()
            .flat_map(|one| (0..one.count).map(move |_| one))
            .map(|one| Place {
                session: one.session.clone(),
                cpus: one.cpus.clone(),
                node: one.node,
                planned_cpus: one.load * one.cpus.len() as f64,
            })
            .collect();
        if places.len() > SESSIONS_MAX {
            return Err(refused(exit::WRONG_USE, format!("{} sessions, and the most is {SESSIONS_MAX}", places.len())));
        }
        let last = u32::from(self.first_port) + places.len() as u32 - 1;
        if self.command.iter().any(|word| word.contains(PORT)) && last > u32::from(u16::MAX) {
            return Err(refused(exit::WRONG_USE, format!("there is no port {last}")).hint("lower --first-port"));
        }
        if !self.pid.is_empty() && self.pid.len() != places.len() {
            let why = format!("--pid names {} for {}", self.pid.len(), count(places.len()));
            return Err(refused(exit::WRONG_USE, why).hint("give --pid one process for each session of the table"));
        }
        let mut pids = self.pid.clone();
        pids.sort_unstable();
        match pids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(refused(exit::WRONG_USE, format!("process {} is named twice", pair[0]))),
            None => Ok(places),
        }
    }

    fn start(&self, places: &[Place], guard: &mut Guard) -> Result<Vec<Running>, Failure> {
        if !self.pid.is_empty() {
            return self.pid.iter().zip(places).map(|(pid, place)| place.take(*pid, guard)).collect();
        }
        // The servers end with evenkeel. The guard also ends their child processes.
        guard.hold(&Undo::EndServersOf(std::process::id()))?;
        let start = |(number, place): (usize, &Place)| {
            let port = usize::from(self.first_port) + number;
            let word = |word: &String| word.replace(NUMBER, &number.to_string()).replace(PORT, &port.to_string());
            let server = Foreground::start(self.command.iter().map(word).collect(), place.cpus.clone());
            server.map(Running::Server).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))
        };
        // If one server does not start, dropping the others ends them.
        places.iter().enumerate().map(start).collect()
    }

    /// Waits until the user stops the run, its time is over, or no session runs.
    fn wait(&self, running: &mut [Running], stop: &Arc<AtomicBool>, begun: Instant) -> Ended {
        loop {
            running.iter_mut().for_each(Running::look);
            if stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            if running.iter().all(|one| matches!(one, Running::Ended(_) | Running::Gone)) {
                return Ended::Sessions;
            }
            if self.time.is_some_and(|time| begun.elapsed() >= time) {
                return Ended::Time;
            }
            let left = self.time.map_or(LOOK, |time| time.saturating_sub(begun.elapsed()));
            std::thread::sleep(left.min(LOOK));
        }
    }
}

impl Place {
    /// Moves a running process to the CPUs. First sends the old CPUs to the guard process.
    fn take(&self, pid: u32, guard: &mut Guard) -> Result<Running, Failure> {
        let failed = |error: ProcessCpusError| {
            let code = match &error {
                ProcessCpusError::Refused { errno, .. } => exit_of(*errno, exit::NOT_POSSIBLE),
                ProcessCpusError::Gone(_) => exit::WRONG_USE,
                _ => exit::NOT_POSSIBLE,
            };
            Failure::new(code, error)
        };
        let process = ProcessCpus::read(pid).map_err(failed)?;
        guard.hold(&Undo::RestoreCpus { process: process.clone(), placed: self.cpus.clone() })?;
        process.set(&self.cpus).map_err(failed)?;
        Ok(Running::Process(process))
    }

    fn report(&self, running: &mut Running, seconds: f64) -> RunSession {
        let cpu_ns = match running {
            Running::Server(server) => server.cpu_ns(),
            // evenkeel did not start the process, so its earlier CPU time is unknown; or the process has ended.
            Running::Process(_) | Running::Ended(_) | Running::Gone => None,
        };
        RunSession {
            session: self.session.clone(),
            pid: match running {
                Running::Server(server) => Some(server.pid()),
                Running::Process(process) => Some(process.pid),
                Running::Ended(_) | Running::Gone => None,
            },
            cpus: self.cpus.clone(),
            node: self.node,
            planned_cpus: self.planned_cpus,
            used_cpus: cpu_ns.filter(|_| seconds > 0.0).map(|ns| ns as f64 / 1e9 / seconds),
            has_failed: matches!(running, Running::Ended(end) if !end.is_success),
            ended: match running {
                Running::Ended(end) => Some(end.text.clone()),
                Running::Gone => Some("the process has ended".to_owned()),
                Running::Server(_) | Running::Process(_) => None,
            },
        }
    }
}

impl Running {
    /// Notices that it has ended.
    fn look(&mut self) {
        match self {
            Running::Server(server) => {
                if let Some(end) = server.ended() {
                    *self = Running::Ended(end);
                }
            }
            Running::Process(process) if !process.is_there() => *self = Running::Gone,
            Running::Process(_) | Running::Ended(_) | Running::Gone => {}
        }
    }
}

/// Ends the servers, several at the same time, because each may take some seconds.
fn end_all(running: Vec<Running>) {
    let mut servers: Vec<Foreground> = running
        .into_iter()
        .filter_map(|one| match one {
            Running::Server(server) => Some(server),
            Running::Process(_) | Running::Ended(_) | Running::Gone => None,
        })
        .collect();
    while !servers.is_empty() {
        let some = servers.split_off(servers.len().saturating_sub(ENDED_AT_ONCE));
        std::thread::scope(|scope| some.into_iter().for_each(|server| drop(scope.spawn(move || server.stop()))));
    }
}
