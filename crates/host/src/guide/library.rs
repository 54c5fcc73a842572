//! Guides that the field quotes, as data: their values alone, each with its source.

use super::line::{Guide, GuideError, GuideFormat};

/// A guide of the library.
#[derive(Clone, Copy, Debug)]
pub struct LibraryGuide {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for.
    pub title: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// The values, one setting a line.
    pub text: &'static str,
}

impl LibraryGuide {
    /// The guide of this name.
    pub fn find(name: &str) -> Option<&'static LibraryGuide> {
        LIBRARY.iter().find(|guide| guide.name == name)
    }

    /// The guide, line by line.
    ///
    /// # Errors
    /// None known: a test reads all of them.
    pub fn guide(&self) -> Result<Guide, GuideError> {
        Guide::parse(self.name, self.text, Some(GuideFormat::Sysctl), &|_| None)
    }
}

const fn guide(name: &'static str, title: &'static str, source: &'static str, text: &'static str) -> LibraryGuide {
    LibraryGuide { name, title, source, text }
}

/// Every guide of the library.
pub const LIBRARY: &[LibraryGuide] = &[
    guide(
        "aws:game-servers-2017",
        "game servers on C4 instances, with its advice to double and halve applied to its defaults",
        "AWS, Optimizing Multiplayer Game Server Performance on AWS, April 2017 (archived)",
        "net.core.rmem_default=425984\nnet.core.rmem_max=425984\nnet.core.busy_read=50\nnet.core.busy_poll=50\n\
         net.ipv4.udp_mem=1441320 1921764 2882640\nnet.core.netdev_max_backlog=2000\nclocksource=tsc\n\
         cmdline.intel_idle.max_cstate=1\nkernel.sched_min_granularity_ns=6000000\nkernel.sched_wakeup_granularity_ns=2000000\n\
         kernel.sched_migration_cost_ns=8000000\nkernel.numa_balancing=0\nvm.swappiness=30\nvm.dirty_ratio=20\n\
         vm.dirty_background_ratio=10\n",
    ),
    guide(
        "aws:ec2-xen-2016",
        "EC2 instances under Xen: clock, idle states, huge pages, half of the hyper-threads",
        "a talk on EC2 instances, 2016 (seed of this project)",
        "clocksource=tsc\ncmdline.intel_idle.max_cstate=1\ncmdline.maxcpus=64\nthp.enabled=never\nthp.defrag=never\nvm.nr_hugepages=10000\n",
    ),
    guide(
        "pinterest:memcached-rps",
        "memcached on EC2: interrupts on one CPU, receive packet steering on the others (8 CPUs)",
        "Pinterest Engineering, memcached performance on EC2",
        "irq.affinity=0\nnet.rps_cpus=0-3\nirqbalance.banned_cpus=0-7\n",
    ),
    guide(
        "canonical:c4-pstates",
        "memcached on c4.8xlarge with Ubuntu 14.04: frequency and idle states",
        "a post on C-states and P-states of EC2, July 2015",
        "cpufreq.governor=performance\ncmdline.intel_idle.max_cstate=1\ncmdline=intel_pstate=enable\n",
    ),
    guide(
        "aws:ena-latency",
        "ENA interfaces for latency",
        "amzn-drivers, ENA Linux best practices, May 2026",
        "net.core.busy_read=70\nnet.core.busy_poll=70\nnet.coalesce_rx_us=0\nnet.rings=16384\n",
    ),
    guide(
        "tuned:latency-performance",
        "TuneD's profile for latency",
        "TuneD 2.28, profiles/latency-performance",
        "cpuidle.dma_latency_us=3\ncpufreq.governor=performance\ncpufreq.boost=1\nvm.dirty_ratio=10\nvm.dirty_background_ratio=3\n\
         vm.swappiness=10\n",
    ),
    guide(
        "tuned:network-latency",
        "TuneD's profile for network latency, with latency-performance, which it includes",
        "TuneD 2.28, profiles/network-latency",
        "cpuidle.dma_latency_us=3\ncpufreq.governor=performance\ncpufreq.boost=1\nvm.dirty_ratio=10\nvm.dirty_background_ratio=3\n\
         vm.swappiness=10\nthp.enabled=never\nnet.core.busy_read=50\nnet.core.busy_poll=50\nnet.ipv4.tcp_fastopen=3\n\
         kernel.numa_balancing=0\nkernel.hung_task_timeout_secs=600\nkernel.nmi_watchdog=0\nvm.stat_interval=10\n\
         kernel.timer_migration=0\n\
         cmdline=skew_tick=1 tsc=reliable rcupdate.rcu_normal_after_boot=1 rcutree.nohz_full_patience_delay=1000\n",
    ),
    guide(
        "tuned:throughput-performance",
        "TuneD's profile for throughput, which it recommends on servers",
        "TuneD 2.28, profiles/throughput-performance",
        "cpufreq.governor=performance\ndisk.read_ahead_kb=4096\nvm.dirty_ratio=40\nvm.dirty_background_ratio=10\nvm.swappiness=10\n\
         net.core.somaxconn=2048\n",
    ),
    guide(
        "tuned:realtime",
        "TuneD's profile for real time, but for the CPUs that a user has to name",
        "TuneD 2.28, profiles/realtime",
        "kernel.sched_rt_runtime_us=-1\ncmdline=isolcpus=managed_irq,domain intel_pstate=disable nosoftlockup\n",
    ),
    guide(
        "bpftune:casual",
        GAMES,
        BPFTUNE,
        "net.core.rmem_default=262144\nnet.core.wmem_default=262144\n\
        net.core.rmem_max=8388608\nnet.core.wmem_max=8388608\nnet.core.netdev_max_backlog=5000\nnet.core.netdev_budget=400\n\
        net.core.netdev_budget_usecs=8000\nnet.ipv4.udp_mem=65536 436900 8388608\nnet.core.busy_read=25\nnet.core.busy_poll=25\n\
        net.ipv4.udp_early_demux=1\n",
    ),
    guide(
        "bpftune:competitive",
        GAMES,
        BPFTUNE,
        "net.core.rmem_default=262144\nnet.core.wmem_default=262144\n\
        net.core.rmem_max=16777216\nnet.core.wmem_max=16777216\nnet.core.netdev_max_backlog=5000\nnet.core.netdev_budget=600\n\
        net.core.netdev_budget_usecs=8000\nnet.ipv4.udp_mem=102400 873800 16777216\nnet.core.busy_read=50\nnet.core.busy_poll=50\n\
        net.ipv4.udp_early_demux=1\n",
    ),
    guide(
        "bpftune:intense",
        GAMES,
        BPFTUNE,
        "net.core.rmem_default=262144\nnet.core.wmem_default=262144\n\
        net.core.rmem_max=33554432\nnet.core.wmem_max=33554432\nnet.core.netdev_max_backlog=5000\nnet.core.netdev_budget=800\n\
        net.core.netdev_budget_usecs=8000\nnet.ipv4.udp_mem=204800 1747600 33554432\nnet.core.busy_read=75\nnet.core.busy_poll=75\n\
        net.ipv4.udp_early_demux=1\n",
    ),
    guide(
        "seastar:perftune",
        "what perftune sets for networks on every machine",
        "Seastar, scripts/perftune.py, August 2026",
        "net.core.rps_sock_flow_entries=32768\nnet.core.somaxconn=4096\nnet.ipv4.tcp_max_syn_backlog=4096\n",
    ),
    guide(
        "redpanda:tune",
        "what `rpk redpanda tune` sets for CPUs, clock and memory",
        "Redpanda, src/go/rpk/pkg/tuners, December 2024",
        "cpufreq.boost=0\ncpufreq.governor=performance\nclocksource=tsc\nvm.swappiness=1\nthp.enabled=always\n\
         net.core.rps_sock_flow_entries=32768\nnet.core.somaxconn=4096\nnet.ipv4.tcp_max_syn_backlog=4096\n\
         cmdline=intel_idle.max_cstate=0 processor.max_cstate=1 intel_pstate=disable\n",
    ),
    guide(
        "web:game-server-sysctl",
        "the block of sysctls that pages on game servers repeat",
        "the common lines of several pages on Source and Minecraft servers, 2024 to 2026",
        "net.core.rmem_max=8388608\nnet.core.wmem_max=8388608\nnet.core.rmem_default=524288\nnet.core.wmem_default=524288\n\
         net.core.netdev_max_backlog=5000\nnet.core.netdev_budget=600\nnet.core.somaxconn=4096\nnet.core.default_qdisc=fq\n\
         net.ipv4.tcp_congestion_control=bbr\nnet.ipv4.tcp_fastopen=3\nnet.ipv4.tcp_fin_timeout=15\nnet.ipv4.tcp_tw_reuse=1\n\
         net.ipv4.tcp_slow_start_after_idle=0\nnet.ipv4.tcp_low_latency=1\nnet.ipv4.udp_rmem_min=16384\n\
         net.ipv4.udp_wmem_min=16384\nvm.swappiness=10\nvm.vfs_cache_pressure=50\nfs.file-max=2097152\n",
    ),
];

const GAMES: &str = "bpftune's profile for games, which it sets while bursts of UDP last";
const BPFTUNE: &str = "Oracle bpftune 0.4, gaming tuner, 2025";
