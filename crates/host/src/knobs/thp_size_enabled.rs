//! Transparent pages of sizes between small and huge. The kernel makes them faster than huge pages.

use crate::extras::{Counter, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

pub(super) const KNOB: Knob = Knob {
    id: "thp.size_enabled",
    title: "mid-size pages for memory that did not request them",
    area: Area::Memory,
    place: Place::Each { device: Device::ThpSize, file: "enabled", reading: Reading::ChosenWord },
    values: Values::Words(&["always", "inherit", "madvise", "never"]),
    default: "never, but inherit for the huge size",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Between small and huge pages there are other sizes (16 KiB, 64 KiB and so on). They save page faults and \
        translation cache entries, and the kernel clears them faster than a huge page. inherit follows thp.enabled. \
        ARM cores combine such pages into one entry; only some x86 processors do (from memory).",
    risk: "the kernel gives memory that the program does not use",
    shows_in: "/sys/kernel/mm/transparent_hugepage/hugepages-NkB/stats",
    kernels: "6.8 on",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/mm/transhuge.rst, multi-size THP",
            says: "the folders, the words, and inherit",
        },
        Source {
            title: "AWS Graviton Getting Started, perfrunbook/optimization_recommendation.md",
            says: "16 KiB and 64 KiB on Graviton from Linux 6.9 on",
        },
    ],
    extras: Extras { counter: Some(Counter::HugePageFaults), risk_at: RiskAt::Except(&["never"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    let sizes = match &facts.memory.thp_sizes {
        Fact::Known(sizes) => sizes,
        Fact::Absent { why } => return vec![Finding::not_here(KNOB.id, why.as_str())],
        unknown => return vec![Finding::unknown(KNOB.id, "which sizes there are", unknown)],
    };
    let is_arm = facts.kernel.architecture.known().is_some_and(|name| name == "aarch64");
    let on: Vec<String> = sizes
        .iter()
        .filter_map(|size| Some((size, size.enabled.known()?)))
        .filter(|(_, word)| matches!(word.as_str(), "always" | "madvise"))
        .map(|(size, word)| format!("{} {word}", kib(size.size_bytes)))
        .collect();
    let reason = match (on.is_empty(), is_arm) {
        (false, _) => format!("in use: {}", on.join(", ")),
        (true, true) => format!(
            "only the huge size is in use; ARM combines mid-size pages into one entry: run `evenkeel prove \
                {}@hugepages-64kB=always` to measure",
            KNOB.id
        ),
        (true, false) => format!(
            "only the huge size is in use; run `evenkeel prove {}@hugepages-64kB=madvise` to see whether a server \
                gains whose allocator requests them",
            KNOB.id
        ),
    };
    vec![Finding::keep(KNOB.id, reason)]
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::ThpSize;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn sizes_are_listed_if_the_kernel_has_them() {
        let sizes = |word: &'static str, machine: &'static str| {
            move |facts: &mut Facts| {
                let size = |size_bytes, word: &str| ThpSize { size_bytes, enabled: Fact::Known(word.into()) };
                facts.memory.thp_sizes = Fact::Known(vec![size(64 << 10, word), size(2 << 20, "inherit")]);
                facts.kernel.architecture = Fact::Known(machine.into());
            }
        };
        check(
            &KNOB,
            &[
                ("before 6.8", Goal::Latency, &|_| {}),
                ("x86", Goal::Latency, &sizes("never", "x86_64")),
                ("arm", Goal::Latency, &sizes("never", "aarch64")),
                ("in use", Goal::Density, &sizes("always", "aarch64")),
                ("unknown", Goal::Latency, &|facts| facts.memory.thp_sizes = Fact::Denied { why: "no".into() }),
            ],
            expect![[r#"
                before 6.8 (latency)
                  not-here thp.size_enabled: this kernel has no sizes between small and huge
                x86 (latency)
                  keep thp.size_enabled: only the huge size is in use; run `evenkeel prove thp.size_enabled@hugepages-64kB=madvise` to see whether a server gains whose allocator requests them
                arm (latency)
                  keep thp.size_enabled: only the huge size is in use; ARM combines mid-size pages into one entry: run `evenkeel prove thp.size_enabled@hugepages-64kB=always` to measure
                in use (density)
                  keep thp.size_enabled: in use: 64 KiB always
                unknown (latency)
                  unknown thp.size_enabled: which sizes there are is not known: no
            "#]],
        );
    }
}
