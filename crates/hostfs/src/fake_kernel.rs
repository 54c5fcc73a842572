//! Simulates the kernel of a captured host.
//! A write changes the file and everything that depends on the file, or is refused, as on a real kernel.
//! So tests of apply, verify and half-way failures need no root, and also run for machines that we do not have.
//!
//! Each rule follows the kernel function named in its comment. A file without a rule refuses writes with `EACCES`.
//! If such a file accepted writes, a test would not notice a wrong path.

use evenkeel_sys::{CpuSet, Errno};

use crate::capture::Capture;
use crate::refusal::Why;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/";
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/";
const CPU: &str = "/sys/devices/system/cpu/";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
const NR_HUGEPAGES: &str = "/proc/sys/vm/nr_hugepages";

/// The lowest `rmem_max` that the kernel accepts: `SOCK_MIN_RCVBUF` on 64-bit machines (`net/core/sock.h`).
const MIN_RCVBUF: i64 = 2304;

pub(crate) fn write(capture: &mut Capture, path: &str, value: &str) -> Result<(), Errno> {
    if let Some(errno) = capture.write_refusals.get(path) {
        return Err(*errno);
    }
    let before = match capture.text(path) {
        Ok(text) => text,
        Err(Why::Errno(errno)) => return Err(errno),
        Err(Why::NotCaptured | Why::OtherNetwork) => return Err(Errno::NOENT),
    };
    let value = value.trim();
    let after = if let Some(word) = path.strip_prefix(THP) {
        let after = choose_word(&before, value)?;
        if word == "enabled" {
            recompute_min_free(capture, value);
        }
        after
    } else if path.starts_with(CLOCKSOURCE) {
        clocksource(capture, path, &before, value)?
    } else if path.starts_with("/proc/irq/") {
        return irq_affinity(capture, path, value);
    } else if path.ends_with("/rps_cpus") || path.ends_with("/xps_cpus") {
        cpu_mask(&before, value)?
    } else if let Some(file) = path.strip_prefix(CPU) {
        cpu(capture, file, &before, value)?
    } else if path == "/sys/devices/virtual/workqueue/cpumask" {
        // workqueue_set_unbound_cpumask (kernel/workqueue.c): an empty set is EINVAL.
        if CpuSet::parse_mask(value).is_none_or(|cpus| cpus.is_empty()) {
            return Err(Errno::INVAL);
        }
        cpu_mask(&before, value)?
    } else if path.starts_with("/sys/kernel/debug/sched/") && path.ends_with("_ns") {
        // debugfs_create_u32 (kernel/sched/debug.c): any number of 32 bits.
        let number: u32 = value.parse().map_err(|_| Errno::INVAL)?;
        format!("{number}\n")
    } else if path.ends_with("/rps_flow_cnt") {
        flow_entries(value)?
    } else if path.starts_with("/sys/class/net/") {
        interface(path, value)?
    } else if path.starts_with("/sys/module/") {
        // param_set_uint and similar functions (kernel/params.c): a plain number, stored as written.
        let number: u64 = value.parse().map_err(|_| Errno::INVAL)?;
        format!("{number}\n")
    } else if path.starts_with("/sys/block/") {
        return disk(capture, path, &before, value);
    } else if path == NR_HUGEPAGES {
        huge_pages(capture, value)?
    } else if let Some(key) = path.strip_prefix("/proc/sys/") {
        let after = sysctl(capture, key, &before, value)?;
        zero_partner(capture, path, &before, &after);
        after
    } else {
        return Err(Errno::ACCESS);
    };
    capture.saw_text(path, Ok(after));
    Ok(())
}

/// `always [madvise] never`: a write moves the brackets. An unknown word is EINVAL (`mm/huge_memory.c`).
fn choose_word(before: &str, value: &str) -> Result<String, Errno> {
    let words: Vec<&str> = before.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
    if !words.contains(&value) {
        return Err(Errno::INVAL);
    }
    let marked = words.iter().map(|word| if *word == value { format!("[{word}]") } else { (*word).to_owned() });
    Ok(marked.collect::<Vec<_>>().join(" ") + "\n")
}

