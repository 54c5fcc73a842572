//! Which CPU serves each interrupt of a network interface.

use evenkeel_sys::CpuSet;

use crate::extras::{Counter, CounterPlace, Extras, Program};
use crate::facts::{Facts, Irq, Nic};
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

pub(super) const KNOB: Knob = Knob {
    id: "irq.affinity",
    title: "the CPU that serves a network interrupt",
    area: Area::Network,
    place: Place::EachNetworkIrq,
    values: Values::Cpus { may_be_empty: false },
    default: "chosen by the driver and the kernel",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The interrupt of a network queue, and the work that follows it, take time from a CPU at moments that the \
        server does not choose. Pin the interrupts to a known CPU on the interface's node, and you keep them away from \
        the CPUs that run ticks. Spread over all CPUs, they disturb all of them. The kernel accepts a set of CPUs but \
        serves the interrupt on one of them; effective_affinity_list shows which.",
    risk: "one CPU for many interrupts saturates under load; a change of queues, a driver reset or a reboot renumbers \
        interrupts; the kernel refuses (EIO) for interrupts that it manages itself",
    shows_in: "/proc/interrupts by CPU, /proc/irq/N/effective_affinity_list, NET_RX in /proc/softirqs",
    kernels: "all",
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
    extras: Extras {
        read_in: &[
            CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] },
            CounterPlace::Table { file: "/proc/interrupts", names: &[] },
        ],
        counter: Some(Counter::InterruptsByCpu),
        set_by: &[Program::GoogleMultiqueue],
        called: &["perftune irq_cpu_mask"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(KNOB.id, "which network interfaces there are", &facts.network.nics)];
    }
    let share = context.server.cpus.map(|needed| Share { needed, split: Split::from_facts(facts, needed) });
    let findings: Vec<Finding> = facts.network.hardware().flat_map(|nic| of_nic(facts, share.as_ref(), nic)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(KNOB.id, "no network interface has its own interrupt")];
    }
    findings
}

/// The CPUs that the user's server needs, and how to reserve them.
struct Share {
    needed: u64,
    split: Option<Split>,
}

/// Which CPUs serve interrupts, and which CPUs the server uses. Only whole cores are assigned, because siblings slow each other down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// The first CPU of each core that serves interrupts.
    pub(super) irqs: Vec<usize>,
    /// The remaining CPUs, which the server uses.
    pub(super) server: CpuSet,
}

impl Split {
    /// Uses as many cores for interrupts as the server can spare. Cores that already serve interrupts come first.
    /// `None` if the server can spare no core.
    pub(super) fn from_facts(facts: &Facts, needed: u64) -> Option<Split> {
        let online = facts.cpus.online.known()?;
        let usable = facts.limits.cpus_allowed.known().map_or(online.clone(), |allowed| online.and(allowed));
        let isolated = facts.cpus.isolated.known().cloned().unwrap_or_default();
        let core_of = |cpu: usize| {
            let siblings = facts.cpus.cpus.iter().find(|known| known.cpu == cpu).and_then(|cpu| cpu.siblings.known());
            siblings.map_or([cpu].into_iter().collect(), |core| core.and(online))
        };
        let irqs = facts.network.hardware().flat_map(|nic| &nic.irqs);
        let serving: CpuSet = irqs.filter_map(|irq| only(irq.effective.known()?)).collect();
        let all = online.iter().map(|cpu| (cpu, core_of(cpu)));
        let mut cores: Vec<CpuSet> =
            all.filter(|(cpu, core)| core.first() == Some(*cpu)).map(|(_, core)| core).collect();
        cores.retain(|core| core.and(&isolated).is_empty());
        cores.sort_by_key(|core| core.and(&serving).is_empty());
        let mut split = Split { irqs: Vec::new(), server: usable };
        for core in cores {
            let left = split.server.without(&core);
            // If the server may not use a core, it loses nothing when the core serves interrupts.
            if left.len() as u64 >= needed {
                split.irqs.extend(core.first());
                split.server = left;
            }
        }
        (!split.irqs.is_empty()).then_some(split)
    }
}

