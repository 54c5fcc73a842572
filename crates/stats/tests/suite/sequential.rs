//! Checks the guarantees of the sequential test. It simulates whole trials on noise with known truth, with a test after every pair.
//! The seeds are fixed. `docs/statistics.md` states the error rates, and the last test of this file compares them.

use std::fmt::Write as _;
use std::sync::OnceLock;

use evenkeel_stats::{Direction, Options, Sequential, StatsError, Verdict, calibrate, compare};
use rand::SeedableRng as _;

use evenkeel_testkit::noise;

use noise::Noise;

/// The maximum number of pairs of a trial, with a test after each.
const PAIRS: usize = 100;
/// A/A trials of each kind of noise.
const ALIKE: u64 = 2000;
/// Trials with a planted effect.
const PLANTED: u64 = 200;

const EFFECTS: [f64; 4] = [0.02, 0.05, 0.10, 0.20];

/// Without a smallest effect, every interval that excludes 1 is a claim.
const NO_LINE: Options = Options { confidence: 0.95, smallest_effect_ratio: 0.0, better: Direction::Lower };
const LINE: Options = Options { smallest_effect_ratio: 0.05, ..NO_LINE };

/// The first verdict that stops a trial, and the number of pairs up to that moment.
fn stopped(noise: &Noise, ratio: f64, options: Options, seed: u64) -> Result<Option<(Verdict, usize)>, StatsError> {
    let mut test = Sequential::new(options)?;
    for (pair, count) in noise.pairs(PAIRS, ratio, seed).into_iter().zip(1..) {
        test.add(pair)?;
        let verdict = test.verdict();
        if verdict != Verdict::Undecided {
            return Ok(Some((verdict, count)));
        }
    }
    Ok(None)
}

/// How the trials with one true effect ended.
struct Ends {
    trials: u64,
    /// The number of pairs of each trial that ended with the expected verdict, rising.
    found: Vec<usize>,
    /// How many trials ended with another verdict.
    otherwise: usize,
}

impl Ends {
    fn simulate(
        noise: &Noise,
        ratio: f64,
        options: Options,
        expected: Verdict,
        trials: u64,
    ) -> Result<Ends, StatsError> {
        let mut ends = Ends { trials, found: Vec::new(), otherwise: 0 };
        for seed in 0..trials {
            match stopped(noise, ratio, options, seed)? {
                Some((verdict, pairs)) if verdict == expected => ends.found.push(pairs),
                Some(_) => ends.otherwise += 1,
                None => {}
            }
        }
        ends.found.sort_unstable();
        Ok(ends)
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.trials as f64
    }

    /// The number of pairs of the median trial. `None` if fewer than half of the trials found the effect.
    fn median(&self) -> Option<usize> {
        self.found.get(self.trials as usize / 2).copied()
    }

    fn cell(&self) -> String {
        match self.median() {
            Some(pairs) => format!("{pairs} ({:.0} %)", 100.0 * self.share(self.found.len())),
            None => format!("({:.0} %)", 100.0 * self.share(self.found.len())),
        }
    }
}

/// The share of A/A trials with a claim at any of the 100 tests.
fn alike(noise: &Noise, trials: u64) -> Result<f64, StatsError> {
    let ends = Ends::simulate(noise, 1.0, NO_LINE, Verdict::Better, trials)?;
    Ok(ends.share(ends.found.len() + ends.otherwise))
}

/// The rates for every kind of noise. Both tests share the work.
fn alike_rates() -> Result<&'static [f64], StatsError> {
    static RATES: OnceLock<Result<Vec<f64>, StatsError>> = OnceLock::new();
    let rates = RATES.get_or_init(|| noise::all().iter().map(|noise| alike(noise, ALIKE)).collect());
    rates.as_deref().map_err(Clone::clone)
}

#[test]
fn equal_arms_differ_in_at_most_one_run_of_twenty_however_often_one_looks() -> Result<(), StatsError> {
    for (noise, rate) in noise::all().iter().zip(alike_rates()?) {
        assert!(*rate <= 0.05, "{}: {rate}", noise.name);
    }
    Ok(())
}

