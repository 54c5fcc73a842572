//! Whether threads process a device's packets, instead of the CPU that serves its interrupt.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::{Facts, Nic};
use crate::finding::{Against, Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{each_interface, usable_cpus};

/// The value with threads.
const THREADED: &[&str] = &["1"];

pub(super) const KNOB: Knob = Knob {
    id: "net.threaded_napi",
    title: "packet processing in kernel threads",
    area: Area::Network,
    place: Place::Each { device: Device::Interface, file: "threaded", reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Normally the CPU that serves an interrupt processes the packets itself, in a softirq that the scheduler cannot \
        move. With this setting each queue has a thread for that (napi/INTERFACE-N). You can pin it to a CPU, and give \
        it a priority below or above the tick's. Each round costs a wake-up.",
    risk: "the threads compete with the server unless you pin them; a wake-up for each round",
    shows_in: "CPU time of the threads napi/INTERFACE-N",
    kernels: "5.15 and newer; 5.10 and older do not have it",
    sources: &[Source {
        title: "Linux Documentation/networking/napi.rst, threaded NAPI",
        says: "a thread for each instance; pin each to the CPU that serves its interrupt",
    }],
    extras: Extras { counter: Some(Counter::DevicePackets), risk_at: RiskAt::Values(&["1"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(facts, context.goal, nic))
}

fn decide(facts: &Facts, goal: Goal, nic: &Nic) -> Result<Finding, Finding> {
    let current = own(&nic.name, &nic.napi.threaded)?;
    let Some(count) = usable_cpus(facts) else {
        return Err(Finding::unknown(&nic.name, "how many CPUs there are", &facts.cpus.online).at(current));
    };
    let prove = |value| format!("run `evenkeel prove {}@{}={value}` to measure", KNOB.id, nic.name);
    let finding = match (current, count) {
        (0, ..=1) => Finding::not_here(&nic.name, "1 CPU: its threads would run on the server's CPU")
            .against(Against::Values(&THREADED)),
        (0, _) if goal == Goal::Latency => {
            let reason = format!(
                "the CPU that serves the interrupt processes the packets, without a wake-up; pinned threads could \
                    be scheduled against ticks: {}",
                prove(1)
            );
            Finding::keep(&nic.name, reason)
        }
        (0, _) => {
            Finding::keep(&nic.name, "the CPU that serves the interrupt processes the packets, without a wake-up")
        }
        (_, ..=1) => {
            Finding::set(&nic.name, 0, "1 CPU: its threads run on the server's CPU, after a wake-up for each round")
        }
        _ => Finding::keep(
            &nic.name,
            format!("threads napi/{}-N process its packets: pin them; {} what they cost", nic.name, prove(0)),
        ),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, nics, with_cpus};

    fn with(value: u32) -> impl Fn(&mut Facts) {
        move |facts| nics(facts)[0].napi.threaded = Fact::Known(value)
    }

    #[test]
    fn it_is_judged_by_who_polls() {
        check(
            &KNOB,
            &[
                ("off", Goal::Latency, &|_| {}),
                ("off", Goal::Throughput, &|_| {}),
                ("on", Goal::Latency, &with(1)),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("1 CPU, on", Goal::Latency, &|facts| {
                    with_cpus(1)(facts);
                    with(1)(facts);
                }),
                ("no such file", Goal::Latency, &|facts| {
                    nics(facts)[0].napi.threaded = Fact::absent("no such file or directory (ENOENT)");
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
            ],
            expect![[r#"
                off (latency)
                  keep eth0 "0": the CPU that serves the interrupt processes the packets, without a wake-up; pinned threads could be scheduled against ticks: run `evenkeel prove net.threaded_napi@eth0=1` to measure
                off (throughput)
                  keep eth0 "0": the CPU that serves the interrupt processes the packets, without a wake-up
                on (latency)
                  keep eth0 "1": threads napi/eth0-N process its packets: pin them; run `evenkeel prove net.threaded_napi@eth0=0` to measure what they cost
                1 CPU (latency)
                  not-here eth0 "0": 1 CPU: its threads would run on the server's CPU
                1 CPU, on (latency)
                  set eth0 "1" -> "0": 1 CPU: its threads run on the server's CPU, after a wake-up for each round
                no such file (latency)
                  not-here eth0: not present here: no such file or directory (ENOENT)
                loopback only (latency)
                  not-here net.threaded_napi: no interface has hardware
            "#]],
        );
    }
}
