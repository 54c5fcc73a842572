//! Tests windows with several interleaves.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_trial::{Design, Ended, Outcome, Settle};

use super::server::{METRIC, Mock, Run, TAIL, aa, ab, arms, trial, trial_on};

/// The length of a window. No real time passes in the mock. Any pause of the machine is short compared with this length.
const WINDOW: Duration = Duration::from_secs(40);

type Log = Rc<RefCell<Vec<(bool, Duration)>>>;

fn interleave(mock: &mut Mock, design: &mut Design, log: &mut Log) {
    (design.interleaves, design.window, design.settle) = (4, WINDOW, Settle::Fixed { time: Duration::ZERO });
    *log = Rc::clone(&mock.log);
}

fn run(seed: u64, effect: f64) -> (Run, Log) {
    let mut log = Log::default();
    let run = trial(seed, ab(), |mock, design| {
        interleave(mock, design, &mut log);
        mock.effect = effect;
    });
    (run, log)
}

#[test]
fn arms_go_round_within_a_pair_and_each_has_one_window() {
    let (run, log) = run(5, 0.5);
    let log = log.borrow();
    assert_eq!((run.record.settle.interleaves, &run.record.ended), (Some(4), &Ended::Whole));
    assert_eq!(log.len(), run.record.windows.len() * 4);
    for (pair, interleaves) in run.record.windows.chunks(2).zip(log.chunks(8)) {
        let is_b = |arm| arm == evenkeel_trial::ArmName::B;
        let order = [is_b(pair[0].arm), is_b(pair[1].arm)];
        assert_eq!(interleaves.iter().map(|(polled, _)| *polled).collect::<Vec<_>>(), order.repeat(4));
        assert!(interleaves.iter().all(|(_, length)| *length == WINDOW / 4));
    }
    // In some windows A comes first, in other windows B.
    assert!(log.chunks(8).any(|interleaves| interleaves[0].0) && log.chunks(8).any(|interleaves| !interleaves[0].0));
    for window in &run.record.windows {
        assert!((window.value - window.sample["round_trip_us_p50"]).abs() < 1e-9);
    }
    // The mean of four interleaves has half the noise of one interleave (4 %).
    let levels = |run: &Run| {
        let logs: Vec<f64> =
            run.record.windows.chunks(2).map(|pair| (pair[0].value / pair[1].value).ln().abs()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt()
    };
    let whole = trial(5, ab(), |mock, _| mock.effect = 0.5);
    assert!(levels(&run) < 0.75 * levels(&whole), "{} {}", levels(&run), levels(&whole));
    let report = run.report();
    assert_eq!(report.verdict, Outcome::Better);
    assert!((0.48..0.52).contains(&report.effect.unwrap().ratio));
}

#[test]
fn slow_settling_is_measured_in_one_piece() {
    let interleaves = |change: &dyn Fn(&mut Mock, &mut Design)| {
        let mut log = Log::default();
        let run = trial(1, ab(), |mock, design| {
            interleave(mock, design, &mut log);
            change(mock, design);
        });
        assert_eq!(run.record.ended, Ended::Whole);
        let longest = log.borrow().iter().map(|(_, length)| *length).max();
        assert_eq!(longest, Some(if run.record.settle.interleaves.is_some() { WINDOW / 4 } else { WINDOW }));
        run.record.settle.interleaves
    };
    let fixed = |seconds| Settle::Fixed { time: Duration::from_secs(seconds) };
    // The settle time may be at most half of an interleave of 10 s.
    assert_eq!(interleaves(&|_, design| design.settle = fixed(2)), Some(4));
    assert_eq!(interleaves(&|_, design| design.settle = fixed(6)), None);
    assert_eq!(interleaves(&|_, design| design.interleaves = 1), None);
}

#[test]
fn nothing_is_found_in_nothing_and_ten_per_cent_are() {
    let verdict = |seed, arms, effect| {
        let mut log = Log::default();
        let run = trial(seed, arms, |mock, design| {
            interleave(mock, design, &mut log);
            mock.effect = effect;
        });
        run.report().verdict
    };
    let same = (0..20).filter(|seed| verdict(*seed, aa(), 1.0) == Outcome::Same).count();
    assert!(same >= 19, "{same}");
    let found = (100..120).filter(|seed| verdict(*seed, ab(), 0.9) == Outcome::Better).count();
    assert!(found >= 19, "{found}");
}

#[test]
fn several_arms_go_round_and_the_largest_of_all_interleaves_is_kept() {
    let mut log = Log::default();
    let run = trial_on(super::server::HOST, 3, arms(&["50000"]), |mock, design| interleave(mock, design, &mut log));
    assert_eq!(log.borrow().len(), run.record.windows.len() * 4);
    assert_eq!(run.record.windows.len() % 3, 0);
    for window in &run.record.windows {
        assert!(window.sample["round_trip_us_max"] > window.sample["round_trip_us_p50"] * 1.01);
    }
}

#[test]
fn a_pair_that_is_cut_off_does_not_count() {
    let mut log = Log::default();
    // The disturbance is in the third pair, in the second interleave.
    let run = trial(3, ab(), |mock, design| {
        interleave(mock, design, &mut log);
        mock.dies_at = Some(16 + 4);
    });
    assert!(matches!(&run.record.ended, Ended::Failed { why } if why.contains("it ended (exit status: 9)")));
    assert_eq!(run.record.windows.len(), 4);
    assert!(!METRIC.is_tail() && TAIL.is_tail());
}
