//! The section for one trial: caveats, the effect with the A/A check
//! and the guards, pairs, distribution, timeline, costs, whether the setting was engaged, and dropped pairs.

use std::collections::BTreeMap;

use evenkeel_stats::Direction;
use evenkeel_trial::saved::{PairOfWindows, RunReport, TrialEntry, numbers};
use evenkeel_trial::{ArmName, ControlReport, DropReason, Effect, Outcome, Report, Stop};
use maud::{Markup, html};

use super::chart::{self, Estimate, Source};
use super::counted;
use super::markup::{key, sentence, word};
use super::words::{as_change, range, share, trim};
use crate::times;
use crate::view::{Block, html};

/// The maximum number of marked pairs below an interval.
const RUG_MAX: usize = 400;

pub(super) fn section(saved: &RunReport, entry: &TrialEntry, anchor: &str) -> Markup {
    let trial = &entry.report;
    let source = source(saved, trial);
    html! {
        section id=(anchor) {
            h2 {
                @if saved.choice.is_some() { "Arm " (trial.other()) ": " }
                @if entry.control { "Control: A against A" } @else { "Trial: " code { (entry.knob) } }
            }
            // If the report has only one trial, the top of the page already shows its verdict.
            @if saved.trials.len() > 1 { p.verdict { (word(trial.verdict)) " " strong { (sentence(&entry.sentence)) } } }
            (html::shown(&[Block::caveats(&trial.caveats)]))
            (effect(saved, entry, &source))
            (control(trial.control_stretch.as_ref()))
            (guards(trial))
            (arms(trial))
            div.side-by-side { (chart::pairs(trial, &source)) (chart::distribution(trial, &source)) }
            // If the report has several arms, another section has one timeline for all arms.
            @if saved.choice.is_none() { (chart::timeline(trial, &source)) }
            (html::shown(&counted::costs(entry)))
            (html::shown(&counted::engagement(entry)))
            (dropped(trial))
            (fixed(trial))
        }
    }
}

/// The host, the date and the command of a report.
pub(super) fn source(saved: &RunReport, trial: &Report) -> Source {
    let identity = &trial.identity;
    let instance = identity.instance.clone().or_else(|| saved.fact("/machine/instance_type"));
    let kernel =
        identity.kernel.clone().or_else(|| saved.fact("/kernel/release")).map(|kernel| format!("Linux {kernel}"));
    let cpus = identity.cpus.clone().or_else(|| saved.fact("/cpus/online")).map(|cpus| format!("CPUs {cpus}"));
    let host: Vec<String> = [instance, cpus, kernel].into_iter().flatten().collect();
    let known = |text: &str, unknown: &str| if text.is_empty() { unknown.to_owned() } else { text.to_owned() };
    Source {
        host: known(&host.join(", "), "unknown host"),
        date: known(saved.taken.as_deref().unwrap_or_default(), "unknown date"),
        command: known(saved.command.as_deref().unwrap_or_default(), "unknown command"),
    }
}

fn effect(saved: &RunReport, entry: &TrialEntry, source: &Source) -> Markup {
    let trial = &entry.report;
    let Some(effect) = trial.effect else { return html! { p { "No pair counts, so there is no estimate." } } };
    let rows = rows(saved, entry);
    let matters = trial.design.smallest_effect_ratio;
    html! {
        figure {
            (chart::estimates(&rows, matters, ways(trial.metric.better), source))
            figcaption {
                "Square: the estimated change of " code { (trial.metric.name) } ". Bar: its " (trim(effect.confidence * 100.0))
                " % confidence interval. Small marks: single pairs. Grey band (±" (share(matters))
                "): changes too small to matter, fixed before the run."
                @if let Some(visible) = effect.smallest_visible_ratio {
                    " Smallest detectable difference in " (trial.pairs) " pairs: " (share(visible)) "."
                }
                @if let Some(e_value) = effect.e_value { " " (evidence(trial.other(), e_value, effect.confidence)) }
            }
        }
    }
}

/// The meaning of lower and higher values on an axis of ratios.
pub(super) fn ways(better: Direction) -> [&'static str; 2] {
    match better {
        Direction::Lower => ["lower: better", "higher: worse"],
        Direction::Higher => ["lower: worse", "higher: better"],
    }
}

