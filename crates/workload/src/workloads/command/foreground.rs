//! A program that runs in the foreground on given CPUs, without load and windows. When the program ends, evenkeel ends all of its processes.

use evenkeel_sys::{CpuSet, foreign_process};

use crate::error::WorkloadError;
use crate::workloads::command::started::{Ending, Program, Started};

/// A running program. The program is ended when this process ends, and when this value is dropped.
pub struct Foreground(Started);

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForegroundEnd {
    /// Whether the exit code was 0.
    pub is_success: bool,
    /// How the program ended, and its last lines.
    pub text: String,
}

impl Foreground {
    /// Starts `command` on `cpus`, without a shell. Reads its output, and stores the last lines.
    ///
    /// # Errors
    /// Fails if the command does not start.
    pub fn start(command: Vec<String>, cpus: CpuSet) -> Result<Foreground, WorkloadError> {
        let program = Program { command, cpus, ending: Ending::default(), output: Vec::new(), errors: Vec::new() };
        Started::start(&program).map(Foreground)
    }

    /// The number of the program's first process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// How the program ended. `None` while the program runs. Processes that the program left in the background are then ended too.
    pub fn ended(&mut self) -> Option<ForegroundEnd> {
        let status = self.0.status()?;
        let text = match self.0.error_of_end() {
            WorkloadError::Program { why, .. } => why,
            other => other.to_string(),
        };
        Some(ForegroundEnd { is_success: status.success(), text })
    }

    /// The CPU time that the program's processes have used since their start, in nanoseconds. `None` if no process runs or can be read.
    pub fn cpu_ns(&mut self) -> Option<u64> {
        self.0.alive().iter().filter_map(|stat| foreign_process::cpu_ns(stat.pid).ok()).reduce(u64::saturating_add)
    }

    /// Asks the program to end, and kills all remaining processes after 10 s.
    pub fn stop(mut self) {
        self.0.stop();
    }
}
