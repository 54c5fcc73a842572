//! Recordings that `perf` wrote (`data/README.md`), and the results of reading them. No damage crashes the reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::input::{ReadError, read};
use evenkeel_profile::names::Names;
use evenkeel_profile::perf::layout::Layout;
use evenkeel_profile::perf::record::{HEAD_BYTES, MISC_USER, kind};
use evenkeel_profile::perf::write::{BuildId, Described, PerfWriter, WrittenEvent, record};
use evenkeel_profile::recording::{Recording, RecordingCaveat, Turn};
use evenkeel_profile::unwind::NoUnwind;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const ALL: &[&str] = &["disk.data", "mixed.data", "pipe.data", "killed.data", "dwarf.data", "compressed.data"];

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn reads(bytes: &[u8]) -> Result<Recording, ReadError> {
    read(bytes, &mut NoUnwind)
}

fn described(recording: &Recording) -> String {
    let machine = &recording.machine;
    let mut text = format!("{:?} {:?} {:?} {:?}\n", machine.host, machine.kernel, machine.architecture, machine.cpus);
    writeln!(text, "{} at {:x?}", machine.command.join(" "), machine.kernel_text).unwrap();
    for (number, event) in recording.events.iter().enumerate() {
        let of = recording.samples.iter().filter(|sample| usize::from(sample.event) == number);
        let weight: u64 = of.clone().map(|sample| sample.weight).sum();
        writeln!(text, "{} in {:?}: {} samples of {weight}", event.name, event.unit, of.count()).unwrap();
    }
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    for switch in &recording.switches {
        *turns.entry(format!("{:?}", switch.turn)).or_default() += 1;
    }
    let lost = (recording.lost.records, recording.lost.samples, recording.lost.throttled, recording.lost.odd);
    writeln!(text, "switches {turns:?}, lost {lost:?}, {} ns", recording.span.length_ns()).unwrap();
    let of_tiny = |path: &str| path.ends_with("tiny") || path.contains("libc.so") || path.starts_with("[kernel");
    for (_, module) in recording.modules.iter().filter(|(_, module)| of_tiny(&module.path)) {
        let id: Option<String> =
            module.build_id.as_ref().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
        writeln!(text, "{} {id:?}", module.path).unwrap();
    }
    for caveat in &recording.caveats {
        writeln!(text, "caveat: {caveat}").unwrap();
    }
    let names = Names::resolve(recording, |_| Vec::new());
    let tiny = recording
        .samples
        .iter()
        .filter(|sample| recording.threads.get(&sample.tid).and_then(|thread| thread.name.as_deref()) == Some("tiny"));
    for (line, weight) in Folded::from_samples(recording, &names, Base::Thread, tiny).lines {
        writeln!(text, "{line} {weight}").unwrap();
    }
    text
}

fn check(name: &str, expected: &Expect) {
    expected.assert_eq(&described(&reads(&file(name)).unwrap()));
}

