//! One trial's part of the page: the verdict, what speaks against it, the effect beside the control and the smallest effect that
//! matters, the pairs, the timeline, what each arm cost, whether the knob was at work, and what was dropped.

use std::collections::BTreeMap;

use evenkeel_stats::Direction;
use evenkeel_trial::saved::{Saved, SavedControl, SavedEffect, SavedPair, SavedTrial, numbers};
use evenkeel_trial::{ArmName, Outcome};
use maud::{Markup, html};
use serde_json::Value;

use super::chart::{self, Estimate};
use super::counted;
use super::html::{key, sentence, word};
use super::words::{as_change, range, share, trim};

/// Ratios of pairs that are marked under an interval.
const RUG_MAX: usize = 400;

pub(super) fn section(saved: &Saved, trial: &SavedTrial, anchor: &str) -> Markup {
    html! {
        section id=(anchor) {
            h2 {
                @if saved.choice.is_some() { "Arm " (trial.other()) ": " }
                @if trial.control { "Control: the same against itself" } @else { "Trial: " code { (trial.knob) } }
            }
            p.verdict { (word(trial.verdict)) " " strong { (sentence(&trial.sentence)) } }
            (doubts(&trial.caveat_texts()))
            (effect(saved, trial))
            (control(trial.control_stretch.as_ref()))
            (guards(trial))
            (arms(trial))
            (chart::pairs(trial))
            // Of several arms one drawing has them all.
            @if saved.choice.is_none() { (chart::timeline(trial)) }
            (counted::costs(trial))
            (counted::at_work(trial))
            (dropped(trial))
            (fixed(trial))
        }
    }
}

/// Before everything that might impress.
pub(super) fn doubts<D: ToString>(doubts: &[D]) -> Markup {
    html! {
        div.doubts {
            h3 { "What speaks against believing it" }
            @if doubts.is_empty() { p { "Nothing that this run could see." } }
            @else { ul { @for doubt in doubts { li { (sentence(&doubt.to_string())) } } } }
        }
    }
}

fn effect(saved: &Saved, trial: &SavedTrial) -> Markup {
    let Some(effect) = trial.effect else { return html! { p { "No pair counts: there is no estimate." } } };
    let rows = rows(saved, trial);
    let matters = trial.design.smallest_effect_ratio.unwrap_or(0.0);
    html! {
        figure {
            (chart::estimates(&rows, matters, ways(trial.metric.better)))
            figcaption {
                "The square is the estimate of how much " code { (trial.metric.name) } " changes, the bar its interval at "
                (trim(effect.confidence * 100.0)) " % confidence, the small marks below it the single pairs. Within the grey band (±"
                (share(matters)) ") a difference is too small to matter: that was fixed before the run."
                @if let Some(visible) = effect.smallest_visible_ratio {
                    " Smallest detectable difference in " (trial.pairs) " pairs: " (share(visible)) "."
                }
                @if let Some(e_value) = effect.e_value { " " (evidence(trial.other(), e_value, effect.confidence)) }
            }
        }
    }
}

/// What lower and higher mean on an axis of ratios.
pub(super) fn ways(better: Direction) -> [&'static str; 2] {
    match better {
        Direction::Lower => ["lower: better", "higher: worse"],
        Direction::Higher => ["lower: worse", "higher: better"],
    }
}

/// The e-value in words that hold: it is what a bet against "the arm does nothing" has grown to.
fn evidence(other: ArmName, e_value: f64, confidence: f64) -> String {
    let bar = 1.0 / (1.0 - confidence).max(f64::MIN_POSITIVE);
    format!(
        "Evidence that {other} does something at all: a fair bet against it would have made 1 into {}; a claim needs {}.",
        trim(e_value),
        trim(bar)
    )
}

/// The trial, what the machine makes of nothing, and the guards, on one axis.
fn rows(saved: &Saved, trial: &SavedTrial) -> Vec<Estimate> {
    let rug = |pairs: Vec<SavedPair<'_>>| pairs.iter().filter_map(SavedPair::ratio).take(RUG_MAX).collect();
    let row = |label: String, pairs: u64, effect: Option<SavedEffect>, rug: Vec<f64>| Estimate {
        label,
        beside: format!("{pairs} pairs"),
        ratio: effect.map(|effect| effect.ratio),
        interval: effect.and_then(|effect| effect.interval()),
        rug,
    };
    let own = if trial.control { "A against A".to_owned() } else { format!("{} against A", trial.other()) };
    let mut rows = vec![row(own, trial.pairs, trial.effect, rug(trial.pairs()))];
    if let Some(stretch) = &trial.control_stretch {
        let label = "A against A, before it".to_owned();
        rows.push(row(label, stretch.pairs, stretch.effect, rug(stretch.pairs_of_windows())));
    }
    let is_its_control = |other: &&SavedTrial| other.control && !trial.control && other.metric == trial.metric;
    if let Some(control) = saved.trials.iter().find(is_its_control) {
        rows.push(row("control: A against A".to_owned(), control.pairs, control.effect, rug(control.pairs())));
    }
    rows.extend(trial.guards.iter().map(|guard| {
        let label = format!("guard: {}", guard.metric.name);
        row(label, guard.pairs, guard.effect, Vec::new())
    }));
    rows
}

