//! `pairs`: how many pairs a test needs to find a real effect at equal rates of false claims, on recorded and simulated noise. The peers
//! are common tests, implemented here. Each peer is planned with the number of pairs that suits the exact effect. A user does not know the
//! effect, and evenkeel's test does not get that number.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use evenkeel_stats::{Direction, Options, Pair, Sequential, Verdict, compare, quantile};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::row::{Measured, Measurements, Row};

use evenkeel_testkit::noise;

use noise::Noise;

/// The number of simulated trials for each noise and effect.
const TRIALS: u64 = 100;
/// The number of simulated A/A trials for each noise.
const ALIKE: u64 = 100;
/// The maximum number of pairs of a trial.
const MOST: usize = 100;
/// Each peer gets the number of pairs with which it finds the effect in this share of the trials.
const POWER: f64 = 0.9;
/// How often the group-sequential peer tests, and the p-value that each of five equally spaced tests needs for 5 % in all (S. J. Pocock,
/// "Group sequential methods in the design and analysis of clinical trials", Biometrika 1977).
const LOOKS: usize = 5;
const POCOCK: f64 = 0.0158;

const OPTIONS: Options = Options { confidence: 0.95, smallest_effect_ratio: 0.0, better: Direction::Lower };
const EFFECTS: [f64; 3] = [0.05, 0.10, 0.20];

/// The end of one trial: the number of pairs, and the claim: B slower, B faster, or neither.
#[derive(Clone, Copy)]
struct End {
    pairs: usize,
    found: Option<Verdict>,
}

/// A test over the pairs of one trial. The number is the maximum number of pairs that the test gets.
type Way = fn(&[Pair], usize) -> anyhow::Result<End>;

