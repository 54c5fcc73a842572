//! The two drawings of a trial, as SVG that needs nothing but itself: every pair's ratio against the interval, and every
//! window in the order it was measured above what the machine did meanwhile.

use evenkeel_trial::{ArmName, Report, Window};
use maud::{Markup, html};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
/// How many labels an axis gets at the most.
const LABELS_MAX: usize = 6;

/// Maps a range of values onto a range of pixels.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    pixel_from: f64,
    pixel_to: f64,
}

impl Axis {
    fn at(self, value: f64) -> f64 {
        let share = if self.to > self.from { (value - self.from) / (self.to - self.from) } else { 0.5 };
        // What lies outside is drawn at the edge: it is counted in the verdict, so it must be seen.
        self.pixel_from + share.clamp(0.0, 1.0) * (self.pixel_to - self.pixel_from)
    }
}

/// Each pair's ratio B to A on a logarithmic axis, the interval behind it, and the band within which nothing matters.
pub(super) fn pairs(report: &Report) -> Markup {
    let ratios = ratios(&report.windows);
    let matters = report.design.smallest_effect_ratio.ln_1p();
    let ends = report.effect.iter().flat_map(|effect| [effect.low, effect.high, Some(effect.ratio)]).flatten();
    let extent = ratios.iter().map(|ratio| ratio.ln().abs()).chain(ends.map(|end| end.ln().abs()));
    let extent = extent.fold(matters * 1.5, f64::max).min(4.0);
    let (top, bottom) = (12.0, 200.0);
    let y = Axis { from: -extent, to: extent, pixel_from: bottom, pixel_to: top };
    let x = Axis { from: -0.5, to: ratios.len() as f64 - 0.5, pixel_from: LEFT, pixel_to: WIDTH - RIGHT };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " 232" } role="img" aria-label="ratio of B to A, pair by pair" {
            rect.band x=(LEFT) width=(WIDTH - LEFT - RIGHT) y=(y.at(matters)) height=(y.at(-matters) - y.at(matters)) {}
            @if let Some(effect) = &report.effect {
                @if let (Some(low), Some(high)) = (effect.low, effect.high) {
                    rect.interval x=(LEFT) width=(WIDTH - LEFT - RIGHT)
                        y=(y.at(high.ln())) height=((y.at(low.ln()) - y.at(high.ln())).max(1.0)) {}
                }
                (line(LEFT, y.at(effect.ratio.ln()), WIDTH - RIGHT, y.at(effect.ratio.ln()), "estimate"))
            }
            (line(LEFT, y.at(0.0), WIDTH - RIGHT, y.at(0.0), "zero"))
            @for ratio in ratio_labels(extent) {
                text.tick x=(LEFT - 8.0) y=(y.at(ratio.ln()) + 4.0) text-anchor="end" { (trim(ratio)) "×" }
            }
            @for (pair, ratio) in ratios.iter().enumerate() {
                circle.pair cx=(x.at(pair as f64)) cy=(y.at(ratio.ln())) r="3.5" {
                    title { "pair " (pair + 1) ": B is " (format!("{ratio:.3}")) " of A" }
                }
            }
            text.axis x=((LEFT + WIDTH) / 2.0) y="224" text-anchor="middle" { "pairs, in the order they were measured" }
        }
    }
}

