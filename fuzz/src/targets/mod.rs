//! Every fuzz target is a function that takes a text and must return for any text. The fuzzer runs them with its findings. An ordinary test
//! of the program runs them with the files in `corpus/`, so that they keep working.

mod arena;
mod counts;
mod files;
mod fleet;
pub(crate) mod machines;
mod packets;
mod recordings;
mod scopes;
mod trials;
mod watch;

use machines::{EC2, FOUR_CPUS, FOUR_NODES, GOOGLE, IDLE, QUEUES, SWAP, SYSTEMD};

/// One target: its name, and its function.
pub(crate) struct Target {
    /// The name in `corpus/NAME` and `cargo fuzz run NAME`.
    pub(crate) name: &'static str,
    /// The reader of the text.
    pub(crate) reads: Reads,
}

/// The kinds of readers.
pub(crate) enum Reads {
    /// A function in this crate.
    Whole(fn(&str)),
    /// The facts and advice of a captured machine (`hosts/NAME.txt`) in which each of these paths has the text.
    Paths(&'static str, &'static [&'static str]),
    /// The program itself, whose reader is in no library: `lib.rs` and the test each reach it in their own way.
    Program,
}

use Reads::{Paths, Program, Whole};

const fn target(name: &'static str, reads: Reads) -> Target {
    Target { name, reads }
}

/// All targets, by name.
pub(crate) const TARGETS: &[Target] = &[
    target("answers", Whole(trials::answers)),
    target("arena", Whole(arena::arena)),
    target("agones", Whole(packets::agones)),
    target("capture", Whole(machines::capture)),
    target("card", Whole(files::card)),
    target("cgroup", Paths(SYSTEMD, &["/proc/self/cgroup"])),
    target(
        "clocksource",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ],
        ),
    ),
    target("cmdline", Paths(FOUR_CPUS, &["/proc/cmdline"])),
    target(
        "counters",
        Paths(
            SYSTEMD,
            &[
                "/proc/self/net/softnet_stat",
                "/proc/self/net/snmp",
                "/proc/self/net/snmp6",
                "/proc/self/net/sockstat",
                "/sys/devices/system/node/node0/numastat",
                "@ethtool/eth0/stats",
            ],
        ),
    ),
    target("cpu-trace", Whole(fleet::cpu_trace)),
    target("cpuid", Paths(FOUR_CPUS, &["@cpuid/1", "@cpuid/40000000"])),
    target("cpuinfo", Paths(FOUR_CPUS, &["/proc/cpuinfo"])),
    target(
        "cpus",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/cpu/online",
                "/sys/devices/system/cpu/present",
                "/sys/devices/system/cpu/possible",
                "/sys/devices/system/cpu/isolated",
                "/sys/devices/system/cpu/nohz_full",
                "/sys/devices/virtual/workqueue/cpumask",
            ],
        ),
    ),
    target("cpuset", Whole(counts::cpuset)),
    target("ddnet", Whole(packets::ddnet)),
    target(
        "disk",
        Paths(
            QUEUES,
            &[
                "/sys/block/vda/queue/scheduler",
                "/sys/block/vda/queue/rotational",
                "/sys/block/vda/queue/nr_requests",
                "/sys/block/vda/queue/read_ahead_kb",
            ],
        ),
    ),
    target(
        "dmi",
        Paths(
            EC2,
            &[
                "/sys/class/dmi/id/sys_vendor",
                "/sys/class/dmi/id/product_name",
                "/sys/class/dmi/id/chassis_asset_tag",
                "/sys/class/dmi/id/bios_version",
            ],
        ),
    ),
    target("errno", Whole(counts::errno)),
    target(
        "ethtool",
        Paths(
            QUEUES,
            &["@ethtool/eth0/drvinfo", "@ethtool/eth0/channels", "@ethtool/eth0/rings", "@ethtool/eth0/coalesce"],
        ),
    ),
    target("features", Paths(SYSTEMD, &["@ethtool/eth0/features", "@ethtool/eth0/rss"])),
    target(
        "frequency",
        Paths(
            IDLE,
            &[
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors",
                "/sys/devices/system/cpu/cpufreq/policy0/affected_cpus",
                "/sys/devices/system/cpu/cpufreq/boost",
                "/sys/devices/system/cpu/intel_pstate/no_turbo",
            ],
        ),
    ),
    target(
        "idle",
        Paths(
            IDLE,
            &[
                "/sys/devices/system/cpu/cpuidle/current_driver",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/name",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency",
                "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable",
                "/sys/module/processor/parameters/max_cstate",
            ],
        ),
    ),
    target("guide", Whole(files::guide)),
    target("goal", Whole(trials::goal)),
    target("http", Whole(packets::http)),
    // The instance catalogue is consulted for any machine name that the firmware gives.
    target("instance", Paths(EC2, &["/sys/class/dmi/id/product_name"])),
    target("interrupts", Paths(QUEUES, &["/proc/interrupts"])),
    target("irqbalance", Paths(GOOGLE, &["/etc/sysconfig/irqbalance"])),
    target("journal", Whole(files::journal)),
    target("journal-file", Whole(files::journal_file)),
    target("kernel-config", Paths(SYSTEMD, &["@kernel-config", "@tick_ns"])),
    target("kernel-counts", Whole(counts::kernel_counts)),
    target("limits", Paths(GOOGLE, &["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/user.slice/cpu.max"])),
    target("lockdown", Paths(FOUR_CPUS, &["/sys/kernel/security/lockdown"])),
    target("look", Whole(machines::look)),
    target("meminfo", Paths(FOUR_NODES, &["/proc/meminfo", "/sys/devices/system/node/node0/meminfo"])),
    target("metrics-page", Whole(trials::metrics_page)),
    target("mountinfo", Paths(SWAP, &["/proc/self/mountinfo"])),
    target(
        "nic",
        Paths(
            QUEUES,
            &[
                "/sys/class/net/eth0/mtu",
                "/sys/class/net/eth0/operstate",
                "/sys/class/net/eth0/threaded",
                "/sys/class/net/eth0/queues/rx-0/rps_cpus",
                "/sys/class/net/eth0/queues/tx-0/xps_cpus",
            ],
        ),
    ),
    target(
        "node",
        Paths(
            FOUR_NODES,
            &[
                "/sys/devices/system/node/online",
                "/sys/devices/system/node/node0/cpulist",
                "/sys/devices/system/node/node0/distance",
                "/proc/sys/kernel/numa_balancing",
                "/proc/sys/vm/zone_reclaim_mode",
            ],
        ),
    ),
    target("os-release", Paths(SYSTEMD, &["/etc/os-release"])),
    target("output-lines", Whole(trials::output_lines)),
    target("pack-plan", Whole(fleet::pack_plan)),
    target("perf-data", Whole(recordings::perf_data)),
    target("perf-script", Whole(recordings::perf_script)),
    target("plan", Whole(files::plan)),
    target("players", Whole(fleet::players)),
    target("preempt", Paths(FOUR_CPUS, &["/sys/kernel/debug/sched/preempt", "/proc/version"])),
    target("prices", Whole(fleet::prices)),
    target("programs", Whole(recordings::programs)),
    target("rates", Whole(counts::rates)),
    target("report", Whole(trials::report)),
    target("saptune", Paths(SYSTEMD, &["/etc/sysconfig/saptune"])),
    target("scopes", Whole(scopes::scopes)),
    target("search-log", Whole(trials::search_log)),
    target("server", Whole(files::server)),
    target("sessions", Whole(fleet::sessions)),
    target("setting", Whole(files::setting)),
    target("swaps", Paths(SWAP, &["/proc/swaps"])),
    target("symbols", Whole(recordings::symbols)),
    target("sysctl-files", Paths(SYSTEMD, &["/etc/sysctl.d/99-sysctl.conf", "/usr/lib/sysctl.d/50-pid-max.conf"])),
    target("telemetry", Whole(counts::telemetry)),
    target("ticks", Whole(recordings::ticks)),
    target(
        "thp",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "/sys/kernel/mm/transparent_hugepage/defrag",
                "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
            ],
        ),
    ),
    target(
        "topology",
        Paths(
            FOUR_CPUS,
            &[
                "/sys/devices/system/cpu/cpu0/topology/core_id",
                "/sys/devices/system/cpu/cpu0/topology/physical_package_id",
                "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                "/sys/devices/system/cpu/cpu0/cache/index0/level",
                "/sys/devices/system/cpu/cpu0/cache/index0/size",
                "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
            ],
        ),
    ),
    target("udp-packets", Whole(packets::udp_packets)),
    target("uname", Paths(FOUR_CPUS, &["@uname"])),
    target("vlans", Whole(machines::vlans)),
    target("waivers", Program),
    target("watch-store", Whole(watch::watch_store)),
];
