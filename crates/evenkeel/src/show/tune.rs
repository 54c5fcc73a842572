//! The page of a search, and its progress.

use std::time::Duration;

use evenkeel_trial::search::{
    Answer, Chosen, KnobAnswer, KnobOutcome, LeftOut, Measure, SearchDesign, SearchEnded, SearchProgress, Stage,
    Verdict,
};
use evenkeel_trial::{Reach, SettleHow};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::report::as_change;
use crate::show::units::percent;
use crate::times;

/// The minimum change, as a ratio, for a line about a metric besides the primary metric.
/// The server's CPU time always gets a line.
const ALONG_RATIO: f64 = 1.05;
/// The maximum number of lines about other metrics.
const ALONG_MAX: usize = 6;

/// The answer of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct SearchResult {
    /// The result of the search.
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// The design of the search.
    pub(crate) design: SearchDesign,
    /// The server with its load.
    pub(crate) workload: String,
    /// Knobs that the search did not try, with the reasons.
    pub(crate) not_tried: Vec<LeftOut>,
    /// Whether every setting that the search switched now has its old value again.
    pub(crate) all_as_before: bool,
    /// The goal file, if evenkeel wrote one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_file: Option<String>,
    /// Whether `evenkeel apply` accepts the goal file without changes; absent without a goal file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_applies: Option<bool>,
    /// Warnings about the goal file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// The command that continues the search, for the page.
    #[serde(skip)]
    pub(crate) resume: String,
    /// The command that restores the remaining settings, for the page.
    #[serde(skip)]
    pub(crate) revert: String,
}

/// The page of a search.
pub(crate) fn page(result: &SearchResult) -> String {
    let answer = &result.answer;
    let mut text = headline(result);
    for chosen in &answer.set {
        text += &chosen_line(chosen);
    }
    for guard in &answer.guards {
        let verdict = if guard.is_harmed { ", beyond its limit" } else { "" };
        text += &format!("  guard {} {}{verdict}\n", guard.metric, as_change(guard.ratio));
    }
    text += &along(result);
    let named = |knob: &&KnobAnswer| knob.outcome != KnobOutcome::InTheSet;
    for knob in answer.knobs.iter().filter(named) {
        text += &format!("  {}: {}\n", knob.settings.join(" "), outcome(knob, result.design.smallest_effect_ratio));
    }
    for left in &result.not_tried {
        text += &format!("  not tried: {}: {}\n", left.knob, left.why);
    }
    text + &closing(result)
}

/// The end of a page, below the knobs: windows, noise, caveats, and what to do next.
pub(crate) fn closing(result: &SearchResult) -> String {
    let answer = &result.answer;
    let mut text = String::new();
    let windows: usize = answer.windows.values().sum();
    let by_stage: Vec<String> =
        answer.windows.iter().map(|(stage, count)| format!("{} {count}", name(*stage))).collect();
    text += &format!(
        "{windows} windows in {} ({}), seed {}, metric {}\n",
        times::words(Duration::from_millis(answer.took_ms)),
        by_stage.join(", "),
        result.design.seed,
        result.design.metric.name
    );
    text += &settled(result);
    for caveat in &answer.caveats {
        text += &format!("caveat: {caveat}\n");
    }
    if let Some(noise) = answer.noise_ratio {
        text += &format!("noise here: two windows of one configuration differ by {}\n", percent(noise));
    }
    text += &match result.all_as_before {
        true => "all settings are restored\n".to_owned(),
        false => format!("not all settings are restored: run {}\n", result.revert),
    };
    if let Some(more) = &answer.more_time {
        text += &format!("a --budget of about {} would decide {}\n", time(more.budget_s), knobs(more.knobs));
    }
    text += &match (&result.goal_file, result.goal_applies) {
        (None, _) => String::new(),
        (Some(file), Some(false)) => format!("goal file: {file}; `evenkeel apply` does not accept it yet:\n"),
        (Some(file), _) => format!("goal file: {file}\n  evenkeel apply {file}\n"),
    };
    for note in &result.notes {
        text += &format!("  {note}\n");
    }
    text
}

