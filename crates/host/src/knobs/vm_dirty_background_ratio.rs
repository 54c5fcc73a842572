//! The dirty share of memory above which the kernel writes in the background.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{one, size};

use super::vm_dirty_ratio::{HANDLERS, KERNEL, bytes_in_use, share_of_memory};

const PATH: &str = "/proc/sys/vm/dirty_background_ratio";
const EXCLUSIVE_WITH: &str = "/proc/sys/vm/dirty_background_bytes";

/// The kernel's default, which Amazon's guide for game servers keeps.
const WANTED: i64 = 10;

pub(super) const KNOB: Knob = Knob {
    id: "vm.dirty_background_ratio",
    title: "dirty share of memory before background writing starts",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 100, unit: "percent" },
    default: "10",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "When this share of memory is dirty, background threads write it out while programs continue. It must be well \
        below vm.dirty_ratio, so that writers never wait. If it is not below, the kernel uses half of vm.dirty_ratio. \
        A lower share writes sooner and in smaller portions. vm.dirty_background_bytes is the same limit in bytes; a \
        write to one sets the other to 0.",
    risk: "a lower share writes data that programs would soon have overwritten",
    shows_in: "nr_dirty and nr_dirty_background_threshold in /proc/vmstat",
    kernels: "all",
    sources: &[
        KERNEL,
        HANDLERS,
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "keep the default of 10; its line for sysctl.conf lacks the vm. of the name",
        },
        Source {
            title: "TuneD, profile latency-performance",
            says: "3 % of memory as vm.dirty_background_bytes, against the other",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["nr_dirty", "nr_dirty_background_threshold"] }],
        // Count written pages, not dirtied pages, because each line in a log dirties a page.
        counter: Some(Counter::WrittenPages),
        side_effects: &[EXCLUSIVE_WITH],
        // A write waits for a disk.
        effect: Some(Effect::Large),
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance, TunedProfile::Throughput],
        risk_at: RiskAt::Lower,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    if let Some(bytes) = bytes_in_use(facts, EXCLUSIVE_WITH) {
        let reason = format!("vm.dirty_background_bytes is in use instead, with {}", size(bytes));
        return Ok(Finding::keep(PATH, reason).at(current));
    }
    let Some(pile) = share_of_memory(facts, current) else {
        return Err(Finding::unknown(PATH, "how much memory there is", &facts.memory.total_bytes).at(current));
    };
    let ratio = own_number(facts, "/proc/sys/vm/dirty_ratio").ok().filter(|ratio| *ratio > 0);
    let finding = match (goal, ratio) {
        (_, Some(ratio)) if current >= ratio => Finding::keep(
            PATH,
            format!("not below vm.dirty_ratio, which is {ratio}: the kernel uses half of that, {} %", ratio / 2),
        ),
        _ if current == 0 => Finding::keep(PATH, "the kernel writes data out immediately"),
        (Goal::Latency, _) if current > WANTED => {
            Finding::set(PATH, WANTED, format!("background writing starts only when up to {pile} are dirty"))
        }
        _ => Finding::keep(PATH, format!("background writing starts at {pile} at the latest")),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn writing_out_starts_before_writers_wait() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("late", Goal::Latency, &with_sysctl(PATH, "15")),
                ("late", Goal::Throughput, &with_sysctl(PATH, "15")),
                ("no less than the other", Goal::Latency, &with_sysctl(PATH, "20")),
                ("at once", Goal::Latency, &with_sysctl(PATH, "0")),
                ("in bytes", Goal::Latency, &|facts| {
                    with_sysctl(PATH, "0")(facts);
                    with_sysctl(EXCLUSIVE_WITH, "67108864")(facts);
                }),
                ("memory unknown", Goal::Latency, &|facts| facts.memory.total_bytes = Fact::absent("no /proc/meminfo")),
            ],
            expect![[r#"
                default (latency)
                  keep /proc/sys/vm/dirty_background_ratio "10": background writing starts at 819 MiB at the latest
                late (latency)
                  set /proc/sys/vm/dirty_background_ratio "15" -> "10": background writing starts only when up to 1.2 GiB are dirty
                late (throughput)
                  keep /proc/sys/vm/dirty_background_ratio "15": background writing starts at 1.2 GiB at the latest
                no less than the other (latency)
                  keep /proc/sys/vm/dirty_background_ratio "20": not below vm.dirty_ratio, which is 20: the kernel uses half of that, 10 %
                at once (latency)
                  keep /proc/sys/vm/dirty_background_ratio "0": the kernel writes data out immediately
                in bytes (latency)
                  keep /proc/sys/vm/dirty_background_ratio "0": vm.dirty_background_bytes is in use instead, with 64 MiB
                memory unknown (latency)
                  unknown /proc/sys/vm/dirty_background_ratio "10": how much memory there is is not known: no /proc/meminfo
            "#]],
        );
    }
}