fn of_nic(facts: &Facts, share: Option<&Share>, nic: &Nic) -> Vec<Finding> {
    if nic.irqs_found_by.known().is_none() {
        return vec![Finding::unknown(&nic.name, &format!("which interrupts {} has", nic.name), &nic.irqs_found_by)];
    }
    let Some(online) = facts.cpus.online.known() else {
        let unknown = |irq: &Irq| Finding::unknown(irq.number, "how many CPUs there are", &facts.cpus.online);
        return nic.irqs.iter().map(unknown).collect();
    };
    let split = share.and_then(|share| share.split.as_ref());
    let cores: Vec<usize> = split.map_or_else(|| first_of_each_core(facts, nic, online), |split| split.irqs.clone());
    let of_irq = |(at, irq): (usize, &Irq)| {
        // Assigns the cores in turn, so that interrupts are spread evenly.
        let free = (!cores.is_empty()).then(|| cores[at % cores.len()]);
        let finding = decide(facts, nic, irq, Choice { cpus: online.len(), free, share });
        let allowed = irq.affinity.known();
        Finding { current: irq.effective.known().or(allowed).map(CpuSet::to_string), ..finding }
    };
    nic.irqs.iter().enumerate().map(of_irq).collect()
}

/// The choices for one interrupt.
struct Choice<'a> {
    /// Running CPUs.
    cpus: usize,
    /// The CPU to which to pin the interrupt.
    free: Option<usize>,
    /// The server's CPUs, if the user gave them.
    share: Option<&'a Share>,
}

fn decide(facts: &Facts, nic: &Nic, irq: &Irq, choice: Choice<'_>) -> Finding {
    let place = irq.number;
    if choice.cpus <= 1 {
        return Finding::not_here(place, format!("{}: 1 CPU serves all interrupts", irq.name));
    }
    if facts.owners.irqbalance.known() == Some(&true) {
        let reason = format!(
            "{}: irqbalance runs and moves it within 10 s; ban it in irqbalance first (--banirq={place})",
            irq.name
        );
        return Finding { state: crate::finding::State::OwnedBy, ..Finding::keep(place, reason) };
    }
    // Without effective_affinity_list, only the requested set is known. If that set has one CPU, it is enough.
    if let Some(cpu) = irq.effective.known().or(irq.affinity.known()).and_then(only) {
        let reason = format!("{}: {}", irq.name, served_by(facts, cpu));
        return match choice.share {
            None => Finding::keep(place, reason),
            Some(share) => with_share(Served { irq, cpu, reason }, share, choice.free),
        };
    }
    let served = match irq.effective.known() {
        Some(cpus) if !cpus.is_empty() => format!("any of CPUs {cpus} serves it"),
        _ => "evenkeel does not know which CPU serves it".to_owned(),
    };
    match choice.free {
        Some(cpu) => {
            let split = choice.share.and_then(|share| share.split.as_ref());
            let why = match split {
                Some(split) => format!("on CPU {cpu} it leaves CPUs {} to the server", split.server),
                None => format!("CPU {cpu} is the first CPU of a core near {}", nic.name),
            };
            Finding::set(place, cpu, format!("{}: {served}; {why}", irq.name))
        }
        None => Finding::keep(place, format!("{}: {served}, and no CPU near {} is free for it", irq.name, nic.name)),
    }
}

/// An interrupt with the one CPU that serves it, and the reason so far.
struct Served<'a> {
    irq: &'a Irq,
    cpu: usize,
    reason: String,
}

/// The finding for a pinned interrupt, if the server needs its own CPUs.
fn with_share(served: Served<'_>, share: &Share, free: Option<usize>) -> Finding {
    let Served { irq, cpu, reason } = served;
    let (place, needed) = (irq.number, share.needed);
    match (&share.split, free) {
        (Some(split), Some(free)) if split.server.contains(cpu) => {
            let reason = format!(
                "{}: CPU {cpu} serves it, but the server needs that CPU; on CPU {free} it leaves CPUs {} for the \
                    {needed} that the server needs",
                irq.name, split.server
            );
            Finding::set(place, free, reason)
        }
        (Some(split), _) => {
            Finding::keep(place, format!("{reason}; CPUs {} remain for the server's {needed}", split.server))
        }
        (None, _) => {
            Finding::keep(place, format!("{reason}; {needed} CPUs for the server leave no core for interrupts"))
        }
    }
}

