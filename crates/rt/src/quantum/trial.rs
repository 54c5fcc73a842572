//! `Trial`: finds the phase at which ticks finish soonest, by running ticks at each place. It runs a few ticks at one place, then at the next.
//! The trial then tries the better half of the places again, until one place is left.
//! The last place has to beat the original place in five rounds of fresh ticks, because the best of sixteen is good by chance alone.

/// The maximum number of places in a trial, including the original place.
pub(super) const PLACES_MAX: usize = 17;
/// Rounds between the best place and the original one.
pub(super) const FINALS: usize = 5;
/// A tick counts for at most this many periods, because a pause of the machine has nothing to do with the place.
const LONGEST: f64 = 1.5;

/// A place for ticks: how much later than a point of the grid the ticks are due.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset_ns: f64,
    sum_ns: f64,
    ticks: u32,
}

impl Place {
    fn mean_ns(&self) -> f64 {
        if self.ticks == 0 { f64::INFINITY } else { self.sum_ns / f64::from(self.ticks) }
    }
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The original place of the ticks.
    pub(super) came_from_ns: f64,
    /// The best of all other places.
    pub(super) best_ns: f64,
    /// The time from due to done, in nanoseconds, as the median of means: first at the original place, then at the best place.
    pub(super) before_ns: f64,
    pub(super) after_ns: f64,
    /// How many of the last rounds the best place won.
    pub(super) won: usize,
}

/// The state of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    places: [Place; PLACES_MAX],
    count: usize,
    /// How many ticks run at a place before the trial moves on. The first tick after a move does not count.
    turn_ticks: u32,
    longest_ns: f64,
    at: usize,
    /// How many ticks have ended at this place since the last move.
    done: u32,
    goes_back: bool,
    finals: Option<Finals>,
    /// A place replaces the first place after the original only if its mean is below that place's mean times this factor.
    gain: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Finals {
    round: usize,
    /// The mean of each round: first at the original place, then at the best place.
    means_ns: [[f64; FINALS]; 2],
}

impl Trial {
    /// A trial of `came_from_ns` against each of `others`, at most sixteen of them. At least one tick counts each time.
    pub(super) fn new(
        came_from_ns: f64,
        others: impl Iterator<Item = f64>,
        turn_ticks: u32,
        period_ns: u64,
    ) -> Option<Trial> {
        let mut places = [Place::default(); PLACES_MAX];
        places[0].offset_ns = came_from_ns;
        let mut count = 1;
        for (place, offset_ns) in places[1..].iter_mut().zip(others) {
            place.offset_ns = offset_ns;
            count += 1;
        }
        let longest_ns = LONGEST * period_ns as f64;
        let trial = Trial {
            places,
            count,
            turn_ticks: turn_ticks.max(2),
            longest_ns,
            at: 0,
            done: 0,
            goes_back: false,
            finals: None,
            gain: 1.0,
        };
        (count > 1).then(|| trial.unless_two())
    }

    /// Earlier evidence shows that the first of the other places is the best. To replace it, another place must beat it by this factor.
    /// A few ticks do not show the cost of a place that is bad once in twenty ticks.
    pub(super) fn prefers_first(self, gain: f64) -> Trial {
        debug_assert!(self.count <= 3, "with more than two other places, the first one does not stay first");
        Trial { gain, ..self }
    }

    fn unless_two(self) -> Trial {
        let finals = (self.count == 2).then(Finals::default);
        Trial { finals, ..self }
    }

    /// The offset at which the next tick should be due.
    pub(super) fn offset_ns(&self) -> f64 {
        self.places[self.at].offset_ns
    }

    /// Records how long a tick at the current place took from due to done. Returns the verdict if the trial has ended.
    pub(super) fn ticked(&mut self, due_to_done_ns: u64) -> Option<Verdict> {
        self.done += 1;
        let place = &mut self.places[self.at];
        if self.done > 1 {
            place.sum_ns += (due_to_done_ns as f64).min(self.longest_ns);
            place.ticks += 1;
        }
        if self.done <= self.turn_ticks {
            return None;
        }
        self.done = 0;
        self.at += 1;
        if self.at < self.count {
            return None;
        }
        self.at = 0;
        match self.finals {
            None => {
                self.halve();
                None
            }
            Some(finals) => self.round(finals),
        }
    }

