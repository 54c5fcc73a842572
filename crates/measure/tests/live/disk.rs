//! Checks synchronous writes under a limit of a control group. With half the allowed operations, a write must take twice the time.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::disk::{self, Report, Settings};
use evenkeel_testkit::cgroup::Group;
use evenkeel_testkit::{HostLock, fitness, live::not_judged};

/// A folder of version 1 control groups, which can limit single threads.
const GROUPS: &str = "/sys/fs/cgroup/blkio";
const DIRECTORY: &str = "/var/tmp";

fn measured(each_ns: u64) -> Report {
    let settings = Settings { directory: DIRECTORY.into(), each_ns, ..Settings::default() };
    disk::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap()
}

fn mean_ns(report: &Report) -> f64 {
    report.write_and_sync.histogram.mean().unwrap()
}

/// The mean time of a write while this thread may do this many operations per second on the device.
fn mean_ns_at(group: &Group, device: &str, operations_per_s: u32) -> f64 {
    group.write("blkio.throttle.write_iops_device", &format!("{device} {operations_per_s}"));
    // The measurement makes some 300 operations, or takes six seconds.
    mean_ns(&measured((300_000_000_000 / u64::from(operations_per_s)).clamp(1_500_000_000, 6_000_000_000)))
}

#[test]
fn a_limit_on_operations_is_read_back() {
    let _host = HostLock::take();
    let free = measured(300_000_000);
    let Some(data) = free.data.clone().filter(|data| !data.disks.is_empty()) else {
        return not_judged(format_args!("{DIRECTORY} is on no disk that is known"));
    };
    if !Path::new(GROUPS).join("blkio.throttle.write_iops_device").exists() {
        return not_judged("no control groups of the first version that limit disks");
    }
    // A disk slower than the limits would hide their effect, so the limits are at most a quarter of the disk's free rate.
    let free_ns = mean_ns(&free);
    let fast_per_s = (1e9 / (4.0 * free_ns)).min(200.0) as u32 / 2 * 2;
    if fast_per_s < 20 {
        return not_judged(format_args!("a write takes {:.1} ms on this disk as it is", free_ns / 1e6));
    }
    let group = match Group::with("blkio", &[]) {
        Ok(group) => group,
        Err(why) => return not_judged(why),
    };
    // A separate thread enters the group, and leaves the group to measure the disk itself.
    let body = || {
        let tid = fs::read_link("/proc/thread-self").unwrap();
        let tid = tid.file_name().unwrap().to_str().unwrap();
        fitness::holds(3, || {
            group.write("tasks", tid);
            let [fast, slow] = [fast_per_s, fast_per_s / 2].map(|limit| mean_ns_at(&group, &data.device, limit));
            fs::write(format!("{GROUPS}/tasks"), tid).unwrap();
            if (1.6..2.5).contains(&(slow / fast)) && fast > 4e6 {
                return Some(Ok(()));
            }
            let now_ns = mean_ns(&measured(300_000_000));
            let why = format!(
                "{fast_per_s} a second took {:.2} ms each, half of it {:.2} ms; free {:.3} ms, and {:.3} ms after it",
                fast / 1e6,
                slow / 1e6,
                free_ns / 1e6,
                now_ns / 1e6
            );
            println!("{why}");
            // If others slowed the disk in the meantime, the result shows their load and not the limit.
            (now_ns < 2.0 * free_ns).then_some(Err(why))
        });
    };
    std::thread::scope(|scope| scope.spawn(body).join()).unwrap();
}
