//! The error rates of comparisons of several arms, over whole sessions with known truth and a test after every block.

use std::fmt::Write as _;

use evenkeel_stats::BlockDesign;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::conditions::Conditions;

use evenkeel_testkit::noise;
use evenkeel_workload::{Metric, Sample};

use noise::Noise;

const METRIC: Metric = Metric::us("x_us", "x");
const TAIL: Metric = Metric::us("tail_us", "tail");
/// The number of sessions for each kind of noise.
const SESSIONS: u64 = 2000;
const BLOCKS: usize = 100;

fn design(smallest_effect_ratio: f64) -> Design {
    let window = std::time::Duration::from_millis(100);
    Design { smallest_effect_ratio, ..Design::sequential(METRIC, BLOCKS, window, 1) }
}

/// The windows of a block: each arm scales the machine's number by its effect.
fn block(number: usize, order: &[usize], machine: &[f64], effects: &[f64]) -> Vec<Window> {
    let window = |(arm, value): (&usize, &f64)| Window {
        pair: number,
        arm: ArmName::ALL[*arm],
        start_us: 0.0,
        value: value * effects[*arm],
        sample: Sample::new(),
        conditions: Conditions::default(),
    };
    order.iter().zip(machine).map(window).collect()
}

/// Runs a session with this number of arms to its end, or to its last block. Calls `look` after every block.
fn session(
    noise: &Noise,
    design: &Design,
    effects: &[f64],
    seed: u64,
    mut look: impl FnMut(&MultiArmTest),
) -> MultiArmTest {
    let mut test = MultiArmTest::new(design, effects.len()).unwrap();
    let orders = BlockDesign::new(effects.len(), BLOCKS as u64, seed).unwrap();
    // This random stream is independent of the stream of the orders, because the machine does not know the orders.
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(1);
    let machine = noise.windows(BLOCKS * effects.len(), &mut random);
    let mut used = 0;
    for number in 0..BLOCKS {
        let in_it = test.in_it();
        let order: Vec<usize> = orders
            .order_of_block(number as u64)
            .into_iter()
            .filter(|arm| in_it.contains(&ArmName::ALL[*arm]))
            .collect();
        test.add(&block(number, &order, &machine[used..], effects)).unwrap();
        used += order.len();
        look(&test);
        if test.is_over() {
            break;
        }
    }
    test
}