    /// Keeps the better half of the places, and the original place.
    fn halve(&mut self) {
        let gain = self.gain;
        let others = &mut self.places[1..self.count];
        if let Some(first) = others.first_mut() {
            first.sum_ns *= gain;
        }
        others.sort_unstable_by(|one, other| one.mean_ns().total_cmp(&other.mean_ns()));
        let left = (self.count - 1).div_ceil(2);
        // The trial tries the places in order of time, forwards and then backwards.
        // So neighbours are a short move apart, and all moves together add up to zero.
        self.goes_back = !self.goes_back;
        let goes_back = self.goes_back;
        self.places[1..=left].sort_unstable_by(|one, other| {
            let order = one.offset_ns.total_cmp(&other.offset_ns);
            if goes_back { order.reverse() } else { order }
        });
        self.count = left + 1;
        if left == 1 {
            self.finals = Some(Finals::default());
            for place in &mut self.places {
                *place = Place { offset_ns: place.offset_ns, ..Place::default() };
            }
        }
    }

    fn round(&mut self, mut finals: Finals) -> Option<Verdict> {
        for (place, means_ns) in self.places.iter_mut().zip(&mut finals.means_ns) {
            means_ns[finals.round] = place.mean_ns();
            *place = Place { offset_ns: place.offset_ns, ..Place::default() };
        }
        finals.round += 1;
        self.finals = Some(finals);
        if finals.round < FINALS {
            return None;
        }
        let [mut before_ns, mut after_ns] = finals.means_ns;
        let won = before_ns.iter().zip(&after_ns).filter(|(before, after)| after < before).count();
        before_ns.sort_unstable_by(f64::total_cmp);
        after_ns.sort_unstable_by(f64::total_cmp);
        Some(Verdict {
            came_from_ns: self.places[0].offset_ns,
            best_ns: self.places[1].offset_ns,
            before_ns: before_ns[FINALS / 2],
            after_ns: after_ns[FINALS / 2],
            won,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(mut trial: Trial, cost: impl Fn(f64) -> f64) -> (Verdict, u32) {
        for ticks in 1..2000 {
            if let Some(verdict) = trial.ticked(cost(trial.offset_ns()) as u64) {
                return (verdict, ticks);
            }
        }
        panic!("a trial that never ends");
    }

    #[test]
    fn the_soonest_place_wins() {
        let steps = || (0..16).map(|at| f64::from(at) * 1e6);
        let valley = |offset: f64| 4e6 + (offset - 9e6).abs();
        let (verdict, ticks) = run(Trial::new(3e6, steps(), 6, 20_000_000).unwrap(), valley);
        assert_eq!((verdict.came_from_ns, verdict.best_ns, verdict.won), (3e6, 9e6, FINALS));
        assert_eq!((verdict.before_ns, verdict.after_ns), (10e6, 4e6));
        assert!(ticks < 340, "{ticks}");
        let (verdict, ticks) = run(Trial::new(9e6, [5e4].into_iter(), 6, 20_000_000).unwrap(), valley);
        assert_eq!((verdict.best_ns, verdict.won, ticks), (5e4, 0, 70));
        assert!(Trial::new(1.0, std::iter::empty(), 6, 20_000_000).is_none());
    }

    /// One place is 2 % slower but known to be safe. Nothing is known about the other place.
    #[test]
    fn a_safe_place_is_left_only_for_a_clear_gain() {
        let won = |other: f64| {
            let trial = Trial::new(9e6, [1e6, 2e6].into_iter(), 6, 20_000_000).unwrap().prefers_first(0.97);
            run(trial, |offset| if offset == 2e6 { other } else { 4e6 }).0.best_ns
        };
        assert_eq!([won(3.9e6), won(3.8e6), won(4.1e6)], [1e6, 2e6, 1e6]);
    }

    proptest! {
        #[test]
        fn every_trial_ends(count in 1_usize..40, turn in 0_u32..20, cost in 0.0..1e12_f64) {
            let others = (0..count).map(|at| at as f64 * 1e5);
            let (_, ticks) = run(Trial::new(0.0, others, turn, 10_000_000).unwrap(), |_| cost);
            prop_assert!(ticks < 1500);
        }
    }
}
