//! What the ways of a socket took when they were tried, and which is best.

use std::fmt;
use std::net::SocketAddr;

use super::settings::{IoBackend, usual};

/// What one way took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendTrialRow {
    /// The way.
    pub way: IoBackend,
    /// CPU time a packet that was received, in nanoseconds: the median of the rounds. None if the way is not to be had, or was not tried.
    pub receive_ns: Option<f64>,
    /// CPU time a packet that was sent, in nanoseconds. On loopback that has in it what the receiver's side of the kernel takes.
    pub send_ns: Option<f64>,
}

/// What the ways took.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendTrial {
    /// A row for each way that there is.
    pub rows: Vec<BackendTrialRow>,
    /// How many rounds each had.
    pub rounds: usize,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Where the packets went, if not to loopback.
    pub toward: Option<SocketAddr>,
}

impl BackendTrial {
    /// The way to receive; none if there were too few rounds.
    pub fn receive_backend(&self) -> Option<IoBackend> {
        self.best(|row| row.receive_ns)
    }

    /// The way to send; none if there were too few rounds.
    pub fn send_backend(&self) -> Option<IoBackend> {
        self.best(|row| row.send_ns)
    }

    fn best(&self, ns: impl Fn(&BackendTrialRow) -> Option<f64>) -> Option<IoBackend> {
        let figures = self.rows.iter().filter_map(|row| Some((row.way, ns(row)?)));
        let (best, best_ns) = figures.clone().min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let usual_ns = figures.clone().find(|(way, _)| *way == usual()).map(|(_, ns)| ns);
        Some(if usual_ns.is_some_and(|usual_ns| usual_ns * BETTER <= best_ns) { usual() } else { best })
    }
}

impl fmt::Display for BackendTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.took_ns as f64 / 1e6;
        write!(f, "tried in {} rounds, {ms:.0} ms, ", self.rounds)?;
        match self.toward {
            Some(address) => writeln!(f, "sending to {address}, receiving on loopback:")?,
            None => writeln!(f, "on loopback:")?,
        }
        for BackendTrialRow { way, receive_ns, send_ns } in &self.rows {
            let text = |ns: &Option<f64>| ns.map_or("not tried".to_owned(), |ns| format!("{ns:.0} ns"));
            writeln!(f, "  {way:10} {:>10} received {:>10} sent", text(receive_ns), text(send_ns))?;
        }
        Ok(())
    }
}

/// A way that is not this much better than the usual one is not worth leaving it for: the next trial would say otherwise.
const BETTER: f64 = 0.97;
