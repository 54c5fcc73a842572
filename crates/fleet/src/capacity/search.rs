//! Which number of sessions to try next, and when the answer is known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;

/// The capital at which a bet proves its claim. Each claim is wrong in less than 1 of 100 cases, and a search makes few claims that matter.
pub const CLAIM: f64 = 100.0;
/// The windows at one number of sessions before the search decides whether to try more or fewer.
const FIRST_WINDOWS: u32 = 3;
/// If a claim about a number of sessions is still unproven after this many windows, that number is at the edge.
const CLOSE_WINDOWS: u32 = 16;

/// The number of sessions that was found, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Found {
    /// The highest number of sessions that held the limit in most windows.
    pub sessions: u32,
    /// The lower bound: the highest number of sessions that is proven to hold the limit.
    pub at_least: u32,
    /// The upper bound: one less than the lowest number of sessions that is proven not to hold the limit. `null` without such a proof.
    pub at_most: Option<u32>,
}

/// Searches for the highest number of sessions that holds the limit.
///
/// The search doubles the number of sessions until the limit no longer holds, and then halves the bracket.
/// Then it measures windows on both sides of the edge until one number is proven to hold and one number is proven not to hold.
/// All windows count, in any order, so a bracket that was wrong by chance moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    sessions_max: u32,
    tried: BTreeMap<u32, Evidence>,
}

impl Search {
    /// A search up to this many sessions.
    pub fn new(sessions_max: u32) -> Search {
        Search { sessions_max: sessions_max.max(1), tried: BTreeMap::new() }
    }

    /// Adds a window with this many sessions.
    pub fn add(&mut self, sessions: u32, is_held: bool) {
        self.tried.entry(sessions).or_default().add(is_held);
    }

    /// The windows with each number of sessions.
    pub fn tried(&self) -> &BTreeMap<u32, Evidence> {
        &self.tried
    }

    /// The number of sessions for the next window. None if the answer is known.
    pub fn next(&self) -> Option<u32> {
        let few = |sessions: u32| self.evidence(sessions).windows() < FIRST_WINDOWS;
        let (held, broken) = self.edge();
        let next = match broken {
            // Nothing broke the limit yet: double the number, up to the maximum.
            None if held == self.sessions_max => return (!self.is_proven_held(held)).then_some(held),
            None if held > 0 && few(held) => held,
            None => (held * 2).clamp(1, self.sessions_max),
            Some(broken) if few(broken) => broken,
            Some(_) if held > 0 && few(held) => held,
            Some(broken) if broken - held > 1 => held.midpoint(broken),
            Some(broken) => return self.claim(held, broken),
        };
        Some(next)
    }

    /// The number of sessions for the next window at the edge. None if both claims are proven.
    ///
    /// If the edge is blurred, the numbers next to it hold the limit in about half of their windows, and no claim about them is ever proven.
    /// So after some windows the search proves the next numbers outwards. The answer is then exact to within one session.
    fn claim(&self, held: u32, broken: u32) -> Option<u32> {
        let is_close = |sessions: u32| self.evidence(sessions).windows() >= CLOSE_WINDOWS;
        let held = if is_close(held) && !self.is_proven_held(held) { held - 1 } else { held };
        let out = broken.saturating_add(1).min(self.sessions_max);
        let broken = if is_close(broken) && !self.is_proven_broken(broken) { out } else { broken };
        match (
            self.is_proven_held(held),
            self.is_proven_broken(broken) || is_close(broken) && broken == self.sessions_max,
        ) {
            (true, true) => None,
            (false, true) => Some(held),
            (true, false) => Some(broken),
            (false, false) if self.evidence(held).windows() <= self.evidence(broken).windows() => Some(held),
            (false, false) => Some(broken),
        }
    }

    /// The present result.
    pub fn found(&self) -> Found {
        let proven_broken = self.tried.keys().copied().find(|sessions| self.is_proven_broken(*sessions));
        let proven_held = self.tried.keys().rev().copied().find(|sessions| self.is_proven_held(*sessions));
        Found {
            sessions: self.edge().0,
            at_least: proven_held.unwrap_or(0),
            at_most: proven_broken.map(|broken| broken - 1),
        }
    }

