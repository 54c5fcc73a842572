//! Tests refused settings, the result after a stop, and the meter's results from simulated gaps.

use std::sync::atomic::AtomicBool;

use evenkeel_stats::periodicity::{Gap, Label, Window};
use evenkeel_sys::CpuSet;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn asked(settings: &Settings, stop: bool) -> Result<Report, MeterError> {
    let stop = AtomicBool::new(stop);
    run(settings, &Watch::new(&stop, &|_, _| ()))
}

#[test]
fn invalid_settings_are_refused() {
    let far = Settings { cpus: Some(CpuSet::from_iter([1000])), ..Settings::default() };
    assert!(asked(&far, false).unwrap_err().to_string().starts_with("CPU 1000: this process may run on "));
    let long = Settings { duration_ns: u64::MAX, ..Settings::default() };
    let refused = asked(&long, false).unwrap_err().to_string();
    assert_eq!(refused, "the time for each CPU: it must be from 0.1 to 600 s");
}

#[test]
fn a_stopped_run_is_reported() {
    let settings = Settings { duration_ns: *DURATION_NS.end(), class: Class::Ordinary, ..Settings::default() };
    let begin_ns = clock::monotonic_ns();
    for order in [Order::InTurn, Order::Together] {
        let report = asked(&Settings { order, ..settings.clone() }, true).unwrap();
        for cpu in &report.cpus {
            let stopped = cpu.lost.why.as_deref() == Some("stopped before its time");
            assert!(cpu.why == "stopped before its turn" || stopped, "{cpu:?}");
            assert!(cpu.phase_ms.is_none() && cpu.slots.is_none(), "{cpu:?}");
        }
    }
    assert!(clock::monotonic_ns() - begin_ns < 60_000_000_000, "it did not run for its ten minutes");
}

#[test]
fn a_threshold_baseline_without_a_second_gap_has_no_period() {
    let said = |period_ns| threshold_baseline::Said { period_ns, gap_ns: 6e6, start_ns: 5 };
    let none = from_threshold_baseline(0, true, None);
    assert_eq!((none.model, none.period_ms, none.confidence), (Some(Model::None), None, None));
    let one = from_threshold_baseline(0, true, Some(said(None)));
    assert_eq!((one.model, one.period_ms, one.share), (Some(Model::FixedSlot), None, None));
    let two = from_threshold_baseline(0, true, Some(said(Some(1e7))));
    assert_eq!((two.period_ms, two.share), (Some(10.0), Some(0.4)));
}

/// A moment on a clock that has run for hours.
const BASE_NS: f64 = 12_345_678_901_234.0;

/// What a probe records in two seconds on a CPU that is available for a share of each period, from `phase_ms` on.
/// Now and then, a neighbour in the guest takes 3 ms of our time.
fn watched(period_ms: f64, share: f64, phase_ms: f64, has_neighbour: bool, random: &mut ChaCha8Rng) -> Watched {
    let (mut gaps, mut windows) = (Vec::new(), Vec::new());
    let gap = |from_ms: f64, length_ms: f64, label| Gap {
        start_ns: (BASE_NS + from_ms * MS) as u64,
        length_ns: (length_ms * MS) as u64,
        label,
    };
    let mut turns = Vec::new();
    for turn in 0..(2000.0 / period_ms) as u64 {
        let begin_ms = turn as f64 * period_ms + phase_ms;
        let jitter_ms = random.random_range(0.0..0.02) * period_ms;
        let gone_ms = period_ms * (1.0 - share);
        turns.push((begin_ms - gone_ms + jitter_ms, begin_ms, Label::Foreign));
        if has_neighbour && period_ms * share > 4.0 && random.next_u32().is_multiple_of(3) {
            turns.push((begin_ms + 0.5, begin_ms + 3.5, Label::Preempted));
        }
    }
    let mut at_ms = 0.0;
    while at_ms < 2000.0 {
        let mut end_ms = at_ms + random.random_range(90.0..130.0);
        // A burst begins and ends while the CPU is available.
        let is_in = |ms: f64| turns.iter().find(|(from, to, _)| *from <= ms && ms < *to);
        if let Some((_, to, _)) = is_in(at_ms) {
            at_ms = *to;
        }
        if let Some((_, to, _)) = is_in(end_ms) {
            end_ms = *to;
        }
        let inside = turns.iter().filter(|(from, to, _)| *from >= at_ms && *to <= end_ms);
        gaps.extend(inside.map(|(from, to, label)| gap(*from, to - from, *label)));
        windows.push(Window { start_ns: (BASE_NS + at_ms * MS) as u64, end_ns: (BASE_NS + end_ms * MS) as u64 });
        at_ms = end_ms + random.random_range(50.0..90.0);
    }
    Watched { windows, gaps, is_real_time: true, labels: Labels::Rseq, not_kept: 0, ended: None }
}

#[test]
fn generated_slots_are_read_back_with_their_phase() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for period_ms in [5.0, 10.0, 15.6, 30.0] {
        for share in [0.2, 0.4, 0.6, 0.9] {
            for has_neighbour in [false, true] {
                let phase_ms = random.random_range(0.0..period_ms);
                let watched = watched(period_ms, share, phase_ms, has_neighbour, &mut random);
                let gaps = watched.gaps.len() as u64;
                let known = Known { count: Count::Foreign, limit: None, turns_end_at_ns: None };
                let said = periodicity::detect(&watched.windows, &watched.gaps, &known);
                let mut cpu = cpu_report(3, said, None, watched);
                phase::place(&mut cpu, BASE_NS as u64);
                let case = format!("{period_ms} ms, share {share}, neighbour {has_neighbour}: {}", cpu.why);
                assert_eq!((cpu.cpu, cpu.model), (3, Some(Model::FixedSlot)), "{case}");
                assert!((cpu.period_ms.unwrap() / period_ms - 1.0).abs() <= 0.01, "{case}: {:?}", cpu.period_ms);
                assert!((cpu.share.unwrap() - share).abs() <= 0.03, "{case}: {:?}", cpu.share);
                let off_ms = (cpu.phase_ms.unwrap() - phase_ms).abs();
                assert!(off_ms.min(period_ms - off_ms) <= 0.3, "{case}: {:?} is not {phase_ms}", cpu.phase_ms);
                assert_eq!(cpu.gaps.iter().map(|samples| samples.histogram.count()).sum::<u64>(), gaps, "{case}");
            }
        }
    }
}

#[test]
fn a_neighbour_alone_makes_no_period() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut watched = watched(10.0, 0.6, 0.0, true, &mut random);
    watched.gaps.retain(|gap| gap.label == Label::Preempted);
    let known = Known { count: Count::Foreign, limit: None, turns_end_at_ns: None };
    let said = periodicity::detect(&watched.windows, &watched.gaps, &known);
    let cpu = cpu_report(0, said, None, watched);
    assert_eq!((cpu.model, cpu.period_ms), (Some(Model::None), None), "{}", cpu.why);
    assert!(cpu.share.is_some_and(|share| share > 0.95), "{:?}", cpu.share);
}
