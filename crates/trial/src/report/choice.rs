//! Chooses one of several arms.
//! Arms that are better than the unchanged machine are compared with each other, on the blocks that have both arms.
//! If several arms do not differ, the arm with the smallest change is chosen.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::arm::ArmName;
use crate::design::Design;
use crate::effect::Effect;
use crate::outcome::Outcome;
use crate::session::MultiArmTest;
use crate::titles::Titles;

/// The best of several arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// One minus the probability that any of the comparisons with A is wrong.
    /// The comparisons among the other arms have the same confidence. The guards have this confidence too.
    pub confidence: f64,
    /// The arms that are better than A, sorted by their estimates, the best first.
    pub better: Vec<ArmName>,
    /// The better arms that no other arm beats.
    pub alike: Vec<ArmName>,
    /// The advised arm. Among arms that are alike, this is the arm nearest to the unchanged machine. If no arm is better, this is A.
    pub advised: ArmName,
    /// The comparisons between arms other than A.
    pub between: Vec<Between>,
}

/// Two arms other than A, compared in the blocks that have both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Between {
    /// The arm.
    pub arm: ArmName,
    /// The arm with which it is compared.
    pub against: ArmName,
    /// The number of counted pairs.
    pub pairs: usize,
    /// The ratio of `arm` to `against`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict on `arm`.
    pub verdict: Outcome,
}

impl Choice {
    pub(super) fn new(design: &Design, test: &MultiArmTest, reports: &[Report], titles: &Titles) -> Choice {
        let mut better: Vec<(ArmName, f64)> = test
            .further()
            .iter()
            .zip(reports)
            .filter(|(_, report)| report.verdict == Outcome::Better)
            .filter_map(|(state, report)| Some((state.name, state.test.judge.cost(report.effect?.ratio))))
            .collect();
        better.sort_by(|one, other| one.1.total_cmp(&other.1));
        let better: Vec<ArmName> = better.into_iter().map(|(name, _)| name).collect();
        let unbeaten = |arm: &&ArmName| !better.iter().any(|by| test.is_beaten(**arm, *by));
        let mut alike: Vec<ArmName> = better.iter().filter(unbeaten).copied().collect();
        // Every arm is beaten by another arm, so the comparisons contradict each other. Then no arm is the best.
        if alike.is_empty() {
            alike.clone_from(&better);
        }
        let advised = alike.iter().copied().min_by(|one, other| nearer(*one, *other, titles)).unwrap_or(ArmName::A);
        let between = test.arm_pairs().iter().map(|arm_pair| {
            let seen = arm_pair.judge.look();
            Between {
                arm: arm_pair.other,
                against: arm_pair.one,
                pairs: arm_pair.judge.pairs(),
                effect: seen.map(|seen| Effect::from_pairs(&seen, &arm_pair.judge)),
                verdict: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
            }
        });
        Choice { confidence: design.confidence, alike, advised, between: between.collect(), better }
    }

    /// The comparison of two arms, in either direction.
    pub fn between(&self, arm: ArmName, against: ArmName) -> Option<&Between> {
        self.between.iter().find(|between| {
            [between.arm, between.against] == [arm, against] || [between.against, between.arm] == [arm, against]
        })
    }
}

/// Orders two arms by how little they change.
/// First counts the number of settings that differ from the machine's.
/// Next counts how near the values are to the machine's, and last the order of the request.
fn nearer(one: ArmName, other: ArmName, titles: &Titles) -> Ordering {
    let away = |arm: ArmName| titles.away.get(arm as usize);
    let (Some(of_one), Some(of_other)) = (away(one), away(other)) else { return one.cmp(&other) };
    let by_way = match (of_one.way, of_other.way) {
        (Some(of_one), Some(of_other)) => of_one.total_cmp(&of_other),
        _ => Ordering::Equal,
    };
    of_one.settings.cmp(&of_other.settings).then(by_way).then(one.cmp(&other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::titles::Away;

    #[test]
    fn the_nearer_arm_asks_for_less() {
        let away = |settings, way| Away { knobs: Vec::new(), settings, way };
        let of = |away: Vec<Away>| Titles { away, ..Titles::default() };
        let table = [
            ("fewer settings", away(1, Some(9.0)), away(2, Some(0.1)), Ordering::Less),
            ("a smaller step", away(1, Some(2.0)), away(1, Some(0.5)), Ordering::Greater),
            ("words have no distance", away(1, None), away(1, Some(0.5)), Ordering::Less),
            ("not a number", away(1, Some(f64::NAN)), away(1, Some(0.5)), Ordering::Greater),
        ];
        for (what, b, c, expected) in table {
            let titles = of(vec![Away::default(), b, c]);
            assert_eq!(nearer(ArmName::B, ArmName::C, &titles), expected, "{what}");
        }
        assert_eq!(
            nearer(ArmName::D, ArmName::C, &of(Vec::new())),
            Ordering::Greater,
            "the order in which they were named"
        );
    }
}
