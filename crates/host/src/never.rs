//! Sysctls without a knob: which of them evenkeel writes, and which it never writes, each with its reason.
//! A wrong write can cut the connection, stop the machine, open it to attackers, or be impossible to undo.
//! Kernels get new sysctls, so evenkeel writes only the sysctls in some areas.
//! some areas.

use crate::number::kernel_number;

/// The areas of sysctls that change speed: the beginnings of their paths below /proc/sys.
const AREAS: &[&str] = &[
    "kernel/hung_task_",
    "kernel/nmi_watchdog",
    "kernel/numa_balancing",
    "kernel/perf_cpu_time_max_percent",
    "kernel/perf_event_max_",
    "kernel/sched_",
    "kernel/soft_watchdog",
    "kernel/timer_migration",
    "kernel/watchdog",
    "net/core/",
    "net/ipv4/tcp_",
    "net/ipv4/udp_",
    "vm/",
];

const OUTSIDE: &str =
    "it is outside the areas whose sysctls change speed alone, and evenkeel can't tell what a write does";

/// Patterns of paths below /proc/sys, each with the reason.
/// A pattern that ends with `*` covers every path with the same beginning.
/// A pattern that begins with `*` covers every path that contains the rest.
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
    ("vm/hugetlb_shm_group", RIGHTS),
    ("vm/memory_failure_*", MEMORY),
    ("vm/enable_soft_offline", MEMORY),
    ("vm/numa_zonelist_order", MEMORY),
    ("kernel/sched_rt_*", PANIC),
    ("vm/nr_hugepages_mempolicy", MEMORY),
    ("vm/nr_overcommit_hugepages", MEMORY),
    ("vm/drop_caches", ACTION),
    ("vm/compact_memory", ACTION),
    ("net/ipv4/route/flush", ACTION),
    ("net/ipv6/route/flush", ACTION),
    ("vm/stat_refresh", ACTION),
    ("kernel/modules_disabled", ONE_WAY),
    ("kernel/kexec_*", ONE_WAY),
    ("kernel/unprivileged_bpf_disabled", BPF),
    ("kernel/yama/*", RIGHTS),
    ("kernel/randomize_va_space", OPEN),
    ("kernel/kptr_restrict", OPEN),
    ("kernel/dmesg_restrict", RIGHTS),
    ("kernel/perf_event_paranoid", RIGHTS),
    ("kernel/unprivileged_*", RIGHTS),
    ("kernel/apparmor*", OPEN),
    ("kernel/io_uring_*", RIGHTS),
    ("kernel/core_*", DUMPS),
    ("kernel/modprobe", RUNS),
    ("kernel/hotplug", RUNS),
    ("kernel/poweroff_cmd", RUNS),
    ("kernel/usermodehelper/*", RUNS),
    ("kernel/seccomp/*", OPEN),
    ("kernel/keys/*", LIMIT),
    ("kernel/firmware_config/*", OPEN),
    ("kernel/ftrace*", TRACES),
    ("kernel/stack_tracer_enabled", TRACES),
    ("kernel/hostname", IDENTITY),
    ("kernel/domainname", IDENTITY),
    ("kernel/ns_last_pid", IDENTITY),
    ("kernel/pid_max", LIMIT),
    ("kernel/threads-max", LIMIT),
    ("fs/file-max", LIMIT),
    ("fs/nr_open", LIMIT),
    ("fs/aio-max-nr", LIMIT),
    ("fs/inotify/*", LIMIT),
    ("fs/epoll/*", LIMIT),
    ("fs/mount-max", LIMIT),
    ("fs/pipe-*", LIMIT),
    ("user/*", LIMIT),
    ("fs/protected_*", OPEN),
    ("fs/suid_dumpable", DUMPS),
    ("fs/binfmt_misc/*", OPEN),
    ("vm/mmap_*", OPEN),
    ("vm/legacy_va_layout", OPEN),
    ("vm/unprivileged_userfaultfd", RIGHTS),
    ("vm/memfd_noexec", OPEN),
    ("net/core/bpf_*", OPEN),
    ("net/core/tstamp_allow_data", RIGHTS),
    ("net/core/xfrm_*", CUT),
    ("net/core/fb_tunnels_only_for_init_net", CUT),
    ("net/core/netdev_rss_key", IDENTITY),
    ("net/ipv4/tcp_fastopen_key", FLOODS),
    ("net/ipv4/tcp_allowed_congestion_control", RIGHTS),
    ("net/ipv4/tcp_challenge_ack_limit", FLOODS),
    ("net/ipv4/tcp_invalid_ratelimit", FLOODS),
    ("net/ipv4/tcp_rfc1337", FLOODS),
    ("net/ipv4/tcp_l3mdev_accept", CUT),
    ("net/ipv4/udp_l3mdev_accept", CUT),
    ("net/ipv4/tcp_fwmark_accept", CUT),
    ("net/ipv4/tcp_abort_on_overflow", RESETS),
    ("net/ipv4/tcp_syncookies", FLOODS),
    ("net/ipv4/ip_unprivileged_port_start", RIGHTS),
    ("net/ipv4/ping_group_range", RIGHTS),
    ("net/ipv4/conf/*", CUT),
    ("net/ipv6/*", CUT),
    ("net/ipv4/ip_forward*", CUT),
    ("net/ipv4/icmp_*", CUT),
    ("net/ipv4/ip_local_*", PORTS),
    ("net/ipv4/fwmark_*", CUT),
    ("net/ipv4/fib_*", CUT),
    ("net/ipv4/tcp_mem", TCP_MEMORY),
    ("net/ipv4/tcp_min_snd_mss", SEGMENTS),
    ("net/ipv4/tcp_base_mss", SEGMENTS),
    ("net/ipv4/tcp_mtu_*", SEGMENTS),
    ("net/ipv4/tcp_retries*", GIVES_UP),
    ("net/ipv4/tcp_syn*retries", GIVES_UP),
    ("net/ipv4/tcp_orphan_retries", GIVES_UP),
    ("net/ipv4/ip_default_ttl", CUT),
    ("net/ipv4/ip_no_pmtu_disc", SEGMENTS),
    ("net/ipv4/neigh/*", CUT),
    ("net/bridge/*", CUT),
    ("net/mptcp/*", CUT),
    ("net/netfilter/*", TRACKS),
    ("net/unix/*", LOCAL),
    ("net/core/devconf_*", CUT),
];

