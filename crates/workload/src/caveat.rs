//! `WorkloadCaveat`: the caveats of a workload with their figures. Most of them say that the load was at its limit.

use std::fmt;

/// Why something other than the server may limit the values, or why the values lack something that was requested.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
pub enum WorkloadCaveat {
    /// In the median window, the busiest thread of the load was at its limit.
    LoadThreadFull { share: f64 },
    /// The CPUs of the load were full. `by_server` is 0 if the server may also run on other CPUs.
    LoadCpusFull { by_load: f64, by_server: f64 },
    /// The load of a window runs so briefly that its start takes a large part of the time.
    LoadShort { share: f64 },
    /// The load generator was busy most of the time.
    GeneratorBusy { share: f64, server: &'static str },
    /// The load generator sent requests late although a connection was free.
    GeneratorLate { share: f64 },
    /// Some requests became due but were never sent.
    Unsent { share: f64, server: &'static str, connections: u32 },
    /// In the median window, the players sent inputs late.
    PlayersLate { share: f64 },
    /// The server's tick could not be observed. Without players, only its CPU time was measured.
    TickUnseen { why: String, has_players: bool },
}

/// Prints one sentence, without a full stop.
impl fmt::Display for WorkloadCaveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        match self {
            WorkloadCaveat::LoadThreadFull { share } => write!(
                f,
                "a thread of the load used {:.0} % of a CPU in the median window: the load may limit the result, not the server; give it more threads or CPUs",
                percent(*share)
            ),
            WorkloadCaveat::LoadCpusFull { by_load, by_server } => {
                let [load, server] = [by_load, by_server].map(|share| format!("{:.0} %", percent(*share)));
                match server.as_str() {
                    "0 %" => write!(f, "the load used {load} of all CPUs that it may run on"),
                    server => {
                        write!(f, "the load used {load} and the server {server} of all CPUs that the load may run on")
                    }
                }?;
                f.write_str(": the load may limit the result, not the server; give it more CPUs, or CPUs of its own")
            }
            WorkloadCaveat::LoadShort { share } => write!(
                f,
                "the load ran for only {:.1} % of the median window, so its startup is a large part of the measurement; make the load longer",
                percent(*share)
            ),
            WorkloadCaveat::GeneratorBusy { share, server } => write!(
                f,
                "the load generator was busy for {:.0} % of the time: it may limit the result, not {server}",
                percent(*share)
            ),
            WorkloadCaveat::GeneratorLate { share } => write!(
                f,
                "the load generator sent {:.1} % of its requests more than 1 ms late although a connection was free",
                percent(*share)
            ),
            WorkloadCaveat::Unsent { share, server, connections } => write!(
                f,
                "{:.1} % of the requests were never sent because no connection was free: the rate is higher than {server} can answer over {connections} connections",
                percent(*share)
            ),
            WorkloadCaveat::PlayersLate { share } => write!(
                f,
                "the players sent {:.1} % of their inputs more than 2 ms late in the median window",
                percent(*share)
            ),
            WorkloadCaveat::TickUnseen { why, has_players: false } => {
                write!(f, "only the server's CPU time was measured, because evenkeel can't observe its tick: {why}")
            }
            WorkloadCaveat::TickUnseen { why, has_players: true } => {
                write!(f, "evenkeel can't observe the server's tick from outside: {why}")
            }
        }
    }
}
