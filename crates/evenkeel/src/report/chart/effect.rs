//! Draws estimates with their intervals, one per row, on one axis of ratios.
//! A band marks effects that are too small to matter.
//! The rows are a trial, its control and its guards, or one setting on several machines.

use maud::{Markup, html};

use super::{Axis, EXTENT_MAX, Source, percent, pixel};
use crate::report::words::{as_change, range, share};

const ROW_HEIGHT: f64 = 34.0;
const MIDDLE: f64 = 17.0;
/// The maximum number of marked pairs in one row. More marks would hide each other.
const RUG_MAX: usize = 400;

/// One row of the chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimate {
    /// The label of the row, usually the metric.
    pub(crate) label: String,
    /// A note in small letters below the label.
    pub(crate) note: String,
    /// The ratio of B to A; `None` without measurements.
    pub(crate) ratio: Option<f64>,
    /// The ends of the ratio's interval; `None` without an interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// The ratios of single pairs, as marks below the interval.
    pub(crate) rug: Vec<f64>,
}

/// Draws the estimates. `ways` explains lower and higher values.
pub(crate) fn estimates(rows: &[Estimate], matters_ratio: f64, ways: [&str; 2], source: &Source) -> Markup {
    let matters = matters_ratio.max(0.0).ln_1p();
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unzip();
        [row.ratio, low, high]
    });
    // A single pair may be far outside. Such pairs stretch the axis to at most twice the range of the intervals.
    let extent = ends.flatten().map(|ratio| ratio.ln().abs()).filter(|end| end.is_finite());
    let extent = (extent.fold(matters * 1.6, f64::max) * 1.15).clamp(0.02, EXTENT_MAX);
    let x = Axis { from: -extent, to: extent, at_from: 1.0, at_to: 99.0 };
    html! {
        div.estimates {
            @for row in rows { (one(row, x, matters)) }
            div.label {}
            div {
                (axis(x, extent))
                div.ends { span { "← " (ways[0]) } span { (ways[1]) " →" } }
            }
            div.change {}
        }
        (source.line())
    }
}

fn one(row: &Estimate, x: Axis, matters: f64) -> Markup {
    let tooltip = match (row.ratio, row.interval) {
        (None, _) => "not measured".to_owned(),
        (Some(ratio), None) => format!("{}, no interval", as_change(ratio)),
        (Some(ratio), Some((low, high))) => format!("{}, {}", as_change(ratio), range(low, high)),
    };
    let alternative =
        format!("{}: {tooltip}; changes within {} are too small to matter", row.label, share(matters.exp_m1()));
    html! {
        div.label { b { (row.label) } @if !row.note.is_empty() { br; small { (row.note) } } }
        svg.plot width="100%" height=(ROW_HEIGHT) role="img" aria-label=(alternative) {
            (band(x, matters))
            @for ratio in row.rug.iter().take(RUG_MAX) {
                @let at = percent(x.at(ratio.ln()));
                line.rug x1=(at) x2=(at) y1="27" y2="33" {}
            }
            @if let Some((low, high)) = row.interval {
                @let (low, high) = (x.at(low.ln()), x.at(high.ln()));
                line.whisker x1=(percent(low)) x2=(percent(high)) y1=(MIDDLE) y2=(MIDDLE) {}
                @for end in [low, high] { line.whisker x1=(percent(end)) x2=(percent(end)) y1="11" y2="23" {} }
            }
            @if let Some(ratio) = row.ratio {
                rect.estimate x=(percent(x.at(ratio.ln()))) y=(MIDDLE) width="9" height="9"
                    transform=(format!("translate(-4.5 {})", pixel(-4.5))) {}
            }
        }
        div.change { (tooltip) }
    }
}

fn band(x: Axis, matters: f64) -> Markup {
    let (from, to) = (x.at(-matters), x.at(matters));
    html! {
        rect.band x=(percent(from)) y="0" width=(percent(to - from)) height=(ROW_HEIGHT) {}
        line.zero x1=(percent(x.at(0.0))) x2=(percent(x.at(0.0))) y1="0" y2=(ROW_HEIGHT) {}
    }
}

fn axis(x: Axis, extent: f64) -> Markup {
    html! {
        svg.plot width="100%" height="18" aria-hidden="true" {
            @for (ratio, label) in ratio_labels(extent) {
                text x=(percent(x.at(ratio.ln()))) y="12" text-anchor="middle" { (label) }
            }
        }
    }
}

/// The ratios with a label, on an axis that reaches `extent` in both directions. The labels are changes in per cent.
fn ratio_labels(extent: f64) -> Vec<(f64, &'static str)> {
    let fine = [(0.98, "−2 %"), (0.99, "−1 %"), (1.0, "0"), (1.01, "+1 %"), (1.02, "+2 %")];
    let small = [(0.9, "−10 %"), (0.95, "−5 %"), (1.0, "0"), (1.05, "+5 %"), (1.1, "+10 %")];
    let middle = [(0.5, "−50 %"), (0.75, "−25 %"), (1.0, "0"), (1.33, "+33 %"), (2.0, "+100 %")];
    let coarse = [(0.02, "÷50"), (0.1, "÷10"), (0.3333, "÷3"), (1.0, "0"), (3.0, "×3"), (10.0, "×10"), (50.0, "×50")];
    let choice: &[(f64, &str)] = match extent {
        extent if extent < 0.06 => &fine,
        extent if extent < 0.3 => &small,
        extent if extent < 1.2 => &middle,
        _ => &coarse,
    };
    choice.iter().copied().filter(|(ratio, _)| ratio.ln().abs() <= extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_labels_inside_it() {
        for extent in [0.021, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0] {
            let labels = ratio_labels(extent);
            assert!(labels.len() >= 3, "{extent}: {labels:?}");
            assert!(labels.iter().any(|(ratio, _)| *ratio == 1.0));
        }
    }

    #[test]
    fn unbounded_and_missing_intervals_are_drawn() {
        let rows = [
            Estimate { label: "nothing".into(), ..Estimate::default() },
            Estimate { label: "wild".into(), ratio: Some(1e300), rug: vec![1e-300, 1.0, 1e300], ..Estimate::default() },
            Estimate { label: "<b>".into(), ratio: Some(1.0), interval: Some((0.5, 2.0)), ..Estimate::default() },
        ];
        let drawn = estimates(
            &rows,
            0.05,
            ["lower", "higher"],
            &Source { host: "h".into(), date: "d".into(), command: "c".into() },
        )
        .into_string();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf") && !drawn.contains("<b><b>"), "{drawn}");
        assert!(drawn.contains("not measured") && drawn.contains("no interval"));
    }
}
