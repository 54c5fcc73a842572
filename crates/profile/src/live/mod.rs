//! Recording: what a machine, a process, a thread or a control group does, through perf_event_open(2), into a whole `perf.data` file.
//!
//! One ring a CPU is read now and then, and its records go to a [`Sink`] as the kernel wrote them: a file, memory, or a window that keeps
//! the last seconds. What comes out is read by the reader of such files, so that live and recorded data go one way.

mod already;
mod build_ids;
mod chosen;
mod config;
mod error;
mod events;
mod lives;
mod order;
mod pace;
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

/// Whether the places that are wished can be recorded.
///
/// # Errors
/// [`LiveError::NoProbe`].
pub fn try_probes(config: &RecordConfig) -> Result<(), LiveError> {
    events::try_probes(config, &targets::cpus(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_missed() {
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
