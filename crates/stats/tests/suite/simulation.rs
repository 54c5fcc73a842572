//! Simulates whole trials on noise with known truth, and counts wrong verdicts. The seeds are fixed, so each run gives the same rates.
//! `docs/statistics.md` states the rates, and the last test of this file compares them.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use evenkeel_stats::{Comparison, Direction, Options, Order, Pair, PairDesign, StatsError, Verdict, compare};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Trials per rate.
const TRIALS: u64 = 1000;

/// Three standard deviations of a rate over [`TRIALS`]. With fixed seeds the slack covers one draw, not a draw for each run.
/// If the seeds are ever changed, a right method fails a given assertion with odds of about 1 in 700.
/// A method that errs in 8 % of trials instead of 5 % is caught with odds of 6 in 7.
fn slack(rate: f64) -> f64 {
    3.0 * (rate * (1.0 - rate) / TRIALS as f64).sqrt()
}

/// The machine's effect on the log of a window's number, window after window.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// Independent and normal, with this standard deviation.
    LogNormal(f64),
    /// Autoregressive with lag-1 correlation 0.9 and a standard deviation of 0.10.
    /// The machine also gets 1 % slower with each window.
    Drifting,
    /// Student's t with 2 degrees of freedom, scale 0.05: its variance is infinite.
    HeavyTailed,
}

impl Noise {
    fn windows(self, count: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        let mut state = 0.10 * normal(random);
        let mut next = |window: usize| match self {
            Self::LogNormal(sd) => sd * normal(random),
            Self::Drifting => {
                state = 0.9 * state + 0.10 * f64::sqrt(1.0 - 0.9 * 0.9) * normal(random);
                state + 0.01 * window as f64
            }
            Self::HeavyTailed => {
                // Half the sum of two squared normals is exponential.
                let exponential = -(1.0 - random.random::<f64>()).ln();
                0.05 * normal(random) / exponential.sqrt()
            }
        };
        (0..count).map(|window| 100.0 * next(window).exp()).collect()
    }
}

/// The Box-Muller transform.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
}

/// A trial to repeat over seeds. `ratio` is the truth: B's effect on a window's number.
#[derive(Debug, Clone, Copy)]
struct Trial {
    noise: Noise,
    pairs: usize,
    ratio: f64,
    smallest_effect_ratio: f64,
}

impl Trial {
    fn windows(&self, seed: u64) -> Vec<f64> {
        // Use another random stream than the coin uses, because the machine does not know the coin.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1);
        self.noise.windows(2 * self.pairs, &mut random)
    }

    /// Pairs in the order of the coin, as evenkeel measures.
    fn by_coin(&self, seed: u64) -> Result<Comparison, StatsError> {
        let design = PairDesign::new(self.pairs as u64, seed);
        let windows = self.windows(seed);
        let pair = |(order, two): (Order, &[f64])| match order {
            Order::AFirst => Pair { a: two[0], b: two[1] * self.ratio },
            Order::BFirst => Pair { b: two[0] * self.ratio, a: two[1] },
        };
        let pairs: Vec<Pair> = design.orders().zip(windows.chunks_exact(2)).map(pair).collect();
        compare(&pairs, self.options())
    }

    /// All of A, then all of B, on the same machine, as most tools do.
    fn one_after_the_other(&self, seed: u64) -> Result<Comparison, StatsError> {
        let windows = self.windows(seed);
        let (first, then) = windows.split_at(self.pairs);
        let pair = |(a, b): (&f64, &f64)| Pair { a: *a, b: b * self.ratio };
        let pairs: Vec<Pair> = first.iter().zip(then).map(pair).collect();
        compare(&pairs, self.options())
    }

    fn options(&self) -> Options {
        let smallest_effect_ratio = self.smallest_effect_ratio;
        Options { smallest_effect_ratio, ..Options::new(Direction::Lower) }
    }

    /// The share of [`TRIALS`] by coin for which `is` is true.
    fn rate(&self, is: impl Fn(&Comparison) -> bool) -> f64 {
        rate(|seed| self.by_coin(seed), is)
    }
}

fn rate(trial: impl Fn(u64) -> Result<Comparison, StatsError>, is: impl Fn(&Comparison) -> bool) -> f64 {
    (0..TRIALS).filter(|&seed| trial(seed).is_ok_and(|c| is(&c))).count() as f64 / TRIALS as f64
}

fn claims(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Better | Verdict::Worse)
}

fn says(verdict: Verdict) -> impl Fn(&Comparison) -> bool {
    move |comparison| comparison.verdict == verdict
}

/// An A/A trial. Without a smallest effect, every interval that excludes 1 is a claim.
/// The case without a smallest effect is the hardest, because a smallest effect only removes claims.
const fn alike(noise: Noise) -> Trial {
    Trial { noise, pairs: 20, ratio: 1.0, smallest_effect_ratio: 0.0 }
}

const NOISES: [Noise; 3] = [Noise::LogNormal(0.10), Noise::Drifting, Noise::HeavyTailed];

/// A calm machine: 24 pairs, whose windows differ by 5 %.
const CALM: Trial = Trial { noise: Noise::LogNormal(0.05), pairs: 24, ratio: 1.0, smallest_effect_ratio: 0.10 };
const CALM_TENTH_LESS: Trial = Trial { ratio: 0.9, smallest_effect_ratio: 0.05, ..CALM };

