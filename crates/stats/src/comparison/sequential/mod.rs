//! A sequential test: it may be evaluated after every pair and stopped at any time.

mod bets;

use serde::Serialize;

use crate::comparison::compare::{Options, Pair, check_options, log_ratio};
use crate::comparison::error::StatsError;
use crate::comparison::limits::MAX_PAIRS;
use crate::comparison::verdict::{Direction, Verdict};
use crate::comparison::walsh::WalshAverages;
use bets::{MOST_DEVIATIONS, Wealth, scale_of};

/// How often the range that holds an end of the interval is halved.
/// 2^-50 of that range is below the precision of these doubles.
const HALVINGS: usize = 50;

/// A comparison that may be evaluated after every pair.
/// You may look a hundred times and stop as soon as the answer suffices: the error rate stays within [`Options::confidence`].
///
/// Measure the pairs in the order of a [`PairDesign`](crate::PairDesign). The error bound relies only on that random order.
/// The noise may be autocorrelated, drift, come in bursts, or have tails without a mean.
///
/// The test bets on every pair at fair odds. One side bets that B's number is larger, the other side bets that it is smaller.
/// If B has no effect, the random order decides each bet, and the wealth grows only by luck.
/// So a wealth of 1 / (1 - confidence) means that B has an effect.
/// The test bets the same way against every ratio. The interval holds the ratios against which neither side reached that wealth.
///
/// ```
/// use evenkeel_stats::{Direction, Options, Pair, Sequential, Verdict};
///
/// let mut test = Sequential::new(Options::new(Direction::Lower))?;
/// let mut pairs = 0;
/// while test.verdict() == Verdict::Undecided {
///     // The machine gets slower, and B takes a tenth less.
///     let wake_latency_us_p99 = 80.0 + f64::from(pairs);
///     test.add(Pair { a: wake_latency_us_p99, b: 0.9 * wake_latency_us_p99 })?;
///     pairs += 1;
/// }
/// let look = test.look();
/// assert_eq!((look.verdict, look.decided, pairs), (Verdict::Better, true, 7));
/// assert!(look.low <= 0.9 && 0.9 <= look.high && look.high < 1.0);
/// # Ok::<(), evenkeel_stats::StatsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sequential {
    options: Options,
    /// ln(b / a) of every pair, in the order measured.
    log_ratios: Vec<f64>,
    /// The log ratios in rising order.
    rising: Vec<f64>,
    /// For each pair, the scale of the pairs before it.
    scales: Vec<Option<f64>>,
    /// The three effects that decide the verdict.
    none: Asked,
    line_below: Asked,
    line_above: Asked,
}

/// The result so far. Ratios are b / a: below 1, B's number is lower.
///
/// In JSON an infinite `high` or `smallest_visible_ratio` is `null`, and so is the `ratio` without pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// How many pairs were added.
    pub pairs: usize,
    /// The current e-value of "B has no effect", for the better of the two directions. Each direction started with one half.
    /// At 1 / (1 - confidence), which is 20 for 0.95, the test claims an effect.
    /// If B has no effect, the mean of the e-value is at most 1, even at a freely chosen moment.
    /// So the e-value may be passed to [`e_benjamini_hochberg`](crate::e_benjamini_hochberg).
    pub e_value: f64,
    /// Hodges–Lehmann estimate of the ratio b / a. Not a number before the first pair.
    pub ratio: f64,
    /// Lower end of the interval for the ratio; 0 before the pairs bound it.
    pub low: f64,
    /// Upper end of the interval for the ratio; infinite before the pairs bound it.
    /// If B multiplies every window by one factor, the interval may miss that factor at some look.
    /// The probability of **ever** missing the factor is at most 1 - confidence.
    pub high: f64,
    /// The verdict so far.
    pub verdict: Verdict,
    /// Whether the verdict is better, worse or same. More pairs would not change such a verdict.
    pub decided: bool,
    /// The smallest detectable effect of this run, as a share: half the width of the interval on the log scale.
    pub smallest_visible_ratio: f64,
}

impl Sequential {
    /// A test without pairs.
    ///
    /// # Errors
    /// Fails when an option is outside its range.
    pub fn new(options: Options) -> Result<Sequential, StatsError> {
        check_options(options)?;
        let line = options.smallest_effect_ratio.ln_1p();
        Ok(Sequential {
            options,
            log_ratios: Vec::new(),
            rising: Vec::new(),
            scales: Vec::new(),
            none: Asked::new(0.0),
            line_below: Asked::new(-line),
            line_above: Asked::new(line),
        })
    }

    /// Adds the next pair.
    ///
    /// # Errors
    /// Fails when a value is outside [`VALUE_RANGE`](crate::VALUE_RANGE), or there are already [`MAX_PAIRS`] pairs.
    /// An error leaves the test unchanged.
    pub fn add(&mut self, pair: Pair) -> Result<(), StatsError> {
        let at = self.log_ratios.len();
        if at >= MAX_PAIRS {
            return Err(StatsError::TooManyPairs { pairs: at + 1 });
        }
        let log_ratio = log_ratio(at, &pair)?;
        let scale = scale_of(&self.rising);
        let enough = self.enough();
        for asked in [&mut self.none, &mut self.line_below, &mut self.line_above] {
            asked.bet(log_ratio, scale, enough);
        }
        self.log_ratios.push(log_ratio);
        self.rising.insert(self.rising.partition_point(|one| *one < log_ratio), log_ratio);
        self.scales.push(scale);
        Ok(())
    }

