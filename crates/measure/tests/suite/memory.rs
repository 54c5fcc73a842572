//! Compares the memory meter's counts with the kernel's own figures. Also tests how the meter ends.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::memory::{self, Allocation, CHUNK_BYTES, Kind, Report, Settings};
use evenkeel_sys::thread;
use evenkeel_testkit::skipped;

/// Settings that measure as little as possible of each part, up to a working set of two huge pages.
fn little() -> Settings {
    let cpu = thread::affinity().unwrap().iter().last();
    Settings { largest_bytes: 4 << 20, each_ns: 1_000_000, bandwidth_ns: 1, churn_ns: 1, cpu }
}

fn measured(settings: &Settings) -> Report {
    memory::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
}

/// Whether the kernel maps several pages of a record at one fault.
fn gives_groups() -> bool {
    let folder = std::path::Path::new("/sys/kernel/mm/transparent_hugepage");
    let chosen = |path: std::path::PathBuf, word| std::fs::read_to_string(path).is_ok_and(|text| text.contains(word));
    let is_always = chosen(folder.join("enabled"), "[always]");
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name().into_string().unwrap_or_default();
        let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB")?.parse::<usize>().ok());
        let set = |word| chosen(entry.path().join("enabled"), word);
        kib.is_some_and(|kib| kib << 10 <= CHUNK_BYTES) && (set("[always]") || is_always && set("[inherit]"))
    })
}

#[test]
fn each_freshly_mapped_page_is_a_fault_and_only_large_sets_have_huge_pages() {
    let report = measured(&little());
    let way = |way| report.churn.iter().find(|churn| churn.way == way).unwrap();
    let (fresh, kept) = (way(Allocation::Fresh), way(Allocation::Reused));
    let pages = (CHUNK_BYTES / 4096) as f64;
    if gives_groups() || !cfg!(target_arch = "x86_64") {
        skipped("faults of fresh memory: pages may come in groups here");
    } else {
        assert!((0.98..1.05).contains(&(fresh.faults_per_record / pages)), "{}", fresh.faults_per_record);
    }
    assert!(kept.faults_per_record < fresh.faults_per_record / 2.0, "{}", kept.faults_per_record);
    assert_eq!(report.latency.iter().map(|set| set.working_set_bytes).max(), Some(4 << 20));
    for set in &report.latency {
        let share = set.huge_share.unwrap_or(0.0);
        assert!(share == 0.0 || set.working_set_bytes >= 2 << 20, "{set:?}");
        assert!((0.0..=1.0).contains(&share) && set.huge_to_small().is_none_or(|_| share > 0.75), "{set:?}");
    }
    assert!(report.bandwidth.iter().any(|seen| seen.kind == Kind::Read && seen.threads == 1));
}

#[test]
fn a_stop_ends_it_with_the_data_so_far() {
    let stop = AtomicBool::new(true);
    let settings = Settings { largest_bytes: 1 << 20, ..little() };
    let report = memory::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap();
    assert!(report.latency.is_empty() && report.lost.count == 7, "{:?}", report.lost);
    let nowhere = Settings { cpu: Some(1000), ..settings };
    let refused = memory::run(&nowhere, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap_err();
    assert!(refused.to_string().starts_with("run on CPU 1000: "), "{refused}");
}
