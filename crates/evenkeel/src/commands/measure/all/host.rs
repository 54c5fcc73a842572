//! What the machine is, on its card: as much as two cards need to be told apart, and nothing that names the machine itself.

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
        told("instance type", &machine.instance_type),
        told("cloud", &machine.cloud.clone().map(name)),
        told("hypervisor", &machine.hypervisor.clone().map(name)),
        told("container", &machine.container.clone().map(name)),
        told("CPU", &facts.cpus.model),
        told("CPUs online", &count),
    ];
    traits.extend(threads.map(|threads| told("threads a core", &threads)));
    traits.extend([
        told("NUMA nodes", &nodes),
        told("memory", &memory),
        told("kernel", &facts.kernel.release),
        told("clock source", &facts.clock.current),
        told("idle driver", &facts.idle.driver),
        told("idle governor", &facts.idle.governor),
        told("frequency driver", &facts.frequency.driver),
        told("CPU limit", &limit),
    ]);
    traits
}

/// As JSON has it.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(_) => "odd".to_owned(),
    }
}

fn told<T: Display>(name: &str, fact: &Fact<T>) -> Trait {
    // Why it is unknown is what `inspect` tells; a card has one page.
    let value = fact.known().map_or_else(|| "unknown".to_owned(), T::to_string);
    // A card is bounded; a name is of the firmware's making.
    Trait { name: name.to_owned(), value: value.chars().take(200).collect() }
}
