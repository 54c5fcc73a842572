//! The result of the A/A phase, which compares the machine with itself just before the trial, by the same path. It shows the machine's
//! noise, and the smallest effect that a trial of the planned length can detect.

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
    /// Pairs that count.
    pub pairs: usize,
    /// The ratio of the two arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict.
    pub verdict: Outcome,
    /// Whether it claimed a difference, which must be a false alarm.
    pub is_claimed: bool,
    /// The share of simulated trials that claim a difference by chance. They have the noise of this phase, and a test after every pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_share: Option<f64>,
    /// The smallest effect that a trial of `detectable_pairs` pairs could detect in this noise, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
    /// The number of pairs that `smallest_visible_ratio` assumes: the pairs of the trial, or of this phase if the trial had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_pairs: Option<usize>,
    /// The windows of the phase.
    pub windows: Vec<Window>,
}

impl ControlReport {
    /// None without an A/A phase.
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
        // A session of an older version may have values without a ratio. Drop those pairs, and report the others.
        let mut pairs = pairs_of(windows, |window| Some(window.value));
        pairs.retain(|pair| judge.add(*pair).is_ok());
        let seen = judge.look();
        let verdict = seen.map_or(Outcome::Undecided, |seen| seen.verdict.into());
        // Simulated trials with this noise use the same test as this trial, for each arm if there are several.
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
