//! How long a device's interrupt waits for more packets.

use crate::extras::{CounterPlace, Extras, Lasts, RiskAt};
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::each_interface;

pub(super) const KNOB: Knob = Knob {
    id: "net.coalesce_rx_us",
    title: "delay of receive interrupts to batch packets",
    area: Area::Network,
    place: Place::ByHandEach { device: Device::Interface, how: "ethtool -C {device} adaptive-rx off rx-usecs {}" },
    values: Values::Number { min: 0, max: 65_535, unit: "us" },
    default: "set by the driver: 20 for ENA in Linux 6.12, 0 in 6.1; some drivers adapt it to the load (adaptive)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A device may delay its interrupt by this many microseconds, so that one interrupt serves several packets. A \
        single packet waits the whole time, which adds to each round trip. With adaptive-rx the driver sets the delay \
        by the load it measures, and a server's bursts look like load. A reboot resets it. systemd's .link files \
        (RxCoalesceSec=, UseAdaptiveRxCoalesce=) and nmcli make it persist.",
    risk: "one interrupt per packet: fewer packets per second fit, and the CPU that serves them is interrupted more often",
    shows_in: "`ethtool -c`; interrupts in /proc/interrupts against packets",
    kernels: "depends on the driver: virtio since 6.1 and only if the host offers it, gVNIC in 6.1 but not 5.15, Xen never",
    sources: &[
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "for latency adaptive-rx off, rx-usecs 0, tx-usecs 0",
        },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "adaptive-rx off; make it persist with a .link file or nmcli",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &[] }],
        lasts: Some(Lasts::Link { keys: "UseAdaptiveRxCoalesce=no\nRxCoalesceSec={}us\n", since: 250 }),
        called: &["ethtool -C rx-usecs"],
        risk_at: RiskAt::Lower,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(context.goal, nic))
}

fn decide(goal: Goal, nic: &Nic) -> Result<Finding, Finding> {
    let coalesce = own(&nic.name, &nic.coalesce)?;
    let current = if coalesce.adaptive_rx { "adaptive".to_owned() } else { coalesce.rx_us.to_string() };
    let command = format!("run `ethtool -C {} adaptive-rx off rx-usecs 0`", nic.name);
    let finding = match (current.as_str(), goal) {
        ("0", _) => Finding::keep(&nic.name, "interrupts do not wait for more packets"),
        ("adaptive", Goal::Latency) => {
            let reason = format!("the driver adapts the delay to the load, {} us now; {command}", coalesce.rx_us);
            Finding::set(&nic.name, 0, reason)
        }
        (us, Goal::Latency) => {
            Finding::set(&nic.name, 0, format!("a packet may wait {us} us before its interrupt; {command}"))
        }
        _ => Finding::keep(&nic.name, format!("fewer interrupts for the same packets, which suits the goal {goal}")),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Coalesce;
    use crate::testing::{check, nics};

    fn with(rx_us: u32, adaptive_rx: bool) -> impl Fn(&mut Facts) {
        move |facts| {
            let coalesce = Coalesce { rx_us, rx_frames: 0, tx_us: 64, tx_frames: 0, adaptive_rx, adaptive_tx: false };
            nics(facts)[0].coalesce = Fact::Known(coalesce);
        }
    }

    #[test]
    fn latency_waits_for_no_further_packet() {
        check(
            &KNOB,
            &[
                ("no such thing", Goal::Latency, &|_| {}),
                ("none", Goal::Latency, &with(0, false)),
                ("ENA in 6.12", Goal::Latency, &with(20, false)),
                ("ENA in 6.12", Goal::Throughput, &with(20, false)),
                ("adaptive", Goal::Latency, &with(0, true)),
                ("adaptive", Goal::Density, &with(64, true)),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
            ],
            expect![[r#"
                no such thing (latency)
                  not-here eth0: not present here: operation not supported (EOPNOTSUPP)
                none (latency)
                  keep eth0 "0": interrupts do not wait for more packets
                ENA in 6.12 (latency)
                  set eth0 "20" -> "0": a packet may wait 20 us before its interrupt; run `ethtool -C eth0 adaptive-rx off rx-usecs 0`
                ENA in 6.12 (throughput)
                  keep eth0 "20": fewer interrupts for the same packets, which suits the goal throughput
                adaptive (latency)
                  set eth0 "adaptive" -> "0": the driver adapts the delay to the load, 0 us now; run `ethtool -C eth0 adaptive-rx off rx-usecs 0`
                adaptive (density)
                  keep eth0 "adaptive": fewer interrupts for the same packets, which suits the goal density
                loopback only (latency)
                  not-here net.coalesce_rx_us: no interface has hardware
            "#]],
        );
    }
}
