//! `pacing`: whether ticks come at fixed times, or each tick a period after the previous one. Both kinds look alike for a second or two.
//! Over longer stretches, a loop at fixed times stays near its grid, while a chained loop drifts away from any grid.
//! In a chained loop, a delay of one tick delays all later ticks.
//!
//! | property | at fixed times | chained |
//! |---|---|---|
//! | spread of the time over m ticks, relative to the spread over one tick | the same | grows with the square root of m |
//! | an interval after a longer one | shorter | independent of the longer one |
//! | the interval after a long tick, if the wait begins when the tick is done | unchanged | longer by as much |
//! | the period | often a whole number of milliseconds, or whole ticks per second, to some millionths | longer than requested by the cost of a timer |

use evenkeel_stats::{median, median_absolute_deviation, quantile};
use serde::Serialize;

/// How the times of ticks are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// Ticks come at multiples of the period. A late tick does not move the others.
    #[serde(rename = "kept")]
    FixedTimes,
    /// Each tick comes a period after the previous tick, even if the previous tick was late.
    #[serde(rename = "walks")]
    Chained,
    /// There are too few ticks to decide.
    Unknown,
}

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickTime {
    /// The tick's number.
    pub number: u64,
    /// When the tick began, in nanoseconds.
    pub start_ns: u64,
    /// When the tick was done, in nanoseconds.
    pub end_ns: u64,
}

/// The minimum number of ticks.
const TICKS_MIN: usize = 24;
/// The length of the examined stretches in ticks. With few ticks, the stretches are shorter.
const STRETCH_MAX: usize = 12;
const STRETCH_MIN: usize = 4;
/// The exponent of the spread's growth with the length of the stretch.
/// The exponent is at most the first value at fixed times, and at least the second value for chained ticks.
/// In the long run the exponent is 0 or 0.5, but a sample of some dozens is not that exact.
const SET_TIMES_MAX: f64 = 0.2;
const SET_TIMES_MAX_OF_FEW: f64 = 0.08;
const MANY: usize = 100;
const CHAINED_MIN: f64 = 0.27;
/// The correlation of an interval with the previous interval:
/// at most the first value at fixed times, at least the second value for chained ticks.
const MADE_UP_FOR: [f64; 2] = [-0.3, -0.2];
/// The deviation of an interval is limited to this many times the usual spread.
const OFF_MAX: f64 = 6.0;
/// Above this growth, no further evidence is needed.
const CHAINED_CLEAR: f64 = 0.4;
/// A tick is long if it exceeds the others by this many times the usual spread of intervals. Then its effect on the next tick is visible.
const LONG_MIN: f64 = 4.0;
const LONG_TICKS_MIN: usize = 5;
/// If the next interval grows by this share of the excess, the wait begins when the tick is done.
const PUSHED_MIN: f64 = 0.7;
/// A round period is this close to a round number, as a share and in nanoseconds.
/// A loop that adds the cost of a timer to its sleep (50 us or more) is not that close.
const ROUND_OFF_MAX: f64 = 300e-6;
const ROUND_OFF_NS_MAX: f64 = 15_000.0;

/// The evidence for fixed times or for chained ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The exponent of the spread's growth with a stretch's length: 0 at fixed times, 0.5 for chained ticks.
    pub growth: f64,
    /// The correlation of an interval with the previous interval.
    /// The correlation is -0.5 at fixed times, where a late tick makes the next interval shorter, and 0 for chained ticks.
    pub correlation: f64,
    /// The share of a long tick's excess by which the next tick is delayed. None if no tick was long.
    pub pushed: Option<f64>,
    /// Whether the period is round.
    pub is_round: bool,
}

