//! Draws the boots in order of time, each with its windows and their median.
//! A reader can see whether the arms differ, and whether boots differ more than the windows of one boot.

use evenkeel_stats::median;
use evenkeel_trial::ArmName;
use evenkeel_trial::boots::{BootOutcome, BootsReport, SeenBoot};
use maud::{Markup, html};

use super::{Scale, Source, framed, line, mark, percent, pixel};
use crate::report::words::trim;

const HEIGHT: f64 = 240.0;
/// The vertical position of the names of the boots, in pixels.
const NAMES: f64 = HEIGHT - 30.0;
/// The maximum number of drawn windows of one boot. More marks would hide each other.
const MARKS_MAX: usize = 60;

/// Draws the boots, or nothing if no boot was measured.
pub(crate) fn boots(report: &BootsReport, source: &Source) -> Markup {
    let drawn: Vec<Vec<(usize, f64)>> = report.boots.iter().map(|boot| some(values(boot))).collect();
    let Some(step) = report.boots.iter().map(|boot| step(values(boot))).max().filter(|_| !drawn.concat().is_empty())
    else {
        return html! {};
    };
    let metric = &report.design.metric;
    let scale = Scale::over(drawn.iter().flatten().map(|(_, value)| *value), 18.0, NAMES - 8.0);
    let inside = html! {
        @for (at, (boot, marks)) in report.boots.iter().zip(&drawn).enumerate() {
            (one(at, report.boots.len(), boot, marks, scale))
        }
    };
    html! {
        figure {
            (framed(HEIGHT, &tooltip(report), scale, &metric.unit, &inside))
            figcaption {
                "Each boot in the order of time: " code { (metric.name) } " of its windows, with a line at their median, which is the value of \
                 the boot (" (crate::view::html::key(ArmName::B)) "). A boot without marks does not count."
                @if step > 1 { " At most " (MARKS_MAX) " windows of a boot are drawn; boots.json has them all." }
            }
            (source.line())
        }
    }
}

fn values(boot: &SeenBoot) -> &[f64] {
    match &boot.outcome {
        BootOutcome::Measured { values, .. } => values,
        _ => &[],
    }
}

fn step(values: &[f64]) -> usize {
    values.len().div_ceil(MARKS_MAX)
}

/// The values of the drawn windows, each with the window's index.
fn some(values: &[f64]) -> Vec<(usize, f64)> {
    values.iter().copied().enumerate().step_by(step(values).max(1)).collect()
}

/// The description of the drawing for screen readers.
fn tooltip(report: &BootsReport) -> String {
    let unit = &report.design.metric.unit;
    let boots = report.boots.iter().enumerate().map(|(at, boot)| {
        let middle = median(values(boot))
            .map_or_else(|| "does not count".to_owned(), |middle| format!("{} {unit}", trim(middle)));
        format!("boot {} ({:?}) {}", at + 1, boot.arm, middle.trim_end())
    });
    format!(
        "{} of each boot's windows; the medians: {}",
        report.design.metric.name,
        boots.collect::<Vec<_>>().join(", ")
    )
}

fn one(at: usize, of: usize, boot: &SeenBoot, marks: &[(usize, f64)], scale: Scale) -> Markup {
    let slot = 98.0 / of as f64;
    let left = 1.0 + slot * at as f64;
    let (middle, inner) = (left + slot / 2.0, slot * 0.7);
    let count = values(boot).len();
    let x = |window: usize| left + slot * 0.15 + inner * (window as f64 + 0.5) / count.max(1) as f64;
    let name = format!("boot {}, {:?}", at + 1, boot.arm);
    html! {
        @for (window, value) in marks {
            (mark(boot.arm == ArmName::A, x(*window), scale.at(*value), &format!("{name}, window {}: {}", window + 1, trim(*value))))
        }
        @if let Some(middle) = median(values(boot)) {
            (line(&percent(left + slot * 0.1), scale.at(middle), &percent(left + slot * 0.9), scale.at(middle), "whisker"))
        }
        text x=(percent(middle)) y=(pixel(NAMES + 14.0)) text-anchor="middle" { (at + 1) }
        text x=(percent(middle)) y=(pixel(NAMES + 27.0)) text-anchor="middle" { (format!("{:?}", boot.arm)) }
    }
}
