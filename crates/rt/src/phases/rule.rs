//! The rule by which sessions spread their ticks: each session moves its own phase a little, away from all others. Nobody directs them.
//! The rule is a pure function: from the state of the sessions it computes a shift.
//!
//! The ticks of sessions with one period lie on a circle, whose length is that period. Each session pushes each other session away.
//! The push is half the circle if their ticks coincide, zero if they are half a circle apart, and linear between.
//! The work of the ticks weights the pushes. For each order on the circle, one arrangement balances the pushes.
//! In that arrangement, every tick has a share of the circle in proportion to its weight, as with DESYNC.
//! DESYNC moves each tick towards the midpoint of its two neighbours, so a change spreads like heat.
//! With DESYNC, settling takes a time that grows with the square of the number of sessions.
//! Here each session sees all others, so the balance of the pushes gives its distance to the goal at once.
//! All sessions move straight to their goals and arrive together, because speed is proportional to distance. No session overtakes another.
//!
//! Sessions with another period join if the ratio of the periods is one of small whole numbers.
//! Ticks of 20 ms and of 30 ms meet at distances that differ by multiples of 10 ms. So the circle of this pair has 10 ms.
//! The push counts once for each time that the circle fits into the period.
//! If the ratio has larger numbers, ticks meet at all distances: no phase is better, so the rule ignores such sessions.

use std::cmp::Ordering;

/// The maximum shift of a tick is its period divided by this number. Players do not notice it.
pub(super) const SHIFT_PARTS: u64 = 2000;
/// The maximum number of neighbours that count.
pub(super) const NEIGHBOURS_MAX: usize = 256;
/// A session has settled when its distance to the goal is at most its period divided by this number.
const SETTLED_PARTS: u64 = 200;
/// Near the goal, a tick moves by at most this part of the distance, because a session sees slightly old data of others.
const NEAR: f64 = 1.0 / 32.0;
/// If two ticks are within this part of a period, the numbers of their sessions decide the order.
const CLOSE: f64 = 1.0 / 1000.0;
/// The largest number in a ratio of periods. The next value says how exact the ratio must be: a shift corrects five times as much drift.
const RATIO_MAX: u64 = 8;
const RATIO_PARTS: u64 = 10_000;
/// Work counts up to the period divided by this number, so one session with a wrong figure cannot claim the circle.
const WORK_PARTS: u64 = 4;
/// A session's weight is its work plus the mean work of all sessions.
/// The weight is at least the period divided by this number, so that idle sessions have a share too.
const WEIGHT_PARTS: f64 = 1000.0;
/// How many phases for its first tick a new session compares.
const STARTS: u64 = 512;

/// The ticks of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// The session's number. No two sessions have the same number, so numbers order sessions whose ticks coincide.
    pub(super) id: u64,
    /// From one tick to the next.
    pub(super) period_ns: u64,
    /// When one of the session's ticks is due, by the clock that all sessions share.
    pub(super) due_ns: u64,
    /// How long a tick works, as a smoothed average.
    pub(super) work_ns: u64,
    /// Whether the session keeps its phase, whatever others do.
    pub(super) is_fixed: bool,
}

/// The plan of a session until it looks at the others again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The distance to the session's goal. Positive means later.
    pub(super) distance_ns: i64,
    /// The shift of each tick until the session looks again: at most the period divided by [`SHIFT_PARTS`].
    pub(super) shift_ns: i64,
    /// The number of sessions that the plan takes into account.
    pub(super) neighbours: u32,
}

impl Step {
    /// Whether the session has arrived at its goal, within the period divided by [`SETTLED_PARTS`].
    pub(super) fn is_settled(&self, period_ns: u64) -> bool {
        self.distance_ns.unsigned_abs() <= period_ns / SETTLED_PARTS
    }
}

