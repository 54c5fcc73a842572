//! The requests of a game server. With them, the scheduler of Kubernetes puts as many sessions on a node as hold their limits.

use serde::Serialize;

use super::objects::{Quantities, Resources};
use crate::cpu_load::{self, CpuLoad};
use crate::sessions::Session;

/// The request of Agones' own container in each pod, in thousandths of a CPU: the default of its chart.
const SDK_MILLICPUS: u64 = 30;
/// Memory above the measured need. If the limit were the need itself, the kernel would kill the server as soon as it needs a little more.
const MEMORY_FACTOR: f64 = 1.25;
/// The maximum number of thousandths of a CPU, and of MiB, that a server can request.
const MILLICPUS_MAX: u64 = 10_000_000;
const MEMORY_MIB_MAX: u64 = 1 << 30;

/// How a server gets CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuMode {
    /// A share of all CPUs of the node.
    Shared,
    /// Whole CPUs that no other pod uses.
    Pinned,
}

/// The capacity of a node for pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeRoom {
    /// The number of CPUs; none if it is not known.
    pub cpus: Option<f64>,
    /// How many sessions hold their limits on such a node, as measured; none if it was not measured.
    pub sessions: Option<u32>,
}

/// What a server requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Size {
    /// How the server gets CPU time.
    pub cpus: CpuMode,
    /// The requested CPUs, in thousandths. With `pinned`, also the limit.
    pub cpu_millis: u64,
    /// The requested memory in MiB, which is also the limit; `null` if the need is not known.
    pub memory_mib: Option<u64>,
    /// How many sessions the scheduler puts on a node; `null` if the node's CPUs are not known.
    pub sessions_per_node: Option<u32>,
    /// Where the CPUs come from.
    pub cpus_by: CpusBy,
}

/// What a request is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpusBy {
    /// The CPU time of a session, and the bound on a CPU's load.
    Need,
    /// The number of sessions that hold their limits on a node.
    Capacity,
}

/// Why a server has no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The memory of a session is not known. The kubelet pins only pods with a limit of memory.
    #[error("the memory of a session is not known, and the kubelet pins only pods with a limit of memory")]
    NoMemory,
    /// A server of this many sessions is larger than any node.
    #[error("a server of {0} sessions is larger than any node")]
    TooLarge(u32),
}

/// Sessions in one process, and the bound on a CPU's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Density {
    pub(super) sessions: u32,
    pub(super) load_max: f64,
}

pub(super) fn size(session: &Session, density: Density, mode: CpuMode, node: &NodeRoom) -> Result<Size, SizeError> {
    let sessions = u64::from(density.sessions);
    let node_millis = node.cpus.map(|cpus| (cpus * 1000.0) as u64);
    let measured = node_millis.zip(node.sessions).filter(|(_, fit)| mode == CpuMode::Shared && *fit > 0);
    let (cpu_millis, cpus_by) = match (mode, measured) {
        (CpuMode::Pinned, _) => (whole_cpus(session.cpus, density) * 1000, CpusBy::Need),
        // Round down, so that as many sessions fit as were measured.
        (CpuMode::Shared, Some((node, fit))) => {
            ((node * sessions / u64::from(fit)).saturating_sub(SDK_MILLICPUS).max(1), CpusBy::Capacity)
        }
        (CpuMode::Shared, None) => {
            (cpu_load::needed(session.cpus * sessions as f64 / density.load_max).div_ceil(1000), CpusBy::Need)
        }
    };
    let memory_mib = session.memory_mib.map(|mib| ((mib * sessions as f64 * MEMORY_FACTOR).ceil() as u64).max(1));
    if cpu_millis > MILLICPUS_MAX || memory_mib.is_some_and(|mib| mib > MEMORY_MIB_MAX) {
        return Err(SizeError::TooLarge(density.sessions));
    }
    if mode == CpuMode::Pinned && memory_mib.is_none() {
        return Err(SizeError::NoMemory);
    }
    let by_requests = node_millis.map(|node| node / (cpu_millis + SDK_MILLICPUS) * sessions);
    let fit = by_requests.into_iter().chain(node.sessions.map(u64::from)).min();
    // Only whole servers run.
    let places =
        fit.filter(|_| by_requests.is_some()).map(|fit| u32::try_from(fit / sessions * sessions).unwrap_or(u32::MAX));
    Ok(Size { cpus: mode, cpu_millis, memory_mib, sessions_per_node: places.filter(|places| *places > 0), cpus_by })
}