const PANIC: &str = "it can stop or restart the machine";
const MEMORY: &str = "a wrong value makes the kernel refuse memory, or end other programs";
const ACTION: &str = "writing it is an action, not a setting: there is no value to restore";
const ONE_WAY: &str = "it can't be undone before the next boot";
const BPF: &str = "it opens bpf() to every program, which attackers have used to take over kernels";
const OPEN: &str = "it protects the machine: evenkeel does not open it for a trial";
const RIGHTS: &str = "it decides what programs without root's rights may do";
const RUNS: &str = "it names a program that the kernel starts as root, or what such a program may do";
const DUMPS: &str = "it decides where the memory of programs that crash goes, and who can read it";
const TRACES: &str = "live patches and tracers need it, so a change can break them";
const FLOODS: &str = "it protects TCP connections from forged and surplus packets";
const IDENTITY: &str = "it names the machine or its processes, and is not for tuning";
const LIMIT: &str = "it limits every program of the machine: a value that is too small stops logins";
const CUT: &str = "it decides which packets pass, so it can cut your connection";
const PORTS: &str = "it decides which ports programs get: with too few, new connections of every program fail";
const SEGMENTS: &str = "it decides how large packets are: with a wrong size, connections stall, yours among them";
const GIVES_UP: &str =
    "it decides when the kernel gives a connection up: with too few attempts, connections end, yours among them";