/// The ratio of a session's period to another session's, in lowest terms.
/// The circle of the pair fits `numerator` times into the session's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    const ONE: Ratio = Ratio { numerator: 1, denominator: 1 };

    /// Returns `None` if the ratio needs a number above [`RATIO_MAX`].
    fn between(mine_ns: u64, theirs_ns: u64) -> Option<Ratio> {
        let (mine, theirs) = (u128::from(mine_ns), u128::from(theirs_ns));
        (1..=u128::from(RATIO_MAX)).find_map(|denominator| {
            let numerator = (mine * denominator + theirs / 2).checked_div(theirs)?;
            let is_near =
                (mine * denominator).abs_diff(theirs * numerator) * u128::from(RATIO_PARTS) <= mine * denominator;
            let ratio = Ratio { numerator: u64::try_from(numerator).ok()?, denominator: denominator as u64 };
            (is_near && (1..=RATIO_MAX).contains(&ratio.numerator)).then_some(ratio)
        })
    }

    /// How many ticks the other session has in one period of this session.
    fn per_period(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// A neighbour as one session sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    ratio: Ratio,
    /// The distance on the circle of the pair from the middle of the session's own work to the middle of the neighbour's work.
    after_ns: f64,
    work_ns: f64,
    id: u64,
    is_fixed: bool,
}

/// The neighbours that matter to a session, and the session itself.
struct View {
    seen: [Seen; NEIGHBOURS_MAX + 1],
    many: usize,
}

impl View {
    fn new(me: &Ticks, neighbours: &[Ticks]) -> View {
        let own =
            Seen { ratio: Ratio::ONE, after_ns: 0.0, work_ns: work_ns(me) as f64, id: me.id, is_fixed: me.is_fixed };
        let mut view = View { seen: [own; NEIGHBOURS_MAX + 1], many: 1 };
        let others = neighbours.iter().filter(|other| other.id != me.id && other.period_ns > 0);
        for (other, ratio) in others.filter_map(|other| Some((other, Ratio::between(me.period_ns, other.period_ns)?))) {
            let Some(place) = view.seen.get_mut(view.many) else { break };
            let circle_ns = i128::from((me.period_ns / ratio.numerator).max(1));
            let middle = |ticks: &Ticks| i128::from(ticks.due_ns) + i128::from(work_ns(ticks) / 2);
            let after_ns = (middle(other) - middle(me)).rem_euclid(circle_ns) as f64;
            let work_ns = work_ns(other) as f64;
            *place = Seen { ratio, after_ns, work_ns, id: other.id, is_fixed: other.is_fixed };
            view.many += 1;
        }
        view
    }

    fn seen(&self) -> &[Seen] {
        &self.seen[..self.many]
    }

    /// Sorts the neighbours with the session's own period to the front, in circle order. Returns their number.
    fn sort(&mut self) -> usize {
        let seen = &mut self.seen[..self.many];
        let is_other = |one: &Seen| one.ratio != Ratio::ONE;
        seen.sort_unstable_by(|one, other| {
            let places = one.after_ns.partial_cmp(&other.after_ns).unwrap_or(Ordering::Equal);
            is_other(one).cmp(&is_other(other)).then(places).then(one.id.cmp(&other.id))
        });
        seen.iter().take_while(|one| !is_other(one)).count()
    }
}

/// Plans the shift of a session from its knowledge of the others. At most [`NEIGHBOURS_MAX`] of them count.
pub(super) fn step(me: &Ticks, neighbours: &[Ticks]) -> Step {
    let mut view = View::new(me, neighbours);
    if view.many == 1 || me.period_ns == 0 {
        return Step::default();
    }
    let neighbours = (view.many - 1) as u32;
    let period_ns = me.period_ns as f64;
    let of_one_period = view.sort();
    let (same, others) = view.seen().split_at(of_one_period);
    let mean_ns =
        (view.seen().iter().map(|one| one.work_ns).sum::<f64>() / view.many as f64).max(period_ns / WEIGHT_PARTS);
    let weight = |one: &Seen| one.work_ns + mean_ns;
    // The pushes on this session from sessions with other periods.
    let mut foreign = 0.0;
    let mut all: f64 = same.iter().map(weight).sum();
    for one in others {
        let half_ns = period_ns / one.ratio.numerator as f64 / 2.0;
        let share = weight(one) * one.ratio.per_period();
        let push_ns = if one.after_ns == 0.0 && one.id < me.id { half_ns } else { one.after_ns - half_ns };
        foreign += share * push_ns;
        all += share;
    }
    // Two sessions of one period push each other with equal force, so sums along the circle give their distances.
    let middle: f64 = same.iter().map(|one| weight(one) * one.after_ns).sum();
    let total: f64 = same.iter().map(weight).sum();
    let (mut before, mut own_ns, mut farthest_ns) = (0.0, 0.0, 0.0_f64);
    for one in same {
        let after = total - before - weight(one);
        let push = middle - total * one.after_ns + period_ns / 2.0 * (before - after);
        before += weight(one);
        if one.id == me.id {
            own_ns = (push + foreign) / all;
        } else if !one.is_fixed {
            farthest_ns = farthest_ns.max((push / all).abs());
        }
    }
    let turned: f64 = same.iter().map(|one| weight(one) * turned_ns(me, one)).sum();
    own_ns += turned / all;
    farthest_ns = farthest_ns.max(own_ns.abs());
    let fastest_ns = me.period_ns.div_ceil(SHIFT_PARTS).min(me.period_ns) as i64;
    let part = if farthest_ns > 0.0 { (fastest_ns as f64 / farthest_ns).min(NEAR) } else { 0.0 };
    let shift_ns = if me.is_fixed { 0 } else { ((own_ns * part) as i64).clamp(-fastest_ns, fastest_ns) };
    Step { distance_ns: own_ns as i64, shift_ns, neighbours }
}

