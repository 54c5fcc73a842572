//! Whether one CPU is full while another idles, on the card.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::imbalance::{self, Report};

use super::entry::{Entry, Pace, line};

const PPM: f64 = 1e6;

pub(super) const ENTRY: Entry = Entry {
    name: "imbalance",
    seconds: 1.0,
    turn: |_: Pace, watch| {
        let settings = imbalance::Settings { for_ns: 1_000_000_000, part_ns: 250_000_000 };
        Ok(lines(&imbalance::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    if report.parts == 0 {
        return Vec::new();
    }
    let share = report.uneven_parts as f64 / report.parts as f64 * PPM;
    vec![line("uneven_ppm", "one CPU full, another idle", Unit::Ppm, Better::Lower, share)]
}
