//! Draws the value of the worst session against the number of sessions, and the limit that every session has to hold.

use evenkeel_fleet::capacity::{Limit, Step};
use evenkeel_trial::ArmName;
use maud::{Markup, html};

use super::{Axis, Scale, Source, framed, line, mark, percent, pixel};
use crate::report::words::trim;

/// The height of the plot, in pixels, and the position of the labels below it.
const HEIGHT: f64 = 240.0;
const NAMES: f64 = HEIGHT - 20.0;
/// The maximum number of labels below the plot.
const NAMED: usize = 12;

/// Draws the limit with index `at`. `curves` has the curve without the settings.
/// If settings are compared, it also has the curve with them. Draws nothing if no session had a value.
pub(crate) fn sessions(curves: &[&[Step]], at: usize, limit: &Limit, source: &Source) -> Markup {
    let drawn: Vec<Vec<(&Step, f64)>> = curves.iter().map(|curve| points(curve, at)).collect();
    let all = || drawn.iter().flatten();
    let Some(most) = all().map(|(step, _)| step.sessions).max() else { return html! {} };
    let scale = Scale::over(all().map(|(_, value)| *value).chain([limit.value]), 18.0, NAMES - 8.0);
    let axis = Axis { from: 1.0, to: f64::from(most.max(2)), at_from: 2.0, at_to: 97.0 };
    let bound = if limit.is_higher_better { "at least" } else { "at most" };
    let tooltip = format!(
        "{} of the worst session by the number of sessions; the limit is {bound} {}",
        limit.metric,
        trim(limit.value)
    );
    let mut numbers: Vec<u32> = all().map(|(step, _)| step.sessions).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let inside = html! {
        (line("0%", scale.at(limit.value), "100%", scale.at(limit.value), "rule"))
        @for (curve, arm) in drawn.iter().zip([ArmName::A, ArmName::B]) { (one(curve, arm, limit, axis, scale)) }
        @for number in numbers.iter().step_by(numbers.len().div_ceil(NAMED).max(1)) {
            text x=(percent(axis.at(f64::from(*number)))) y=(pixel(NAMES + 14.0)) text-anchor="middle" { (number) }
        }
    };
    html! {
        figure {
            (framed(HEIGHT, &tooltip, scale, &limit.unit, &inside))
            figcaption {
                code { (limit.metric) } " of the worst session by the number of sessions, the median over the windows. The dashed line is the limit: "
                (bound) " " (trim(limit.value)) "."
                @if curves.len() > 1 { " Rings: without the settings; squares: with them." }
            }
            (source.line())
        }
    }
}

/// The numbers of sessions that have a value, in their order.
fn points(curve: &[Step], at: usize) -> Vec<(&Step, f64)> {
    let with_value = |step: &'_ Step| step.worst.get(at).copied().flatten().filter(|value| value.is_finite());
    let mut points: Vec<(&Step, f64)> = curve.iter().filter_map(|step| Some((step, with_value(step)?))).collect();
    points.sort_by_key(|(step, _)| step.sessions);
    points
}

fn one(curve: &[(&Step, f64)], arm: ArmName, limit: &Limit, axis: Axis, scale: Scale) -> Markup {
    let x = |step: &Step| axis.at(f64::from(step.sessions));
    let class = if arm == ArmName::A { "spread-a" } else { "spread-b" };
    let words = |step: &Step, value: f64| {
        let held = format!("{} of {} windows held", step.held, step.held + step.broken);
        format!("{} sessions: {} {}; {held}", step.sessions, trim(value), limit.unit)
    };
    html! {
        @for pair in curve.windows(2) {
            @let (from, to) = (pair[0], pair[1]);
            (line(&percent(x(from.0)), scale.at(from.1), &percent(x(to.0)), scale.at(to.1), class))
        }
        @for (step, value) in curve { (mark(arm == ArmName::A, x(step), scale.at(*value), &words(step, *value))) }
    }
}
