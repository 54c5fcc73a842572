//! The verdict of a report on windows or on boots.
//! The verdict is that of the comparison, unless something overrules it.
//! The first row that fits decides:
//!
//! | the comparison says | and | the verdict is |
//! |---|---|---|
//! | anything | the trial ended before the minimum number of pairs | undecided |
//! | better | a guard got worse | worse, vetoed by the guard |
//! | better or same | windows of B have no number (no CPU, no value), and none of A | undecided |
//! | worse or same | windows of A have no number, and none of B | undecided |
//! | same | the counters of all settings show that none could act | not engaged |
//! | anything | | the verdict of the comparison |
//!
//! A vetoed *better* counts as *worse* in the rows below. *Not engaged* needs two conditions.
//! A counter that did not move does not exclude an effect by another path.
//! So the interval must also exclude an effect that matters, which is the meaning of *same*.

use crate::arm::ArmName;
use crate::outcome::Outcome;

/// The evidence for a verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    /// The result of the comparison.
    pub(crate) seen: Outcome,
    /// Whether the trial ended too early for any verdict.
    pub(crate) is_too_short: bool,
    /// The guard that got worse. None if no guard did.
    pub(crate) harmed_guard: Option<&'a str>,
    /// The arm with windows without a value, if only one arm has them.
    pub(crate) arm_without_numbers: Option<ArmName>,
    /// Whether the counters of all settings show that none could act.
    pub(crate) none_acted: bool,
}

/// The verdict, and the guard that vetoed a *better*. None if no guard did.
pub(crate) fn verdict(found: Found<'_>) -> (Outcome, Option<String>) {
    if found.is_too_short {
        return (Outcome::Undecided, None);
    }
    // Only *better* can be vetoed. So equal arms are not called worse more often than they are called better.
    let (seen, vetoed_by) = match (found.seen, found.harmed_guard) {
        (Outcome::Better, Some(guard)) => (Outcome::Worse, Some(guard.to_owned())),
        (seen, _) => (seen, None),
    };
    // The worst windows of this arm have no value. So the other windows cannot show that the arm is better or the same.
    let is_flattered = match found.arm_without_numbers {
        Some(ArmName::A) => matches!(seen, Outcome::Worse | Outcome::Same),
        Some(_) => matches!(seen, Outcome::Better | Outcome::Same),
        None => false,
    };
    match seen {
        _ if is_flattered => (Outcome::Undecided, None),
        Outcome::Same if found.none_acted => (Outcome::NotEngaged, None),
        seen => (seen, vetoed_by),
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Better, NotEngaged, Same, Undecided, Worse};
    use super::*;

    const NOTHING: Found<'_> =
        Found { seen: Same, is_too_short: false, harmed_guard: None, arm_without_numbers: None, none_acted: false };

    /// Checks each row of the table, for every verdict of the comparison.
    #[test]
    fn the_table_holds() {
        let verdicts = [Better, Worse, Same, Undecided];
        let table: [(Found<'_>, [Outcome; 4]); 8] = [
            (NOTHING, verdicts),
            (Found { is_too_short: true, none_acted: true, ..NOTHING }, [Undecided; 4]),
            (Found { harmed_guard: Some("p99"), ..NOTHING }, [Worse, Worse, Same, Undecided]),
            (Found { arm_without_numbers: Some(ArmName::B), ..NOTHING }, [Undecided, Worse, Undecided, Undecided]),
            (Found { arm_without_numbers: Some(ArmName::A), ..NOTHING }, [Better, Undecided, Undecided, Undecided]),
            (
                Found { arm_without_numbers: Some(ArmName::A), harmed_guard: Some("p99"), ..NOTHING },
                [Undecided, Undecided, Undecided, Undecided],
            ),
            (Found { none_acted: true, ..NOTHING }, [Better, Worse, NotEngaged, Undecided]),
            (
                Found { none_acted: true, arm_without_numbers: Some(ArmName::B), ..NOTHING },
                [Undecided, Worse, Undecided, Undecided],
            ),
        ];
        for (found, expected) in table {
            let given = verdicts.map(|seen| verdict(Found { seen, ..found }).0);
            assert_eq!(given, expected, "{found:?}");
        }
        let vetoed = verdict(Found { seen: Better, harmed_guard: Some("p99"), none_acted: true, ..NOTHING });
        assert_eq!(vetoed, (Worse, Some("p99".to_owned())), "a difference that was seen stands");
        assert_eq!(verdict(Found { seen: Worse, harmed_guard: Some("p99"), ..NOTHING }).1, None, "no claim to veto");
    }
}
