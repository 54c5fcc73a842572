//! Chooses the checks of a run: by name, without those that passed already, or a sample that fits into a time. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::check::Check;
use crate::run::LOOK_SECONDS;

/// The request.
pub(crate) struct Choice<'a> {
    /// Parts of names; all checks if empty.
    pub(crate) names: &'a [String],
    /// Whether to include checks that run only on request.
    pub(crate) extra: bool,
    /// The names of checks that need not run again.
    pub(crate) passed: &'a BTreeSet<String>,
    /// The time that a sample may take.
    pub(crate) within: Option<Duration>,
    /// The crates that come first in a sample.
    pub(crate) touched: &'a [String],
    /// Days since 1970. This determines where in the list a sample starts.
    pub(crate) day: u64,
}

impl Choice<'_> {
    pub(crate) fn select<'c>(&self, checks: &'c [Check]) -> Vec<&'c Check> {
        let is_named =
            |check: &&Check| self.names.is_empty() || self.names.iter().any(|part| check.name.contains(part));
        let is_wanted = |check: &&Check| self.extra || !check.is_extra;
        let chosen = checks.iter().filter(is_named).filter(is_wanted);
        let chosen = chosen.filter(|check| !self.passed.contains(&check.name));
        let chosen: Vec<&Check> = chosen.collect();
        match self.within {
            None => chosen,
            Some(within) => self.sample(&chosen, within.as_secs()),
        }
    }

    fn sample<'c>(&self, checks: &[&'c Check], within_s: u64) -> Vec<&'c Check> {
        let (first, others): (Vec<&Check>, Vec<&Check>) =
            checks.iter().partition(|check| self.touched.contains(&check.crate_name));
        let mut left_s = within_s;
        let mut chosen = Vec::new();
        for list in [first, others] {
            // The next day's sample starts about where this day's sample ends.
            let all_s: u64 = list.iter().map(|check| check.seconds + LOOK_SECONDS).sum();
            let a_day = (list.len() as u64 * within_s).checked_div(all_s).unwrap_or(0).max(1);
            let start = (self.day * a_day).checked_rem(list.len() as u64).unwrap_or(0) as usize;
            for check in list.iter().cycle().skip(start).take(list.len()) {
                let takes_s = check.seconds + LOOK_SECONDS;
                if takes_s <= left_s {
                    left_s -= takes_s;
                    chosen.push(*check);
                }
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(count: usize) -> Vec<Check> {
        let check = |at: usize| {
            let crate_name = if at.is_multiple_of(2) { "measure" } else { "rt" }.to_owned();
            Check { name: format!("{crate_name}::check_{at}"), crate_name, seconds: 10, ..Check::default() }
        };
        (0..count).map(check).collect()
    }

    fn names(chosen: &[&Check]) -> Vec<String> {
        chosen.iter().map(|check| check.name.clone()).collect()
    }

    #[test]
    fn names_and_passed_checks_narrow_the_choice() {
        let checks = checks(4);
        let passed = BTreeSet::from(["rt::check_1".to_owned()]);
        let rt = ["rt::".to_owned()];
        let choice = Choice { names: &rt, extra: false, passed: &passed, within: None, touched: &[], day: 0 };
        assert_eq!(names(&choice.select(&checks)), ["rt::check_3"]);
        let long: Vec<Check> = checks.iter().map(|check| Check { is_extra: true, ..check.clone() }).collect();
        assert!(choice.select(&long).is_empty());
        assert_eq!(names(&Choice { extra: true, ..choice }.select(&long)), ["rt::check_3"]);
    }

    #[test]
    fn a_sample_fits_its_time_begins_with_what_was_touched_and_takes_each_in_turn() {
        let checks = checks(40);
        let touched = ["rt".to_owned()];
        let mut seen = BTreeSet::new();
        for day in 20_000..20_005 {
            let within = Some(Duration::from_secs(60));
            let choice = Choice { names: &[], extra: false, passed: &BTreeSet::new(), within, touched: &touched, day };
            let chosen = choice.select(&checks);
            assert!(chosen.iter().map(|check| check.seconds + LOOK_SECONDS).sum::<u64>() <= 60);
            assert!(!chosen.is_empty() && chosen.iter().all(|check| check.crate_name == "rt"), "{:?}", names(&chosen));
            seen.extend(names(&chosen));
        }
        assert_eq!(seen.len(), 20, "every check of the crate within five days: {seen:?}");
        // The other crates get the time that the touched crates leave.
        let choice = Choice {
            names: &[],
            extra: false,
            passed: &BTreeSet::new(),
            within: Some(Duration::from_secs(400)),
            touched: &touched,
            day: 3,
        };
        let chosen = choice.select(&checks);
        assert!(chosen[..20].iter().all(|check| check.crate_name == "rt") && chosen.len() > 20);
        assert!(Choice { names: &[], ..choice }.select(&[]).is_empty());
    }
}
