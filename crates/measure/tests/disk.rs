//! Synchronous writes under a limit of a control group: half as many operations allowed must read as twice the time for each.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::disk::{self, Report, Settings, Shared};

/// A folder of control groups of the first version, in which single threads can be limited.
const GROUPS: &str = "/sys/fs/cgroup/blkio";
const GROUP: &str = "/sys/fs/cgroup/blkio/evenkeel-disk-test";

fn measured(directory: &Path, each_ns: u64) -> Report {
    let stop = AtomicBool::new(false);
    let settings = Settings { directory: directory.to_owned(), each_ns, ..Settings::default() };
    disk::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

/// A control group that is gone when this is; one that a killed run left is empty, and taken over.
struct Group;

impl Group {
    fn made() -> std::io::Result<Group> {
        let _ = fs::remove_dir(GROUP);
        fs::create_dir(GROUP).map(|()| Group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(GROUP);
    }
}

/// The mean time of a write while this thread may do so many operations a second on the device.
fn mean_ns_at(device: &str, operations_per_s: u32, directory: &Path) -> f64 {
    fs::write(format!("{GROUP}/blkio.throttle.write_iops_device"), format!("{device} {operations_per_s}")).unwrap();
    // Some 300 operations, or a tenth of a minute.
    let report =
        measured(directory, (300_000_000_000 / u64::from(operations_per_s)).clamp(1_500_000_000, 6_000_000_000));
    report.write_and_sync.histogram.mean().unwrap()
}

#[test]
fn a_limit_on_operations_is_read_back() {
    let lock = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    lock.lock().unwrap();
    let directory = Path::new("/var/tmp");
    let free = measured(directory, 300_000_000);
    let Some(data) = free.data.clone().filter(|data| !data.disks.is_empty()) else {
        println!("skipped: {} is on no disk that is known", directory.display());
        return;
    };
    if !Path::new(GROUPS).join("blkio.throttle.write_iops_device").exists() {
        println!("skipped: no control groups of the first version that limit disks");
        return;
    }
    // A disk that is slower than the limits of itself shows none of them: a quarter of what it does freely is always less.
    let free_ns = free.write_and_sync.histogram.mean().unwrap();
    let fast_per_s = (1e9 / (4.0 * free_ns)).min(200.0) as u32 / 2 * 2;
    if fast_per_s < 20 {
        println!("skipped: a write takes {:.1} ms on this disk as it is", free_ns / 1e6);
        return;
    }
    let Ok(_group) = Group::made() else {
        println!("skipped: no right to make a control group");
        return;
    };
    // A thread of its own enters the group, and leaves it by its end.
    let means = std::thread::spawn(move || {
        let tid = fs::read_link("/proc/thread-self").unwrap();
        fs::write(format!("{GROUP}/tasks"), tid.file_name().unwrap().as_encoded_bytes()).unwrap();
        let mut said = Vec::new();
        for _ in 0..3 {
            let limits = [fast_per_s, fast_per_s / 2];
            let [fast, slow] = limits.map(|limit| mean_ns_at(&data.device, limit, directory));
            said.push((fast, slow));
            if (1.6..2.5).contains(&(slow / fast)) {
                break;
            }
        }
        fs::write(format!("{GROUPS}/tasks"), tid.file_name().unwrap().as_encoded_bytes()).unwrap();
        said
    });
    let said = means.join().unwrap();
    let (fast, slow) = *said.last().unwrap();
    println!("free {:.3} ms, {fast_per_s} a second {:.2} ms, half {:.2} ms", free_ns / 1e6, fast / 1e6, slow / 1e6);
    assert!((1.6..2.5).contains(&(slow / fast)) && fast > 4e6, "{said:?}");
}

#[test]
fn memory_shares_nothing_with_the_disk() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: no /dev/shm");
        return;
    }
    let report = measured(shm, 500_000_000);
    match report.data.as_ref().is_some_and(disk::Volume::is_memory) {
        true => assert_eq!(report.shared, Shared::Nothing),
        false => println!("skipped: /dev/shm is not in memory"),
    }
    assert!(report.sync_write.histogram.count() > 0);
}
