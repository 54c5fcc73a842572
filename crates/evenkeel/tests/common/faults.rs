//! Starts the program, and reads the host settings that it might leave changed.

use std::fs;
use std::process::{Command, Stdio};

pub(crate) const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

pub(crate) fn evenkeel(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The settings that a meter or a disturber might leave changed, and its control groups.
/// The names of the groups begin with `evenkeel-` and `run`.
pub(crate) fn state(run: &str) -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut seen = vec![
        read(CLOCK_SOURCE),
        read("/sys/devices/system/cpu/online"),
        read("/proc/self/mountinfo"),
        read("/proc/sys/kernel/sched_rt_runtime_us"),
        read("/proc/sys/kernel/perf_event_paranoid"),
        read("/sys/kernel/mm/transparent_hugepage/enabled"),
    ];
    for top in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset", "/run/netns"] {
        let names = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let prefix = format!("evenkeel-{run}");
        let mut ours: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(&prefix)).collect();
        ours.sort();
        seen.push(format!("{top}: {ours:?}"));
    }
    seen
}
