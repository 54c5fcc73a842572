//! Tests how a search uses the remaining time.

use std::time::Duration;

use evenkeel_trial::search::simulated::{METRIC, Simulated, Truth};
use evenkeel_trial::search::{
    Answer, Budget, KnobAnswer, KnobOutcome, Log, SearchDesign, Stage, Subject, Tools, Verdict, WindowResult, search,
};
use evenkeel_trial::{Arm, Level, TrialError};
use evenkeel_workload::{Clock, SimulatedMachine};

/// A server with a knob that helps only during the screening, so that the confirmation fails at once.
struct Fading(Simulated);

const HELPS_FOR: usize = 64;

impl Subject for Fading {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        let helps = self.0.windows < HELPS_FOR && *arm.level(0) != Level::AsItWas;
        let mut seen = self.0.window(arm)?;
        if let WindowResult::Measured { value, .. } = &mut seen {
            *value *= if helps { 0.4 } else { 1.0 };
        }
        Ok(seen)
    }
}

/// If the confirmation fails early, the search uses the remaining time to decide more of the other knobs.
#[test]
fn the_budget_after_a_failed_proof_is_used() {
    let truth = Truth { knobs: 6, noise: 0.1, ..Truth::default() };
    let (mut failed, mut went_on, windows) = (0, 0, 500);
    for seed in 0..20 {
        let budget = Budget { windows, time_ms: None };
        let design =
            SearchDesign { smallest_effect_ratio: 0.1, ..SearchDesign::new(truth.candidates(), METRIC, budget, seed) };
        let mut subject = Fading(Simulated::new(truth.clone(), seed));
        let mut log = Log::in_memory(Vec::new());
        let tools = Tools { subject: &mut subject, log: &mut log, stop: &|| false, on_progress: &mut |_| {} };
        let answer = search(&design, tools).unwrap();
        if !answer.windows.contains_key(&Stage::Confirm) || answer.verdict != Verdict::NothingHelped {
            continue;
        }
        failed += 1;
        let is_open = |knob: &KnobAnswer| {
            let is_within = knob.screening.as_ref().is_some_and(|seen| seen.is_within(design.smallest_effect_ratio));
            knob.outcome == KnobOutcome::NoEffect && !is_within
        };
        let used: usize = answer.windows.values().sum();
        let open = answer.knobs.iter().filter(|knob| is_open(knob)).count();
        went_on += usize::from(used * 10 >= windows * 8);
        assert!(open == 0 || used * 10 >= windows * 8, "seed {seed}: {used} windows, {open} open");
        assert_eq!(open > 0, answer.more_time.is_some(), "seed {seed}: {:?}", answer.more_time);
        assert!(
            matches!(&answer.knobs[0].outcome, KnobOutcome::LeftOut { .. }),
            "seed {seed}: {:?}",
            answer.knobs[0].outcome
        );
    }
    assert!(failed > 5 && went_on > 2, "{failed} proofs failed, after {went_on} the budget was used");
}

/// A server that takes five seconds to restart. The last two knobs need a restart at each switch.
struct Restarting {
    server: Simulated,
    machine: SimulatedMachine,
    compares_restarts: bool,
}

const RESTARTS: [usize; 2] = [10, 11];

impl Subject for Restarting {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        self.machine.advance(Duration::from_millis(if self.compares_restarts { 5_000 } else { 1_000 }));
        self.server.window(arm)
    }

    fn clock(&self) -> Clock {
        Clock::Simulated(self.machine.clone())
    }

    fn compares(&mut self, knobs: &[usize]) {
        self.compares_restarts = knobs.iter().any(|knob| RESTARTS.contains(knob));
    }
}

