//! Whole trials on a captured machine, with a workload of known noise. No time passes.
//! The cases are: no effect, a planted effect, a machine that pauses, and a server that dies.

mod arms;
mod interleaves;
mod sequential;
mod server;
mod session_log;

use std::time::Duration;

use evenkeel_hostfs::{Capture, Root};
use evenkeel_stats::{Order, PairDesign};
use evenkeel_trial::{
    Arm, ArmName, Design, DropReason, Dropped, Ended, Outcome, SessionWriter, Stop, Stretch, Switch, Trial, Watch, run,
};

use server::{HOST, Mock, PAIRS, aa, ab, design, trial, trial_on};

#[test]
fn a_thing_compared_with_itself_is_the_same() {
    let verdicts: Vec<Outcome> = (0..20).map(|seed| trial(seed, aa(), |_, _| ()).report().verdict).collect();
    let same = verdicts.iter().filter(|verdict| **verdict == Outcome::Same).count();
    assert!(same >= 19, "{same} of 20: {verdicts:?}");
}

#[test]
fn a_planted_effect_of_ten_per_cent_is_found() {
    for (effect, expected) in [(0.9, Outcome::Better), (1.1, Outcome::Worse)] {
        let verdicts: Vec<Outcome> =
            (100..120).map(|seed| trial(seed, ab(), |mock, _| mock.effect = effect).report().verdict).collect();
        let found = verdicts.iter().filter(|verdict| **verdict == expected).count();
        assert!(found >= 18, "{found} of 20: {verdicts:?}");
    }
}

#[test]
fn the_estimate_is_of_b_against_a() {
    let report = trial(7, ab(), |mock, _| mock.effect = 0.5).report();
    let effect = report.effect.unwrap();
    assert!((0.45..0.55).contains(&effect.ratio), "{effect:?}");
    assert!(effect.low.unwrap() < effect.ratio && effect.ratio < effect.high.unwrap());
    let does: Vec<Arm> = report.arms.iter().map(|arm| arm.does.clone()).collect();
    assert_eq!(does, ab());
    assert!(report.arms[0].median > report.arms[1].median);
}

#[test]
fn arms_alternate_in_the_order_of_the_seed() {
    let order = |seed| -> Vec<ArmName> {
        trial(seed, ab(), |_, _| ()).record.windows.iter().map(|window| window.arm).collect()
    };
    assert_eq!(order(5), order(5));
    assert_ne!(order(5), order(6));
    for pair in order(5).chunks(2) {
        assert_ne!(pair[0], pair[1]);
    }
    // Trials with two arms must use the order of pairs, so that the seeds of older reports give the same orders again.
    let design = PairDesign::new(PAIRS as u64, 5);
    let orders = design.orders().map(|order| match order {
        Order::AFirst => ArmName::A,
        Order::BFirst => ArmName::B,
    });
    assert!(order(5).chunks(2).map(|pair| pair[0]).eq(orders));
}

#[test]
fn a_server_that_dies_keeps_what_was_measured() {
    let report = trial(3, ab(), |mock, _| mock.dies_at = Some(21)).report();
    assert_eq!(report.pairs, 10);
    assert!(
        matches!(&report.ended, Ended::Failed { why } if why.contains("it ended (exit status: 9)")),
        "{:?}",
        report.ended
    );
    assert!(
        report.caveat_texts().iter().any(|caveat| caveat.starts_with("the trial failed after 10 of 30 pairs")),
        "{:?}",
        report.caveat_texts()
    );
}

#[test]
fn dropped_pairs_are_replaced_until_the_spares_are_used_up() {
    // Every window breaks this rule.
    let report = trial(3, ab(), |_, design| design.rules.overrun_share_max = -1.0).report();
    assert_eq!((report.pairs, report.dropped.len()), (0, PAIRS + PAIRS / 3));
    assert_eq!((report.verdict, report.ended.clone(), report.effect), (Outcome::Undecided, Ended::OutOfSpares, None));
    let why = "40 of 40 pairs were dropped: a window took much longer than planned (the load, what gives the numbers, or the machine \
               was slow) in 40";
    assert!(report.caveat_texts().iter().any(|caveat| caveat == why), "{:?}", report.caveat_texts());
}

