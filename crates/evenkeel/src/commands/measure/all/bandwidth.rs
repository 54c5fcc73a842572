//! Bandwidth between two threads of this machine, on the card: the most that its kernel could do for any network.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::bandwidth::{self, By, Report, Way};

use super::entry::{Entry, Pace, line};

pub(super) const ENTRY: Entry = Entry {
    name: "bandwidth",
    seconds: 1.0,
    turn: |pace: Pace, watch| {
        let settings = bandwidth::Settings {
            way: Way::ToServer,
            to: None,
            by: By::Tcp,
            streams: 1,
            seconds: pace.of(1.0, 0.5),
            bytes: None,
            bits_per_s: None,
            cpu: None,
        };
        Ok(lines(&bandwidth::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    let of = |bits: f64| {
        line("tcp_loopback_bytes_per_s", "one TCP stream over loopback", Unit::BytesPerS, Better::Higher, bits / 8.0)
    };
    report.arrived_bits_per_s.map(of).into_iter().collect()
}
