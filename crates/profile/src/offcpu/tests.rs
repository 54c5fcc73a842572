//! Off-CPU intervals of recordings that are written as text, with one line per switch.

use super::*;
use crate::names::Function;
use crate::recording::{Event, Life, Sample, Span, Switch, Unit};
use crate::stack::Frame;

/// The functions of the kernel. The address of each function is its index.
const FUNCTIONS: &[&str] = &[
    "schedule",
    "futex_wait",
    "do_epoll_wait",
    "do_task_dead",
    "do_exit",
    "__cond_resched",
    "task_work_run",
    "irqentry_exit_to_user_mode",
];

fn names_of(recording: &Recording) -> Names {
    let resolve = |frame: &Frame| match frame {
        Frame::Kernel { address, .. } => vec![Function::named(FUNCTIONS[*address as usize])],
        _ => Vec::new(),
    };
    Names::resolve(recording, resolve)
}

/// Parses `AT CPU TID in|slept|taken [OTHER]`, one switch per line.
fn recording(text: &str) -> Recording {
    let mut recording = Recording::default();
    recording.events.push(Event { name: "context-switches:u".to_owned(), unit: Unit::Events });
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let (at_ns, cpu, tid) = (number(0), number(1) as u32, number(2) as u32);
        let turn = match words[3] {
            "in" => Turn::In,
            "slept" => Turn::Slept,
            "taken" => Turn::Preempted,
            "ends" => {
                recording.lives.push(Life { at_ns, pid: tid, tid, made_by: None });
                continue;
            }
            "begins" => {
                recording.lives.push(Life { at_ns, pid: tid, tid, made_by: Some(1) });
                continue;
            }
            functions => {
                let frames: Vec<Frame> = functions
                    .rsplit(';')
                    .map(|name| {
                        let address = FUNCTIONS.iter().position(|function| *function == name).unwrap() as u64;
                        Frame::Kernel { address, module: None }
                    })
                    .collect();
                let stack = recording.stacks.intern(frames);
                let (pid, raw) = (tid, (0, 0));
                recording.samples.push(Sample { event: 0, at_ns, cpu, pid, tid, stack, weight: 1, address: 0, raw });
                continue;
            }
        };
        let other = words.get(4).map(|other| (1, other.parse().unwrap()));
        recording.switches.push(Switch { at_ns, cpu, pid: tid, tid, turn, other });
    }
    recording.span = Span { start_ns: 100, end_ns: 100_000_000 };
    recording
}

/// `TID FROM..TO reason [edges] [by TID]`, one interval per line.
fn shown(recording: &Recording) -> Vec<String> {
    let names = names_of(recording);
    let one = |interval: &OffCpuInterval| {
        let mut line = format!(
            "{} {}..{} {}",
            interval.tid,
            interval.span.start_ns,
            interval.span.end_ns,
            interval.reason.words()
        );
        if interval.edges != Edges::Seen {
            line.push_str(&format!(" {:?}", interval.edges));
        }
        if let Some((_, by)) = interval.taken_by {
            line.push_str(&format!(" by {by}"));
        }
        line
    };
    intervals(recording, &names).iter().map(one).collect()
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(shown(&recording(text)), expected, "{text}");
}

#[test]
fn a_switch_out_is_paired_with_the_next_switch_in() {
    check(
        "1000 0 7 schedule;futex_wait
         1001 0 7 slept 0
         1002 0 0 in 7
         2000 0 0 taken 7
         2001 0 7 in 0
         3000 0 7 taken 8
         3001 0 8 in 7
         4000 0 8 slept 7
         4001 0 7 in 8",
        &[
            "8 100..3001 unknown FromBefore",
            "7 1001..2001 futex by 0",
            "7 3000..4001 preempted by 8",
            "8 4000..100000000 unknown ToAfter by 7",
        ],
    );
}

#[test]
fn a_thread_that_changes_its_cpu_is_followed() {
    // The records come from the rings of two CPUs. On the second CPU, switches of other threads come in between and do not matter.
    check(
        "1000 0 7 in 0
         1500 1 9 in 0
         2000 0 7 slept 0
         2001 0 0 in 7
         2500 1 9 slept 7
         2501 1 7 in 9",
        &[
            "7 100..1000 unknown FromBefore",
            "9 100..1500 unknown FromBefore",
            "7 2000..2501 unknown by 0",
            "9 2500..100000000 unknown ToAfter by 7",
        ],
    );
}

