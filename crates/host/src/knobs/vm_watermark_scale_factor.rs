//! How early the kernel starts background reclaim.

use crate::extras::{Counter, CounterPlace, Extras, MaxBefore, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{one, size};

const PATH: &str = "/proc/sys/vm/watermark_scale_factor";

pub(super) const KNOB: Knob = Knob {
    id: "vm.watermark_scale_factor",
    title: "how early background reclaim starts",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: 3000, unit: "" },
    default: "10",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The kernel's background thread wakes when free memory falls below one watermark, and reclaims up to another. \
        The distance between them is this many ten-thousandths of memory. If programs take memory faster than the \
        thread frees it, an allocation must reclaim memory itself and waits. A larger distance wakes the thread \
        earlier.",
    risk: "a larger distance keeps more memory free that files could use",
    shows_in: "allocstall_normal and pgscan_direct in /proc/vmstat: allocations that had to reclaim memory themselves",
    kernels: "since Linux 4.6; at most 1000 in older kernels",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/sysctl/vm.rst, watermark_scale_factor",
        says: "unit, default and limit; raise it if many allocations reclaim directly",
    }],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["allocstall_normal", "pgscan_direct"] }],
        // A watermark is engaged when the kernel reclaims because of it.
        counter: Some(Counter::Reclaim),
        worth_a_trial: &["100"],
        risk_at: RiskAt::Higher,
        max_before: Some(MaxBefore { kernel: (5, 15), max: 1000 }),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let Some(total) = facts.memory.total_bytes.known() else {
        return Err(Finding::unknown(PATH, "how much memory there is", &facts.memory.total_bytes).at(current));
    };
    let distance = size(total / 10_000 * u64::try_from(current).unwrap_or(0).min(3000));
    let reason = format!(
        "the reclaim watermarks are about {distance} apart, which is enough unless allocstall in /proc/vmstat \
            rises while the server runs"
    );
    Ok(Finding::keep(PATH, reason).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn the_distance_between_the_marks_decides() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("raised", Goal::Latency, &with_sysctl(PATH, "200")),
                ("memory unknown", Goal::Latency, &|facts| facts.memory.total_bytes = Fact::absent("no /proc/meminfo")),
                ("an older kernel", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                default (latency)
                  keep /proc/sys/vm/watermark_scale_factor "10": the reclaim watermarks are about 8 MiB apart, which is enough unless allocstall in /proc/vmstat rises while the server runs
                raised (latency)
                  keep /proc/sys/vm/watermark_scale_factor "200": the reclaim watermarks are about 163 MiB apart, which is enough unless allocstall in /proc/vmstat rises while the server runs
                memory unknown (latency)
                  unknown /proc/sys/vm/watermark_scale_factor "10": how much memory there is is not known: no /proc/meminfo
                an older kernel (latency)
                  not-here /proc/sys/vm/watermark_scale_factor: not present here: the facts do not include /proc/sys/vm/watermark_scale_factor
            "#]],
        );
    }
}
