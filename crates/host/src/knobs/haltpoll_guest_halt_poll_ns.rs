//! How long a KVM guest's idle CPU polls before it halts.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, Wait};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{burstable, one};

const PATH: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// The kernel's default.
const WANTED_NS: u64 = 200_000;

pub(super) const KNOB: Knob = Knob {
    id: "haltpoll.guest_halt_poll_ns",
    title: "how long idle guest CPUs poll before they halt",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: u32::MAX as i64, unit: "ns" },
    default: "200000",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "When a guest's CPU halts, control goes back to the hypervisor, which must wake it later. That takes tens of \
        microseconds for a packet or a wake-up from another CPU. The haltpoll governor first polls for work for up to \
        this long. That helps if work comes again sooner. If pauses are longer, the poll ends before the work comes \
        and is wasted.",
    risk: "uses CPU time of the host even if others could run there, takes time from the CPU's sibling, spends the \
        credits of burstable instances",
    shows_in: "usage and time of /sys/devices/system/cpu/cpu*/cpuidle/state0 (the polling state)",
    kernels: "since Linux 5.4, x86 guests of KVM with the haltpoll driver (cpuidle_haltpoll.force=1 loads it)",
    sources: &[
        Source {
            title: "Linux Documentation/virt/guest-halt-polling.rst",
            says: "up to 200000 ns by default; polls even when other tasks of the host could run",
        },
        Source { title: "Linux drivers/cpuidle/governors/haltpoll.c", says: "only this governor reads it" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "from 0 to 200000, the median wake-up after 100 us of idle falls from 37.8 to 2.6 us; after 1 ms \
                   nothing changes",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::IdleUsage],
        counter: Some(Counter::IdleStates),
        worth_a_trial: &["200000", "0"],
        shortens: Some(Wait::Hypervisor),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    match &facts.idle.driver {
        Fact::Known(driver) if driver == "haltpoll" => {}
        Fact::Known(driver) if driver == "none" => {
            return Ok(Finding::inert(PATH, "there is no idle driver here, so no CPU polls before it halts"));
        }
        Fact::Known(driver) => {
            return Ok(Finding::inert(PATH, format!("the idle driver is {driver:?}, not haltpoll")));
        }
        Fact::Absent { .. } => {
            return Ok(Finding::inert(PATH, "there is no idle driver here, so no CPU polls before it halts"));
        }
        unknown => return Err(Finding::unknown(PATH, "the idle driver", unknown)),
    }
    if let Some(governor) = facts.idle.governor.known().filter(|governor| *governor != "haltpoll") {
        return Ok(Finding::inert(PATH, format!("the idle governor is {governor:?}: only haltpoll reads it")));
    }
    let current = own(PATH, &facts.idle.guest_halt_poll_ns)?;
    let finding = if current >= WANTED_NS {
        Finding::keep(PATH, format!("idle CPUs already poll for up to {current} ns before they halt"))
    } else if goal != Goal::Latency {
        Finding::keep(PATH, format!("CPUs that halt leave time to others, which suits the goal {goal}"))
    } else if let Some(instance) = burstable(facts) {
        Finding::keep(PATH, format!("polling would spend the CPU credits of a {instance}"))
    } else {
        let reason = match current {
            0 => "idle CPUs halt immediately and wait for the hypervisor to wake them".to_owned(),
            _ => format!("idle CPUs halt after {current} ns, less than the kernel polls by default"),
        };
        Finding::set(PATH, WANTED_NS, reason)
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::Cloud;
    use crate::testing::{check, with_idle};

    fn haltpoll(ns: u64) -> impl Fn(&mut Facts) {
        move |facts| {
            with_idle("haltpoll", &[("POLL", 0), ("haltpoll", 1)])(facts);
            facts.idle.governor = Fact::Known("haltpoll".into());
            facts.idle.guest_halt_poll_ns = Fact::Known(ns);
        }
    }

    #[test]
    fn it_polls_where_haltpoll_runs_and_time_is_not_metered() {
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("no cpuidle", Goal::Latency, &|facts| facts.idle.driver = Fact::absent("no cpuidle")),
                ("driver unreadable", Goal::Latency, &|facts| facts.idle.driver = Fact::odd("/d", "", "empty")),
                ("intel_idle", Goal::Latency, &with_idle("intel_idle", &[("C1", 2)])),
                ("off", Goal::Latency, &haltpoll(0)),
                ("off", Goal::Density, &haltpoll(0)),
                ("short", Goal::Latency, &haltpoll(50_000)),
                ("the default", Goal::Latency, &haltpoll(200_000)),
                ("2 ms", Goal::Throughput, &haltpoll(2_000_000)),
                ("another governor", Goal::Latency, &|facts| {
                    haltpoll(0)(facts);
                    facts.idle.governor = Fact::Known("menu".into());
                }),
                ("not there", Goal::Latency, &|facts| {
                    haltpoll(0)(facts);
                    facts.idle.guest_halt_poll_ns = Fact::absent("no such file");
                }),
                ("on credits", Goal::Latency, &|facts| {
                    haltpoll(0)(facts);
                    facts.machine.cloud = Fact::Known(Cloud::Aws);
                    facts.machine.instance_type = Fact::Known("t3a.xlarge".into());
                }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here /sys/module/haltpoll/parameters/guest_halt_poll_ns: there is no idle driver here, so no CPU polls before it halts
                no cpuidle (latency)
                  not-here /sys/module/haltpoll/parameters/guest_halt_poll_ns: there is no idle driver here, so no CPU polls before it halts
                driver unreadable (latency)
                  unknown /sys/module/haltpoll/parameters/guest_halt_poll_ns: the idle driver is not known: empty
                intel_idle (latency)
                  not-here /sys/module/haltpoll/parameters/guest_halt_poll_ns: the idle driver is "intel_idle", not haltpoll
                off (latency)
                  set /sys/module/haltpoll/parameters/guest_halt_poll_ns "0" -> "200000": idle CPUs halt immediately and wait for the hypervisor to wake them
                off (density)
                  keep /sys/module/haltpoll/parameters/guest_halt_poll_ns "0": CPUs that halt leave time to others, which suits the goal density
                short (latency)
                  set /sys/module/haltpoll/parameters/guest_halt_poll_ns "50000" -> "200000": idle CPUs halt after 50000 ns, less than the kernel polls by default
                the default (latency)
                  keep /sys/module/haltpoll/parameters/guest_halt_poll_ns "200000": idle CPUs already poll for up to 200000 ns before they halt
                2 ms (throughput)
                  keep /sys/module/haltpoll/parameters/guest_halt_poll_ns "2000000": idle CPUs already poll for up to 2000000 ns before they halt
                another governor (latency)
                  not-here /sys/module/haltpoll/parameters/guest_halt_poll_ns: the idle governor is "menu": only haltpoll reads it
                not there (latency)
                  not-here /sys/module/haltpoll/parameters/guest_halt_poll_ns: not present here: no such file
                on credits (latency)
                  keep /sys/module/haltpoll/parameters/guest_halt_poll_ns "0": polling would spend the CPU credits of a t3a.xlarge
            "#]],
        );
    }
}