#[test]
fn lost_records_are_not_invented() {
    // First the two switches of thread 7 itself are missing, then two switches of another thread.
    // Nothing shows which of two neighbouring gaps was longer.
    check(
        "1000 0 7 in 0
         2000 0 7 slept
         5000 0 7 slept
         6000 0 7 in",
        &["7 100..1000 unknown FromBefore", "7 2000..5000 unknown Torn", "7 5000..6000 unknown"],
    );
    check(
        "1000 0 7 in 0
         2000 0 7 slept 8
         2001 0 8 in 7
         5000 0 9 in 6
         5500 0 9 slept 7
         5501 0 7 in 9",
        &[
            "7 100..1000 unknown FromBefore",
            "8 100..2001 unknown FromBefore",
            "9 100..5000 unknown FromBefore",
            "7 2000..5501 unknown Torn by 8",
            "9 5500..100000000 unknown ToAfter by 7",
        ],
    );
}

#[test]
fn a_recording_of_some_threads_is_whole_for_them() {
    // Whole CPUs are recorded, but only the records of threads 7 and 9 are kept.
    check(
        "1000 0 7 in 30
         2000 0 7 slept 31
         2500 1 9 in 33
         2600 1 9 taken 34
         5000 0 7 in 32
         6000 1 9 in 35
         7000 0 7 slept 0
         8000 0 7 in 36",
        &[
            "7 100..1000 unknown FromBefore",
            "9 100..2500 unknown FromBefore",
            "7 2000..5000 unknown by 31",
            "9 2600..6000 preempted by 34",
            "7 7000..8000 unknown by 0",
        ],
    );
    // Thread 9 was kept and has no records at that time, so the records were lost.
    check(
        "500 1 9 in 33
         600 1 9 slept 34
         1000 0 7 in 30
         2000 0 7 slept 9
         5000 0 7 in 32
         6000 1 9 in 35",
        &[
            "7 100..1000 unknown FromBefore",
            "9 100..500 unknown FromBefore",
            "9 600..6000 unknown Torn by 34",
            "7 2000..5000 unknown Torn by 9",
        ],
    );
    // The last record of thread 9 has no thread number, so the record was not kept.
    check(
        "1000 0 7 in 30
         1400 1 9 in 33
         2000 0 7 slept 31
         2500 1 9 ends
         4000 1 7 in 34
         5000 1 7 slept 0",
        &[
            "7 100..1000 unknown FromBefore",
            "9 100..1400 unknown FromBefore",
            "7 2000..4000 unknown by 31",
            "7 5000..100000000 unknown ToAfter by 0",
        ],
    );
}

#[test]
fn a_cpu_that_others_used_was_not_idle() {
    // Threads without records had CPU 0 most of the time after thread 8 had left it to the idle thread.
    check(
        "1000000 0 7 in 0
         2000000 0 7 taken 8
         2000001 0 8 in 7
         2100000 0 8 slept 0
         9000000 0 7 in 31",
        &[
            "7 100..1000000 unknown FromBefore",
            "8 100..2000001 unknown FromBefore",
            "7 2000000..9000000 preempted by 8",
            "8 2100000..100000000 unknown ToAfter by 0",
        ],
    );
}

#[test]
fn kernel_threads_without_records_are_no_loss() {
    // Each CPU has its own idle thread. Only the idle thread of CPU 1 has records, and kernel thread 70 has none.
    check(
        "1000 1 0 in 9
         2000 0 7 slept 70
         3000 0 8 in 0
         3500 0 8 slept 7
         3501 0 7 in 8
         9000 1 0 taken 9",
        &["8 100..3000 unknown FromBefore", "7 2000..3501 unknown by 70", "8 3500..100000000 unknown ToAfter by 7"],
    );
}

#[test]
fn lengths_of_few_whole_intervals_do_not_stand_for_the_others() {
    let text = |torn: u64| -> String {
        let lost = (0..torn).map(|at| format!("{} 0 7 slept\n", 3000 + at));
        format!("1000 0 7 in\n1100 0 7 slept\n1200 0 7 in\n{}", lost.collect::<String>())
    };
    let report_of = |torn: u64| {
        let recording = recording(&text(torn));
        let names = names_of(&recording);
        table::report(&recording, &names, &intervals(&recording, &names), |_| true)
    };
    let is_torn = |caveat: &table::SwitchesCaveat| matches!(caveat, table::SwitchesCaveat::Torn { .. });
    // The last of the switch-outs stays open at the end, but no interval counts as torn because of it.
    for (outs, p50_ns, count) in [(1, Some(100), 3), (2, Some(100), 4), (20, None, 22)] {
        let report = report_of(outs);
        let row = &report.threads[0].reasons[0];
        assert_eq!((row.p50_ns, row.max_ns, row.count, row.open), (p50_ns, p50_ns, count, count - 1), "{outs}");
        assert_eq!(report.caveats.iter().any(is_torn), outs > 1, "{outs}");
    }
    let said: Vec<String> = report_of(20).caveats.iter().map(ToString::to_string).collect();
    let expected = "19 of 22 intervals lack records of their start or end, so their lengths are unknown. Where this is true of most, no \
                    length is shown";
    assert!(said.iter().any(|said| said == expected), "{said:?}");
}

