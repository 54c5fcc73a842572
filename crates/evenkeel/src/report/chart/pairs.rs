//! The pairs as they were measured: each is a line from A's ring to the other's square, whichever came first standing left, so that a
//! reader can count on which side the squares fall, and sees whether the first of the two had it easier.

use evenkeel_trial::saved::PairOfWindows;
use evenkeel_trial::{ArmName, Report};
use maud::{Markup, html};

use super::{Scale, framed, line, mark, percent};
use crate::report::words::trim;

const HEIGHT: f64 = 220.0;
/// On a telephone, more lines than this are a grey band.
const DRAWN_MAX: usize = 100;

/// Draws them, or nothing if there are none.
pub(crate) fn pairs(trial: &Report) -> Markup {
    let all = trial.pairs_of_windows();
    if all.is_empty() {
        return html! {};
    }
    let step = all.len().div_ceil(DRAWN_MAX);
    let drawn: Vec<PairOfWindows<'_>> = all.iter().copied().step_by(step).collect();
    let scale = Scale::over(drawn.iter().flat_map(|pair| [pair.a.value, pair.b.value]), 18.0, HEIGHT - 8.0);
    let lower = all.iter().filter(|pair| pair.b.value < pair.a.value).count();
    let other = trial.other();
    let count = format!("{other} is lower than A in {lower} of {} pairs", all.len());
    let inside = html! {
        @for (at, pair) in drawn.iter().enumerate() { (one(pair, other, at, drawn.len(), scale)) }
    };
    html! {
        figure {
            (framed(HEIGHT, &format!("each pair as a line from A to {other}: {count}"), scale, &trial.metric.unit, &inside))
            figcaption {
                b { (count) "." } " Each line is one pair of neighbouring windows, in the order of time; " (crate::report::markup::key(other))
                "; of the two, the left one was measured first, which a coin decided. Lines that fall to " (other) " are whole, those that \
                 rise are dashed."
                @if step > 1 { " Every " (step) "th pair is drawn; report.json has them all." }
            }
        }
    }
}

fn one(pair: &PairOfWindows<'_>, other: ArmName, at: usize, of: usize, scale: Scale) -> Markup {
    let slot = 98.0 / of as f64;
    let middle = 1.0 + slot * (at as f64 + 0.5);
    // Two marks are to be told apart even where a pair has few pixels, and never to reach into the next pair.
    let aside = (slot * 0.22).min(2.0);
    let (a_x, b_x) = match pair.first {
        ArmName::A => (middle - aside, middle + aside),
        _ => (middle + aside, middle - aside),
    };
    let (a, b) = (pair.a.value, pair.b.value);
    let class = if b < a { "falls" } else { "rises" };
    let told = |name: ArmName, value: f64| {
        let place = if (name == ArmName::A) == (pair.first == ArmName::A) { "first" } else { "second" };
        format!("pair {}, {name}, measured {place}: {}", pair.pair.saturating_add(1), trim(value))
    };
    html! {
        (line(&percent(a_x), scale.at(a), &percent(b_x), scale.at(b), class))
        (mark(true, a_x, scale.at(a), &told(ArmName::A, a)))
        (mark(false, b_x, scale.at(b), &told(other, b)))
    }
}
