//! Memory: its size, huge pages, swap.

use evenkeel_hostfs::proc::{parse_amount, unescape};
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::Probe;

/// What memory settings depend on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// `MemTotal`, in bytes.
    pub total_bytes: Fact<u64>,
    /// `always`, `madvise` or `never`.
    pub thp_enabled: Fact<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub thp_defrag: Fact<String>,
    /// Whether khugepaged may move memory together to create huge pages.
    pub khugepaged_defrag: Fact<bool>,
    /// Transparent pages of each size between small and huge (Linux 6.8), the smallest first. Absent on older kernels.
    pub thp_sizes: Fact<Vec<ThpSize>>,
    /// Reserved huge pages of each size, the smallest size first. Absent if the kernel is built without huge pages.
    pub huge_pages: Fact<Vec<HugePages>>,
    /// Swap areas in use. Empty without swap.
    pub swaps: Fact<Vec<Swap>>,
}

/// Transparent pages of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThpSize {
    /// The size of one page, in bytes.
    pub size_bytes: u64,
    /// `always`, `inherit` (from the main setting), `madvise` or `never`; absent for sizes of shared memory only.
    pub enabled: Fact<String>,
}

/// Reserved huge pages of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugePages {
    /// The size of one page, in bytes.
    pub size_bytes: u64,
    /// The number of reserved pages.
    pub count: Fact<u64>,
}

/// One swap area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Swap {
    /// The file or device.
    pub path: String,
    /// `partition` or `file`.
    pub kind: String,
    /// The size of the swap area, in bytes.
    pub size_bytes: u64,
}

impl Memory {
    pub(super) fn probe(probe: Probe<'_>) -> Memory {
        Memory {
            total_bytes: probe.parse("/proc/meminfo", "a MemTotal in kB", parse_mem_total),
            thp_enabled: probe.chosen_word("/sys/kernel/mm/transparent_hugepage/enabled"),
            thp_defrag: probe.chosen_word("/sys/kernel/mm/transparent_hugepage/defrag"),
            khugepaged_defrag: probe.parse("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0 or 1", |text| {
                ["0", "1"].contains(&text).then_some(text == "1")
            }),
            thp_sizes: thp_sizes(probe),
            huge_pages: huge_pages(probe),
            swaps: probe.parse("/proc/swaps", "a table of swap areas", parse_swaps),
        }
    }
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const HUGE: &str = "/sys/kernel/mm/hugepages";

/// The folders for the page sizes are next to the main files. If the folders are missing, the kernel is too old for this feature.
fn thp_sizes(probe: Probe<'_>) -> Fact<Vec<ThpSize>> {
    let sizes = sizes(probe, THP).map(|sizes| {
        let enabled = |kb: u64| probe.chosen_word(&format!("{THP}/hugepages-{kb}kB/enabled"));
        sizes.into_iter().map(|kb| ThpSize { size_bytes: kb * 1024, enabled: enabled(kb) }).collect::<Vec<_>>()
    });
    match sizes {
        Fact::Known(sizes) if sizes.is_empty() => Fact::absent("this kernel has no sizes between small and huge"),
        sizes => sizes,
    }
}

fn huge_pages(probe: Probe<'_>) -> Fact<Vec<HugePages>> {
    sizes(probe, HUGE).map(|sizes| {
        let count = |kb: u64| probe.number(&format!("{HUGE}/hugepages-{kb}kB/nr_hugepages"));
        sizes.into_iter().map(|kb| HugePages { size_bytes: kb * 1024, count: count(kb) }).collect()
    })
}

/// The sizes, in KiB, of the folders `hugepages-NkB`, ascending.
fn sizes(probe: Probe<'_>, dir: &str) -> Fact<Vec<u64>> {
    probe.entries(dir).map(|names| {
        let mut sizes: Vec<u64> = names.iter().filter_map(|name| size_kb(name)).collect();
        sizes.sort_unstable();
        sizes
    })
}

/// Accepts one page up to 16 GiB, the largest size that exists.
fn size_kb(name: &str) -> Option<u64> {
    let kb = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    let number: u64 = kb.parse().ok()?;
    (number.to_string() == kb && (1..=16 << 20).contains(&number)).then_some(number)
}

/// `MemTotal: N kB` in bytes, from /proc/meminfo, or after `Node 0` from the file of a memory node.
pub(super) fn parse_mem_total(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| {
        let (label, total) = line.split_once(':')?;
        let name = label.strip_prefix("Node ").map_or(Some(label), |label| Some(label.split_once(' ')?.1))?;
        (name == "MemTotal").then_some(total)
    })?;
    parse_amount(total).filter(|_| total.trim_end().ends_with("kB"))
}

