//! Transparent huge pages: whether the kernel uses 2 MiB pages without a request of the program.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, State, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) const KNOB: Knob = Knob {
    id: "thp.enabled",
    title: "huge pages for memory that did not request them",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::ChosenWord },
    values: Values::Words(&["always", "madvise", "never"]),
    default: "always or madvise, depending on the distribution's kernel",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A huge page needs one entry in the processor's translation cache instead of 512, so programs walk large data \
        faster. But to find one, the kernel may have to move other pages while a page fault waits. Later a background \
        thread moves memory together. Both cause pauses in the middle of a tick. madvise gives huge pages only to \
        memory for which the program requests them.",
    risk: "without huge pages programs walk large data more slowly; existing huge pages stay; changing to or from never \
        also changes vm.min_free_kbytes",
    shows_in: "AnonHugePages in /proc/PID/smaps_rollup, thp_fault_alloc and compact_stall in /proc/vmstat",
    kernels: "all that are built with CONFIG_TRANSPARENT_HUGEPAGE",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/mm/transhuge.rst",
            says: "meaning of the words, and of defrag",
        },
        Source {
            title: "Linux mm/khugepaged.c, set_recommended_min_free_kbytes",
            says: "recomputes vm.min_free_kbytes when huge pages go on or off",
        },
        Source { title: "TuneD, profile network-latency", says: "never, against the others" },
        Source { title: "Redpanda, rpk redpanda tune transparent_hugepages", says: "always, against the others" },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "always or madvise",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "never to always: 196 to 170 ns an access over 256 MiB, no sure difference over 32 MiB; never took \
                   vm.min_free_kbytes from 67584 to 19832",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["compact_stall", "thp_fault_alloc"] }],
        // The counter shows faults, not existing pages. Memory that a server touched before the switch does not change.
        counter: Some(Counter::HugePageFaults),
        side_effects: &["/proc/sys/vm/min_free_kbytes"],
        // A page fault waits while the kernel moves memory and clears 2 MiB.
        effect: Some(Effect::Large),
        worth_a_trial: &["always", "madvise"],
        tuned: &[TunedProfile::NetworkLatency],
        called: &["tuned vm transparent_hugepages", "tuned vm transparent_hugepage"],
        risk_at: RiskAt::Except(&["always"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.memory.thp_enabled)?;
    let finding = match (current.as_str(), goal) {
        ("always", Goal::Latency) => {
            // Only defrag=always makes every page fault wait.
            // With the other words, the kernel makes huge pages in the background.
            let cost = match facts.memory.thp_defrag.known().map(String::as_str) {
                Some("always") => {
                    "with defrag at \"always\" any page fault may wait while the kernel moves memory together"
                }
                _ => "any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background",
            };
            let reason = format!(
                "{cost}; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure"
            );
            Finding::set(PATH, "madvise", reason)
        }
        ("always", _) => Finding::keep(PATH, "programs walk large data faster, but some page faults are slow"),
        ("madvise", _) => Finding::keep(PATH, "only memory for which the program requests huge pages gets them"),
        ("never", _) => Finding::keep(
            PATH,
            "no page fault waits for a huge page; run `evenkeel prove thp.enabled=madvise` to measure what they \
                would gain",
        ),
        _ => Finding::new(State::Unknown, PATH, format!("evenkeel does not know the word {current:?}")),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::check;

    fn word(word: &'static str) -> impl Fn(&mut Facts) {
        move |facts| facts.memory.thp_enabled = Fact::Known(word.into())
    }

    #[test]
    fn huge_pages_are_for_those_who_ask() {
        check(
            &KNOB,
            &[
                ("always", Goal::Latency, &|_| {}),
                ("always, defrag always", Goal::Latency, &|facts| {
                    facts.memory.thp_defrag = Fact::Known("always".into())
                }),
                ("always", Goal::Throughput, &|_| {}),
                ("madvise", Goal::Latency, &word("madvise")),
                ("never", Goal::Density, &word("never")),
                ("another word", Goal::Latency, &word("inherit")),
                ("not there", Goal::Latency, &|facts| facts.memory.thp_enabled = Fact::absent("no such file")),
                ("odd", Goal::Latency, &|facts| facts.memory.thp_enabled = Fact::odd(PATH, "always", "no brackets")),
            ],
            expect![[r#"
                always (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
                always, defrag always (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": with defrag at "always" any page fault may wait while the kernel moves memory together; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
                always (throughput)
                  keep /sys/kernel/mm/transparent_hugepage/enabled "always": programs walk large data faster, but some page faults are slow
                madvise (latency)
                  keep /sys/kernel/mm/transparent_hugepage/enabled "madvise": only memory for which the program requests huge pages gets them
                never (density)
                  keep /sys/kernel/mm/transparent_hugepage/enabled "never": no page fault waits for a huge page; run `evenkeel prove thp.enabled=madvise` to measure what they would gain
                another word (latency)
                  unknown /sys/kernel/mm/transparent_hugepage/enabled "inherit": evenkeel does not know the word "inherit"
                not there (latency)
                  not-here /sys/kernel/mm/transparent_hugepage/enabled: not present here: no such file
                odd (latency)
                  unknown /sys/kernel/mm/transparent_hugepage/enabled: the value in force is not known: no brackets
            "#]],
        );
    }
}
