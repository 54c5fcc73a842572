//! Simulates whole comparisons over boots on noise whose truth is known, and counts how often they claim what is not so.

use evenkeel_stats::{Boot, Direction, Options, Verdict, boot_order, compare_boots, error_of, median};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[expect(dead_code, reason = "its pairs are for the tests of pairs")]
mod noise;

const RUNS: u64 = 1000;
/// A boot's number is the median of so many windows, as `prove --boots` has it.
const WINDOWS: usize = 20;
/// What goes by from one boot's first window to the next one's, in windows: 20 are measured, then the machine reboots and settles.
const EVERY: usize = 60;

/// What boots in a row would be, of arms that are alike.
fn numbers(noise: &noise::Noise, boots: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    let windows = noise.windows(boots * EVERY, random);
    windows.chunks(EVERY).filter_map(|boot| median(&boot[..WINDOWS])).collect()
}

/// What so many boots come to, of arms that are alike.
type Numbers = fn(&noise::Noise, usize, &mut ChaCha8Rng) -> Vec<f64>;

/// How often a difference was claimed where B multiplies a boot's number by `ratio`.
fn claims(noise: &noise::Noise, numbers: Numbers, boots: usize, ratio: f64, verdict: Option<Verdict>) -> f64 {
    let claimed = (0..RUNS).filter(|seed| {
        let mut random = ChaCha8Rng::seed_from_u64(*seed);
        // Another stream than the coin's.
        random.set_stream(1);
        let measured: Vec<Boot> = boot_order(boots, *seed)
            .into_iter()
            .zip(numbers(noise, boots, &mut random))
            .map(|(is_b, value)| Boot { is_b, value: if is_b { value * ratio } else { value } })
            .collect();
        let options = Options { smallest_effect_ratio: 0.0, ..Options::new(Direction::Lower) };
        let found = compare_boots(&measured, options).map(|found| found.verdict);
        matches!(found, Ok(Verdict::Better | Verdict::Worse)) && verdict.is_none_or(|wanted| found == Ok(wanted))
    });
    claimed.count() as f64 / RUNS as f64
}

/// Three standard deviations of a rate counted over the runs.
fn slack(rate: f64) -> f64 {
    3.0 * (rate * (1.0 - rate) / RUNS as f64).sqrt()
}

#[test]
fn no_noise_makes_it_claim_more_often_than_it_says() {
    for noise in noise::all() {
        for boots in [4, 8, 12] {
            let (promised, found) = (error_of(boots), claims(&noise, numbers, boots, 1.0, None));
            println!("{}, {boots} boots: {found}", noise.name);
            assert!(found <= promised + slack(promised), "{}, {boots} boots: {found} of {promised}", noise.name);
        }
    }
}

#[test]
fn what_is_there_is_found_in_the_right_direction() {
    let all = noise::all();
    let quiet = all.iter().find(|noise| noise.name == "independent, 5 %").unwrap();
    // Each boot one window here: a fifth less, where boots differ by 5 %: four boots lie apart nearly always, eight claim it at 5 %.
    assert!(claims(quiet, noise::Noise::windows, 4, 0.8, Some(Verdict::Better)) > 0.9);
    assert!(claims(quiet, noise::Noise::windows, 8, 0.8, Some(Verdict::Better)) > 0.9);
    assert!(claims(quiet, noise::Noise::windows, 8, 1.25, Some(Verdict::Worse)) > 0.9);
    assert_eq!(claims(quiet, noise::Noise::windows, 8, 0.8, Some(Verdict::Worse)), 0.0);
}
