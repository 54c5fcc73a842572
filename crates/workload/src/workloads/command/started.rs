//! A user's program that evenkeel started. evenkeel watches the program while it runs.
//! At the end, evenkeel ends all of its processes, gracefully if possible.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use evenkeel_hostfs::proc::ProcessStat;
use evenkeel_sys::foreign_process::{self, Signal};
use evenkeel_sys::{CpuSet, Errno, clock, process};

use crate::error::WorkloadError;
use crate::processes::{self, Family, MARK};
use crate::workloads::command::output::{Listener, Output};

/// The names of a program's streams.
const STDOUT: &str = "standard output";
const STDERR: &str = "standard error";
/// How often to check whether all processes have ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long processes may take to disappear after SIGKILL. For large processes, the kernel needs time to free the memory.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How long to wait for the last output after a program has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program to start.
pub(super) struct Program {
    /// The program and its arguments. The program starts without a shell, in evenkeel's environment and working directory.
    pub(super) command: Vec<String>,
    /// The CPUs on which the program may run. An empty set means all CPUs of this process.
    pub(super) cpus: CpuSet,
    /// How to end the program.
    pub(super) ending: Ending,
    /// The listeners for the lines of standard output.
    pub(super) output: Vec<Listener>,
    /// The listeners for the lines of standard error.
    pub(super) errors: Vec<Listener>,
}

/// How to end a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The signal that asks the program to end.
    pub signal: Signal,
    /// How long the program may take before it is killed.
    pub limit: Duration,
}

impl Default for Ending {
    fn default() -> Ending {
        Ending { signal: Signal::TERM, limit: Duration::from_secs(10) }
    }
}

/// A program that was started.
pub(super) struct Started {
    name: String,
    child: Child,
    family: Family,
    output: Output,
    ending: Ending,
    ended: Option<ExitStatus>,
}