/// Text with the e-value against "the arm has no effect", and the e-value that a claim needs.
fn evidence(other: ArmName, e_value: f64, confidence: f64) -> String {
    let bar = 1.0 / (1.0 - confidence).max(f64::MIN_POSITIVE);
    format!("e-value against \u{201c}{other} has no effect\u{201d}: {} (a claim needs {}).", trim(e_value), trim(bar))
}

/// The rows of the chart: the trial, its control and its guards.
fn rows(saved: &RunReport, entry: &TrialEntry) -> Vec<Estimate> {
    let trial = &entry.report;
    let rug = |pairs: Vec<PairOfWindows<'_>>| pairs.iter().filter_map(PairOfWindows::ratio).take(RUG_MAX).collect();
    let row = |label: String, pairs: usize, effect: Option<Effect>, rug: Vec<f64>| Estimate {
        label,
        note: format!("{pairs} pairs"),
        ratio: effect.map(|effect| effect.ratio),
        interval: effect.and_then(|effect| effect.ends()),
        rug,
    };
    let own = if entry.control { "A against A".to_owned() } else { format!("{} against A", trial.other()) };
    let mut rows = vec![row(own, trial.pairs, trial.effect, rug(trial.pairs_of_windows()))];
    if let Some(stretch) = &trial.control_stretch {
        let label = "A/A phase".to_owned();
        rows.push(row(label, stretch.pairs, stretch.effect, rug(stretch.pairs_of_windows())));
    }
    let is_its_control = |other: &&TrialEntry| other.control && !entry.control && other.report.metric == trial.metric;
    if let Some(control) = saved.trials.iter().find(is_its_control).map(|entry| &entry.report) {
        let rug = rug(control.pairs_of_windows());
        rows.push(row("control: A against A".to_owned(), control.pairs, control.effect, rug));
    }
    rows.extend(trial.guards.iter().map(|guard| {
        let label = format!("guard: {}", guard.metric.name);
        row(label, guard.pairs, guard.effect, Vec::new())
    }));
    rows
}

/// The result of the A/A phase. Empty if the trial had no A/A phase.
fn control(stretch: Option<&ControlReport>) -> Markup {
    let Some(stretch) = stretch else { return html! {} };
    html! {
        p {
            "A/A check before the trial: "
            @if stretch.is_claimed { strong { (stretch.verdict) ", which is wrong" } }
            @else { "no difference, as it should be" }
            " (" (stretch.pairs) " pairs)."
            @if let Some(claims) = stretch.claim_share {
                " Simulated trials with this noise report a difference in " (share(claims)) " of the cases."
            }
        }
    }
}

/// The guards, and their results.
fn guards(trial: &Report) -> Markup {
    if trial.guards.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Guards" }
        @if let Some(guard) = &trial.vetoed_by {
            p.bad { "Rejected: the guard " code { (guard) } " got worse by more than its limit." }
        }
        ul {
            @for guard in &trial.guards {
                li {
                    code { (guard.metric.name) } ": "
                    @match guard.verdict {
                        Outcome::Worse => strong { "got worse" },
                        Outcome::Better => "got better",
                        Outcome::Same => "not worse",
                        Outcome::Undecided | Outcome::NotEngaged => "undecided",
                    }
                    @if let Some(effect) = guard.effect {
                        ": " (as_change(effect.ratio))
                        @if let Some((low, high)) = effect.ends() { ", " (range(low, high)) }
                    }
                    "; limit: " (share(guard.harm_ratio)) " worse"
                }
            }
        }
    }
}

