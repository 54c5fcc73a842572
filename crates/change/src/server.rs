//! Checks the server's process through its systemd unit: whether it runs with the settings of the unit's drop-in, or
//! was started before.

use evenkeel_host::Knob;
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::field;
use evenkeel_sys::CpuSet;

/// The first process of a unit, under either version of control groups; `None` if it does not run.
pub(crate) fn main_process(root: &Root, unit: &str) -> Option<u32> {
    let slice = slice(unit);
    let group = |mount: &str| format!("{mount}/{slice}/{unit}/cgroup.procs");
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"];
    let text = mounts.iter().find_map(|mount| root.text(&group(mount)).ok().filter(|text| !text.trim().is_empty()))?;
    text.split_whitespace().next()?.parse().ok()
}

/// The folder of a unit's control group in systemd's default slice. The instances of a template have a slice of their own. systemd escapes
/// `-` and `\` of the template in its name.
fn slice(unit: &str) -> String {
    match unit.split_once('@') {
        Some((template, _)) => {
            format!("system.slice/system-{}.slice", template.replace('\\', r"\x5c").replace('-', r"\x2d"))
        }
        None => "system.slice".to_owned(),
    }
}

/// The CPUs that a process may run on; `None` if that cannot be read.
pub(crate) fn cpus(root: &Root, pid: u32) -> Option<CpuSet> {
    let status = root.text(&format!("/proc/{pid}/status")).ok()?;
    CpuSet::parse_list(field(&status, "Cpus_allowed_list", ':')?)
}

/// Whether a process has the property that a setting of this knob wants; `None` if that cannot be read.
pub(crate) fn has(root: &Root, pid: u32, knob: &Knob, wanted: &str) -> Option<bool> {
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
            ("process.timer_slack_ns", "1", Some(true)),
            ("process.timer_slack_ns", "50000", Some(false)),
            ("process.cpu_affinity", "1-2", Some(true)),
            ("process.cpu_affinity", "0-2", Some(false)),
            ("process.memory_lock", "all", Some(true)),
            ("process.numa_policy", "1", Some(true)),
            ("process.numa_policy", "0", Some(false)),
            ("process.sched_policy", "fifo", Some(true)),
            ("process.sched_policy", "rr", Some(false)),
            ("irqbalance.banned_cpus", "2-3", Some(true)),
            ("irqbalance.banned_cpus", "2", Some(false)),
            ("process.glibc_hugetlb", "1", Some(false)),
            ("process.sched_slice_ns", "100000", None),
        ];
        for (knob, wanted, expected) in table {
            assert_eq!(has(&root, 41, knobs::find(knob).unwrap(), wanted), expected, "{knob}={wanted}");
        }
    }
}
