//! The targets for counts: by the kernel, and by a server on its page.

use evenkeel_hostfs::{Root, proc};
use evenkeel_measure::meters::rates::{Counts, Measured, Pages, PagesSeen, Target, between};
use evenkeel_measure::meters::{imbalance, memory};
use evenkeel_sys::{CpuSet, Errno, MAX_CPUS};

/// A kernel's counts. Every file behind the rates contains the text before the line `=`, and a second later the text after it.
pub(super) fn rates(text: &str) {
    const FILES: [&str; 16] = [
        "/proc/stat",
        "/proc/vmstat",
        "/proc/meminfo",
        "/proc/pressure/cpu",
        "/proc/7/cgroup",
        "/proc/7/stat",
        "/proc/7/status",
        "/proc/7/task/7/schedstat",
        "/proc/7/task/7/status",
        "/sys/fs/cgroup/cpu/cpu.stat",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "/sys/fs/cgroup/cpu.stat",
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/cpu.pressure",
    ];
    let (before, after) = text.split_once("\n=\n").unwrap_or((text, text));
    let counts = |text: &str, at_ns: u64| {
        let texts = FILES.map(|path| (path.to_owned(), text.to_owned()));
        Counts::read(&Root::from(std::collections::BTreeMap::from(texts)), &Target::Process(7), &|| at_ns)
    };
    let rollup = proc::parse_fields(after).map_or_else(|| Measured::absent("no fields"), Measured::Known);
    let pages = PagesSeen { rollup, pages: Pages::AsTheyAre };
    let rates = between(&counts(before, 0), &counts(after, 1_000_000_000), Some(&pages));
    for shares in rates.system.cpus.iter().filter_map(|cpu| cpu.shares.known()).chain(rates.system.all.known()) {
        let of = [shares.user, shares.system, shares.irq, shares.softirq, shares.steal, shares.idle];
        assert!(of.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    }
}

/// Files in /proc that meters read. Names of threads, interrupts and mounts are arbitrary.
pub(super) fn kernel_counts(text: &str) {
    let stat = proc::parse_stat(text).unwrap_or_default();
    assert!(stat.cpus.values().all(|ticks| ticks.since(ticks).total() == 0));
    let sources = imbalance::sources(text);
    assert!(sources.values().all(|source| !source.counts.is_empty()));
    for line in text.lines() {
        let _ = (proc::parse_process(line), proc::parse_amount(line));
        let _ = evenkeel_sys::schedstat::parse_schedstat(line.as_bytes());
        let _ = evenkeel_hostfs::sleep_deadline::parse_syscall(line);
        let _ = evenkeel_hostfs::timer_files::parse_timer(line);
        let _ = evenkeel_hostfs::timer_files::parse_set(line);
    }
    let _ = evenkeel_sys::stall::parse_stalls(text);
    let _ = (evenkeel_sys::resident::parse_locked_kib(text), evenkeel_sys::resident::parse_swapped_in(text));
    for mount in proc::parse_mounts(text) {
        let _ = (proc::unescape(mount.at), mount.device_name());
    }
    let _ = (proc::parse_disks(text).count(), proc::parse_interfaces(text).count());
    let _ = (proc::parse_run_queues(text), proc::parse_sockets(text).count());
    let _ = memory::parse_huge_bytes(text, 0x7f00_0000_0000);
    let _ = (proc::parse_pairs(text), proc::parse_switches(text), proc::amount(text, "MemAvailable"));
}

/// Sets of CPUs in both forms. A parsed set prints so that it parses to the same set.
pub(super) fn cpuset(text: &str) {
    if let Some(set) = CpuSet::parse_list(text) {
        assert!(set.iter().all(|cpu| cpu < MAX_CPUS), "{set}");
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
        assert_eq!(CpuSet::parse_mask(&set.to_mask(1)).as_ref(), Some(&set));
    }
    if let Some(set) = CpuSet::parse_mask(text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
    }
}

/// The name of an error number: a valid one prints as it was read, except for leading zeros.
pub(super) fn errno(text: &str) {
    if let Some(errno) = Errno::parse(text) {
        assert_eq!(Errno::parse(&format!("{errno:?}")), Some(errno));
    }
}

/// A telemetry page: each line changes one word of a valid page, by place and value. `cut N` ends the page after this many bytes. The first
/// line is also the process's entry in /proc.
pub(super) fn telemetry(text: &str) {
    use evenkeel_sys::telemetry::{Snapshot, parse_boot, parse_start, prometheus};
    let _ = (parse_start(text), parse_boot(text), Snapshot::parse(text.as_bytes()));
    let mut page = vec![0_u64; 512];
    let sound = [(0, u64::from_ne_bytes(*b"EVENKEEL")), (1, 1), (2, 4096), (3, 32), (4, 24), (5, 56), (6, 12), (7, 68)];
    for (at, value) in
        sound.into_iter().chain([(8, 3), (9, 146), (10, 7), (16, 1), (17, u64::from_ne_bytes(*b"a\0\0\0\0\0\0\0"))])
    {
        page[at] = value;
    }
    let mut length = page.len() * 8;
    for line in text.lines() {
        let Some((place, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match place.parse::<usize>() {
            Ok(at) if at < page.len() => page[at] = value,
            _ if place == "cut" => length = usize::try_from(value).unwrap_or(length).min(length),
            _ => {}
        }
    }
    phase_slot(&page);
    let bytes: Vec<u8> = page.iter().flat_map(|word| word.to_ne_bytes()).collect();
    if let Ok(found) = Snapshot::parse(&bytes[..length]) {
        let ofs = [&found.lateness, &found.work, &found.due_to_done];
        assert!(ofs.iter().all(|of| of.quantile_ns(0.5) <= of.max_ns && of.since(of).count == 0));
        assert!(prometheus(&[found]).ends_with('\n'));
    }
}

/// A slot in which a session publishes its ticks: words of the page as fields, and as the slot itself.
fn phase_slot(page: &[u64]) {
    use evenkeel_sys::phase_slot::{Cpus, Slot, WORDS};
    let [time_namespace, period_ns, due_ns, work_ns, flags, cpu, number, now_ns, ..] = page[100..] else { return };
    let cpus = Cpus::new([cpu as usize]);
    let slot = Slot { time_namespace, period_ns, due_ns, work_ns, is_fixed: flags & 1 == 1, cpus };
    let mut words = slot.to_words(number);
    let read = Slot::parse(&words);
    assert!(read.is_none_or(|read| read == slot), "{slot:?} {read:?}");
    let _ = (slot.is_fresh(now_ns), slot.cpus.overlap(&Cpus::ALL));
    for at in 0..WORDS {
        words[at] ^= page[at];
        let _ = Slot::parse(&words);
    }
}
