//! A program that runs in the foreground on its CPUs, without a load and without windows. It is ended with all its processes.

use evenkeel_sys::{CpuSet, foreign_process};

use crate::error::WorkloadError;
use crate::workloads::command::started::{Ending, Program, Started};

/// A running program. It ends with this process, and when this is dropped.
pub struct Foreground(Started);

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForegroundEnd {
    /// Whether its exit code was 0.
    pub is_success: bool,
    /// How it ended, and its last lines.
    pub text: String,
}

impl Foreground {
    /// Starts `command` on `cpus`, without a shell. Its output is drained, and its last lines are kept.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(command: Vec<String>, cpus: CpuSet) -> Result<Foreground, WorkloadError> {
        let program = Program { command, cpus, ending: Ending::default(), output: Vec::new(), errors: Vec::new() };
        Started::start(&program).map(Foreground)
    }

    /// The number of its first process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// How it ended; `None` while it runs. What it left running in the background is ended too.
    pub fn ended(&mut self) -> Option<ForegroundEnd> {
        let status = self.0.status()?;
        let text = match self.0.error_of_end() {
            WorkloadError::Program { why, .. } => why,
            other => other.to_string(),
        };
        Some(ForegroundEnd { is_success: status.success(), text })
    }

    /// The CPU time of its processes since each began, in nanoseconds; `None` if none runs or can be read.
    pub fn cpu_ns(&mut self) -> Option<u64> {
        self.0.alive().iter().filter_map(|stat| foreign_process::cpu_ns(stat.pid).ok()).reduce(u64::saturating_add)
    }

    /// Ends it in good order, and kills what remains after 10 s.
    pub fn stop(mut self) {
        self.0.stop();
    }
}
