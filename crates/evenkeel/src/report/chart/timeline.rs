//! Draws every window over the time of the trial, and below it the machine's conditions on the same time axis.
//! A reader can check whether a condition explains a value.

use evenkeel_trial::saved::TrialEntry;
use evenkeel_trial::{ArmName, Conditions, Report, Rules, Window};
use maud::{Markup, html};

use super::{Axis, Scale, Source, framed, mark, percent, pixel};
use crate::report::words::trim;

const HEIGHT: f64 = 180.0;
/// The height of the row of one arm, in pixels, if each arm has its own row.
const ROW_HEIGHT: f64 = 110.0;
const STRIP_HEIGHT: f64 = 34.0;
/// The maximum number of drawn windows. If the trial has more, the chart skips windows, so that the page stays small.
const WINDOWS_MAX: usize = 600;
/// The number of time slices of a strip. Each slice shows the maximum over its windows.
const SLICES_MAX: usize = 240;

/// A strip for one of the windows' conditions:
/// how to read the condition, its title, its unit, and the factor that converts the value to that unit.
struct Strip {
    of: fn(&Conditions) -> Option<f64>,
    title: &'static str,
    unit: &'static str,
    factor: f64,
    /// The limit above which evenkeel drops the pair of the window; `None` without such a rule.
    rule: Option<fn(&Rules) -> f64>,
}

const STRIPS: &[Strip] = &[
    strip(|seen| seen.steal_share, "CPU time taken by the hypervisor", "%", 100.0, Some(|rules| rules.steal_share_max)),
    strip(|seen| seen.longest_gap_us, "longest gap of a watching thread", "ms", 1e-3, Some(|rules| rules.gap_us_max)),
    strip(|seen| seen.cpu_pressure_share, "time in which tasks waited for a CPU", "%", 100.0, None),
    strip(|seen| seen.busy_share, "CPUs busy", "%", 100.0, None),
    strip(|seen| seen.load_1min, "load average, one minute", "", 1.0, None),
];

const fn strip(
    of: fn(&Conditions) -> Option<f64>,
    title: &'static str,
    unit: &'static str,
    factor: f64,
    rule: Option<fn(&Rules) -> f64>,
) -> Strip {
    Strip { of, title, unit, factor, rule }
}

/// Draws the timeline, or nothing if no window exists.
pub(crate) fn timeline(trial: &Report, source: &Source) -> Markup {
    drawn(trial, &trial.windows.iter().collect::<Vec<_>>(), false, source)
}

/// Draws one timeline for several arms of one session.
/// The trials share the windows of A, so the timeline draws these once.
pub(crate) fn timeline_of_all(trials: &[TrialEntry], source: &Source) -> Markup {
    let Some(first) = trials.first().map(|entry| &entry.report) else { return html! {} };
    let mut all: Vec<&Window> = trials.iter().flat_map(|entry| &entry.report.windows).collect();
    all.sort_by(|one, other| one.start_us.total_cmp(&other.start_us));
    all.dedup_by(|one, other| (one.pair, one.arm) == (other.pair, other.arm));
    drawn(first, &all, true, source)
}

fn drawn(trial: &Report, windows: &[&Window], is_of_all: bool, source: &Source) -> Markup {
    let control = trial.control_stretch.as_ref().map_or(&[][..], |stretch| &stretch.windows[..]);
    // In the A/A phase both arms are A.
    let of_control = control.iter().map(|window| (window, true));
    let all: Vec<(&Window, bool)> = of_control.chain(windows.iter().map(|window| (*window, false))).collect();
    if all.is_empty() {
        return html! {};
    }
    let last_us = all.iter().map(|(window, _)| window.start_us).fold(1.0, f64::max);
    let x = Axis { from: 0.0, to: last_us, at_from: 1.0, at_to: 98.0 };
    let step = all.len().div_ceil(WINDOWS_MAX);
    // The arms alternate, so an odd step draws windows of both arms.
    let step = if step > 1 { step | 1 } else { 1 };
    let drawn: Vec<&(&Window, bool)> = all.iter().step_by(step).collect();
    let begins = (!control.is_empty()).then(|| windows.first().map(|window| x.at(window.start_us) - 0.7)).flatten();
    let against = if is_of_all { "all arms".to_owned() } else { format!("A against {}", trial.other()) };
    let arm_of = |window: &Window, is_control: bool| if is_control { ArmName::A } else { window.arm };
    let mut arms: Vec<ArmName> = drawn.iter().map(|(window, is_control)| arm_of(window, *is_control)).collect();
    arms.sort_unstable();
    arms.dedup();
    // The windows of one block are close in time, so marks of several arms would cover each other.
    // Each arm has its own row instead.
    let rows: Vec<Option<ArmName>> = if is_of_all { arms.into_iter().map(Some).collect() } else { vec![None] };
    let height = if is_of_all { ROW_HEIGHT } else { HEIGHT };
    let scale = Scale::over(drawn.iter().map(|(window, _)| window.value), 18.0, height - 8.0);
    let row = |of: Option<ArmName>, is_first: bool| {
        html! {
            @if let Some(begins) = begins {
                line.zero x1=(percent(begins)) x2=(percent(begins)) y1="0" y2=(height) {}
                @if is_first {
                    text x=(percent(begins)) y="10" dx="-4" text-anchor="end" { "A/A phase" }
                    text x=(percent(begins)) y="10" dx="4" { (against) }
                }
            }
            @if let Some(arm) = of { text.b x="2" y="12" { (arm) } }
            @for (window, is_control) in &drawn {
                @let arm = arm_of(window, *is_control);
                @if of.is_none_or(|of| of == arm) {
                    @let (at, value, tooltip) = (x.at(window.start_us), scale.at(window.value), tooltip(window, *is_control));
                    (mark(arm == ArmName::A, at, value, &tooltip))
                }
            }
        }
    };
    let alternative = format!("{} of {} windows over {} s", trial.metric.name, all.len(), trim(last_us / 1e6));
    let every: Vec<&Window> = all.iter().map(|(window, _)| *window).collect();
    html! {
        figure {
            @for (at, of) in rows.iter().enumerate() {
                @let alternative = of.map_or(alternative.clone(), |arm| format!("arm {arm}: {alternative}"));
                (framed(height, &alternative, scale, &trial.metric.unit, &row(*of, at == 0)))
            }
            @for strip in STRIPS { (strip_row(&every, &trial.design.rules, strip, x)) }
            div.drawing { div.scale {} div.ends { span { "0 s" } span { (trim(last_us / 1e6)) " s" } } }
            figcaption {
                "Top: " code { (trial.metric.name) } " of each window; "
                @if is_of_all { "a row for each arm" } @else { (crate::report::markup::key(trial.other())) }
                ". Below: what the machine did at the same time. evenkeel drops a pair above a dashed line."
                @if step > 1 { " Every " (step) "th window is drawn above; the strips have them all." }
            }
            (source.line())
        }
    }
}