    /// How many pairs were added.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.log_ratios.len()
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// The verdict of [`look`](Self::look), without the cost of the interval.
    ///
    /// - *Same*: both lines of the smallest effect are excluded, on their far sides.
    /// - *Better*, *worse*: "no difference" is excluded, and the estimate is nearer to the line than to no difference.
    /// - *Undecided*: none of these holds, or the pairs contradict each other, as when B's effect reversed during the run.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Asked { theta: line, .. } = self.line_above;
        let (above_none, below_none) = self.none.sides();
        let between_lines = self.line_below.sides() == (true, false) && self.line_above.sides() == (false, true);
        if !(above_none || below_none || between_lines) {
            return Verdict::Undecided;
        }
        let estimate = self.estimate();
        let (b_is_higher, b_is_lower) = match self.options.better {
            Direction::Higher => (Verdict::Better, Verdict::Worse),
            Direction::Lower => (Verdict::Worse, Verdict::Better),
        };
        match (above_none, below_none) {
            _ if between_lines && estimate.abs() < line => Verdict::Same,
            (true, false) if estimate > 0.0 && estimate >= line / 2.0 => b_is_higher,
            (false, true) if estimate < 0.0 && estimate <= -line / 2.0 => b_is_lower,
            _ => Verdict::Undecided,
        }
    }

    /// The result so far.
    #[must_use]
    pub fn look(&self) -> Look {
        let estimate = self.estimate();
        let (low, high) = self.interval(estimate);
        let verdict = self.verdict();
        Look {
            pairs: self.pairs(),
            e_value: self.none.above.wealth.sum().max(self.none.below.wealth.sum()) / 2.0,
            ratio: estimate.exp(),
            low: low.exp(),
            high: high.exp(),
            verdict,
            decided: verdict != Verdict::Undecided,
            smallest_visible_ratio: ((high - low) / 2.0).exp_m1(),
        }
    }

    /// The wealth that excludes an effect. Each side has half of the error probability.
    fn enough(&self) -> f64 {
        2.0 / (1.0 - self.options.confidence)
    }

    /// NaN without pairs.
    fn estimate(&self) -> f64 {
        if self.log_ratios.is_empty() { f64::NAN } else { WalshAverages::new(&self.log_ratios).median() }
    }

    /// The effects that neither side excludes, widened to include the estimate.
    /// If the sides exclude every effect, the result is the range between the two ends.
    /// With one factor on every window, that happens in at most one run of 1 / (1 - confidence).
    fn interval(&self, estimate: f64) -> (f64, f64) {
        let (above, below) = self.ends();
        let (low, high) = (above.min(below), above.max(below));
        if estimate.is_nan() { (low, high) } else { (low.min(estimate), high.max(estimate)) }
    }

    /// The bounds of the effects that the two sides exclude.
    /// An excluded effect stays excluded: the confidence already covers an error at any look.
    fn ends(&self) -> (f64, f64) {
        let asked = [&self.none, &self.line_below, &self.line_above];
        let known =
            |pick: fn(&Asked) -> bool| asked.into_iter().filter(move |asked| pick(asked)).map(|asked| asked.theta);
        let above = known(|asked| asked.above.excluded).fold(self.bound(1.0), f64::max);
        let below = known(|asked| asked.below.excluded).fold(-self.bound(-1.0), f64::min);
        (above, below)
    }

    /// The largest excluded effect, with the log ratios multiplied by `way`, 1 or -1. The result is -∞ if no effect is excluded.
    /// All smaller effects are excluded too, so bisection finds the largest one.
    pub(crate) fn bound(&self, way: f64) -> f64 {
        let (mut smallest, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
        for &log_ratio in &self.log_ratios {
            smallest = smallest.min(way * log_ratio);
            largest = largest.max(way * log_ratio);
        }
        let scale = self.scales.iter().flatten().fold(0.0, |most: f64, scale| most.max(*scale));
        // Every outcome is clamped below this value.
        let (mut excluded, mut held) = (smallest - 2.0 * MOST_DEVIATIONS * scale - 1e-6, largest);
        if self.log_ratios.is_empty() || !self.excludes(excluded, way) {
            return f64::NEG_INFINITY;
        }
        for _ in 0..HALVINGS {
            let middle = excluded.midpoint(held);
            if self.excludes(middle, way) {
                excluded = middle;
            } else {
                held = middle;
            }
        }
        excluded
    }

    fn excludes(&self, theta: f64, way: f64) -> bool {
        let (mut wealth, enough) = (Wealth::new(), self.enough());
        self.log_ratios.iter().zip(&self.scales).any(|(log_ratio, scale)| {
            wealth.bet(way * log_ratio - theta, *scale);
            wealth.sum() >= enough
        })
    }
}

/// One effect, and the bets that the true effect is above it and below it.
#[derive(Debug, Clone)]
struct Asked {
    theta: f64,
    above: Side,
    below: Side,
}

#[derive(Debug, Clone)]
struct Side {
    wealth: Wealth,
    /// Whether the wealth has ever reached the limit that excludes this effect.
    excluded: bool,
}

impl Asked {
    fn new(theta: f64) -> Asked {
        let side = Side { wealth: Wealth::new(), excluded: false };
        Asked { theta, above: side.clone(), below: side }
    }

    fn bet(&mut self, log_ratio: f64, scale: Option<f64>, enough: f64) {
        let difference = log_ratio - self.theta;
        for (side, difference) in [(&mut self.above, difference), (&mut self.below, -difference)] {
            side.wealth.bet(difference, scale);
            side.excluded |= side.wealth.sum() >= enough;
        }
    }

    /// Whether the bets exclude this effect: first because the true effect is above it, second because the true effect is below it.
    fn sides(&self) -> (bool, bool) {
        (self.above.excluded, self.below.excluded)
    }
}

#[cfg(test)]
mod tests;
