//! The placement of server and load on CPUs, as a setting to compare. evenkeel moves them while they run, which needs no privilege.

use evenkeel_sys::{CpuSet, thread};

use crate::error::WorkloadError;
use crate::placement::Placement;
use crate::process_knob::ProcessKnobs;

/// The name of the setting. It belongs to the workload and not to the host, so no plan for the host contains it.
pub const PLACEMENT: &str = "workload.placement";

/// Moves a server and its load to other CPUs.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    server: ProcessKnobs,
    load: ProcessKnobs,
}

impl Mover {
    /// Moves all threads of server and load.
    /// `None` moves each thread back to the CPUs that it had before the first move.
    /// Returns the current placement and the CPUs of the load, so that later threads of the load can be pinned to them.
    /// The CPUs are None if the load is not pinned.
    ///
    /// # Errors
    /// Fails if the value is not a placement, or the kernel refuses.
    pub(crate) fn set(
        &mut self,
        started: Placement,
        value: Option<&str>,
        server: &[u32],
        load: &[u32],
    ) -> Result<(String, CpuSet), WorkloadError> {
        let error = |why: String| WorkloadError::Switch {
            knob: PLACEMENT.to_owned(),
            wanted: value.unwrap_or("what it was").to_owned(),
            why,
        };
        let placement = match value {
            Some(value) => Placement::parse(value).ok_or_else(|| error("expected apart, together or free".into()))?,
            None => started,
        };
        let ours = thread::affinity().map_err(|errno| error(format!("ask for our own CPUs: {errno}")))?;
        let (server_cpus, load_cpus) = placement.cpus();
        let Mover { server: of_server, load: of_load } = self;
        for (knobs, pids, cpus) in [(of_server, server, &server_cpus), (of_load, load, &load_cpus)] {
            if !pids.is_empty() {
                let cpus = if cpus.is_empty() { &ours } else { cpus }.to_string();
                // A server may have pinned its own threads. Restore these pinnings, instead of the CPUs with which the server was started.
                knobs.set(pids, "process.cpu_affinity", value.map(|_| cpus.as_str()))?;
            }
        }
        Ok((placement.to_string(), load_cpus))
    }
}
