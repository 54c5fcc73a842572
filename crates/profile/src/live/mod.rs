//! Records a machine, processes, threads or a control group through perf_event_open(2), as a complete `perf.data` file.
//!
//! The ring of each CPU is read periodically. Its records go unchanged to a [`Sink`]: a file, memory, or a window of the last seconds.
//! The normal reader of `perf.data` reads the result. So live and recorded data use the same code.

mod already;
mod build_ids;
mod chosen;
mod config;
mod error;
mod events;
mod lives;
mod order;
mod pace;
mod packed;
pub mod probe;
mod recorder;
mod sink;
mod summary;
mod targets;
mod waking;
mod window;

pub use config::{CLOCK_HZ, RING_BYTES, RecordConfig, Switches, Targets};
pub use error::LiveError;
pub use recorder::record;
pub use sink::{FileSink, Memory, Sink};
pub use summary::{RecordSummary, Status, Unseen};
pub use window::{Outlet, Window};

/// Checks whether the kernel accepts the probes.
///
/// # Errors
/// [`LiveError::NoProbe`] if a probe cannot be set.
pub fn try_probes(config: &RecordConfig) -> Result<(), LiveError> {
    events::try_probes(config, &targets::cpus(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrequested_data_is_not_missed() {
        let unseen = ["which files are run by 1 of the processes: …", "who wakes whom"].map(str::to_owned);
        let mut summary =
            RecordSummary { unseen: unseen.iter().cloned().map(Unseen::from).collect(), ..RecordSummary::default() };
        summary.unseen[0].of.push(1);
        let table: [(&[u32], &[String]); 4] =
            [(&[], &unseen), (&[7], &unseen[1..]), (&[7, 1], &unseen), (&[7, 8], &unseen[1..])];
        for (pids, expected) in table {
            assert_eq!(summary.unseen_of(pids), expected, "{pids:?}");
        }
    }
}
