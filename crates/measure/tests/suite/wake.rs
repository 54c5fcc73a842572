//! The wake meter refuses invalid settings, ends when it is stopped, and reports the timer slack that it set.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_measure::meters::wake::{self, Kind, Report, Settings, Variant};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_testkit::wait_for;

fn settings(kind: Kind, variants: &[Variant]) -> Settings {
    Settings {
        duration_ns: 20_000_000,
        gaps_ns: vec![1_000_000],
        kinds: vec![kind],
        variants: variants.to_vec(),
        cpus: None,
        plain_slack_ns: None,
        waker_delay_ns: 0,
        seed: 1,
    }
}

/// Measures for longer and longer until a round fits.
fn measure(settings: &Settings) -> Report {
    let mut duration_ns = settings.duration_ns;
    wait_for("a round of wakes", || {
        duration_ns *= 2;
        let settings = Settings { duration_ns, ..settings.clone() };
        let report = wake::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {}));
        report.inspect_err(|error| println!("{error}")).ok()
    })
}

#[test]
fn invalid_settings_are_refused_and_a_stop_ends_it_at_once() {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let refusal = |settings: &Settings| wake::run(settings, &watch).unwrap_err();
    let plain = settings(Kind::Timer, &[Variant::Plain]);
    for wrong in [
        Settings { gaps_ns: vec![0], ..plain.clone() },
        Settings { gaps_ns: vec![200_000_000], ..plain.clone() },
        Settings { cpus: Some(vec![4000]), ..plain.clone() },
        Settings { gaps_ns: vec![1_000_000; 600], ..plain.clone() },
    ] {
        assert!(matches!(refusal(&wrong), MeterError::WrongUse { .. }), "{wrong:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let report = wake::run(&Settings { duration_ns: 3_600_000_000_000, ..plain }, &watch).unwrap();
    assert!(report.cells.is_empty());
}

#[test]
fn slack_is_a_part_of_a_timer_and_not_of_a_timer_that_is_a_file() {
    let both = [Variant::Plain, Variant::Slack1];
    let timer = Settings { plain_slack_ns: NonZeroU64::new(200_000), ..settings(Kind::Timer, &both) };
    let report = measure(&timer);
    assert_eq!(report.plain_slack_ns, Some(200_000));
    assert!(report.cells.iter().any(|cell| cell.variant == Variant::Slack1));
    let report = measure(&settings(Kind::Timerfd, &both));
    assert!(report.cells.iter().all(|cell| cell.variant == Variant::Plain) && report.parts[0].slack.is_none());
}
