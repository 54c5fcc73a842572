//! The machine in a report: its facts, its advice, and whether evenkeel restored its settings.

use evenkeel_trial::saved::{RunReport, SettingText};
use maud::{Markup, html};
use serde_json::Value;

use super::markup::prose;

/// The facts that matter most to a reader of a trial. Each fact has its pointer in the answer of `inspect`.
const FACTS: &[(&str, &str)] = &[
    ("hypervisor", "/machine/hypervisor"),
    ("cloud", "/machine/cloud"),
    ("instance", "/machine/instance_type"),
    ("kernel", "/kernel/release"),
    ("processor", "/cpus/model"),
    ("CPUs", "/cpus/online"),
    ("clock source", "/clock/current"),
    ("idle driver", "/idle/driver"),
];

pub(super) fn machine(saved: &RunReport) -> Markup {
    if !saved.facts.is_object() {
        return html! {};
    }
    let unknown = |path: &str| {
        let why = saved.facts.pointer(path).and_then(|fact| fact.get("why")).and_then(Value::as_str);
        format!("unknown: {}", why.unwrap_or("the report does not say"))
    };
    html! {
        section {
            h2 { "The machine" }
            div.wide {
                table {
                    @for (name, path) in FACTS {
                        tr { th scope="row" { (name) } td { (saved.fact(path).unwrap_or_else(|| unknown(path))) } }
                    }
                    @for served in interfaces(&saved.facts) { tr { th scope="row" { "interface" } td { (served) } } }
                }
            }
        }
    }
}

/// The driver of each hardware interface, and the CPUs that serve its interrupts.
fn interfaces(facts: &Value) -> Vec<String> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let nics = facts.pointer("/network/nics").and_then(Value::as_array).cloned().unwrap_or_default();
    nics.iter()
        .filter(|nic| ["hardware", "vf"].contains(&text(nic, "kind").as_str()))
        .map(|nic| {
            let irqs = list(nic, "irqs");
            let served = irqs.iter().map(|irq| format!("{} on CPU {}", text(irq, "name"), text(irq, "effective")));
            format!("{}, driver {}; {}", text(nic, "name"), text(nic, "driver"), served.collect::<Vec<_>>().join(", "))
        })
        .collect()
}

pub(super) fn advice(saved: &RunReport) -> Markup {
    if saved.advice.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Advice" }
            div.wide {
                table {
                    thead { tr { @for title in ["state", "knob", "current", "wanted", "why"] { th scope="col" { (title) } } } }
                    tbody {
                        @for advice in &saved.advice {
                            tr.dim[advice.state == "not-here"] {
                                td.v { (advice.state) }
                                td { code { (advice.knob) } @if advice.place.parse::<u32>().is_ok() { " " (advice.place) } }
                                td.v { (advice.current.as_deref().unwrap_or("")) }
                                td.v { (advice.wanted.as_deref().unwrap_or("")) }
                                td { (prose(&advice.reason)) }
                            }
                        }
                    }
                }
            }
            p {
                "Advice is a guess with sources: " code { "evenkeel explain KNOB" } " names them, and "
                code { "evenkeel prove KNOB=VALUE" } " tests it on this machine."
            }
        }
    }
}

/// Shows settings that differ, and folds the long list of equal settings.
pub(super) fn kept(saved: &RunReport) -> Markup {
    let (same, differ): (Vec<_>, Vec<_>) = saved.settings.iter().partition(|kept| kept.before == kept.after);
    let row = |kept: &SettingText| {
        let read = |text: &Option<String>| text.as_deref().unwrap_or("not readable").trim().to_owned();
        html! { td { code { (kept.path) } } td { (read(&kept.before)) } td { (read(&kept.after)) } }
    };
    let head = html! { thead { tr { @for title in ["setting", "before", "after"] { th scope="col" { (title) } } } } };
    if saved.settings.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Restored settings" }
            @if !differ.is_empty() {
                p.bad { "These settings do not read as before; run `evenkeel revert`:" }
                div.wide { table { (head) tbody { @for kept in &differ { tr.bad { (row(kept)) } } } } }
            }
            details {
                summary { (same.len()) " settings read as before" }
                div.wide { table { (head) tbody { @for kept in &same { tr { (row(kept)) } } } } }
            }
        }
    }
}
