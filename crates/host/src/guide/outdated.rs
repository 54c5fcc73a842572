//! Sysctls and kernel arguments that guides still name, and that newer kernels have removed, renamed or made useless.

/// A setting that newer kernels no longer have, or ignore.
pub(super) struct Outdated {
    /// The path below /proc/sys, or the name of the argument. A `*` at the end covers every name with the same beginning.
    name: &'static str,
    /// The first kernel without the setting, or in which it has no effect.
    since: Option<(u32, u32)>,
    /// Whether the file itself is gone. If false, the file exists but has no effect.
    pub(super) is_gone: bool,
    /// What happened to the setting.
    what: &'static str,
}

impl Outdated {
    /// The change in the kernel, and the first version with this change.
    pub(super) fn why(&self) -> String {
        let since = self.since.map_or_else(String::new, |(major, minor)| format!(", since Linux {major}.{minor}"));
        format!("{}{since}", self.what)
    }
}

const fn old(name: &'static str, since: (u32, u32), what: &'static str) -> Outdated {
    Outdated { name, since: Some(since), what, is_gone: true }
}

/// A sysctl that was removed so long ago that no kernel in use has it.
const fn gone(name: &'static str) -> Outdated {
    Outdated { name, since: None, what: LONG_AGO, is_gone: true }
}

const fn idle(name: &'static str, since: Option<(u32, u32)>, what: &'static str) -> Outdated {
    Outdated { name, since, what, is_gone: false }
}

const CONNTRACK: &str = "renamed: the sysctls below net.netfilter have it now";
const NOTHING: &str = "does nothing any more";
const ROUTES: &str = "the cache of routes was removed, so it does nothing";
const REMOVED: &str = "removed";
const LONG_AGO: &str = "removed from Linux long ago";
const EEVDF: &str = "removed with the EEVDF scheduler";

/// If several entries have one name, the newest entry up to the kernel's version applies.
const SYSCTLS: &[Outdated] = &[
    old("kernel/sched_latency_ns", (5, 13), "moved to debugfs, as /sys/kernel/debug/sched/latency_ns"),
    old("kernel/sched_latency_ns", (6, 6), EEVDF),
    old("kernel/sched_nr_migrate", (5, 13), "moved to debugfs, as /sys/kernel/debug/sched/nr_migrate"),
    old("kernel/sched_tunable_scaling", (5, 13), "moved to debugfs, as /sys/kernel/debug/sched/tunable_scaling"),
    idle("kernel/sched_child_runs_first", Some((6, 6)), NOTHING),
    old("kernel/sched_child_runs_first", (6, 7), REMOVED),
    old(
        "kernel/numa_balancing_scan_delay_ms",
        (5, 13),
        "moved to debugfs, as /sys/kernel/debug/sched/numa_balancing/scan_delay_ms",
    ),
    old(
        "kernel/numa_balancing_scan_period_min_ms",
        (5, 13),
        "moved to debugfs, as /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
    ),
    old(
        "kernel/numa_balancing_scan_period_max_ms",
        (5, 13),
        "moved to debugfs, as /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
    ),
    old(
        "kernel/numa_balancing_scan_size_mb",
        (5, 13),
        "moved to debugfs, as /sys/kernel/debug/sched/numa_balancing/scan_size_mb",
    ),
    old("kernel/sched_domain/*", (5, 13), "moved to debugfs, as /sys/kernel/debug/sched/domains"),
    old("kernel/sched_time_avg_ms", (4, 19), REMOVED),
    gone("kernel/sched_compat_yield"),
    old("kernel/softlockup_thresh", (3, 0), "renamed: kernel.watchdog_thresh has it now"),
    old("net/ipv4/tcp_tw_recycle", (4, 12), "removed: it broke clients behind NAT"),
    old("net/ipv4/tcp_thin_dupack", (4, 11), REMOVED),
    idle("net/ipv4/tcp_low_latency", Some((4, 14)), NOTHING),
    idle("net/ipv4/tcp_fack", Some((4, 15)), NOTHING),
    idle("net/ipv4/tcp_adv_win_scale", Some((6, 6)), "does nothing any more: each socket has its own factor"),
    old("net/ipv4/tcp_frto_response", (3, 10), REMOVED),
    old("net/ipv4/tcp_cookie_size", (3, 10), REMOVED),
    gone("net/ipv4/tcp_vegas_*"),
    gone("net/ipv4/tcp_bic*"),
    gone("net/ipv4/tcp_westwood"),
    gone("net/core/hot_list_length"),
    gone("net/core/mod_cong"),
    gone("net/core/no_cong"),
    gone("net/core/no_cong_thresh"),
    gone("net/core/lo_cong"),
    old("net/ipv4/tcp_abc", (3, 9), REMOVED),
    old("net/ipv4/tcp_dma_copybreak", (3, 18), REMOVED),
    old("net/ipv4/ip_conntrack_max", (4, 9), CONNTRACK),
    old("net/ipv4/netfilter/ip_conntrack_*", (4, 9), CONNTRACK),
    idle("net/ipv4/route/max_size", Some((3, 6)), ROUTES),
    idle("net/ipv4/route/gc_thresh", Some((3, 6)), ROUTES),
    idle("net/ipv4/route/gc_timeout", Some((3, 6)), ROUTES),
    idle("net/ipv4/rt_cache_rebuild_count", Some((3, 6)), ROUTES),
    idle("net/ipv4/udp_wmem_min", None, "has no effect, by the kernel's own documentation"),
    idle("vm/nr_pdflush_threads", Some((3, 6)), "does nothing any more, and newer kernels lack it"),
    gone("vm/pagecache"),
    gone("vm/bdflush"),
    gone("vm/buffermem"),
    gone("vm/freepages"),
    gone("vm/kswapd"),
    gone("vm/lower_zone_protection"),
    gone("vm/max-readahead"),
    gone("vm/min-readahead"),
    gone("vm/overcommit"),
    gone("vm/swap_token_default_timeout"),
    gone("fs/inode-max"),
    gone("fs/super-max"),
    gone("fs/dquot-max"),
    gone("kernel/sched_interactive"),
    gone("kernel/rtsig-max"),
    gone("net/ipv4/tcp_max_ka_probes"),
    gone("net/ipv4/ip_conntrack_hashsize"),
    idle(
        "vm/numa_zonelist_order",
        Some((4, 14)),
        "does nothing any more: the kernel chooses the order of nodes itself",
    ),
    old("vm/hugepages_treat_as_movable", (4, 16), REMOVED),
    old("vm/swap_token_timeout", (3, 5), REMOVED),
    old("vm/block_dump", (5, 13), "removed: tracepoints of the block layer show the same"),
    old("vm/percpu_pagelist_fraction", (5, 14), "removed: vm.percpu_pagelist_high_fraction took its place"),
];