#[test]
fn a_pair_in_which_somebody_else_wrote_the_setting_does_not_count() {
    let run = trial(3, ab(), |mock, design| {
        design.control_pairs = 0;
        // Another program writes in one window of A only, in one window of B only, and in both windows of a pair.
        mock.others_write_at = vec![1, 4, 9, 10];
    });
    let report = run.report();
    let dropped_lines =
        report.dropped.iter().map(|dropped| format!("{} {:?}: {}", dropped.pair, dropped.arm, dropped.reason));
    let changed = "somebody else changed haltpoll.guest_halt_poll_ns from";
    // The report lists a pair once, with the first of its dropped windows.
    let expected = [
        format!("0 B: {changed} 200000 to 77"),
        format!("1 B: {changed} 200000 to 77"),
        format!("4 A: {changed} 0 to 77"),
    ];
    assert_eq!(dropped_lines.collect::<Vec<_>>(), expected);
    let caveat = "another program changed a setting of the trial in 3 windows (first: haltpoll.guest_halt_poll_ns from 200000 to 77); it \
                 would also undo the setting after the trial";
    assert!(report.caveat_texts().iter().any(|text| text == caveat), "{:?}", report.caveat_texts());
    assert_eq!((report.pairs, &report.ended), (PAIRS, &Ended::Whole));
    assert!(report.windows.iter().all(|window| window.conditions.changed.is_empty()));
}

#[test]
fn a_window_without_a_cpu_is_dropped_whichever_arm_was_on() {
    let run = trial(3, ab(), |mock, design| {
        design.control_pairs = 0;
        mock.no_cpu_at = vec![1, 6, 9];
    });
    let report = run.report();
    let dropped_lines = report.dropped.iter().map(|dropped| format!("{} {}", dropped.pair, dropped.reason));
    let why = "the server was given no CPU: mock was ready to run for 390 ms of 400 ms";
    assert_eq!(dropped_lines.collect::<Vec<_>>(), [format!("0 {why}"), format!("2 {why}"), format!("4 {why}")]);
    assert_eq!((report.pairs, &report.ended), (PAIRS, &Ended::Whole));
    assert!(report.windows.iter().all(|window| window.value.is_finite() && window.conditions.no_cpu.is_none()));
}

#[test]
fn an_arm_that_starves_is_not_called_better_or_the_same() {
    let (took, gave) = ("the settings may have taken its CPU time", "the settings may have given it CPU time");
    for (what, effect, starved, expected, counted, why) in [
        ("B alone, and is better in the rest", 0.8, (true, 3), Outcome::Undecided, (0, 3), took),
        ("B alone, and is the same in the rest", 1.0, (true, 2), Outcome::Undecided, (0, 2), took),
        ("B alone, and is worse in the rest", 1.3, (true, 3), Outcome::Worse, (0, 3), took),
        ("A alone, and B is worse in the rest", 1.3, (false, 3), Outcome::Undecided, (3, 0), gave),
        ("A alone, and B is better in the rest", 0.8, (false, 3), Outcome::Better, (3, 0), gave),
        ("once is chance", 0.8, (true, 1), Outcome::Better, (0, 1), "something else uses its CPU"),
    ] {
        let report = trial(3, ab(), |mock, design| {
            design.control_pairs = 0;
            (mock.effect, mock.no_cpu_while) = (effect, starved);
        })
        .report();
        assert_eq!((report.verdict, report.pairs), (expected, PAIRS), "{what}: {:?}", report.caveat_texts());
        assert_eq!((report.no_cpu_by_arm.a, report.no_cpu_by_arm.b), counted, "{what}");
        assert!(
            report.caveat_texts()[0].starts_with("the server got no CPU in "),
            "{what}: {:?}",
            report.caveat_texts()
        );
        assert!(report.caveat_texts()[0].contains(why), "{what}: {:?}", report.caveat_texts());
    }
    // Both windows of the first pair got no CPU. The list of dropped pairs has only one of them.
    let both = trial(3, ab(), |mock, design| (design.control_pairs, mock.no_cpu_at) = (0, vec![1, 2])).report();
    assert_eq!((both.dropped.len(), both.no_cpu_by_arm.a, both.no_cpu_by_arm.b), (1, 1, 1));
    assert_eq!(both.verdict, Outcome::Same);
    let caveat = "the server got no CPU in 1 window with the settings and 1 window without them, so these windows have no value: something \
                 else uses its CPU at times (`evenkeel measure gaps` shows what)";
    assert_eq!(both.caveat_texts()[0], caveat);
}