fn arms(trial: &Report) -> Markup {
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
                        th.n scope="col" { "median, " (trial.metric.unit) } th.n scope="col" { "server CPU" }
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

fn dropped(trial: &Report) -> Markup {
    if trial.dropped.is_empty() {
        return html! { h3 { "Dropped pairs" } p { "None: every measured pair counts." } };
    }
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for dropped in &trial.dropped {
        counts.entry(rule(&dropped.reason)).or_default()[usize::from(dropped.arm != ArmName::A)] += 1;
    }
    html! {
        h3 { "Dropped pairs" }
        p {
            (trial.dropped.len()) " pairs were dropped and " (trial.pairs) " count. The rules were fixed beforehand and ignore the arm. If one arm has \
             far more dropped pairs than the other, the setting itself may have caused them."
        }
        div.wide {
            table {
                thead { tr { th scope="col" { "rule" } th.n scope="col" { "in A" } th.n scope="col" { "in " (trial.other()) } } }
                tbody {
                    @for (rule, [a, b]) in &counts {
                        tr { th.name scope="row" { (rule) } td.n { (a) } td.n { (b) } }
                    }
                }
            }
        }
        details {
            summary { "Each dropped pair" }
            ul {
                @for dropped in &trial.dropped {
                    li {
                        "pair " (dropped.pair.saturating_add(1)) ", in arm " (dropped.arm) ": " (seen(&dropped.reason))
                    }
                }
            }
        }
    }
}

/// The name of a rule as text. For a rule of a newer version, this is the name in the file.
fn rule(reason: &DropReason) -> &str {
    match reason {
        DropReason::Gap { .. } => "the machine paused",
        DropReason::Steal { .. } => "the hypervisor took CPU time",
        DropReason::Overrun { .. } => "the window took too long",
        DropReason::NoCpu { .. } => "the server got no CPU",
        DropReason::NoValue { .. } => "the window has no value",
        DropReason::Changed { .. } => "another program changed a setting",
        DropReason::Other { rule, .. } => rule,
    }
}

/// The reason in a dropped window, with its measured value, as text.
fn seen(reason: &DropReason) -> String {
    match reason {
        DropReason::Gap { gap_us } => format!("the machine paused for {} ms", trim(gap_us / 1e3)),
        DropReason::Steal { share: stolen } => format!("the hypervisor took {} of the CPU time", share(*stolen)),
        DropReason::Overrun { span_us } => format!("the window took {} ms", trim(span_us / 1e3)),
        DropReason::Other { rule, numbers } => {
            let seen: Vec<String> = numbers.iter().map(|(name, value)| format!("{name} {}", trim(*value))).collect();
            format!("{rule} {}", seen.join(", ")).trim_end().to_owned()
        }
        reason => reason.to_string(),
    }
}

fn fixed(trial: &Report) -> Markup {
    let design = &trial.design;
    let rules: Vec<String> =
        numbers(&design.rules).iter().map(|(name, value)| format!("{name} {}", trim(*value))).collect();
    html! {
        details {
            summary { "Design, fixed before the run" }
            dl {
                dt { "deciding metric" } dd { code { (trial.metric.name) } }
                dt { "smallest effect that matters" } dd { (share(design.smallest_effect_ratio)) }
                dt { "confidence" } dd { (share(design.confidence)) }
                dt { "pairs" } dd { (ends(design.stop)) ", plus at most " (design.spare_pairs) " dropped ones" }
                dt { "window" } dd { (times::words(design.window)) (interleaves(trial)) ", after a settle time of " (times::words(trial.settle.time())) }
                dt { "order" } dd { "random, from seed " (trial.seed) }
                dt { "limits for dropping a pair" } dd { (rules.join(", ")) }
                dt { "server and load" } dd { (trial.workload) }
            }
            p { "Arms: " (key(trial.other())) "." }
        }
    }
}

/// Text with the number of interleaves of a window. Empty for one interleave.
fn interleaves(trial: &Report) -> String {
    trial.settle.interleaves.map_or_else(String::new, |interleaves| format!(" in {interleaves} interleaves"))
}

/// When the trial was planned to end, as text.
fn ends(stop: Stop) -> String {
    match stop {
        Stop::Sequential { pairs_max, .. } => format!("tested after each, at most {pairs_max}"),
        Stop::After { pairs } => format!("{pairs}, tested once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_described_and_unknown_ones_are_named() {
        let what = |words: &str| words.to_owned();
        let other = |rule: &str, numbers: &[(&str, f64)]| DropReason::Other {
            rule: what(rule),
            numbers: numbers.iter().map(|(name, number)| (what(name), *number)).collect(),
        };
        let table = [
            (DropReason::Gap { gap_us: 86_000.0 }, "the machine paused for 86 ms"),
            (DropReason::Steal { share: 0.25 }, "the hypervisor took 25 % of the CPU time"),
            (DropReason::Overrun { span_us: 1_600_000.0 }, "the window took 1600 ms"),
            (DropReason::NoCpu { what: what("main waited") }, "the server was given no CPU: main waited"),
            (DropReason::Changed { what: what("k from 5 to 6") }, "somebody else changed k from 5 to 6"),
            (other("thermal", &[("degrees", 98.0)]), "thermal degrees 98"),
            (other("guard", &[]), "guard"),
        ];
        for (reason, expected) in table {
            assert_eq!(seen(&reason), expected, "{reason}");
        }
    }
}