/// How the times of these ticks are related. The ticks are in order.
pub fn pacing(ticks: &[TickTime]) -> Pacing {
    let Some(Evidence { growth, correlation, pushed, is_round }) = evidence(ticks) else { return Pacing::Unknown };
    let set_times_max = if ticks.len() < MANY { SET_TIMES_MAX_OF_FEW } else { SET_TIMES_MAX };
    match (growth, pushed) {
        (_, Some(share)) if share >= PUSHED_MIN && !is_round => Pacing::Chained,
        (growth, _) if is_round && (growth < CHAINED_CLEAR || correlation <= MADE_UP_FOR[1]) => Pacing::FixedTimes,
        (growth, _) if growth <= set_times_max && correlation <= MADE_UP_FOR[0] => Pacing::FixedTimes,
        (growth, _) if growth >= CHAINED_MIN && correlation >= MADE_UP_FOR[1] && !is_round => Pacing::Chained,
        _ => Pacing::Unknown,
    }
}

/// The evidence for how the ticks' times are related. None with too few ticks.
pub fn evidence(ticks: &[TickTime]) -> Option<Evidence> {
    let period_ns = period(ticks).filter(|_| ticks.len() >= TICKS_MIN)?;
    let stretch = (ticks.len() / 6).clamp(STRETCH_MIN, STRETCH_MAX);
    let (one_ns, many_ns) = (spread(ticks, 1, period_ns)?, spread(ticks, stretch, period_ns)?);
    let growth = (many_ns.max(1.0) / one_ns.max(1.0)).ln() / (stretch as f64).ln();
    let correlation = correlation(ticks, period_ns, one_ns);
    // An imprecise period is near some round value by chance.
    let known_to_ns = many_ns / (ticks.len() as f64 / 2.0);
    let is_round = is_round(period_ns, known_to_ns);
    Some(Evidence { growth, correlation, pushed: pushed(ticks, period_ns, one_ns), is_round })
}

/// The mean time from a tick to the next, from pairs that are half of all ticks apart.
fn period(ticks: &[TickTime]) -> Option<f64> {
    let apart = (ticks.len() / 2).max(1);
    let pairs = ticks.iter().zip(ticks.get(apart..)?).filter(|(one, other)| other.number > one.number);
    let slopes = pairs
        .map(|(one, other)| other.start_ns.saturating_sub(one.start_ns) as f64 / (other.number - one.number) as f64);
    median(&slopes.collect::<Vec<_>>()).filter(|period_ns| *period_ns > 0.0)
}

/// How far the time over this many ticks deviates from the expected time: the median absolute deviation.
fn spread(ticks: &[TickTime], over: usize, period_ns: f64) -> Option<f64> {
    let pairs = ticks.iter().zip(ticks.get(over..)?);
    let whole = pairs.filter(|(one, other)| other.number.checked_sub(one.number) == Some(over as u64));
    let off: Vec<f64> = whole
        .map(|(one, other)| other.start_ns.saturating_sub(one.start_ns) as f64 - over as f64 * period_ns)
        .collect();
    median_absolute_deviation(&off).filter(|_| off.len() >= TICKS_MIN / 2)
}

/// See [`Evidence::correlation`].
fn correlation(ticks: &[TickTime], period_ns: f64, spread_ns: f64) -> f64 {
    let most_ns = OFF_MAX * spread_ns.max(1.0);
    let off = |pair: &[TickTime]| match pair {
        [one, next] if next.number == one.number + 1 => {
            let off_ns = next.start_ns.saturating_sub(one.start_ns) as f64 - period_ns;
            Some(off_ns.clamp(-most_ns, most_ns))
        }
        _ => None,
    };
    let (mut product, mut square) = (0.0, 0.0);
    for three in ticks.windows(3) {
        if let (Some(one), Some(next)) = (off(&three[..2]), off(&three[1..])) {
            product += one * next;
            square += (one * one + next * next) / 2.0;
        }
    }
    if square > 0.0 { product / square } else { 0.0 }
}

