//! Which CPU serves each interrupt of a network interface.

use evenkeel_sys::CpuSet;

use crate::facts::{Facts, Irq, Nic};
use crate::goal::Wish;
use crate::knob::{Area, Counter, Finding, Knob, Place, Source, TakesEffect, Values};

pub(super) const KNOB: Knob = Knob {
    id: "irq.affinity",
    title: "the CPU that serves a network interrupt",
    area: Area::Network,
    place: Place::EachNetworkIrq,
    values: Values::Cpus { may_be_empty: false },
    default: "chosen by the driver and the kernel",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A network queue's interrupt, and the work that follows from it, take time from the CPU that serves it, \
                at moments that the server does not choose. Pinned to a known CPU on the interface's node, they can be \
                kept away from the CPUs where ticks run; spread, they disturb all of them. The kernel takes a set but \
                serves from one CPU of it: effective_affinity_list tells which.",
    risk: "one CPU for many interrupts saturates under load; a change of queues, a driver reset or a reboot renumbers \
           interrupts; the kernel refuses (EIO) for interrupts that it manages itself",
    shows_in: "/proc/interrupts by CPU, /proc/irq/N/effective_affinity_list, NET_RX in /proc/softirqs",
    counter: Some(Counter::DevicePackets),
    kernels: "all",
    side_effects: &[],
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, RSS",
            says: "give each queue's interrupt a CPU of its own, on the device's node; irqbalance overrides manual \
                   settings",
        },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "stop irqbalance and pin the interrupts to the first cores; against the next source",
        },
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "leave irqbalance running and ban CPUs in it; keep other work off the CPUs that serve interrupts",
        },
        Source {
            title: "AWS Compute Blog, Optimizing Network Intensive Workloads on Amazon EC2 A1 Instances",
            says: "with one queue, pin its interrupt to core 0 and run the server on the others",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "both queues of a c4.8xlarge are pinned already, to CPU 23 and 33 on separate nodes",
        },
    ],
    advise,
};

fn advise(facts: &Facts, _: &Wish) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(KNOB.id, "which network interfaces there are", &facts.network.nics)];
    }
    let findings: Vec<Finding> = facts.network.hardware().flat_map(|nic| of_nic(facts, nic)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(KNOB.id, "no network interface has an interrupt of its own")];
    }
    findings
}

fn of_nic(facts: &Facts, nic: &Nic) -> Vec<Finding> {
    if nic.irqs_found_by.known().is_none() {
        return vec![Finding::unknown(&nic.name, &format!("which interrupts {} has", nic.name), &nic.irqs_found_by)];
    }
    let Some(online) = facts.cpus.online.known() else {
        let unknown = |irq: &Irq| Finding::unknown(irq.number, "how many CPUs there are", &facts.cpus.online);
        return nic.irqs.iter().map(unknown).collect();
    };
    let cores: Vec<usize> = first_of_each_core(facts, nic, online);
    let of_irq = |(at, irq): (usize, &Irq)| {
        // Round and round the cores, so that as many interrupts as there are cores get one each.
        let free = (!cores.is_empty()).then(|| cores[at % cores.len()]);
        let finding = decide(facts, nic, irq, Choice { cpus: online.len(), free });
        let allowed = irq.affinity.known();
        Finding { current: irq.effective.known().or(allowed).map(CpuSet::to_string), ..finding }
    };
    nic.irqs.iter().enumerate().map(of_irq).collect()
}

/// What there is to choose from for one interrupt.
struct Choice {
    /// CPUs that run.
    cpus: usize,
    /// The CPU that it would be pinned to.
    free: Option<usize>,
}

