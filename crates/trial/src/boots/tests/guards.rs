//! Tests the results of guards, and how a guard vetoes a verdict.

use proptest::prelude::*;

use super::*;

fn tail(better: Direction) -> Guard {
    Guard { metric: Metric::new("tail_us", "the tail", "us", better), harm_ratio: 0.25 }
}

/// A trial with these values of the metric and of its guard in each boot.
fn seen(better: Direction, boots: &[(f64, Option<f64>)]) -> BootsState {
    let of =
        |seed| BootsDesign { guards: vec![tail(better)], boots: boots.len().div_ceil(4).max(1) * 4, ..design(seed) };
    let begun = |seed| BootsState::begin(of(seed), 1_700_000_000, "boot-0");
    let mut state =
        (0..).map(begun).find(|state| state.order()[..4] == [ArmName::A, ArmName::B, ArmName::B, ArmName::A]);
    let state = state.as_mut().unwrap();
    for (nth, (value, guard)) in boots.iter().enumerate() {
        let (slot, arm) = state.next_slot().unwrap();
        let guards = guard.map(|guard| ("tail_us".to_owned(), guard)).into_iter().collect();
        let outcome = BootOutcome::Measured { values: vec![*value; 5], dropped: 0, guards, counted: None };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{nth}"), slot, arm, tries: 1, machine, outcome });
    }
    // The report is built from the stored state.
    parse(state.text().unwrap().as_bytes()).unwrap()
}

/// Four boots in which B lowers the primary metric by a fifth. The guard has these values in the boots A, B, B and A.
fn better_with(better: Direction, guard: [f64; 4]) -> BootsReport {
    let values = [100.0, 80.0, 81.0, 102.0];
    seen(better, &[0, 1, 2, 3].map(|boot| (values[boot], Some(guard[boot])))).report()
}

const BETTER: &str = "better (over 4 boots only: weaker than a trial)";