#[test]
#[ignore = "five times as many trials as the test above: for a change of the method"]
fn equal_arms_differ_in_at_most_one_run_of_twenty_in_10_000_trials() -> Result<(), StatsError> {
    for noise in noise::all() {
        let rate = alike(&noise, 5 * ALIKE)?;
        println!("{}: {:.2} % claimed", noise.name, 100.0 * rate);
        assert!(rate <= 0.05, "{}: {rate}", noise.name);
    }
    Ok(())
}

/// An ordinary test after every pair violates the guarantee by far. This shows that the simulation can detect a violation.
#[test]
fn an_ordinary_test_with_the_same_looks_claims_far_more() -> Result<(), StatsError> {
    let noise = &noise::all()[0];
    let trials = 100;
    let mut claimed = 0;
    for seed in 0..trials {
        let pairs = noise.pairs(PAIRS, 1.0, seed);
        for count in 6..=PAIRS {
            let verdict = compare(&pairs[..count], NO_LINE)?.verdict;
            if matches!(verdict, Verdict::Better | Verdict::Worse) {
                claimed += 1;
                break;
            }
        }
    }
    assert!(claimed >= 20, "{claimed} of {trials}");
    Ok(())
}

#[test]
fn planted_effects_are_found_with_their_direction() -> Result<(), StatsError> {
    for noise in noise::all() {
        for (ratio, expected) in [(1.0 / 1.2, Verdict::Better), (1.2, Verdict::Worse)] {
            let ends = Ends::simulate(&noise, ratio, NO_LINE, expected, PLANTED)?;
            // Without any effect, a claim for the wrong side occurs in at most 2.5 %. Three standard deviations for 200 trials are 3.3 %.
            assert!(ends.share(ends.otherwise) <= 0.05, "{}: {} wrong", noise.name, ends.otherwise);
        }
    }
    Ok(())
}

/// The last interval contains every value that no earlier test excluded. It misses the truth as often as any earlier test would have.
#[test]
fn the_interval_covers_the_truth_at_every_look() -> Result<(), StatsError> {
    for noise in noise::all() {
        let (trials, ratio, mut covered) = (200, 0.8, 0);
        for seed in 0..trials {
            let mut test = Sequential::new(LINE)?;
            for pair in noise.pairs(PAIRS, ratio, seed) {
                test.add(pair)?;
            }
            let look = test.look();
            covered += u32::from(look.low <= ratio && ratio <= look.high);
        }
        // The test promises 190 trials, and three standard deviations are 9.
        assert!(covered >= 181, "{}: {covered} of {trials}", noise.name);
    }
    Ok(())
}

/// An effect of exactly the smallest size must not be called the same.
#[test]
fn an_effect_that_matters_is_seldom_called_the_same() -> Result<(), StatsError> {
    for noise in noise::all() {
        let ends = Ends::simulate(&noise, 1.05, LINE, Verdict::Same, PLANTED)?;
        assert!(ends.share(ends.found.len()) <= 0.05, "{}: {} of {PLANTED}", noise.name, ends.found.len());
    }
    Ok(())
}

/// The summary of an A/A phase names the smallest detectable effect.
/// An effect of this size is found in about four of five trials on the same noise.
#[test]
fn effects_that_the_calibration_calls_detectable_are_found() -> Result<(), StatsError> {
    for noise in noise::all().into_iter().filter(|noise| noise.name.starts_with("independent")) {
        let calibration = calibrate(&noise.pairs(60, 1.0, 1), 30, NO_LINE, 1)?;
        let mut found = 0;
        for seed in 100..300 {
            let mut test = Sequential::new(NO_LINE)?;
            let mut claimed = false;
            for pair in noise.pairs(30, 1.0 + calibration.smallest_visible_ratio, seed) {
                test.add(pair)?;
                claimed |= test.verdict() == Verdict::Worse;
            }
            found += usize::from(claimed);
        }
        // Four in five, within the uncertainty that an A/A phase of 60 pairs has about its noise.
        assert!((120..=196).contains(&found), "{}: {found} of 200, {calibration:?}", noise.name);
    }
    Ok(())
}

