//! `Grid`: the moments at which a tick may begin. These moments are at fixed distances after points that repeat with the quantum.

use evenkeel_stats::periodicity::{Slots, Tracker};

/// How much we may lengthen or shorten ticks to stay in step, as a share of the period. The share is small because the user sets the rate.
const SLEW_MAX: f64 = 5e-4;
/// We follow a gap if it ends within this share of the period around its predicted end.
/// The distance must also be less than a third of the gap's length, because a sleep without a gap ends that early.
const GATE: f64 = 0.12;
/// How long before the CPU's expected return the thread wakes to observe it, in nanoseconds, and as a share of the gap.
const LEAD_MAX_NS: f64 = 3e6;
/// How fast the trust in the slots changes: within some fifty ticks.
const MEMORY: f64 = 0.02;
/// How fast the typical deviation decays.
const DEVIATION_MEMORY: f64 = 0.02;

/// Slots that the aligner follows from the start of one slice to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    tracker: Tracker,
    pub(super) share: f64,
    pub(super) confidence: f64,
    pub(super) deviation_ns: f64,
    trust: f64,
    seen_ns: u64,
}

impl Followed {
    /// Follows these slots. `ends` are the ends of the gaps in which the detector found them.
    pub(super) fn new(slots: &Slots, confidence: f64, ends: impl Iterator<Item = u64>) -> Followed {
        let tracker = Tracker::new(slots);
        let mut followed = Followed {
            tracker,
            share: slots.share.clamp(0.01, 0.99),
            confidence,
            deviation_ns: 0.0,
            trust: 1.0,
            seen_ns: slots.share_start_ns,
        };
        let gate_ns = followed.gate_ns();
        let (mut sum_ns, mut count) = (0.0, 0_u32);
        for end_ns in ends {
            let off_ns = followed.off_ns(end_ns).abs();
            if off_ns <= gate_ns {
                (sum_ns, count) = (sum_ns + off_ns, count + 1);
            }
        }
        followed.deviation_ns = sum_ns / f64::from(count.max(1));
        followed
    }

    pub(super) fn period_ns(&self) -> f64 {
        self.tracker.period_ns()
    }

    pub(super) fn gone_ns(&self) -> f64 {
        (1.0 - self.share) * self.period_ns()
    }

    fn gate_ns(&self) -> f64 {
        (GATE * self.period_ns()).min(self.gone_ns() / 3.0)
    }

    /// How much later `ns` is than the nearest start of a slice.
    fn off_ns(&self, ns: u64) -> f64 {
        let half_ns = (self.period_ns() / 2.0) as u64;
        let nearest_ns = self.tracker.next_start_ns(ns.saturating_sub(half_ns));
        ns as f64 - nearest_ns as f64
    }

    /// The last observed or predicted start of a slice.
    pub(super) fn phase_ns(&self) -> u64 {
        self.tracker.next_start_ns(self.seen_ns.saturating_sub((self.period_ns() / 2.0) as u64))
    }

    /// When to wake in order to see the CPU come back before `due_ns`: in the middle of the last gap before `due_ns`.
    pub(super) fn lookout_ns(&self, due_ns: u64) -> u64 {
        let period_ns = self.period_ns();
        // The added nanosecond makes a start exactly at `due_ns` count.
        let start_ns = self.tracker.next_start_ns((due_ns + 1).saturating_sub(period_ns as u64));
        let lead_ns = (self.gone_ns() / 2.0).min(LEAD_MAX_NS);
        start_ns.saturating_sub(lead_ns as u64)
    }

    /// Records that a sleep until [`lookout_ns`](Followed::lookout_ns) ended at `woke_ns`.
    pub(super) fn looked_out(&mut self, woke_ns: u64) {
        let off_ns = self.off_ns(woke_ns);
        let fits = off_ns.abs() <= self.gate_ns();
        self.trust += MEMORY * (f64::from(u8::from(fits)) - self.trust);
        if fits {
            self.deviation_ns += DEVIATION_MEMORY * (off_ns.abs() - self.deviation_ns);
            self.tracker.observe(woke_ns);
            self.seen_ns = woke_ns;
        }
    }

    /// The share of the last fifty or so gaps that came when predicted, from 0 to 1.
    pub(super) fn trust(&self) -> f64 {
        self.trust
    }
}

/// The points in time to which the aligner aligns ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// The distance between two points, in nanoseconds.
    pub(super) step_ns: f64,
    /// One of the points. It is used if the points do not follow slots.
    pub(super) base_ns: u64,
}

