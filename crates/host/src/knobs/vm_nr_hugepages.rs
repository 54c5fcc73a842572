//! Huge pages that are reserved for programs that request them.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::reserve;
use crate::shapes::{one, size};

const PATH: &str = "/proc/sys/vm/nr_hugepages";

pub(super) const KNOB: Knob = Knob {
    id: "vm.nr_hugepages",
    title: "reserved huge pages",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "pages" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The kernel reserves this many pages of the default size (2 MiB on x86). It gives them only to programs that \
        map them with MAP_HUGETLB, a hugetlbfs file, or glibc's malloc if configured. It never swaps or moves them, so \
        no tick waits for one. The kernel reserves as many as it finds in contiguous memory, and reports no error if \
        that is fewer. The value that you read back counts. At boot it finds the most.",
    risk: "nobody else may use this memory, whether the server needs it or not; evenkeel refuses more than three quarters \
        of the machine's memory, because the rest must hold everything else",
    shows_in: "HugePages_Total, HugePages_Free and HugePages_Rsvd in /proc/meminfo",
    kernels: "all that are built with CONFIG_HUGETLBFS",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/vm.rst, nr_hugepages",
            says: "the number; Documentation/admin-guide/mm/hugetlbpage.rst has the details",
        },
        Source {
            title: "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            says: "the kernel may reserve fewer pages than requested; best at boot",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table {
            file: "/proc/meminfo",
            names: &["HugePages_Free", "HugePages_Rsvd", "HugePages_Total"],
        }],
        counter: Some(Counter::HugePagesInUse),
        reject_for: Some(reject_for),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let reserved = |page: u64| u64::try_from(current).unwrap_or(0).saturating_mul(page);
    let finding = match (page_bytes(facts, current), facts.memory.total_bytes.known()) {
        _ if current <= 0 => Finding::keep(
            PATH,
            "no memory is reserved; reserve some only for a server that requests huge pages itself (see \
                process.glibc_hugetlb)",
        ),
        (Some(page), Some(total)) => Finding::keep(
            PATH,
            format!(
                "{} of {} are reserved for programs that request them: if HugePages_Free in /proc/meminfo stays \
                    high while the server runs, none does",
                size(reserved(page)),
                size(*total)
            ),
        ),
        _ => Finding::keep(PATH, format!("{current} pages are reserved for programs that request them")),
    };
    Ok(finding.at(current))
}

/// Why the machine cannot spare this many pages. The kernel would take all of them, and kill processes to make room.
fn reject_for(facts: &Facts, wanted: &str) -> Option<String> {
    let current = own_number(facts, PATH).unwrap_or(0);
    let page = default_page_bytes(facts, current)?;
    reserve::too_many_pages(facts, wanted.parse().ok()?, page, u64::try_from(current).unwrap_or(0))
}

/// The size of the counted pages, as far as known.
/// The command line decides first. Next comes the only size with this count, then the usual size, and last the smallest size.
fn default_page_bytes(facts: &Facts, count: i64) -> Option<u64> {
    let usual = || page_bytes(facts, count).or_else(|| reserve::usual_page_bytes(facts));
    reserve::asked_page_bytes(facts).or_else(usual)
}

/// The size of the counted pages, if exactly one size has this number of reserved pages.
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
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::HugePages;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    /// A captured machine of 8 GiB with these numbers of reserved pages of 2 MiB and of 1 GiB.
    fn captured(arguments: &str, small: u32, large: u32) -> Facts {
        let text = format!(
            "evenkeel-capture 1\n/proc/cmdline = {arguments}\n/proc/meminfo = MemTotal: 8388608 kB\n{PATH} = {small}\n\
             /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = {small}\n\
             /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages = {large}\nend\n"
        );
        Facts::probe(&Root::captured(Capture::parse(&text).unwrap()))
    }

    #[test]
    fn more_than_the_machine_can_spare_is_refused() {
        let refused = |facts: &Facts, wanted: &str| reject_for(facts, wanted).unwrap_or_default();
        let many = "3073 pages of 2 MiB are 6.0 GiB, and this machine has 8.0 GiB: you may reserve at most three quarters of that, \
                    3072 pages";
        let table = [
            ("quiet", 0, 0, "3072", ""),
            ("quiet", 0, 0, "3073", many),
            ("quiet", 5, 0, "3073", many),
            ("quiet", 4000, 0, "3900", ""),
            ("default_hugepagesz=1G", 0, 0, "6", ""),
            (
                "default_hugepagesz=1G",
                0,
                0,
                "7",
                "7 pages of 1.0 GiB are 7.0 GiB, and this machine has 8.0 GiB: you may reserve at most three quarters of that, 6 pages",
            ),
            ("default_hugepagesz=3G", 0, 0, "3073", many),
        ];
        for (arguments, small, large, wanted, expected) in table {
            assert_eq!(refused(&captured(arguments, small, large), wanted), expected, "{arguments} {small} {wanted}");
        }
        assert!(refused(&captured("quiet", 4000, 0), "4001").starts_with("4001 pages of 2 MiB are 7.8 GiB"));
        assert!(
            refused(&captured("default_hugepagesz=1G", 0, 0), &i32::MAX.to_string()).contains("are 2147483647.0 GiB")
        );
        let mut unknown = captured("quiet", 0, 0);
        unknown.memory.total_bytes = Fact::absent("no /proc/meminfo");
        assert_eq!(refused(&unknown, "2147483647"), "", "what is not known refuses nothing");
    }

    #[test]
    fn huge_pages_are_reserved_only_on_request() {
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
                  keep /proc/sys/vm/nr_hugepages "0": no memory is reserved; reserve some only for a server that requests huge pages itself (see process.glibc_hugetlb)
                some (latency)
                  keep /proc/sys/vm/nr_hugepages "512": 1.0 GiB of 8.0 GiB are reserved for programs that request them: if HugePages_Free in /proc/meminfo stays high while the server runs, none does
                some of a size unknown (density)
                  keep /proc/sys/vm/nr_hugepages "512": 512 pages are reserved for programs that request them
                not built in (latency)
                  not-here /proc/sys/vm/nr_hugepages: not present here: the facts do not include /proc/sys/vm/nr_hugepages
            "#]],
        );
    }
}
