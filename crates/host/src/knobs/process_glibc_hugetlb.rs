//! Whether the C library's malloc requests huge pages.

use crate::extras::{Extras, Lasts, Owner, Process, ProcessFiles, ProcessValue, RiskAt, ServerUnit};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "process.glibc_hugetlb";

pub(super) const KNOB: Knob = Knob {
    id: "process.glibc_hugetlb",
    title: "huge pages for the C library's malloc",
    area: Area::Process,
    place: Place::ByHand { how: "start the server with GLIBC_TUNABLES=glibc.malloc.hugetlb={} in its environment" },
    values: Values::Number { min: 0, max: 2, unit: "" },
    default: "0",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "With 1, malloc requests transparent huge pages (madvise) for memory that it takes from the kernel. With 2, it \
        maps pages that vm.nr_hugepages has reserved. Programs then walk large heaps faster. It replaces \
        HUGETLB_MORECORE with libhugetlbfs, whose malloc hook glibc removed in 2.34. It does not affect servers with \
        their own allocator, nor those in Go, Java or C#.",
    risk: "more memory for the same heap; with 1, faults that make a huge page may wait (see thp.defrag)",
    shows_in: "AnonHugePages and Private_Hugetlb in /proc/PID/smaps_rollup",
    kernels: "all; needs a glibc that lists it: ld.so --list-tunables (2.36 does)",
    sources: &[
        Source {
            title: "The GNU C Library manual, Memory Allocation Tunables",
            says: "glibc.malloc.hugetlb and its values",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "HUGETLB_MORECORE=yes with LD_PRELOAD=libhugetlbfs.so, which does nothing on today's glibc",
        },
    ],
    extras: Extras {
        process: Some(Process { of: Owner::Server, while_it_runs: false, has: Some(has), reset_by: None }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |way| Some(format!("Environment=GLIBC_TUNABLES=glibc.malloc.hugetlb={way}\n")),
            ..ServerUnit::NONE
        })),
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn has(file: ProcessFiles<'_>, wanted: &str) -> Option<ProcessValue> {
    let tunable = format!("glibc.malloc.hugetlb={wanted}");
    let environ = file("environ")?;
    let tunables = environ.split('\0').find_map(|variable| variable.strip_prefix("GLIBC_TUNABLES="));
    let is_wanted = tunables.is_some_and(|tunables| tunables.split(':').any(|one| one == tunable));
    Some(ProcessValue::new(is_wanted, tunables.map_or("no GLIBC_TUNABLES", |tunables| tunables)))
}

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match facts.memory.thp_enabled.known().map(String::as_str) {
        None => Finding::unknown(PLACE, "thp.enabled", &facts.memory.thp_enabled),
        Some("always") => Finding::keep(PLACE, "thp.enabled is always: malloc's memory gets huge pages anyway"),
        Some("never") => Finding::keep(
            PLACE,
            "thp.enabled is never, so 1 has no effect; 2 needs pages that vm.nr_hugepages reserves",
        ),
        Some(_) => {
            Finding::keep(PLACE, "malloc requests no huge pages; a server with a large heap may gain from 1: test it")
        }
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn malloc_asks_only_where_that_does_something() {
        let word = |word: &'static str| move |facts: &mut Facts| facts.memory.thp_enabled = Fact::Known(word.into());
        check(
            &KNOB,
            &[
                ("always", Goal::Latency, &|_| {}),
                ("madvise", Goal::Latency, &word("madvise")),
                ("never", Goal::Throughput, &word("never")),
                ("unknown", Goal::Latency, &|facts| facts.memory.thp_enabled = Fact::absent("no such file")),
            ],
            expect![[r#"
                always (latency)
                  keep process.glibc_hugetlb: thp.enabled is always: malloc's memory gets huge pages anyway
                madvise (latency)
                  keep process.glibc_hugetlb: malloc requests no huge pages; a server with a large heap may gain from 1: test it
                never (throughput)
                  keep process.glibc_hugetlb: thp.enabled is never, so 1 has no effect; 2 needs pages that vm.nr_hugepages reserves
                unknown (latency)
                  unknown process.glibc_hugetlb: thp.enabled is not known: no such file
            "#]],
        );
    }
}