/// The smallest effect that ten A/A pairs predict for this many planned pairs,
/// divided by the half-width of the interval after `had` pairs: the median of 40 trials.
fn preview(noise: &Noise, planned: usize, had: usize) -> Result<f64, StatsError> {
    let mut ratios = Vec::new();
    for seed in 0..40 {
        let pairs = noise.pairs(10 + had, 1.0, 5000 + seed);
        let (control, trial) = pairs.split_at(10);
        let preview = calibrate(control, planned, NO_LINE, seed)?.smallest_visible_ratio;
        let mut test = Sequential::new(NO_LINE)?;
        for pair in trial {
            test.add(*pair)?;
        }
        ratios.push(preview.ln_1p() / test.look().smallest_visible_ratio.ln_1p());
    }
    Ok(evenkeel_stats::median(&ratios).unwrap_or(f64::NAN))
}

/// For each kind of noise, the predicted effect divided by the final one is in this range.
fn previews_are_within(planned: usize, had: usize, range: std::ops::Range<f64>) -> Result<(), StatsError> {
    for noise in noise::all() {
        let ratio = preview(&noise, planned, had)?;
        println!("{}: {ratio:.2} for {planned} pairs planned, {had} had", noise.name);
        assert!(range.contains(&ratio), "{}: {ratio} is not in {range:?}", noise.name);
    }
    Ok(())
}

/// A prediction for the pairs that fit into the budget is made before the first pair.
/// The prediction is not smaller than the result after the last pair.
#[test]
fn a_preview_of_ten_pairs_is_not_better_than_the_interval_in_the_end() -> Result<(), StatsError> {
    previews_are_within(10, 10, 0.9..4.0)
}

#[test]
fn a_preview_of_thirty_pairs_is_not_better_than_the_interval_in_the_end() -> Result<(), StatsError> {
    previews_are_within(30, 30, 0.9..2.0)
}

/// If only ten pairs fit into the budget, a prediction for a hundred pairs promises too much.
/// So the prediction is for the pairs that fit.
#[test]
fn a_preview_of_a_hundred_pairs_is_better_than_ten_can_be() -> Result<(), StatsError> {
    previews_are_within(100, 10, 0.0..0.7)
}

#[test]
fn the_docs_state_these_rates() -> Result<(), Box<dyn std::error::Error>> {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md"))?;
    let table = table()?;
    assert!(docs.contains(&table), "docs/statistics.md should have this table:\n{table}");
    Ok(())
}

fn table() -> Result<String, StatsError> {
    let mut table = String::from(
        "| noise | claimed, alike | 2 % | 5 % | 10 % | 20 % | same, alike, 5 % matters |\n|---|---|---|---|---|---|---|\n",
    );
    for (noise, rate) in noise::all().iter().zip(alike_rates()?) {
        let _infallible = write!(table, "| {} | {:.1} % |", noise.name, 100.0 * rate);
        for effect in EFFECTS {
            let ends = Ends::simulate(noise, 1.0 + effect, NO_LINE, Verdict::Worse, PLANTED)?;
            let _infallible = write!(table, " {} |", ends.cell());
        }
        let _infallible = writeln!(table, " {} |", Ends::simulate(noise, 1.0, LINE, Verdict::Same, PLANTED)?.cell());
    }
    Ok(table)
}

/// This simulates no trial. It checks that the recorded traces exist, are complete, and have realistic noise.
#[test]
fn the_simulated_noise_is_as_described() {
    for noise in noise::all() {
        let windows = noise.windows(200, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
        assert!(
            windows.len() == 200 && windows.iter().all(|window| window.is_finite() && *window > 0.0),
            "{}",
            noise.name
        );
        let spread = evenkeel_stats::median_absolute_deviation(&windows).is_some_and(|spread| spread > 0.0);
        assert!(spread, "{}", noise.name);
    }
}
