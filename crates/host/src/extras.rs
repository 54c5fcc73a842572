//! `Extras`: what only some knobs have. A knob's file names what it has and takes the rest of [`Extras::NONE`]; other crates
//! interpret the types here and never a knob's id.

use crate::facts::Facts;
use crate::rank::Effect;

/// What only some knobs have.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    /// Where the counters among those that `shows_in` names are read now, so that `explain` can show them.
    pub read_in: &'static [CounterPlace],
    /// The counter by which a trial sees whether the knob was at work.
    pub counter: Option<Counter>,
    /// Files whose values the kernel changes along with it: whole paths, or of a device's knob those in its own folder.
    pub side_effects: &'static [&'static str],
    /// Why a machine can't bear a value that is within the knob's range; none where it can, or where no fact tells.
    pub too_much: Option<fn(&Facts, &str) -> Option<String>>,
    /// The longest wait that it can spare a tick, where that is not the usual one of its area.
    pub effect: Option<Effect>,
    /// Values that `tune` tries although the present one is well by all that is known; it takes the first that is not in force.
    pub worth_a_trial: &'static [&'static str],
    /// Other programs that set it too.
    pub set_by: &'static [Program],
    /// TuneD's own profiles that set it.
    pub tuned: &'static [TunedProfile],
    /// The wait of a server's tick that it shortens at once, without a restart of anything.
    pub shortens: Option<Wait>,
    /// How a running process has it, where it is a property of one.
    pub process: Option<Process>,
    /// How it outlives a boot, where its place alone does not tell.
    pub lasts: Option<Lasts>,
}

impl Extras {
    /// None of it.
    pub const NONE: Extras = Extras {
        read_in: &[],
        counter: None,
        side_effects: &[],
        too_much: None,
        effect: None,
        worth_a_trial: &[],
        set_by: &[],
        tuned: &[],
        shortens: None,
        process: None,
        lasts: None,
    };
}

/// A program that sets a knob too, beside the ones that set whatever they find (bpftune, saptune).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The agents of a container network.
    ContainerNetwork,
    /// Google's google_set_multiqueue, which runs at every boot.
    GoogleMultiqueue,
}

/// A profile that comes with TuneD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunedProfile {
    /// network-latency.
    NetworkLatency,
    /// latency-performance.
    LatencyPerformance,
    /// throughput-performance, and virtual-guest, virtual-host and network-throughput, which include it.
    Throughput,
    /// realtime.
    Realtime,
}

impl TunedProfile {
    /// The profile of this name; none for one of somebody's own.
    pub fn named(name: &str) -> Option<TunedProfile> {
        Some(match name {
            "network-latency" => TunedProfile::NetworkLatency,
            "latency-performance" => TunedProfile::LatencyPerformance,
            "throughput-performance" | "virtual-guest" | "virtual-host" | "network-throughput" => {
                TunedProfile::Throughput
            }
            "realtime" => TunedProfile::Realtime,
            _ => return None,
        })
    }
}

/// A wait of a tick, the longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// A halted virtual CPU that the hypervisor has to run again first.
    Hypervisor,
    /// A CPU that has to leave an idle state first.
    IdleExit,
    /// A sleep that the kernel ends late: nothing but the lateness of ticks shows it.
    LateTimer,
}

/// How a running process has a property.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Whose property it is.
    pub of: Owner,
    /// Whether it can be set from outside in every thread of a process that runs.
    pub while_it_runs: bool,
    /// Whether a process has the wanted value, by its files. None where they can't be read, no function where the kernel does not tell.
    pub has: Option<fn(ProcessFiles<'_>, &str) -> Option<bool>>,
}

/// Gives the text of a file in /proc/PID by its name; none where it can't be read.
pub type ProcessFiles<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Whose process has a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user's server.
    Server,
    /// A service of the distribution, by its unit.
    Service(&'static str),
}

