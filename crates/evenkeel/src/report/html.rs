//! The report as one page that needs no network: style and drawings are inside it.

use evenkeel_host::{State, knobs};
use evenkeel_trial::{ArmReport, Conditions, Report};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Story, Told, as_change, chart};

const STYLE: &str = include_str!("report.css");

pub(super) fn page(story: &Story) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "evenkeel report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "evenkeel report" }
                    p.sub { (story.taken) " · evenkeel " (story.evenkeel) " · " code { (story.command) } }
                }
                main {
                    (answers(story))
                    @for told in &story.trials { (trial(told)) }
                    (machine(story))
                    (advice(story))
                    (kept(story))
                }
            }
        }
    }
}

fn answers(story: &Story) -> Markup {
    html! {
        section {
            h2 { "In short" }
            @for told in &story.trials {
                p.verdict.(told.report.verdict.to_string()) {
                    span.badge { (told.report.verdict.to_string()) } " " (told.sentence)
                }
            }
            @if story.trials.is_empty() { p { "Nothing was measured." } }
            @for not_tried in &story.not_tried {
                p.verdict { span.badge { "not tried" } " " code { (not_tried.knob) } ": " (prose(&not_tried.why)) }
            }
            p {
                @if story.all_as_before {
                    "Every setting that was looked at reads the same as before the run."
                } @else {
                    strong { "Not every setting reads the same as before the run: see the end of this page." }
                }
            }
        }
    }
}

fn trial(told: &Told) -> Markup {
    let report = &told.report;
    html! {
        section {
            h2 { @if told.control { "Control: the same against itself" } @else { "Trial: " code { (told.knob) } } }
            p { (report.title) ". Measured: " (report.metric.title) " (" code { (report.metric.name) } ")." }
            table {
                tr { th { "arm" } th { "values" } th.n { "median, " (report.metric.unit) } th.n { "server's CPU" } }
                @for arm in &report.arms { (arm_row(arm)) }
            }
            (effect(report))
            @for risk in risks(&told.knob) { p { "What it may cost: " (risk) "." } }
            figure {
                (chart::pairs(report))
                figcaption {
                    "Each dot is one pair of neighbouring windows. Grey band: differences too small to matter here (±"
                    (format!("{:.0}", report.design.smallest_effect_ratio * 100.0))
                    " %). Blue band and line: the interval and the estimate."
                }
            }
            figure {
                (chart::timeline(report))
                figcaption {
                    span.key-a { "● A" } " " span.key-b { "■ B" } ": " (report.metric.name)
                    " of each window. Below: the longest time that a watching thread missed in it; red dots where the \
                     hypervisor stole time."
                }
            }
            h3 { "Doubts" }
            @if report.doubts.is_empty() { p { "None that this run could see." } }
            ul { @for doubt in &report.doubts { li { (doubt) } } }
            (lost(report))
            h3 { "What was fixed before the run" }
            p {
                (report.pairs) " pairs of windows of " (report.design.window.as_millis()) " ms, " (report.settle.settle_ms)
                " ms of quiet after each switch, order from seed " (report.seed) ", at most " (report.design.spare_pairs)
                " spare pairs. A pair is dropped if a thread missed more than "
                (format!("{:.0}", report.design.rules.gap_us_max / 1000.0)) " ms, if more than "
                (format!("{:.0}", report.design.rules.steal_share_max * 100.0))
                " % of CPU time was stolen, or if a window took half as long again as planned: rules that do not know the arm."
            }
            p { "Workload: " (report.workload) "." }
        }
    }
}

fn arm_row(arm: &ArmReport) -> Markup {
    let number = |value: Option<f64>, digits: usize, unit: &str| {
        value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.digits$}{unit}"))
    };
    html! {
        tr {
            td { (format!("{:?}", arm.arm)) }
            td { (arm.values) }
            td.n { (number(arm.median, 2, "")) }
            td.n { (number(arm.cpu_share.map(|share| share * 100.0), 1, " %")) }
        }
    }
}

fn effect(report: &Report) -> Markup {
    let Some(effect) = &report.effect else { return html! { p { "No pair counts: there is no estimate." } } };
    let bounds = match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!("between {} and {}", as_change(low), as_change(high)),
        _ => "without an interval: too few pairs".to_owned(),
    };
    html! {
        p {
            "B against A: " strong { (as_change(effect.ratio)) } ", " (bounds) " at "
            (format!("{:.0}", effect.confidence * 100.0)) " % confidence"
            @if let Some(visible) = effect.smallest_visible_ratio {
                "; the smallest effect that this run could have seen is " (format!("{:.1}", visible * 100.0)) " %"
            }
            "."
        }
    }
}

