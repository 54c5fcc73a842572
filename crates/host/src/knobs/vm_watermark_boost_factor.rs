//! How much more memory the kernel reclaims after fragmentation.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/vm/watermark_boost_factor";

pub(super) const KNOB: Knob = Knob {
    id: "vm.watermark_boost_factor",
    title: "extra reclaim when memory is fragmented",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "" },
    default: "15000",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Sometimes an allocation must break into a block of memory that is kept for another kind. The kernel then \
        raises the watermark up to which its background thread reclaims, by up to this many hundredths of a percent of \
        the high watermark. The thread then frees memory that nobody requested, and drops files that are in use, in a \
        burst.",
    risk: "at 0, memory fragments sooner and huge pages become rarer",
    shows_in: "pageoutrun and kswapd_high_wmark_hit_quickly in /proc/vmstat",
    kernels: "since Linux 5.0",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/sysctl/vm.rst, watermark_boost_factor",
        says: "meaning, unit and default; 0 switches it off",
    }],
    extras: Extras {
        read_in: &[CounterPlace::Table {
            file: "/proc/vmstat",
            names: &["kswapd_high_wmark_hit_quickly", "pageoutrun"],
        }],
        // A watermark is engaged when the kernel reclaims because of it.
        counter: Some(Counter::Reclaim),
        risk_at: RiskAt::Values(&["0"]),
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
        _ if current <= 0 => Finding::keep(PATH, "reclaim uses its ordinary watermarks"),
        Goal::Latency => Finding::set(
            PATH,
            0,
            "a burst of unrequested reclaim takes CPU time from ticks and drops files that are in use",
        ),
        Goal::Throughput | Goal::Density => {
            Finding::keep(PATH, "it keeps memory in larger pieces, but costs some reclaim")
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn reclaim_keeps_to_its_marks() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("default", Goal::Density, &|_| {}),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("an older kernel", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                default (latency)
                  set /proc/sys/vm/watermark_boost_factor "15000" -> "0": a burst of unrequested reclaim takes CPU time from ticks and drops files that are in use
                default (density)
                  keep /proc/sys/vm/watermark_boost_factor "15000": it keeps memory in larger pieces, but costs some reclaim
                off (latency)
                  keep /proc/sys/vm/watermark_boost_factor "0": reclaim uses its ordinary watermarks
                an older kernel (latency)
                  not-here /proc/sys/vm/watermark_boost_factor: not present here: the facts do not include /proc/sys/vm/watermark_boost_factor
            "#]],
        );
    }
}
