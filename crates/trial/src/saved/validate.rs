//! Refuses values that no run can have. A report may come from anywhere, and code that shows or compares reports relies on these checks.

use super::{RunReport, SavedError};
use crate::arm::ARMS_MAX;
use crate::effect::Effect;
use crate::report::{Choice, Report};
use crate::session::Window;
use evenkeel_workload::Metric;

const TRIALS_MAX: usize = 1_000;
/// The maximum length of a list that has an item for each window of a trial.
const WINDOWS_MAX: usize = 100_000;
/// The maximum length of any other list.
const LIST_MAX: usize = 10_000;
/// The maximum length of the name or unit of a number, in bytes.
const NAME_BYTES_MAX: usize = 4_096;
/// The maximum duration, in microseconds: a year.
const TIME_US_MAX: f64 = 366.0 * 86_400e6;

/// The name of a field, and why its value is invalid.
type Wrong = (String, String);

impl RunReport {
    /// Checks that a run can have all values of this report.
    ///
    /// # Errors
    /// Returns the first field whose value no run can have.
    pub fn validate(&self) -> Result<(), SavedError> {
        self.wrong().map_or(Ok(()), |(at, why)| Err(SavedError::Impossible { at, why }))
    }

    fn wrong(&self) -> Option<Wrong> {
        let lists = [
            ("trials", self.trials.len(), TRIALS_MAX),
            ("advice", self.advice.len(), LIST_MAX),
            ("not_tried", self.not_tried.len(), LIST_MAX),
            ("settings", self.settings.len(), WINDOWS_MAX),
        ];
        let of_trial = |(at, entry): (usize, &super::TrialEntry)| {
            let (field, why) = trial(&entry.report)?;
            Some((format!("trial {}: {field}", at + 1), why))
        };
        let of_choice = || choice(&self.choice.as_ref()?.choice).map(|(field, why)| (format!("choice: {field}"), why));
        too_long(&lists).or_else(|| self.trials.iter().enumerate().find_map(of_trial)).or_else(of_choice)
    }
}

fn trial(report: &Report) -> Option<Wrong> {
    let control = report.control_stretch.as_ref();
    let of_control = control.map_or(&[][..], |control| &control.windows);
    let lists = [
        ("arms", report.arms.len(), ARMS_MAX),
        ("windows", report.windows.len(), WINDOWS_MAX),
        ("control_stretch.windows", of_control.len(), WINDOWS_MAX),
        ("dropped", report.dropped.len(), WINDOWS_MAX),
        ("pairs", report.pairs, WINDOWS_MAX),
        ("guards", report.guards.len(), LIST_MAX),
        ("costs", report.costs.len(), LIST_MAX),
        ("mechanism", report.mechanism.len(), LIST_MAX),
        ("caveats", report.caveats.len(), LIST_MAX),
    ];
    let effects = [("effect", report.effect), ("control_stretch.effect", control.and_then(|control| control.effect))];
    let guards = || {
        report.guards.iter().enumerate().find_map(|(at, guard)| {
            let wrong = metric(&guard.metric).or_else(|| effect(guard.effect?))?;
            Some((format!("guards[{at}].{}", wrong.0), wrong.1))
        })
    };
    too_long(&lists)
        .or_else(|| metric(&report.metric))
        .or_else(|| design(report))
        .or_else(|| effects.into_iter().find_map(|(name, seen)| Some((name.to_owned(), effect(seen?)?.1))))
        .or_else(guards)
        .or_else(|| windows("windows", &report.windows))
        .or_else(|| windows("control_stretch.windows", of_control))
}

fn choice(choice: &Choice) -> Option<Wrong> {
    let lists = [
        ("between", choice.between.len(), ARMS_MAX * ARMS_MAX),
        ("better", choice.better.len(), ARMS_MAX),
        ("alike", choice.alike.len(), ARMS_MAX),
    ];
    let between = || choice.between.iter().find_map(|between| effect(between.effect?));
    too_long(&lists).or_else(|| confidence(choice.confidence)).or_else(between)
}

fn too_long(lists: &[(&str, usize, usize)]) -> Option<Wrong> {
    let (name, count, most) = lists.iter().find(|(_, count, most)| count > most)?;
    Some(((*name).to_owned(), format!("{count} entries, but at most {most} are possible")))
}

fn metric(metric: &Metric) -> Option<Wrong> {
    let is_long = [&metric.name, &metric.title, &metric.unit].iter().any(|text| text.len() > NAME_BYTES_MAX);
    is_long.then(|| ("metric".to_owned(), format!("its words are longer than {NAME_BYTES_MAX} bytes")))
}

fn design(report: &Report) -> Option<Wrong> {
    let (ratio, name) = (report.design.smallest_effect_ratio, "design.smallest_effect_ratio");
    let is_share = ratio.is_finite() && ratio >= 0.0;
    (!is_share).then(|| (name.to_owned(), format!("{ratio} is not a share"))).or_else(|| {
        let (field, why) = confidence(report.design.confidence)?;
        Some((format!("design.{field}"), why))
    })
}

fn confidence(confidence: f64) -> Option<Wrong> {
    let is_share = confidence > 0.0 && confidence < 1.0;
    (!is_share).then(|| ("confidence".to_owned(), format!("{confidence} is not a confidence")))
}

fn effect(effect: Effect) -> Option<Wrong> {
    let wrong = |why: String| Some(("effect".to_owned(), why));
    let is_ratio = |ratio: f64| ratio.is_finite() && ratio > 0.0;
    let ends = [Some(effect.ratio), effect.low, effect.high];
    if let Some(ratio) = ends.into_iter().flatten().find(|ratio| !is_ratio(*ratio)) {
        return wrong(format!("{ratio} is not a ratio of two arms"));
    }
    if effect.ends().is_some_and(|(low, high)| low > high) {
        return wrong("its interval ends before it begins".to_owned());
    }
    confidence(effect.confidence).and_then(|(_, why)| wrong(why))
}

fn windows(list: &str, windows: &[Window]) -> Option<Wrong> {
    windows.iter().enumerate().find_map(|(at, window)| {
        let is_time = |us: f64| (0.0..=TIME_US_MAX).contains(&us);
        let wrong = |field: &str, why: String| Some((format!("{list}[{at}].{field}"), why));
        if !is_time(window.start_us) {
            return wrong("start_us", format!("{} is not a time in a trial", window.start_us));
        }
        if !is_time(window.conditions.span_us) {
            return wrong("conditions.span_us", format!("{} is not a length of a window", window.conditions.span_us));
        }
        (!window.value.is_finite()).then(|| wrong("value", format!("{} is not a number", window.value))).flatten()
    })
}
