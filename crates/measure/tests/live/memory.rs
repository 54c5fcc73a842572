//! Checks the memory meter under its disturbers: a thread that takes a known share of the CPU,
//! a thread that also evicts the caches, and a known number of page faults.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use evenkeel_measure::meters::memory::{self, Allocation, CHUNK_BYTES, Kind, Report, Settings};
use evenkeel_measure::{Samples, Watch};
use evenkeel_sys::mapping::{Mapping, Pages};
use evenkeel_sys::{CpuSet, Errno, clock, sched, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

fn last_cpu() -> usize {
    thread::affinity().unwrap().iter().last().unwrap()
}

fn measured(settings: Settings) -> Report {
    let stop = AtomicBool::new(false);
    memory::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

/// Settings that measure as little as possible of each part. A test raises the part that it checks.
fn little(largest_bytes: usize) -> Settings {
    let (each_ns, bandwidth_ns, churn_ns) = (8_000_000, 1, 1);
    Settings { largest_bytes, each_ns, bandwidth_ns, churn_ns, cpu: Some(last_cpu()) }
}

/// A test that depends on chance may be repeated. A pause of the machine or other work spoils one run, but not three.
fn in_one_of_three(holds: impl FnMut() -> Result<(), String>) {
    fitness::one_of(3, &Needs::on_last_cpu().without_timers(), holds);
}

fn p50(samples: &Samples) -> f64 {
    samples.histogram.summary().unwrap().p50 as f64
}

#[test]
fn latency_grows_from_the_caches_to_memory() {
    let _host = HostLock::take();
    in_one_of_three(|| {
        let report = measured(Settings { each_ns: 40_000_000, ..little(32 << 20) });
        let seen: Vec<(usize, f64)> =
            report.latency.iter().map(|set| (set.working_set_bytes, p50(&set.small))).collect();
        println!("{seen:?}");
        assert_eq!((seen.first().unwrap().0, seen.last().unwrap().0), (16 << 10, 32 << 20));
        let falls = seen.windows(2).any(|pair| pair[1].1 < pair[0].1 * 0.8);
        // If a prefetcher could predict the ring, or if the compiler removed the ring, memory would be as fast as a cache.
        let rises = seen.last().unwrap().1 / seen.first().unwrap().1;
        if falls || rises < 3.0 { Err(format!("{seen:?}")) } else { Ok(()) }
    });
}

#[test]
fn huge_pages_are_used_where_they_are_reported() {
    let _host = HostLock::take();
    let has_some = || {
        let report = measured(little(16 << 20));
        let setting = report.huge_pages_setting.as_deref().unwrap_or("none");
        for set in &report.latency {
            let share = set.huge_share.unwrap_or(0.0);
            println!("{}: {share} with {setting}", set.working_set_bytes);
            assert!(share == 0.0 || set.working_set_bytes >= 2 << 20);
            assert!((0.0..=1.0).contains(&share) && set.huge_to_small().is_none_or(|_| share > 0.75));
        }
        let most = report.latency.iter().filter_map(|set| set.huge_share).fold(0.0, f64::max);
        if most > 0.4 { Ok(()) } else { Err(format!("{most} of it has huge pages with {setting}")) }
    };
    // If memory is fragmented, or the system is configured so, the kernel gives small pages instead.
    // Small pages then also appear in the mapping with which we compare.
    let unmet = || {
        let share = bare_huge_share(16 << 20);
        (share <= 0.6).then(|| format!("the kernel gives huge pages to {share} of what asks for them"))
    };
    fitness::one_of_by(3, has_some, unmet);
}

/// The share of huge pages in memory that requests them, from the increase of the whole process.
fn bare_huge_share(bytes: usize) -> f64 {
    let has_bytes = || {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let row = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
        row.and_then(|row| row.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let before = has_bytes();
    let Ok(mut memory) = Mapping::new(bytes, Pages::Huge) else { return 0.0 };
    memory.words_mut().fill(1);
    has_bytes().saturating_sub(before) as f64 / bytes as f64
}

/// What a disturber does with the time that it takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// Works in registers.
    Time,
    /// Walks through more memory than the second-level cache holds.
    TimeAndCache,
}

const PERIOD_NS: u64 = 2_000_000;
const BUSY_NS: u64 = 800_000;
/// The size of a working set that shows only lost time.
/// Whether a ring as large as the cache fits into the cache depends on the places of its pages.
/// Outside of the cache, other users of this host affect the result.
const KEPT_BYTES: usize = 128 << 10;
const SWEPT_BYTES: usize = 1 << 20;

/// Runs `body` while a real-time thread takes `BUSY_NS` of every `PERIOD_NS` of `cpu`.
fn robbed<T>(cpu: usize, takes: Takes, body: impl FnOnce() -> T) -> Result<T, Errno> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let stop = &stop;
        scope.spawn(move || {
            let mut memory = vec![1_u64; (8 << 20) / 8];
            let made = thread::set_affinity(&CpuSet::from_iter([cpu])).and_then(|()| sched::set_fifo(10));
            ready.send(made).unwrap();
            let (mut at, mut due_ns) = (0, clock::monotonic_ns());
            while made.is_ok() && !stop.load(Ordering::Relaxed) {
                due_ns += PERIOD_NS;
                clock::sleep_until_ns(due_ns);
                while clock::monotonic_ns() < due_ns + BUSY_NS {
                    if takes == Takes::TimeAndCache {
                        memory[at..at + 4096].iter_mut().for_each(|word| *word += 1);
                        at = (at + 4096) % memory.len();
                        black_box(&memory);
                    }
                }
                due_ns = due_ns.max(clock::monotonic_ns() - PERIOD_NS);
            }
        });
        let made = is_ready.recv().unwrap();
        let answer = made.map(|()| body());
        stop.store(true, Ordering::Relaxed);
        answer
    })
}

