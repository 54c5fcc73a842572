//! Tests how a search uses the remaining time.

use evenkeel_trial::search::simulated::{METRIC, Simulated, Truth};
use evenkeel_trial::search::{
    Budget, KnobAnswer, KnobOutcome, Log, SearchDesign, Stage, Subject, Tools, Verdict, WindowResult, search,
};
use evenkeel_trial::{Arm, Level, TrialError};

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