fn search_with_restarts(mains: Vec<(usize, f64)>, budget_s: u64) -> Answer {
    let truth = Truth { knobs: 12, mains, noise: 0.02, ..Truth::default() };
    let budget = Budget { windows: 10_000, time_ms: Some(budget_s * 1000) };
    let design =
        SearchDesign { restarts: RESTARTS.to_vec(), ..SearchDesign::new(truth.candidates(), METRIC, budget, 3) };
    let server = Simulated::new(truth, 3);
    let mut subject = Restarting { server, machine: SimulatedMachine::default(), compares_restarts: true };
    let mut log = Log::in_memory(Vec::new());
    let tools = Tools { subject: &mut subject, log: &mut log, stop: &|| false, on_progress: &mut |_| {} };
    search(&design, tools).unwrap()
}

/// Knobs that need a restart at each switch are left out of the screening. If time is left, they are screened then.
#[test]
fn knobs_that_need_a_restart_get_the_rest_of_the_budget() {
    let outcomes = |answer: &Answer| RESTARTS.map(|knob| answer.knobs[knob].outcome.clone());
    let nothing = search_with_restarts(Vec::new(), 400);
    assert_eq!(outcomes(&nothing), [KnobOutcome::NoEffect, KnobOutcome::NoEffect], "{nothing:?}");
    assert_eq!((nothing.verdict, nothing.more_time), (Verdict::NothingHelped, None));
    assert!(nothing.took_ms <= 400_000, "{} ms", nothing.took_ms);

    let one = search_with_restarts(vec![(10, -0.2)], 400);
    assert_eq!(outcomes(&one), [KnobOutcome::Unclear, KnobOutcome::NoEffect], "{one:?}");
    assert_eq!(one.verdict, Verdict::NotProved);
    assert!(one.more_time.as_ref().is_some_and(|more| more.budget_s > 400), "{:?}", one.more_time);

    // The set is proved before, and stays proved.
    let other = search_with_restarts(vec![(2, -0.3)], 500);
    assert_eq!(other.verdict, Verdict::Better);
    assert_eq!(outcomes(&other), [KnobOutcome::NoEffect, KnobOutcome::NoEffect], "{other:?}");
}

/// A budget that is too small names one that is larger, and with which each window may wait for a restart.
#[test]
fn a_budget_without_room_for_restarts_names_one_that_has() {
    let answer = search_with_restarts(Vec::new(), 130);
    let not_tried = |knob: usize| matches!(answer.knobs[knob].outcome, KnobOutcome::NotTried { .. });
    assert!(RESTARTS.into_iter().all(not_tried), "{answer:?}");
    let more = answer.more_time.unwrap();
    assert!(more.budget_s > 400, "{more:?}");
    let again = search_with_restarts(Vec::new(), more.budget_s);
    assert_eq!((again.verdict, again.more_time), (Verdict::NothingHelped, None));
}

/// A server that a neighbour slows down to a fifth in every 23rd window.
struct Interrupted(Simulated);

impl Subject for Interrupted {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        let is_slow = self.0.windows % 23 == 22;
        let mut seen = self.0.window(arm)?;
        if let WindowResult::Measured { value, .. } = &mut seen {
            *value *= if is_slow { 5.0 } else { 1.0 };
        }
        Ok(seen)
    }
}

/// A single bad window stops no arm. So it is never the reason why a knob counts as harmful, or as needed.
#[test]
fn a_single_bad_window_is_evidence_of_nothing() {
    for seed in 0..10 {
        let truth = Truth { knobs: 8, mains: vec![(2, -0.3), (5, -0.2)], noise: 0.03, ..Truth::default() };
        let budget = Budget { windows: 600, time_ms: None };
        let design = SearchDesign::new(truth.candidates(), METRIC, budget, seed);
        let mut subject = Interrupted(Simulated::new(truth, seed));
        let mut log = Log::in_memory(Vec::new());
        let tools = Tools { subject: &mut subject, log: &mut log, stop: &|| false, on_progress: &mut |_| {} };
        let answer = search(&design, tools).unwrap();
        for knob in &answer.knobs {
            assert_ne!(knob.outcome, KnobOutcome::Stopped, "seed {seed}: {}", knob.name());
            let has_pairs = knob.without.as_ref().is_some_and(|without| without.pairs > 0);
            assert!(!knob.is_shown || has_pairs || answer.set.len() == 1, "seed {seed}: {knob:?}");
        }
    }
}
