//! `Context`: the parts that all subcommands share.
//! They are the stop flag, the command that runs during the disturbance, the time limit, and the output.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_measure::MeterError;
use evenkeel_sys::{Errno, clock, process};
use serde::Serialize;

use super::values;
use crate::commands::measure;
use crate::exit::{self, Exit};
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::show::{Out, json};
use crate::view::{Block, terminal};

/// How often to check the stop flag while a command runs.
/// The interval is long, because each check disturbs the command.
const LOOK_EVERY_NS: u64 = 200_000_000;
/// How often to check the stop flag if no command runs.
const IDLE_LOOK_NS: u64 = 20_000_000;

/// How long a command has from SIGTERM to SIGKILL.
const GRACE_NS: u64 = 5_000_000_000;

/// The options for the duration and the command.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Limit of the duration [default: 10; with a command 14400]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(super) seconds: Option<Duration>,
    /// Also write the actual disturbance to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The command to run during the disturbance. evenkeel exits with its exit code: 128 or more if a signal ended it
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// A disturbance that has started.
pub(super) trait Disturbance {
    type Report: Serialize + schemars::JsonSchema;

    /// Changes how evenkeel starts the command, for example on which CPUs.
    fn prepare(&self, _: &mut Command) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when the time limit has passed and the command continues.
    /// Disturbances that consist of threads end by themselves.
    fn time_is_over(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Ends the disturbance, restores everything, and reports the actual disturbance.
    fn stop(self) -> Result<Self::Report, Failure>;
}

/// Implements `Disturbance` for kinds that consist only of threads.
macro_rules! of_threads {
    ($($kind:ident),+) => {
        $(impl $crate::commands::disturb::context::Disturbance for $kind::Running {
            type Report = $kind::Report;

            fn stop(self) -> Result<Self::Report, $crate::failure::Failure> {
                Ok($kind::Running::stop(self))
            }
        })+
    };
}

pub(super) use of_threads;

/// The user's request, for the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct What<'a, A> {
    pub(super) kind: &'static str,
    pub(super) by: &'static str,
    pub(super) asked: &'a A,
    pub(super) run: &'a RunArgs,
}

/// The report.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Answer<'a, A, R> {
    kind: &'static str,
    by: &'static str,
    asked: &'a A,
    /// How long the disturbance lasted, in nanoseconds.
    disturbed_ns: u64,
    ended_by: EndedBy,
    /// The command; `null` if the user named none.
    command: Option<Ran>,
    did: R,
}

/// Why the disturbance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndedBy {
    /// The command has ended.
    Command,
    /// The time limit was reached.
    Time,
    /// SIGINT or SIGTERM arrived.
    Signal,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Ran {
    exit_code: u8,
    signal: Option<i32>,
    wall_ns: u64,
}

impl Ran {
    fn from_status(status: ExitStatus, wall_ns: u64) -> Ran {
        let signal = status.signal();
        // The exit code that a shell would report for the end of this command.
        let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
        Ran { exit_code: u8::try_from(code).unwrap_or(u8::MAX), signal, wall_ns }
    }
}

/// The stop flag and the output of a subcommand.
pub(crate) struct Context<'a> {
    out: &'a Out,
    stop: Arc<AtomicBool>,
}