/// Every window's number over time, A and B apart, and below it the longest gap and the stolen share of each window.
pub(super) fn timeline(report: &Report) -> Markup {
    let windows = &report.windows;
    let (least, most) = bounds(windows.iter().map(|window| window.value));
    let last_us = windows.iter().map(|window| window.start_us).fold(1.0, f64::max);
    let x = Axis { from: 0.0, to: last_us, pixel_from: LEFT + 6.0, pixel_to: WIDTH - RIGHT - 6.0 };
    let y = Axis { from: least, to: most, pixel_from: 180.0, pixel_to: 24.0 };
    let gap_most_us = report.design.rules.gap_us_max;
    let gap = Axis { from: 0.0, to: gap_most_us, pixel_from: 252.0, pixel_to: 204.0 };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " 288" } role="img" aria-label="every window over time" {
            text.tick x=(LEFT - 8.0) y="10" text-anchor="end" { (report.metric.unit) }
            @for value in labels(least, most) {
                (line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "grid"))
                text.tick x=(LEFT - 8.0) y=(y.at(value) + 4.0) text-anchor="end" { (trim(value)) }
            }
            @for window in windows { (point(window, x.at(window.start_us), y.at(window.value))) }
            (line(LEFT, gap.at(0.0), WIDTH - RIGHT, gap.at(0.0), "grid"))
            text.tick x=(LEFT - 8.0) y=(gap.at(gap_most_us) + 10.0) text-anchor="end" { (trim(gap_most_us / 1000.0)) " ms" }
            text.tick x=(LEFT - 8.0) y=(gap.at(0.0)) text-anchor="end" { "gap" }
            @for window in windows {
                @if let Some(gap_us) = window.conditions.longest_gap_us {
                    (line(x.at(window.start_us), gap.at(0.0), x.at(window.start_us), gap.at(gap_us), "gap"))
                }
                @if let Some(share) = window.conditions.steal_share.filter(|share| *share > 0.0) {
                    circle.steal cx=(x.at(window.start_us)) cy="260" r=(2.0 + 20.0 * share.min(0.3)) {
                        title { (format!("{:.1} % stolen", share * 100.0)) }
                    }
                }
            }
            text.axis x=((LEFT + WIDTH) / 2.0) y="280" text-anchor="middle" {
                "seconds since the trial began: 0 to " (trim(last_us / 1e6))
            }
        }
    }
}

fn point(window: &Window, x: f64, y: f64) -> Markup {
    let told = format!("{:?}, pair {}: {}", window.arm, window.pair + 1, trim(window.value));
    match window.arm {
        ArmName::A => html! { circle.a cx=(x) cy=(y) r="4" { title { (told) } } },
        ArmName::B => html! { rect.b x=(x - 3.5) y=(y - 3.5) width="7" height="7" { title { (told) } } },
    }
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, class: &str) -> Markup {
    html! { line class=(class) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} }
}

fn ratios(windows: &[Window]) -> Vec<f64> {
    let of = |pair: &[Window], arm| pair.iter().find(|window| window.arm == arm).map(|window| window.value);
    windows
        .chunks_exact(2)
        .filter_map(|pair| Some(of(pair, ArmName::B)? / of(pair, ArmName::A)?))
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect()
}

/// The least and the most, from 0 where that does not squeeze the rest.
fn bounds(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let most = values.clone().fold(0.0, f64::max);
    let least = values.fold(f64::INFINITY, f64::min).min(most);
    if least < most * 0.6 { (0.0, most.max(f64::MIN_POSITIVE)) } else { (least * 0.98, most * 1.02) }
}

/// Round numbers between two ends.
fn labels(from: f64, to: f64) -> Vec<f64> {
    let rough = (to - from) / LABELS_MAX as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![from];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step).ceil() * step;
    (0..=LABELS_MAX).map(|index| first + index as f64 * step).filter(|value| *value <= to).collect()
}

/// Ratios to name on an axis that reaches `extent` either way, on the log scale.
fn ratio_labels(extent: f64) -> Vec<f64> {
    let fine = [0.9, 0.95, 1.0, 1.05, 1.1];
    let middle = [0.5, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0];
    let coarse = [0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 50.0];
    let choice: &[f64] = if extent < 0.2 {
        &fine
    } else if extent < 1.0 {
        &middle
    } else {
        &coarse
    };
    choice.iter().copied().filter(|ratio| ratio.ln().abs() <= extent).collect()
}

/// At most three significant digits, without zeros at the end.
fn trim(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 6.0) };
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_and_inside() {
        assert_eq!(labels(0.0, 60.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(labels(49.0, 51.2).len(), 5);
        for (from, to) in [(0.0, 0.0), (1.0, f64::INFINITY), (f64::NAN, 2.0), (3.0, 1.0)] {
            assert!(labels(from, to).len() <= 1, "{from} {to}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let told = [0.0, 12.0, 12.34, 0.5, 1234.5, 0.012_34].map(trim);
        assert_eq!(told, ["0", "12", "12.3", "0.5", "1234", "0.0123"]);
    }

    #[test]
    fn what_lies_outside_is_drawn_at_the_edge() {
        let axis = Axis { from: 0.0, to: 10.0, pixel_from: 100.0, pixel_to: 0.0 };
        assert_eq!([-5.0, 0.0, 5.0, 99.0].map(|value| axis.at(value)), [100.0, 100.0, 50.0, 0.0]);
    }
}
