//! How long a device's interrupt may stay off before the kernel checks for packets itself.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::each_interface;

use super::net_napi_defer_hard_irqs::put_off;

pub(super) const KNOB: Knob = Knob {
    id: "net.gro_flush_timeout_ns",
    title: "time that device interrupts may stay off",
    area: Area::Network,
    place: Place::Each { device: Device::Interface, file: "gro_flush_timeout", reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "ns" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A timer checks for packets while net.napi_defer_hard_irqs keeps the device's interrupt off. It also ends the \
        wait of packets that the kernel holds back to merge them. It must be longer than the time between two polls of \
        the server. If the server does not poll in time, a packet waits at most this long.",
    risk: "adds up to its length to the delay of a packet",
    shows_in: "interrupts of the device in /proc/interrupts against its packets",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/networking/napi.rst",
            says: "both together let a polling application replace interrupts; the timeout is the safety net",
        },
        Source {
            title: "Linux Documentation/ABI/testing/sysfs-class-net",
            says: "the timer, in nanoseconds, after which the kernel passes on held packets",
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
        let timeout_ns = own(&nic.name, &nic.napi.gro_flush_timeout_ns)?;
        Ok(put_off(KNOB.id, timeout_ns, facts, context.goal, nic))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nics, with_cpus, with_sysctl};

    fn with(value: u64) -> impl Fn(&mut Facts) {
        move |facts| nics(facts)[0].napi.gro_flush_timeout_ns = Fact::Known(value)
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
                    nics(facts)[0].napi.gro_flush_timeout_ns = Fact::absent("no such file or directory (ENOENT)");
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
            ],
            expect![[r#"
                off (latency)
                  keep eth0 "0": no setting makes anyone poll, so packets would wait for a poll that does not come
                off, polled (latency)
                  keep eth0 "0": net.core.busy_poll is on: with this setting, interrupts would stay off between polls; it helps only together with the other one and SO_PREFER_BUSY_POLL in the server
                on (latency)
                  set eth0 "2" -> "0": neither net.core.busy_poll nor net.core.busy_read is on: unless the server sets SO_PREFER_BUSY_POLL, packets wait for the timer; run `evenkeel prove net.gro_flush_timeout_ns@eth0=0` to measure the effect
                on (throughput)
                  keep eth0 "2": fewer interrupts, which suits the goal throughput; packets wait longer
                on, polled (latency)
                  keep eth0 "2": net.core.busy_read is on: threads that poll take the packets
                1 CPU (latency)
                  keep eth0 "0": no setting makes anyone poll, so packets would wait for a poll that does not come
                no such file (latency)
                  not-here eth0: not present here: no such file or directory (ENOENT)
                loopback only (latency)
                  not-here net.gro_flush_timeout_ns: no interface has hardware
            "#]],
        );
    }
}
