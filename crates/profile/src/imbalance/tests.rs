//! Tests of the summary of busy CPUs, with handmade recordings.

use super::*;
use crate::recording::{Event, Machine, Sample, Span, Switch, Turn};
use crate::stack::Frame;

const MS: u64 = 1_000_000;
/// Recordings begin at an arbitrary time of the clock, not at 0.
const BEGIN_NS: u64 = 5_000 * MS;

/// A recording in which each CPU runs the given threads from the given times on, in milliseconds, until `end_ms`.
/// Switch records come in pairs, as the kernel writes them.
fn switched(end_ms: u64, turns: &[(u32, Turns<'_>)]) -> Recording {
    let mut recording = Recording {
        span: Span { start_ns: BEGIN_NS, end_ns: BEGIN_NS + end_ms * MS },
        machine: Machine { cpus: Some(2), ..Machine::default() },
        ..Recording::default()
    };
    for (cpu, turns) in turns {
        for pair in turns.windows(2) {
            let [(_, before), (at_ms, next)] = pair else { continue };
            let at_ns = BEGIN_NS + at_ms * MS;
            let (out, into) = (Some((*next, *next)), Some((*before, *before)));
            // Threads from number 50 on are preempted, and the others sleep.
            let turn = if *before >= 50 { Turn::Preempted } else { Turn::Slept };
            recording.switches.push(Switch { at_ns, cpu: *cpu, pid: *before, tid: *before, turn, other: out });
            recording.switches.push(Switch { at_ns, cpu: *cpu, pid: *next, tid: *next, turn: Turn::In, other: into });
        }
    }
    recording.switches.sort_by_key(|switch| switch.at_ns);
    recording
}

fn find_imbalance(recording: &Recording) -> Imbalance {
    imbalance(recording, &Names::resolve(recording, |_| Vec::new()), &|_| None)
}

/// The times at which a CPU got a thread, in milliseconds.
type Turns<'a> = &'a [(u64, u32)];

/// The given number of samples of each thread on a CPU, `period_ns` apart.
fn sampled(period_ns: u64, cpus: &[(u32, &[(u32, u64)])]) -> Recording {
    let event = Event { name: "cpu-clock".to_owned(), unit: Unit::Nanoseconds };
    let mut recording = Recording { events: vec![event], ..Recording::default() };
    let stack = recording.stacks.intern([Frame::Kernel { address: 4, module: None }]);
    let mut end_ns = BEGIN_NS;
    for (cpu, threads) in cpus {
        let mut at_ns = BEGIN_NS;
        for (tid, count) in *threads {
            for _ in 0..*count {
                at_ns += period_ns;
                let (pid, tid, cpu) = (*tid, *tid, *cpu);
                let sample =
                    Sample { event: 0, at_ns, cpu, pid, tid, stack, weight: period_ns, address: 0, raw: (0, 0) };
                recording.samples.push(sample);
            }
        }
        end_ns = end_ns.max(at_ns);
    }
    recording.span = Span { start_ns: BEGIN_NS, end_ns };
    recording
}

#[test]
fn switches_tell_busy_shares_to_the_nanosecond() {
    // The first time slice of each CPU began before the recording, and the last one continues after the recording.
    let recording = switched(1000, &[(0, &[(0, 7), (100, 0), (600, 7), (700, 0)]), (1, &[(0, 0), (250, 9)])]);
    let seen = find_imbalance(&recording);
    let shares: Vec<f64> = seen.cpus.iter().map(|cpu| cpu.busy_share).collect();
    assert_eq!((shares, seen.source), (vec![0.2, 0.75], Source::Switches));
    assert_eq!((seen.busiest, seen.idlest, seen.shape), (Some(1), Some(0), Shape::Even));
    let cpu = &seen.cpus[1];
    assert_eq!((cpu.error_share, cpu.unknown_share, cpu.waiting), (None, 0.0, Some(0.0)));
    assert_eq!((cpu.parts.len(), cpu.parts[4], cpu.parts[5]), (20, 0.0, 1.0));
    assert_eq!((cpu.threads[0].tid, cpu.threads[0].share), (9, Some(0.75)));
}

#[test]
fn one_thread_and_many_have_different_shapes() {
    let alone: Turns<'_> = &[(0, 50), (900, 3), (910, 50)];
    let many: Vec<(u64, u32)> = (0..100).map(|turn| (turn * 10, 50 + (turn % 3) as u32)).collect();
    let idle: Turns<'_> = &[(0, 0), (500, 4), (510, 0)];
    let table: [(Turns<'_>, &[u32], Cause); 4] = [
        (alone, &[], Cause::OneThread),
        (&many, &[], Cause::Several),
        (&many, &[1], Cause::Pinned),
        (&many, &[0, 1], Cause::Together),
    ];
    for (turns, may, cause) in table {
        let recording = switched(1000, &[(0, idle), (1, turns)]);
        let names = Names::resolve(&recording, |_| Vec::new());
        let seen = imbalance(&recording, &names, &|_| (!may.is_empty()).then(|| may.to_vec()));
        assert_eq!((seen.shape, seen.cause, seen.uneven_parts), (Shape::Uneven, Some(cause), 20), "{may:?}");
        assert_eq!(seen.thread.is_some(), cause == Cause::OneThread);
    }
    // Three threads share the CPU in time slices, so two threads wait at any moment, except at the ends.
    let waiting = find_imbalance(&switched(1000, &[(0, idle), (1, &many)])).cpus[1].waiting.unwrap();
    assert!((1.9..=2.0).contains(&waiting), "{waiting}");
}

#[test]
fn a_thread_that_wanders_fills_no_cpu_and_is_found() {
    let first: Vec<(u64, u32)> = (0..20).map(|turn| (turn * 50, if turn % 2 == 0 { 8 } else { 0 })).collect();
    let second: Vec<(u64, u32)> = (0..20).map(|turn| (turn * 50, if turn % 2 == 1 { 8 } else { 0 })).collect();
    let seen = find_imbalance(&switched(1000, &[(0, &first), (1, &second)]));
    assert_eq!((seen.shape, seen.cause, seen.uneven_parts), (Shape::OneThread, Some(Cause::OneThread), 20));
    assert_eq!(seen.thread.unwrap().seen_on_cpus, [0, 1]);
}

#[test]
fn a_missing_part_is_unknown_and_reported() {
    let mut recording = switched(4000, &[(0, &[(0, 0), (1000, 7), (2000, 0)])]);
    // CPU 1 has no records. From 2 s to 3 s, it is unknown which thread had CPU 0.
    let lost = Switch { at_ns: BEGIN_NS + 3000 * MS, cpu: 0, pid: 9, tid: 9, turn: Turn::Slept, other: Some((0, 0)) };
    recording.switches.push(lost);
    let seen = find_imbalance(&recording);
    assert_eq!((seen.cpus[0].busy_share, seen.cpus[0].unknown_share), (0.25, 0.25));
    assert_eq!((seen.cpus[1].busy_share, seen.cpus[1].unknown_share), (0.0, 1.0));
    assert_eq!(
        seen.caveats,
        [ImbalanceCaveat::Lost, ImbalanceCaveat::Close, ImbalanceCaveat::NoStacks, ImbalanceCaveat::SilentCpus]
    );
    // The switch-out of a thread that has ended has no thread number.
    let mut recording = switched(1000, &[(0, &[(0, 0), (100, 7), (200, 0)])]);
    recording.switches[2].tid = u32::MAX;
    assert_eq!(
        (find_imbalance(&recording).cpus[0].busy_share, find_imbalance(&recording).cpus[0].unknown_share),
        (0.1, 0.0)
    );
}

#[test]
fn samples_have_an_error() {
    let seen = find_imbalance(&sampled(10 * MS, &[(0, &[(7, 200), (0, 200)]), (1, &[(9, 396), (0, 4)])]));
    let shares: Vec<f64> = seen.cpus.iter().map(|cpu| cpu.busy_share).collect();
    assert_eq!((shares, seen.source, seen.shape), (vec![0.5, 0.99], Source::Samples, Shape::Uneven));
    // With 400 samples, two standard errors are a twentieth.
    assert!((seen.cpus[0].error_share.unwrap() - 0.05).abs() < 1e-9);
    assert_eq!(
        seen.caveats,
        [ImbalanceCaveat::Close, ImbalanceCaveat::InterruptsUnseen, ImbalanceCaveat::KernelUnnamed]
    );
    assert_eq!(
        find_imbalance(&sampled(10 * MS, &[(0, &[(0, 400)]), (1, &[(9, 1)])])).cpus[0].error_share,
        Some(3.0 / 400.0)
    );
}

#[test]
fn a_cpu_that_one_thread_never_leaves_has_no_switch_but_samples() {
    let mut recording = sampled(10 * MS, &[(1, &[(9, 100)])]);
    recording.switches = switched(1000, &[(0, &[(0, 0), (100, 7), (200, 0)])]).switches;
    let seen = find_imbalance(&recording);
    assert_eq!((seen.busiest, seen.shape, seen.cause), (Some(1), Shape::Uneven, Some(Cause::OneThread)));
    assert_eq!(seen.cpus[1].error_share, Some(0.0));
}

#[test]
fn interrupts_are_known_by_the_kernels_names() {
    let mut recording = sampled(10 * MS, &[(0, &[(0, 100)]), (1, &[(9, 1)])]);
    let names = ["ret_from_intr", "asm_common_interrupt", "__do_softirq", "net_rx_action", "tcp_v4_rcv"];
    let mut stack = |names: &[&str]| {
        let frames: Vec<Frame> = names
            .iter()
            .map(|name| Frame::Named {
                name: recording.stacks.text(name),
                module: None,
                is_kernel: true,
                is_inlined: false,
            })
            .collect();
        recording.stacks.intern(frames)
    };
    let (softirq, irq, plain) = (stack(&names), stack(&names[..2]), stack(&["do_syscall_64"]));
    let first = recording.samples[100];
    recording.samples.truncate(100);
    let at = |number: u64| first.at_ns + number * 10 * MS;
    for (count, stack) in [(70, softirq), (20, irq), (10, plain)] {
        recording.samples.extend((0..count).map(|number| Sample { stack, at_ns: at(number), ..first }));
    }
    let seen = find_imbalance(&recording);
    let filled = seen.filled.unwrap();
    assert_eq!((filled.softirq_share, filled.irq_share, filled.kernel_share), (Some(0.7), Some(0.2), 1.0));
    assert_eq!((seen.shape, seen.cause), (Shape::Uneven, Some(Cause::Interrupts)));
    let places: Vec<_> = filled.functions.iter().map(|place| (place.name.as_str(), place.self_share)).collect();
    assert_eq!(places, [("tcp_v4_rcv", 0.7), ("asm_common_interrupt", 0.2), ("do_syscall_64", 0.1)]);
}

#[test]
fn an_empty_recording_has_no_verdict() {
    let seen = find_imbalance(&Recording::default());
    assert_eq!((seen.shape, seen.busiest, seen.cpus.len()), (Shape::Unknown, None, 0));
}

proptest::proptest! {
    /// Even the switches of an invalid file give shares from 0 to 1.
    #[test]
    fn any_switches_come_to_shares(
        records in proptest::collection::vec((0..4_u32, proptest::num::u64::ANY, 0..3_u32, 0..3_u32, 0..3_u8), 0..60),
        span in (proptest::num::u64::ANY, proptest::num::u64::ANY),
    ) {
        let mut recording = Recording { span: Span { start_ns: span.0, end_ns: span.1 }, ..Recording::default() };
        for (cpu, at_ns, tid, other, turn) in records {
            let turn = [Turn::In, Turn::Slept, Turn::Preempted][usize::from(turn)];
            let tid = if tid == 2 { u32::MAX } else { tid };
            recording.switches.push(Switch { at_ns, cpu, pid: tid, tid, turn, other: (other > 0).then_some((other, other)) });
        }
        recording.switches.sort_by_key(|switch| switch.at_ns);
        for cpu in find_imbalance(&recording).cpus {
            proptest::prop_assert!((0.0..=1.0).contains(&cpu.busy_share) && (0.0..=1.0).contains(&cpu.unknown_share));
            proptest::prop_assert!(cpu.parts.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
