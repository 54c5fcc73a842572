//! Receive packet steering: which CPUs run the network stack for the packets of one receive queue.

use evenkeel_sys::CpuSet;

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::{Cloud, Facts, Nic, Queue};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::cpus;

pub(super) const KNOB: Knob = Knob {
    id: "net.rps_cpus",
    title: "CPUs that a receive queue steers packets to",
    area: Area::Network,
    place: Place::Each { device: Device::ReceiveQueue, file: "rps_cpus", reading: Reading::CpuMask },
    values: Values::Cpus { may_be_empty: true },
    default: "empty (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The CPU that serves a queue's interrupt also runs the network stack for its packets. With steering, it passes \
        each packet to one of these CPUs, chosen by a hash of the flow, with an interrupt between CPUs. That spreads \
        the work if there are fewer hardware queues than CPUs, and only costs a hop if there are enough. One flow \
        always goes to one CPU, so a server with few peers gains little.",
    risk: "an interrupt between CPUs for packets, drops in the per-CPU backlog (net.core.netdev_max_backlog)",
    shows_in: "column 10 of /proc/net/softnet_stat (steered packets), column 2 (drops), NET_RX in /proc/softirqs",
    kernels: "all that are built with CONFIG_RPS (the default on several CPUs)",
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, RPS",
            says: "redundant with a hardware queue for each CPU; exclude the interrupted CPU at high rates; stay on its \
                node",
        },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "disable it: not needed in general on Graviton2 and newer; against the next source",
        },
        Source {
            title: "AWS Compute Blog, Optimizing Network Intensive Workloads on Amazon EC2 A1 Instances",
            says: "spread over cores 0-3 and 4-7 on a1.2xlarge, for memcached",
        },
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "on the same node, not on siblings of the CPUs that serve interrupts",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "under a flood over veth, steering lost 0.69 % of packets where none were lost before",
        },
    ],
    extras: Extras {
        read_in: &[
            CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] },
            CounterPlace::SoftnetColumns(&[10, 2]),
        ],
        counter: Some(Counter::SteeredPackets),
        risk_at: RiskAt::Except(&[""]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(KNOB.id, "which network interfaces there are", &facts.network.nics)];
    }
    let queues = facts.network.hardware().flat_map(|nic| nic.rx_queues.iter().map(move |queue| (nic, queue)));
    let findings: Vec<Finding> =
        queues.map(|(nic, queue)| decide(facts, context.goal, nic, queue).unwrap_or_else(|finding| finding)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(KNOB.id, "no interface with hardware behind it has a receive queue")];
    }
    findings
}

fn decide(facts: &Facts, goal: Goal, nic: &Nic, queue: &Queue) -> Result<Finding, Finding> {
    let place = format!("{}/rx-{}", nic.name, queue.index);
    let current = own(&place, &queue.steering_cpus)?;
    let Some(online) = facts.cpus.online.known() else {
        return Err(Finding::unknown(place, "how many CPUs there are", &facts.cpus.online).at(current));
    };
    let (queues, count) = (nic.rx_queues.len(), online.len());
    let finding = if count <= 1 {
        Finding::not_here(&place, "1 CPU: there is no other CPU to steer to")
    } else if queues >= count {
        let reason = format!("{queues} hardware queues for {}: steering would be redundant", cpus(count));
        if current.is_empty() { Finding::keep(&place, reason) } else { Finding::set(&place, "", reason) }
    } else {
        few_queues(facts, goal, nic, Steering { place: &place, current: &current, online })
    };
    Ok(finding.at(current))
}

/// How one queue is currently steered.
struct Steering<'a> {
    place: &'a str,
    current: &'a CpuSet,
    online: &'a CpuSet,
}

