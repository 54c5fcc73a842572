//! Checks the server's process through its systemd unit:
//! whether the process runs with the settings of the unit's drop-in, or started before the drop-in was written.

use evenkeel_host::{Knob, ProcessValue};
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{TICK_NS, field, parse_process, parse_stat};
use evenkeel_sys::CpuSet;

/// The first process of a unit, under either version of control groups; `None` if the unit does not run.
pub(crate) fn main_process(root: &Root, unit: &str) -> Option<u32> {
    let slice = slice(unit);
    let group = |mount: &str| format!("{mount}/{slice}/{unit}/cgroup.procs");
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"];
    let text = mounts.iter().find_map(|mount| root.text(&group(mount)).ok().filter(|text| !text.trim().is_empty()))?;
    text.split_whitespace().next()?.parse().ok()
}

/// The folder of a unit's control group in systemd's default slice. The instances of a template have their own slice.
/// In the name of that slice, systemd escapes `-` and `\` of the template.
fn slice(unit: &str) -> String {
    match unit.split_once('@') {
        Some((template, _)) => {
            format!("system.slice/system-{}.slice", template.replace('\\', r"\x5c").replace('-', r"\x2d"))
        }
        None => "system.slice".to_owned(),
    }
}

/// The CPUs that a process may run on; `None` if evenkeel cannot read them.
pub(crate) fn cpus(root: &Root, pid: u32) -> Option<CpuSet> {
    let status = root.text(&format!("/proc/{pid}/status")).ok()?;
    CpuSet::parse_list(field(&status, "Cpus_allowed_list", ':')?)
}

/// When a process was started, in nanoseconds since 1970; `None` if evenkeel cannot read it.
/// Setting the clock after the start changes the result.
pub(crate) fn started_at_ns(root: &Root, pid: u32) -> Option<u64> {
    let boot_s = parse_stat(&root.text("/proc/stat").ok()?)?.boot_s?;
    let text = root.text(&format!("/proc/{pid}/stat")).ok()?;
    let (process, _) = parse_process(&text)?;
    boot_s.checked_mul(1_000_000_000)?.checked_add(process.start_ticks.checked_mul(TICK_NS)?)
}

/// Whether a process has the property that a setting of this knob wants; `None` if evenkeel cannot read it.
pub(crate) fn has(root: &Root, pid: u32, knob: &Knob, wanted: &str) -> Option<ProcessValue> {
    let file = |name: &str| root.text(&format!("/proc/{pid}/{name}")).ok();
    (knob.extras.process?.has?)(&file, wanted)
}

#[cfg(test)]
mod tests {
    use evenkeel_host::knobs;
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn a_process_is_judged_by_the_kernels_report() {
        let fields = "S 1 2 3 ".to_owned() + &"0 ".repeat(34);
        let text = format!(
            "evenkeel-capture 1\n/sys/fs/cgroup/systemd/system.slice/m.service/cgroup.procs =\n| 41\n| 42\n\
             /proc/41/timerslack_ns = 1\n/proc/41/status =\n| Name:\tm\n| Cpus_allowed_list:\t1-2\n\
             /proc/41/limits =\n| Max locked memory         unlimited            unlimited            bytes\n\
             /proc/41/environ = A=1\\x00IRQBALANCE_BANNED_CPULIST=2-3\\x00\n/proc/41/numa_maps = 5600 bind:1 file=/usr/bin/m\n/proc/41/stat = 41 (a ) b) {fields}1 0 0\nend\n"
        );
        let root = Root::captured(Capture::parse(&text).unwrap());
        assert_eq!(main_process(&root, "m.service"), Some(41));
        assert_eq!(main_process(&root, "other.service"), None);
        assert_eq!(slice("my-game@1.service"), r"system.slice/system-my\x2dgame.slice");
        let table = [
            ("process.timer_slack_ns", "1", Some("")),
            ("process.timer_slack_ns", "50000", Some("1")),
            ("process.cpu_affinity", "1-2", Some("")),
            ("process.cpu_affinity", "0-2", Some("1-2")),
            ("process.memory_lock", "all", Some("")),
            ("process.numa_policy", "1", Some("")),
            ("process.numa_policy", "0", Some("bind:1")),
            ("process.sched_policy", "fifo", Some("")),
            ("process.sched_policy", "rr", Some("policy 1")),
            ("irqbalance.banned_cpus", "2-3", Some("")),
            ("irqbalance.banned_cpus", "2", Some("2-3")),
            ("process.glibc_hugetlb", "1", Some("no GLIBC_TUNABLES")),
            ("process.sched_slice_ns", "100000", None),
        ];
        for (knob, wanted, expected) in table {
            let expected = expected.map(|other| match other {
                "" => ProcessValue::Wanted,
                other => ProcessValue::Other(other.to_owned()),
            });
            assert_eq!(has(&root, 41, knobs::find(knob).unwrap(), wanted), expected, "{knob}={wanted}");
        }
    }
}
