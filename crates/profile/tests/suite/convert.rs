//! Processes that map files, execute programs, have children, and whose numbers are reused.
//! The mappings at the time of a sample must decide the place of the sample's code.

use std::collections::HashMap;

use evenkeel_profile::convert::Converter;
use evenkeel_profile::perf::layout::{Layout, sample};
use evenkeel_profile::perf::record::{self, Id, Mapped, Record, Sample, What, kind};
use evenkeel_profile::recording::{Event, Machine, Recording, Unit};
use evenkeel_profile::stack::Frame;
use evenkeel_profile::unwind::NoUnwind;

const LAYOUT: Layout = Layout {
    kind: 1,
    config: 0,
    period: 99,
    sample_type: sample::IP | sample::TID | sample::TIME,
    read_format: 0,
    flags: 1 << 10,
    branch_type: 0,
    user_registers: 0,
    user_stack_bytes: 0,
    clock: 1,
};

fn map(pid: u32, start: u64, path: &'static str) -> What<'static> {
    let is_kernel = pid == u32::MAX;
    let mapped = Mapped {
        pid,
        tid: pid,
        start,
        length: 0x1000,
        file_offset: 0x10,
        build_id: None,
        path: path.as_bytes(),
        is_kernel,
    };
    What::Mapped(mapped)
}

fn at(pid: u32, ip: u64) -> What<'static> {
    let id = Id { pid, tid: pid, at_ns: 1, cpu: 0, id: 0 };
    What::Sample(Sample { id, is_user: ip >> 63 == 0, ip, ..Sample::default() })
}

fn fork(parent_pid: u32, pid: u32) -> What<'static> {
    What::Forked { pid, parent_pid, tid: pid, parent_tid: parent_pid }
}

