//! `Extras`: properties that only some knobs have.
//! A knob's file sets the properties that the knob has, and takes the rest from [`Extras::NONE`].
//! Other crates interpret these types, never a knob's id.

use crate::facts::Facts;
use crate::rank::Effect;

/// Maps a knob's value to another file, and to the value of that file.
pub type Along = fn(&str) -> Option<(&'static str, &str)>;

/// Properties that only some knobs have.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    /// The counters from `shows_in`, whose current values `explain` reads.
    pub read_in: &'static [CounterPlace],
    /// The counter that shows a trial whether the knob was engaged.
    pub counter: Option<Counter>,
    /// Files that the kernel changes along with the knob's file: complete paths or, for a device's knob, names in the device's folder.
    pub side_effects: &'static [&'static str],
    /// While the knob has the given value, a file of another knob has the value that this function returns.
    /// Another value for that file contradicts the setting.
    pub along: Option<Along>,
    /// Why this machine must not have a value that is within the knob's range. `None` if the value is allowed, or if no fact decides it.
    pub reject_for: Option<fn(&Facts, &str) -> Option<String>>,
    /// The largest value of older kernels, if it was smaller than the knob's own maximum.
    pub max_before: Option<MaxBefore>,
    /// The values to which the knob's risk applies.
    pub risk_at: RiskAt,
    /// Values that open the machine to attacks, as `risk` describes. A guide's line with one of these values is dangerous.
    pub dangerous_values: &'static [&'static str],
    /// The longest delay of a tick that the knob can prevent, if it differs from the usual delay of the knob's area.
    pub effect: Option<Effect>,
    /// Values that `tune` tries although the advice is to keep the present value. `tune` takes the first value that is not in force.
    pub worth_a_trial: &'static [&'static str],
    /// Other programs that also set the knob.
    pub set_by: &'static [Program],
    /// TuneD's own profiles that set the knob.
    pub tuned: &'static [TunedProfile],
    /// The wait of a server's tick that the knob shortens at once, without a restart.
    pub shortens: Option<Wait>,
    /// The names that tools and other programs have for the knob: the tool, its option, the name of the value.
    pub called: &'static [&'static str],
    /// For a property of a process: which process has the property, and how to set and check it. `None` for all other knobs.
    pub process: Option<Process>,
    /// How a setting of the knob persists over a boot. `None` if the knob's place alone determines that.
    pub lasts: Option<Lasts>,
}

impl Extras {
    /// A knob without any of these properties.
    pub const NONE: Extras = Extras {
        read_in: &[],
        counter: None,
        side_effects: &[],
        along: None,
        reject_for: None,
        max_before: None,
        risk_at: RiskAt::Any,
        dangerous_values: &[],
        effect: None,
        worth_a_trial: &[],
        set_by: &[],
        tuned: &[],
        shortens: None,
        called: &[],
        process: None,
        lasts: None,
    };
}

/// The largest value that a kernel before a certain version accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxBefore {
    /// Major and minor number of the first kernel that accepts larger values.
    pub kernel: (u32, u32),
    /// The largest value of earlier kernels.
    pub max: i64,
}

impl MaxBefore {
    /// Why the kernel of this machine refuses a value. `None` if the kernel may accept the value, or if its version is unknown.
    pub(crate) fn refusal(self, facts: &Facts, value: &str) -> Option<String> {
        let (MaxBefore { kernel: (major, minor), max }, number) = (self, value.parse::<i64>().ok()?);
        let is_old = facts.kernel.is_at_least(major, minor) == Some(false);
        (is_old && number > max).then(|| format!("before Linux {major}.{minor} the kernel accepts at most {max} there"))
    }
}

/// The values of a knob to which its risk applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskAt {
    /// Every value.
    Any,
    /// Only these values.
    Values(&'static [&'static str]),
    /// All values except these.
    Except(&'static [&'static str]),
    /// The values above the present value.
    Higher,
    /// The values below the present value.
    Lower,
    /// The values up to this number.
    UpTo(i64),
}

impl RiskAt {
    /// Whether setting a value has the risk. For `Higher` and `Lower`, a value that cannot be compared with the present value has the risk.
    pub fn has(self, value: &str, present: Option<&str>) -> bool {
        let differs = |is_it: fn(&i64, &i64) -> bool| {
            let numbers =
                |text: &str| text.split_whitespace().map(|word| word.parse::<i64>()).collect::<Result<Vec<_>, _>>();
            match (numbers(value), present.map(numbers)) {
                (Ok(wanted), Some(Ok(present))) => {
                    wanted.iter().zip(&present).any(|(wanted, present)| is_it(wanted, present))
                }
                _ => true,
            }
        };
        match self {
            RiskAt::Any => true,
            RiskAt::Values(values) => values.contains(&value),
            RiskAt::Except(values) => !values.contains(&value),
            RiskAt::Higher => differs(i64::gt),
            RiskAt::Lower => differs(i64::lt),
            RiskAt::UpTo(most) => value.parse::<i64>().is_ok_and(|number| number <= most),
        }
    }
}

/// A program that also sets the knob. Programs that may set any knob (bpftune, saptune) are handled elsewhere.
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
    /// throughput-performance, and the profiles that include it: virtual-guest, virtual-host and network-throughput.
    Throughput,
    /// realtime.
    Realtime,
}

impl TunedProfile {
    /// The profile with this name. `None` for a custom profile.
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

/// A reason why a tick waits, the longest wait first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// The hypervisor must first run a halted virtual CPU.
    Hypervisor,
    /// A CPU must first leave an idle state.
    IdleExit,
    /// The kernel ends a sleep late. Only the lateness of ticks shows this.
    LateTimer,
}