#[test]
fn another_trial_is_a_caveat_with_the_windows_during_which_it_ran() {
    let mut run = trial(3, ab(), |_, _| ());
    let who = vec!["evenkeel tune (pid 7)".to_owned()];
    run.record.windows.iter_mut().take(5).for_each(|window| window.conditions.other_trials = who.clone());
    // Another trial may have disturbed the window that was dropped.
    let reason = DropReason::Gap { gap_us: 90_000.0 };
    let dropped = Dropped { pair: PAIRS, arm: ArmName::A, reason, stretch: Stretch::Trial, other_trials: who };
    run.record.dropped.push(dropped);
    let all = run.record.windows.len() + run.record.control.len() + 1;
    let caveat =
        format!("another trial (evenkeel tune (pid 7)) ran during 6 of {all} windows: each disturbs the other");
    let caveats = run.report().caveat_texts();
    assert!(caveats.contains(&caveat), "{caveats:?}");
}

#[test]
fn few_pairs_are_undecided_and_say_so() {
    let report = trial(3, ab(), |mock, design| {
        mock.effect = 0.5;
        design.stop = Stop::After { pairs: 5 };
    })
    .report();
    assert_eq!(report.verdict, Outcome::Undecided);
    assert!(
        report.caveat_texts().iter().any(|caveat| caveat.contains("5 pairs are too few")),
        "{:?}",
        report.caveat_texts()
    );
}

#[test]
fn a_design_that_can_show_nothing_is_refused() {
    let root = Root::captured(Capture::parse(HOST).unwrap());
    let mut mock = Mock::new(&root, 1, 1.0);
    for (change, expected) in [
        ((|design| design.stop = Stop::After { pairs: 0 }) as fn(&mut Design), "design a trial: 0 pairs"),
        (|design| design.window = Duration::ZERO, "design a trial: a window of 0ns"),
        (|design| design.smallest_effect_ratio = f64::NAN, "design a trial: NaN as the smallest effect"),
        (|design| design.confidence = 1.0, "design a trial: a confidence of 1"),
        (
            |design| design.metric.name = "no_such_us".into(),
            "measure no_such_us: the workload measures cpu_share, round_trip_us_max",
        ),
    ] {
        let mut design = design(1);
        change(&mut design);
        let writer = root.writer().unwrap();
        let mut switch = Switch::begin(&root, &writer, None, "test", &[]).unwrap();
        let watch = Watch::start(&root, &[]);
        let mut trial = Trial {
            design: &design,
            arms: aa(),
            switch: &mut switch,
            workload: &mut mock,
            watch: &watch,
            stop: &|| false,
            keep: &mut SessionWriter::nowhere(),
        };
        let message = run(&mut trial, &mut |_| {}).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_knob_that_was_not_engaged_is_not_called_useless() {
    // The counters of a captured machine never change, so no CPU ever goes idle.
    let state = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
    let host = HOST.replace("end\n", &format!("{state}/latency = 1\n{state}/usage = 1000\nend\n"));
    let report = trial_on(&host, 3, ab(), |_, _| ()).report();
    assert_eq!(report.verdict, Outcome::NotEngaged);
    assert_eq!(report.caveat_texts()[0], "the knob was not engaged: CPUs went idle only 0 times a second");
    // Two windows allow no conclusion. The report names the end of the server first.
    let report = trial_on(&host, 3, ab(), |mock, _| mock.dies_at = Some(3)).report();
    assert_eq!((report.verdict, report.pairs), (Outcome::Undecided, 1));
    assert!(
        report.caveat_texts()[0].starts_with("the trial failed after 1 of 30 pairs: "),
        "{:?}",
        report.caveat_texts()
    );
    let report = trial_on(&host, 3, ab(), |mock, _| mock.effect = 0.5).report();
    assert_eq!(report.verdict, Outcome::Better, "a difference that was seen stands");
    let report = trial_on(&host, 3, aa(), |_, _| ()).report();
    assert_eq!(report.verdict, Outcome::Same, "a control has nothing to engage");
}
