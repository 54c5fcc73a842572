//! Huge pages that are set aside for programs that ask for them.

use crate::facts::Facts;
use crate::goal::Wish;
use crate::knob::{Area, Counter, Finding, Knob, Place, Source, TakesEffect, Values};
use crate::plan::Reading;

use super::{one, own_number, size};

const PATH: &str = "/proc/sys/vm/nr_hugepages";

pub(super) const KNOB: Knob = Knob {
    id: "vm.nr_hugepages",
    title: "huge pages set aside",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "pages" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "So many pages of the default size (2 MiB on x86) are taken out of memory and given only to \
                programs that map them by MAP_HUGETLB, a file of hugetlbfs, or glibc's malloc when it is told \
                to. They are never swapped or moved, so no tick waits for one. The kernel takes as many as it \
                finds in one piece, and gives no error where that is fewer: what reads back is what counts, and \
                at boot it finds most.",
    risk: "memory that nobody else may use, whether the server asks for it or not",
    shows_in: "HugePages_Total, HugePages_Free and HugePages_Rsvd in /proc/meminfo",
    counter: Some(Counter::HugePagesInUse),
    kernels: "all that are built with CONFIG_HUGETLBFS",
    side_effects: &[],
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/vm.rst, nr_hugepages",
            says: "how many; Documentation/admin-guide/mm/hugetlbpage.rst tells the rest",
        },
        Source {
            title: "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            says: "fewer pages may come than were asked for; best at boot",
        },
    ],
    advise,
};

fn advise(facts: &Facts, _: &Wish) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let reserved = |page: u64| u64::try_from(current).unwrap_or(0).saturating_mul(page);
    let finding = match (page_bytes(facts, current), facts.memory.total_bytes.known()) {
        _ if current <= 0 => Finding::keep(
            PATH,
            "no memory is set aside; it is worth it only for a server that asks for huge pages itself (see process.glibc_hugetlb)",
        ),
        (Some(page), Some(total)) => Finding::keep(
            PATH,
            format!(
                "{} of {} are set aside for those who ask: if HugePages_Free in /proc/meminfo stays high while the server runs, \
                 nobody does",
                size(reserved(page)),
                size(*total)
            ),
        ),
        _ => Finding::keep(PATH, format!("{current} pages are set aside for those who ask")),
    };
    Ok(finding.at(current))
}

/// The size of the pages that are counted here: the one size of which so many are set aside, as far as that tells.
fn page_bytes(facts: &Facts, count: i64) -> Option<u64> {
    let mut sizes = facts
        .memory
        .huge_pages
        .known()?
        .iter()
        .filter(|size| size.count.known().is_some_and(|counted| i64::try_from(*counted) == Ok(count)));
    let only = sizes.next()?;
    sizes.next().is_none().then_some(only.size_bytes)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::HugePages;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn memory_is_set_aside_only_for_those_who_ask() {
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("some", Goal::Latency, &|facts| {
                    with_sysctl(PATH, "512")(facts);
                    facts.memory.huge_pages = Fact::Known(vec![
                        HugePages { size_bytes: 2 << 20, count: Fact::Known(512) },
                        HugePages { size_bytes: 1 << 30, count: Fact::Known(0) },
                    ]);
                }),
                ("some of a size unknown", Goal::Density, &with_sysctl(PATH, "512")),
                ("not built in", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                none (latency)
                  keep /proc/sys/vm/nr_hugepages "0": no memory is set aside; it is worth it only for a server that asks for huge pages itself (see process.glibc_hugetlb)
                some (latency)
                  keep /proc/sys/vm/nr_hugepages "512": 1.0 GiB of 8.0 GiB are set aside for those who ask: if HugePages_Free in /proc/meminfo stays high while the server runs, nobody does
                some of a size unknown (density)
                  keep /proc/sys/vm/nr_hugepages "512": 512 pages are set aside for those who ask
                not built in (latency)
                  not-here /proc/sys/vm/nr_hugepages: not found here: /proc/sys/vm/nr_hugepages is not among the facts
            "#]],
        );
    }
}
