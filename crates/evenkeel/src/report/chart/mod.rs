//! Charts of a trial as self-contained SVG.
//! Widths are in per cent and heights in pixels, so text has the same size on a phone, on a screen and on paper.
//! Each colour with a meaning has a shape with the same meaning.

use maud::{Markup, html};

mod boots;
mod distribution;
mod effect;
mod pairs;
mod sessions;
mod timeline;

pub(super) use boots::boots;
pub(super) use distribution::distribution;
pub(super) use effect::{Estimate, estimates};
pub(super) use pairs::pairs;
pub(super) use sessions::sessions;
pub(super) use timeline::{timeline, timeline_of_all};

use super::words::trim;

/// The source of a chart's numbers: host, date and command. A copy of the chart outside the page keeps its source.
pub(super) struct Source {
    pub(super) host: String,
    pub(super) date: String,
    pub(super) command: String,
}

impl Source {
    /// The line with the source below a chart.
    fn line(&self) -> Markup {
        html! { p.source { (self.host) " · " (self.date) " · " code { (self.command) } } }
    }
}

/// The maximum number of labels on an axis.
const LABELS_MAX: usize = 5;
/// The maximum reach of an axis of ratios, as a logarithm: 4 is a factor of 55 in both directions.
const EXTENT_MAX: f64 = 4.0;

/// Maps a range of values to a range of pixels or per cent.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: f64,
    to: f64,
    at_from: f64,
    at_to: f64,
}

impl Axis {
    fn at(self, value: f64) -> f64 {
        let share = if self.to > self.from { (value - self.from) / (self.to - self.from) } else { 0.5 };
        // Draw a value outside of the axis at its edge. The value counts in the verdict, so a reader must see it.
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        self.at_from + share * (self.at_to - self.at_from)
    }
}

/// A vertical axis of values. It is logarithmic if the values are far apart.
#[derive(Clone, Copy, Debug)]
struct Scale {
    axis: Axis,
    is_log: bool,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64> + Clone, top: f64, bottom: f64) -> Scale {
        let values = values.filter(|value| value.is_finite());
        let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let least = values.fold(f64::INFINITY, f64::min).min(most);
        let is_log = least > 0.0 && most / least > 10.0;
        let (from, to) = match (is_log, least < most * 0.6) {
            (true, _) => (least.ln(), most.ln()),
            (false, true) if least >= 0.0 => (0.0, most),
            (false, _) => (least - least.abs() * 0.02, most + most.abs() * 0.02),
        };
        Scale { axis: Axis { from, to, at_from: bottom, at_to: top }, is_log }
    }

    fn at(self, value: f64) -> f64 {
        self.axis.at(if self.is_log { value.ln() } else { value })
    }

    fn labels(self) -> Vec<f64> {
        match self.is_log {
            false => labels(self.axis.from, self.axis.to),
            true => {
                let powers = (self.axis.from / std::f64::consts::LN_10).floor() as i32
                    ..=(self.axis.to / std::f64::consts::LN_10).ceil() as i32;
                let all: Vec<f64> = powers.flat_map(|power| [1.0, 3.0].map(|part| part * 10_f64.powi(power))).collect();
                let inside = |value: &f64| (self.axis.from..=self.axis.to).contains(&value.ln());
                let inside: Vec<f64> = all.into_iter().filter(inside).collect();
                let step = inside.len().div_ceil(LABELS_MAX).max(1);
                inside.into_iter().step_by(step).collect()
            }
        }
    }
}

/// A chart together with the labels of its vertical axis.
fn framed(height: f64, tooltip: &str, scale: Scale, unit: &str, inside: &Markup) -> Markup {
    html! {
        div.drawing {
            svg.scale width="52" height=(height) aria-hidden="true" {
                text x="46" y="10" text-anchor="end" { (unit) }
                @for value in scale.labels() {
                    text x="46" y=(pixel(scale.at(value) + 4.0)) text-anchor="end" { (trim(value)) }
                }
            }
            svg.plot width="100%" height=(height) role="img" aria-label=(tooltip) {
                @for value in scale.labels() { (line("0%", scale.at(value), "100%", scale.at(value), "grid")) }
                (inside)
            }
        }
    }
}

/// A mark of an arm: a ring for A, a filled square for B.
fn mark(is_a: bool, x: f64, y: f64, tooltip: &str) -> Markup {
    html! {
        @if is_a { circle.a cx=(percent(x)) cy=(pixel(y)) r="3.5" { title { (tooltip) } } }
        @else { rect.b x=(percent(x)) y=(pixel(y)) width="7" height="7" transform="translate(-3.5 -3.5)" { title { (tooltip) } } }
    }
}

fn line(x1: &str, y1: f64, x2: &str, y2: f64, class: &str) -> Markup {
    html! { line class=(class) x1=(x1) y1=(pixel(y1)) x2=(x2) y2=(pixel(y2)) {} }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

fn pixel(value: f64) -> String {
    format!("{value:.1}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_and_inside() {
        assert_eq!(labels(0.0, 50.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(labels(49.0, 51.2).len(), 5);
        for (from, to) in [(0.0, 0.0), (1.0, f64::INFINITY), (f64::NAN, 2.0), (3.0, 1.0)] {
            assert!(labels(from, to).len() <= 1, "{from} {to}");
        }
    }

    #[test]
    fn outside_values_are_drawn_at_the_edge() {
        let axis = Axis { from: 0.0, to: 10.0, at_from: 100.0, at_to: 0.0 };
        assert_eq!([-5.0, 0.0, 5.0, 99.0, f64::NAN].map(|value| axis.at(value)), [100.0, 100.0, 50.0, 0.0, 50.0]);
    }

    #[test]
    fn scales_hold_whatever_there_is() {
        let table: &[&[f64]] = &[
            &[],
            &[0.0],
            &[5.0],
            &[f64::NAN, 1.0],
            &[1e-150, 1e150],
            &[-3.0, 4.0],
            &[1.0, 1e6],
            &[f64::MAX, f64::MIN],
        ];
        for values in table {
            let scale = Scale::over(values.iter().copied(), 0.0, 100.0);
            assert!(scale.labels().len() <= LABELS_MAX + 1, "{values:?}: {:?}", scale.labels());
            for value in *values {
                assert!((0.0..=100.0).contains(&scale.at(*value)), "{values:?}");
            }
        }
        let far = Scale::over([3.0, 30_000.0].into_iter(), 0.0, 100.0);
        assert_eq!(far.labels(), [3.0, 30.0, 300.0, 3000.0, 30000.0]);
    }
}