/// How a setting outlives a boot.
#[derive(Clone, Copy, Debug)]
pub enum Lasts {
    /// By lines of `[Service]` in a drop-in of the server's unit.
    ServerUnit(ServerUnit),
    /// By keys of `[Link]` in a file that udev applies to an interface when it appears.
    Link {
        /// The keys, with `{}` where the value goes.
        keys: &'static str,
        /// The first systemd that has them (`systemd.link(5)`).
        since: u32,
    },
    /// By the variables that irqbalance's unit reads.
    IrqbalanceVariables,
}

/// What a drop-in of the server's unit can do for a property of its process.
#[derive(Clone, Copy, Debug)]
pub struct ServerUnit {
    /// The lines that bring a value about; none for a value that no line does. Of a list that systemd adds up, one that empties it
    /// comes first.
    pub lines: fn(&str) -> Option<String>,
    /// A key with its value that goes along with it, unless another setting has lines for this key.
    pub along: Option<(&'static str, &'static str)>,
    /// What is said of a value that no line brings about.
    pub without_lines: Option<UnitLimit>,
    /// What is said where the lines only permit it.
    pub only_permits: Option<UnitLimit>,
}

impl ServerUnit {
    /// Of a property that no line brings about.
    pub const NONE: ServerUnit = ServerUnit { lines: |_| None, along: None, without_lines: None, only_permits: None };
}

/// What a unit can't do for a property.
#[derive(Clone, Copy, Debug)]
pub struct UnitLimit {
    /// Why not.
    pub why: &'static str,
    /// What to do; none where it is what the knob's place says, unit or no unit.
    pub todo: Option<&'static str>,
}

/// Where counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterPlace {
    /// A file of /proc that has many counters.
    Table {
        /// The file.
        file: &'static str,
        /// Those that matter; none where it is the reader who compares them over time.
        names: &'static [&'static str],
    },
    /// Columns of /proc/net/softnet_stat, counted from 1.
    SoftnetColumns(&'static [usize]),
    /// How often each idle state was entered.
    IdleUsage,
    /// A file under /sys or /proc/sys.
    File(&'static str),
    /// Every file of a folder there.
    Folder(&'static str),
}

/// A counter of the kernel that moves when a knob is at work. A knob that never got to work has no effect to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// How often each idle state was entered: by CPUs that are never idle, never.
    IdleStates,
    /// Packets that pass a network device: none of those that stay on loopback.
    DevicePackets,
    /// Packets that a waiting thread took from the device itself: BusyPollRxPackets in /proc/net/netstat.
    BusyPolling,
    /// Packets that one CPU handed to another: received_rps in /proc/net/softnet_stat.
    SteeredPackets,
    /// Packets that pass a CPU's backlog: processed, dropped and received_rps in /proc/net/softnet_stat.
    Backlog,
    /// How often a CPU's budget for packets was used up: time_squeeze in /proc/net/softnet_stat.
    PacketBudget,
    /// Datagrams that found a socket's buffer full: RcvbufErrors in /proc/net/snmp.
    ReceiveBuffers,
    /// Datagrams that arrived: InDatagrams in /proc/net/snmp.
    UdpDatagrams,
    /// The interrupts of the plan's places by CPU, in /proc/interrupts.
    InterruptsByCpu,
    /// Connections that are tracked: nf_conntrack_count.
    TrackedConnections,
    /// Huge pages made at a fault or put together later: thp_fault_alloc and its like in /proc/vmstat.
    HugePageFaults,
    /// Huge pages of the pool that are in use, in /proc/meminfo.
    HugePagesInUse,
    /// Pages looked at to make room for huge ones: compact_migrate_scanned and its like in /proc/vmstat.
    Compaction,
    /// Pages looked at for reclaim or swap: pgscan_kswapd and its like in /proc/vmstat.
    Reclaim,
    /// Pages looked at to move them nearer: numa_pte_updates and its like in /proc/vmstat.
    NumaHinting,
    /// Pages written to disks: nr_written in /proc/vmstat.
    WrittenPages,
    /// Requests to the plan's disks, in /proc/diskstats.
    DiskRequests,
    /// Whether threads waited for a CPU, in /proc/pressure/cpu: where none does, there is nothing to choose between.
    WaitingThreads,
    /// The frequency that CPUs ran at.
    Frequency,
    /// The server's own value, read back in every window.
    ReadBack,
}
