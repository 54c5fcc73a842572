//! Sysctls that evenkeel never writes, each with its reason: they can cut the connection, stop the machine, open it, or can't be undone.

/// Patterns of paths below /proc/sys with the reason. A pattern that ends with `*` covers everything that begins like it; one that begins
/// with `*` covers every path with that part.
pub(crate) const NEVER: &[(&str, &str)] = &[
    ("*panic", PANIC),
    ("kernel/sysrq*", PANIC),
    ("kernel/softlockup_all_cpu_backtrace", PANIC),
    ("vm/panic_on_oom", PANIC),
    ("vm/overcommit_*", MEMORY),
    ("vm/oom_*", MEMORY),
    ("vm/admin_reserve_kbytes", MEMORY),
    ("vm/user_reserve_kbytes", MEMORY),
    ("vm/lowmem_reserve_ratio", MEMORY),
    ("vm/max_map_count", MEMORY),
    ("vm/nr_hugepages_mempolicy", MEMORY),
    ("vm/nr_overcommit_hugepages", MEMORY),
    ("vm/drop_caches", ACTION),
    ("vm/compact_memory", ACTION),
    ("net/ipv4/route/flush", ACTION),
    ("net/ipv6/route/flush", ACTION),
    ("vm/stat_refresh", ACTION),
    ("kernel/modules_disabled", ONE_WAY),
    ("kernel/kexec_*", ONE_WAY),
    ("kernel/unprivileged_bpf_disabled", ONE_WAY),
    ("kernel/yama/*", OPEN),
    ("kernel/randomize_va_space", OPEN),
    ("kernel/kptr_restrict", OPEN),
    ("kernel/dmesg_restrict", OPEN),
    ("kernel/perf_event_paranoid", OPEN),
    ("kernel/unprivileged_*", OPEN),
    ("kernel/apparmor*", OPEN),
    ("kernel/io_uring_*", OPEN),
    ("kernel/core_*", OPEN),
    ("kernel/modprobe", OPEN),
    ("kernel/hotplug", OPEN),
    ("kernel/poweroff_cmd", OPEN),
    ("kernel/usermodehelper/*", OPEN),
    ("kernel/seccomp/*", OPEN),
    ("kernel/keys/*", OPEN),
    ("kernel/firmware_config/*", OPEN),
    ("kernel/ftrace*", OPEN),
    ("kernel/stack_tracer_enabled", OPEN),
    ("kernel/hostname", IDENTITY),
    ("kernel/domainname", IDENTITY),
    ("kernel/ns_last_pid", IDENTITY),
    ("kernel/pid_max", LIMIT),
    ("kernel/threads-max", LIMIT),
    ("fs/file-max", LIMIT),
    ("fs/nr_open", LIMIT),
    ("fs/aio-max-nr", LIMIT),
    ("fs/inotify/*", LIMIT),
    ("fs/mount-max", LIMIT),
    ("fs/pipe-*", LIMIT),
    ("user/*", LIMIT),
    ("fs/protected_*", OPEN),
    ("fs/suid_dumpable", OPEN),
    ("fs/binfmt_misc/*", OPEN),
    ("vm/mmap_*", OPEN),
    ("vm/legacy_va_layout", OPEN),
    ("vm/unprivileged_userfaultfd", OPEN),
    ("vm/memfd_noexec", OPEN),
    ("net/core/bpf_*", OPEN),
    ("net/ipv4/tcp_syncookies", OPEN),
    ("net/ipv4/ip_unprivileged_port_start", OPEN),
    ("net/ipv4/ping_group_range", OPEN),
    ("net/ipv4/conf/*", CUT),
    ("net/ipv6/*", CUT),
    ("net/ipv4/ip_forward*", CUT),
    ("net/ipv4/icmp_*", CUT),
    ("net/ipv4/ip_local_*", CUT),
    ("net/ipv4/fwmark_*", CUT),
    ("net/ipv4/fib_*", CUT),
    ("net/ipv4/tcp_mem", CUT),
    ("net/ipv4/tcp_min_snd_mss", CUT),
    ("net/ipv4/tcp_base_mss", CUT),
    ("net/ipv4/tcp_mtu_*", CUT),
    ("net/ipv4/tcp_retries*", CUT),
    ("net/ipv4/tcp_syn*retries", CUT),
    ("net/ipv4/tcp_orphan_retries", CUT),
    ("net/ipv4/ip_default_ttl", CUT),
    ("net/ipv4/ip_no_pmtu_disc", CUT),
    ("net/ipv4/neigh/*", CUT),
    ("net/bridge/*", CUT),
    ("net/mptcp/*", CUT),
    ("net/netfilter/*", CUT),
    ("net/unix/*", CUT),
    ("net/core/devconf_*", CUT),
    ("dev/*", DEVICE),
    ("abi/*", DEVICE),
    ("crypto/*", DEVICE),
    ("debug/*", DEVICE),
];

const PANIC: &str = "it can stop or restart the machine";
const MEMORY: &str = "a wrong value makes the kernel refuse memory, or end other programs";
const ACTION: &str = "writing it is an action, not a setting: there is no value to restore";
const ONE_WAY: &str = "it can't be undone before the next boot";
const OPEN: &str = "it protects the machine: evenkeel does not open it for a trial";
const IDENTITY: &str = "it names the machine or its processes, and is no tuning";
const LIMIT: &str = "it limits every program of the machine: a value that is too small stops logins, and a larger one only helps at the limit";
const CUT: &str = "it decides which packets pass, so it can cut your connection";
const DEVICE: &str = "it belongs to a device or a subsystem, and evenkeel can't tell what a write does";

/// Why the sysctl at this path below /proc/sys is never written; `None` if it may be.
pub(crate) fn reason(path: &str) -> Option<&'static str> {
    NEVER.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, why)| *why)
}

fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some(("", part)) => path.contains(part),
        Some((before, after)) => path.starts_with(before) && path.ends_with(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_kind_and_spares_the_rest() {
        let table = [
            ("kernel/panic", true),
            ("kernel/hung_task_panic", true),
            ("vm/drop_caches", true),
            ("net/ipv4/conf/all/rp_filter", true),
            ("net/ipv4/tcp_syn_retries", true),
            ("kernel/core_pattern", true),
            ("net/ipv4/tcp_fin_timeout", false),
            ("net/core/somaxconn", false),
            ("net/core/wmem_max", false),
            ("kernel/hung_task_timeout_secs", false),
            ("net/ipv4/tcp_slow_start_after_idle", false),
            ("vm/vfs_cache_pressure", false),
        ];
        for (path, expected) in table {
            assert_eq!(reason(path).is_some(), expected, "{path}");
        }
    }
}
