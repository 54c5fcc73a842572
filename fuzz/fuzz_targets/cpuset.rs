//! Sets of CPUs in both spellings: what is read is written so that it reads the same.
#![no_main]

use evenkeel_sys::{CpuSet, MAX_CPUS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(set) = CpuSet::parse_list(text) {
        assert!(set.iter().all(|cpu| cpu < MAX_CPUS), "{set}");
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
        assert_eq!(CpuSet::parse_mask(&set.to_mask(1)).as_ref(), Some(&set));
    }
    if let Some(set) = CpuSet::parse_mask(text) {
        assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Some(&set));
    }
});
