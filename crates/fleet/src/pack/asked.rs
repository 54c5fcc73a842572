//! The question to `evenkeel pack plan`, and the reasons why it may have no answer.

use serde::Serialize;

/// The maximum number of sessions of a table, with all counts added.
pub const SESSIONS_MAX: u64 = 10_000;

/// If ticks come at random times, they wait on average for load / (1 - load) × half a piece of work.
/// This formula is that of Pollaczek and Khinchine for work of constant length.
/// The mean wait is 1.2 pieces at a load of 0.7, 2 at 0.8, and 4.5 at 0.9.
/// So a load slightly above 0.7 already makes ticks late.
pub const LOAD_MAX: f64 = 0.7;

/// A session that uses at least this share of a CPU is heavy. Two busy siblings each do about 0.6 of the work that a CPU does alone.
/// So next to a session of 0.25 CPUs, a session takes at most 1.17 times as long on average.
/// A session with less load costs its sibling less, and counts as light.
pub const HEAVY_CPUS: f64 = 0.25;

/// The CPU time that the kernel needs for a packet on the CPU that serves the interrupt, in microseconds.
/// Drivers need 0.5 to 2 µs for a small UDP packet; this is the upper end.
pub(super) const PACKET_US: f64 = 2.0;

/// If packets take at most this share of each CPU that serves interrupts, sessions may run there too.
/// A tenth of the load bound delays a tick by less than a tenth of its work.
pub(super) const INTERRUPT_LOAD_MAX: f64 = 0.07;

/// The default of [`Options::work`]: about a second on 128 CPUs.
const WORK: u32 = 150_000;

/// What to do with CPUs that serve the network's interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InterruptCpus {
    /// Sessions run there too.
    Share,
    /// No session runs there.
    Avoid,
    /// Sessions run there if packets take little of these CPUs, or if these are more than half of all CPUs.
    #[default]
    Auto,
}

/// Which CPUs each session may run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuSets {
    /// The CPUs that the placement counts on: one, or as many as a large session needs.
    One,
    /// All CPUs for sessions that share a last-level cache with those CPUs.
    Cache,
    /// All CPUs for sessions in their node.
    /// A tick that finds its CPU busy takes another CPU, so about twice to three times as many sessions fit in the simulation
    /// of docs/findings/2026-11-26-placement.md.
    #[default]
    Node,
}

/// The rules that a placement must follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The maximum load of a CPU, from 0 to 1.
    pub load_max: f64,
    /// The number of CPUs to leave for the system. `None` for the default: 0.5 of one CPU, 1 of up to four CPUs, 0 of more.
    pub system_cpus: Option<f64>,
    /// What to do with CPUs that serve interrupts.
    pub interrupt_cpus: InterruptCpus,
    /// Which CPUs each session may run on.
    pub cpu_sets: CpuSets,
    /// The share of a CPU that the hypervisor gives, with the CPU's number, for each CPU where it was measured.
    pub shares: Vec<(usize, f64)>,
    /// The maximum number of states that the search visits.
    pub work: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            load_max: LOAD_MAX,
            system_cpus: None,
            interrupt_cpus: InterruptCpus::Auto,
            cpu_sets: CpuSets::default(),
            shares: Vec::new(),
            work: WORK,
        }
    }
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// There are more sessions than evenkeel computes a placement for.
    #[error("{0} sessions, and the most is {SESSIONS_MAX}")]
    TooManySessions(u64),
    /// Two sessions have one systemd service.
    #[error("two sessions have the unit {0}")]
    UnitTwice(String),
    /// The facts do not say which CPUs run.
    #[error("{0}")]
    NoCpus(String),
}