fn decide(facts: &Facts, nic: &Nic, irq: &Irq, choice: Choice) -> Finding {
    let place = irq.number;
    if choice.cpus <= 1 {
        return Finding::not_here(place, format!("{}: 1 CPU serves everything", irq.name));
    }
    if facts.owners.irqbalance.known() == Some(&true) {
        let reason =
            format!("{}: irqbalance runs and moves it within 10 s; ban it there (--banirq={place}) first", irq.name);
        return Finding { state: crate::advice::State::OwnedBy, ..Finding::keep(place, reason) };
    }
    // Without effective_affinity_list only the set that was asked for is known, and a set of one says enough.
    if let Some(cpu) = irq.effective.known().or(irq.affinity.known()).and_then(only) {
        return Finding::keep(place, format!("{}: {}", irq.name, served_by(facts, cpu)));
    }
    let served = match irq.effective.known() {
        Some(cpus) if !cpus.is_empty() => format!("any of CPUs {cpus} serves it"),
        _ => "the CPU that serves it is not known".to_owned(),
    };
    match choice.free {
        Some(cpu) => {
            let reason = format!("{}: {served}; CPU {cpu} is the first of a core near {}", irq.name, nic.name);
            Finding::set(place, cpu, reason)
        }
        None => {
            Finding::keep(place, format!("{}: {served}, and no CPU near {} is left to pin it to", irq.name, nic.name))
        }
    }
}

/// The one CPU of a set of one.
fn only(cpus: &CpuSet) -> Option<usize> {
    (cpus.len() == 1).then(|| cpus.first())?
}

fn served_by(facts: &Facts, cpu: usize) -> String {
    let mut told = format!("CPU {cpu} serves it");
    let nodes = facts.numa.nodes.known().into_iter().flatten();
    if let Some(node) = nodes.clone().find(|node| node.cpus.known().is_some_and(|cpus| cpus.contains(cpu)))
        && nodes.count() > 1
    {
        told.push_str(&format!(" on node {}", node.node));
    }
    let siblings = facts.cpus.cpus.iter().find(|known| known.cpu == cpu).and_then(|cpu| cpu.siblings.known());
    if let Some(siblings) =
        siblings.map(|core| core.without(&[cpu].into_iter().collect())).filter(|set| !set.is_empty())
    {
        told.push_str(&format!(", and slows CPU {siblings} of the same core"));
    }
    told.push_str(": keep ticks off it");
    told
}

/// The CPUs of the node that the interface is attached to, where the machine tells.
pub(super) fn node_cpus(facts: &Facts, nic: &Nic) -> Option<CpuSet> {
    let number = u32::try_from(*nic.numa_node.known()?).ok()?;
    let node = facts.numa.nodes.known()?.iter().find(|node| node.node == number)?;
    node.cpus.known().cloned()
}

