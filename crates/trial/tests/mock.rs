//! Whole trials on a captured machine with a workload whose noise is known: what the method says of nothing, of a planted
//! effect, of a machine that pauses, and of a server that dies, without time passing.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

use std::time::Duration;

use evenkeel_change::State;
use evenkeel_host::{Facts, Plan, Setting};
use evenkeel_sys::{Capture, Root};
use evenkeel_trial::{
    Arm, ArmName, Design, Ended, Keep, Metric, Outcome, Record, Report, Sample, Stop, Switch, Titles, Trial,
    TrialError, Watch, Workload, run,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
const HOST: &str = "evenkeel-capture 1
/sys/module/haltpoll/parameters/guest_halt_poll_ns = 0
/sys/devices/system/cpu/cpuidle/current_driver = haltpoll
/proc/loadavg = 0.00 0.00 0.00 1/80 900
end
";
/// What `evenkeel prove` takes by default. With the mock's noise (4 % a window) its interval is about 2 % to either side.
const PAIRS: usize = 30;
const METRIC: Metric = Metric::us("round_trip_us_p50", "median round trip");

/// A server whose round trip is 50 us, times `effect` while the guest polls, times noise: log-normal with 4 % a window, on top
/// of a random walk of 1 % a window.
struct Mock {
    root: Root,
    noise: ChaCha8Rng,
    drift: f64,
    effect: f64,
    windows: usize,
    dies_at: Option<usize>,
}

impl Mock {
    fn new(root: &Root, seed: u64, effect: f64) -> Mock {
        let noise = ChaCha8Rng::seed_from_u64(seed);
        Mock { root: root.clone(), noise, drift: 0.0, effect, windows: 0, dies_at: None }
    }

    /// Standard normal, by the sum of twelve uniform numbers: its tails are shorter than six, which is enough here.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.noise.random::<f64>()).sum::<f64>() - 6.0
    }
}

impl Workload for Mock {
    fn describe(&self) -> String {
        "mock".into()
    }

    fn metrics(&self) -> &[Metric] {
        const { &[METRIC] }
    }

    fn passes_network_devices(&self) -> bool {
        false
    }

    fn set_process(&mut self, _: &str, value: Option<&str>) -> Result<String, TrialError> {
        Ok(value.unwrap_or("50000").to_owned())
    }

    fn window(&mut self, _: Duration, _: Duration, begin: &mut dyn FnMut()) -> Result<Sample, TrialError> {
        begin();
        self.windows += 1;
        if self.dies_at == Some(self.windows) {
            return Err(TrialError::Workload { program: "mock".into(), why: "it ended (exit status: 9)".into() });
        }
        let polls = self.root.text(POLL).unwrap() == "200000\n";
        self.drift += 0.01 * self.normal();
        let log = self.drift + 0.04 * self.normal();
        let us = 50.0 * log.exp() * if polls { self.effect } else { 1.0 };
        Ok(Sample::from([("round_trip_us_p50".to_owned(), us), ("cpu_share".to_owned(), 0.1)]))
    }

    fn stop(&mut self) {}
}

struct Run {
    record: Record,
    design: Design,
}

impl Run {
    fn report(self) -> Report {
        let titles = Titles {
            title: "t".into(),
            values: ["0".into(), "200000".into()],
            workload: "mock".into(),
            ..Titles::default()
        };
        self.record.report(&self.design, titles).unwrap()
    }
}

fn design(seed: u64) -> Design {
    let mut design = Design::new(METRIC, PAIRS, Duration::from_millis(10), seed);
    design.smallest_effect_ratio = 0.05;
    // No time passes in the mock: a window's span is that of a few function calls.
    design.rules.overrun_share_max = 1000.0;
    design
}

fn trial(seed: u64, arms: [Arm; 2], change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    trial_on(HOST, seed, arms, change)
}