#[test]
fn a_guard_that_is_harmed_in_every_boot_vetoes() {
    let report = better_with(Direction::Lower, [200.0, 280.0, 282.0, 201.0]);
    assert_eq!(report.verdict, format!("{BETTER}, but tail_us is 40 % higher in every boot of B: not to be kept"));
    assert_eq!(report.vetoed_by.as_deref(), Some("tail_us"));
    assert_eq!(report.comparison.unwrap().verdict, evenkeel_stats::Verdict::Worse);
    assert!(report.caveats.is_empty(), "{:?}", report.caveats);
    let guard = &report.guards[0];
    assert_eq!((&guard.a[..], &guard.b[..]), (&[200.0, 201.0][..], &[280.0, 282.0][..]));
    assert!(guard.is_harmed && (guard.ratio.unwrap() - 281.0 / 200.5).abs() < 1e-12, "{guard:?}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["guards"][0]["metric"]["name"], "tail_us");
    assert_eq!(
        (json["guards"][0]["margin"].as_f64(), json["guards"][0]["is_harmed"].as_bool()),
        (Some(0.25), Some(true))
    );
    // For a rate, higher is better.
    let report = better_with(Direction::Higher, [200.0, 100.0, 102.0, 201.0]);
    assert!(report.verdict.ends_with("but tail_us is 50 % lower in every boot of B: not to be kept"), "{report:?}");
    let report = better_with(Direction::Lower, [10.0, 80.0, 81.0, 11.0]);
    assert!(report.verdict.contains("tail_us is 7.7 times as high in every boot"), "{report:?}");
}

#[test]
fn a_guard_without_harm_does_not_veto() {
    use Direction::{Higher, Lower};
    let overlap = "can't check the guard tail_us (limit 25 % worse): its median is 50 % higher in B, but boots of A and B overlap";
    let fall =
        "can't check the guard tail_us (limit 25 % worse): its median is 50 % lower in B, but boots of A and B overlap";
    let no_ratio = "can't check the guard tail_us (limit 25 % worse): its medians have no ratio";
    let table: [(Direction, [f64; 4], Option<&str>); 9] = [
        // The guard is worse in every boot, but by less than the margin. A later row has a guard at the margin, which vetoes.
        (Lower, [200.0, 240.0, 241.0, 201.0], None),
        (Lower, [200.0, 100.0, 90.0, 201.0], None),
        (Higher, [200.0, 400.0, 410.0, 201.0], None),
        (Higher, [200.0, 170.0, 171.0, 201.0], None),
        (Lower, [200.0, 200.0, 200.0, 200.0], None),
        // The medians differ by more than the margin, but not in every boot.
        (Lower, [100.0, 290.0, 160.0, 200.0], Some(overlap)),
        (Higher, [300.0, 40.0, 130.0, 40.0], Some(fall)),
        // B lost packets and A did not, so there is no ratio.
        (Lower, [0.0, 5.0, 6.0, 0.0], Some(no_ratio)),
        (Lower, [-1.0, 5.0, 6.0, -2.0], Some(no_ratio)),
    ];
    for (better, guard, caveat) in table {
        let report = better_with(better, guard);
        assert_eq!((report.verdict.as_str(), &report.vetoed_by), (BETTER, &None), "{guard:?}");
        assert!(!report.guards[0].is_harmed, "{guard:?}");
        assert_eq!(sentences(&report).first().map(String::as_str), caveat, "{guard:?}");
        assert_eq!(report.comparison.unwrap().verdict, evenkeel_stats::Verdict::Better);
    }
    assert!(better_with(Lower, [100.0, 125.0, 125.0, 100.0]).guards[0].is_harmed);
}

#[test]
fn a_boot_without_the_number_leaves_it_open() {
    let boots = [(100.0, Some(200.0)), (80.0, None), (81.0, Some(300.0)), (102.0, Some(200.0))];
    let report = seen(Direction::Lower, &boots).report();
    assert_eq!(report.verdict, BETTER);
    assert_eq!(report.guards[0].b, [300.0]);
    assert_eq!(
        sentences(&report),
        ["can't check the guard tail_us (limit 25 % worse): only 3 of 4 boots have a value"]
    );
    // The same values as above, in a state from a version that stored no guards.
    let none = [(100.0, None), (80.0, None), (81.0, None), (102.0, None)];
    let report = seen(Direction::Lower, &none).report();
    assert!(report.caveats[0].to_string().ends_with("only 0 of 4 boots have a value"), "{report:?}");
    assert_eq!((report.guards[0].ratio, report.guards[0].is_harmed), (None, false));
}

#[test]
fn only_a_claim_is_vetoed_and_only_a_whole_block_says_so() {
    let worse = [(100.0, Some(200.0)), (120.0, Some(300.0)), (121.0, Some(301.0)), (102.0, Some(200.0))];
    let report = seen(Direction::Lower, &worse).report();
    assert_eq!((report.verdict.as_str(), &report.vetoed_by), ("worse (over 4 boots only: weaker than a trial)", &None));
    assert_eq!(sentences(&report), ["the guard tail_us is 50 % higher in every boot of B"]);
    let report = seen(Direction::Lower, &worse[..3]).report();
    assert_eq!((report.verdict.as_str(), report.guards[0].is_harmed), ("nothing is known yet", false));
    assert!(report.caveats.is_empty(), "{report:?}");
    // If the design has no guard, the report does not mention guards.
    let json = serde_json::to_string(&BootsState::begin(design(0), 1, "b").report()).unwrap();
    assert!(!json.contains("guards") && !json.contains("vetoed"), "{json}");
}

#[test]
fn several_that_are_harmed_are_all_named() {
    let mut state = seen(Direction::Lower, &[]);
    state.design.guards.push(Guard { metric: Metric::us("last_us", "the last"), harm_ratio: 1.0 });
    for (nth, (value, guard)) in [(100.0, 10.0), (80.0, 30.0), (80.0, 30.0), (100.0, 10.0)].into_iter().enumerate() {
        let (slot, arm) = state.next_slot().unwrap();
        let guards = ["tail_us", "last_us"].map(|name| (name.to_owned(), guard)).into();
        let outcome = BootOutcome::Measured { values: vec![value], dropped: 0, guards, counted: None };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{nth}"), slot, arm, tries: 1, machine, outcome });
    }
    let report = state.report();
    let both = "but tail_us is 3.0 times as high and last_us is 3.0 times as high in every boot of B: not to be kept";
    assert!(report.verdict.ends_with(both), "{}", report.verdict);
    assert_eq!(report.vetoed_by.as_deref(), Some("tail_us"));
}

/// The simulated machine runs real transactions, and the state is read back after every boot.
#[test]
fn a_trial_whose_guard_is_harmed_goes_through_and_leaves_nothing() {
    for (tails, is_harmed) in [([2.0, 4.0], true), ([2.0, 2.0], false)] {
        let mut sim = Sim::begun_with(BootsDesign { guards: vec![tail(Direction::Lower)], ..design(0) });
        sim.tails = tails;
        assert_eq!(sim.play_out(), BootsEnded::Whole);
        let report = sim.state().report();
        assert_eq!(report.guards[0].is_harmed, is_harmed, "{report:?}");
        assert_eq!(report.verdict == BETTER, !is_harmed);
        assert_eq!(report.guards[0].a, [200.4, 200.4]);
        // Only the primary metric and the guards are stored.
        assert!(!sim.state().text().unwrap().contains("other"));
        sim.check_end();
    }
}

/// If a guard has values in only a few of the windows, it is left out. Windows without a value of the primary metric do not count.
#[test]
fn values_of_few_windows_are_left_out() {
    struct Odd(Vec<Sample>);
    impl Machine for Odd {
        fn status(&mut self) -> Result<BootStatus, BootsError> {
            let machine = BootWords::default();
            Ok(BootStatus { boot_id: "b1".into(), now_s: 1_700_000_001, is_licensed: true, machine })
        }
        fn keep(&mut self, _: &BootsState) -> Result<(), BootsError> {
            Ok(())
        }
        fn reads_back(&mut self, _: ArmName) -> Result<(), BootsError> {
            Ok(())
        }
        fn measure(&mut self, _: &BootsDesign) -> Result<Option<Windows>, BootsError> {
            Ok(Some(Windows { samples: self.0.clone(), dropped: 1, counted: None }))
        }
        fn arm(&mut self, _: ArmName, _: bool) -> Result<(), BootsError> {
            Ok(())
        }
        fn is_stopped(&mut self) -> bool {
            false
        }

        fn put_back(&mut self) -> Result<(), BootsError> {
            Ok(())
        }
    }
    let sample = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let outcome = |samples: Vec<Sample>| {
        let design = BootsDesign { guards: vec![tail(Direction::Lower)], ..design(0) };
        let mut state = BootsState::begin(design, 1_700_000_000, "boot-0");
        state.armed = Some(Armed { slot: 0, boot_id: "boot-0".into() });
        go_on(&mut state, &mut Odd(samples)).unwrap();
        state.seen[0].outcome.clone()
    };
    let (x, both) = (sample(&[("x_us", 1.0)]), sample(&[("x_us", 2.0), ("tail_us", 5.0)]));
    let odd = sample(&[("x_us", f64::NAN), ("tail_us", 9.0)]);
    let mad: Sample = sample(&[("x_us", 3.0), ("tail_us", f64::INFINITY)]);
    let kept = |values: &[f64], dropped, tail: Option<f64>| BootOutcome::Measured {
        values: values.to_vec(),
        dropped,
        guards: tail.map(|tail| ("tail_us".to_owned(), tail)).into_iter().collect(),
        counted: None,
    };
    let table = [
        (vec![both.clone(), x.clone()], kept(&[2.0, 1.0], 1, Some(5.0))),
        (vec![both.clone(), x.clone(), x.clone()], kept(&[2.0, 1.0, 1.0], 1, None)),
        (vec![both.clone(), odd.clone(), mad], kept(&[2.0, 3.0], 2, Some(5.0))),
        (vec![odd], BootOutcome::Missed { why: "no window of it gave a number".into() }),
        (vec![], BootOutcome::Missed { why: "no window of it gave a number".into() }),
    ];
    for (samples, expected) in table {
        assert_eq!(outcome(samples.clone()), expected, "{samples:?}");
    }
}

proptest! {
    /// No guard counts as worse if the boots of A and B overlap, or if the difference is below the margin.
    /// The sentence never contains an infinite number.
    #[test]
    fn a_harm_is_what_it_says(
        guard in prop::collection::vec(prop_oneof![0.5..2.0f64, any::<f64>().prop_filter("finite", |value| value.is_finite())], 8),
        higher in any::<bool>(),
    ) {
        let better = if higher { Direction::Higher } else { Direction::Lower };
        let boots: Vec<(f64, Option<f64>)> = guard.iter().map(|guard| (1.0, Some(*guard))).collect();
        let report = seen(better, &boots).report();
        let found = &report.guards[0];
        let worse = |a: f64, b: f64| if higher { b < a } else { b > a };
        let all = found.a.iter().all(|a| found.b.iter().all(|b| worse(*a, *b)));
        prop_assert!(!found.is_harmed || all);
        prop_assert!(!found.is_harmed || worse(1.0, found.ratio.unwrap()));
        let text = serde_json::to_string(&report).unwrap();
        prop_assert!(!text.contains("NaN") && !text.contains("inf %"), "{}", text);
    }
}
