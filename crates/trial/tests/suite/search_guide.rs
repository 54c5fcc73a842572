//! Guides on a simulated server with known effects.
//! A search tests all lines together first, and needs fewer windows than tests of one line at a time.

use evenkeel_trial::search::simulated::{Simulated, Truth, one_at_a_time};
use evenkeel_trial::search::{Answer, KnobAnswer, KnobOutcome, Log, SearchDesign, Stage, Verdict, WholeVerdict};

use crate::search::{design_of, run_on, seeds, set, windows};

/// Searches a guide: first all lines together, then the lines that matter.
fn settle_guide(truth: &Truth, seed: u64) -> Answer {
    let design = SearchDesign { whole_first: true, ..design_of(truth, seed) };
    run_on(&design, &mut Simulated::new(truth.clone(), seed), &mut Log::in_memory(Vec::new()))
}

/// The knobs that certainly hurt, with the error divided among all knobs.
fn hurting(answer: &Answer) -> Vec<usize> {
    let knobs = answer.knobs.len() as f64;
    let is_sure = |knob: &&(usize, &KnobAnswer)| {
        let p_value = knob.1.screening.as_ref().and_then(|seen| seen.p_value).unwrap_or(1.0);
        knob.1.outcome == KnobOutcome::Hurts && p_value * knobs <= 0.05
    };
    answer.knobs.iter().enumerate().filter(|knob| is_sure(&knob)).map(|(at, _)| at).collect()
}

#[test]
fn of_a_guide_of_forty_lines_the_right_four_are_found_in_half_the_windows_of_one_at_a_time() {
    let truth = Truth::guide_of_forty();
    let (mut right, mut spent, mut wrong) = (0, Vec::new(), String::new());
    for seed in 0..seeds() {
        let answer = settle_guide(&truth, seed);
        let is_right = answer.verdict == Verdict::Better && set(&answer) == [4, 11, 23] && hurting(&answer) == [17];
        right += u64::from(is_right);
        spent.push(windows(&answer));
        if !is_right {
            wrong += &format!("seed {seed}: {:?} {:?} hurts {:?}\n", answer.verdict, set(&answer), hurting(&answer));
        }
        assert!(answer.whole.is_some() && answer.windows[&Stage::Whole] > 0);
    }
    spent.sort_unstable();
    let ours = spent[spent.len() / 2];
    let mut singly = Vec::new();
    for seed in 0..seeds() / 4 {
        let mut server = Simulated::new(truth.clone(), seed);
        singly.push(one_at_a_time(&design_of(&truth, seed), &mut server, 300).unwrap().1);
    }
    singly.sort_unstable();
    let theirs = singly[singly.len() / 2];
    eprintln!("{right} of {} right, median {ours} windows, one at a time {theirs}\n{wrong}", seeds());
    let slack = if seeds() == 100 { 0 } else { 1 };
    assert!((right + slack) * 10 >= seeds() * 9, "{right} of {}\n{wrong}", seeds());
    assert!(ours * 2 <= theirs, "{ours} windows, one at a time {theirs}");
}

#[test]
fn of_a_guide_that_does_nothing_no_line_is_screened() {
    let truth = Truth { mains: Vec::new(), ..Truth::guide_of_forty() };
    let mut quiet = 0;
    for seed in 0..seeds() {
        let answer = settle_guide(&truth, seed);
        assert_ne!(answer.verdict, Verdict::Better, "seed {seed}");
        let is_same = answer.whole.as_ref().is_some_and(|whole| whole.verdict == WholeVerdict::Same);
        assert_eq!(is_same, !answer.windows.contains_key(&Stage::Screen), "seed {seed}");
        quiet += u64::from(is_same);
    }
    eprintln!("{quiet} of {} guides without an effect need no screening", seeds());
    assert!(quiet * 2 >= seeds());
}
