//! How often a device's interrupt stays off after a round without packets.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::each_interface;

pub(super) const KNOB: Knob = Knob {
    id: "net.napi_defer_hard_irqs",
    title: "empty polling rounds before interrupts return",
    area: Area::Network,
    place: Place::Each { device: Device::Interface, file: "napi_defer_hard_irqs", reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "After it took all packets, the kernel enables the device's interrupt again. With this setting and \
        net.gro_flush_timeout_ns, it leaves the interrupt off for this many rounds and checks again when the timeout \
        has passed. A server that polls (SO_BUSY_POLL with SO_PREFER_BUSY_POLL) then takes its packets without an \
        interrupt. A server that does not poll waits for the timeout instead of the interrupt.",
    risk: "if nobody polls, packets wait up to the timeout",
    shows_in: "interrupts of the device in /proc/interrupts against its packets",
    kernels: "5.10 and newer; not 4.4",
    sources: &[
        Source {
            title: "Linux Documentation/networking/napi.rst",
            says: "both together let a polling application replace interrupts; the timeout is the safety net",
        },
        Source {
            title: "Linux Documentation/ABI/testing/sysfs-class-net",
            says: "how often the kernel defers the interrupt when a round found nothing",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &[] }],
        counter: Some(Counter::DevicePackets),
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| {
        let rounds = own(&nic.name, &nic.napi.defer_hard_irqs)?;
        Ok(put_off(KNOB.id, rounds.into(), facts, context.goal, nic))
    })
}

/// Decides both knobs that defer interrupts. They help only together, and they help only threads that poll.
pub(super) fn put_off(id: &str, current: u64, facts: &Facts, goal: Goal, nic: &Nic) -> Finding {
    let polled = ["busy_poll", "busy_read"].into_iter().find(|key| {
        let value = facts.sysctl(&format!("/proc/sys/net/core/{key}"));
        value.known().is_some_and(|value| value != "0")
    });
    let finding = match (current, polled) {
        (0, Some(key)) => {
            let reason = format!(
                "net.core.{key} is on: with this setting, interrupts would stay off between polls; it helps only \
                    together with the other one and SO_PREFER_BUSY_POLL in the server"
            );
            Finding::keep(&nic.name, reason)
        }
        (0, None) => Finding::keep(
            &nic.name,
            "no setting makes anyone poll, so packets would wait for a poll that does not come",
        ),
        (_, None) if goal == Goal::Latency => {
            let reason = format!(
                "neither net.core.busy_poll nor net.core.busy_read is on: unless the server sets \
                    SO_PREFER_BUSY_POLL, packets wait for the timer; run `evenkeel prove {}@{}=0` to measure the \
                    effect",
                id, nic.name
            );
            Finding::set(&nic.name, 0, reason)
        }
        (_, None) => {
            Finding::keep(&nic.name, format!("fewer interrupts, which suits the goal {goal}; packets wait longer"))
        }
        (_, Some(key)) => Finding::keep(&nic.name, format!("net.core.{key} is on: threads that poll take the packets")),
    };
    finding.at(current)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, nics, with_cpus, with_sysctl};

    fn with(value: u32) -> impl Fn(&mut Facts) {
        move |facts| nics(facts)[0].napi.defer_hard_irqs = Fact::Known(value)
    }

    #[test]
    fn it_is_judged_by_who_polls() {
        check(
            &KNOB,
            &[
                ("off", Goal::Latency, &|_| {}),
                ("off, polled", Goal::Latency, &with_sysctl("/proc/sys/net/core/busy_poll", "50")),
                ("on", Goal::Latency, &with(2)),
                ("on", Goal::Throughput, &with(2)),
                ("on, polled", Goal::Latency, &|facts| {
                    with(2)(facts);
                    with_sysctl("/proc/sys/net/core/busy_read", "50")(facts);
                }),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("no such file", Goal::Latency, &|facts| {
                    nics(facts)[0].napi.defer_hard_irqs = Fact::absent("no such file or directory (ENOENT)");
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
            ],
            expect![[r#"
                off (latency)
                  keep eth0 "0": no setting makes anyone poll, so packets would wait for a poll that does not come
                off, polled (latency)
                  keep eth0 "0": net.core.busy_poll is on: with this setting, interrupts would stay off between polls; it helps only together with the other one and SO_PREFER_BUSY_POLL in the server
                on (latency)
                  set eth0 "2" -> "0": neither net.core.busy_poll nor net.core.busy_read is on: unless the server sets SO_PREFER_BUSY_POLL, packets wait for the timer; run `evenkeel prove net.napi_defer_hard_irqs@eth0=0` to measure the effect
                on (throughput)
                  keep eth0 "2": fewer interrupts, which suits the goal throughput; packets wait longer
                on, polled (latency)
                  keep eth0 "2": net.core.busy_read is on: threads that poll take the packets
                1 CPU (latency)
                  keep eth0 "0": no setting makes anyone poll, so packets would wait for a poll that does not come
                no such file (latency)
                  not-here eth0: not present here: no such file or directory (ENOENT)
                loopback only (latency)
                  not-here net.napi_defer_hard_irqs: no interface has hardware
            "#]],
        );
    }
}