/// The largest step `quantum_ns / k` (`k` up to `parts`) that divides `period_ns`, so that all ticks meet points.
/// `None` if the ticks drift through the quantum in smaller steps.
pub(super) fn step_ns(period_ns: u64, quantum_ns: f64, parts: u32) -> Option<f64> {
    let period_ns = period_ns as f64;
    (1..=parts).map(|part| quantum_ns / f64::from(part)).find(|step_ns| {
        let turns = (period_ns / step_ns).round();
        turns >= 1.0 && (turns * step_ns - period_ns).abs() <= SLEW_MAX * period_ns
    })
}

impl Grid {
    /// The moment nearest to `due_ns` that is `offset_ns` after a point. If slots are followed, the points move with them.
    pub(super) fn nearest_ns(&self, followed: Option<&Followed>, due_ns: u64, offset_ns: f64) -> u64 {
        let base_ns = followed.map_or(self.base_ns, |followed| {
            followed.tracker.next_start_ns(due_ns.saturating_sub(followed.period_ns() as u64))
        });
        let since_ns = due_ns as f64 - base_ns as f64 - offset_ns;
        let turns = (since_ns / self.step_ns).round();
        base_ns.saturating_add_signed((turns * self.step_ns + offset_ns).round() as i64)
    }

    /// How much later `due_ns` is than the last point, from 0 to a step.
    pub(super) fn offset_ns(&self, followed: Option<&Followed>, due_ns: u64) -> f64 {
        let at_ns = self.nearest_ns(followed, due_ns, 0.0);
        (due_ns as f64 - at_ns as f64).rem_euclid(self.step_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: f64 = 1e6;

    pub(super) fn slots(period_ns: f64, share: f64, share_start_ns: u64) -> Slots {
        Slots {
            period_ns,
            period_error_ns: 1.0,
            share,
            share_start_ns,
            drift_ppm: 0.0,
            spread_ns: 1e4,
            seen: 100,
            expected: 100,
        }
    }

    #[test]
    fn steps_that_ticks_can_meet() {
        let table = [
            (20_000_000, 10.0, 3, Some(10.0)),
            (20_000_000, 10.001, 3, Some(10.001)),
            (20_000_000, 20.0, 3, Some(20.0)),
            (20_000_000, 30.0, 3, Some(10.0)),
            (20_000_000, 40.0, 3, Some(20.0)),
            (20_000_000, 100.0, 16, Some(20.0)),
            (20_000_000, 8.0, 3, Some(4.0)),
            (20_000_000, 15.6, 3, None),
            (20_000_000, 10.02, 3, None),
            (33_333_333, 10.0, 3, Some(10.0 / 3.0)),
        ];
        for (period_ns, quantum_ms, parts, expected) in table {
            let step = step_ns(period_ns, quantum_ms * MS, parts).map(|ns| (ns / MS * 1e6).round() / 1e6);
            let expected = expected.map(|ms: f64| (ms * 1e6).round() / 1e6);
            assert_eq!(step, expected, "{period_ns} {quantum_ms}");
        }
    }

    #[test]
    fn a_gap_that_is_not_there_costs_trust() {
        let mut followed = Followed::new(&slots(5.0 * MS, 0.9, 1_000_000_000), 1.0, std::iter::empty());
        let mut due_ns = 1_100_000_000;
        for _ in 0..100 {
            let lookout_ns = followed.lookout_ns(due_ns);
            assert!(lookout_ns < due_ns && due_ns - lookout_ns < 6_000_000);
            followed.looked_out(lookout_ns + 60_000);
            due_ns += 20_000_000;
        }
        assert!(followed.trust() < 0.2, "{}", followed.trust());
        assert_eq!(followed.phase_ns(), 1_000_000_000, "nothing was seen since");
    }

    proptest! {
        #[test]
        fn the_nearest_is_near_and_on_the_grid(
            due_ns in 10_000_000_000_u64..20_000_000_000, step_ms in 2.0..60.0, offset in 0.0..1.0, follows: bool,
        ) {
            let followed = follows.then(|| Followed::new(&slots(step_ms * MS, 0.4, 9_000_000_123), 1.0, std::iter::empty()));
            let grid = Grid { step_ns: step_ms * MS, base_ns: 9_000_000_123 };
            let offset_ns = offset * grid.step_ns;
            let near_ns = grid.nearest_ns(followed.as_ref(), due_ns, offset_ns);
            prop_assert!((near_ns as f64 - due_ns as f64).abs() <= grid.step_ns / 2.0 + 2.0);
            let back = grid.offset_ns(followed.as_ref(), near_ns);
            let apart = (back - offset_ns).abs();
            prop_assert!(apart < 10.0 || (apart - grid.step_ns).abs() < 10.0, "{back} {offset_ns}");
        }
    }
}
