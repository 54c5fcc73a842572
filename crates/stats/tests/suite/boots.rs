//! Simulates whole comparisons over boots on noise whose truth is known, and counts how often they claim what is not so.

use evenkeel_stats::{BOOTS_ERROR, Boot, Direction, Options, Verdict, boot_order, compare_boots, median};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use evenkeel_testkit::noise;

/// A rate of 5 % that is counted over so many has a standard deviation of 0.3 %.
const RUNS: u64 = 5000;
/// A boot's number is the median of so many windows, as `prove boots` has it.
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

/// The numbers of the run with this seed.
fn run(noise: &noise::Noise, numbers: Numbers, boots: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Another stream than the coin's.
    random.set_stream(1);
    numbers(noise, boots, &mut random)
}

/// The difference that is claimed where B multiplies a boot's number by `ratio`.
fn claim(numbers: &[f64], seed: u64, ratio: f64) -> Option<Verdict> {
    let order = boot_order(numbers.len(), seed).into_iter();
    let boot = |(is_b, value): (bool, &f64)| Boot { is_b, value: if is_b { value * ratio } else { *value } };
    let measured: Vec<Boot> = order.zip(numbers).map(boot).collect();
    let options = Options { smallest_effect_ratio: 0.0, ..Options::new(Direction::Lower) };
    let found = compare_boots(&measured, options).ok()?.verdict;
    matches!(found, Verdict::Better | Verdict::Worse).then_some(found)
}

/// How often a difference was claimed where B multiplies a boot's number by `ratio`: this verdict, or either.
fn claims(noise: &noise::Noise, numbers: Numbers, boots: usize, ratio: f64, verdict: Option<Verdict>) -> f64 {
    let claimed = (0..RUNS).filter(|seed| {
        let found = claim(&run(noise, numbers, boots, *seed), *seed, ratio);
        found.is_some() && verdict.is_none_or(|wanted| found == Some(wanted))
    });
    claimed.count() as f64 / RUNS as f64
}

/// Three standard deviations of a rate counted over the runs.
fn slack(rate: f64) -> f64 {
    3.0 * (rate * (1.0 - rate) / RUNS as f64).sqrt()
}

#[test]
fn no_made_up_noise_makes_it_claim_more_often_than_it_says() {
    never_too_often(|noise| !is_recorded(noise));
}

#[test]
fn no_recorded_noise_makes_it_claim_more_often_than_it_says() {
    never_too_often(is_recorded);
}

fn is_recorded(noise: &noise::Noise) -> bool {
    noise.name.starts_with("recorded")
}

fn never_too_often(is_meant: fn(&noise::Noise) -> bool) {
    const BOOTS: [usize; 3] = [4, 8, 12];
    let (meant, others): (Vec<_>, Vec<_>) = noise::all().into_iter().partition(is_meant);
    assert_eq!((meant.len(), others.len()), (5, 5));
    for noise in meant {
        let mut claimed = BOOTS.map(|_| 0);
        for seed in 0..RUNS {
            // Fewer boots are the first ones of the same run.
            let all = run(&noise, numbers, 12, seed);
            for (boots, claimed) in BOOTS.iter().zip(&mut claimed) {
                *claimed += u64::from(claim(&all[..*boots], seed, 1.0).is_some());
            }
        }
        for (boots, claimed) in BOOTS.iter().zip(claimed) {
            let found = claimed as f64 / RUNS as f64;
            println!("{}, {boots} boots: {found}", noise.name);
            assert!(found <= BOOTS_ERROR + slack(BOOTS_ERROR), "{}, {boots} boots: {found}", noise.name);
        }
    }
}

#[test]
fn what_is_there_is_found_in_the_right_direction() {
    let all = noise::all();
    let quiet = all.iter().find(|noise| noise.name == "independent, 5 %").unwrap();
    // Each boot one window here: a fifth less, where boots differ by 5 %: eight boots claim it nearly always, and four half of the time.
    assert!(claims(quiet, noise::Noise::windows, 4, 0.8, Some(Verdict::Better)) > 0.5);
    assert!(claims(quiet, noise::Noise::windows, 8, 0.8, Some(Verdict::Better)) > 0.9);
    assert!(claims(quiet, noise::Noise::windows, 8, 1.25, Some(Verdict::Worse)) > 0.9);
    assert_eq!(claims(quiet, noise::Noise::windows, 8, 0.8, Some(Verdict::Worse)), 0.0);
    // A boot as it is measured, and a tenth less: what four boots find.
    assert!(claims(quiet, numbers, 4, 0.9, Some(Verdict::Better)) > 0.9);
}

/// Boots of two kinds, as a coin says, that differ by a third: what Student's test assumes is false then, and it errs more often than it
/// says. It still claims only what lies apart.
#[test]
fn boots_of_two_kinds_are_what_four_boots_can_not_stand() {
    let kinds: Numbers = |noise, boots, random| {
        let two = |(at, window): (usize, &f64)| if window.to_bits() % 2 == 0 { 75.0 } else { 100.0 } + at as f64 * 0.1;
        noise.windows(boots, random).iter().enumerate().map(two).collect()
    };
    let all = noise::all();
    let quiet = all.iter().find(|noise| noise.name == "independent, 5 %").unwrap();
    let rates = [4, 8, 12].map(|boots| claims(quiet, kinds, boots, 1.0, None));
    println!("{rates:?}");
    assert!(rates[0] > 0.1 && rates[0] < 1.0 / 3.0, "{rates:?}");
    assert!(rates[1..].iter().all(|rate| *rate <= BOOTS_ERROR + slack(BOOTS_ERROR)), "{rates:?}");
}
