//! Interrupts keep their names over a boot, but not their numbers.
//! A step of an earlier boot applies to the interrupt that now has the name.

use evenkeel_host::{Action, Facts, Step};

/// The step with the number that its interrupt has in this boot.
/// `None` if no interrupt, or more than one, now has the name.
pub(crate) fn renumbered(facts: &Facts, step: &Step) -> Option<Step> {
    let Action::Write { interrupt: Some(name), reading, side_effects, .. } = &step.action else {
        return Some(step.clone());
    };
    let irqs = facts.network.hardware().flat_map(|nic| &nic.irqs);
    let mut named = irqs.filter(|irq| irq.name == *name);
    let (Some(irq), None) = (named.next(), named.next()) else { return None };
    let folder = format!("/proc/irq/{}", irq.number);
    Some(Step {
        place: irq.number.to_string(),
        action: Action::Write {
            path: format!("{folder}/smp_affinity_list"),
            reading: *reading,
            in_force: Some(format!("{folder}/effective_affinity_list")),
            interrupt: Some(name.clone()),
            side_effects: side_effects.clone(),
        },
        ..step.clone()
    })
}