/// The name of a program without its folder.
pub(super) fn name_of(command: &[String]) -> String {
    let path = command.first().map(String::as_str).unwrap_or_default();
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

impl Started {
    /// Starts the program as the leader of its own process group. So a key such as Ctrl-C on the terminal reaches only evenkeel,
    /// and evenkeel can end the children of the program together with it.
    pub(super) fn start(program: &Program) -> Result<Started, WorkloadError> {
        let Some((path, arguments)) = program.command.split_first() else {
            return Err(WorkloadError::Options("no command was given".into()));
        };
        let failed = |why: String| WorkloadError::Start { program: path.clone(), why };
        // Without `adopt_orphans`, evenkeel could not find a program that goes into the background.
        // If the call fails, evenkeel only observes less.
        let _ = foreign_process::adopt_orphans();
        let mark = processes::fresh_mark();
        let mut command = Command::new(path);
        command.args(arguments).env(MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process::die_with_parent(&mut command);
        if !program.cpus.is_empty() {
            process::run_on(&mut command, &program.cpus).map_err(|errno| failed(errno.to_string()))?;
        }
        let knows_orphans = !processes::has_others_children(&processes::all());
        let mut child = command.spawn().map_err(|error| failed(why_not_started(path, &error)))?;
        let family = Family::new(child.id(), mark, knows_orphans);
        let mut output = Output::new();
        if let Some(stdout) = child.stdout.take() {
            output.drain(STDOUT, stdout, program.output.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            output.drain(STDERR, stderr, program.errors.clone());
        }
        Ok(Started { name: name_of(&program.command), child, family, output, ending: program.ending, ended: None })
    }

    /// The process number of the program, which is also the number of its group.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Call this after the program, and everything that was started since, has ended.
    /// Then remaining processes without another owner belong to the program.
    pub(super) fn take_orphans(&mut self) {
        self.family.take_orphans();
    }

    /// The living processes of the program, with the first process first.
    pub(super) fn alive(&mut self) -> Vec<ProcessStat> {
        let all = processes::all();
        self.family.reap(&all);
        self.family.alive(&all)
    }

    /// The living processes of the program, for callers that have no mutable reference.
    pub(super) fn stats(&self) -> Vec<ProcessStat> {
        self.family.clone().alive(&processes::all())
    }

    /// Waits until the monotonic clock reaches `until_ns`.
    ///
    /// # Errors
    /// Fails if the program ends earlier. The error has the exit status and the last lines.
    pub(super) fn watch_until(&mut self, until_ns: u64) -> Result<(), WorkloadError> {
        while !self.has_ended() {
            if clock::monotonic_ns() >= until_ns {
                return Ok(());
            }
            if process::await_end(&self.child, until_ns).is_err() {
                // This kernel cannot report the end of a process, so check repeatedly.
                clock::sleep_until_ns(until_ns.min(clock::monotonic_ns() + 5_000_000));
            }
        }
        Err(self.error_of_end())
    }

    /// Waits at most `limit` for the program to end. Returns how it ended.
    pub(super) fn await_end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = clock::monotonic_ns().saturating_add(ns);
        while !self.has_ended() && clock::monotonic_ns() < until_ns {
            if process::await_end(&self.child, until_ns).is_err() {
                clock::sleep_until_ns(until_ns.min(clock::monotonic_ns() + 5_000_000));
            }
        }
        self.ended
    }

    /// Waits at most `limit` for the program's last output.
    pub(super) fn await_output(&mut self, limit: Duration) {
        self.output.await_end(limit);
    }

    fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// How the program ended. `None` while it runs.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// The error for a program that has ended, with its exit status.
    pub(super) fn error_of_end(&mut self) -> WorkloadError {
        self.output.await_end(LAST_WORDS);
        let how = self.ended.map_or_else(|| "it runs".to_owned(), |status| format!("it ended ({status})"));
        let alive = self.alive();
        let Some(left) = alive.first() else { return self.error(how) };
        let name = std::fs::read_to_string(format!("/proc/{}/comm", left.pid)).unwrap_or_default();
        let why = format!(
            "{how} and left {} ({}) running in the background, which is ended too: a server must stay in the foreground to be measured; \
             most servers have an option for that (such as --daemonize no)",
            name.trim(),
            left.pid
        );
        self.stop();
        self.error(why)
    }

    /// An error about the program, with its last lines.
    pub(super) fn error(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Program { program: self.name.clone(), why: why.into() + &self.output.last() }
    }

    /// Adds to an error why the program's values are missing: whether the program has ended or is stopped, and its last lines.
    pub(super) fn explained(&mut self, error: WorkloadError) -> WorkloadError {
        let (source, why, has_no_value) = match error {
            WorkloadError::Program { program, why } => (program, why, false),
            WorkloadError::NoValue { program, why } => (program, why, true),
            other => return other,
        };
        let mut goes_on = has_no_value;
        let state = match self.stopped() {
            Some(pid) => {
                goes_on = false;
                format!("its process {pid} is stopped (SIGSTOP, or a debugger)")
            }
            None => {
                let closed: Vec<&str> =
                    [STDOUT, STDERR].into_iter().filter(|name| self.output.is_closed(name)).collect();
                goes_on &= closed.is_empty();
                let closed = if closed.is_empty() {
                    String::new()
                } else {
                    format!(" and has closed its {}", closed.join(" and "))
                };
                format!("its process {} lives{closed}", self.pid())
            }
        };
        let why = format!("{state}; {why} ({source})");
        match goes_on {
            // The program may print a value in the next window.
            true => WorkloadError::NoValue { program: self.name.clone(), why: why + &self.output.last() },
            false => self.error(why),
        }
    }

    /// The number of one of the program's processes that is stopped. None if no process is stopped.
    fn stopped(&mut self) -> Option<u32> {
        self.alive().iter().find(|stat| matches!(stat.state, 'T' | 't')).map(|stat| stat.pid)
    }

    /// Ends all processes of the program: asks them to end, and kills them after the time limit.
    pub(super) fn stop(&mut self) {
        let mut signal = self.ending.signal;
        let mut until = Instant::now() + self.ending.limit;
        self.signal(signal);
        // A stopped process does not handle the other signal until it continues.
        if self.stopped().is_some() {
            self.signal(Signal::CONT);
        }
        loop {
            let alive = self.alive();
            if self.has_ended() && alive.is_empty() {
                return;
            }
            if Instant::now() >= until {
                if signal == Signal::KILL {
                    return;
                }
                signal = Signal::KILL;
                until = Instant::now() + KILL_LIMIT;
            }
            // Repeat the kill, because the program may start processes while it is being killed.
            if signal == Signal::KILL {
                self.signal(signal);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends a signal to the program's group, and to members that have left the group.
    fn signal(&mut self, signal: Signal) {
        let group = self.pid();
        let alive = self.alive();
        if alive.iter().any(|stat| stat.group == group) {
            let _ = foreign_process::signal_group(group, signal);
        }
        for stat in alive.iter().filter(|stat| stat.group != group) {
            let is_it = || ProcessStat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
            let _ = foreign_process::signal_if(stat.pid, signal, is_it);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

fn why_not_started(path: &str, error: &std::io::Error) -> String {
    let errno = Errno::from(error);
    match error.kind() {
        ErrorKind::NotFound if path.contains(' ') => format!(
            "{errno}; it is started without a shell: give program and arguments apart, or `sh -c '…'` for what needs one"
        ),
        ErrorKind::NotFound if !path.contains('/') => format!("{errno}; no folder in PATH contains it"),
        ErrorKind::PermissionDenied => format!("{errno}; it must be a program that may be run (chmod +x)"),
        _ if error.raw_os_error().is_some() => errno.to_string(),
        _ => error.to_string(),
    }
}