fn few_queues(facts: &Facts, goal: Goal, nic: &Nic, steering: Steering<'_>) -> Finding {
    let Steering { place, current, online } = steering;
    let few = format!("{} of {} for {}", queues(nic.rx_queues.len()), nic.name, cpus(online.len()));
    let spread = match free_of_interrupts(facts, nic, online) {
        Ok(spread) => spread,
        Err(finding) if goal == Goal::Throughput => return Finding { place: place.to_owned(), ..finding },
        Err(_) => CpuSet::default(),
    };
    let prove = || match (current.is_empty(), spread.is_empty()) {
        (false, _) => format!("; run `evenkeel prove {}@{place}=` to measure what it gains", KNOB.id),
        (true, false) => format!("; run `evenkeel prove {}@{place}={spread}` to measure what it would gain", KNOB.id),
        (true, true) => String::new(),
    };
    if goal != Goal::Throughput {
        let is_or_would_be = if current.is_empty() { "would send" } else { "sends" };
        let reason = format!("{few}; steering {is_or_would_be} an interrupt from CPU to CPU for packets{}", prove());
        return Finding::keep(place, reason);
    }
    if let Some(instance) = graviton2_or_newer(facts) {
        let reason = format!(
            "{few}; on {instance}, AWS's Graviton runbook says to disable it, and AWS's A1 post says to spread it{}",
            prove()
        );
        return Finding::keep(place, reason);
    }
    if spread.is_empty() {
        return Finding::keep(place, format!("{few}, and every CPU of its node serves its interrupts"));
    }
    if !current.is_empty() && current.is_subset(&spread) {
        return Finding::keep(
            place,
            format!("{few}; RPS already spreads its packets over CPUs that serve none of its interrupts"),
        );
    }
    let serving: CpuSet = serving(nic).unwrap_or_default();
    let reason =
        format!("{few}: CPUs {spread} of its node share no core with the CPUs that serve its interrupts ({serving})");
    Finding::set(place, &spread, reason)
}

fn queues(count: usize) -> String {
    if count == 1 { "1 receive queue".to_owned() } else { format!("{count} receive queues") }
}

/// The CPUs of the interface's node that do not serve its interrupts, and share no core with a CPU that serves them.
/// Isolated CPUs are left out too, because they should not process packets of other programs.
fn free_of_interrupts(facts: &Facts, nic: &Nic, online: &CpuSet) -> Result<CpuSet, Finding> {
    let serving = serving(nic)?;
    let siblings = facts.cpus.cpus.iter().filter(|cpu| serving.contains(cpu.cpu));
    let taken = siblings.filter_map(|cpu| cpu.siblings.known()).fold(serving.clone(), |taken, core| taken.or(core));
    let isolated = facts.cpus.isolated.known().cloned().unwrap_or_default();
    let near = super::irq_affinity::node_cpus(facts, nic).unwrap_or_else(|| online.clone());
    Ok(near.and(online).without(&taken).without(&isolated))
}

/// The CPUs that serve the interrupts of an interface.
fn serving(nic: &Nic) -> Result<CpuSet, Finding> {
    let what = format!("which CPU serves the interrupts of {}", nic.name);
    if nic.irqs_found_by.known().is_none() {
        return Err(Finding::unknown("", &what, &nic.irqs_found_by));
    }
    if nic.irqs.is_empty() {
        return Err(Finding::unknown("", &what, &Fact::<CpuSet>::absent("it has none of its own")));
    }
    nic.irqs.iter().try_fold(CpuSet::default(), |serving, irq| match &irq.effective {
        Fact::Known(cpus) => Ok(serving.or(cpus)),
        unknown => Err(Finding::unknown("", &what, unknown)),
    })
}

