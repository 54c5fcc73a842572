//! The CPUs whose slices a job system follows.

use std::io;

use evenkeel_rt::{CpuSet, Slices};

use crate::failure::{EvenkeelStatus, Failure};

/// The CPUs whose slices a job system follows.
pub(super) struct Followed {
    cpus: CpuSet,
    slices: Slices,
}

impl Followed {
    pub(super) fn start(cpus: CpuSet) -> Result<Followed, Failure> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidInput => Failure::new(EvenkeelStatus::OutOfRange, error),
            _ => Failure::new(EvenkeelStatus::Refused, error),
        };
        Ok(Followed { slices: Slices::start(&cpus).map_err(failed)?, cpus })
    }

    pub(super) fn slices(&self) -> Slices {
        self.slices.clone()
    }

    /// Returns the slices if the job system follows this CPU.
    pub(super) fn slices_of(&self, cpu: usize) -> Option<&Slices> {
        self.cpus.contains(cpu).then_some(&self.slices)
    }
}
