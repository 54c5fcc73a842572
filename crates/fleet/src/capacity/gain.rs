//! The gain of settings, in sessions.

use serde::Serialize;

use super::report::CapacityReport;
use super::search::Found;

/// How many sessions fit with settings, and how many more than without.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The settings.
    pub settings: Vec<String>,
    /// The answer with the settings.
    pub report: CapacityReport,
    /// How many more sessions fit with the settings than without.
    pub gain: Gain,
}

impl Comparison {
    /// Compares the answer with the settings and the answer without the settings.
    pub fn new(settings: Vec<String>, without: &CapacityReport, with: CapacityReport) -> Comparison {
        Comparison { settings, gain: Gain::from_found(&without.found, &with.found), report: with }
    }
}

/// How many more sessions fit with some settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gain {
    /// The difference of the two numbers; negative if fewer fit.
    pub sessions: i64,
    /// The lower bound of the gain. `null` if the number without the settings has no proven upper bound.
    pub at_least: Option<i64>,
    /// The upper bound of the gain. `null` if the number with the settings has no proven upper bound.
    pub at_most: Option<i64>,
    /// The verdict from the interval.
    pub verdict: GainVerdict,
}

/// The verdict from the interval of a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum GainVerdict {
    /// More sessions fit with the settings.
    More,
    /// Fewer sessions fit with the settings.
    Fewer,
    /// The same number of sessions fits.
    Same,
    /// The intervals overlap.
    Undecided,
}

impl Gain {
    /// The gain of settings, from the numbers of sessions that fit without and with the settings.
    ///
    /// Each bound needs two claims, and each claim is wrong in less than 1 of 100 cases.
    pub fn from_found(without: &Found, with: &Found) -> Gain {
        let difference = |with: u32, without: u32| i64::from(with) - i64::from(without);
        let at_least = without.at_most.map(|most| difference(with.at_least, most));
        let at_most = with.at_most.map(|most| difference(most, without.at_least));
        let verdict = match (at_least, at_most) {
            (Some(least), _) if least > 0 => GainVerdict::More,
            (_, Some(most)) if most < 0 => GainVerdict::Fewer,
            (Some(0), Some(0)) => GainVerdict::Same,
            _ => GainVerdict::Undecided,
        };
        Gain { sessions: difference(with.sessions, without.sessions), at_least, at_most, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intervals_that_do_not_overlap_decide() {
        let found = |sessions, at_least, at_most| Found { sessions, at_least, at_most };
        let table = [
            (found(9, 9, Some(9)), found(12, 12, Some(12)), (3, Some(3), Some(3), GainVerdict::More)),
            (found(9, 8, Some(10)), found(12, 11, Some(13)), (3, Some(1), Some(5), GainVerdict::More)),
            (found(9, 8, Some(10)), found(10, 10, Some(11)), (1, Some(0), Some(3), GainVerdict::Undecided)),
            (found(9, 9, Some(9)), found(9, 9, Some(9)), (0, Some(0), Some(0), GainVerdict::Same)),
            (found(9, 9, Some(9)), found(7, 7, Some(8)), (-2, Some(-2), Some(-1), GainVerdict::Fewer)),
            (found(8, 8, None), found(8, 8, None), (0, None, None, GainVerdict::Undecided)),
            (found(8, 8, None), found(5, 5, Some(5)), (-3, None, Some(-3), GainVerdict::Fewer)),
            (found(2, 2, Some(2)), found(8, 8, None), (6, Some(6), None, GainVerdict::More)),
        ];
        for (without, with, (sessions, at_least, at_most, verdict)) in table {
            assert_eq!(Gain::from_found(&without, &with), Gain { sessions, at_least, at_most, verdict });
        }
    }
}