impl<'a> Context<'a> {
    pub(super) fn new(out: &'a Out, host: Option<&Path>) -> Result<Context<'a>, Failure> {
        if let Some(host) = host {
            let why = "a captured machine can't be disturbed; run it on the machine itself";
            return Err(Failure::text(exit::NOT_POSSIBLE, format!("disturb {}", host.display()), why));
        }
        Ok(Context { out, stop: experiment::stop_flag()? })
    }

    pub(super) fn out(&self) -> &Out {
        self.out
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Starts the disturbance, waits for the command or the time limit, ends the disturbance, and reports.
    pub(super) fn disturb<A: Serialize + schemars::JsonSchema, D: Disturbance>(
        &self,
        what: What<'_, A>,
        start: impl FnOnce(u64) -> Result<D, Failure>,
        page: impl Fn(&D::Report) -> Vec<Block>,
    ) -> Outcome {
        let alone = what.run.command.is_empty();
        let limit = what.run.seconds.unwrap_or(if alone { Duration::from_secs(10) } else { values::longest() });
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let start_ns = clock::monotonic_ns();
        let until_ns = start_ns.saturating_add(limit_ns);
        let mut disturbance = start(until_ns)?;
        let (ended_by, end_ns, command) = if alone {
            let ended_by = self.sleep(until_ns);
            (ended_by, clock::monotonic_ns(), None)
        } else {
            let mut child = self.spawn(&what.run.command, &disturbance)?;
            let (ended_by, end_ns) = self.accompany(&mut child, until_ns, &mut disturbance)?;
            let status = wait(&mut child)?;
            (ended_by, end_ns, Some(Ran::from_status(status, clock::monotonic_ns() - start_ns)))
        };
        let did = disturbance.stop()?;
        let disturbed_ns = end_ns.min(until_ns) - start_ns;
        let What { kind, by, asked, run } = what;
        let answer = Answer { kind, by, asked, disturbed_ns, ended_by, command, did };
        self.report(&answer, run.record.as_deref(), &page(&answer.did))?;
        Ok(command.map_or(exit::WELL, |ran| Exit { code: ran.exit_code, meaning: "the command's own" }))
    }

    fn report<A: Serialize + schemars::JsonSchema, R: Serialize + schemars::JsonSchema>(
        &self,
        answer: &Answer<'_, A, R>,
        record: Option<&Path>,
        page: &[Block],
    ) -> Result<(), Failure> {
        if let Some(file) = record {
            let written = std::fs::write(file, json::answer(answer)?);
            written.map_err(|error| output_file::failure(file, &error))?;
        }
        let mut whole = vec![
            Block::heading(format!("Disturbance: {}, {}", answer.kind, answer.by)),
            Block::row(
                "duration",
                format!("{:.3} s, ended by {}", answer.disturbed_ns as f64 / 1e9, answer.ended_by.words()),
            ),
        ];
        whole.extend_from_slice(page);
        match &answer.command {
            // Write nothing to standard output, because the command uses it.
            Some(_) if !self.out.is_json() => self.out.warn_page(&terminal::text(&whole)),
            _ => self.out.answer(answer, || terminal::text(&whole))?,
        }
        Ok(())
    }

    fn sleep(&self, until_ns: u64) -> EndedBy {
        loop {
            let now_ns = clock::monotonic_ns();
            if self.stopped() {
                return EndedBy::Signal;
            }
            if now_ns >= until_ns {
                return EndedBy::Time;
            }
            clock::sleep_until_ns(until_ns.min(now_ns + IDLE_LOOK_NS));
        }
    }

    fn spawn(&self, words: &[OsString], disturbance: &impl Disturbance) -> Result<Child, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::text(exit::WRONG_USE, "run a command", "there is none"));
        };
        let tried = format!("run {}", Path::new(program).display());
        let mut command = Command::new(program);
        command.args(arguments);
        if self.out.is_json() {
            let stderr = io::stderr().as_fd().try_clone_to_owned();
            let stderr = stderr.map_err(|error| Failure::io(exit::NOT_POSSIBLE, &tried, &error))?;
            command.stdout(Stdio::from(stderr));
        }
        disturbance.prepare(&mut command)?;
        process::die_with_parent(&mut command).spawn().map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound;
            Failure::io(if missing { exit::WRONG_USE } else { exit::NOT_POSSIBLE }, &tried, &error)
        })
    }

    /// Waits until the command ends or a signal arrives. Returns why and when the disturbance ended.
    fn accompany(
        &self,
        child: &mut Child,
        until_ns: u64,
        disturbance: &mut impl Disturbance,
    ) -> Result<(EndedBy, u64), Failure> {
        let mut over = None;
        loop {
            let now_ns = clock::monotonic_ns();
            if self.stopped() {
                process::ask_to_end(child.id());
                if await_end(child, now_ns + GRACE_NS)? == process::Doing::Runs {
                    let _ = child.kill();
                }
                return Ok(over.unwrap_or((EndedBy::Signal, now_ns)));
            }
            if over.is_none() && now_ns >= until_ns {
                disturbance.time_is_over()?;
                over = Some((EndedBy::Time, now_ns));
            }
            let next_ns = if over.is_none() { until_ns.min(now_ns + LOOK_EVERY_NS) } else { now_ns + LOOK_EVERY_NS };
            if await_end_or_signal(child, next_ns)? == process::Doing::Ended {
                return Ok(over.unwrap_or((EndedBy::Command, clock::monotonic_ns())));
            }
        }
    }
}

impl EndedBy {
    fn words(self) -> &'static str {
        match self {
            EndedBy::Command => "the command",
            EndedBy::Time => "the time limit",
            EndedBy::Signal => "a signal",
        }
    }
}

/// Waits for the end of the command without checking the stop flag,
/// because a second signal must not shorten the grace period.
fn await_end(child: &Child, until_ns: u64) -> Result<process::Doing, Failure> {
    loop {
        let doing = await_end_or_signal(child, until_ns)?;
        if doing == process::Doing::Ended || clock::monotonic_ns() >= until_ns {
            return Ok(doing);
        }
    }
}

fn await_end_or_signal(child: &Child, until_ns: u64) -> Result<process::Doing, Failure> {
    process::await_end(child, until_ns)
        .map_err(|errno: Errno| Failure::text(exit::NOT_POSSIBLE, "wait for the command", errno))
}

fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    child.wait().map_err(|error| Failure::io(exit::NOT_POSSIBLE, "wait for the command", &error))
}

/// Converts a meter's error to a failure with its exit code.
pub(super) fn failure(error: MeterError) -> Failure {
    measure::failure(error)
}