fn is_claim(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// The share of sessions of equal arms with a false claim about any arm against A, and the share with a false claim about two other arms.
fn alike_rates(noise: &Noise, arms: usize) -> [f64; 2] {
    let design = design(0.0);
    let (mut against_a, mut among) = (0, 0);
    for seed in 0..SESSIONS {
        let (mut claimed, mut claimed_among) = (false, false);
        session(noise, &design, &vec![1.0; arms], seed, |test| {
            claimed |= test.further.iter().any(|state| is_claim(state.test.judge.verdict()));
            claimed_among |= test.arm_pairs.iter().any(|arm_pair| is_claim(arm_pair.judge.verdict()));
        });
        against_a += u64::from(claimed);
        among += u64::from(claimed_among);
    }
    [against_a, among].map(|claims| claims as f64 / SESSIONS as f64)
}

/// The smallest effect is 0, so every interval that excludes 1 is a claim. An arm or a session that ends early cannot add false claims.
#[test]
fn equal_arms_differ_in_at_most_one_session_of_twenty_and_the_docs_say_how_often() {
    let mut table = String::from("| noise | against A | among the others |\n|---|---|---|\n");
    let all = noise::all();
    let rates: Vec<[f64; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|noise| scope.spawn(|| alike_rates(noise, 4))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (noise, rates) in all.iter().zip(rates) {
        let [against_a, among] = rates.map(|rate| format!("{:.1} %", 100.0 * rate));
        let _infallible = writeln!(table, "| {} | {against_a} | {among} |", noise.name);
        assert!(rates.iter().all(|rate| *rate <= 0.05), "{}: {rates:?}", noise.name);
    }
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md")).unwrap();
    assert!(docs.contains(&table), "docs/statistics.md should have this table:\n{table}");
}

/// If each arm is tested as if it were the only arm, there are too many false claims. This shows that the simulation can detect such a fault.
#[test]
fn without_sharing_the_error_seven_arms_break_the_promise() {
    let noise = &noise::all()[1];
    let alone = |arms: usize| {
        let design = Design { confidence: 1.0 - 0.05 * (arms - 1) as f64, ..design(0.0) };
        let claims = (0..100).filter(|seed| {
            let mut claimed = false;
            session(noise, &design, &vec![1.0; arms], *seed, |test| {
                claimed |= test.further.iter().any(|state| is_claim(state.test.judge.verdict()));
            });
            claimed
        });
        claims.count() as f64 / 100.0
    };
    assert!(alone(8) > 0.10, "{}", alone(8));
}

/// Counts in 60 sessions of four arms how often each arm was better, worse or beaten, and the blocks of the median session.
#[test]
fn the_best_of_several_is_found_and_the_rest_leave() {
    let noise = &noise::all()[0];
    let design = design(0.05);
    let (mut right, mut beaten, mut left, mut wrong) = (0, 0, 0, 0);
    for seed in 0..60 {
        // B helps, C helps more, and D hurts.
        let test = session(noise, &design, &[1.0, 0.9, 0.7, 1.3], seed, |_| ());
        let verdicts: Vec<Verdict> = test.further.iter().map(|state| state.test.judge.verdict()).collect();
        right += u32::from(verdicts == [Verdict::Better, Verdict::Better, Verdict::Worse]);
        beaten += u32::from(test.is_beaten(ArmName::B, ArmName::C));
        wrong += u32::from(test.is_beaten(ArmName::C, ArmName::B));
        left +=
            u32::from(test.further[2].left.as_ref().is_some_and(|left| left.why == LeftWhy::Worse && left.block < 20));
        assert!(test.is_over(), "seed {seed}: {verdicts:?}");
    }
    assert!(right >= 57 && beaten >= 57 && left >= 57 && wrong == 0, "{right} {beaten} {left} {wrong}");
}

#[test]
fn two_arms_are_judged_as_ever_and_never_leave() {
    let noise = &noise::all()[0];
    let design = design(0.05);
    let test = session(noise, &design, &[1.0, 1.3], 3, |_| ());
    assert_eq!(test.further[0].test.judge.options().confidence.to_bits(), design.confidence.to_bits());
    assert!(test.is_over() && test.arm_pairs.is_empty());
    assert_eq!((test.further[0].left.clone(), test.in_it()), (None, vec![ArmName::A, ArmName::B]));
}

#[test]
fn the_error_is_shared_among_all_comparisons_of_a_kind() {
    let design = Design { guards: vec![Guard { metric: TAIL, harm_ratio: 0.2 }; 2], ..design(0.05) };
    let test = MultiArmTest::new(&design, 4).unwrap();
    let error = |judge: &Judge| 1.0 - judge.options().confidence;
    let close = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
    assert!(test.further.iter().all(|state| close(error(&state.test.judge), 0.05 / 3.0)));
    assert!(
        test.further
            .iter()
            .flat_map(|state| state.test.guards.iter())
            .all(|(_, judge)| close(error(judge), 0.05 / 6.0))
    );
    assert_eq!(test.arm_pairs.len(), 3);
    assert!(test.arm_pairs.iter().all(|arm_pair| close(error(&arm_pair.judge), 0.05 / 3.0)));
}

#[test]
fn a_guard_that_is_harmed_sends_its_arm_away_whatever_else_is_known() {
    let design = Design { guards: vec![Guard { metric: TAIL, harm_ratio: 0.2 }], ..design(0.05) };
    let mut test = MultiArmTest::new(&design, 3).unwrap();
    for number in 0..30 {
        let mut windows = block(number, &[0, 1, 2], &[10.0, 10.0 + number as f64 * 0.01, 10.2], &[1.0; 3]);
        windows.retain(|window| test.in_it().contains(&window.arm));
        for window in &mut windows {
            let tail = if window.arm == ArmName::B { 60.0 } else { 30.0 };
            window.sample.insert("tail_us".to_owned(), tail + number as f64 * 0.001);
        }
        test.add(&windows).unwrap();
    }
    let [b, c] = test.further() else { panic!() };
    assert!(matches!(&b.left, Some(Left { why: LeftWhy::Harm { guard }, .. }) if guard == "tail_us"), "{:?}", b.left);
    assert!(!matches!(&c.left, Some(Left { why: LeftWhy::Harm { .. }, .. })));
    assert!(b.test.judge.pairs() < 20, "it left early");
}

/// A lost window removes only the comparisons that need it.
#[test]
fn a_lost_window_takes_its_comparisons_along() {
    let mut test = MultiArmTest::new(&design(0.05), 3).unwrap();
    test.add(&block(0, &[2, 0, 1], &[10.0, 10.1, 9.9], &[1.0; 3])).unwrap();
    test.add(&block(1, &[2, 0], &[10.0, 10.1], &[1.0; 3])).unwrap();
    test.add(&block(2, &[1, 2], &[10.0, 10.1], &[1.0; 3])).unwrap();
    let pairs: Vec<usize> = test.further.iter().map(|state| state.test.judge.pairs()).collect();
    assert_eq!((pairs, test.arm_pairs[0].judge.pairs(), test.pairs()), (vec![1, 2], 2, 1));
}