    /// The highest number of sessions that seems to hold, and the lowest number that seems not to hold.
    ///
    /// More sessions are never better. So a number whose windows contradict its neighbours is noise.
    /// The edge is where the fewest windows contradict it.
    fn edge(&self) -> (u32, Option<u32>) {
        let numbers: Vec<u32> = self.tried.keys().copied().collect();
        let wrong = |cut: usize| -> u32 {
            let (below, above) = numbers.split_at(cut);
            let count = |all: &[u32], wrong: fn(Evidence) -> u32| -> u32 {
                all.iter().map(|sessions| wrong(self.evidence(*sessions))).sum()
            };
            count(below, |evidence| evidence.broken) + count(above, |evidence| evidence.held)
        };
        // If several cuts contradict the same number of windows, take the first: it has the fewest sessions.
        let cut = (0..=numbers.len()).min_by_key(|cut| wrong(*cut)).unwrap_or(0);
        let held = cut.checked_sub(1).map_or(0, |last| numbers[last]);
        (held, numbers.get(cut).copied())
    }

    fn evidence(&self, sessions: u32) -> Evidence {
        self.tried.get(&sessions).copied().unwrap_or_default()
    }

    /// Zero sessions hold every limit.
    fn is_proven_held(&self, sessions: u32) -> bool {
        sessions == 0 || self.evidence(sessions).for_held() >= CLAIM
    }

    fn is_proven_broken(&self, sessions: u32) -> bool {
        self.evidence(sessions).for_broken() >= CLAIM
    }
}

/// A deterministic source of numbers between 0 and 1, without 0 and 1, for the simulations of tests.
#[cfg(test)]
pub(super) struct Random(pub(super) u64);

#[cfg(test)]
impl Random {
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a simulated machine that holds `truth` sessions.
    /// The chance that a window holds the limit falls around that number, over `blur` sessions.
    fn search(truth: u32, blur: f64, seed: u64, windows_max: u32) -> (Found, u32) {
        let (mut search, mut random, mut windows) = (Search::new(1000), Random(seed), 0);
        while let Some(sessions) = search.next().filter(|_| windows < windows_max) {
            let distance = f64::from(truth) + 0.5 - f64::from(sessions);
            let chance = 1.0 / (1.0 + (-distance / blur).exp());
            search.add(sessions, random.next() < chance);
            windows += 1;
        }
        (search.found(), windows)
    }

    #[test]
    fn a_quiet_machine_is_known_soon() {
        for truth in [0, 1, 2, 7, 14, 100, 999, 1000] {
            let (found, windows) = search(truth, 0.01, 1, 1000);
            assert_eq!((found.sessions, found.at_least), (truth, truth), "{truth}");
            assert_eq!(found.at_most, (truth < 1000).then_some(truth));
            assert!(windows <= 80, "{truth}: {windows} windows");
        }
    }

    /// The answer is within one of the truth in 95 of 100 searches, and the interval contains the truth.
    #[test]
    fn noise_neither_ends_it_early_nor_lets_it_pass() {
        for (truth, blur) in [(3, 0.5), (9, 0.5), (9, 1.0), (24, 1.0), (60, 1.0)] {
            let (mut near, mut covered, mut windows) = (0, 0, 0);
            for seed in 0..300 {
                let (found, took) = search(truth, blur, seed * 7919 + u64::from(truth), 400);
                near += u32::from(found.sessions.abs_diff(truth) <= 1);
                let at_most = found.at_most.unwrap_or(u32::MAX);
                covered += u32::from(found.at_least <= truth && truth <= at_most);
                windows += took;
            }
            assert!(near >= 285, "{truth} {blur}: {near} of 300 are near");
            assert!(covered >= 285, "{truth} {blur}: {covered} of 300 intervals hold the truth");
            assert!(windows / 300 < 200, "{truth} {blur}: {} windows", windows / 300);
        }
    }

    #[test]
    fn an_end_before_the_claims_gives_an_interval() {
        let (found, windows) = search(14, 0.5, 5, 12);
        assert_eq!(windows, 12);
        assert!(found.at_least <= 14 && found.at_most.is_none_or(|most| most >= 14), "{found:?}");
    }
}
