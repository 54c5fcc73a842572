//! Sysctls that guides still name, and that newer kernels have removed, renamed or made useless.

/// A sysctl of the past.
pub(super) struct Outdated {
    /// Its path below /proc/sys.
    path: &'static str,
    /// The first kernel without it, or in which it does nothing.
    pub(super) since: Option<(u32, u32)>,
    /// Whether the file itself is gone; otherwise it is there, and does nothing.
    pub(super) is_gone: bool,
    /// What happened to it.
    pub(super) what: &'static str,
}

const fn old(path: &'static str, since: (u32, u32), what: &'static str) -> Outdated {
    Outdated { path, since: Some(since), what, is_gone: true }
}

const fn idle(path: &'static str, since: Option<(u32, u32)>, what: &'static str) -> Outdated {
    Outdated { path, since, what, is_gone: false }
}

const DEBUGFS: &str = "moved to debugfs, as /sys/kernel/debug/sched/";
const CONNTRACK: &str = "renamed: the sysctls below net.netfilter have it now";
const NOTHING: &str = "does nothing any more";
const ROUTES: &str = "the cache of routes was removed, so it does nothing";
const REMOVED: &str = "removed";

const ALL: &[Outdated] = &[
    old("kernel/sched_latency_ns", (5, 13), DEBUGFS),
    old("kernel/sched_nr_migrate", (5, 13), DEBUGFS),
    old("kernel/sched_tunable_scaling", (5, 13), DEBUGFS),
    old("kernel/numa_balancing_scan_delay_ms", (5, 13), DEBUGFS),
    old("kernel/numa_balancing_scan_period_min_ms", (5, 13), DEBUGFS),
    old("kernel/numa_balancing_scan_period_max_ms", (5, 13), DEBUGFS),
    old("kernel/numa_balancing_scan_size_mb", (5, 13), DEBUGFS),
    old("kernel/softlockup_thresh", (3, 0), "renamed: kernel.watchdog_thresh has it now"),
    old("net/ipv4/tcp_tw_recycle", (4, 12), "removed: it broke clients behind NAT"),
    idle("net/ipv4/tcp_low_latency", Some((4, 14)), NOTHING),
    idle("net/ipv4/tcp_fack", Some((4, 15)), NOTHING),
    old("net/ipv4/tcp_frto_response", (3, 10), REMOVED),
    old("net/ipv4/tcp_abc", (3, 9), REMOVED),
    old("net/ipv4/tcp_dma_copybreak", (3, 18), REMOVED),
    old("net/ipv4/ip_conntrack_max", (4, 9), CONNTRACK),
    old("net/ipv4/netfilter/ip_conntrack_max", (4, 9), CONNTRACK),
    old("net/ipv4/netfilter/ip_conntrack_udp_timeout", (4, 9), CONNTRACK),
    old("net/ipv4/netfilter/ip_conntrack_tcp_timeout_established", (4, 9), CONNTRACK),
    old("net/ipv4/netfilter/ip_conntrack_tcp_timeout_time_wait", (4, 9), CONNTRACK),
    idle("net/ipv4/route/max_size", Some((3, 6)), ROUTES),
    idle("net/ipv4/route/gc_thresh", Some((3, 6)), ROUTES),
    idle("net/ipv4/route/gc_timeout", Some((3, 6)), ROUTES),
    idle("net/ipv4/udp_wmem_min", None, "has no effect, by the kernel's own documentation"),
    idle("vm/nr_pdflush_threads", Some((3, 6)), NOTHING),
    old("vm/swap_token_timeout", (3, 5), REMOVED),
];

/// The entry of a sysctl that this kernel has left behind.
pub(super) fn find(path: &str, kernel: Option<(u32, u32)>) -> Option<&'static Outdated> {
    let found = ALL.iter().find(|old| old.path == path)?;
    let is_past = |kernel: (u32, u32)| found.since.is_none_or(|since| kernel >= since);
    kernel.is_none_or(is_past).then_some(found)
}
