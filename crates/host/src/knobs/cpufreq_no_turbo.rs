//! Whether the intel_pstate driver keeps CPUs from turbo frequencies.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{boosted, one};

const PATH: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";

pub(super) const KNOB: Knob = Knob {
    id: "cpufreq.no_turbo",
    title: "whether intel_pstate avoids turbo frequencies",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A core runs above its nominal frequency while heat and power allow it. That helps a server whose work is one \
        thread per tick. Guides for 256-bit vector code disable it to get a constant frequency: steadier, but lower \
        for all code. Nearly all virtual machines have no frequency driver; the host decides.",
    risk: "the frequency varies with heat and with the load of the neighbors",
    shows_in: "scaling_cur_freq of the policies while the server runs",
    kernels: "all, with intel_pstate",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/intel_pstate.rst",
            says: "its two governors, energy_performance_preference and no_turbo",
        },
        Source { title: "TuneD, profile latency-performance", says: "governor performance, boost 1" },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "no_turbo 1 for AVX2 code: the opposite of what a game server needs",
        },
    ],
    extras: Extras {
        counter: Some(Counter::Frequency),
        called: &["tuned cpu no_turbo"],
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(boosted(PATH, &facts.frequency.no_turbo, false))
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
                ("fast", Goal::Latency, &|facts| facts.frequency.no_turbo = Fact::Known(false)),
                ("slowed", Goal::Density, &|facts| facts.frequency.no_turbo = Fact::Known(true)),
                ("denied", Goal::Latency, &|facts| facts.frequency.no_turbo = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here /sys/devices/system/cpu/intel_pstate/no_turbo: not present here: no intel_pstate
                fast (latency)
                  keep /sys/devices/system/cpu/intel_pstate/no_turbo "0": cores may run above their nominal frequency, which suits a server with one busy thread
                slowed (density)
                  set /sys/devices/system/cpu/intel_pstate/no_turbo "1" -> "0": cores stay at or below their nominal frequency, which slows every tick
                denied (latency)
                  unknown /sys/devices/system/cpu/intel_pstate/no_turbo: the value in force is not known: EACCES
            "#]],
        );
    }
}