/// The only CPU in the set. `None` if the set has any other number of CPUs.
fn only(cpus: &CpuSet) -> Option<usize> {
    (cpus.len() == 1).then(|| cpus.first())?
}

fn served_by(facts: &Facts, cpu: usize) -> String {
    let mut reason = format!("CPU {cpu} serves it");
    let nodes = facts.numa.nodes.known().into_iter().flatten();
    if let Some(node) = nodes.clone().find(|node| node.cpus.known().is_some_and(|cpus| cpus.contains(cpu)))
        && nodes.count() > 1
    {
        reason.push_str(&format!(" on node {}", node.node));
    }
    let siblings = facts.cpus.cpus.iter().find(|known| known.cpu == cpu).and_then(|cpu| cpu.siblings.known());
    if let Some(siblings) =
        siblings.map(|core| core.without(&[cpu].into_iter().collect())).filter(|set| !set.is_empty())
    {
        reason.push_str(&format!(", and slows CPU {siblings} of the same core"));
    }
    reason.push_str(": keep ticks off it");
    reason
}

/// The CPUs of the interface's node, if known.
pub(super) fn node_cpus(facts: &Facts, nic: &Nic) -> Option<CpuSet> {
    let number = u32::try_from(*nic.numa_node.known()?).ok()?;
    let node = facts.numa.nodes.known()?.iter().find(|node| node.node == number)?;
    node.cpus.known().cloned()
}

