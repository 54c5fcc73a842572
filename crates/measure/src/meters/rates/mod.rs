//! Rates of the kernel's counters: how CPU time was used or taken away,
//! what threads waited for, throttling by limits, page faults, and swapping.
//! The rates cover the machine, a control group, and a server's process.
//!
//! The meter traces nothing. It reads files under /proc and /sys at the beginning, at the end, and now and then in between.
//! This costs little.
//! But the meter sees only what the kernel counts: CPU times in units of 10 ms, and nothing while the whole machine was paused.

mod between;
mod counts;
mod group;
mod measured;
mod report;
mod settings;
mod spread;
#[cfg(test)]
mod tests;
mod timeline;

pub use between::{PagesSeen, between, cpu_time};
pub use counts::{
    Counts, GroupCounts, LevelCounts, ProcessCounts, Resource, THREADS_MAX, ThreadCounts, quota_v1, quota_v2,
    read as read_counts, stalls,
};
pub use group::{MemoryLimit, Places};
pub use measured::{Kind, Measured, Unknown};
pub use report::{
    Cost, CpuShares, Group, Level, Memory, Pressure, ProcessMemory, ProcessRates, Quota, Rates, Report, Shares, Spread,
    System, ThreadRates,
};
pub use settings::{Pages, Settings, Target};
pub use timeline::Stretch;

use std::fs;

use evenkeel_hostfs::Root;
use evenkeel_sys::{Errno, clock};

use crate::{MeterError, Watch};
use spread::{Between, Course};

/// How long to sleep between checks for a stop.
const NAP_NS: u64 = 50_000_000;

/// Runs the measurement.
///
/// # Errors
/// Fails if the process or control group does not exist, or if the marks of its pages may not be cleared.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let every_ns = settings.every_ms.max(1).saturating_mul(1_000_000);
    let for_ns = settings.for_ms.saturating_mul(1_000_000);
    check(&settings.target)?;
    if let (Target::Process(pid), Pages::ClearReferenced) = (&settings.target, settings.pages) {
        clear_referenced(*pid)?;
    }
    let cpu_before_ns = clock::thread_cpu_ns();
    let first = read(&settings.target);
    if let Some(Measured::Unknown(unknown)) = &first.process {
        return Err(MeterError::not_possible("read what is counted of the process", &unknown.why));
    }
    let mut course = Course::new(&settings.target, settings.every_ms);
    let (mut last, mut readings, mut ended) = (first.clone(), 1_u64, None);
    for turn in 1_u64.. {
        let due_ns = turn.saturating_mul(every_ns).min(for_ns);
        let is_whole = sleep_until(first.at_ns.saturating_add(due_ns), watch);
        watch.progress(due_ns as f64 / for_ns.max(1) as f64, "reading what the kernel counts");
        let now = read(&settings.target);
        readings += 1;
        let since_ns = |at_ns: u64| at_ns.saturating_sub(first.at_ns);
        course
            .add(&between(&last, &now, None), Between { start_ns: since_ns(last.at_ns), end_ns: since_ns(now.at_ns) });
        let (before, is_end) = (last, !is_whole || due_ns >= for_ns);
        last = now;
        if let Some(why) = end_of_process(&before, &last) {
            // Use the last complete reading.
            last.process = before.process;
            ended = Some(why);
            break;
        }
        if is_end {
            break;
        }
    }
    let pages = match settings.target {
        Target::Process(pid) => Some(PagesSeen { rollup: counts::pages(&Root::live(), pid), pages: settings.pages }),
        _ => None,
    };
    let mut rates = between(&first, &last, pages.as_ref());
    if let Some(Measured::Known(process)) = &mut rates.process {
        process.ended = ended;
    }
    let elapsed_ns = last.at_ns.saturating_sub(first.at_ns);
    let cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    let cost = Cost { cpu_ns_per_reading: cpu_ns / readings, cpu_share: cpu_ns as f64 / elapsed_ns.max(1) as f64 };
    let (spread, lost) = course.finish();
    Ok(Report { elapsed_ns, readings, rates, spread, cost, lost })
}

/// Reads the counts through a new root each time. A single root would cache the files of all threads that have ended since.
fn read(target: &Target) -> Counts {
    Counts::read(&Root::live(), target, &clock::monotonic_ns)
}

fn check(target: &Target) -> Result<(), MeterError> {
    let root = Root::live();
    match target {
        Target::Machine => Ok(()),
        Target::Process(pid) => match fs::metadata(format!("/proc/{pid}")) {
            Ok(_) => Ok(()),
            Err(_) => Err(MeterError::wrong_use(format!("look at process {pid}"), "no process has this number")),
        },
        Target::Group(name) => {
            let places = Places::named(&root, name);
            let is_there = [&places.cpu, &places.memory, &places.pressure]
                .into_iter()
                .any(|place| place.known().is_some_and(|place| group::is_there(place, &root)));
            let why = "it is in none of the trees under /sys/fs/cgroup; name it as /proc/PID/cgroup does";
            if is_there { Ok(()) } else { Err(MeterError::wrong_use(format!("look at control group {name}"), why)) }
        }
    }
}

fn clear_referenced(pid: u32) -> Result<(), MeterError> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "1").map_err(|error| MeterError::refused(format!("write {path}"), Errno::from(&error)))
}

/// Sleeps until this time. False if the measurement was stopped earlier.
fn sleep_until(deadline_ns: u64, watch: &Watch<'_>) -> bool {
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= deadline_ns {
            return true;
        }
        if watch.stopped() {
            return false;
        }
        clock::sleep_until_ns(deadline_ns.min(now_ns + NAP_NS));
    }
}

/// Why the process no longer exists: it has ended or was replaced. None while it runs.
fn end_of_process(before: &Counts, now: &Counts) -> Option<String> {
    let Some(Measured::Known(then)) = &before.process else { return None };
    match now.process.as_ref()? {
        Measured::Unknown(_) => {
            Some("it ended during the measurement: the figures are of its time until then".to_owned())
        }
        Measured::Known(now) if now.stat.start_ticks != then.stat.start_ticks => Some(
            "it ended during the measurement, and another has its number now: the figures are of its own time"
                .to_owned(),
        ),
        Measured::Known(_) => None,
    }
}