/// Starting and stopping khugepaged recomputes `vm.min_free_kbytes`.
/// The kernel functions are `set_recommended_min_free_kbytes` in `mm/khugepaged.c` and `calculate_min_free_kbytes` in `mm/page_alloc.c`.
/// The sum is for 4 KiB pages and 2 MiB huge pages.
fn recompute_min_free(capture: &mut Capture, word: &str) {
    let Some(total_kb) = meminfo_kb(capture, "MemTotal:") else { return };
    let floor = (total_kb * 16).isqrt().clamp(128, 262_144);
    // From 4 GiB on there are three zones (DMA, DMA32, Normal). Each zone reserves two pageblocks, and nine (3 × 3) against fragmentation.
    let zones = if total_kb > (4 << 20) { 3 } else { 2 };
    let recommended_kb = (512 * zones * 2 + 512 * zones * 9) * 4;
    let kb = if word == "never" { floor } else { floor.max(recommended_kb.min(total_kb / 20)) };
    if capture.text(MIN_FREE).is_ok() {
        capture.saw_text(MIN_FREE, Ok(format!("{kb}\n")));
    }
}

fn meminfo_kb(capture: &Capture, key: &str) -> Option<u64> {
    let meminfo = capture.text("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// The kernel reserves as many pages as fit.
/// The kernel returns no error for fewer pages than requested. Only reading back shows the number (`set_max_huge_pages` in `mm/hugetlb.c`).
/// A huge page is 2 MiB here.
fn huge_pages(capture: &Capture, value: &str) -> Result<String, Errno> {
    let asked: u64 = value.parse().map_err(|_| Errno::INVAL)?;
    let room = meminfo_kb(capture, "MemFree:").map_or(u64::MAX, |free_kb| free_kb / 2048);
    Ok(format!("{}\n", asked.min(room)))
}

/// Files of a disk's queue.
/// A change of the scheduler also resets `nr_requests` (`elevator_switch` in `block/elevator.c`) to twice the device's own number, up to 256.
/// Without a scheduler, `nr_requests` is the device's own number, assumed to be 128.
fn disk(capture: &mut Capture, path: &str, before: &str, value: &str) -> Result<(), Errno> {
    let (queue, file) = path.rsplit_once('/').ok_or(Errno::ACCESS)?;
    let after = match file {
        "scheduler" => choose_word(before, value)?,
        // queue_ra_store (block/blk-sysfs.c): a plain number of KiB.
        "read_ahead_kb" => format!("{}\n", value.parse::<u32>().map_err(|_| Errno::INVAL)?),
        // queue_requests_store: at least BLKDEV_MIN_RQ.
        "nr_requests" => format!("{}\n", value.parse::<u32>().map_err(|_| Errno::INVAL)?.max(4)),
        _ => return Err(Errno::ACCESS),
    };
    let requests = format!("{queue}/nr_requests");
    if file == "scheduler" && after != *before && capture.text(&requests).is_ok() {
        capture.saw_text(&requests, Ok(if value == "none" { "128\n" } else { "256\n" }.to_owned()));
    }
    capture.saw_text(path, Ok(after));
    Ok(())
}

/// The kernel accepts an unknown name without an error, and changes nothing (`current_clocksource_store` in `kernel/time/clocksource.c`).
/// Only reading back shows that.
fn clocksource(capture: &Capture, path: &str, before: &str, value: &str) -> Result<String, Errno> {
    if !path.ends_with("/current_clocksource") {
        return Err(Errno::ACCESS);
    }
    let available = capture.text(&format!("{CLOCKSOURCE}available_clocksource")).unwrap_or_default();
    let offered = available.split_whitespace().any(|name| name == value);
    Ok(if offered { format!("{value}\n") } else { before.to_owned() })
}

/// A write changes both forms and the effective list together. An empty or offline set is EINVAL (`kernel/irq/proc.c`).
fn irq_affinity(capture: &mut Capture, path: &str, value: &str) -> Result<(), Errno> {
    let (irq_dir, file) = path.rsplit_once('/').ok_or(Errno::ACCESS)?;
    let cpus = match file {
        "smp_affinity" => CpuSet::parse_mask(value),
        "smp_affinity_list" => CpuSet::parse_list(value),
        _ => return Err(Errno::ACCESS),
    }
    .ok_or(Errno::INVAL)?;
    let online = capture.text("/sys/devices/system/cpu/online").ok().and_then(|text| CpuSet::parse_list(&text));
    let usable = online.map_or_else(|| cpus.clone(), |online| cpus.and(&online));
    let Some(first) = usable.first() else { return Err(Errno::INVAL) };
    let set = |capture: &mut Capture, name: &str, text: String| {
        let path = format!("{irq_dir}/{name}");
        if capture.text(&path).is_ok() {
            capture.saw_text(&path, Ok(text + "\n"));
        }
    };
    let width = mask_width(&capture.text(&format!("{irq_dir}/smp_affinity")).unwrap_or_default());
    set(capture, "smp_affinity", cpus.to_mask(width));
    set(capture, "smp_affinity_list", cpus.to_string());
    // One CPU serves an MSI-X interrupt, whatever the mask allows. The fake kernel takes the lowest CPU.
    set(capture, "effective_affinity_list", first.to_string());
    set(capture, "effective_affinity", CpuSet::from_iter([first]).to_mask(width));
    Ok(())
}

/// Files below `/sys/devices/system/cpu`.
/// An unknown governor or preference is EINVAL.
/// The kernel function for governors is `store_scaling_governor` in `drivers/cpufreq/cpufreq.c`.
/// For preferences, it is `store_energy_performance_preference` in `drivers/cpufreq/intel_pstate.c`.
fn cpu(capture: &Capture, file: &str, before: &str, value: &str) -> Result<String, Errno> {
    let (dir, name) = file.rsplit_once('/').ok_or(Errno::ACCESS)?;
    let is_on_offer = |list: &str| {
        // The list of the policy. If it was not captured, the list of CPU 0.
        let own = capture.text(&format!("{CPU}{dir}/{list}"));
        let words = own.or_else(|_| capture.text(&format!("{CPU}cpu0/cpufreq/{list}"))).unwrap_or_default();
        words.split_whitespace().any(|word| word == value)
    };
    let is_taken = match (dir, name) {
        ("smt", "control") => return smt_control(before, value),
        ("cpufreq", "boost") | ("intel_pstate", "no_turbo") => matches!(value, "0" | "1"),
        (_, "scaling_governor") => is_on_offer("scaling_available_governors"),
        (_, "energy_performance_preference") => is_on_offer("energy_performance_available_preferences"),
        // pm_qos_resume_latency_us_store (drivers/base/power/sysfs.c): a number below 0 is EINVAL.
        (_, "pm_qos_resume_latency_us") => {
            value == "n/a" || value.parse().is_ok_and(|us: i32| (0..i32::MAX).contains(&us))
        }
        _ => return Err(Errno::ACCESS),
    };
    if is_taken { Ok(format!("{value}\n")) } else { Err(Errno::INVAL) }
}

/// ENODEV if there are no threads to switch. forceoff is permanent (`__store_smt_control` in `kernel/cpu.c`).
/// The set of running CPUs stays as captured.
fn smt_control(before: &str, value: &str) -> Result<String, Errno> {
    match (before.trim(), value) {
        ("forceoff", "on" | "off" | "forceoff") => Err(Errno::PERM),
        ("on" | "off", "on" | "off" | "forceoff") => Ok(format!("{value}\n")),
        ("on" | "off" | "forceoff", _) => Err(Errno::INVAL),
        _ => Err(Errno::NODEV),
    }
}

/// `bitmap_parse`: hexadecimal groups of up to eight digits (`net/core/net-sysfs.c` for RPS and XPS).
fn cpu_mask(before: &str, value: &str) -> Result<String, Errno> {
    let cpus = CpuSet::parse_mask(value).ok_or(Errno::INVAL)?;
    Ok(cpus.to_mask(mask_width(before)) + "\n")
}

/// How many CPUs the kernel's masks cover, counted from a mask that the kernel printed.
fn mask_width(mask: &str) -> usize {
    mask.trim().chars().filter(|digit| *digit != ',').count() * 4
}

/// Each limit on dirty pages has an exclusive pair of files.
/// A write to one file sets the other file to 0 (`dirty_ratio_handler` and similar functions in `mm/page-writeback.c`).
/// For `dirty_ratio` and `dirty_bytes`, this happens only if the written value differs from the old value.
fn zero_partner(capture: &mut Capture, path: &str, before: &str, after: &str) {
    let Some(name) = path.strip_prefix("/proc/sys/vm/") else { return };
    let partner = match name {
        "dirty_ratio" => "dirty_bytes",
        "dirty_bytes" => "dirty_ratio",
        "dirty_background_ratio" => "dirty_background_bytes",
        "dirty_background_bytes" => "dirty_background_ratio",
        _ => return,
    };
    let partner = format!("/proc/sys/vm/{partner}");
    let acts = name.starts_with("dirty_background") || before.trim() != after.trim();
    if acts && capture.text(&partner).is_ok() {
        capture.saw_text(&partner, Ok("0\n".to_owned()));
    }
}

/// `proc_dointvec_minmax` (`kernel/sysctl.c`) takes one number. A number outside its range, or other text, is EINVAL.
fn sysctl(capture: &Capture, key: &str, before: &str, value: &str) -> Result<String, Errno> {
    match key {
        "net/ipv4/udp_mem" => return long_numbers(before, value),
        "net/core/default_qdisc" => return default_qdisc(before, value),
        "net/core/rps_sock_flow_entries" => return flow_entries(value),
        _ => {}
    }
    if before.split_whitespace().count() != 1 {
        return Err(Errno::ACCESS);
    }
    let number: i64 = value.parse().map_err(|_| Errno::INVAL)?;
    let range = match key {
        // The upper bound rose from 100 to 200 in Linux 5.8.
        "vm/swappiness" if is_older_than(capture, 5, 8) => 0..=100,
        "vm/swappiness" => 0..=200,
        // `dirty_bytes` is at least two pages of 4 KiB (`dirty_bytes_min`). The background limit is at least 1 byte.
        // 0 is refused.
        "vm/dirty_bytes" => 8192..=i64::MAX,
        "vm/dirty_background_bytes" => 1..=i64::MAX,
        "vm/dirty_ratio" | "vm/dirty_background_ratio" | "vm/compaction_proactiveness" => 0..=100,
        "vm/watermark_scale_factor" => 1..=3000,
        "vm/watermark_boost_factor" | "vm/zone_reclaim_mode" => 0..=i64::from(i32::MAX),
        // Before Linux 6.1 the value was 0 or 1. Since Linux 6.1 it is a set of bits.
        "kernel/numa_balancing" if is_older_than(capture, 6, 1) => 0..=1,
        "kernel/numa_balancing" => 0..=4,
        "kernel/timer_migration" | "kernel/sched_autogroup_enabled" => 0..=1,
        "kernel/nmi_watchdog" | "kernel/watchdog" => 0..=1,
        // From 0.1 ms to 1 s (kernel/sysctl.c up to Linux 5.12).
        "kernel/sched_min_granularity_ns" => 100_000..=1_000_000_000,
        "kernel/sched_wakeup_granularity_ns" => 0..=1_000_000_000,
        // The value is at most the period (`sched_rt_global_validate` in kernel/sched/rt.c).
        "kernel/sched_rt_runtime_us" => {
            -1..=number_in(capture, "/proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000)
        }
        "net/core/rmem_max" | "net/core/rmem_default" => MIN_RCVBUF..=i64::from(i32::MAX),
        "net/core/busy_poll" | "net/core/busy_read" | "vm/min_free_kbytes" => 0..=i64::from(i32::MAX),
        // proc_dou8vec_minmax without further limits (`net/ipv4/sysctl_net_ipv4.c`).
        "net/ipv4/udp_early_demux" => 0..=255,
        "net/ipv4/udp_rmem_min" => 1..=i64::from(i32::MAX),
        _ => i64::from(i32::MIN)..=i64::from(i32::MAX),
    };
    if range.contains(&number) { Ok(format!("{number}\n")) } else { Err(Errno::INVAL) }
}

fn number_in(capture: &Capture, path: &str) -> Option<i64> {
    capture.text(path).ok()?.trim().parse().ok()
}

/// `proc_doulongvec_minmax` (`kernel/sysctl.c`): the written numbers replace the first numbers, and the others stay.
/// The kernel prints the numbers with tabs in between.
fn long_numbers(before: &str, value: &str) -> Result<String, Errno> {
    let mut numbers: Vec<u64> = before.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let given: Vec<u64> =
        value.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| Errno::INVAL)?;
    if given.is_empty() || given.len() > numbers.len() {
        return Err(Errno::INVAL);
    }
    numbers[..given.len()].copy_from_slice(&given);
    Ok(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("\t") + "\n")
}

/// ENOENT unless the discipline is built in, loaded, or available as a module.
/// The kernel functions are `set_default_qdisc` in `net/core/sysctl_net_core.c` and `qdisc_set_default` in `net/sched/sch_api.c`.
fn default_qdisc(before: &str, value: &str) -> Result<String, Errno> {
    let known = ["pfifo_fast", "pfifo", "bfifo", "fq_codel", "fq"].contains(&value) || before.trim() == value;
    if known { Ok(format!("{value}\n")) } else { Err(Errno::NOENT) }
}

/// The value is rounded up to a power of two, and 0 means off.
/// See `rps_sock_flow_sysctl` in `net/core/sysctl_net_core.c` and `store_rps_dev_flow_table_cnt` in `net/core/net-sysfs.c`.
fn flow_entries(value: &str) -> Result<String, Errno> {
    let entries: u32 = value.parse().map_err(|_| Errno::INVAL)?;
    match entries {
        0 => Ok("0\n".to_owned()),
        1..=0x2000_0000 => Ok(format!("{}\n", entries.next_power_of_two())),
        _ => Err(Errno::INVAL),
    }
}

/// `netdev_store` (`net/core/net-sysfs.c`) accepts a number.
/// `threaded` must be 0 or 1 (`modify_napi_threaded`), and `napi_defer_hard_irqs` must fit into an `int` (`change_napi_defer_hard_irqs`).
fn interface(path: &str, value: &str) -> Result<String, Errno> {
    let number: u64 = value.parse().map_err(|_| Errno::INVAL)?;
    let most = match path.rsplit('/').next() {
        Some("threaded") => 1,
        Some("napi_defer_hard_irqs") => i32::MAX as u64,
        Some("gro_flush_timeout") => u64::MAX,
        _ => return Err(Errno::ACCESS),
    };
    if number > most { Err(Errno::INVAL) } else { Ok(format!("{number}\n")) }
}

fn is_older_than(capture: &Capture, major: u32, minor: u32) -> bool {
    let release = capture.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version != (0, 0) && version < (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    const HOST: &str = "evenkeel-capture 1
/proc/sys/kernel/osrelease = 6.1.0-13-cloud-amd64
/proc/meminfo =
| MemTotal:       24582928 kB
| MemFree:        23000000 kB
/proc/sys/vm/min_free_kbytes = 67584
/proc/sys/vm/swappiness = 60
/proc/sys/net/core/rmem_max = 212992
/proc/sys/net/core/rmem_default = 212992
/proc/sys/net/core/default_qdisc = pfifo_fast
/proc/sys/net/core/rps_sock_flow_entries = 0
/proc/sys/net/ipv4/udp_early_demux = 1
/proc/sys/net/ipv4/udp_mem = 1 2 3
/proc/sys/net/ipv4/udp_rmem_min = 4096
/proc/sys/vm/panic_on_oom ! EACCES
/proc/sys/vm/nr_hugepages = 0
/proc/sys/vm/dirty_ratio = 20
/proc/sys/vm/dirty_bytes = 0
/proc/sys/vm/dirty_background_ratio = 10
/proc/sys/vm/dirty_background_bytes = 0
/proc/sys/vm/watermark_scale_factor = 10
/proc/sys/vm/zone_reclaim_mode = 0
/proc/sys/kernel/numa_balancing = 1
/sys/block/vda/queue/scheduler = none [mq-deadline] kyber bfq
/sys/block/vda/queue/nr_requests = 200
/sys/block/vda/queue/read_ahead_kb = 128
/sys/block/vda/queue/rotational = 1
/sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
/sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet acpi_pm
/sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
/sys/devices/system/cpu/online = 0-35
/sys/class/net/eth0/queues/rx-0/rps_cpus = 0,00000000
/sys/class/net/eth0/queues/rx-0/rps_flow_cnt = 0
/sys/class/net/eth0/threaded = 0
/sys/class/net/eth0/napi_defer_hard_irqs = 0
/sys/class/net/eth0/gro_flush_timeout = 0
/sys/class/net/eth0/mtu = 1500
/sys/module/haltpoll/parameters/guest_halt_poll_ns = 0
/proc/irq/25/smp_affinity = f,ffffffff
/proc/irq/25/smp_affinity_list = 0-35
/proc/irq/25/effective_affinity_list = 7
/proc/irq/26/smp_affinity = f,ffffffff
/proc/irq/26/smp_affinity !write EIO
/proc/sys/kernel/sched_rt_runtime_us = 950000
/proc/sys/kernel/timer_migration = 1
/sys/devices/system/cpu/smt/control = on
/sys/devices/system/cpu/cpufreq/boost = 1
/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors = performance powersave
/sys/devices/system/cpu/cpufreq/policy3/scaling_governor = powersave
/sys/devices/system/cpu/cpufreq/policy3/affected_cpus = 3
/sys/devices/virtual/workqueue/cpumask = f,ffffffff
/sys/kernel/debug/sched/migration_cost_ns = 500000
/proc/version = Linux
end
";

    #[test]
    fn the_kernel_answers_as_it_would() {
        let table: &[(&str, &str, Result<&str, Errno>)] = &[
            ("/proc/sys/vm/swappiness", "10", Ok("10\n")),
            ("/proc/sys/vm/swappiness", "200", Ok("200\n")),
            ("/proc/sys/vm/swappiness", "201", Err(Errno::INVAL)),
            ("/proc/sys/vm/swappiness", "ten", Err(Errno::INVAL)),
            ("/proc/sys/net/core/rmem_max", "100", Err(Errno::INVAL)),
            ("/proc/sys/net/core/rmem_max", "4194304", Ok("4194304\n")),
            ("/proc/sys/net/core/rmem_default", "2303", Err(Errno::INVAL)),
            ("/proc/sys/net/core/rmem_default", "524288", Ok("524288\n")),
            ("/proc/sys/net/core/default_qdisc", "fq", Ok("fq\n")),
            ("/proc/sys/net/core/default_qdisc", "fifo_fast", Err(Errno::NOENT)),
            ("/proc/sys/net/core/rps_sock_flow_entries", "0", Ok("0\n")),
            ("/proc/sys/net/core/rps_sock_flow_entries", "40000", Ok("65536\n")),
            ("/proc/sys/net/core/rps_sock_flow_entries", "536870913", Err(Errno::INVAL)),
            ("/proc/sys/net/ipv4/udp_early_demux", "256", Err(Errno::INVAL)),
            ("/proc/sys/net/ipv4/udp_mem", "7", Ok("7\t2\t3\n")),
            ("/proc/sys/net/ipv4/udp_mem", "4 5 6", Ok("4\t5\t6\n")),
            ("/proc/sys/net/ipv4/udp_mem", "4 5 6 7", Err(Errno::INVAL)),
            ("/proc/sys/net/ipv4/udp_mem", "4 five", Err(Errno::INVAL)),
            ("/proc/sys/net/ipv4/udp_mem", "", Err(Errno::INVAL)),
            ("/proc/sys/net/ipv4/udp_rmem_min", "0", Err(Errno::INVAL)),
            ("/proc/sys/vm/panic_on_oom", "1", Err(Errno::ACCESS)),
            ("/proc/sys/vm/nothing", "1", Err(Errno::NOENT)),
            ("/proc/sys/vm/nr_hugepages", "64", Ok("64\n")),
            ("/proc/sys/vm/nr_hugepages", "20000", Ok("11230\n")),
            ("/proc/sys/vm/nr_hugepages", "-1", Err(Errno::INVAL)),
            ("/proc/sys/vm/dirty_bytes", "0", Err(Errno::INVAL)),
            ("/proc/sys/vm/dirty_bytes", "8191", Err(Errno::INVAL)),
            ("/proc/sys/vm/dirty_bytes", "8192", Ok("8192\n")),
            ("/proc/sys/vm/dirty_background_bytes", "0", Err(Errno::INVAL)),
            ("/proc/sys/vm/dirty_background_bytes", "1", Ok("1\n")),
            ("/proc/sys/vm/dirty_ratio", "101", Err(Errno::INVAL)),
            ("/proc/sys/vm/watermark_scale_factor", "0", Err(Errno::INVAL)),
            ("/proc/sys/vm/watermark_scale_factor", "3001", Err(Errno::INVAL)),
            ("/proc/sys/vm/zone_reclaim_mode", "-1", Err(Errno::INVAL)),
            ("/proc/sys/kernel/numa_balancing", "2", Ok("2\n")),
            ("/proc/sys/kernel/numa_balancing", "8", Err(Errno::INVAL)),
            ("/sys/block/vda/queue/scheduler", "none", Ok("[none] mq-deadline kyber bfq\n")),
            ("/sys/block/vda/queue/scheduler", "cfq", Err(Errno::INVAL)),
            ("/sys/block/vda/queue/read_ahead_kb", "4096", Ok("4096\n")),
            ("/sys/block/vda/queue/read_ahead_kb", "much", Err(Errno::INVAL)),
            ("/sys/block/vda/queue/rotational", "0", Err(Errno::ACCESS)),
            ("/proc/version", "x", Err(Errno::ACCESS)),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "never", Ok("always madvise [never]\n")),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "sometimes", Err(Errno::INVAL)),
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", Ok("hpet\n")),
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "xen", Ok("tsc\n")),
            ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "xen", Err(Errno::ACCESS)),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "f00000001", Ok("f,00000001\n")),
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "x", Err(Errno::INVAL)),
            ("/sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "4095", Ok("4096\n")),
            ("/sys/class/net/eth0/threaded", "1", Ok("1\n")),
            ("/sys/class/net/eth0/threaded", "2", Err(Errno::INVAL)),
            ("/sys/class/net/eth0/napi_defer_hard_irqs", "2147483648", Err(Errno::INVAL)),
            ("/sys/class/net/eth0/gro_flush_timeout", "20000", Ok("20000\n")),
            ("/sys/class/net/eth0/gro_flush_timeout", "-1", Err(Errno::INVAL)),
            ("/sys/class/net/eth0/mtu", "1400", Err(Errno::ACCESS)),
            ("/sys/module/haltpoll/parameters/guest_halt_poll_ns", "200000", Ok("200000\n")),
            ("/sys/module/haltpoll/parameters/guest_halt_poll_ns", "-1", Err(Errno::INVAL)),
            ("/proc/irq/25/smp_affinity", "8,00000000", Ok("8,00000000\n")),
            ("/proc/irq/25/smp_affinity", "0", Err(Errno::INVAL)),
            ("/proc/irq/25/smp_affinity_list", "40-41", Err(Errno::INVAL)),
            ("/proc/irq/25/effective_affinity_list", "1", Err(Errno::ACCESS)),
            ("/proc/irq/26/smp_affinity", "1", Err(Errno::IO)),
            ("/proc/sys/kernel/sched_rt_runtime_us", "-1", Ok("-1\n")),
            ("/proc/sys/kernel/sched_rt_runtime_us", "1000001", Err(Errno::INVAL)),
            ("/proc/sys/kernel/timer_migration", "2", Err(Errno::INVAL)),
            ("/sys/devices/system/cpu/smt/control", "off", Ok("off\n")),
            ("/sys/devices/system/cpu/smt/control", "maybe", Err(Errno::INVAL)),
            ("/sys/devices/system/cpu/cpufreq/boost", "0", Ok("0\n")),
            ("/sys/devices/system/cpu/cpufreq/boost", "2", Err(Errno::INVAL)),
            ("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor", "performance", Ok("performance\n")),
            ("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor", "ondemand", Err(Errno::INVAL)),
            ("/sys/devices/system/cpu/cpufreq/policy3/affected_cpus", "1", Err(Errno::ACCESS)),
            ("/sys/devices/virtual/workqueue/cpumask", "3", Ok("0,00000003\n")),
            ("/sys/devices/virtual/workqueue/cpumask", "0", Err(Errno::INVAL)),
            ("/sys/kernel/debug/sched/migration_cost_ns", "5000000", Ok("5000000\n")),
            ("/sys/kernel/debug/sched/migration_cost_ns", "-1", Err(Errno::INVAL)),
        ];
        for (path, value, expected) in table {
            let root = Root::captured(Capture::parse(HOST).unwrap());
            let outcome = root.writer().unwrap().write(path, value).map_err(|error| error.errno);
            let read_back = outcome.map(|()| root.text(path).unwrap());
            assert_eq!(read_back, expected.map(str::to_owned), "{value} to {path}");
        }
    }

    #[test]
    fn siblings_that_are_not_there_cannot_be_switched() {
        for (before, expected) in [("notsupported", Errno::NODEV), ("forceoff", Errno::PERM)] {
            assert_eq!(smt_control(before, "on"), Err(expected), "{before}");
        }
    }

    #[test]
    fn side_effects_of_a_write_happen() {
        let root = Root::captured(Capture::parse(HOST).unwrap());
        let writer = root.writer().unwrap();
        let text = |path| root.text(path).unwrap();
        writer.write("/sys/kernel/mm/transparent_hugepage/enabled", "never").unwrap();
        assert_eq!(text("/proc/sys/vm/min_free_kbytes"), "19832\n", "as seen on a 6.18 guest of this size");
        writer.write("/sys/kernel/mm/transparent_hugepage/enabled", "madvise").unwrap();
        assert_eq!(text("/proc/sys/vm/min_free_kbytes"), "67584\n");
        writer.write("/proc/irq/25/smp_affinity_list", "33,2-3").unwrap();
        assert_eq!(text("/proc/irq/25/smp_affinity"), "2,0000000c\n");
        assert_eq!(text("/proc/irq/25/smp_affinity_list"), "2-3,33\n");
        assert_eq!(text("/proc/irq/25/effective_affinity_list"), "2\n");
    }

    /// Each row shows the answer of a guest with Linux 6.18.
    #[test]
    fn one_spelling_of_a_limit_zeroes_the_other() {
        let table: &[(&str, &str, &str)] = &[
            ("dirty_bytes", "8192", "0 8192 10 0"),
            ("dirty_ratio", "0", "0 8192 10 0"),
            ("dirty_ratio", "1", "1 0 10 0"),
            ("dirty_ratio", "0", "0 0 10 0"),
            ("dirty_background_bytes", "1", "0 0 0 1"),
            ("dirty_background_ratio", "0", "0 0 0 0"),
        ];
        let root = Root::captured(Capture::parse(HOST).unwrap());
        for (name, value, expected) in table {
            root.writer().unwrap().write(&format!("/proc/sys/vm/{name}"), value).unwrap();
            let names = ["dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes"];
            let text = |name| root.text(&format!("/proc/sys/vm/{name}")).unwrap().trim().to_owned();
            assert_eq!(names.map(text).join(" "), *expected, "{value} to {name}");
        }
    }

    #[test]
    fn another_scheduler_brings_its_own_number_of_requests() {
        let root = Root::captured(Capture::parse(HOST).unwrap());
        let requests = || root.text("/sys/block/vda/queue/nr_requests").unwrap();
        let choose = |word| root.writer().unwrap().write("/sys/block/vda/queue/scheduler", word).unwrap();
        choose("mq-deadline");
        assert_eq!(requests(), "200\n", "it was so already");
        choose("none");
        assert_eq!(requests(), "128\n", "as seen on a 6.18 guest with a virtio disk");
        choose("mq-deadline");
        assert_eq!(requests(), "256\n");
    }

    #[test]
    fn swappiness_had_a_lower_bound_before_5_8() {
        let old = HOST.replace("6.1.0-13-cloud-amd64", "4.4.0-1128-aws");
        let writer = Root::captured(Capture::parse(&old).unwrap()).writer().unwrap();
        assert!(writer.write("/proc/sys/vm/swappiness", "100").is_ok());
        assert_eq!(writer.write("/proc/sys/vm/swappiness", "101").unwrap_err().errno, Errno::INVAL);
    }
}
