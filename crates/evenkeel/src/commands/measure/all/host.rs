//! The machine's traits on its card.
//! They are enough to distinguish two kinds of machines, but do not identify this machine.

use std::fmt::Display;

use evenkeel_host::facts::CpuLimit;
use evenkeel_host::{Fact, Facts};
use evenkeel_measure::card::Trait;

pub(super) fn traits(facts: &Facts) -> Vec<Trait> {
    let machine = &facts.machine;
    let count = facts.cpus.online.clone().map(|cpus| cpus.iter().count());
    let memory = facts.memory.total_bytes.clone().map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    let threads = facts.cpus.cpus.first().map(|cpu| cpu.siblings.clone().map(|siblings| siblings.iter().count()));
    let nodes = facts.numa.nodes.clone().map(|nodes| nodes.len());
    let limit = facts.limits.cpu.clone().map(|limit| match limit {
        CpuLimit::Unlimited => "none".to_owned(),
        CpuLimit::Quota { quota_us, period_us } => format!("{quota_us} us in each {period_us} us"),
    });
    let mut traits = vec![
        fact_trait("instance type", &machine.instance_type),
        fact_trait("cloud", &machine.cloud.clone().map(name)),
        fact_trait("hypervisor", &machine.hypervisor.clone().map(name)),
        fact_trait("container", &machine.container.clone().map(name)),
        fact_trait("CPU", &facts.cpus.model),
        fact_trait("CPUs online", &count),
    ];
    traits.extend(threads.map(|threads| fact_trait("threads a core", &threads)));
    traits.extend([
        fact_trait("NUMA nodes", &nodes),
        fact_trait("memory", &memory),
        fact_trait("kernel", &facts.kernel.release),
        fact_trait("clock source", &facts.clock.current),
        fact_trait("idle driver", &facts.idle.driver),
        fact_trait("idle governor", &facts.idle.governor),
        fact_trait("frequency driver", &facts.frequency.driver),
        fact_trait("CPU limit", &limit),
    ]);
    traits
}

/// The name of the value in JSON.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(_) => "odd".to_owned(),
    }
}

fn fact_trait<T: Display>(name: &str, fact: &Fact<T>) -> Trait {
    // A card must fit on one page, so it does not explain unknown values. `inspect` explains them.
    let value = fact.known().map_or_else(|| "unknown".to_owned(), T::to_string);
    // The firmware chooses this name, so limit its length to the limit of a card's texts.
    Trait { name: name.to_owned(), value: value.chars().take(200).collect() }
}
