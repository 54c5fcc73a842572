//! The server's own process, by its systemd unit: whether it runs with what the unit's drop-in says, or was started before.

use evenkeel_hostfs::Root;
use evenkeel_sys::CpuSet;

/// The first process of a unit, under either version of control groups; none where it does not run.
pub(crate) fn main_process(root: &Root, unit: &str) -> Option<u32> {
    let group = |mount: &str| format!("{mount}/system.slice/{unit}/cgroup.procs");
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"];
    let text = mounts.iter().find_map(|mount| root.text(&group(mount)).ok().filter(|text| !text.trim().is_empty()))?;
    text.split_whitespace().next()?.parse().ok()
}

/// Whether a process has a property as a knob of the server wants it; none where that can't be read.
pub(crate) fn has(root: &Root, pid: u32, knob: &str, wanted: &str) -> Option<bool> {
    let read = |file: &str| root.text(&format!("/proc/{pid}/{file}")).ok();
    let field = |text: String, key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    };
    match knob {
        "process.timer_slack_ns" => Some(read("timerslack_ns")?.trim() == wanted),
        "process.cpu_affinity" => {
            let cpus = field(read("status")?, "Cpus_allowed_list:")?;
            Some(CpuSet::parse_list(&cpus)? == CpuSet::parse_list(wanted)?)
        }
        "process.memory_lock" => {
            let limit = field(read("limits")?, "Max locked memory")?;
            Some(limit.starts_with("unlimited") == (wanted == "all"))
        }
        "process.numa_policy" => {
            let node = format!("bind:{wanted}");
            // The first mapping is the program's own: it follows the policy of its process.
            Some(read("numa_maps")?.lines().next()?.split_whitespace().nth(1)? == node)
        }
        "process.glibc_hugetlb" => {
            let tunable = format!("glibc.malloc.hugetlb={wanted}");
            Some(read("environ")?.split('\0').any(|variable| {
                variable.strip_prefix("GLIBC_TUNABLES=").is_some_and(|all| all.split(':').any(|one| one == tunable))
            }))
        }
        "irqbalance.banned_cpus" => {
            let wanted = CpuSet::parse_list(wanted)?;
            let environ = read("environ")?;
            let value = |name: &str| environ.split('\0').filter_map(|variable| variable.strip_prefix(name)).next_back();
            let list = value("IRQBALANCE_BANNED_CPULIST=").and_then(CpuSet::parse_list);
            let mask = || value("IRQBALANCE_BANNED_CPUS=").and_then(CpuSet::parse_mask);
            Some(list.or_else(mask).is_some_and(|banned| banned == wanted))
        }
        "process.sched_policy" => {
            // The name, in brackets, may hold anything; the policy is the 39th field after it (proc(5)).
            let stat = read("stat")?;
            let policy = stat.rsplit_once(')')?.1.split_whitespace().nth(38)?;
            let number = match wanted {
                "fifo" => "1",
                "rr" => "2",
                _ => "0",
            };
            Some(policy == number)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn a_process_is_judged_by_what_the_kernel_tells_of_it() {
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
            assert_eq!(has(&root, 41, knob, wanted), expected, "{knob}={wanted}");
        }
    }
}