const TCP_MEMORY: &str = "it limits the memory of all TCP connections: at the limit they stall, yours among them";
const RESETS: &str = "it makes the kernel reset connections that a busy server has not accepted yet";
const TRACKS: &str = "the firewall forgets or refuses connections that it no longer tracks, yours among them";
const LOCAL: &str =
    "services of this machine, such as its log, talk through these sockets: a value that is too small blocks them";

/// Why evenkeel does not write a sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// A write can do harm, for this reason.
    Harm(&'static str),
    /// The sysctl is outside of the areas that evenkeel writes, so the effect of a write is unknown.
    Outside,
}

impl Never {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Never::Harm(why) => why,
            Never::Outside => OUTSIDE,
        }
    }
}

/// Why evenkeel never writes the sysctl at this path below /proc/sys. `None` if evenkeel may write it.
pub(crate) fn reason(path: &str) -> Option<Never> {
    let harm = NEVER.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, why)| Never::Harm(why));
    harm.or_else(|| (!AREAS.iter().any(|area| path.starts_with(area))).then_some(Never::Outside))
}

/// Values that the kernel keeps until the next boot.
const UNTIL_BOOT: &[(&str, i64)] = &[
    ("kernel/modules_disabled", 1),
    ("kernel/kexec_load_disabled", 1),
    ("kernel/unprivileged_bpf_disabled", 1),
    ("kernel/yama/ptrace_scope", 3),
];

/// Whether the kernel keeps this value until the next boot, whatever anyone writes.
pub(crate) fn lasts_until_boot(path: &str, value: &str) -> bool {
    kernel_number(value.trim()).is_some_and(|number| UNTIL_BOOT.contains(&(path, number)))
}

/// Whether a write is an action. The file then has no value that could be in force.
pub(crate) fn is_action(path: &str) -> bool {
    reason(path) == Some(Never::Harm(ACTION))
}

/// Values with which sysctls protect the machine: paths below /proc/sys as in [`NEVER`], with the minimum or the maximum value.
const PROTECT: &[(&str, Protects)] = &[
    ("kernel/sysrq", Protects::UpTo(0)),
    ("kernel/modules_disabled", Protects::From(1)),
    ("kernel/kexec_load_disabled", Protects::From(1)),
    ("kernel/unprivileged_bpf_disabled", Protects::From(1)),
    ("kernel/unprivileged_userns_clone", Protects::UpTo(0)),
    ("kernel/yama/ptrace_scope", Protects::From(1)),
    ("kernel/randomize_va_space", Protects::From(2)),
    ("kernel/kptr_restrict", Protects::From(1)),
    ("kernel/dmesg_restrict", Protects::From(1)),
    ("kernel/perf_event_paranoid", Protects::From(2)),
    ("kernel/apparmor_restrict_*", Protects::From(1)),
    ("kernel/io_uring_disabled", Protects::From(1)),
    ("fs/protected_*", Protects::From(1)),
    ("fs/suid_dumpable", Protects::UpTo(0)),
    ("vm/mmap_min_addr", Protects::From(65_536)),
    ("vm/mmap_rnd_*", Protects::From(28)),
    ("vm/legacy_va_layout", Protects::UpTo(0)),
    ("vm/unprivileged_userfaultfd", Protects::UpTo(0)),
    ("vm/memfd_noexec", Protects::From(1)),
    ("net/core/bpf_jit_harden", Protects::From(1)),
    ("net/ipv4/tcp_rfc1337", Protects::From(1)),
    ("net/ipv4/tcp_syncookies", Protects::From(1)),
    ("net/ipv4/ip_unprivileged_port_start", Protects::From(1024)),
    ("net/ipv4/icmp_echo_ignore_broadcasts", Protects::From(1)),
    ("net/ipv4/icmp_ignore_bogus_error_responses", Protects::From(1)),
    ("*/accept_source_route", Protects::UpTo(0)),
    ("*/accept_redirects", Protects::UpTo(0)),
    ("*/secure_redirects", Protects::UpTo(0)),
    ("*/send_redirects", Protects::UpTo(0)),
];