fn trial_on(host: &str, seed: u64, arms: [Arm; 2], change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    let root = Root::captured(Capture::parse(host).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut state = State::open(&folder.path().join("state")).unwrap();
    let facts = Facts::probe(&root);
    let plans = [Plan::of(&facts, &[Setting::parse("haltpoll.guest_halt_poll_ns=200000").unwrap()]).unwrap()];
    let mut mock = Mock::new(&root, seed, 1.0);
    let mut design = design(seed);
    change(&mut mock, &mut design);
    let hand = root.hand().unwrap();
    let mut switch = Switch::begin(&root, &hand, Some(&mut state), "test", &plans).unwrap();
    let watch = Watch::start(&root, &plans);
    let mut keep = Keep::nowhere();
    let mut trial = Trial {
        design: &design,
        arms,
        switch: &mut switch,
        workload: &mut mock,
        watch: &watch,
        stop: &|| false,
        keep: &mut keep,
    };
    let record = run(&mut trial, &mut |_| {}).unwrap();
    switch.end().unwrap();
    assert_eq!(root.text(POLL).unwrap(), "0\n", "put back, however it ended");
    Run { record, design }
}

fn ab() -> [Arm; 2] {
    [Arm::as_it_was(1), Arm::planned(1)]
}

fn aa() -> [Arm; 2] {
    [Arm::as_it_was(1), Arm::as_it_was(1)]
}

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
fn arms_take_turns_in_the_order_of_the_seed() {
    let order = |seed| -> Vec<ArmName> {
        trial(seed, ab(), |_, _| ()).record.windows.iter().map(|window| window.arm).collect()
    };
    assert_eq!(order(5), order(5));
    assert_ne!(order(5), order(6));
    for pair in order(5).chunks(2) {
        assert_ne!(pair[0], pair[1]);
    }
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
        report.doubts.iter().any(|doubt| doubt.starts_with("it failed after 10 of 30 pairs")),
        "{:?}",
        report.doubts
    );
}

#[test]
fn dropped_pairs_are_replaced_until_the_spares_are_used_up() {
    // A rule that every window breaks.
    let report = trial(3, ab(), |_, design| design.rules.overrun_share_max = -1.0).report();
    assert_eq!((report.pairs, report.dropped.len()), (0, PAIRS + PAIRS / 3));
    assert_eq!((report.verdict, report.ended.clone(), report.effect), (Outcome::Undecided, Ended::OutOfSpares, None));
    assert!(report.doubts.iter().any(|doubt| doubt.contains("40 of 40 pairs were dropped")), "{:?}", report.doubts);
}

#[test]
fn few_pairs_are_undecided_and_say_so() {
    let report = trial(3, ab(), |mock, design| {
        mock.effect = 0.5;
        design.stop = Stop::After { pairs: 5 };
    })
    .report();
    assert_eq!(report.verdict, Outcome::Undecided);
    assert!(report.doubts.iter().any(|doubt| doubt.contains("5 pairs are too few")), "{:?}", report.doubts);
}

#[test]
fn a_design_that_can_tell_nothing_is_refused() {
    let root = Root::captured(Capture::parse(HOST).unwrap());
    let mut mock = Mock::new(&root, 1, 1.0);
    for (change, expected) in [
        ((|design| design.stop = Stop::After { pairs: 0 }) as fn(&mut Design), "design a trial: 0 pairs"),
        (|design| design.window = Duration::ZERO, "design a trial: a window of 0ns"),
        (|design| design.smallest_effect_ratio = f64::NAN, "design a trial: NaN as the smallest effect"),
        (|design| design.confidence = 1.0, "design a trial: a confidence of 1"),
        (
            |design| design.metric.name = "no_such_us".into(),
            "measure no_such_us: the workload gives cpu_share, round_trip_us_p50",
        ),
    ] {
        let mut design = design(1);
        change(&mut design);
        let hand = root.hand().unwrap();
        let mut switch = Switch::begin(&root, &hand, None, "test", &[]).unwrap();
        let watch = Watch::start(&root, &[]);
        let mut trial = Trial {
            design: &design,
            arms: aa(),
            switch: &mut switch,
            workload: &mut mock,
            watch: &watch,
            stop: &|| false,
            keep: &mut Keep::nowhere(),
        };
        let message = run(&mut trial, &mut |_| {}).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_knob_that_was_not_at_work_is_not_said_to_do_nothing() {
    // The counters of a captured machine stand still: no CPU ever goes idle.
    let state = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
    let host = HOST.replace("end\n", &format!("{state}/latency = 1\n{state}/usage = 1000\nend\n"));
    let report = trial_on(&host, 3, ab(), |_, _| ()).report();
    assert_eq!(report.verdict, Outcome::NotEngaged);
    assert_eq!(report.doubts[0], "the knob was not at work: CPUs went idle only 0 times a second");
    let report = trial_on(&host, 3, ab(), |mock, _| mock.effect = 0.5).report();
    assert_eq!(report.verdict, Outcome::Better, "a difference that was seen stands");
    let report = trial_on(&host, 3, aa(), |_, _| ()).report();
    assert_eq!(report.verdict, Outcome::Same, "a control has nothing to engage");
}
