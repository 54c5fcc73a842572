//! Gives the machine that runs the tests to one test at a time: a sysctl to change, and a separate journal.
//! At the end, everything is restored.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use evenkeel_testkit::{HostLock, skipped};

pub(crate) const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

/// This machine, which only one test at a time may use.
/// At the end, `Drop` restores the value of the sysctl, even after a failure.
pub(crate) struct Live {
    _host: HostLock,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) before: String,
}

impl Live {
    /// Prints a skip and returns `None` if this user may not change the machine.
    pub(crate) fn take() -> Option<Live> {
        let host = HostLock::take();
        let before = fs::read_to_string(SWAPPINESS).unwrap();
        if fs::write(SWAPPINESS, &before).is_err() {
            skipped(format_args!("writing {SWAPPINESS} needs root"));
            return None;
        }
        Some(Live { _host: host, folder: tempfile::tempdir().unwrap(), before })
    }

    pub(crate) fn now(&self) -> String {
        fs::read_to_string(SWAPPINESS).unwrap()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(line.split(' ')).arg("--state").arg(self.state());
        command.current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// A value that differs from the original.
    pub(crate) fn other(&self) -> &'static str {
        if self.before.trim() == "17" { "18" } else { "17" }
    }

    /// The process number of the watchdog of this journal's change; `None` without a watchdog.
    pub(crate) fn watchdog(&self) -> Option<u32> {
        let state = self.state().display().to_string();
        fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            let is_it = words.contains(&b"watchdog".as_slice()) && words.contains(&state.as_bytes());
            is_it.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(pid) = self.watchdog() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        fs::write(SWAPPINESS, &self.before).unwrap();
    }
}
