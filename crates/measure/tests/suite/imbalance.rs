//! The imbalance meter ends when it is stopped.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::imbalance::{self, Settings};

#[test]
fn a_stop_ends_it() {
    let stop = AtomicBool::new(true);
    let settings = Settings { for_ns: 3_600_000_000_000, part_ns: 1_000_000_000 };
    let report = imbalance::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap();
    assert_eq!(report.parts, 1);
}
