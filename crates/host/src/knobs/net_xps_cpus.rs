//! Transmit packet steering: which CPUs send through which transmit queue.

use evenkeel_sys::CpuSet;

use crate::extras::{Counter, Extras, Program, RiskAt};
use crate::facts::{Facts, Nic, Queue};
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::cpus;

pub(super) const KNOB: Knob = Knob {
    id: "net.xps_cpus",
    title: "CPUs that send through a transmit queue",
    area: Area::Network,
    place: Place::Each { device: Device::TransmitQueue, file: "xps_cpus", reading: Reading::CpuMask },
    values: Values::Cpus { may_be_empty: true },
    default: "empty (a hash of the flow selects the queue), unless the driver sets it",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A CPU sends through a queue that lists it here. Without a list, the flow's hash selects the queue. CPUs then \
        contend for the lock of one queue, and another CPU cleans up after the packet. With as many queues as CPUs, \
        give each CPU its own queue, best the one whose interrupt it serves. A device with one transmit queue has no \
        choice, and the kernel refuses the file.",
    risk: "packets of a CPU that no list names go by hash; a change of the queues resets all lists",
    shows_in: "packets of each transmit queue in `ethtool -S`, if the driver counts them",
    kernels: "all that are built with CONFIG_XPS (the default on several CPUs)",
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, XPS",
            says: "no effect with one queue; best one CPU per queue; with fewer queues, CPUs that share a cache share \
                one",
        },
        Source {
            title: "GoogleCloudPlatform/guest-configs, google_set_multiqueue",
            says: "sets it at boot for each queue; may do so again",
        },
    ],
    extras: Extras {
        counter: Some(Counter::DevicePackets),
        set_by: &[Program::GoogleMultiqueue],
        risk_at: RiskAt::Except(&[""]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(KNOB.id, "which network interfaces there are", &facts.network.nics)];
    }
    let queues = facts.network.hardware().flat_map(|nic| (0..).zip(&nic.tx_queues).map(move |queue| (nic, queue)));
    let findings: Vec<Finding> =
        queues.map(|(nic, (at, queue))| decide(facts, nic, at, queue).unwrap_or_else(|finding| finding)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(KNOB.id, "no interface with hardware behind it has a transmit queue")];
    }
    findings
}

fn decide(facts: &Facts, nic: &Nic, at: usize, queue: &Queue) -> Result<Finding, Finding> {
    let place = format!("{}/tx-{}", nic.name, queue.index);
    let count = nic.tx_queues.len();
    if count == 1 {
        return Err(Finding::not_here(place, format!("{} has 1 transmit queue: there is no choice", nic.name)));
    }
    let current = own(&place, &queue.steering_cpus)?;
    let Some(online) = facts.cpus.online.known() else {
        return Err(Finding::unknown(place, "how many CPUs there are", &facts.cpus.online).at(current));
    };
    let finding = if !current.is_empty() {
        Finding::keep(&place, format!("CPUs {current} send through it"))
    } else if let Some(cpu) = serving(nic, online).and_then(|serving| serving.get(at).copied()) {
        let reason = format!(
            "{count} queues for {}: CPU {cpu} serves this queue's interrupt, so it can send without contention \
                for the queue's lock",
            cpus(online.len())
        );
        Finding::set(&place, cpu, reason)
    } else {
        let reason = format!(
            "the flow's hash selects one of {count} queues for {}: the interrupts do not show which CPUs would \
                share this one",
            cpus(online.len())
        );
        Finding::keep(&place, reason)
    };
    Ok(finding.at(current))
}

/// The CPU of each transmit queue. Known only if every CPU has its own queue, and every pair of queues has one interrupt.
fn serving(nic: &Nic, online: &CpuSet) -> Option<Vec<usize>> {
    let paired = nic.irqs.len() == nic.tx_queues.len() && nic.rx_queues.len() == nic.tx_queues.len();
    let one = |set: &CpuSet| (set.len() == 1).then(|| set.first())?;
    let served: Vec<usize> =
        nic.irqs.iter().map(|irq| irq.effective.known().and_then(one)).collect::<Option<Vec<usize>>>()?;
    let distinct: CpuSet = served.iter().copied().collect();
    (paired && distinct == *online && served.len() == online.len()).then_some(served)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nic, nics, set, two_nodes};

    fn four_queues(facts: &mut Facts) {
        nics(facts)[0] = nic("eth0", 4, 24);
    }

    #[test]
    fn each_cpu_has_a_queue_where_there_are_enough() {
        check(
            &KNOB,
            &[
                ("1 queue", Goal::Latency, &|_| {}),
                ("4 queues, 4 CPUs", Goal::Latency, &four_queues),
                ("set already", Goal::Latency, &|facts| {
                    four_queues(facts);
                    nics(facts)[0].tx_queues[2].steering_cpus = Fact::Known(set("0-1"));
                    nics(facts)[0].tx_queues.truncate(3);
                }),
                ("2 queues, 36 CPUs", Goal::Latency, &two_nodes),
                ("CPUs unknown", Goal::Latency, &|facts| {
                    two_nodes(facts);
                    facts.cpus.online = Fact::absent("no list");
                }),
                ("refused", Goal::Latency, &|facts| {
                    nics(facts)[0] = nic("eth0", 2, 24);
                    for queue in &mut nics(facts)[0].tx_queues {
                        queue.steering_cpus = Fact::absent("no xps_cpus");
                    }
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("interfaces unknown", Goal::Latency, &|facts| facts.network.nics = Fact::absent("no /sys here")),
            ],
            expect![[r#"
                1 queue (latency)
                  not-here eth0/tx-0: eth0 has 1 transmit queue: there is no choice
                4 queues, 4 CPUs (latency)
                  set eth0/tx-0 "" -> "0": 4 queues for 4 CPUs: CPU 0 serves this queue's interrupt, so it can send without contention for the queue's lock
                  set eth0/tx-1 "" -> "1": 4 queues for 4 CPUs: CPU 1 serves this queue's interrupt, so it can send without contention for the queue's lock
                  set eth0/tx-2 "" -> "2": 4 queues for 4 CPUs: CPU 2 serves this queue's interrupt, so it can send without contention for the queue's lock
                  set eth0/tx-3 "" -> "3": 4 queues for 4 CPUs: CPU 3 serves this queue's interrupt, so it can send without contention for the queue's lock
                set already (latency)
                  keep eth0/tx-0 "": the flow's hash selects one of 3 queues for 4 CPUs: the interrupts do not show which CPUs would share this one
                  keep eth0/tx-1 "": the flow's hash selects one of 3 queues for 4 CPUs: the interrupts do not show which CPUs would share this one
                  keep eth0/tx-2 "0-1": CPUs 0-1 send through it
                2 queues, 36 CPUs (latency)
                  keep eth0/tx-0 "": the flow's hash selects one of 2 queues for 36 CPUs: the interrupts do not show which CPUs would share this one
                  keep eth0/tx-1 "": the flow's hash selects one of 2 queues for 36 CPUs: the interrupts do not show which CPUs would share this one
                CPUs unknown (latency)
                  unknown eth0/tx-0 "": how many CPUs there are is not known: no list
                  unknown eth0/tx-1 "": how many CPUs there are is not known: no list
                refused (latency)
                  not-here eth0/tx-0: not present here: no xps_cpus
                  not-here eth0/tx-1: not present here: no xps_cpus
                loopback only (latency)
                  not-here net.xps_cpus: no interface with hardware behind it has a transmit queue
                interfaces unknown (latency)
                  unknown net.xps_cpus: which network interfaces there are is not known: no /sys here
            "#]],
        );
    }
}