fn exec(pid: u32, name: &'static str) -> What<'static> {
    What::Named { pid, tid: pid, name: name.as_bytes(), is_exec: true }
}

fn converted(records: Vec<What<'_>>) -> Recording {
    let events = vec![Event { name: "cpu-clock".to_owned(), unit: Unit::Nanoseconds }];
    let mut unwind = NoUnwind;
    let mut converter = Converter::new(Machine::default(), events, &mut unwind);
    converter.build_ids(HashMap::from([("/b".to_owned(), vec![7]), ("[kernel.kallsyms]".to_owned(), vec![8])]));
    for what in records {
        let id = if let What::Sample(sample) = what { sample.id } else { Id::default() };
        converter.take(&Record { id, what }, 0, &LAYOUT);
    }
    converter.finish()
}

/// The place of each sample, as text.
fn places(recording: &Recording) -> Vec<String> {
    let module = |id| recording.modules.get(id).unwrap().path.as_str();
    let described = |frame: Frame| match frame {
        Frame::InFile { module: id, offset } => format!("{}+{offset:x}", module(id)),
        Frame::Kernel { address, module: Some(id) } => format!("kernel {address:x} in {}", module(id)),
        Frame::Kernel { address, module: None } => format!("kernel {address:x}"),
        Frame::Anonymous { pid, address } => format!("{pid} at {address:x}"),
        Frame::Named { name, .. } => recording.stacks.text_of(name).to_owned(),
        Frame::Hint(hint) => format!("{hint:?}"),
    };
    let frame = |sample: &evenkeel_profile::recording::Sample| {
        recording.stacks.frames()[recording.stacks.top(sample.stack).0.place()]
    };
    recording.samples.iter().map(|sample| described(frame(sample))).collect()
}

#[test]
fn code_is_where_its_process_had_it_mapped() {
    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    let none = u32::MAX;
    let cases = [
        ("no map", vec![at(1, 0x5100)], "1 at 5100"),
        ("a map", vec![map(1, 0x5000, "/a"), at(1, 0x5100)], "/a+110"),
        ("another's map", vec![map(2, 0x5000, "/a"), at(1, 0x5100)], "1 at 5100"),
        ("a newer map", vec![map(1, 0x5000, "/a"), map(1, 0x5000, "/b"), at(1, 0x5100)], "/b+110"),
        ("a child", vec![map(1, 0x5000, "/a"), fork(1, 2), at(2, 0x5100)], "/a+110"),
        (
            "a child has what was there, not what comes",
            vec![map(1, 0x5000, "/a"), fork(1, 2), map(1, 0x5000, "/b"), at(2, 0x5100)],
            "/a+110",
        ),
        (
            "what a child maps is not its parent's",
            vec![map(1, 0x5000, "/a"), fork(1, 2), map(2, 0x5000, "/b"), at(1, 0x5100)],
            "/a+110",
        ),
        ("a new program", vec![map(1, 0x5000, "/a"), exec(1, "x"), at(1, 0x5100)], "1 at 5100"),
        (
            "a child's new program",
            vec![map(1, 0x5000, "/a"), fork(1, 2), exec(2, "x"), map(2, 0x5000, "/b"), at(2, 0x5100)],
            "/b+110",
        ),
        ("a number that came again", vec![map(2, 0x5000, "/a"), fork(1, 2), at(2, 0x5100)], "2 at 5100"),
        ("a thread", vec![map(1, 0x5000, "/a"), fork(1, 1), at(1, 0x5100)], "/a+110"),
        ("compiled at run time", vec![map(1, 0x5000, "//anon"), at(1, 0x5100)], "1 at 5100"),
        ("the same in a file of memory", vec![map(1, 0x5000, "/memfd:jit (deleted)"), at(1, 0x5100)], "1 at 5100"),
        ("the kernel's own for users", vec![map(1, 0x5000, "[vdso]"), at(1, 0x5100)], "1 at 5100"),
        ("the kernel", vec![map(none, KERNEL, "[kernel.kallsyms]_text"), at(1, KERNEL + 5)], "kernel ffffffff81000005"),
        (
            "a module of the kernel",
            vec![map(none, KERNEL, "[nf_tables]"), at(1, KERNEL + 5)],
            "kernel ffffffff81000005 in [nf_tables]",
        ),
        ("the kernel's are nobody's else", vec![map(none, 0x5000, "/a.ko"), at(1, 0x5100)], "1 at 5100"),
    ];
    for (what, records, expected) in cases {
        assert_eq!(places(&converted(records)), [expected], "{what}");
    }
}

#[test]
fn a_guest_is_marked_as_a_guest() {
    let What::Sample(inside) = at(1, 0x5100) else { panic!("a sample is made there") };
    let inside = What::Sample(Sample { is_guest: true, ..inside });
    assert_eq!(places(&converted(vec![map(1, 0x5000, "/a"), inside])), ["[guest]"]);
}

#[test]
fn threads_have_their_last_name_and_files_their_build_id() {
    let recording = converted(vec![
        map(1, 0x5000, "/b"),
        map(u32::MAX, 1 << 63, "[kernel.kallsyms]_stext"),
        exec(1, "parent"),
        fork(1, 2),
        fork(7, 3),
        at(0, 1 << 63),
    ]);
    let name = |tid: u32| recording.threads.get(&tid).and_then(|thread| thread.name.clone());
    assert_eq!([0, 1, 2, 3].map(name), [Some("swapper".into()), Some("parent".into()), Some("parent".into()), None]);
    let ids: Vec<_> = recording.modules.iter().map(|(_, module)| module.build_id.clone()).collect();
    assert_eq!(ids, [Some(vec![7]), Some(vec![8])]);
    assert_eq!(recording.machine.kernel_text, Some(0x10));
    // The rate of a clock determines the weight of each sample.
    assert_eq!(recording.samples[0].weight, 10_101_010);
}

/// A sample with every field that the reader uses, and with the fields that follow.
#[test]
fn a_sample_of_all_fields_is_read() {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let all = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::ID
        | sample::STREAM_ID
        | sample::CPU
        | sample::PERIOD
        | sample::READ
        | sample::CALLCHAIN
        | sample::RAW
        | sample::BRANCH_STACK
        | sample::REGS_USER
        | sample::STACK_USER;
    // A group of two counters with times, numbers and losses. The branches have an index and counters.
    let layout = Layout {
        sample_type: all,
        read_format: 0b11111,
        branch_type: 1 << 17 | 1 << 19,
        user_registers: 0b101,
        ..LAYOUT
    };
    let mut body = words(&[77, 0x5100, pair(1, 2), 123, 0xadd, 77, 3, pair(4, 0), 55]);
    body.extend(words(&[2, 10, 11, 1, 2, 3, 4, 5, 6]));
    body.extend(words(&[2, 0xa, 0xb]));
    body.extend([12_u32.to_ne_bytes(), *b"raw ", *b"word", *b"tail"].concat());
    body.extend(words(&[1, 9, 1, 2, 3, 4]));
    body.extend(words(&[2, 0x11, 0x22]));
    body.extend(words(&[16, 0xdead, 0xbeef, 8]));
    body.extend(words(&[99]));
    let mut bytes = kind::SAMPLE.to_ne_bytes().to_vec();
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend((8 + body.len() as u16).to_ne_bytes());
    bytes.extend(&body);
    let Record { what: What::Sample(seen), .. } = record::parse(&bytes, &layout, 0).unwrap() else {
        panic!("a sample is read")
    };
    assert_eq!(seen.id, Id { pid: 1, tid: 2, at_ns: 123, cpu: 4, id: 77 });
    assert_eq!((seen.ip, seen.address, seen.period, seen.is_user, seen.is_guest), (0x5100, 0xadd, 55, true, false));
    assert_eq!((seen.chain, seen.raw), (&words(&[0xa, 0xb])[..], &b"raw wordtail"[..]));
    assert_eq!((seen.registers, seen.stack), (&words(&[0x11, 0x22])[..], &words(&[0xdead])[..]));
    // If the sample ends within a field, the error has the position.
    for length in 8..bytes.len() - 8 {
        let mut cut = bytes[..length].to_vec();
        cut[6..8].copy_from_slice(&(length as u16).to_ne_bytes());
        let refused = record::parse(&cut, &layout, 1000).unwrap_err();
        assert!((1008..=1000 + length as u64).contains(&refused.offset), "{length}: {refused}");
    }
}
