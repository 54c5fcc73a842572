//! How often each CPU adds its memory counters to the global counters.

use crate::extras::{Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/vm/stat_interval";

/// The value that TuneD sets.
const WANTED_S: i64 = 10;

pub(super) const KNOB: Knob = Knob {
    id: "vm.stat_interval",
    title: "seconds between updates of memory counters",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: 3600, unit: "s" },
    default: "1",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Each CPU counts pages for itself. At this interval a kernel worker adds the counts to the global ones, on \
        every CPU that has some. The worker interrupts whatever runs there, including a tick, for some microseconds.",
    risk: "figures in /proc/vmstat and /proc/meminfo lag by up to this interval",
    shows_in: "context switches to kworker threads in `perf sched`, vmstat_update among the workers",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/vm.rst, stat_interval",
            says: "the interval; default 1 second",
        },
        Source { title: "TuneD, profile network-latency", says: "10" },
    ],
    extras: Extras {
        read_in: &[],
        // No counter shows this: the kernel counts this deferred work only together with all other work.
        tuned: &[TunedProfile::NetworkLatency],
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = match goal {
        Goal::Latency if (0..WANTED_S).contains(&current) => Finding::set(
            PATH,
            WANTED_S,
            format!("a kernel worker interrupts each CPU every {} to update counters that can wait", seconds(current)),
        ),
        Goal::Latency => {
            Finding::keep(PATH, format!("the kernel updates the counters only every {}", seconds(current)))
        }
        Goal::Throughput | Goal::Density => Finding::keep(PATH, "over a second, the worker's time does not matter"),
    };
    Ok(finding.at(current))
}

fn seconds(count: i64) -> String {
    if count == 1 { "second".to_owned() } else { format!("{count} seconds") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn counters_can_wait() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("default", Goal::Throughput, &|_| {}),
                ("raised", Goal::Latency, &with_sysctl(PATH, "10")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                default (latency)
                  set /proc/sys/vm/stat_interval "1" -> "10": a kernel worker interrupts each CPU every second to update counters that can wait
                default (throughput)
                  keep /proc/sys/vm/stat_interval "1": over a second, the worker's time does not matter
                raised (latency)
                  keep /proc/sys/vm/stat_interval "10": the kernel updates the counters only every 10 seconds
                not there (latency)
                  not-here /proc/sys/vm/stat_interval: not present here: the facts do not include /proc/sys/vm/stat_interval
            "#]],
        );
    }
}
