//! `udp-echo`: sends a packet to a server and back, repeatedly, on loopback between two CPUs.
//! A round trip consists only of two wakes and the packet's path through the kernel.
//! So `udp-echo` is the first to show effects of knobs about idling, waking, pinning or sockets.

use std::time::Duration;

use evenkeel_stats::Direction;

use crate::caveat::WorkloadCaveat;
use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;
use crate::kit::pair::{Pair, arguments, parts};
use crate::metric::Metric;
use crate::workload::{Sample, Workload};

const NAME: &str = "udp-echo";

const METRICS: &[Metric] = &[
    Metric::us("round_trip_us_p50", "median round trip of a packet"),
    Metric::us("round_trip_us_p90", "90th percentile of the round trip of a packet"),
    Metric::us("round_trip_us_p99", "99th percentile of the round trip of a packet"),
    Metric::new("round_trips_per_s", "round trips a second, one at a time", "1/s", Direction::Higher),
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower),
    Metric::new("load_cpu_share", "CPU time of the load in one CPU's", "share", Direction::Lower),
];

/// The registry entry of the workload.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "round trips of UDP packets between two CPUs, one at a time, on loopback",
    install: None,
    settings: &[
        ("bytes=100", "length of a packet in bytes, 8 to 1472"),
        ("rate-hz=0", "round trips a second at the most, up to 1000000; 0 for each as soon as the one before is back"),
    ],
    metrics: &[METRICS],
    start: |options| Ok(Box::new(UdpEcho::start(options)?)),
};

/// The running server and its load.
struct UdpEcho {
    pair: Pair,
    bytes: u64,
    rate_hz: u64,
}

impl UdpEcho {
    fn start(options: &Options) -> Result<UdpEcho, WorkloadError> {
        let (mut bytes, mut rate_hz) = (100, 0);
        for (name, value) in &options.set {
            match name.as_str() {
                "bytes" => bytes = number(name, value, 8..=1472)?,
                "rate-hz" => rate_hz = number(name, value, 0..=1_000_000)?,
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        let load = arguments("echo-load", &[("bytes", bytes), ("rate-hz", rate_hz)]);
        let pair = Pair::start(parts(options, arguments("echo-server", &[]), Some(load)))?;
        Ok(UdpEcho { pair, bytes, rate_hz })
    }
}

impl Workload for UdpEcho {
    fn describe(&self) -> String {
        let rate = match self.rate_hz {
            0 => "each as soon as the one before is back".to_owned(),
            rate_hz => format!("at most {rate_hz} a second"),
        };
        format!("udp-echo: packets of {} bytes there and back, {rate}, loopback; {}", self.bytes, self.pair.place())
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
        let (trips, span_us) = (sample.get("round_trips").copied(), sample.get("load_span_us").copied());
        match trips.zip(span_us) {
            Some((trips, span_us)) if trips > 0.0 && span_us > 0.0 => {
                sample.insert("round_trips_per_s".into(), trips / span_us * 1e6);
                Ok(sample)
            }
            _ => {
                let lost = sample.get("lost").copied().unwrap_or(0.0);
                Err(self.pair.server_error(format!("no packet came back in a window, and {lost} were given up")))
            }
        }
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        // Each packet waits for the answer to the last packet, so server and load are measured together anyway.
        // If they share a CPU, that CPU is always full, which is no caveat.
        if self.rate_hz == 0 { Vec::new() } else { self.pair.caveats() }
    }

    fn stop(&mut self) {
        self.pair.stop();
    }
}
