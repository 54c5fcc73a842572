//! The end of a search: the outcome of every knob after the last window.

use super::answer::{Answer, Ended, Verdict};
use super::caveat::{self, SearchCaveat};
use super::engaged;
use super::knob_outcome::KnobOutcome;
use super::left_out::NotNeeded;
use super::more::more_time;
use super::runner::{Halt, SearchRunner};
use crate::caveat::Caveat;
use crate::engaged::{Engaged, Mechanism};

impl Answer {
    /// Sets the outcomes of all knobs after the last window.
    pub(super) fn close(&mut self, runner: &SearchRunner<'_>, ended: Result<(), Halt>) {
        self.take_outcomes(runner);
        for (at, knob) in self.knobs.iter_mut().enumerate() {
            knob.engaged = engaged::knob_mechanism(runner, at);
        }
        self.windows = runner.by_stage().clone();
        self.caveats = caveat::of_windows(runner.entries());
        self.took_ms = u64::try_from(runner.spent().as_millis()).unwrap_or(u64::MAX);
        self.ended = match ended {
            Ok(()) => Ended::Whole,
            Err(Halt::OutOfBudget) => Ended::OutOfBudget,
            Err(Halt::Stopped) => Ended::Stopped,
            Err(Halt::Failed(why)) => Ended::Failed { why },
        };
        let is_open = self.knobs.iter().any(|knob| knob.outcome == KnobOutcome::Unclear);
        if self.ended == Ended::Whole && self.effect.is_none() && !is_open {
            self.verdict = Verdict::NothingHelped;
        }
        if self.verdict == Verdict::NothingHelped {
            for knob in self.knobs.iter_mut().filter(|knob| knob.outcome == KnobOutcome::Unclear) {
                knob.outcome = KnobOutcome::LeftOut { why: NotNeeded::SetNotShown };
            }
            self.set.clear();
        }
        self.add_idle_caveats(runner.design.smallest_effect_ratio);
        self.more_time = more_time(self, runner);
    }

    /// Handles a knob that moved the metric in the screening although its counter did not move.
    /// If the difference was confirmed, the knob counts, with a caveat.
    /// Otherwise, the knob may still have an effect that the search did not detect.
    fn add_idle_caveats(&mut self, smallest_effect_ratio: f64) {
        for knob in &mut self.knobs {
            let Some(Mechanism { engaged: Engaged::No { why }, .. }) = &knob.engaged else { continue };
            match &knob.outcome {
                // This knob was not tested after the screening.
                KnobOutcome::LeftOut { why: NotNeeded::OthersDoMore { .. } } => {}
                KnobOutcome::InTheSet | KnobOutcome::Hurts => {
                    self.caveats.push(SearchCaveat::NotEngaged { knob: knob.name().to_owned(), why: why.clone() });
                }
                // Claim "no effect" only if the interval excludes every effect that matters.
                KnobOutcome::LeftOut { .. } | KnobOutcome::NoEffect if self.veto.is_none() => {
                    let seen = knob.without.as_ref().or(knob.screening.as_ref());
                    match seen.is_some_and(|seen| seen.is_within(smallest_effect_ratio)) {
                        true => knob.outcome = KnobOutcome::NotEngaged { why: why.clone() },
                        false => self.caveats.push(SearchCaveat::OfTrial(Caveat::MechanismUnseen {
                            knob: Some(knob.name().to_owned()),
                            why: why.clone(),
                        })),
                    }
                }
                _ => {}
            }
        }
    }
}