/// How a neighbour's push changes if session numbers, not phases, decide which of two ticks is first.
/// Within a few shifts, each of two sessions may see itself first, because its view is slightly old.
/// Without this change, both sessions would head for the same phase.
fn turned_ns(me: &Ticks, one: &Seen) -> f64 {
    let period_ns = me.period_ns as f64;
    let close_ns = CLOSE * period_ns;
    match one.id.cmp(&me.id) {
        // By the phases the neighbour is right behind, and by the numbers it should be ahead, or the reverse.
        Ordering::Less if one.after_ns > 0.0 && one.after_ns < close_ns => period_ns,
        Ordering::Greater if one.after_ns > period_ns - close_ns => -period_ns,
        _ => 0.0,
    }
}

/// The delay of a new session's first tick, before any player is there: to the middle of the largest gap. Less than a period.
pub(super) fn start(me: &Ticks, neighbours: &[Ticks]) -> u64 {
    let view = View::new(me, neighbours);
    let others = || view.seen().iter().filter(|one| one.id != me.id);
    if view.many == 1 {
        return 0;
    }
    // The idle time between this session's work and the next work on either side.
    let clearance = |shift_ns: f64| {
        others().fold(f64::INFINITY, |least, one| {
            let circle_ns = me.period_ns as f64 / one.ratio.numerator as f64;
            let away_ns = (one.after_ns - shift_ns).rem_euclid(circle_ns);
            let middles_ns = away_ns.min(circle_ns - away_ns);
            least.min(middles_ns - (one.work_ns + work_ns(me) as f64) / 2.0)
        })
    };
    let at = |start: u64| (u128::from(me.period_ns) * u128::from(start) / u128::from(STARTS)) as u64;
    let best = (0..STARTS).map(at).max_by(|one, other| {
        let order = clearance(*one as f64).partial_cmp(&clearance(*other as f64)).unwrap_or(Ordering::Equal);
        // If several shifts are equally good, take the first one.
        order.then(other.cmp(one))
    });
    best.unwrap_or_default()
}