/// Whole CPUs by the rule of `pack`: one CPU for one busy thread, and more for more CPU time. Several sessions count as several threads.
fn whole_cpus(cpus: f64, density: Density) -> u64 {
    let load_max = cpu_load::usable(density.load_max).max(1);
    match density.sessions {
        1 => u64::from(CpuLoad::new(cpus, load_max).width),
        several => cpu_load::needed(cpus * f64::from(several)).div_ceil(u64::from(load_max)),
    }
}

impl Size {
    pub(super) fn resources(&self) -> Resources {
        let memory = self.memory_mib.map(|mib| format!("{mib}Mi"));
        let cpu = match self.cpus {
            CpuMode::Pinned => (self.cpu_millis / 1000).to_string(),
            CpuMode::Shared => format!("{}m", self.cpu_millis),
        };
        let limit = (self.cpus == CpuMode::Pinned).then(|| cpu.clone());
        Resources {
            limits: Quantities { cpu: limit, memory: memory.clone() },
            requests: Quantities { cpu: Some(cpu), memory },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: f64, sessions: u32, mode: CpuMode, node: NodeRoom) -> (u64, Option<u32>) {
        let session = Session::new("x", cpus, Some(100.0));
        let size = size(&session, Density { sessions, load_max: 0.7 }, mode, &node).unwrap();
        (size.cpu_millis, size.sessions_per_node)
    }

    #[test]
    fn a_share_leaves_the_bound_and_whole_cpus_follow_the_rule_of_pack() {
        let unknown = NodeRoom::default();
        for (cpus, sessions, shared, pinned) in [
            (0.07, 1, 100, 1000),
            (0.7, 1, 1000, 1000),
            (1.0, 1, 1429, 1000),
            (2.1, 1, 3000, 3000),
            (0.35, 6, 3000, 3000),
            (0.3, 2, 858, 1000),
            (0.45, 2, 1286, 2000),
        ] {
            assert_eq!(of(cpus, sessions, CpuMode::Shared, unknown), (shared, None), "{sessions} of {cpus}");
            assert_eq!(of(cpus, sessions, CpuMode::Pinned, unknown), (pinned, None), "{sessions} of {cpus}");
        }
    }

    #[test]
    fn as_many_fit_on_a_node_as_were_measured() {
        for cpus in [1.0, 2.0, 3.92, 4.0, 36.0] {
            for fit in 1..40 {
                let node = NodeRoom { cpus: Some(cpus), sessions: Some(fit) };
                let (millis, on_node) = of(0.2, 1, CpuMode::Shared, node);
                // If Agones' own container requests more than a session's share, fewer sessions fit.
                if millis > 1 {
                    assert_eq!(on_node, Some(fit), "{cpus} CPUs, {millis} m");
                }
            }
        }
        // Here only the requests decide, and there are fewer whole CPUs than sessions.
        assert_eq!(of(0.07, 1, CpuMode::Shared, NodeRoom { cpus: Some(4.0), sessions: None }), (100, Some(30)));
        assert_eq!(of(0.07, 1, CpuMode::Pinned, NodeRoom { cpus: Some(4.0), sessions: Some(30) }), (1000, Some(3)));
        assert_eq!(of(0.07, 4, CpuMode::Pinned, NodeRoom { cpus: Some(4.0), sessions: Some(9) }), (1000, Some(8)));
        assert_eq!(of(4.0, 1, CpuMode::Shared, NodeRoom { cpus: Some(2.0), sessions: None }), (5715, None));
    }

    #[test]
    fn a_server_that_fits_nowhere_is_refused() {
        let large = Session::new("x", 10_000.0, None);
        let density = |sessions| Density { sessions, load_max: 0.7 };
        let node = NodeRoom::default();
        assert_eq!(size(&large, density(1000), CpuMode::Shared, &node), Err(SizeError::TooLarge(1000)));
        let small = Session::new("x", 0.1, None);
        assert_eq!(size(&small, density(1), CpuMode::Pinned, &node), Err(SizeError::NoMemory));
        assert_eq!(size(&small, density(1), CpuMode::Shared, &node).unwrap().resources().limits, Quantities::default());
    }
}