#[test]
fn equal_arms_differ_no_more_often_than_promised() {
    for noise in NOISES {
        let rate = alike(noise).rate(claims);
        assert!(rate <= 0.05 + slack(0.05), "{noise:?}: {rate}");
        // A method that always gave an infinite interval would never err.
        // With 20 pairs, an error rate of 0.048 is possible, and the method should reach that rate.
        assert!(rate >= 0.048 - slack(0.048), "{noise:?}: {rate}");
    }
}

/// This is the reason for the design: under drift, more pairs make the naive order worse, not better.
#[test]
fn the_naive_order_makes_far_more_false_claims() {
    let trial = alike(Noise::Drifting);
    let sequential = rate(|seed| trial.one_after_the_other(seed), claims);
    assert!(sequential > 0.5 && sequential > 10.0 * trial.rate(claims), "{sequential}");
}

#[test]
fn equal_arms_are_called_the_same() {
    let same = (0..20).filter(|&seed| CALM.by_coin(seed).is_ok_and(|c| says(Verdict::Same)(&c)));
    assert!(same.count() >= 19);
}

#[test]
fn a_planted_tenth_is_found_with_its_direction() {
    for (ratio, expected) in [(0.9, Verdict::Better), (1.1, Verdict::Worse)] {
        let trial = Trial { ratio, ..CALM_TENTH_LESS };
        let found = (0..20).filter(|&seed| trial.by_coin(seed).is_ok_and(|c| says(expected)(&c)));
        assert!(found.count() >= 18, "{ratio}");
        let opposite = if ratio < 1.0 { Verdict::Worse } else { Verdict::Better };
        assert_eq!(trial.rate(says(opposite)), 0.0, "{ratio}");
    }
}

/// An effect of exactly the smallest size must not be called the same.
/// The verdict *same* needs an interval that misses the effect on one side, which happens in half of the interval's errors.
#[test]
fn an_effect_that_matters_is_seldom_called_the_same() {
    for noise in [Noise::LogNormal(0.05), Noise::Drifting] {
        let rate = Trial { noise, ratio: 1.1, ..CALM }.rate(says(Verdict::Same));
        assert!(rate <= 0.025 + slack(0.025), "{noise:?}: {rate}");
    }
}

#[test]
fn the_interval_covers_the_truth_as_often_as_promised() {
    for noise in NOISES {
        let rate = coverage(noise);
        // 20 pairs have no rank sum of exactly 5 %: the interval's true confidence is 0.9517.
        assert!((rate - 0.9517).abs() <= slack(0.9517), "{noise:?}: {rate}");
    }
}

fn coverage(noise: Noise) -> f64 {
    let ratio = 0.8;
    Trial { ratio, ..alike(noise) }.rate(|c| c.low <= ratio && ratio <= c.high)
}

/// This trial has more pairs than the exact distribution covers.
#[test]
fn beyond_the_exact_distribution_the_rate_holds() {
    let rate = Trial { pairs: 201, ..alike(Noise::Drifting) }.rate(claims);
    assert!((rate - 0.05).abs() <= slack(0.05), "{rate}");
}

#[test]
fn the_docs_state_these_rates() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
    let docs = std::fs::read_to_string(path)?;
    let table = table();
    assert!(docs.contains(&table), "docs/statistics.md should have this table:\n{table}");
    Ok(())
}

fn table() -> String {
    let wild = Trial { noise: Noise::LogNormal(0.10), ..CALM_TENTH_LESS };
    let rows = [
        ("alike, independent noise of 10 %, 20 pairs", "claimed", alike(NOISES[0]).rate(claims)),
        ("alike, drifting, 20 pairs", "claimed", alike(NOISES[1]).rate(claims)),
        ("alike, heavy tails, 20 pairs", "claimed", alike(NOISES[2]).rate(claims)),
        (
            "alike, drifting, 20 of A and then 20 of B",
            "claimed",
            rate(|seed| alike(Noise::Drifting).one_after_the_other(seed), claims),
        ),
        ("alike, noise of 5 %, 24 pairs, 10 % matters", "same", CALM.rate(says(Verdict::Same))),
        (
            "10 % apart, noise of 5 %, 24 pairs, 10 % matters",
            "same",
            Trial { ratio: 1.1, ..CALM }.rate(says(Verdict::Same)),
        ),
        ("10 % lower, noise of 5 %, 24 pairs, 5 % matters", "better", CALM_TENTH_LESS.rate(says(Verdict::Better))),
        ("10 % lower, noise of 10 %, 24 pairs, 5 % matters", "better", wild.rate(says(Verdict::Better))),
        ("10 % lower, noise of 10 %, 24 pairs, 5 % matters", "worse", wild.rate(says(Verdict::Worse))),
        (
            "10 % lower, noise of 10 %, 60 pairs, 5 % matters",
            "better",
            Trial { pairs: 60, ..wild }.rate(says(Verdict::Better)),
        ),
        ("20 % lower, independent noise of 10 %, 20 pairs", "covered", coverage(NOISES[0])),
        ("20 % lower, drifting, 20 pairs", "covered", coverage(NOISES[1])),
        ("20 % lower, heavy tails, 20 pairs", "covered", coverage(NOISES[2])),
    ];
    let mut table = String::from("| truth and trial | answer | share of trials |\n|---|---|---|\n");
    for (truth, answer, rate) in rows {
        let _infallible = writeln!(table, "| {truth} | {answer} | {:.1} % |", 100.0 * rate);
    }
    table
}
