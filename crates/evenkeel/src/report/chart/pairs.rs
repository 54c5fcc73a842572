//! Draws the pairs in the order of measurement.
//! Each pair is a line from A's ring on the left to the other arm's square on the right.

use evenkeel_trial::saved::PairOfWindows;
use evenkeel_trial::{ArmName, Report};
use maud::{Markup, html};

use super::{Scale, Source, framed, line, mark, percent, pixel};
use crate::report::words::trim;

/// The height of the plot, in pixels, and the position of the pair numbers below it.
const HEIGHT: f64 = 240.0;
const NAMES: f64 = HEIGHT - 20.0;
/// The maximum number of drawn pairs. On a phone, more lines would merge into a grey band.
const DRAWN_MAX: usize = 100;
/// The maximum number of pair numbers on the axis.
const NAMED: usize = 4;

/// Draws the pairs, or nothing if no pair was measured.
pub(crate) fn pairs(trial: &Report, source: &Source) -> Markup {
    let all = trial.pairs_of_windows();
    if all.is_empty() {
        return html! {};
    }
    let step = all.len().div_ceil(DRAWN_MAX);
    let drawn: Vec<PairOfWindows<'_>> = all.iter().copied().step_by(step).collect();
    let scale = Scale::over(drawn.iter().flat_map(|pair| [pair.a.value, pair.b.value]), 18.0, NAMES - 8.0);
    let lower = all.iter().filter(|pair| pair.b.value < pair.a.value).count();
    let other = trial.other();
    let count = format!("{other} is lower than A in {lower} of {} pairs", all.len());
    let inside = html! {
        @for (at, pair) in drawn.iter().enumerate() { (one(pair, other, at, drawn.len(), scale)) }
        @for (at, pair) in drawn.iter().enumerate().step_by(drawn.len().div_ceil(NAMED)) {
            text x=(percent(middle(at, drawn.len()))) y=(pixel(NAMES + 14.0)) text-anchor="middle" { (pair.pair.saturating_add(1)) }
        }
    };
    html! {
        figure {
            (framed(HEIGHT, &format!("each pair as a line from A to {other}: {count}"), scale, &trial.metric.unit, &inside))
            figcaption {
                b { (count) "." } " Each line is one pair, numbered in the order of time: A left, " (other) " right ("
                (crate::view::html::key(other)) "). A solid line falls to " (other) ", a dashed one rises."
                @if step > 1 { " Every " (step) "th pair is drawn; report.json has them all." }
            }
            (source.line())
        }
    }
}

fn middle(at: usize, of: usize) -> f64 {
    1.0 + 98.0 / of as f64 * (at as f64 + 0.5)
}

fn one(pair: &PairOfWindows<'_>, other: ArmName, at: usize, of: usize, scale: Scale) -> Markup {
    let middle = middle(at, of);
    // The two marks are apart even if a pair has few pixels, and never overlap the next pair.
    let offset = (98.0 / of as f64 * 0.22).min(2.0);
    let (a_x, b_x) = (middle - offset, middle + offset);
    let (a, b) = (pair.a.value, pair.b.value);
    let class = if b < a { "falls" } else { "rises" };
    let words = |name: ArmName, value: f64| {
        let place = if (name == ArmName::A) == (pair.first == ArmName::A) { "first" } else { "second" };
        format!("pair {}, {name}, measured {place}: {}", pair.pair.saturating_add(1), trim(value))
    };
    html! {
        (line(&percent(a_x), scale.at(a), &percent(b_x), scale.at(b), class))
        (mark(true, a_x, scale.at(a), &words(ArmName::A, a)))
        (mark(false, b_x, scale.at(b), &words(other, b)))
    }
}
