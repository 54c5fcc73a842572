//! `BackendTrial`: the measured CPU time of each backend, and the best one.

use std::fmt;
use std::net::SocketAddr;

use super::settings::{IoBackend, fastest};

/// The measurements of one backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendTrialRow {
    /// The backend.
    pub backend: IoBackend,
    /// CPU time of a received packet, in nanoseconds: the median of the rounds.
    /// `None` if the backend is not available, or was not measured.
    pub receive_ns: Option<f64>,
    /// CPU time of a sent packet, in nanoseconds: the median of the rounds. On loopback this time includes the receiving side of the kernel.
    /// `None` if the backend is not available, or was not measured.
    pub send_ns: Option<f64>,
}

/// The measurements of all backends.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::udp::{BackendChoice, BackendTrial, BackendTrialRow, TrialSettings, Udp, UdpSettings};
///
/// let trial = TrialSettings { at_most: Duration::from_millis(20), toward: None };
/// let address = "127.0.0.1:0".parse()?;
/// let udp = Udp::open(UdpSettings { address, trial, receive: BackendChoice::Measured, ..UdpSettings::default() })?;
/// let trial: &BackendTrial = udp.report().trial.as_ref().expect("it was requested");
/// for BackendTrialRow { backend, receive_ns, .. } in &trial.rows {
///     println!("{backend}: {receive_ns:?} ns a packet");
/// }
/// println!("best: {:?} to receive, {:?} to send", trial.receive_backend(), trial.send_backend());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BackendTrial {
    /// A row for each backend.
    pub rows: Vec<BackendTrialRow>,
    /// The number of rounds.
    pub rounds: usize,
    /// How long the measurement took, in nanoseconds.
    pub took_ns: u64,
    /// The address that packets were sent to. `None` for loopback.
    pub toward: Option<SocketAddr>,
}

impl BackendTrial {
    /// The best backend for receiving. `None` after too few rounds.
    pub fn receive_backend(&self) -> Option<IoBackend> {
        self.best(|row| row.receive_ns)
    }

    /// The best backend for sending. `None` after too few rounds.
    pub fn send_backend(&self) -> Option<IoBackend> {
        self.best(|row| row.send_ns)
    }

    fn best(&self, ns: impl Fn(&BackendTrialRow) -> Option<f64>) -> Option<IoBackend> {
        let figures = self.rows.iter().filter_map(|row| Some((row.backend, ns(row)?)));
        let (best, best_ns) = figures.clone().min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let default_ns = figures.clone().find(|(backend, _)| *backend == fastest()).map(|(_, ns)| ns);
        Some(if default_ns.is_some_and(|default_ns| default_ns * BETTER <= best_ns) { fastest() } else { best })
    }
}

impl fmt::Display for BackendTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.took_ns as f64 / 1e6;
        write!(f, "measured in {} rounds, {ms:.0} ms, ", self.rounds)?;
        match self.toward {
            Some(address) => writeln!(f, "sending to {address}, receiving on loopback:")?,
            None => writeln!(f, "on loopback:")?,
        }
        for BackendTrialRow { backend, receive_ns, send_ns } in &self.rows {
            let text = |ns: &Option<f64>| ns.map_or("not measured".to_owned(), |ns| format!("{ns:.0} ns"));
            writeln!(f, "  {backend:10} {:>10} received {:>10} sent", text(receive_ns), text(send_ns))?;
        }
        Ok(())
    }
}

/// A backend must be this much better than the default backend. A smaller difference may be noise.
const BETTER: f64 = 0.97;