/// Which process has a property, and how the property is set and checked.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// The process that has the property.
    pub of: Owner,
    /// Whether the property can be set from outside, in every thread of a running process.
    pub while_it_runs: bool,
    /// Whether a process has the wanted value, according to its files in /proc. The function returns `None` if the files cannot be read.
    /// The field is `None` if the kernel does not show the value.
    pub has: Option<fn(ProcessFiles<'_>, &str) -> Option<ProcessValue>>,
    /// What resets the value while the process runs, apart from the program itself.
    pub reset_by: Option<&'static str>,
}

/// The value of a property of a process, compared with the wanted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessValue {
    /// The process has the wanted value.
    Wanted,
    /// The process has another value, which is this text.
    Other(String),
}

impl ProcessValue {
    /// Returns `Wanted` if `is_wanted`. Otherwise returns the value that was found.
    pub(crate) fn new(is_wanted: bool, found: impl Into<String>) -> ProcessValue {
        if is_wanted { ProcessValue::Wanted } else { ProcessValue::Other(found.into()) }
    }
}

/// Returns the text of a file in /proc/PID by its name. `None` if the file cannot be read.
pub type ProcessFiles<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process that has a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user's server.
    Server,
    /// A service of the distribution, by its unit.
    Service(&'static str),
}

/// How a setting persists over a boot.
#[derive(Clone, Copy, Debug)]
pub enum Lasts {
    /// By lines of `[Service]` in a drop-in of the server's unit.
    ServerUnit(ServerUnit),
    /// By keys of `[Link]` in a file that udev applies to an interface when it appears.
    Link {
        /// The keys, with `{}` where the value goes.
        keys: &'static str,
        /// The first version of systemd with these keys (`systemd.link(5)`).
        since: u32,
    },
    /// By the variables that irqbalance's unit reads.
    IrqbalanceVariables,
}

/// What a drop-in of the server's unit can do for a property of its process.
#[derive(Clone, Copy, Debug)]
pub struct ServerUnit {
    /// The lines that set a value. None if no line can set the value.
    /// For a list that systemd accumulates, the first line empties the list.
    pub lines: fn(&str) -> Option<String>,
    /// A key and value to add, unless another setting has lines for this key.
    pub along: Option<(&'static str, &'static str)>,
    /// The message for a value that no line sets.
    pub without_lines: Option<UnitLimit>,
    /// The message if the lines only allow the value.
    pub only_permits: Option<UnitLimit>,
}

impl ServerUnit {
    /// A property that no line of a unit sets.
    pub const NONE: ServerUnit = ServerUnit { lines: |_| None, along: None, without_lines: None, only_permits: None };
}

/// What a unit cannot do for a property.
#[derive(Clone, Copy, Debug)]
pub struct UnitLimit {
    /// The reason.
    pub why: &'static str,
    /// What to do. `None` if the knob's place already says what to do.
    pub todo: Option<&'static str>,
}

/// Where counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterPlace {
    /// A file of /proc with many counters.
    Table {
        /// The file.
        file: &'static str,
        /// The relevant counters. Empty if the reader compares all counters over time.
        names: &'static [&'static str],
    },
    /// Columns of /proc/net/softnet_stat, counted from 1.
    SoftnetColumns(&'static [usize]),
    /// How often each idle state was entered.
    IdleUsage,
    /// A file under /sys or /proc/sys.
    File(&'static str),
    /// Every file of a folder under /sys or /proc/sys.
    Folder(&'static str),
}

/// A counter of the kernel that changes when a knob is engaged. A knob that was never engaged has no effect to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// How often each idle state was entered. CPUs that are never idle enter no idle state.
    IdleStates,
    /// Packets of a network device. No counter shows these packets, so the result is unknown.
    /// Loopback traffic is an exception, because it uses no device.
    DevicePackets,
    /// Packets that a waiting thread polled from the device: BusyPollRxPackets in /proc/net/netstat.
    BusyPolling,
    /// Packets that one CPU passed to another: received_rps in /proc/net/softnet_stat.
    SteeredPackets,
    /// Packets through a CPU's backlog: processed, dropped and received_rps in /proc/net/softnet_stat.
    Backlog,
    /// How often a CPU's budget for packets was used up: time_squeeze in /proc/net/softnet_stat.
    PacketBudget,
    /// Datagrams dropped because a socket's buffer was full: RcvbufErrors in /proc/net/snmp.
    ReceiveBuffers,
    /// Datagrams that arrived: InDatagrams in /proc/net/snmp.
    UdpDatagrams,
    /// How many interrupts of the plan each CPU served, in /proc/interrupts.
    InterruptsByCpu,
    /// Tracked connections: nf_conntrack_count.
    TrackedConnections,
    /// Huge pages that the kernel made at a fault or put together later: thp_fault_alloc and similar counters in /proc/vmstat.
    HugePageFaults,
    /// Huge pages of the pool that are in use, in /proc/meminfo.
    HugePagesInUse,
    /// Pages scanned to make room for huge pages: compact_migrate_scanned and similar counters in /proc/vmstat.
    Compaction,
    /// Pages scanned for reclaim or swap: pgscan_kswapd and similar counters in /proc/vmstat.
    Reclaim,
    /// Pages scanned to move them to a nearer node: numa_pte_updates and similar counters in /proc/vmstat.
    NumaHinting,
    /// Pages written to disks: nr_written in /proc/vmstat.
    WrittenPages,
    /// Requests to the plan's disks, in /proc/diskstats.
    DiskRequests,
    /// Time that threads waited for a CPU, in /proc/pressure/cpu. Without these waits, a scheduler setting has no effect.
    WaitingThreads,
    /// The frequency that CPUs ran at.
    Frequency,
    /// No counter: a trial reads back the server's own value in every window.
    ReadBack,
}