/// See [`Evidence::pushed`].
fn pushed(ticks: &[TickTime], period_ns: f64, spread_ns: f64) -> Option<f64> {
    let took: Vec<f64> = ticks.iter().map(|tick| tick.end_ns.saturating_sub(tick.start_ns) as f64).collect();
    let usual_ns = median(&took)?;
    let long_ns = usual_ns + (LONG_MIN * spread_ns).max(0.002 * period_ns);
    // In any server, a tick that took most of a period delays the next tick.
    let too_long_ns = (0.7 * period_ns).min(quantile(&took, 0.5)? + 0.5 * period_ns);
    let mut shares = Vec::new();
    for (at, pair) in ticks.windows(2).enumerate() {
        let excess_ns = took[at] - usual_ns;
        if took[at] > long_ns && took[at] < too_long_ns && pair[1].number == pair[0].number + 1 {
            let later_ns = pair[1].start_ns.saturating_sub(pair[0].start_ns) as f64 - period_ns;
            shares.push(later_ns / excess_ns);
        }
    }
    median(&shares).filter(|_| shares.len() >= LONG_TICKS_MIN)
}

/// Whether the period is a whole number of milliseconds, or a second contains a whole number of periods.
fn is_round(period_ns: f64, known_to_ns: f64) -> bool {
    let off_max = ROUND_OFF_MAX.min(ROUND_OFF_NS_MAX / period_ns);
    if known_to_ns / period_ns > off_max {
        return false;
    }
    let near = |value: f64| value.round() >= 1.0 && (value / value.round() - 1.0).abs() <= off_max;
    near(period_ns / 1e6) || near(1e9 / period_ns)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// A simulated loop: its period, the lateness of a wake, its work, and the reference of the next wake.
    #[derive(Clone, Copy)]
    struct Loop {
        period_ns: f64,
        late_ns: f64,
        work_ns: f64,
        after: After,
    }

    #[derive(Clone, Copy)]
    enum After {
        Due,
        Begin,
        End,
    }

    impl Loop {
        fn ticks(self, count: usize, seed: u64) -> Vec<TickTime> {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut exponential = |mean: f64| -f64::ln(1.0 - random.random::<f64>()) * mean;
            let mut due = 1e9;
            let mut ticks = Vec::new();
            for number in 0..count as u64 {
                let start = due + 55_000.0 + exponential(self.late_ns);
                let end = start + self.work_ns * (0.7 + exponential(0.3));
                ticks.push(TickTime { number, start_ns: start as u64, end_ns: end as u64 });
                due = self.period_ns
                    + match self.after {
                        After::Due => due,
                        After::Begin => start,
                        After::End => end,
                    };
            }
            ticks
        }
    }

    #[test]
    fn both_kinds_are_known_and_never_taken_for_each_other() {
        let base = Loop { period_ns: 33.0e6, late_ns: 20e3, work_ns: 2e6, after: After::Due };
        let table = [
            ("at set times", base, Pacing::FixedTimes),
            ("a period after the beginning", Loop { after: After::Begin, ..base }, Pacing::Chained),
            ("a sleep after the end", Loop { after: After::End, ..base }, Pacing::Chained),
            ("hardly any work, after the end", Loop { after: After::End, work_ns: 10e3, ..base }, Pacing::Chained),
            ("late ones, at set times", Loop { late_ns: 2e6, ..base }, Pacing::FixedTimes),
            ("late ones, chained", Loop { late_ns: 2e6, after: After::Begin, ..base }, Pacing::Chained),
            ("an odd period, at set times", Loop { period_ns: 33.337e6, ..base }, Pacing::FixedTimes),
        ];
        for (name, server, expected) in table {
            for (count, least) in [(60, 14), (240, 19)] {
                let said: Vec<Pacing> = (0..20).map(|seed| pacing(&server.ticks(count, seed))).collect();
                let right = said.iter().filter(|said| **said == expected).count();
                let wrong = said.iter().filter(|said| **said != expected && **said != Pacing::Unknown).count();
                assert!(right >= least && wrong <= 1, "{name}, {count} ticks: {right} right, {wrong} wrong");
            }
        }
    }

    #[test]
    fn few_ticks_decide_nothing() {
        let server = Loop { period_ns: 50e6, late_ns: 20e3, work_ns: 1e6, after: After::Due };
        assert_eq!(pacing(&server.ticks(TICKS_MIN - 1, 1)), Pacing::Unknown);
        assert_eq!(pacing(&[]), Pacing::Unknown);
    }
}