/// A budget in the form that `--budget` accepts.
fn time(seconds: u64) -> String {
    match seconds {
        0..600 => format!("{seconds}s"),
        _ => format!("{}min", seconds.div_ceil(60)),
    }
}

/// Text with the number of undecided knobs.
fn knobs(count: usize) -> String {
    if count == 1 { "the undecided knob".to_owned() } else { format!("the {count} undecided knobs") }
}

fn headline(result: &SearchResult) -> String {
    let answer = &result.answer;
    let metric = &result.design.metric.title;
    let ended = match &answer.ended {
        SearchEnded::Whole => String::new(),
        SearchEnded::OutOfBudget => "the budget ended. ".to_owned(),
        SearchEnded::Stopped => format!("stopped; `{}` continues it. ", result.resume),
        SearchEnded::Failed { why } => format!("the search failed: {why}; `{}` continues it. ", result.resume),
    };
    match (answer.verdict, &answer.effect) {
        (Verdict::Better, Some(effect)) => {
            let knobs =
                if answer.set.len() == 1 { "one knob".to_owned() } else { format!("{} knobs", answer.set.len()) };
            format!(
                "better: with {knobs}, {metric} is {}{}, in {} new pairs\n",
                as_change(effect.ratio),
                between(effect),
                effect.pairs
            )
        }
        (Verdict::NothingHelped, _) if answer.veto.is_some() => {
            let veto = answer.veto.as_deref().unwrap_or_default();
            format!("nothing helped: a guard rejected what improved {metric}: {veto}\n")
        }
        (Verdict::NothingHelped, _) => {
            format!("nothing helped: no set of these knobs improved {metric} clearly\n")
        }
        (_, effect) => {
            let so_far = effect.as_ref().map_or_else(String::new, |effect| {
                format!(" So far it is {}{}, in {} pairs.", as_change(effect.ratio), between(effect), effect.pairs)
            });
            format!("not proved: {ended}Below are the results so far for {metric}.{so_far}\n")
        }
    }
}

/// Text about the settle time after a switch, and whether it was measured.
fn settled(result: &SearchResult) -> String {
    let ms = result.design.settle_ms;
    let guess = result.design.settles.iter().find_map(|found| match &found.settle.how {
        SettleHow::Guessed { why } => Some(format!(", a guess: {why}")),
        SettleHow::Unsettled => Some(", but the metric still moved".to_owned()),
        SettleHow::Asked | SettleHow::Found => None,
    });
    let how = match (result.design.settles.is_empty(), guess) {
        (true, _) => String::new(),
        (false, Some(guess)) => guess,
        (false, None) => ", measured".to_owned(),
    };
    let each = result.design.settles.iter().filter_map(|found| {
        let what = match found.class? {
            Reach::AtOnce => "of a knob that works at once",
            Reach::NewSockets => "of a knob for new sockets",
            Reach::Restart => "of a knob that needs a restart",
        };
        Some(format!("{} after a switch {what}", times::words(found.settle.time())))
    });
    match each.collect::<Vec<_>>() {
        each if each.len() > 1 => format!("settle time: {}{how}\n", each.join(", ")),
        _ => format!("settle time: {}{how}\n", times::words(Duration::from_millis(ms))),
    }
}

fn between(measure: &Measure) -> String {
    match (measure.low, measure.high) {
        (Some(low), Some(high)) => format!(", between {} and {}", as_change(low), as_change(high)),
        _ => String::new(),
    }
}

fn chosen_line(chosen: &Chosen) -> String {
    let evidence = match (&chosen.without, chosen.is_shown) {
        (None, true) => "it has the whole effect".to_owned(),
        (None, false) => "looks needed".to_owned(),
        (Some(without), true) => format!("needed: {} than without it{}", as_change(without.ratio), between(without)),
        (Some(without), false) => {
            format!(
                "looks needed: {} than without it{}, not shown in {} pairs",
                as_change(without.ratio),
                between(without),
                without.pairs
            )
        }
    };
    format!("  {}\n    {evidence}\n", chosen.settings.join(" "))
}