#[test]
fn an_rt_hog_and_a_thrasher_are_read_back() {
    let _host = HostLock::take();
    let settings = Settings { each_ns: 120_000_000, ..little(SWEPT_BYTES) };
    // One set stays in the second-level cache wherever its pages are. The other set fills this cache.
    let means_ps = || {
        let report = measured(settings);
        let of = |bytes| report.latency.iter().find(|set| set.working_set_bytes == bytes).unwrap();
        [KEPT_BYTES, SWEPT_BYTES].map(|bytes| of(bytes).small.histogram.mean().unwrap())
    };
    // Compare each of three rounds with itself. Neighbours on the host share its caches.
    // If quiet rounds differ by more than the allowed error, the machine cannot show the effect.
    let rounds = std::cell::RefCell::new(Vec::new());
    let run = || {
        let cpu = last_cpu();
        let mut rounds = rounds.borrow_mut();
        rounds.clear();
        for _ in 0..3 {
            let quiet = means_ps();
            match (robbed(cpu, Takes::Time, means_ps), robbed(cpu, Takes::TimeAndCache, means_ps)) {
                (Ok(time), Ok(cache)) => rounds.push([quiet, time, cache]),
                (Err(errno), _) | (_, Err(errno)) => {
                    not_judged(format_args!("real-time threads: {errno}"));
                    return Ok(());
                }
            }
        }
        println!("quiet, robbed of time, and with the caches swept, in ps: {rounds:.0?}");
        let middle = |of: fn(&[[f64; 2]; 3]) -> f64| evenkeel_stats::median(&rounds.iter().map(of).collect::<Vec<_>>());
        let share = middle(|[quiet, time, _]| 1.0 - quiet[0] / time[0]).unwrap();
        let taken = BUSY_NS as f64 / PERIOD_NS as f64;
        if (share - taken).abs() > 0.1 {
            return Err(format!("{share} was measured, but {taken} was taken"));
        }
        // Both disturbers take the same time, but one disturber also evicts the second-level cache each time.
        let slower = middle(|[_, time, cache]| cache[1] / time[1]).unwrap();
        if slower < 1.1 { Err(format!("{slower} times as long with the caches swept")) } else { Ok(()) }
    };
    let uneven = || {
        let apart = |set: usize| {
            let rounds = rounds.borrow();
            let quiet = || rounds.iter().map(|[quiet, ..]| quiet[set]);
            quiet().fold(0.0, f64::max) / quiet().fold(f64::MAX, f64::min)
        };
        let worst = apart(0).max(apart(1));
        (worst > 1.15).then(|| format!("quiet rounds were {worst:.2} times apart"))
    };
    let needs = Needs::on_last_cpu().without_timers();
    fitness::one_of_by(3, run, || uneven().or_else(|| needs.unmet()));
}

#[test]
fn bandwidth_loses_what_an_rt_hog_takes() {
    let _host = HostLock::take();
    let settings = Settings { bandwidth_ns: 200_000_000, ..little(64 << 10) };
    // The bandwidth of one thread is measured on the first CPU.
    let cpu = thread::affinity().unwrap().first().unwrap();
    let read = || {
        let report = measured(settings);
        assert!(report.bandwidth.iter().all(|seen| seen.bytes_per_s.histogram.count() > 0));
        let one = report.bandwidth.iter().find(|seen| seen.kind == Kind::Read && seen.threads == 1);
        one.unwrap().bytes_per_s.histogram.mean().unwrap()
    };
    in_one_of_three(|| {
        let (mut quiet, mut robbed) = (0.0, 0.0);
        for _ in 0..3 {
            quiet += read();
            match self::robbed(cpu, Takes::Time, read) {
                Ok(bytes_per_s) => robbed += bytes_per_s,
                Err(errno) => {
                    not_judged(format_args!("real-time threads: {errno}"));
                    return Ok(());
                }
            }
        }
        let share = 1.0 - robbed / quiet;
        println!("{:.3e} B/s, robbed {:.3e}: share {share:.3}", quiet / 3.0, robbed / 3.0);
        if (share - 0.4).abs() > 0.1 { Err(format!("{share} was measured, but 0.4 was taken")) } else { Ok(()) }
    });
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
fn each_freshly_mapped_page_is_a_fault() {
    let _host = HostLock::take();
    let report = measured(Settings { churn_ns: 600_000_000, ..little(1 << 20) });
    let way = |way| report.churn.iter().find(|churn| churn.way == way).unwrap();
    let (fresh, kept) = (way(Allocation::Fresh), way(Allocation::Reused));
    println!("fresh {:.2} faults a record, kept {:.4}", fresh.faults_per_record, kept.faults_per_record);
    let pages = (CHUNK_BYTES / 4096) as f64;
    if gives_groups() || !cfg!(target_arch = "x86_64") {
        not_judged("pages may come in groups here");
    } else {
        assert!((0.98..1.05).contains(&(fresh.faults_per_record / pages)), "{}", fresh.faults_per_record);
    }
    assert!(kept.faults_per_record < 1.0, "{}", kept.faults_per_record);
    assert!(fresh.records_per_s.histogram.mean() < kept.records_per_s.histogram.mean());
    assert!(fresh.system_share > kept.system_share);
}
