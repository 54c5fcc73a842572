//! How eagerly the kernel swaps anonymous memory out.

use crate::extras::{Counter, CounterPlace, Extras, MaxBefore, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/vm/swappiness";

/// Half the kernel's default. Amazon's guide for game servers begins with this value.
const WANTED: i64 = 30;

pub(super) const KNOB: Knob = Knob {
    id: "vm.swappiness",
    title: "preference for swapping anonymous memory",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 200, unit: "" },
    default: "60",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "When memory is short, the kernel either drops pages of files or swaps out pages of processes. With a lower \
        value it spares the processes, so that a server's tick does not wait for a page from disk. Without swap the \
        value has no effect.",
    risk: "near 0 the kernel kills processes for lack of memory before it swaps",
    shows_in: "pswpin and pswpout in /proc/vmstat, major faults of the server's process",
    kernels: "all; 0 to 100 before Linux 5.8, 0 to 200 since",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/vm.rst, swappiness",
            says: "range, default and meaning; more than 100 for swap in memory such as zram",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "start by halving the value",
        },
        Source { title: "TuneD, profile latency-performance", says: "10, against the others" },
        Source { title: "Redpanda, rpk redpanda tune swappiness", says: "1, against the others" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["pswpin", "pswpout"] }],
        counter: Some(Counter::Reclaim),
        // A swapped page must be read from a disk.
        effect: Some(Effect::Large),
        worth_a_trial: &["10"],
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance, TunedProfile::Throughput],
        risk_at: RiskAt::UpTo(10),
        max_before: Some(MaxBefore { kernel: (5, 8), max: 100 }),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let Some(swaps) = facts.memory.swaps.known() else {
        return Err(Finding::unknown(PATH, "whether there is swap", &facts.memory.swaps).at(current));
    };
    let finding = match swaps.iter().find(|swap| !swap.path.starts_with("/dev/zram")) {
        _ if swaps.is_empty() => Finding::inert(PATH, "there is no swap here, so the value has no effect"),
        None => Finding::keep(PATH, "all swap is compressed memory (zram): no page comes back from a disk"),
        Some(_) if current <= WANTED => Finding::keep(PATH, "the kernel already spares the pages of processes"),
        Some(swap) if goal == Goal::Density => {
            Finding::keep(PATH, format!("swapping the pages of idle sessions to {:?} makes room for more", swap.path))
        }
        Some(swap) => {
            let reason = format!(
                "a tick may wait for a page from {:?}: a lower value keeps the server's pages in memory; sources name 1, 10 and 30",
                swap.path
            );
            Finding::set(PATH, WANTED, reason)
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Swap;
    use crate::testing::{check, with_sysctl};

    fn swap(path: &'static str, swappiness: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.memory.swaps =
                Fact::Known(vec![Swap { path: path.into(), kind: "partition".into(), size_bytes: 1 << 30 }]);
            with_sysctl(PATH, swappiness)(facts);
        }
    }

    #[test]
    fn it_matters_where_there_is_swap() {
        check(
            &KNOB,
            &[
                ("no swap", Goal::Latency, &|_| {}),
                ("swap", Goal::Latency, &swap("/dev/vdb", "60")),
                ("swap", Goal::Throughput, &swap("/dev/vdb", "200")),
                ("swap", Goal::Density, &swap("/dev/vdb", "60")),
                ("swap, lowered", Goal::Latency, &swap("/swapfile", "30")),
                ("zram", Goal::Latency, &swap("/dev/zram0", "180")),
                ("swap unknown", Goal::Latency, &|facts| facts.memory.swaps = Fact::absent("no /proc/swaps")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                no swap (latency)
                  not-here /proc/sys/vm/swappiness "60": there is no swap here, so the value has no effect
                swap (latency)
                  set /proc/sys/vm/swappiness "60" -> "30": a tick may wait for a page from "/dev/vdb": a lower value keeps the server's pages in memory; sources name 1, 10 and 30
                swap (throughput)
                  set /proc/sys/vm/swappiness "200" -> "30": a tick may wait for a page from "/dev/vdb": a lower value keeps the server's pages in memory; sources name 1, 10 and 30
                swap (density)
                  keep /proc/sys/vm/swappiness "60": swapping the pages of idle sessions to "/dev/vdb" makes room for more
                swap, lowered (latency)
                  keep /proc/sys/vm/swappiness "30": the kernel already spares the pages of processes
                zram (latency)
                  keep /proc/sys/vm/swappiness "180": all swap is compressed memory (zram): no page comes back from a disk
                swap unknown (latency)
                  unknown /proc/sys/vm/swappiness "60": whether there is swap is not known: no /proc/swaps
                not there (latency)
                  not-here /proc/sys/vm/swappiness: not present here: the facts do not include /proc/sys/vm/swappiness
            "#]],
        );
    }
}
