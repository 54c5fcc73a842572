//! Where server and load run as something to compare: they are moved while they run, as any user may move what is theirs.

use evenkeel_sys::{CpuSet, thread};

use super::Placement;
use crate::error::TrialError;
use crate::process_knob::ProcessKnobs;

/// The setting's name. It belongs to the workload, not to the host: no plan that is applied ever has it.
pub(crate) const PLACEMENT: &str = "workload.placement";

/// Moves a server and its load.
#[derive(Debug, Default)]
pub(super) struct Mover(ProcessKnobs);

impl Mover {
    /// Moves all threads of both; `None` back to where they were started. Returns where they are now.
    ///
    /// # Errors
    /// If the value is no placement, or the kernel refuses.
    pub(super) fn set(
        &mut self,
        started: Placement,
        value: Option<&str>,
        server: &[u32],
        load: &[u32],
    ) -> Result<String, TrialError> {
        let error = |why: String| TrialError::Switch {
            knob: PLACEMENT.to_owned(),
            wanted: value.unwrap_or("what it was").to_owned(),
            why,
        };
        let placement = match value {
            Some(value) => Placement::parse(value).ok_or_else(|| error("it is apart, together or free".into()))?,
            None => started,
        };
        let ours = thread::affinity().map_err(|errno| error(format!("ask for our own CPUs: {errno}")))?;
        let (server_cpus, load_cpus) = placement.cpus();
        for (pids, cpus) in [(server, server_cpus), (load, load_cpus)] {
            self.pin(pids, if cpus.is_empty() { &ours } else { &cpus })?;
        }
        Ok(placement.to_string())
    }

    fn pin(&mut self, pids: &[u32], cpus: &CpuSet) -> Result<(), TrialError> {
        match pids.is_empty() {
            true => Ok(()),
            false => self.0.set(pids, "process.cpu_affinity", Some(&cpus.to_string())).map(|_| ()),
        }
    }
}