/// What the machine makes of nothing, in words.
fn control(stretch: Option<&SavedControl>) -> Markup {
    let Some(stretch) = stretch else { return html! {} };
    html! {
        p {
            "Before the trial the machine was compared with itself, by the same path: "
            @if stretch.is_claimed { strong { "it was called " (stretch.verdict) ", which is wrong" } }
            @else { "no difference was claimed, as it must be" }
            " (" (stretch.pairs) " pairs)."
            @if let Some(claims) = stretch.claim_share {
                " Trials made of this stretch's own noise claim a difference in " (share(claims)) " of the cases."
            }
        }
    }
}

/// The numbers that may not get worse.
fn guards(trial: &SavedTrial) -> Markup {
    if trial.guards.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Guards" }
        @if let Some(guard) = &trial.vetoed_by {
            p.bad { "The gain is vetoed: " code { (guard) } " got worse by more than was allowed." }
        }
        ul {
            @for guard in &trial.guards {
                li {
                    code { (guard.metric.name) } ": "
                    @match guard.verdict {
                        Outcome::Worse => strong { "got worse" },
                        Outcome::Better => "got better",
                        Outcome::Same => "not worse",
                        Outcome::Undecided | Outcome::NotEngaged => "could not be told",
                    }
                    @if let Some(effect) = guard.effect {
                        ": " (as_change(effect.ratio))
                        @if let Some((low, high)) = effect.interval() { ", " (range(low, high)) }
                    }
                    @if let Some(harm) = guard.harm_ratio { "; it vetoes at " (share(harm)) " worse" }
                }
            }
        }
    }
}

fn arms(trial: &SavedTrial) -> Markup {
    let number = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "not measured".to_owned(), |value| format!("{}{unit}", trim(value)))
    };
    html! {
        p { "Measured: " (trial.metric.title) " (" code { (trial.metric.name) } ")." }
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { "arm" } th scope="col" { "settings" }
                        th.n scope="col" { "median, " (trial.metric.unit) } th.n scope="col" { "server's CPU" }
                    }
                }
                tbody {
                    @for arm in &trial.arms {
                        tr {
                            th scope="row" { (format!("{:?}", arm.arm)) }
                            td { (arm.values) }
                            td.n { (number(arm.median, "")) }
                            td.n { (number(arm.cpu_share.map(|share| share * 100.0), " %")) }
                        }
                    }
                }
            }
        }
    }
}

fn dropped(trial: &SavedTrial) -> Markup {
    if trial.dropped.is_empty() {
        return html! { h3 { "What was dropped" } p { "Nothing: every pair that was measured counts." } };
    }
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for dropped in &trial.dropped {
        let arm = dropped.arm.map_or(2, |arm| usize::from(arm != ArmName::A));
        counts.entry(rule(&dropped.reason).0).or_default()[arm] += 1;
    }
    html! {
        h3 { "What was dropped" }
        p {
            (trial.dropped.len()) " pairs, beside " (trial.pairs) " that count, by rules that were fixed beforehand and do not know the arm. If one arm had far more of them than the other, the \
             setting itself may have caused them:"
        }
        div.wide {
            table {
                thead { tr { th scope="col" { "rule" } th.n scope="col" { "in A" } th.n scope="col" { "in " (trial.other()) } } }
                tbody {
                    @for (rule, [a, b, unknown]) in &counts {
                        tr {
                            th.name scope="row" { (rule) @if *unknown > 0 { " (" (unknown) " of an unknown arm)" } }
                            td.n { (a) } td.n { (b) }
                        }
                    }
                }
            }
        }
        details {
            summary { "Each dropped pair" }
            ul {
                @for dropped in &trial.dropped {
                    li {
                        "pair " (dropped.pair.saturating_add(1))
                        @if let Some(arm) = dropped.arm { ", in arm " (format!("{arm:?}")) }
                        ": " (rule(&dropped.reason).1)
                    }
                }
            }
        }
    }
}