/// The first sibling of each running core near an interface that the scheduler may use.
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
    use crate::testing::{check, check_server, nic, nics, set, two_nodes, with_cpus};

    fn unpinned(facts: &mut Facts) {
        for irq in nics(facts).iter_mut().flat_map(|nic| &mut nic.irqs) {
            irq.affinity = Fact::Known(set("0-3"));
            irq.effective = Fact::Known(set("0-3"));
        }
    }

    fn all_of_two_nodes(facts: &mut Facts) {
        two_nodes(facts);
        facts.limits.cpus_allowed = facts.cpus.online.clone();
    }

    /// For any server, the CPUs for interrupts and the remaining CPUs are disjoint, and no core is split.
    #[test]
    fn the_reason_names_the_cpus_that_remain() {
        let four_queues = |facts: &mut Facts| nics(facts)[0] = nic("eth0", 4, 24);
        check_server(
            &KNOB,
            &[
                ("cpus=2", &|_| {}),
                ("cpus=3", &|_| {}),
                ("cpus=2", &four_queues),
                ("cpus=6", &|facts| {
                    with_cpus(8)(facts);
                    four_queues(facts);
                }),
                ("cpus=3", &|facts| {
                    with_cpus(4)(facts);
                    unpinned(facts);
                }),
                ("cpus=32", &all_of_two_nodes),
                ("cpus=36", &all_of_two_nodes),
                ("cpus=1", &|facts| facts.limits.cpus_allowed = Fact::Known(set("3"))),
            ],
            expect![[r#"
                cpus=2
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it; CPUs 1,3 remain for the server's 2
                cpus=3
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it; 3 CPUs for the server leave no core for interrupts
                cpus=2
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it; CPUs 1,3 remain for the server's 2
                  set 25 "1" -> "0": eth0-Tx-Rx-1: CPU 1 serves it, but the server needs that CPU; on CPU 0 it leaves CPUs 1,3 for the 2 that the server needs
                  keep 26 "2": eth0-Tx-Rx-2: CPU 2 serves it, and slows CPU 0 of the same core: keep ticks off it; CPUs 1,3 remain for the server's 2
                  set 27 "3" -> "0": eth0-Tx-Rx-3: CPU 3 serves it, but the server needs that CPU; on CPU 0 it leaves CPUs 1,3 for the 2 that the server needs
                cpus=6
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it: keep ticks off it; CPUs 2-7 remain for the server's 6
                  keep 25 "1": eth0-Tx-Rx-1: CPU 1 serves it: keep ticks off it; CPUs 2-7 remain for the server's 6
                  set 26 "2" -> "0": eth0-Tx-Rx-2: CPU 2 serves it, but the server needs that CPU; on CPU 0 it leaves CPUs 2-7 for the 6 that the server needs
                  set 27 "3" -> "1": eth0-Tx-Rx-3: CPU 3 serves it, but the server needs that CPU; on CPU 1 it leaves CPUs 2-7 for the 6 that the server needs
                cpus=3
                  set 24 "0-3" -> "0": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; on CPU 0 it leaves CPUs 1-3 to the server
                cpus=32
                  keep 60 "23": eth0-Tx-Rx-0: CPU 23 serves it on node 0, and slows CPU 5 of the same core: keep ticks off it; CPUs 0-4,6-14,16-22,24-32,34-35 remain for the server's 32
                  keep 61 "33": eth0-Tx-Rx-1: CPU 33 serves it on node 1, and slows CPU 15 of the same core: keep ticks off it; CPUs 0-4,6-14,16-22,24-32,34-35 remain for the server's 32
                cpus=36
                  keep 60 "23": eth0-Tx-Rx-0: CPU 23 serves it on node 0, and slows CPU 5 of the same core: keep ticks off it; 36 CPUs for the server leave no core for interrupts
                  keep 61 "33": eth0-Tx-Rx-1: CPU 33 serves it on node 1, and slows CPU 15 of the same core: keep ticks off it; 36 CPUs for the server leave no core for interrupts
                cpus=1
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it; CPUs 3 remain for the server's 1
            "#]],
        );
    }

    /// As masks of 36 CPUs: the captured machine prints CPU 23 and CPU 33 in this form.
    #[test]
    fn masks_of_cpu_23_and_33() {
        for (mask, cpu) in [("0,00800000", 23), ("2,00000000", 33)] {
            assert_eq!(CpuSet::parse_mask(mask), Some(CpuSet::from_iter([cpu])));
            assert_eq!(CpuSet::from_iter([cpu]).to_mask(36), mask);
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
                  set 60 "0-3" -> "9": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 9 is the first CPU of a core near eth0
                  set 61 "0-3" -> "10": eth0-Tx-Rx-1: any of CPUs 0-3 serves it; CPU 10 is the first CPU of a core near eth0
                1 queue, 4 CPUs, no siblings, unpinned (latency)
                  set 24 "0-3" -> "0": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 0 is the first CPU of a core near eth0
                3 queues, 2 cores, unpinned (throughput)
                  set 24 "0-3" -> "0": eth0-Tx-Rx-0: any of CPUs 0-3 serves it; CPU 0 is the first CPU of a core near eth0
                  set 25 "0-3" -> "1": eth0-Tx-Rx-1: any of CPUs 0-3 serves it; CPU 1 is the first CPU of a core near eth0
                  set 26 "0-3" -> "0": eth0-Tx-Rx-2: any of CPUs 0-3 serves it; CPU 0 is the first CPU of a core near eth0
                effective unknown, affinity of one (latency)
                  keep 24 "0": eth0-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the same core: keep ticks off it
                nothing known (latency)
                  set 24 ? -> "0": eth0-Tx-Rx-0: evenkeel does not know which CPU serves it; CPU 0 is the first CPU of a core near eth0
                all isolated (latency)
                  keep 24 "0-3": eth0-Tx-Rx-0: any of CPUs 0-3 serves it, and no CPU near eth0 is free for it
                irqbalance (latency)
                  owned-by 24 "0": eth0-Tx-Rx-0: irqbalance runs and moves it within 10 s; ban it in irqbalance first (--banirq=24)
                1 CPU (latency)
                  not-here 24 "0": eth0-Tx-Rx-0: 1 CPU serves all interrupts
                CPUs unknown (latency)
                  unknown 24: how many CPUs there are is not known: no list
                Hyper-V (latency)
                  not-here irq.affinity: no network interface has its own interrupt
                interrupts not found (latency)
                  unknown eth0: which interrupts eth0 has is not known: no /proc/interrupts
                loopback only (latency)
                  not-here irq.affinity: no network interface has its own interrupt
                interfaces unknown (latency)
                  unknown irq.affinity: which network interfaces there are is not known: no /sys here
            "#]],
        );
    }
}