/// Text about other metrics that changed with the set by more than chance: its costs and side effects.
fn along(result: &SearchResult) -> String {
    let shown = &result.answer.along_shown;
    let decided = result.design.metric.name.as_ref();
    let size = |ratio: f64| ratio.ln().abs();
    let mut changed: Vec<(&String, f64)> = result
        .answer
        .along
        .iter()
        .map(|(name, ratio)| (name, *ratio))
        .filter(|(name, _)| *name != decided && (name.as_str() == "cpu_share" || shown.contains(*name)))
        .filter(|(name, ratio)| name.as_str() == "cpu_share" || size(*ratio) > ALONG_RATIO.ln())
        .collect();
    // Put the server's CPU time first, because it is the cost that users ask about first.
    changed.sort_by(|a, b| (b.0 == "cpu_share").cmp(&(a.0 == "cpu_share")).then(size(b.1).total_cmp(&size(a.1))));
    let line = |(name, ratio): &(&String, f64)| format!("  also changed: {name} {}\n", as_change(*ratio));
    changed.iter().take(ALONG_MAX).map(line).collect()
}

pub(crate) fn outcome(knob: &KnobAnswer, smallest_effect_ratio: f64) -> String {
    let screened = knob
        .screening
        .as_ref()
        .map_or_else(String::new, |seen| format!(" ({} in the screening{})", as_change(seen.ratio), between(seen)));
    match &knob.outcome {
        KnobOutcome::InTheSet => "in the set".to_owned(),
        KnobOutcome::NoEffect if knob.screening.as_ref().is_some_and(|seen| seen.is_within(smallest_effect_ratio)) => {
            format!("no effect that matters{screened}")
        }
        KnobOutcome::NoEffect => format!("no effect beyond the noise{screened}"),
        KnobOutcome::Hurts => format!("makes it worse{screened}"),
        KnobOutcome::Stopped => {
            "stopped: it made the metric or a guard much worse, or the server exited or got no CPU".to_owned()
        }
        KnobOutcome::Vetoed { why } => format!("rejected: {why}{screened}"),
        KnobOutcome::NotEngaged { why } => format!("not engaged: {why}; its effect is unknown"),
        KnobOutcome::Refused { why } => format!("refused: {why}"),
        KnobOutcome::LeftOut { why } => format!("left out: {why}{screened}"),
        KnobOutcome::NotTried { why } => format!("not tried: {why}"),
        KnobOutcome::Unclear => format!("undecided{screened}"),
    }
}

pub(crate) fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Baseline => "baseline",
        Stage::Whole => "the whole guide",
        Stage::Screen => "screening",
        Stage::Ladder => "other values",
        Stage::Pairs => "combinations",
        Stage::Trim => "trimming",
        Stage::Confirm => "proof",
    }
}

/// The bar of a search.
pub(crate) fn bar(shown: bool) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:24}] {pos}/{len} windows, {prefix}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Shows the progress of a search.
pub(crate) fn show(bar: &ProgressBar, progress: &SearchProgress) {
    bar.set_length(progress.of as u64);
    bar.set_position(progress.windows as u64);
    bar.set_message(name(progress.stage));
    bar.set_prefix(progress.known.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interval_within_what_matters_is_called_nothing() {
        let words = |measure: &str| {
            let knob = format!(
                r#"{{"settings":["a.b=1"],"outcome":"no-effect","is_shown":false,"steps":0,"screening":{{"ratio":1.01,{measure}"pairs":9}}}}"#
            );
            outcome(&serde_json::from_str::<KnobAnswer>(&knob).unwrap(), 0.05)
        };
        let table = [
            (
                r#""low":0.97,"high":1.04,"#,
                "no effect that matters (1.0 % higher in the screening, between 3.0 % lower and 4.0 % higher)",
            ),
            (
                r#""low":0.91,"high":1.04,"#,
                "no effect beyond the noise (1.0 % higher in the screening, between 9.0 % lower and 4.0 % higher)",
            ),
            (
                r#""low":0.97,"high":1.16,"#,
                "no effect beyond the noise (1.0 % higher in the screening, between 3.0 % lower and 16 % higher)",
            ),
            ("", "no effect beyond the noise (1.0 % higher in the screening)"),
        ];
        for (measure, expected) in table {
            assert_eq!(words(measure), expected);
        }
    }
}
