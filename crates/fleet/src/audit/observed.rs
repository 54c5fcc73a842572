//! A host reduced to the rows that are compared. Facts and advice of one host take a megabyte; this takes a few kilobytes.

use evenkeel_host::{Advice, Fact, Facts, Place, State, knobs};
use serde::Serialize;

use super::asked::By;

/// The maximum number of rows of one host. A machine with 512 CPUs has some thousands.
const ROWS_MAX: usize = 20_000;

/// The data of one host that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The values of the traits that group hosts, in the order of [`By::ALL`].
    pub(super) traits: Vec<String>,
    pub(super) rows: Vec<ObservedRow>,
    /// The number of rows that were dropped, above [`ROWS_MAX`].
    pub(super) beyond: usize,
}

/// A knob at one place, or a fact.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObservedRow {
    /// The name of the finding, or of the fact.
    pub(super) id: String,
    /// The knob; `None` for a fact.
    pub(super) knob: Option<&'static str>,
    /// The advice; `None` for a fact.
    pub(super) state: Option<State>,
    pub(super) value: Option<String>,
    pub(super) wanted: Option<String>,
    /// Why the value or the advice is unknown.
    pub(super) why: Option<String>,
}

impl Observed {
    /// Reduces the facts and the advice of a host.
    pub fn new(facts: &Facts, advice: &[Advice]) -> Observed {
        let mut rows = fact_rows(facts);
        rows.extend(advice.iter().map(|advice| advice_row(facts, advice)));
        let beyond = rows.len().saturating_sub(ROWS_MAX);
        rows.truncate(ROWS_MAX);
        let traits = By::ALL.iter().map(|by| trait_value(*by, facts)).collect();
        Observed { traits, rows, beyond }
    }
}

fn trait_value(by: By, facts: &Facts) -> String {
    let value = match by {
        By::Instance => facts.machine.instance_type.clone(),
        By::Kernel => facts.kernel.version.clone().map(|version| format!("Linux {}.{}", version.major, version.minor)),
        By::Cpu => facts.cpus.model.clone(),
        By::Cloud => word(&facts.machine.cloud),
        By::None => Fact::Known("all hosts".to_owned()),
    };
    // All hosts without a known value are one group, whatever the reason.
    value.known().cloned().unwrap_or_else(|| format!("unknown {}", by.noun()))
}

fn advice_row(facts: &Facts, advice: &Advice) -> ObservedRow {
    let is_set = advice.state == State::Set;
    ObservedRow {
        id: advice.id.clone(),
        knob: Some(advice.knob),
        state: Some(advice.state),
        value: advice.current.clone().or_else(|| argument(facts, advice.knob)),
        wanted: advice.wanted.clone().filter(|_| is_set),
        why: (advice.state == State::Unknown).then(|| advice.reason.clone()),
    }
}

/// The value of a kernel argument. A missing argument counts as a value too, because other hosts may have it.
fn argument(facts: &Facts, knob: &str) -> Option<String> {
    let Place::KernelArgument { name } = knobs::find(knob).ok()?.place else { return None };
    facts.kernel.command_line.known()?;
    Some(facts.kernel.argument(name).unwrap_or("absent").to_owned())
}

/// The facts that explain why hosts of one type behave differently.
fn fact_rows(facts: &Facts) -> Vec<ObservedRow> {
    let cpus = |set: &Fact<evenkeel_host::CpuSet>| set.clone().map(|set| set.iter().count().to_string());
    let container = word(&facts.machine.container);
    let distribution = facts.machine.distribution.clone().map(|one| {
        let version = one.version.unwrap_or_default();
        format!("{} {version}", one.id).trim_end().to_owned()
    });
    let mut rows = vec![
        fact("instance type", facts.machine.instance_type.clone()),
        fact("CPU model", facts.cpus.model.clone()),
        fact("hypervisor", word(&facts.machine.hypervisor)),
        fact("container", container),
        fact("distribution", distribution),
        fact("kernel release", facts.kernel.release.clone()),
        fact("preemption model", facts.preemption.model.clone()),
        fact("timer frequency in Hz", word(&facts.kernel.timer_hz)),
        fact("CPUs online", cpus(&facts.cpus.online)),
        fact("CPUs present", cpus(&facts.cpus.present)),
        fact("SMT control", facts.cpus.smt_control.clone()),
        fact("clock source", facts.clock.current.clone()),
        fact("idle driver", facts.idle.driver.clone()),
        fact("idle governor", facts.idle.governor.clone()),
        fact("frequency driver", facts.frequency.driver.clone()),
    ];
    match &facts.cpus.vulnerabilities {
        Fact::Known(all) => {
            rows.extend(all.iter().map(|one| fact(&format!("vulnerability {}", one.name), one.state.clone())));
        }
        unknown => rows.push(fact("vulnerabilities", unknown.clone().map(|_| String::new()))),
    }
    rows
}

fn fact(id: &str, fact: Fact<String>) -> ObservedRow {
    let (value, why) = match &fact {
        Fact::Known(value) => (Some(value.clone()), None),
        // An absent fact counts as unknown: a cloud may have an instance type and not show it.
        unknown => (None, unknown.unknown_why().map(str::to_owned)),
    };
    ObservedRow { id: id.to_owned(), knob: None, state: None, value, wanted: None, why }
}

/// The fact in the spelling of the JSON output.
fn word<T: Serialize + Clone>(fact: &Fact<T>) -> Fact<String> {
    fact.clone().map(|value| match serde_json::to_value(&value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    })
}