fn lost(report: &Report) -> Markup {
    html! {
        h3 { "What was lost" }
        @if report.dropped.is_empty() { p { "Nothing: no pair was dropped." } }
        ul {
            @for dropped in &report.dropped {
                li { "pair " (dropped.pair + 1) ", in arm " (format!("{:?}", dropped.arm)) ": " (dropped.reason.to_string()) }
            }
        }
        (conditions(report))
    }
}

fn conditions(report: &Report) -> Markup {
    let worst = |of: fn(&Conditions) -> Option<f64>| {
        report.windows.iter().filter_map(|window| of(&window.conditions)).reduce(f64::max)
    };
    let percent = |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let gap =
        worst(|conditions| conditions.longest_gap_us).map_or("unknown".into(), |us| format!("{:.1} ms", us / 1000.0));
    html! {
        p {
            "Worst window that counts: stolen " (percent(worst(|conditions| conditions.steal_share)))
            ", waiting for a CPU " (percent(worst(|conditions| conditions.cpu_pressure_share)))
            ", busy " (percent(worst(|conditions| conditions.busy_share))) ", longest gap " (gap) "."
        }
    }
}

fn machine(story: &Story) -> Markup {
    let facts = &story.facts;
    let mut rows: Vec<(&str, String)> = vec![
        ("hypervisor", facts.machine.hypervisor.clone().map(|name| json_name(&name)).to_string()),
        ("cloud", facts.machine.cloud.clone().map(|name| json_name(&name)).to_string()),
        ("instance", facts.machine.instance_type.to_string()),
        ("kernel", facts.kernel.release.to_string()),
        ("processor", facts.cpus.model.to_string()),
        ("CPUs", facts.cpus.online.to_string()),
        ("clock source", facts.clock.current.to_string()),
        ("idle driver", facts.idle.driver.to_string()),
    ];
    for nic in facts.network.hardware() {
        let served = nic.irqs.iter().map(|irq| format!("{} on CPU {}", irq.name, irq.effective)).collect::<Vec<_>>();
        rows.push(("interface", format!("{}, driver {}; {}", nic.name, nic.driver, served.join(", "))));
    }
    html! {
        section {
            h2 { "The machine" }
            table { @for (name, value) in rows { tr { th { (name) } td { (value) } } } }
        }
    }
}

fn advice(story: &Story) -> Markup {
    html! {
        section {
            h2 { "Advice" }
            table {
                tr { th { "state" } th { "knob" } th { "current" } th { "wanted" } th { "why" } }
                @for advice in &story.advice {
                    tr.dim[advice.state == State::NotHere] {
                        td.v { (json_name(&advice.state)) }
                        td { code { (advice.knob) } @if advice.place.parse::<u32>().is_ok() { " " (advice.place) } }
                        td.v { (advice.current.as_deref().unwrap_or("")) }
                        td.v { (advice.wanted.as_deref().unwrap_or("")) }
                        td { (prose(&advice.reason)) }
                    }
                }
            }
            p {
                "Advice is a guess with sources; " code { "evenkeel explain KNOB" } " names them, and "
                code { "evenkeel prove KNOB=VALUE" } " settles it here."
            }
        }
    }
}

fn kept(story: &Story) -> Markup {
    html! {
        section {
            h2 { "Put back" }
            table {
                tr { th { "setting" } th { "before" } th { "after" } }
                @for kept in &story.settings {
                    tr.bad[kept.before != kept.after] {
                        td { code { (kept.path) } }
                        td { (kept.before.as_deref().unwrap_or("not readable").trim()) }
                        td { (kept.after.as_deref().unwrap_or("not readable").trim()) }
                    }
                }
            }
        }
    }
}

/// The risk of each knob in a list of settings.
fn risks(settings: &str) -> Vec<&'static str> {
    let knobs = settings.split(' ').filter_map(|setting| setting.split(['=', '@']).next());
    knobs.filter_map(|id| knobs::find(id).ok()).map(|knob| knob.risk).collect()
}

/// Text with commands between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The kebab-case name that JSON uses too.
fn json_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