fn work_ns(ticks: &Ticks) -> u64 {
    ticks.work_ns.min(ticks.period_ns / WORK_PARTS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticks(id: u64, due_ns: u64) -> Ticks {
        Ticks { id, period_ns: 20_000_000, due_ns, work_ns: 1_000_000, is_fixed: false }
    }

    #[test]
    fn periods_meet_on_a_common_circle() {
        let table = [
            (20, 20, Some((1, 1))),
            (20, 10, Some((2, 1))),
            (10, 20, Some((1, 2))),
            (20, 30, Some((2, 3))),
            (50, 30, Some((5, 3))),
            (20, 200, None),
            (20, 0, None),
            (0, 20, None),
            (1_000_000_000, 1_618_033_989, None),
            (33_333_333, 16_666_667, Some((2, 1))),
            (u64::MAX, u64::MAX, Some((1, 1))),
        ];
        for (mine, theirs, expected) in table {
            let ratio = Ratio::between(mine, theirs);
            assert_eq!(ratio.map(|ratio| (ratio.numerator, ratio.denominator)), expected, "{mine} and {theirs}");
        }
    }

    #[test]
    fn two_sessions_move_half_a_period_apart() {
        let (one, other) = (ticks(1, 100_000_000), ticks(2, 101_000_000));
        let (first, second) = (step(&one, &[other]), step(&other, &[one]));
        assert_eq!((first.distance_ns, second.distance_ns), (-4_500_000, 4_500_000));
        assert_eq!((first.shift_ns, second.shift_ns), (-10_000, 10_000), "a two-thousandth of the period");
        let far = ticks(2, 110_000_000);
        assert_eq!(step(&one, &[far]), Step { distance_ns: 0, shift_ns: 0, neighbours: 1 });
        assert!(step(&one, &[far]).is_settled(20_000_000) && !first.is_settled(20_000_000));
    }

    #[test]
    fn a_single_or_fixed_session_does_not_move() {
        let one = ticks(1, 5);
        let odd = Ticks { period_ns: 7_777_777, ..ticks(2, 5) };
        for neighbours in [&[][..], &[one], &[odd], &[Ticks { period_ns: 0, ..ticks(2, 5) }]] {
            assert_eq!(step(&one, neighbours), Step::default(), "{neighbours:?}");
            assert_eq!(start(&one, neighbours), 0);
        }
        let fixed = Ticks { is_fixed: true, ..one };
        assert_eq!(step(&fixed, &[ticks(2, 6)]).shift_ns, 0);
    }

    #[test]
    fn ticks_that_coincide_part_by_their_numbers() {
        let sessions: Vec<Ticks> = (1..=5).map(|id| ticks(id, 7)).collect();
        let distances: Vec<i64> = sessions.iter().map(|me| step(me, &sessions).distance_ns).collect();
        assert_eq!(distances, [-8_000_000, -4_000_000, 0, 4_000_000, 8_000_000]);
        let faster = Ticks { period_ns: 10_000_000, ..ticks(9, 7) };
        let (one, other) = (step(&sessions[0], &[faster]), step(&faster, &[sessions[0]]));
        assert!(one.distance_ns < 0 && other.distance_ns > 0, "{one:?} {other:?}");
    }

    #[test]
    fn more_work_gets_more_room() {
        let heavy = Ticks { work_ns: 4_000_000, ..ticks(1, 0) };
        // The weights are 4 + 2, 1 + 2 and 1 + 2 of 12. So the heavy session gets half the circle. The middle of its work is 2 ms after its due time.
        let sessions = [heavy, ticks(2, 9_000_000), ticks(3, 14_000_000)];
        for me in &sessions {
            assert_eq!(step(me, &sessions).distance_ns, 0, "{me:?}");
        }
        let greedy = Ticks { work_ns: u64::MAX, ..heavy };
        let least = sessions[1..].iter().map(|me| step(me, &[greedy, sessions[1], sessions[2]]).distance_ns.abs());
        assert!(least.max() < Some(5_000_000), "a wrong figure counts as a quarter of the period");
    }

    #[test]
    fn a_new_session_starts_in_the_largest_gap() {
        let others = [ticks(1, 0), ticks(2, 4_000_000), ticks(3, 8_000_000)];
        assert!(start(&ticks(9, 40_000_000), &others).abs_diff(14_000_000) < 80_000);
        let halves = [Ticks { period_ns: 10_000_000, ..ticks(1, 0) }];
        assert!(start(&ticks(9, 0), &halves).abs_diff(5_000_000) < 80_000, "between ticks that come twice as often");
    }

    proptest! {
        #[test]
        fn no_neighbour_can_ask_for_more_than_the_most(
            own: [u64; 3], theirs in prop::collection::vec(any::<[u64; 4]>(), 0..300), fixed: bool,
        ) {
            let me = Ticks { id: own[0], period_ns: own[1], due_ns: own[2], work_ns: own[0], is_fixed: false };
            let neighbours: Vec<Ticks> = theirs
                .iter()
                .map(|[id, period_ns, due_ns, work_ns]| Ticks {
                    id: id % 8,
                    // Half of the neighbours have this session's period.
                    period_ns: if id % 2 == 0 { me.period_ns } else { *period_ns },
                    due_ns: *due_ns,
                    work_ns: *work_ns,
                    is_fixed: fixed,
                })
                .collect();
            let step = step(&me, &neighbours);
            prop_assert!(step.shift_ns.unsigned_abs() <= me.period_ns.div_ceil(SHIFT_PARTS), "{step:?}");
            prop_assert!(step.neighbours as usize <= NEIGHBOURS_MAX);
            prop_assert!(start(&me, &neighbours[..neighbours.len().min(20)]) < me.period_ns.max(1));
        }
    }
}