/// # Errors
/// If nothing could be measured.
pub(crate) fn measure() -> anyhow::Result<Row> {
    let names: [(&str, Way); 4] = [("evenkeel", ours), (SIGN, sign), (FIXED, fixed), (GROUPS, groups)];
    let mut rounds = vec![Vec::new(); names.len()];
    for noise in noise::all() {
        for effect in EFFECTS {
            let trials: Vec<Vec<Pair>> = (0..TRIALS).map(|seed| noise.pairs(MOST, 1.0 + effect, seed)).collect();
            // If a peer cannot find the effect in 100 pairs, it has no number, and smaller effects are not tried.
            let (Some(for_fixed), Some(for_groups)) = (planned(&trials, fixed)?, planned(&trials, groups)?) else {
                continue;
            };
            for ((rounds, (_, way)), most) in rounds.iter_mut().zip(names).zip([MOST, MOST, for_fixed, for_groups]) {
                rounds.push(mean_pairs(&trials, way, most)?);
            }
        }
    }
    let all = names.iter().zip(rounds).map(|((name, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: "mean pairs of 100 trials, a run being one noise with one effect".to_owned(),
        rounds,
    });
    let skipped = BTreeMap::from([
        (PEEKING.to_owned(), refused(|noise| claims(noise, peeking, MOST))?),
        (WELCH.to_owned(), refused(welch_claims)?),
    ]);
    Row::new(Measurements { row: "pairs", unit: "pairs", all: all.collect(), skipped, seed: 0 })
}

const SIGN: &str = "e-process on the signs";
const FIXED: &str = "Wilcoxon, pairs fixed for a power of 90 %";
const GROUPS: &str = "Wilcoxon in 5 looks (Pocock), for a power of 90 %";
const PEEKING: &str = "Wilcoxon after every pair";
const WELCH: &str = "all of A, then all of B, Welch";

/// Why a test cannot be a peer: it makes too many false claims.
fn refused(claims: impl Fn(&Noise) -> anyhow::Result<f64>) -> anyhow::Result<String> {
    let rates = noise::all().iter().map(claims).collect::<anyhow::Result<Vec<f64>>>()?;
    let at = |share| quantile(&rates, share).context("no noise");
    Ok(format!("claims falsely in {:.0} to {:.0} % of trials", 100.0 * at(0.0)?, 100.0 * at(1.0)?))
}

/// `pairs-table`: the rates of false claims of all tests on all noise, for the record.
///
/// # Errors
/// If nothing could be simulated.
pub(crate) fn print_table() -> anyhow::Result<()> {
    let ways: [(&str, Way, usize); 5] = [
        ("evenkeel", ours, 100),
        (SIGN, sign, 100),
        ("Wilcoxon, 30 pairs", fixed, 30),
        (GROUPS, groups, 100),
        (PEEKING, peeking, 100),
    ];
    let mut table = String::from("| noise, A against A, up to 100 pairs |");
    for (name, ..) in ways {
        write!(table, " {name} |")?;
    }
    writeln!(table, " {WELCH}, 30 each |\n|{}", "---|".repeat(ways.len() + 2))?;
    for noise in noise::all() {
        write!(table, "| {} |", noise.name)?;
        for (_, way, most) in ways {
            write!(table, " {:.1} % |", 100.0 * claims(&noise, way, most)?)?;
        }
        writeln!(table, " {:.1} % |", 100.0 * welch_claims(&noise)?)?;
    }
    println!("{table}");
    println!("{}", power_table()?);
    Ok(())
}

/// Mean pairs of each test, noise and effect.
fn power_table() -> anyhow::Result<String> {
    let mut table = format!("| noise | effect | evenkeel | {SIGN} | {FIXED} | {GROUPS} |\n|---|---|---|---|---|---|\n");
    for noise in noise::all() {
        for effect in EFFECTS {
            let trials: Vec<Vec<Pair>> = (0..TRIALS).map(|seed| noise.pairs(MOST, 1.0 + effect, seed)).collect();
            write!(table, "| {} | {:.0} % |", noise.name, 100.0 * effect)?;
            let ways: [(Way, Option<usize>); 4] = [
                (ours, Some(MOST)),
                (sign, Some(MOST)),
                (fixed, planned(&trials, fixed)?),
                (groups, planned(&trials, groups)?),
            ];
            for (way, most) in ways {
                match most {
                    Some(most) => {
                        let found = power(&trials, way, most)?;
                        write!(table, " {:.1} ({:.0} %) |", mean_pairs(&trials, way, most)?, 100.0 * found)?;
                    }
                    None => write!(table, " over {MOST} |")?,
                }
            }
            writeln!(table)?;
        }
    }
    Ok(table)
}

/// The share of trials of A against A in which a test claims something.
fn claims(noise: &Noise, way: Way, most: usize) -> anyhow::Result<f64> {
    let mut claimed = 0;
    for seed in 0..ALIKE {
        claimed += u32::from(way(&noise.pairs(most, 1.0, seed), most)?.found.is_some());
    }
    Ok(f64::from(claimed) / ALIKE as f64)
}

/// The smallest number of pairs, in steps of five, with which a test finds the effect in [`POWER`] of the trials.
fn planned(trials: &[Vec<Pair>], way: Way) -> anyhow::Result<Option<usize>> {
    let (mut short, mut enough) = (1, MOST / LOOKS + 1);
    while short < enough {
        let middle = usize::midpoint(short, enough);
        if power(trials, way, LOOKS * middle)? >= POWER {
            enough = middle;
        } else {
            short = middle + 1;
        }
    }
    Ok((enough * LOOKS <= MOST).then_some(enough * LOOKS))
}

fn power(trials: &[Vec<Pair>], way: Way, most: usize) -> anyhow::Result<f64> {
    let mut found = 0;
    for pairs in trials {
        found += u32::from(way(pairs, most.min(pairs.len()))?.found == Some(Verdict::Worse));
    }
    Ok(f64::from(found) / trials.len() as f64)
}

/// The mean number of pairs that a test uses. A trial that does not find the effect counts with the maximum.
fn mean_pairs(trials: &[Vec<Pair>], way: Way, most: usize) -> anyhow::Result<f64> {
    let mut pairs = 0;
    for trial in trials {
        pairs += way(trial, most)?.pairs;
    }
    Ok(pairs as f64 / trials.len() as f64)
}

fn ours(pairs: &[Pair], most: usize) -> anyhow::Result<End> {
    let mut test = Sequential::new(OPTIONS)?;
    for pair in &pairs[..most] {
        test.add(*pair)?;
        let verdict = test.verdict();
        if verdict != Verdict::Undecided {
            return Ok(End { pairs: test.pairs(), found: Some(verdict) });
        }
    }
    Ok(End { pairs: most, found: None })
}

/// The sign test by betting, with Krichevsky and Trofimov's estimate. It stops at an e-value of 20.
fn sign(pairs: &[Pair], most: usize) -> anyhow::Result<End> {
    let (mut wealth, mut above, mut below) = (1.0, 0.0, 0.0);
    for (pair, count) in pairs[..most].iter().zip(1..) {
        let side = if pair.b > pair.a { &mut above } else { &mut below };
        let before = *side;
        *side += f64::from(u8::from(pair.b != pair.a));
        if pair.b != pair.a {
            wealth *= 2.0 * (before + 0.5) / (above + below);
        }
        if wealth >= 20.0 {
            return Ok(End { pairs: count, found: Some(if above > below { Verdict::Worse } else { Verdict::Better }) });
        }
    }
    Ok(End { pairs: most, found: None })
}

fn wilcoxon(pairs: &[Pair], error: f64) -> anyhow::Result<Option<Verdict>> {
    let comparison = compare(pairs, OPTIONS)?;
    let side = if comparison.ratio > 1.0 { Verdict::Worse } else { Verdict::Better };
    Ok((comparison.p_value <= error).then_some(side))
}

fn fixed(pairs: &[Pair], most: usize) -> anyhow::Result<End> {
    Ok(End { pairs: most, found: wilcoxon(&pairs[..most], 0.05)? })
}

fn groups(pairs: &[Pair], most: usize) -> anyhow::Result<End> {
    for look in 1..=LOOKS {
        let count = most * look / LOOKS;
        let found = wilcoxon(&pairs[..count], POCOCK)?;
        if found.is_some() {
            return Ok(End { pairs: count, found });
        }
    }
    Ok(End { pairs: most, found: None })
}

fn peeking(pairs: &[Pair], most: usize) -> anyhow::Result<End> {
    for count in 6..=most {
        let found = wilcoxon(&pairs[..count], 0.05)?;
        if found.is_some() {
            return Ok(End { pairs: count, found });
        }
    }
    Ok(End { pairs: most, found: None })
}

/// 30 windows of A, then 30 of B, as command-line timers run them; Welch's test at 5 %.
fn welch_claims(noise: &Noise) -> anyhow::Result<f64> {
    const EACH: usize = 30;
    // For 29 to 58 degrees of freedom, the quantile of Student's t is between 2.045 and 2.002. The largest value gives the fewest claims.
    const LIMIT: f64 = 2.045;
    let mut claimed = 0;
    for seed in 0..ALIKE {
        let windows = noise.windows(2 * EACH, &mut ChaCha8Rng::seed_from_u64(seed));
        let of = |windows: &[f64]| {
            let mean = windows.iter().sum::<f64>() / EACH as f64;
            let squares: f64 = windows.iter().map(|window| (window - mean).powi(2)).sum();
            (mean, squares / (EACH - 1) as f64 / EACH as f64)
        };
        let ((a, a_square), (b, b_square)) = (of(&windows[..EACH]), of(&windows[EACH..]));
        claimed += u32::from((a - b).abs() > LIMIT * (a_square + b_square).sqrt());
    }
    Ok(f64::from(claimed) / ALIKE as f64)
}
