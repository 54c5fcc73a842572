//! Tests dumps of the flight recorder: their format does not change, and no input causes a panic.

use std::io::Cursor;
use std::path::Path;

use evenkeel_profile::input;
use evenkeel_profile::perf::layout::{Layout, sample as fields};
use evenkeel_profile::perf::record::kind;
use evenkeel_profile::perf::write::{self, Described, WrittenEvent};
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::perf_sampler::{Spec, flag};
use evenkeel_watch::recorder::write_dump;
use evenkeel_watch::store::{Replay, encode_alone};
use proptest::prelude::*;

use crate::rates::sample;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/golden/dump-v1.data");

/// A dump of two switches and two samples.
fn dump() -> Vec<u8> {
    let sample_type = fields::TID | fields::TIME | fields::CPU;
    let flags = flag::CONTEXT_SWITCH | flag::COMM;
    let spec = Spec { kind: 1, config: 9, rate: 1, sample_type, flags, user_registers: 0, user_stack_bytes: 0 };
    let layout = Layout::parse(&spec.to_bytes(), 0).unwrap();
    let switch = |misc: u16, at_ns: u64| {
        let mut record = write::record(kind::SWITCH, misc, &[], &layout).unwrap();
        let tail = [7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat();
        let tail = [tail, at_ns.to_ne_bytes().to_vec(), 1_u64.to_ne_bytes().to_vec()].concat();
        let at = record.len() - tail.len();
        record[at..].copy_from_slice(&tail);
        record
    };
    let records = [switch(0, 100_000), switch(1 << 13, 200_000)].concat();
    let event = WrittenEvent { name: "dummy".to_owned(), attributes: spec.to_bytes(), ids: vec![5] };
    let described = Described { version: "0.1.0".to_owned(), events: vec![event], ..Described::default() };
    let frames =
        [sample(100), sample(101)].iter().flat_map(|sample| encode_alone(sample).unwrap()).collect::<Vec<u8>>();
    write_dump(Cursor::new(Vec::new()), &records, &described, &frames).unwrap().into_inner()
}

#[test]
fn a_dump_of_the_first_version_opens_as_recording_and_as_store() {
    let golden = Path::new(GOLDEN);
    if std::env::var_os("UPDATE_EXPECT").is_some() && !golden.exists() {
        std::fs::write(golden, dump()).unwrap();
    }
    for bytes in [std::fs::read(golden).unwrap(), dump()] {
        let recording = input::read(&bytes, &mut NoUnwind).unwrap();
        let switches: Vec<(u32, u64)> = recording.switches.iter().map(|switch| (switch.tid, switch.at_ns)).collect();
        assert_eq!(switches, [(8, 100_000), (8, 200_000)]);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dump.data");
        std::fs::write(&file, &bytes).unwrap();
        let mut replay = Replay::open(&file).unwrap();
        let last = replay.last().unwrap();
        let (before, after) = replay.pair(last).unwrap();
        assert_eq!(after.at.monotonic_ns - before.at.monotonic_ns, 1_000_000_000);
        assert_eq!(replay.next(last), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_bytes_of_a_dump_are_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20), cut in any::<prop::sample::Index>(), is_cut in any::<bool>(),
    ) {
        let mut bytes = dump();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = input::read(&bytes, &mut NoUnwind);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dump.data");
        std::fs::write(&file, &bytes).unwrap();
        if let Ok(mut replay) = Replay::open(&file) {
            let mut at = replay.last();
            while let Some(position) = at {
                let _ = replay.pair(position);
                at = replay.previous(position);
            }
        }
    }
}