/// The instance type, if it is an Amazon ARM type other than the first generation.
fn graviton2_or_newer(facts: &Facts) -> Option<&str> {
    let on_aws = facts.machine.cloud.known() == Some(&Cloud::Aws);
    let on_arm = facts.kernel.architecture.known().is_some_and(|architecture| architecture == "aarch64");
    let instance = facts.machine.instance_type.known()?;
    (on_aws && on_arm && !instance.starts_with("a1.")).then_some(instance)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, cpus, nic, nics, set, two_nodes, with_cpus};

    fn steered(list: &'static str) -> impl Fn(&mut Facts) {
        move |facts| nics(facts)[0].rx_queues[0].steering_cpus = Fact::Known(set(list))
    }

    fn on_aws_arm(instance: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            with_cpus(8)(facts);
            facts.machine.cloud = Fact::Known(Cloud::Aws);
            facts.machine.instance_type = Fact::Known(instance.into());
            facts.kernel.architecture = Fact::Known("aarch64".into());
        }
    }

    #[test]
    fn it_spreads_for_throughput_where_queues_are_few() {
        check(
            &KNOB,
            &[
                ("1 queue, 4 CPUs", Goal::Latency, &|_| {}),
                ("1 queue, 4 CPUs", Goal::Throughput, &|_| {}),
                ("1 queue, 4 CPUs", Goal::Density, &|_| {}),
                ("spread well", Goal::Throughput, &steered("1,3")),
                ("spread over the interrupted CPU too", Goal::Throughput, &steered("0-3")),
                ("spread already", Goal::Latency, &steered("0-3")),
                ("two nodes", Goal::Throughput, &two_nodes),
                ("2 CPUs of one core", Goal::Throughput, &|facts| facts.cpus = cpus(2, 2)),
                ("1 CPU", Goal::Throughput, &with_cpus(1)),
                ("half of them isolated", Goal::Throughput, &|facts| facts.cpus.isolated = Fact::Known(set("2-3"))),
                ("a queue a CPU", Goal::Throughput, &|facts| nics(facts)[0] = nic("eth0", 4, 24)),
                ("a queue a CPU, steered", Goal::Latency, &|facts| {
                    nics(facts)[0] = nic("eth0", 4, 24);
                    steered("0-3")(facts);
                }),
                ("Graviton2", Goal::Throughput, &on_aws_arm("m6g.2xlarge")),
                ("A1", Goal::Throughput, &on_aws_arm("a1.2xlarge")),
            ],
            expect![[r#"
                1 queue, 4 CPUs (latency)
                  keep eth0/rx-0 "": 1 receive queue of eth0 for 4 CPUs; steering would send an interrupt from CPU to CPU for packets; run `evenkeel prove net.rps_cpus@eth0/rx-0=1,3` to measure what it would gain
                1 queue, 4 CPUs (throughput)
                  set eth0/rx-0 "" -> "1,3": 1 receive queue of eth0 for 4 CPUs: CPUs 1,3 of its node share no core with the CPUs that serve its interrupts (0)
                1 queue, 4 CPUs (density)
                  keep eth0/rx-0 "": 1 receive queue of eth0 for 4 CPUs; steering would send an interrupt from CPU to CPU for packets; run `evenkeel prove net.rps_cpus@eth0/rx-0=1,3` to measure what it would gain
                spread well (throughput)
                  keep eth0/rx-0 "1,3": 1 receive queue of eth0 for 4 CPUs; RPS already spreads its packets over CPUs that serve none of its interrupts
                spread over the interrupted CPU too (throughput)
                  set eth0/rx-0 "0-3" -> "1,3": 1 receive queue of eth0 for 4 CPUs: CPUs 1,3 of its node share no core with the CPUs that serve its interrupts (0)
                spread already (latency)
                  keep eth0/rx-0 "0-3": 1 receive queue of eth0 for 4 CPUs; steering sends an interrupt from CPU to CPU for packets; run `evenkeel prove net.rps_cpus@eth0/rx-0=` to measure what it gains
                two nodes (throughput)
                  set eth0/rx-0 "" -> "9-14,16-17,27-32,34-35": 2 receive queues of eth0 for 36 CPUs: CPUs 9-14,16-17,27-32,34-35 of its node share no core with the CPUs that serve its interrupts (23,33)
                  set eth0/rx-1 "" -> "9-14,16-17,27-32,34-35": 2 receive queues of eth0 for 36 CPUs: CPUs 9-14,16-17,27-32,34-35 of its node share no core with the CPUs that serve its interrupts (23,33)
                2 CPUs of one core (throughput)
                  keep eth0/rx-0 "": 1 receive queue of eth0 for 2 CPUs, and every CPU of its node serves its interrupts
                1 CPU (throughput)
                  not-here eth0/rx-0 "": 1 CPU: there is no other CPU to steer to
                half of them isolated (throughput)
                  set eth0/rx-0 "" -> "1": 1 receive queue of eth0 for 4 CPUs: CPUs 1 of its node share no core with the CPUs that serve its interrupts (0)
                a queue a CPU (throughput)
                  keep eth0/rx-0 "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-1 "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-2 "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-3 "": 4 hardware queues for 4 CPUs: steering would be redundant
                a queue a CPU, steered (latency)
                  set eth0/rx-0 "0-3" -> "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-1 "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-2 "": 4 hardware queues for 4 CPUs: steering would be redundant
                  keep eth0/rx-3 "": 4 hardware queues for 4 CPUs: steering would be redundant
                Graviton2 (throughput)
                  keep eth0/rx-0 "": 1 receive queue of eth0 for 8 CPUs; on m6g.2xlarge, AWS's Graviton runbook says to disable it, and AWS's A1 post says to spread it; run `evenkeel prove net.rps_cpus@eth0/rx-0=1-7` to measure what it would gain
                A1 (throughput)
                  set eth0/rx-0 "" -> "1-7": 1 receive queue of eth0 for 8 CPUs: CPUs 1-7 of its node share no core with the CPUs that serve its interrupts (0)
            "#]],
        );
    }

    #[test]
    fn unknown_facts_are_reported() {
        check(
            &KNOB,
            &[
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("interfaces unknown", Goal::Latency, &|facts| facts.network.nics = Fact::absent("no /sys here")),
                ("a kernel without RPS", Goal::Latency, &|facts| {
                    nics(facts)[0].rx_queues[0].steering_cpus = Fact::absent("no rps_cpus");
                }),
                ("CPUs unknown", Goal::Throughput, &|facts| facts.cpus.online = Fact::absent("no list")),
                ("no interrupts of its own", Goal::Throughput, &|facts| nics(facts)[0].irqs.clear()),
                ("no interrupts of its own", Goal::Latency, &|facts| nics(facts)[0].irqs.clear()),
                ("interrupts not found", Goal::Throughput, &|facts| {
                    nics(facts)[0].irqs.clear();
                    nics(facts)[0].irqs_found_by = Fact::absent("no /proc/interrupts");
                }),
                ("interrupts unreadable", Goal::Throughput, &|facts| {
                    nics(facts)[0].irqs[0].effective = Fact::Denied { why: "effective_affinity_list: EACCES".into() };
                }),
            ],
            expect![[r#"
                loopback only (latency)
                  not-here net.rps_cpus: no interface with hardware behind it has a receive queue
                interfaces unknown (latency)
                  unknown net.rps_cpus: which network interfaces there are is not known: no /sys here
                a kernel without RPS (latency)
                  not-here eth0/rx-0: not present here: no rps_cpus
                CPUs unknown (throughput)
                  unknown eth0/rx-0 "": how many CPUs there are is not known: no list
                no interrupts of its own (throughput)
                  unknown eth0/rx-0 "": which CPU serves the interrupts of eth0 is not known: it has none of its own
                no interrupts of its own (latency)
                  keep eth0/rx-0 "": 1 receive queue of eth0 for 4 CPUs; steering would send an interrupt from CPU to CPU for packets
                interrupts not found (throughput)
                  unknown eth0/rx-0 "": which CPU serves the interrupts of eth0 is not known: no /proc/interrupts
                interrupts unreadable (throughput)
                  unknown eth0/rx-0 "": which CPU serves the interrupts of eth0 is not known: effective_affinity_list: EACCES
            "#]],
        );
    }
}
