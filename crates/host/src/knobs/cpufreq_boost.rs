//! Whether CPUs may run above their nominal frequency.

use crate::extras::{Counter, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{boosted, one};

const PATH: &str = "/sys/devices/system/cpu/cpufreq/boost";

pub(super) const KNOB: Knob = Knob {
    id: "cpufreq.boost",
    title: "frequencies above the nominal frequency",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A core runs above its nominal frequency while heat and power allow it. That helps a server whose work is one \
        thread per tick. Guides for 256-bit vector code disable it to get a constant frequency: steadier, but lower \
        for all code. Nearly all virtual machines have no frequency driver; the host decides.",
    risk: "the frequency varies with heat and with the load of the neighbors",
    shows_in: "scaling_cur_freq of the policies while the server runs",
    kernels: "all, with acpi-cpufreq, amd-pstate (since 6.11) or another driver with boost",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/cpufreq.rst",
            says: "what governors, policies and boost are",
        },
        Source { title: "TuneD, profile latency-performance", says: "governor performance, boost 1" },
        Source { title: "Redpanda, rpk redpanda tune cpu", says: "writes 0, against TuneD" },
    ],
    extras: Extras {
        counter: Some(Counter::Frequency),
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance],
        called: &["tuned cpu boost"],
        risk_at: RiskAt::Values(&["1"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(boosted(PATH, &facts.frequency.boost, true))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn it_stays_fast() {
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("fast", Goal::Latency, &|facts| facts.frequency.boost = Fact::Known(true)),
                ("slowed", Goal::Density, &|facts| facts.frequency.boost = Fact::Known(false)),
                ("denied", Goal::Latency, &|facts| facts.frequency.boost = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here /sys/devices/system/cpu/cpufreq/boost: not present here: no frequency driver
                fast (latency)
                  keep /sys/devices/system/cpu/cpufreq/boost "1": cores may run above their nominal frequency, which suits a server with one busy thread
                slowed (density)
                  set /sys/devices/system/cpu/cpufreq/boost "0" -> "1": cores stay at or below their nominal frequency, which slows every tick
                denied (latency)
                  unknown /sys/devices/system/cpu/cpufreq/boost: the value in force is not known: EACCES
            "#]],
        );
    }
}