/// Kernel arguments that have no effect any more.
const ARGUMENTS: &[Outdated] =
    &[idle("elevator", Some((5, 0)), "does nothing any more: each disk has its own queue/scheduler in /sys/block")];

/// The entry for a sysctl, if this kernel no longer has the sysctl or ignores it.
pub(super) fn sysctl(path: &str, kernel: Option<(u32, u32)>) -> Option<&'static Outdated> {
    find(SYSCTLS, path, kernel)
}

/// The entry of a kernel argument that this kernel ignores.
pub(super) fn argument(name: &str, kernel: Option<(u32, u32)>) -> Option<&'static Outdated> {
    find(ARGUMENTS, name, kernel)
}

fn find(all: &'static [Outdated], name: &str, kernel: Option<(u32, u32)>) -> Option<&'static Outdated> {
    let is_it = |own: &str| own.strip_suffix('*').map_or(own == name, |begin| name.starts_with(begin));
    let is_past = |old: &&Outdated| match (kernel, old.since) {
        (Some(kernel), Some(since)) => kernel >= since,
        _ => true,
    };
    all.iter().filter(|old| is_it(old.name)).rfind(is_past)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_depends_on_the_kernel() {
        let table = [
            ("kernel/sched_latency_ns", (5, 10), None),
            (
                "kernel/sched_latency_ns",
                (6, 1),
                Some("moved to debugfs, as /sys/kernel/debug/sched/latency_ns, since Linux 5.13"),
            ),
            ("kernel/sched_latency_ns", (6, 12), Some("removed with the EEVDF scheduler, since Linux 6.6")),
            ("kernel/sched_child_runs_first", (6, 1), None),
            ("kernel/sched_child_runs_first", (6, 6), Some("does nothing any more, since Linux 6.6")),
            ("kernel/sched_child_runs_first", (6, 12), Some("removed, since Linux 6.7")),
            (
                "net/ipv4/netfilter/ip_conntrack_generic_timeout",
                (6, 1),
                Some("renamed: the sysctls below net.netfilter have it now, since Linux 4.9"),
            ),
            ("net/ipv4/ip_forward", (6, 1), None),
        ];
        for (path, kernel, expected) in table {
            assert_eq!(sysctl(path, Some(kernel)).map(Outdated::why).as_deref(), expected, "{path} {kernel:?}");
        }
        assert!(argument("elevator", Some((4, 14))).is_none());
        assert!(argument("elevator", Some((5, 14))).is_some());
    }

    #[test]
    fn entries_of_one_name_are_in_order() {
        for pair in SYSCTLS.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            assert!(pair[0].since < pair[1].since, "{}", pair[0].name);
        }
    }
}
