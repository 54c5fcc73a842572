//! Sysctls without a knob that evenkeel writes, and those that it never writes, each with its reason: they can cut the connection, stop the
//! machine, open it, or can't be undone. Kernels get new sysctls, so only those in some areas are written at all.

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
    ("vm/hugetlb_shm_group", OPEN),
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
    ("net/core/tstamp_allow_data", OPEN),
    ("net/core/xfrm_*", CUT),
    ("net/core/fb_tunnels_only_for_init_net", CUT),
    ("net/core/netdev_rss_key", IDENTITY),
    ("net/ipv4/tcp_fastopen_key", OPEN),
    ("net/ipv4/tcp_allowed_congestion_control", OPEN),
    ("net/ipv4/tcp_challenge_ack_limit", OPEN),
    ("net/ipv4/tcp_invalid_ratelimit", OPEN),
    ("net/ipv4/tcp_rfc1337", OPEN),
    ("net/ipv4/tcp_l3mdev_accept", CUT),
    ("net/ipv4/udp_l3mdev_accept", CUT),
    ("net/ipv4/tcp_fwmark_accept", CUT),
    ("net/ipv4/tcp_abort_on_overflow", CUT),
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
];

const PANIC: &str = "it can stop or restart the machine";
const MEMORY: &str = "a wrong value makes the kernel refuse memory, or end other programs";
const ACTION: &str = "writing it is an action, not a setting: there is no value to restore";
const ONE_WAY: &str = "it can't be undone before the next boot";
const OPEN: &str = "it protects the machine: evenkeel does not open it for a trial";
const IDENTITY: &str = "it names the machine or its processes, and is no tuning";
const LIMIT: &str = "it limits every program of the machine: a value that is too small stops logins, and a larger one only helps at the limit";
const CUT: &str = "it decides which packets pass, so it can cut your connection";

/// Why evenkeel does not write a sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Never {
    /// A write can do harm, for this reason.
    Harm(&'static str),
    /// Nobody has said yet what a write does.
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

/// Why the sysctl at this path below /proc/sys is never written; `None` if it may be.
pub(crate) fn reason(path: &str) -> Option<Never> {
    let harm = NEVER.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, why)| Never::Harm(why));
    harm.or_else(|| (!AREAS.iter().any(|area| path.starts_with(area))).then_some(Never::Outside))
}

/// The least that evenkeel writes to a sysctl without a knob, where the kernel accepts less. Far below each default, and below what any guide
/// asks for.
const LEAST: &[(&str, i64, &str)] = &[
    ("net/core/dev_weight", 8, CUT_BELOW),
    ("net/core/dev_weight_rx_bias", 1, CUT_BELOW),
    ("net/core/dev_weight_tx_bias", 1, CUT_BELOW),
    ("net/core/max_skb_frags", 4, CUT_BELOW),
    ("net/core/optmem_max", 4096, REFUSE_BELOW),
    ("net/core/somaxconn", 16, REFUSE_BELOW),
    ("net/ipv4/tcp_fin_timeout", 1, REFUSE_BELOW),
    ("net/ipv4/tcp_keepalive_probes", 2, CUT_BELOW),
    ("net/ipv4/tcp_keepalive_time", 10, CUT_BELOW),
    ("net/ipv4/tcp_max_orphans", 1024, REFUSE_BELOW),
    ("net/ipv4/tcp_max_syn_backlog", 16, REFUSE_BELOW),
    ("net/ipv4/tcp_max_tw_buckets", 1024, REFUSE_BELOW),
    ("net/ipv4/tcp_notsent_lowat", 1024, CUT_BELOW),
    ("net/ipv4/tcp_pacing_ca_ratio", 50, CUT_BELOW),
    ("net/ipv4/tcp_pacing_ss_ratio", 50, CUT_BELOW),
    ("net/ipv4/tcp_reordering", 1, CUT_BELOW),
    ("net/ipv4/tcp_rmem", 4096, CUT_BELOW),
    ("net/ipv4/tcp_wmem", 4096, CUT_BELOW),
    ("vm/vfs_cache_pressure", 1, "at 0 the kernel never frees some of its caches, and runs out of memory"),
];

const CUT_BELOW: &str = "with less, connections of the whole machine stall or end";
const REFUSE_BELOW: &str = "with less, the kernel refuses or ends connections of other programs";

/// Why a sysctl without a knob must not have this value; `None` if it may. The path may begin with /proc/sys.
pub(crate) fn too_little(path: &str, value: &str) -> Option<String> {
    let path = path.strip_prefix("/proc/sys/").unwrap_or(path);
    let (_, least, why) = LEAST.iter().find(|(own, ..)| *own == path)?;
    let is_less = |word: &str| word.parse::<i64>().is_ok_and(|number| number < *least);
    value.split_whitespace().any(is_less).then(|| format!("evenkeel writes {least} or more there: {why}"))
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
    fn values_that_stop_others_are_refused() {
        let table = [
            ("net/core/dev_weight", "0", true),
            ("net/core/dev_weight", "600", false),
            ("net/ipv4/tcp_max_orphans", "-5", true),
            ("net/ipv4/tcp_rmem", "1 87380 16777216", true),
            ("net/ipv4/tcp_rmem", "4096 87380 16777216", false),
            ("net/ipv4/tcp_sack", "0", false),
        ];
        for (path, value, expected) in table {
            assert_eq!(too_little(path, value).is_some(), expected, "{path}={value}");
        }
        for (path, ..) in LEAST {
            assert_eq!(reason(path), None, "{path} is never written anyway");
            let own = format!("/proc/sys/{path}");
            assert!(!crate::knobs::ALL.iter().any(|knob| knob.place.files().contains(&own.as_str())), "{path}");
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
            assert!(crate::sysctl::known_path(pattern).is_some_and(|path| path == *pattern), "{pattern} is no path");
        }
    }
}