#[test]
fn threads_begin_and_end() {
    check(
        "1000 0 7 begins
         1500 0 7 in 0
         2000 0 7 ends
         2100 0 7 slept 0",
        &["7 2100..2100 ended by 0"],
    );
    check(
        "1500 0 7 in 0
         2100 0 7 do_task_dead;do_exit
         2101 0 7 slept 0",
        &["7 100..1500 unknown FromBefore", "7 2101..100000000 ended ToAfter by 0"],
    );
}

#[test]
fn one_whose_number_is_gone_is_no_loss() {
    check(
        "1000 0 7 in 0
         1500 0 7 slept 8
         1501 0 8 in 7
         2000 0 4294967295 slept 7
         2001 0 7 in 8",
        &["7 100..1000 unknown FromBefore", "8 100..1501 unknown FromBefore", "7 1500..2001 unknown by 8"],
    );
}

#[test]
fn an_idle_cpu_may_have_no_records_of_its_own() {
    check(
        "1000 0 7 in 0
         1500 0 7 slept 0
         2001 0 7 in 0",
        &["7 100..1000 unknown FromBefore", "7 1500..2001 unknown by 0"],
    );
    check(
        "1000000 0 7 in 0
         2000000 0 7 taken 0
         9000000 0 7 in 0",
        &["7 100..1000000 unknown FromBefore", "7 2000000..9000000 throttled by 0"],
    );
}

#[test]
fn a_stack_of_another_moment_is_not_taken() {
    check(
        "1000 0 7 in
         1100 0 7 schedule;do_epoll_wait
         1101 0 7 slept
         1200 0 7 in
         1300 0 7 slept
         1400 0 7 in",
        &["7 100..1000 unknown FromBefore", "7 1101..1200 poll", "7 1300..1400 unknown"],
    );
}

#[test]
fn a_limit_is_not_taken_for_a_neighbour() {
    let begin = "1000000 0 7 in 0";
    // The stack shows the kernel's own throttling work, and the CPU was idle.
    check(
        &format!(
            "{begin}
             2000000 0 7 __cond_resched;task_work_run;irqentry_exit_to_user_mode
             2000001 0 7 taken 0
             2000002 0 0 in 7
             9000000 0 0 taken 7
             9000001 0 7 in 0"
        ),
        &["7 100..1000000 unknown FromBefore", "7 2000001..9000001 throttled by 0"],
    );
    // An older kernel's stack shows no reason. The thread was ready, and its CPU was idle for a long time.
    check(
        &format!(
            "{begin}
             2000001 0 7 taken 8
             2000002 0 8 in 7
             3000000 0 8 slept 0
             3000001 0 0 in 8
             9000000 0 0 taken 7
             9000001 0 7 in 0"
        ),
        &[
            "7 100..1000000 unknown FromBefore",
            "8 100..2000002 unknown FromBefore",
            "7 2000001..9000001 throttled by 8",
            "8 3000000..100000000 unknown ToAfter by 0",
        ],
    );
    // Another thread had the CPU for most of the time, after a thread that had it for a moment.
    check(
        &format!(
            "{begin}
             2000001 0 7 taken 14
             2000002 0 14 in 7
             2000009 0 14 slept 8
             2000010 0 8 in 14
             9000000 0 8 taken 7
             9000001 0 7 in 8"
        ),
        &[
            "7 100..1000000 unknown FromBefore",
            "8 100..2000010 unknown FromBefore",
            "14 100..2000002 unknown FromBefore",
            "7 2000001..9000001 preempted by 8",
            "14 2000009..100000000 unknown ToAfter by 8",
            "8 9000000..100000000 preempted ToAfter by 7",
        ],
    );
}

#[test]
fn stacks_are_weighted_by_time_and_end_with_the_reason() {
    let recording = recording(
        "1000 0 7 schedule;futex_wait
         1001 0 7 slept
         2001 0 7 in
         2100 0 7 slept
         2200 0 7 in",
    );
    let names = names_of(&recording);
    let folded = folded(&recording, &names, &intervals(&recording, &names), crate::fold::Base::Thread);
    let lines: Vec<(&str, u64)> = folded.lines.iter().map(|(line, weight)| (line.as_str(), *weight)).collect();
    assert_eq!(lines, [("thread 7;[unknown]", 100), ("thread 7;futex_wait_[k];schedule_[k];[futex]", 1000)]);
}