/// A rule's name, and what was seen, in words; a rule of a later version is told by its name and its numbers.
fn rule(reason: &Value) -> (String, String) {
    let (name, inside) = match reason {
        Value::String(name) => (name.as_str(), &Value::Null),
        Value::Object(object) => match object.iter().next() {
            Some((name, inside)) => (name.as_str(), inside),
            None => ("unknown", &Value::Null),
        },
        _ => ("unknown", &Value::Null),
    };
    let number = |field: &str| inside.get(field).and_then(Value::as_f64);
    match (name, inside.get("what").and_then(Value::as_str)) {
        ("no-cpu", Some(what)) => {
            return ("the server was given no CPU".into(), format!("the server was given no CPU: {what}"));
        }
        ("no-value", Some(what)) => {
            return ("there was no value to compare".into(), format!("there was no value to compare: {what}"));
        }
        ("changed", Some(what)) => {
            return ("somebody else changed a setting".into(), format!("somebody else changed {what}"));
        }
        _ => {}
    }
    match (name, number("gap_us"), number("share"), number("span_us")) {
        ("gap", Some(us), ..) => ("the machine paused".into(), format!("the machine paused for {} ms", trim(us / 1e3))),
        ("steal", _, Some(stolen), _) => {
            ("CPU time was stolen".into(), format!("{} of CPU time was stolen", share(stolen)))
        }
        ("overrun", .., Some(us)) => {
            ("the window took too long".into(), format!("the window took {} ms", trim(us / 1e3)))
        }
        (name, ..) => {
            let seen: Vec<String> =
                numbers(inside).iter().map(|(name, value)| format!("{name} {}", trim(*value))).collect();
            (name.to_owned(), format!("{name} {}", seen.join(", ")).trim_end().to_owned())
        }
    }
}

fn fixed(trial: &SavedTrial) -> Markup {
    let design = &trial.design;
    let number = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), trim);
    let count = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let rules: Vec<String> =
        numbers(&design.rules).iter().map(|(name, value)| format!("{name} {}", trim(*value))).collect();
    html! {
        details {
            summary { "What was fixed before the run" }
            dl {
                dt { "metric that decides" } dd { code { (trial.metric.name) } }
                dt { "smallest effect that matters" } dd { (design.smallest_effect_ratio.map_or("unknown".into(), share)) }
                dt { "confidence" } dd { (design.confidence.map_or("unknown".into(), share)) }
                dt { "pairs" } dd { (ends(trial)) ", and " (count(design.spare_pairs)) " spare ones" }
                dt { "window" } dd { (number(design.window_ms)) " ms" (turns(trial)) ", after " (number(quiet_ms(trial))) " ms of quiet" }
                dt { "order" } dd { "by a coin, from seed " (count(trial.seed)) }
                dt { "a pair is dropped beyond" } dd { (if rules.is_empty() { "unknown".to_owned() } else { rules.join(", ") }) }
                dt { "server and load" } dd { (trial.workload) }
            }
            p { "Arms: " (key(trial.other())) "." }
        }
    }
}

/// How long the machine was left alone after a switch, in milliseconds.
fn quiet_ms(trial: &SavedTrial) -> Option<f64> {
    trial.settle.get("settle_ms").and_then(Value::as_f64).or(trial.design.settle_ms)
}

/// In how many turns the arms shared a window, in words; nothing of one.
fn turns(trial: &SavedTrial) -> String {
    let turns = trial.settle.get("turns").and_then(Value::as_u64);
    turns.map_or_else(String::new, |turns| format!(" in {turns} turns"))
}

/// When the trial was to end, in words.
fn ends(trial: &SavedTrial) -> String {
    let stop = &trial.design.stop;
    let number = |of: &str, field: &str| stop.get(of).and_then(|stop| stop.get(field)).and_then(Value::as_u64);
    match (number("sequential", "pairs_max"), number("after", "pairs").or(trial.design.pairs)) {
        (Some(most), _) => format!("looked at after each, at most {most}"),
        (None, Some(pairs)) => format!("{pairs}, looked at once"),
        (None, None) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_in_words_and_unknown_ones_by_name() {
        let table = [
            (serde_json::json!({ "gap": { "gap_us": 86_000.0 } }), "the machine paused for 86 ms"),
            (serde_json::json!({ "steal": { "share": 0.25 } }), "25 % of CPU time was stolen"),
            (serde_json::json!({ "overrun": { "span_us": 1_600_000.0 } }), "the window took 1600 ms"),
            (serde_json::json!({ "no-cpu": { "what": "main waited" } }), "the server was given no CPU: main waited"),
            (serde_json::json!({ "changed": { "what": "k from 5 to 6" } }), "somebody else changed k from 5 to 6"),
            (serde_json::json!({ "thermal": { "degrees": 98.0 } }), "thermal degrees 98"),
            (serde_json::json!("guard"), "guard"),
            (Value::Null, "unknown"),
            (serde_json::json!({}), "unknown"),
        ];
        for (reason, expected) in table {
            assert_eq!(rule(&reason).1, expected, "{reason}");
        }
    }
}
