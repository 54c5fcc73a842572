//! Whether the machine changed during a search: with the same number of sessions, later windows are worse or better than earlier ones.
//!
//! The test is the seasonal one of Kendall (Hirsch, Slack and Smith 1982), with the numbers of sessions as seasons: it counts the pairs of
//! windows of one number in which the later one is worse, minus those in which it is better. The numbers themselves differ in time, because
//! the search goes up, so windows of different numbers say nothing about time.

use std::collections::BTreeMap;

use super::window::{Limit, Window};

/// How many standard deviations the count must be away from 0. Without a change, fewer than 2 of 100 searches get there. In simulated
/// searches, 5 of 900 did.
const SURE: f64 = 2.5;

/// How the machine changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    /// Later windows are worse.
    Worse,
    /// Later windows are better.
    Better,
}

/// The change that the windows show, if any. They are in the order in which they were measured.
pub(super) fn drift(windows: &[Window], limits: &[Limit]) -> Option<Drift> {
    let scores = limits.iter().enumerate().map(|(nth, limit)| score(windows, nth, limit));
    let score = scores.max_by(|one, other| one.abs().total_cmp(&other.abs()))?;
    match score.abs() >= SURE {
        true if score > 0.0 => Some(Drift::Worse),
        true => Some(Drift::Better),
        false => None,
    }
}

/// The count for one limit, in standard deviations. Above 0 if later windows are worse.
fn score(windows: &[Window], nth: usize, limit: &Limit) -> f64 {
    let mut by_number: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for window in windows {
        // A session without a value is worse than any value.
        let value = window.worst.get(nth).copied().flatten();
        let badness = value.map_or(f64::INFINITY, |value| if limit.is_higher_better { -value } else { value });
        by_number.entry(window.sessions).or_default().push(badness);
    }
    let (mut count, mut variance) = (0.0, 0.0);
    for values in by_number.values() {
        for (at, earlier) in values.iter().enumerate() {
            count += values[at + 1..].iter().map(|later| sign(*later, *earlier)).sum::<f64>();
        }
        variance += weight(values.len()) - ties(values).into_iter().map(weight).sum::<f64>();
    }
    if variance > 0.0 { count / (variance / 18.0).sqrt() } else { 0.0 }
}

fn sign(later: f64, earlier: f64) -> f64 {
    match later.total_cmp(&earlier) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.0,
        std::cmp::Ordering::Less => -1.0,
    }
}

/// 18 times the variance of the count for this many different values.
fn weight(values: usize) -> f64 {
    let n = values as f64;
    n * (n - 1.0) * (2.0 * n + 5.0)
}

/// The sizes of the groups of equal values.
fn ties(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|one, other| one.total_cmp(other).is_eq()).map(<[f64]>::len).collect()
}

#[cfg(test)]
mod tests {
    use super::super::search::{Random, Search};
    use super::super::window::MachineUse;
    use super::*;

    fn limit() -> Limit {
        Limit { metric: "late".to_owned(), unit: "us".to_owned(), value: 2000.0, is_higher_better: false }
    }

    fn window(sessions: u32, worst: Option<f64>) -> Window {
        Window {
            with_settings: false,
            sessions,
            worst: vec![worst],
            session_cpus: None,
            machine: MachineUse::default(),
        }
    }

    fn of(values: &[(u32, f64)]) -> Option<Drift> {
        let windows: Vec<Window> = values.iter().map(|(sessions, value)| window(*sessions, Some(*value))).collect();
        drift(&windows, &[limit()])
    }

    #[test]
    fn only_windows_of_one_number_are_compared() {
        // The number of sessions goes up, and so does the lateness.
        let rising: Vec<(u32, f64)> = (1..40).map(|at| (at, f64::from(at) * 100.0)).collect();
        assert_eq!(of(&rising), None);
        let later_worse: Vec<(u32, f64)> = (0..12).map(|at| (14 + at % 2, 1000.0 + f64::from(at))).collect();
        assert_eq!(of(&later_worse), Some(Drift::Worse));
        let later_better: Vec<(u32, f64)> = later_worse.iter().map(|(sessions, value)| (*sessions, -value)).collect();
        assert_eq!(of(&later_better), Some(Drift::Better));
        // Equal values are no change, and a session without a value is the worst.
        assert_eq!(of(&[(3, 0.0); 40]), None);
        let lost: Vec<Window> = (0..16).map(|at| window(3, (at < 8).then_some(1.0))).collect();
        assert_eq!(drift(&lost, &[limit()]), Some(Drift::Worse));
        let higher = Limit { is_higher_better: true, ..limit() };
        let windows: Vec<Window> =
            later_worse.iter().map(|(sessions, value)| window(*sessions, Some(*value))).collect();
        assert_eq!(drift(&windows, &[higher]), Some(Drift::Better));
        assert_eq!(drift(&[], &[limit()]), None);
    }

    /// Searches on a simulated machine that holds `truth(window)` sessions. Returns the change that is seen, and whether the interval holds the
    /// truth of the last window.
    fn search(truth: impl Fn(u32) -> f64, seed: u64) -> (Option<Drift>, bool) {
        let (mut search, mut random, mut windows) = (Search::new(1000), Random(seed), Vec::new());
        while let Some(sessions) = search.next().filter(|_| windows.len() < 300) {
            let uniform = random.next();
            let noise = (uniform / (1.0 - uniform)).ln();
            let beyond = f64::from(sessions) - 0.5 - truth(windows.len() as u32);
            let one = window(sessions, Some(2000.0 * ((beyond + noise) / 20.0).exp()));
            search.add(sessions, one.is_held(&[limit()]));
            windows.push(one);
        }
        let (found, last) = (search.found(), truth(windows.len() as u32).round() as u32);
        let is_in = found.at_least <= last && found.at_most.is_none_or(|most| last <= most);
        (drift(&windows, &[limit()]), is_in)
    }

    /// Without a change there is hardly ever a caveat. If a change puts the truth outside of the interval, there is one most often.
    #[test]
    fn a_change_of_the_machine_is_seen_and_noise_is_not() {
        let searches = |truth: &dyn Fn(u32) -> f64| -> Vec<(Option<Drift>, bool)> {
            (0..150).map(|seed| search(truth, seed * 7919 + 3)).collect()
        };
        let alarms = searches(&|_| 9.0).iter().filter(|(drift, _)| drift.is_some()).count();
        assert!(alarms <= 3, "{alarms} of 150 without a change");
        for (change, wrong) in [(8.0, Drift::Worse), (-8.0, Drift::Better)] {
            let found = searches(&|window| 16.0 + change * f64::from(window.min(100)) / 100.0);
            let outside = found.iter().filter(|(_, is_in)| !is_in).count();
            let unseen = found.iter().filter(|(drift, is_in)| !is_in && drift.is_none()).count();
            assert!(outside > 0 && unseen * 2 <= outside, "{change}: {unseen} of {outside} are unseen");
            assert!(found.iter().all(|(drift, _)| *drift != Some(wrong)), "{change}");
        }
    }
}