/// The first sibling of each core near an interface that runs and that the scheduler may use.
fn first_of_each_core(facts: &Facts, nic: &Nic, online: &CpuSet) -> Vec<usize> {
    let near = node_cpus(facts, nic).unwrap_or_else(|| online.clone()).and(online);
    let near = facts.cpus.isolated.known().map_or(near.clone(), |isolated| near.without(isolated));
    let is_first = |cpu: &usize| {
        let siblings = facts.cpus.cpus.iter().find(|known| known.cpu == *cpu).and_then(|cpu| cpu.siblings.known());
        siblings.is_none_or(|core| core.and(&near).first() == Some(*cpu))
    };
    near.iter().filter(is_first).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nic, nics, set, two_nodes, with_cpus};

    fn unpinned(facts: &mut Facts) {
        for irq in nics(facts).iter_mut().flat_map(|nic| &mut nic.irqs) {
            irq.affinity = Fact::Known(set("0-3"));
            irq.effective = Fact::Known(set("0-3"));
        }
    }

    #[test]
    fn an_interrupt_has_one_known_cpu() {
        check(
            &KNOB,
            &[
                ("pinned", Goal::Latency, &|_| {}),
                ("c4.8xlarge", Goal::Latency, &two_nodes),
                ("c4.8xlarge, unpinned", Goal::Latency, &|facts| {
                    two_nodes(facts);
                    unpinned(facts);
                }),
                ("1 queue, 4 CPUs, no siblings, unpinned", Goal::Latency, &|facts| {
                    with_cpus(4)(facts);
                    unpinned(facts);
                }),
                ("3 queues, 2 cores, unpinned", Goal::Throughput, &|facts| {
                    nics(facts)[0] = nic("eth0", 3, 24);
                    unpinned(facts);
                }),
                ("effective unknown, affinity of one", Goal::Latency, &|facts| {
                    nics(facts)[0].irqs[0].effective = Fact::absent("an old kernel");
                }),
                ("nothing known", Goal::Latency, &|facts| {
                    nics(facts)[0].irqs[0].effective = Fact::absent("an old kernel");
                    nics(facts)[0].irqs[0].affinity = Fact::Denied { why: "EACCES".into() };
                }),
                ("all isolated", Goal::Latency, &|facts| {
                    unpinned(facts);
                    facts.cpus.isolated = Fact::Known(set("0-3"));
                }),
                ("irqbalance", Goal::Latency, &|facts| facts.owners.irqbalance = Fact::Known(true)),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("CPUs unknown", Goal::Latency, &|facts| facts.cpus.online = Fact::absent("no list")),
                ("Hyper-V", Goal::Latency, &|facts| nics(facts)[0].irqs.clear()),
                ("interrupts not found", Goal::Latency, &|facts| {
                    nics(facts)[0].irqs.clear();
                    nics(facts)[0].irqs_found_by = Fact::absent("no /proc/interrupts");
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("interfaces unknown", Goal::Latency, &|facts| facts.network.nics = Fact::absent("no /sys here")),
            ],
            expect![[r#"
                pinned (latency)
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it
                c4.8xlarge (latency)
                  keep 60 "23": eth0-Tx-Rx-0: CPU 23 serves it on node 0, and slows CPU 5 of the same core: keep ticks off it
                  keep 61 "33": eth0-Tx-Rx-1: CPU 33 serves it on node 1, and slows CPU 15 of the same core: keep ticks off it
                c4.8xlarge, unpinned (latency)
                  set 60 "0-3" -> "9": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 9 is the first of a core near eth0
                  set 61 "0-3" -> "10": eth0-Tx-Rx-1: any of CPUs 0-3 serves it; CPU 10 is the first of a core near eth0
                1 queue, 4 CPUs, no siblings, unpinned (latency)
                  set 24 "0-3" -> "0": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 0 is the first of a core near eth0
                3 queues, 2 cores, unpinned (throughput)
                  set 24 "0-3" -> "0": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 0 is the first of a core near eth0
                  set 25 "0-3" -> "1": eth0-Tx-Rx-1: any of CPUs 0-3 serves it; CPU 1 is the first of a core near eth0
                  set 26 "0-3" -> "0": eth0-Tx-Rx-2: any of CPUs 0-3 serves it; CPU 0 is the first of a core near eth0
                effective unknown, affinity of one (latency)
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it
                nothing known (latency)
                  set 24 ? -> "0": eth0-Tx-Rx-0: the CPU that serves it is not known; CPU 0 is the first of a core near eth0
                all isolated (latency)
                  keep 24 "0-3": eth0-Tx-Rx-0: any of CPUs 0-3 serves it, and no CPU near eth0 is left to pin it to
                irqbalance (latency)
                  owned-by 24 "0": eth0-Tx-Rx-0: irqbalance runs and moves it within 10 s; ban it there (--banirq=24) first
                1 CPU (latency)
                  not-here 24 "0": eth0-Tx-Rx-0: 1 CPU serves everything
                CPUs unknown (latency)
                  unknown 24: how many CPUs there are is not known: no list
                Hyper-V (latency)
                  not-here irq.affinity: no network interface has an interrupt of its own
                interrupts not found (latency)
                  unknown eth0: which interrupts eth0 has is not known: no /proc/interrupts
                loopback only (latency)
                  not-here irq.affinity: no network interface has an interrupt of its own
                interfaces unknown (latency)
                  unknown irq.affinity: which network interfaces there are is not known: no /sys here
            "#]],
        );
    }
}
