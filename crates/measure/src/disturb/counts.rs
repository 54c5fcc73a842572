//! Per-CPU counts from /proc/interrupts and /proc/softirqs: the kernel's record of a storm, independent of the disturber's report.

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::parse_per_cpu;

/// The current sum of the rows `labels` for each CPU. None for a CPU without such a row.
pub(super) fn now(file: &str, labels: &[&str], cpus: &[usize]) -> Vec<Option<u64>> {
    let text = Root::live().text(file).unwrap_or_default();
    let table = parse_per_cpu(&text);
    cpus.iter().map(|cpu| labels.iter().map(|label| table.count(label, *cpu)).sum()).collect()
}
