//! How much of each second real-time threads may use.

use crate::extras::{Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The kernel's default: 95 % of the period of one second.
const DEFAULT_US: i64 = 950_000;

pub(super) const KNOB: Knob = Knob {
    id: "kernel.sched_rt_runtime_us",
    title: "the CPU time limit of real-time threads",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: -1, max: 1_000_000, unit: "us" },
    default: "950000 of each 1000000",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Real-time threads may use this much of each kernel.sched_rt_period_us. So a runaway loop leaves you time to \
        stop it. The kernel stops a real-time thread that never sleeps for the rest of each period: 50 ms per second \
        at the default. -1 removes the limit, and such a thread then keeps its CPU forever.",
    risk: "without the limit, one endless loop in a real-time thread makes a CPU unreachable, and on a small machine the \
        whole machine",
    shows_in: "the longest gap of a busy real-time thread: 50 ms per second is the limit at work",
    kernels: "all; since 6.12 a deadline server also protects other threads",
    sources: &[
        Source { title: "Linux Documentation/scheduler/sched-rt-group.rst", says: "the limit, and -1" },
        Source { title: "TuneD, profile realtime", says: "-1" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "a spinning real-time thread sees gaps of up to 54 ms each second: the limit at work",
        },
    ],
    extras: Extras {
        read_in: &[],
        // The kernel logs throttling of real-time threads only once, and does not count it.
        // Throttling takes 50 ms of every second from a thread that spins.
        effect: Some(Effect::Large),
        tuned: &[TunedProfile::Realtime],
        reject_for: Some(reject_for),
        risk_at: RiskAt::Values(&["-1", "1000000"]),
        ..Extras::NONE
    },
    advise,
};

/// One percent of the usual period, which is one second.
const LEAST_US: i64 = 10_000;

/// Why the limit would be too small.
fn reject_for(_: &Facts, wanted: &str) -> Option<String> {
    wanted.parse::<i64>().is_ok_and(|wanted| (0..LEAST_US).contains(&wanted)).then(|| {
        format!(
            "evenkeel writes {LEAST_US} or more there: with so little time, real-time threads hardly run, and at 0 \
                kernels before 6.12 never run them; interrupt threads of drivers are among them"
        )
    })
}

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = match current {
        -1 => Finding::set(PATH, DEFAULT_US, "nothing protects the machine from an endless loop in a real-time thread"),
        0 => Finding::set(PATH, DEFAULT_US, "real-time threads cannot run at all"),
        _ => Finding::keep(
            PATH,
            "the limit costs a server that sleeps between ticks nothing, and it interrupts an endless loop of a \
                real-time thread",
        ),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn the_guard_stays() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &with_sysctl(PATH, "950000")),
                ("lifted", Goal::Latency, &with_sysctl(PATH, "-1")),
                ("none at all", Goal::Density, &with_sysctl(PATH, "0")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                default (latency)
                  keep /proc/sys/kernel/sched_rt_runtime_us "950000": the limit costs a server that sleeps between ticks nothing, and it interrupts an endless loop of a real-time thread
                lifted (latency)
                  set /proc/sys/kernel/sched_rt_runtime_us "-1" -> "950000": nothing protects the machine from an endless loop in a real-time thread
                none at all (density)
                  set /proc/sys/kernel/sched_rt_runtime_us "0" -> "950000": real-time threads cannot run at all
                not there (latency)
                  not-here /proc/sys/kernel/sched_rt_runtime_us: not present here: the facts do not include /proc/sys/kernel/sched_rt_runtime_us
            "#]],
        );
    }
}
