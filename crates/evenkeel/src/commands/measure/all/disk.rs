//! Small writes to the disk, on the card.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::disk::{self, Report};

use super::entry::{Entry, Pace, percentiles};

pub(super) const ENTRY: Entry = Entry {
    name: "disk",
    seconds: 1.0,
    turn: |pace: Pace, watch| {
        let settings =
            disk::Settings { each_ns: pace.of(500_000_000, 250_000_000), writes_max: 500, ..disk::Settings::default() };
        Ok(lines(&disk::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    percentiles("disk_sync_write_ns", "a write of 4 KiB", Better::Lower, &report.sync_write)
        .into_iter()
        .flatten()
        .collect()
}