fn parse_swaps(text: &str) -> Option<Vec<Swap>> {
    let mut lines = text.lines();
    lines.next().filter(|heading| heading.starts_with("Filename"))?;
    lines.map(parse_swap).collect()
}

fn parse_swap(line: &str) -> Option<Swap> {
    let mut words = line.split_whitespace();
    let (path, kind, size) = (words.next()?, words.next()?, words.next()?);
    Some(Swap { path: unescape(path), kind: kind.to_owned(), size_bytes: kib(size)? })
}

fn kib(number: &str) -> Option<u64> {
    number.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mem_total_has_a_unit() {
        let table = [
            ("MemTotal:       24684084 kB\nMemFree: 1 kB\n", Some(24_684_084 * 1024)),
            ("\nNode 0 MemTotal:  5859532 kB\nNode 0 MemFree: 1 kB\n", Some(5_859_532 * 1024)),
            ("MemTotal: 0 kB", Some(0)),
            ("MemTotal: 12", None),
            ("HighMemTotal: 12 kB", None),
            ("MemTotal: 18446744073709551615 kB", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_mem_total(text), expected, "{text:?}");
        }
    }

    #[test]
    fn parses_sizes_from_folders() {
        let table = [
            ("hugepages-2048kB", Some(2048)),
            ("hugepages-16777216kB", Some(16_777_216)),
            ("hugepages-16777217kB", None),
            ("hugepages-0kB", None),
            ("hugepages-064kB", None),
            ("hugepages-+64kB", None),
            ("hugepages-kB", None),
            ("khugepaged", None),
        ];
        for (name, expected) in table {
            assert_eq!(size_kb(name), expected, "{name}");
        }
    }

    #[test]
    fn parses_swap_tables() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let rows = |rows: &str| {
            let swaps = parse_swaps(&format!("{heading}{rows}"))?;
            Some(swaps.into_iter().map(|swap| (swap.path, swap.kind, swap.size_bytes)).collect::<Vec<_>>())
        };
        let row = |path: &str, kind: &str, kib: u64| (path.to_owned(), kind.to_owned(), kib * 1024);
        let table = [
            ("", Some(vec![])),
            (
                "/dev/vda2                               partition\t2097148\t\t0\t\t-2\n",
                Some(vec![row("/dev/vda2", "partition", 2_097_148)]),
            ),
            (
                "/a\\040b\\134c file 4 0 -2\n/dev/zram0 partition 8 4 100\n",
                Some(vec![row("/a b\\c", "file", 4), row("/dev/zram0", "partition", 8)]),
            ),
            ("/dev/vda2 partition", None),
            ("/dev/vda2 partition much 0 -2", None),
            ("/dev/vda2 partition 18446744073709551615 0 -2", None),
        ];
        for (text, expected) in table {
            assert_eq!(rows(text), expected, "{text:?}");
        }
        assert_eq!(parse_swaps(""), None, "without its heading it is no such table");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(Filename|Node 0 |MemTotal:|[0-9]{1,21}| kB|[\\\\\t\n/a-z])*|.{0,40}") {
            let _ = parse_mem_total(&text);
            let _ = parse_swaps(&text);
        }
    }
}