#[test]
fn a_file_on_disk_has_its_machine_and_its_switches() {
    check(
        "disk.data",
        &expect![[r#"
            Some("vm") Some("6.18.44-fc-v595") Some("x86_64") Some(2)
            /usr/bin/perf record -q -e cpu-clock -F 199 -g --switch-events -o disk.data ./tiny at Some(ffffffff81000000)
            cpu-clock in Nanoseconds: 8 samples of 40201000
            switches {"In": 6, "Preempted": 3, "Slept": 2}, lost (0, 0, 0, 0), 27372724 ns
            [kernel.kallsyms]_text None
            /tmp/fx/tiny Some("de3a407b3141ecf0dff57cedeb48fc98f1193352")
            /usr/lib/x86_64-linux-gnu/libc.so.6 None
            tiny;[libc.so.6];[tiny];[tiny] 40201000
        "#]],
    );
}

#[test]
fn events_of_different_records_are_kept_apart() {
    check(
        "mixed.data",
        &expect![[r#"
            Some("vm") Some("6.18.44-fc-v595") Some("x86_64") Some(2)
            /usr/bin/perf record -q --sample-cpu -e cpu-clock/freq=199/ -e page-faults/call-graph=no,period=10/ -e sched:sched_process_exit -g -o mixed.data ./tiny at Some(ffffffff81000000)
            cpu-clock/freq=199/ in Nanoseconds: 8 samples of 40201000
            page-faults/call-graph=no,period=10/ in Events: 8 samples of 80
            sched:sched_process_exit in Events: 2 samples of 2
            switches {}, lost (0, 0, 0, 0), 22880999 ns
            [kernel.kallsyms]_text Some("e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1")
            /tmp/fx/tiny Some("de3a407b3141ecf0dff57cedeb48fc98f1193352")
            /usr/lib/x86_64-linux-gnu/libc.so.6 Some("93ac61ec5a8eb1396f9fbd350e3169a558528a40")
            tiny;[ld-linux-x86-64.so.2] 30
            tiny;[libc.so.6] 40
            tiny;[libc.so.6];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k] 2
            tiny;[libc.so.6];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k] 5025125
            tiny;[libc.so.6];[tiny];[tiny] 35175875
            tiny;[tiny] 10
        "#]],
    );
}

#[test]
fn a_file_from_a_pipe_has_the_same() {
    check(
        "pipe.data",
        &expect![[r#"
            Some("vm") Some("6.18.44-fc-v595") Some("x86_64") Some(2)
            /usr/bin/perf record -q -e cpu-clock/freq=199/ -e sched:sched_process_exit -g -o - ./tiny at Some(ffffffff81000000)
            cpu-clock/freq=199/ in Nanoseconds: 7 samples of 35175875
            sched:sched_process_exit in Events: 2 samples of 2
            switches {}, lost (0, 0, 0, 0), 22764772 ns
            [kernel.kallsyms]_text None
            /tmp/fx/tiny None
            /usr/lib/x86_64-linux-gnu/libc.so.6 None
            tiny;[libc.so.6];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k];[kernel]_[k] 2
            tiny;[libc.so.6];[tiny];[tiny] 35175875
        "#]],
    );
}

#[test]
fn stacks_that_were_copied_come_with_registers() {
    check(
        "dwarf.data",
        &expect![[r#"
            Some("vm") Some("6.18.44-fc-v595") Some("x86_64") Some(2)
            /usr/bin/perf record -q -e cpu-clock -F 199 --call-graph dwarf,256 -o dwarf.data ./tiny at Some(ffffffff81000000)
            cpu-clock in Nanoseconds: 8 samples of 40201000
            switches {}, lost (0, 0, 0, 0), 23456730 ns
            [kernel.kallsyms]_text None
            /tmp/fx/tiny Some("de3a407b3141ecf0dff57cedeb48fc98f1193352")
            /usr/lib/x86_64-linux-gnu/libc.so.6 None
            tiny;[tiny] 40201000
        "#]],
    );
}

#[test]
fn compressed_records_are_unpacked() {
    check(
        "compressed.data",
        &expect![[r#"
        Some("vm") Some("6.18.44-fc-v595") Some("x86_64") Some(2)
        /usr/bin/perf record -q -z -e cpu-clock -F 199 -g -o z.data ./tiny at Some(ffffffff81000000)
        cpu-clock in Nanoseconds: 8 samples of 40201000
        switches {}, lost (0, 0, 0, 0), 26740292 ns
        [kernel.kallsyms]_text None
        /tmp/fx/tiny None
        /usr/lib/x86_64-linux-gnu/libc.so.6 None
        tiny;[libc.so.6];[tiny];[tiny] 40201000
    "#]],
    );
}

#[test]
fn a_killed_perf_leaves_what_is_read_as_far_as_it_goes() {
    check(
        "killed.data",
        &expect![[r#"
            None None None None
             at Some(ffffffff81000000)
            cpu-clock in Nanoseconds: 257 samples of 1291457125
            switches {}, lost (0, 0, 0, 0), 1295596388 ns
            [kernel.kallsyms]_text None
            /usr/lib/x86_64-linux-gnu/libc.so.6 None
            caveat: perf was stopped before it finished the file, so names of events, machine and build IDs are missing
        "#]],
    );
}

#[test]
fn the_output_of_perf_script_gives_the_same_samples_and_switches() {
    let (data, text) = (reads(&file("disk.data")).unwrap(), reads(&file("switches.txt")).unwrap());
    expect![[r#"
        None None None None
         at None
        cpu-clock in Nanoseconds: 8 samples of 40201000
        switches {"In": 6, "Preempted": 3, "Slept": 2}, lost (0, 0, 0, 0), 27373001 ns
        /tmp/fx/tiny None
        /usr/lib/x86_64-linux-gnu/libc.so.6 None
        tiny;__libc_start_call_main;main;inner 40201000
    "#]]
    .assert_eq(&described(&text));
    // The text gives times only in microseconds.
    let samples = |recording: &Recording| -> Vec<_> {
        recording.samples.iter().map(|sample| (sample.at_ns / 1000, sample.tid, sample.weight)).collect()
    };
    assert_eq!(samples(&data), samples(&text));
    let switches = |recording: &Recording| -> Vec<(u64, u32, Turn)> {
        recording.switches.iter().map(|switch| (switch.at_ns / 1000, switch.tid, switch.turn)).collect()
    };
    assert_eq!(switches(&data), switches(&text));
    let depth = |recording: &Recording| -> Vec<usize> {
        recording.samples.iter().map(|sample| recording.stacks.innermost_first(sample.stack).count()).collect()
    };
    assert_eq!(depth(&data), depth(&text));
}

#[test]
fn other_formats_are_named() {
    let message = |bytes: &[u8]| reads(bytes).unwrap_err().to_string();
    let disk = file("disk.data");
    let mut odd = disk.clone();
    odd[8] = 17;
    let cases: &[(&[u8], &str)] = &[
        (b"", "it is empty"),
        (b"\x1f\x8b\x08", "it is compressed with gzip: decompress it first"),
        (b"\x7fELF\x02", "it is a program, not a recording"),
        (b"PERFFILE", "it was written by a perf from before 2014, whose format evenkeel does not read"),
        (b"\0\0\0", "it is neither a perf.data file nor the output of perf script"),
        (b"\n\nhello\n", "no line is a sample in the format of perf script, at line 3"),
        (b"2ELIFREP", "it was written on a machine of the other byte order, which is not read here, at byte 0"),
        (&disk[..50], "8 bytes are needed, and 2 are left, at byte 48"),
        (&odd, "a header of 17 bytes is invalid, at byte 8"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(message(bytes), *expected);
    }
}

/// For each prefix of a file, the reader returns a recording, or an error whose position is within or right after the prefix.
#[test]
fn a_cut_off_file_is_refused_with_the_place() {
    for name in ALL {
        let whole = file(name);
        for length in (0..whole.len()).step_by(1 + whole.len() / 3000) {
            let Err(error) = reads(&whole[..length]) else {
                assert!(matches!(*name, "pipe.data" | "killed.data"), "{name} without its end, at {length}");
                continue;
            };
            if let ReadError::Data(malformed) = error {
                assert!(malformed.offset <= whole.len() as u64, "{name} {length}: {malformed}");
            }
        }
    }
}

/// A mapping, a fork and another mapping, repeated. Each child has all mappings of its parent, but the reader must not copy them each time.
#[test]
fn many_children_with_many_mappings_cost_no_more_than_their_records() {
    let disk = file("disk.data");
    let word = |at: usize| u64::from_ne_bytes(disk[at..at + 8].try_into().unwrap());
    let data_at = word(40) as usize;
    let mut bytes = disk[..data_at].to_vec();
    let record = |bytes: &mut Vec<u8>, kind: u32, body: &[u8]| {
        let length = HEAD_BYTES + body.len() + 32;
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&2_u16.to_ne_bytes());
        bytes.extend_from_slice(&(length as u16).to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&[0; 32]);
    };
    let mapped = |pid: u32, start: u64| {
        let mut body = [pid.to_ne_bytes(), pid.to_ne_bytes()].concat();
        for word in [start, 4096, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body.extend_from_slice(b"/a/file\0");
        body
    };
    for at in 0..20_000 {
        record(&mut bytes, 1, &mapped(1, at * 8192));
    }
    for child in 2..20_000_u32 {
        let forked: Vec<u8> = [child, 1, child, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
        record(&mut bytes, 7, &[&forked[..], &0_u64.to_ne_bytes()].concat());
        record(&mut bytes, 1, &mapped(child, 4096));
    }
    let length = (bytes.len() - data_at) as u64;
    bytes[48..56].copy_from_slice(&length.to_ne_bytes());
    // Remove all features.
    bytes[72..104].fill(0);
    let recording = reads(&bytes).unwrap();
    assert_eq!(recording.mappings.len(), 39_998);
    assert!(recording.caveats.contains(&RecordingCaveat::TooManyProcesses), "{:?}", recording.caveats);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("EVENKEEL_CALIBRATE").is_some() { 20_000 } else { 300 }))]

    #[test]
    fn no_change_of_bytes_takes_the_reader_down(
        which in 0..ALL.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        words in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![0, 1, u64::MAX, 1 << 63, 0xffff_ffff])), 0..3),
    ) {
        let mut bytes = file(ALL[which]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (at, word) in words {
            let at = at.index(bytes.len() - 8) / 8 * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        drop(reads(&bytes));
    }

    #[test]
    fn no_text_takes_the_reader_down(text in "[ -~\n\t]{0,400}") {
        drop(reads(text.as_bytes()));
    }

    #[test]
    fn no_change_of_lines_takes_the_reader_down(
        swaps in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\t]{0,12}"), 1..8),
    ) {
        let mut bytes = file("switches.txt");
        for (at, text) in swaps {
            let at = at.index(bytes.len());
            let end = (at + text.len()).min(bytes.len());
            bytes.splice(at..end, text.bytes());
        }
        if let Err(error) = reads(&bytes) {
            panic!("one line of many takes all down: {error}");
        }
    }
}

/// In Linux before 5.12, records of mappings have no build ID. The build ID then comes from the file's table.
#[test]
fn builds_of_a_table_that_was_written_are_read_again() {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    // The first word has the kind and the length.
    // Then come the event, the period, and the fields of a sample (thread and time).
    // Last comes the flag that all records end with these fields.
    let mut attributes = words(&[1 | (136 << 32), 0, 1_000_000, 6, 0, 1 << 18]);
    attributes.resize(136, 0);
    let layout = Layout::parse(&attributes, 0).unwrap();
    let mapped = |path: &str, start: u64| {
        let mut body = words(&[7 | (7 << 32), start, 0x1000, 0, 0, 0, 0, 5]);
        body.extend(path.bytes());
        body.push(0);
        record(kind::MMAP2, MISC_USER, &body, &layout).unwrap()
    };
    let build = |path: &str, id: &[u8]| BuildId { path: path.into(), id: id.into(), is_kernel: path.starts_with('[') };
    let long = format!("/{}", "x".repeat(70_000));
    let described = Described {
        events: vec![WrittenEvent { name: "cpu-clock".into(), attributes: attributes.clone(), ids: vec![1] }],
        build_ids: vec![
            build("/usr/bin/a b", &[1; 20]),
            build(&"y/".repeat(60), &[2; 8]),
            build(&long, &[3; 20]),
            build("[kernel.kallsyms]", &[4; 20]),
        ],
        ..Described::default()
    };
    let mut writer = PerfWriter::begin(Cursor::new(Vec::new())).unwrap();
    let paths = ["/usr/bin/a b", &"y/".repeat(60), "/usr/bin/other"];
    for (at, path) in paths.iter().enumerate() {
        writer.records(&mapped(path, 0x10_0000 * (at as u64 + 1))).unwrap();
    }
    let bytes = writer.finish(&described).unwrap().into_inner();
    let recording = reads(&bytes).unwrap();
    let found: Vec<_> =
        recording.modules.iter().map(|(_, module)| (module.path.as_str(), module.build_id.clone())).collect();
    assert_eq!(found, [(paths[0], Some(vec![1; 20])), (paths[1], Some(vec![2; 8])), (paths[2], None)]);
}