fn tooltip(window: &Window, is_control: bool) -> String {
    let stretch = if is_control { "A/A phase" } else { "trial" };
    let (pair, at_s) = (window.pair.saturating_add(1), trim(window.start_us / 1e6));
    format!("{stretch}, {:?}, pair {pair}, {at_s} s: {}", window.arm, trim(window.value))
}

fn strip_row(windows: &[&Window], rules: &Rules, strip: &Strip, x: Axis) -> Markup {
    let seen: Vec<(f64, f64)> = windows
        .iter()
        .filter_map(|window| Some((window.start_us, (strip.of)(&window.conditions)? * strip.factor)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let most = seen.iter().map(|(_, value)| *value).reduce(f64::max);
    let Some(most) = most else {
        return html! { p.strip { b { (strip.title) } ": unknown on this machine" } };
    };
    let rule = strip.rule.map(|rule| rule(rules) * strip.factor);
    // Draw the limit only if a window comes near it.
    let near = rule.filter(|rule| most > rule * 0.5);
    let top = [Some(most), near].into_iter().flatten().fold(f64::MIN_POSITIVE, f64::max);
    let y = Axis { from: 0.0, to: top, at_from: STRIP_HEIGHT, at_to: 2.0 };
    let tooltip = format!("{}: at most {} {}", strip.title, trim(most), strip.unit);
    html! {
        p.strip { b { (strip.title) } ": at most " (trim(most)) " " (strip.unit) }
        div.drawing {
            svg.scale width="52" height=(STRIP_HEIGHT) aria-hidden="true" {
                @if top > f64::MIN_POSITIVE { text x="46" y="10" text-anchor="end" { (trim(top)) } }
                text x="46" y=(STRIP_HEIGHT) text-anchor="end" { "0" }
            }
            svg.plot.low width="100%" height=(STRIP_HEIGHT) role="img" aria-label=(tooltip) {
                @for (at, value) in slices(&seen, x).into_iter().filter(|(_, value)| *value > 0.0) {
                    @let top = y.at(value);
                    rect.did x=(percent(at)) y=(pixel(top)) width="3" height=(pixel(STRIP_HEIGHT - top)) {}
                }
                @if let Some(rule) = near {
                    line.rule x1="0%" x2="100%" y1=(pixel(y.at(rule))) y2=(pixel(y.at(rule))) {}
                }
            }
        }
    }
}

/// The maximum in each slice of time, and the position of the slice.
fn slices(seen: &[(f64, f64)], x: Axis) -> Vec<(f64, f64)> {
    let mut most: Vec<Option<(f64, f64)>> = vec![None; SLICES_MAX];
    for (start_us, value) in seen {
        let at = x.at(*start_us);
        let slice = ((at / 100.0 * SLICES_MAX as f64) as usize).min(SLICES_MAX - 1);
        let keeps = most[slice].is_some_and(|(_, before)| before >= *value);
        if !keeps {
            most[slice] = Some((at, *value));
        }
    }
    most.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_shows_the_most_that_was_in_it() {
        let x = Axis { from: 0.0, to: 1e6, at_from: 0.0, at_to: 100.0 };
        let seen: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at) * 10.0, f64::from(at % 1000))).collect();
        let slices = slices(&seen, x);
        assert!(slices.len() <= SLICES_MAX);
        assert!(slices.iter().all(|(_, most)| *most >= 400.0), "a slice of 417 windows");
        assert_eq!(slices.iter().map(|(_, most)| *most).fold(0.0, f64::max), 999.0);
    }
}
