//! `drain`: a server that empties its socket once per tick, under a steady stream of packets.
//! The size of the socket's receive buffer decides whether all packets arrive, so this workload demonstrates that knob.

use std::time::Duration;

use evenkeel_stats::Direction;

use crate::caveat::WorkloadCaveat;
use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;
use crate::kit::pair::{Pair, arguments, parts};
use crate::metric::Metric;
use crate::source::NoNumber;
use crate::workload::{Sample, Workload};

const NAME: &str = "drain";

/// A trial compares ratios. The share of dropped packets is often 0, which cannot form a ratio.
/// So the default metric is the share of delivered packets, which is 0 only if no packet is delivered.
/// If drops are rare, this share hardly changes.
/// For rare drops there is `drop_share_at_most`, which counts at least one drop:
/// a window of N packets without a drop shows only that the share is below 1/N.
const METRICS: &[Metric] = &[
    Metric::new("delivered_share", "share of the packets that the server got to read", "share", Direction::Higher),
    Metric::new(
        "drop_share_at_most",
        "share of the packets that the socket dropped, counted as one packet if none was dropped",
        "share",
        Direction::Lower,
    ),
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower),
];

/// The registry entry of the workload.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "a server that empties its socket once a tick, under a steady stream of UDP packets on loopback",
    install: None,
    settings: &[
        ("drain-ms=30", "from one reading of the socket to the next, in milliseconds, 1 to 1000"),
        ("pps=64000", "packets a second, 100 to 1000000"),
        ("bytes=100", "length of a packet in bytes, 1 to 1472"),
        (
            "ask-bytes=1048576",
            "receive buffer that the server asks for, which net.core.rmem_max bounds; 0 for net.core.rmem_default",
        ),
    ],
    metrics: &[METRICS],
    start: |options| Ok(Box::new(Drain::start(options)?)),
};

/// The running server and its load.
struct Drain {
    pair: Pair,
    drain_ms: u64,
    pps: u64,
    bytes: u64,
    ask_bytes: u64,
}

impl Drain {
    fn start(options: &Options) -> Result<Drain, WorkloadError> {
        let (mut drain_ms, mut pps, mut bytes, mut ask_bytes) = (30, 64_000, 100, 1 << 20);
        for (name, value) in &options.set {
            match name.as_str() {
                "drain-ms" => drain_ms = number(name, value, 1..=1000)?,
                "pps" => pps = number(name, value, 100..=1_000_000)?,
                "bytes" => bytes = number(name, value, 1..=1472)?,
                "ask-bytes" => ask_bytes = number(name, value, 0..=1 << 30)?,
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        let server = arguments("drain-server", &[("drain-ms", drain_ms), ("ask-bytes", ask_bytes)]);
        let load = arguments("drain-load", &[("pps", pps), ("bytes", bytes)]);
        let pair = Pair::start(parts(options, server, Some(load)))?;
        Ok(Drain { pair, drain_ms, pps, bytes, ask_bytes })
    }
}

impl Workload for Drain {
    fn describe(&self) -> String {
        let Drain { drain_ms, pps, bytes, ask_bytes, .. } = self;
        let buffer = match ask_bytes {
            0 => "with the buffer that sockets are born with".to_owned(),
            asked => format!("asking for a buffer of {asked} bytes"),
        };
        format!(
            "drain: a server that reads every {drain_ms} ms, {buffer}; {pps} packets of {bytes} bytes a second, loopback; {}",
            self.pair.place()
        )
    }

    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        self.pair.pids()
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        self.pair.set(knob, value)
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.pair.reopen()
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.pair.restart()
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let mut sample = self.pair.window(settle, window, begin)?;
        let shares = shares(sample.get("received").copied(), sample.get("dropped").copied());
        let (delivered, dropped) = shares.map_err(|why| self.pair.server_error(why.to_string()))?;
        sample.insert("delivered_share".into(), delivered);
        sample.insert("drop_share_at_most".into(), dropped);
        Ok(sample)
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        self.pair.caveats()
    }

    fn stop(&mut self) {
        self.pair.stop();
    }
}

/// The shares of delivered and of dropped packets, from the socket's own counts.
fn shares(received: Option<f64>, dropped: Option<f64>) -> Result<(f64, f64), NoNumber> {
    let dropped = dropped.ok_or("the kernel does not report what a socket drops (SO_MEMINFO, since Linux 4.12)")?;
    let received = received.filter(|received| *received > 0.0).ok_or("it received nothing in a window")?;
    let came = received + dropped;
    Ok((received / came, dropped.max(1.0) / came))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_ratios_also_where_nothing_is_dropped() {
        assert_eq!(shares(Some(64_000.0), Some(0.0)), Ok((1.0, 1.0 / 64_000.0)));
        assert_eq!(shares(Some(25.0), Some(75.0)), Ok((0.25, 0.75)));
        assert!(shares(Some(0.0), Some(75.0)).unwrap_err().to_string().starts_with("it received nothing"));
        assert!(shares(Some(5.0), None).unwrap_err().to_string().starts_with("the kernel does not report"));
    }
}
