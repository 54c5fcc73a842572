//! Draws the distribution of both arms.
//! For each quantile in the windows, it shows the median and the quartiles over the windows.

use evenkeel_stats::quantile;
use evenkeel_trial::{ArmName, Report, Window};
use maud::{Markup, html};

use super::{Scale, Source, line, mark, percent, pixel};
use crate::report::words::trim;

const ROW_HEIGHT: f64 = 44.0;
const AXIS_HEIGHT: f64 = 22.0;
/// The vertical distance of each arm from the middle of its row, in pixels.
const ARM_OFFSET: f64 = 8.0;
/// The endings of metric names, each with the name of its quantile.
const QUANTILES: [(&str, &str); 5] =
    [("_p50", "p50"), ("_p90", "p90"), ("_p99", "p99"), ("_p999", "p99.9"), ("_max", "max")];

/// One quantile in both arms.
struct Row {
    label: &'static str,
    a: Spread,
    b: Spread,
}

/// The quartiles of a metric over the windows of an arm.
#[derive(Clone, Copy)]
struct Spread {
    low: f64,
    middle: f64,
    high: f64,
}

impl Spread {
    fn from_values(values: &[f64]) -> Option<Spread> {
        Some(Spread { low: quantile(values, 0.25)?, middle: quantile(values, 0.5)?, high: quantile(values, 0.75)? })
    }

    fn all(self) -> [f64; 3] {
        [self.low, self.middle, self.high]
    }
}

/// Draws the quantiles, or nothing if an arm has no windows.
pub(crate) fn distribution(trial: &Report, source: &Source) -> Markup {
    let rows = rows(trial);
    if rows.is_empty() {
        return html! {};
    }
    let scale = Scale::over(rows.iter().flat_map(|row| [row.a.all(), row.b.all()].concat()), 96.0, 2.0);
    let other = trial.other();
    let height = rows.len() as f64 * ROW_HEIGHT;
    let unit = &trial.metric.unit;
    let arms = |row: &Row| format!("{} A {}, {other} {} {unit}", row.label, trim(row.a.middle), trim(row.b.middle));
    let alternative = format!("distribution of both arms: {}", rows.iter().map(arms).collect::<Vec<_>>().join("; "));
    html! {
        figure {
            div.drawing {
                svg.scale width="52" height=(height + AXIS_HEIGHT) aria-hidden="true" {
                    @for (at, row) in rows.iter().enumerate() {
                        text x="46" y=(pixel(middle(at) + 4.0)) text-anchor="end" { (row.label) }
                    }
                    text x="46" y=(pixel(height + 14.0)) text-anchor="end" { (unit) }
                }
                svg.plot width="100%" height=(height + AXIS_HEIGHT) role="img" aria-label=(alternative) {
                    @for value in scale.labels() {
                        @let x = percent(scale.at(value));
                        (line(&x, 0.0, &x, height, "grid"))
                        text x=(x) y=(pixel(height + 14.0)) text-anchor="middle" { (trim(value)) }
                    }
                    @for (at, row) in rows.iter().enumerate() {
                        (spread(row.a, middle(at) - ARM_OFFSET, scale, ArmName::A, row.label))
                        (spread(row.b, middle(at) + ARM_OFFSET, scale, other, row.label))
                    }
                }
            }
            figcaption {
                "Distribution of " code { (trial.metric.name) } " and its other quantiles, " (crate::report::markup::key(other))
                ": the mark is the median over the windows, the line spans the middle half of them."
            }
            (source.line())
        }
    }
}

fn middle(row: usize) -> f64 {
    (row as f64 + 0.5) * ROW_HEIGHT
}

fn spread(of: Spread, y: f64, scale: Scale, arm: ArmName, label: &str) -> Markup {
    let [low, middle, high] = of.all().map(|value| scale.at(value));
    let class = if arm == ArmName::A { "spread-a" } else { "spread-b" };
    let words =
        format!("{arm}, {label}: {}; half of the windows from {} to {}", trim(of.middle), trim(of.low), trim(of.high));
    html! {
        (line(&percent(low), y, &percent(high), y, class))
        (mark(arm == ArmName::A, middle, y, &words))
    }
}

/// One row for the primary metric, and one for each other quantile of the same measurement in the windows.
fn rows(trial: &Report) -> Vec<Row> {
    let name = trial.metric.name.as_ref();
    let stem = QUANTILES.iter().find_map(|(ending, _)| name.strip_suffix(ending));
    let row = |label: &'static str, of: &dyn Fn(&Window) -> Option<f64>| {
        let values = |is_a: bool| -> Vec<f64> {
            let windows = trial.windows.iter().filter(|window| (window.arm == ArmName::A) == is_a);
            windows.filter_map(of).filter(|value| value.is_finite()).collect()
        };
        Some(Row { label, a: Spread::from_values(&values(true))?, b: Spread::from_values(&values(false))? })
    };
    match stem {
        None => row("value", &|window| Some(window.value)).into_iter().collect(),
        Some(stem) => QUANTILES
            .iter()
            .filter_map(|(ending, label)| {
                let of = format!("{stem}{ending}");
                match of == name {
                    true => row(label, &|window| Some(window.value)),
                    false => row(label, &|window| window.sample.get(&of).copied()),
                }
            })
            .collect(),
    }
}
