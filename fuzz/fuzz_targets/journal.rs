//! A journal whose records are whole, as their checksums say, but say anything: each line of the input is one record's JSON.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use evenkeel_change::{Log, history};
use evenkeel_sys::{Capture, Root};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> = LazyLock::new(|| TempDir::new_in("/dev/shm").expect("/dev/shm takes a folder"));

fuzz_target!(|input: &str| {
    let record = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let journal: String = input.lines().map(record).collect();
    fs::write(DIR.path().join("journal"), journal).expect("/dev/shm takes a file");
    if let Ok(log) = Log::read(DIR.path()) {
        let _ = history(&Root::captured(Capture::default()), &log);
    }
});
