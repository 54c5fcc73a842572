//! Whether threads of one terminal session share CPUs as a group.

use crate::extras::{Counter, Extras};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/kernel/sched_autogroup_enabled";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.sched_autogroup_enabled",
    title: "whether each terminal session is one scheduling group",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The threads of each terminal session share CPU time as one group, so a build in one window does not starve the \
        others. systemd services have no terminal and their own control groups, so this does not affect them. For a \
        server that you start from a terminal, nice counts only within its own session.",
    risk: "programs started from terminals share CPUs differently",
    shows_in: "/proc/PID/autogroup of the server",
    kernels: "with CONFIG_SCHED_AUTOGROUP",
    sources: &[
        Source { title: "sched(7), the autogroup feature", says: "what it groups, and what nice means then" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "off with 4 busy processes, the ratio is 0.998: no effect",
        },
    ],
    extras: Extras {
        read_in: &[],
        // The pressure of waiting threads shows the effect: groups share a CPU only if a thread waits for it.
        counter: Some(Counter::WaitingThreads),
        effect: Some(Effect::Small),
        worth_a_trial: &["0", "1"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let reason = match current {
        0 => "threads share CPUs individually; for a systemd service that changes nothing",
        _ => "it groups only terminal sessions; a service has none, and its control group groups it",
    };
    Ok(Finding::keep(PATH, reason).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn it_does_nothing_to_services() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &with_sysctl(PATH, "1")),
                ("off", Goal::Density, &with_sysctl(PATH, "0")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                on (latency)
                  keep /proc/sys/kernel/sched_autogroup_enabled "1": it groups only terminal sessions; a service has none, and its control group groups it
                off (density)
                  keep /proc/sys/kernel/sched_autogroup_enabled "0": threads share CPUs individually; for a systemd service that changes nothing
                not there (latency)
                  not-here /proc/sys/kernel/sched_autogroup_enabled: not present here: the facts do not include /proc/sys/kernel/sched_autogroup_enabled
            "#]],
        );
    }
}