/// The values that protect.
#[derive(Clone, Copy)]
enum Protects {
    From(i64),
    UpTo(i64),
}

/// Whether this value of a never-written sysctl protects the machine. A guide's line with such a value is harmless.
pub(crate) fn protects(path: &str, value: &str) -> bool {
    let Some(number) = kernel_number(value.trim()) else { return false };
    let of_it = PROTECT.iter().find(|(pattern, _)| fits(pattern, path));
    of_it.is_some_and(|(_, protects)| match protects {
        Protects::From(least) => number >= *least,
        Protects::UpTo(most) => number <= *most,
    })
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
            ("kernel/tainted", true),
            ("kernel/shm_rmid_forced", true),
            ("kernel/oops_limit", true),
            ("kernel/pty/max", true),
            ("kernel/cad_pid", true),
            ("kernel/sem", true),
            ("net/nf_conntrack_max", true),
            ("net/ipv4/ipfrag_high_thresh", true),
            ("net/ipv4/vs/drop_entry", true),
            ("net/mpls/platform_labels", true),
            ("fs/epoll/max_user_watches", true),
            ("sunrpc/tcp_slot_table_entries", true),
            ("a/new/area", true),
            ("vm/dirty_bytes", false),
            ("kernel/sched_cfs_bandwidth_slice_us", false),
        ];
        for (path, expected) in table {
            assert_eq!(reason(path).is_some(), expected, "{path}");
        }
        assert_eq!(reason("a/new/area"), Some(Never::Outside));
    }

    #[test]
    fn each_family_has_its_own_reason() {
        let table = [
            ("net/unix/max_dgram_qlen", LOCAL),
            ("net/ipv4/ip_local_port_range", PORTS),
            ("net/ipv4/tcp_mtu_probing", SEGMENTS),
            ("net/ipv4/tcp_mem", TCP_MEMORY),
            ("net/ipv4/tcp_retries2", GIVES_UP),
            ("net/netfilter/nf_conntrack_tcp_timeout_established", TRACKS),
            ("net/ipv4/conf/all/rp_filter", CUT),
            ("kernel/core_pattern", DUMPS),
            ("kernel/modprobe", RUNS),
            ("kernel/randomize_va_space", OPEN),
            ("kernel/perf_event_paranoid", RIGHTS),
        ];
        for (path, why) in table {
            assert_eq!(reason(path), Some(Never::Harm(why)), "{path}");
        }
    }

    #[test]
    fn values_that_protect_are_known() {
        let table = [
            ("fs/suid_dumpable", "0", true),
            ("fs/suid_dumpable", "1", false),
            ("net/ipv4/tcp_rfc1337", "1", true),
            ("net/ipv4/tcp_rfc1337", "0", false),
            ("kernel/randomize_va_space", "2", true),
            ("kernel/randomize_va_space", "0", false),
            ("net/ipv4/conf/all/accept_redirects", "0", true),
            ("net/ipv4/conf/all/rp_filter", "1", false),
            ("fs/protected_symlinks", "1", true),
            ("kernel/core_pattern", "0", false),
            ("fs/suid_dumpable", "none", false),
        ];
        for (path, value, expected) in table {
            assert_eq!(protects(path, value), expected, "{path}={value}");
        }
        for (path, value, expected) in [
            ("kernel/modules_disabled", "1", true),
            ("kernel/unprivileged_bpf_disabled", "1", true),
            ("kernel/unprivileged_bpf_disabled", "2", false),
            ("kernel/unprivileged_bpf_disabled", "0", false),
            ("kernel/kptr_restrict", "1", false),
        ] {
            assert_eq!(lasts_until_boot(path, value), expected, "{path}={value}");
        }
        assert!(is_action("vm/drop_caches") && !is_action("kernel/panic"));
        for (path, ..) in PROTECT.iter().filter(|(path, _)| !path.contains('*')) {
            assert!(matches!(reason(path), Some(Never::Harm(_))), "{path} is not a sysctl of NEVER");
        }
    }

    #[test]
    fn each_pattern_fits_a_sysctl_that_kernels_have() {
        let table = [
            ("*panic", "kernel/panic_on_oops"),
            ("kernel/sysrq*", "kernel/sysrq"),
            ("vm/overcommit_*", "vm/overcommit_kbytes"),
            ("vm/oom_*", "vm/oom_dump_tasks"),
            ("vm/memory_failure_*", "vm/memory_failure_recovery"),
            ("kernel/sched_rt_*", "kernel/sched_rt_period_us"),
            ("kernel/kexec_*", "kernel/kexec_load_disabled"),
            ("kernel/yama/*", "kernel/yama/ptrace_scope"),
            ("kernel/unprivileged_*", "kernel/unprivileged_userns_clone"),
            ("kernel/apparmor*", "kernel/apparmor_restrict_unprivileged_userns"),
            ("kernel/io_uring_*", "kernel/io_uring_disabled"),
            ("kernel/core_*", "kernel/core_pattern"),
            ("kernel/usermodehelper/*", "kernel/usermodehelper/bset"),
            ("kernel/seccomp/*", "kernel/seccomp/actions_avail"),
            ("kernel/keys/*", "kernel/keys/gc_delay"),
            ("kernel/firmware_config/*", "kernel/firmware_config/force_sysfs_fallback"),
            ("kernel/ftrace*", "kernel/ftrace_enabled"),
            ("fs/inotify/*", "fs/inotify/max_queued_events"),
            ("fs/epoll/*", "fs/epoll/max_user_watches"),
            ("fs/pipe-*", "fs/pipe-max-size"),
            ("user/*", "user/max_cgroup_namespaces"),
            ("fs/protected_*", "fs/protected_fifos"),
            ("fs/binfmt_misc/*", "fs/binfmt_misc/register"),
            ("vm/mmap_*", "vm/mmap_min_addr"),
            ("net/core/bpf_*", "net/core/bpf_jit_enable"),
            ("net/core/xfrm_*", "net/core/xfrm_acq_expires"),
            ("net/ipv4/conf/*", "net/ipv4/conf/all/accept_local"),
            ("net/ipv6/*", "net/ipv6/conf/all/disable_ipv6"),
            ("net/ipv4/ip_forward*", "net/ipv4/ip_forward"),
            ("net/ipv4/icmp_*", "net/ipv4/icmp_echo_enable_probe"),
            ("net/ipv4/ip_local_*", "net/ipv4/ip_local_port_range"),
            ("net/ipv4/fwmark_*", "net/ipv4/fwmark_reflect"),
            ("net/ipv4/fib_*", "net/ipv4/fib_multipath_hash_fields"),
            ("net/ipv4/tcp_mtu_*", "net/ipv4/tcp_mtu_probe_floor"),
            ("net/ipv4/tcp_retries*", "net/ipv4/tcp_retries1"),
            ("net/ipv4/tcp_syn*retries", "net/ipv4/tcp_syn_retries"),
            ("net/ipv4/neigh/*", "net/ipv4/neigh/default/anycast_delay"),
            ("net/bridge/*", "net/bridge/bridge-nf-call-arptables"),
            ("net/mptcp/*", "net/mptcp/add_addr_timeout"),
            ("net/netfilter/*", "net/netfilter/nf_conntrack_acct"),
            ("net/unix/*", "net/unix/max_dgram_qlen"),
            ("net/core/devconf_*", "net/core/devconf_inherit_init_net"),
        ];
        let patterns = || NEVER.iter().map(|(pattern, _)| *pattern).filter(|pattern| pattern.contains('*'));
        assert_eq!(patterns().collect::<Vec<_>>(), table.map(|(pattern, _)| pattern));
        for (pattern, path) in table {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, _) in NEVER.iter().filter(|(pattern, _)| !pattern.contains('*')) {
            assert!(crate::sysctl::known_path(pattern).is_some_and(|path| path == *pattern), "{pattern} is not a path");
        }
    }
}
