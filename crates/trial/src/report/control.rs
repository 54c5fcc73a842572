//! The result of the A/A phase, which compares the machine with itself just before the trial.
//! The phase switches in the same way as the trial.
//! The result shows the machine's noise, and the smallest effect that a trial of the planned length can detect.

use evenkeel_stats::calibrate;
use serde::{Deserialize, Serialize};

use crate::comparison::Judge;
use crate::design::Design;
use crate::effect::Effect;
use crate::error::TrialError;
use crate::outcome::Outcome;
use crate::session::{Detectable, PLANNED_MAX, Window, pairs_of};

/// The A/A phase: the unchanged machine compared with itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlReport {
    /// The number of counted pairs.
    pub pairs: usize,
    /// The ratio of the two arms. None without counted pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict, which should not be a difference.
    pub verdict: Outcome,
    /// Whether the phase claimed a difference, which is a false alarm.
    pub is_claimed: bool,
    /// The share of simulated trials that claim a difference by chance.
    /// The simulated trials have the noise of this phase, and test after every pair. None without a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_share: Option<f64>,
    /// The smallest effect that a trial of `detectable_pairs` pairs could detect with this noise, as a share. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
    /// The number of pairs that `smallest_visible_ratio` assumes:
    /// the pairs of the trial, or of this phase if the trial had no pairs. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_pairs: Option<usize>,
    /// The windows of the phase.
    pub windows: Vec<Window>,
}

impl ControlReport {
    /// The result of the phase. None if there was no A/A phase.
    pub(super) fn new(
        design: &Design,
        windows: &[Window],
        comparisons: usize,
        pairs_had: usize,
    ) -> Result<Option<ControlReport>, TrialError> {
        if windows.is_empty() {
            return Ok(None);
        }
        let mut judge = Judge::of_metric(design, 1)?;
        // A session of an older version may contain values that cannot form a ratio. Leave out those pairs.
        let mut pairs = pairs_of(windows, |window| Some(window.value));
        pairs.retain(|pair| judge.add(*pair).is_ok());
        let seen = judge.look();
        let verdict = seen.map_or(Outcome::Undecided, |seen| seen.verdict.into());
        // The simulated trials use the same test as this trial. If there are several arms, they use the test of one arm.
        let made_up = match judge.is_sequential() {
            true => {
                let options = Judge::of_metric(design, comparisons)?.options();
                calibrate(&pairs, design.stop.pairs_max().min(PLANNED_MAX), options, design.seed).ok()
            }
            false => None,
        };
        let detectable = match pairs_had {
            0 => seen.map(|seen| Detectable { pairs: seen.pairs, ratio: Some(seen.smallest_visible_ratio) }),
            had => Detectable::from_control(design, windows, comparisons + 1, had).or_else(|| {
                seen.map(|seen| Detectable { pairs: seen.pairs, ratio: Some(seen.smallest_visible_ratio) })
            }),
        };
        let visible = detectable.and_then(|detectable| detectable.ratio);
        Ok(Some(ControlReport {
            pairs: pairs.len(),
            effect: seen.map(|seen| Effect::from_pairs(&seen, &judge)),
            verdict,
            is_claimed: matches!(verdict, Outcome::Better | Outcome::Worse),
            claim_share: made_up.map(|made_up| made_up.claim_rate),
            smallest_visible_ratio: visible.filter(|ratio| ratio.is_finite() && *ratio > 0.0),
            detectable_pairs: detectable.map(|detectable| detectable.pairs),
            windows: windows.to_vec(),
        }))
    }
}
