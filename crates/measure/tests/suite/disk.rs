//! The disk meter reports which other volumes share its disk.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::disk::{self, Settings, Shared};
use evenkeel_testkit::skipped;

#[test]
fn memory_shares_nothing_with_the_disk() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return skipped("there is no /dev/shm");
    }
    let settings = Settings { directory: shm.to_owned(), writes_max: 5, ..Settings::default() };
    let report = disk::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap();
    assert!(report.sync_write.histogram.count() > 0);
    match report.data.as_ref().is_some_and(disk::Volume::is_memory) {
        true => assert_eq!(report.shared, Shared::Nothing),
        false => skipped("/dev/shm is not in memory"),
    }
}
