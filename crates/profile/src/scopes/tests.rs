//! Tests the report on hand-made scopes and recordings.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::recording::{Switch, Turn};

const MS: u64 = 1_000_000;

fn check_error(text: &str, expected: Expect) {
    expected.assert_eq(&parse(text.as_bytes()).unwrap_err().to_string());
}

/// A file as `evenkeel-rt` writes it.
/// Each scope of thread 70 has a name, a start and a length in milliseconds, and whether the thread was switched out.
fn written(overwritten: u64, scopes: &[(&str, f64, f64, Option<bool>)]) -> Scopes {
    let mut text = format!(
        r#"{{"displayTimeUnit":"ns","otherData":{{"clock":"CLOCK_MONOTONIC","compared_ns":[1,2]}},"traceEvents":[{{"name":"thread_name","ph":"M","pid":7,"tid":0,"args":{{"name":"tick","kernel_thread":70,"overwritten":{overwritten},"unnamed":0}}}}"#
    );
    for (name, start_ms, length_ms, switched_out) in scopes {
        let args = switched_out.map_or_else(String::new, |is| format!(r#""switched_out":{is}"#));
        let (ts, dur) = (start_ms * 1e3, length_ms * 1e3);
        write!(text, r#",{{"name":"{name}","ph":"X","ts":{ts},"dur":{dur},"pid":7,"tid":0,"args":{{{args}}}}}"#)
            .unwrap();
    }
    parse((text + "]}").as_bytes()).unwrap()
}

/// The switches of thread 70, on the monotonic clock: when the thread got or lost the CPU.
fn switches(until_ms: u64, turns: &[(u64, Turn)]) -> Recording {
    let switch =
        |(at_ms, turn): &(u64, Turn)| Switch { at_ns: at_ms * MS, cpu: 0, pid: 7, tid: 70, turn: *turn, other: None };
    Recording {
        switches: turns.iter().map(switch).collect(),
        clock: Some(CLOCK_MONOTONIC),
        span: Span { start_ns: 0, end_ns: until_ms * MS },
        ..Recording::default()
    }
}

fn as_text(long: &Long) -> String {
    let mut text = String::new();
    for row in &long.rows {
        let ms = |ns: u64| ns as f64 / 1e6;
        let Lengths { p50_ns, p99_ns, max_ns, total_ns } = row.long;
        let lengths = format!("p50 {} p99 {} max {} total {}", ms(p50_ns), ms(p99_ns), ms(max_ns), ms(total_ns));
        let Row { scope, thread, count, of, switched_out, .. } = row;
        writeln!(text, "{scope} in {thread}: {count} of {of}, {switched_out} switched out, {lengths}").unwrap();
    }
    let Unjudged { switched_out, unknown, cut } = long.unjudged;
    writeln!(text, "unjudged: {switched_out} {unknown} {cut}; covered {} of {}", long.covered, long.scopes).unwrap();
    text
}

#[test]
fn leaves_that_keep_the_cpu_are_long() {
    // An outer scope ends after its inner scopes.
    // A pass without inner scopes is a leaf, even if other passes through the scope have inner scopes.
    let scopes = written(
        0,
        &[
            ("move", 10.0, 3.0, Some(false)),
            ("shoot", 13.0, 1.0, Some(false)),
            ("tick", 10.0, 5.0, Some(false)),
            ("move", 20.0, 5.0, Some(false)),
            ("tick", 30.0, 2.5, Some(false)),
        ],
    );
    let long_ones = long(&scopes, 2 * MS, Which::Leaf, None).unwrap();
    expect![[r#"
        move in tick: 2 of 2, 0 switched out, p50 3 p99 5 max 5 total 8
        tick in tick: 1 of 1, 0 switched out, p50 2.5 p99 2.5 max 2.5 total 2.5
        unjudged: 0 0 0; covered 0 of 4
    "#]]
    .assert_eq(&as_text(&long_ones));
    expect![[r#"
        move in tick: 2 of 2, 0 switched out, p50 3 p99 5 max 5 total 8
        tick in tick: 2 of 2, 0 switched out, p50 2.5 p99 5 max 5 total 7.5
        unjudged: 0 0 0; covered 0 of 5
    "#]]
    .assert_eq(&as_text(&long(&scopes, 2 * MS, Which::All, None).unwrap()));
}

#[test]
fn the_time_switched_out_does_not_count() {
    let scopes = written(
        0,
        &[
            ("lock", 10.0, 8.0, Some(true)),
            ("slow", 20.0, 8.0, Some(true)),
            ("asleep", 40.0, 9.0, Some(true)),
            ("after", 99.0, 9.0, Some(true)),
            ("old kernel", 120.0, 9.0, None),
            ("short", 140.0, 1.0, None),
        ],
    );
    let turns =
        [(12, Turn::Slept), (17, Turn::In), (22, Turn::Preempted), (25, Turn::In), (39, Turn::Slept), (50, Turn::In)];
    // The recording ends before the last two passes end.
    let recording = switches(100, &turns);
    expect![[r#"
        slow in tick: 1 of 1, 1 switched out, p50 5 p99 5 max 5 total 5
        lock in tick: 1 of 1, 1 switched out, p50 3 p99 3 max 3 total 3
        unjudged: 1 1 0; covered 3 of 6
    "#]]
    .assert_eq(&as_text(&long(&scopes, 2 * MS, Which::Leaf, Some(&recording)).unwrap()));
    // Without a recording, the length of the switch-out is unknown.
    expect![[r#"
        unjudged: 4 1 0; covered 0 of 6
    "#]]
    .assert_eq(&as_text(&long(&scopes, 2 * MS, Which::Leaf, None).unwrap()));
}

#[test]
fn a_scope_with_overwritten_inner_scopes_is_not_a_leaf() {
    // The inner scopes of the first of two ticks were overwritten in the ring.
    let scopes = written(
        9,
        &[("tick", 10.0, 9.0, Some(false)), ("move", 20.0, 4.0, Some(false)), ("tick", 20.0, 9.0, Some(false))],
    );
    let found = long(&scopes, 2 * MS, Which::Leaf, None).unwrap();
    assert_eq!((found.unjudged.cut, found.rows.len(), found.overwritten), (1, 1, 9));
    assert_eq!(found.rows[0].scope, "move");
}

#[test]
fn a_recording_that_is_not_of_the_scopes_is_refused() {
    let scopes = written(0, &[("move", 10.0, 8.0, Some(true))]);
    let turns = [(12, Turn::Slept), (17, Turn::In)];
    let with = |change: fn(&mut Recording)| {
        let mut recording = switches(100, &turns);
        change(&mut recording);
        long(&scopes, 2 * MS, Which::Leaf, Some(&recording)).map(|_| ())
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|recording| recording.clock = None), Err(Mismatch::Clock));
    assert_eq!(with(|recording| recording.clock = Some(4)), Err(Mismatch::Clock));
    assert_eq!(with(|recording| recording.switches.clear()), Err(Mismatch::NoSwitches));
    assert_eq!(with(|recording| recording.span.end_ns = 5 * MS), Err(Mismatch::Time));
    assert_eq!(
        with(|recording| recording.switches.iter_mut().for_each(|switch| switch.tid = 5)),
        Err(Mismatch::Threads)
    );
}

#[test]
fn a_malformed_trace_is_reported_with_its_place() {
    check_error("", expect!["it is empty, at byte 0"]);
    check_error(
        "7",
        expect!["expected a trace: an object with traceEvents, or a list of events, found the number 7, at byte 0"],
    );
    check_error("{}", expect!["it has no traceEvents: these are not scopes of evenkeel-rt, at byte 1"]);
    check_error(
        "[{\"ph\":\"X\",\n\"ts\":1,\"dur\":-5}]",
        expect!["the duration of a scope is invalid: -5 us, at byte 28"],
    );
    check_error("[{\"ph\":\"X\",\"ts\":1}]", expect!["a scope has no duration, at byte 18"]);
    check_error("[{\"ph\":\"X\",\"ts\":1e999}]", expect!["a number is too large, at byte 20"]);
    check_error(
        "[{\"ph\":\"X\",\"ts\":1e30,\"dur\":1}]",
        expect!["the start of a scope is invalid: 1000000000000000000000000000000 us, at byte 29"],
    );
    check_error("[] x", expect!["it is not JSON, at byte 3"]);
    let many: Vec<String> = (0..5000).map(|tid| format!(r#"{{"ph":"X","ts":1,"dur":1,"tid":{tid}}}"#)).collect();
    check_error(&format!("[{}]", many.join(",")), expect!["there are more than 4096 threads, at byte 150479"]);
    let deep = "[".repeat(100_000);
    assert!(parse(format!("{{\"x\":{deep}").as_bytes()).is_err());
    // Events of other programs are ignored.
    let other = parse(br#"[{"ph":"B","name":"x","id":"y"},{"ph":"X","ts":1,"dur":2,"args":{"depth":3}}]"#).unwrap();
    assert_eq!((other.other_events, other.threads[0].scopes.len(), other.is_monotonic), (1, 1, false));
}

proptest! {
    #[test]
    fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = parse(&bytes) {
            prop_assert!(error.offset <= bytes.len() as u64);
        }
    }

    /// Whatever the switches are, no scope gets longer. Its CPU time equals a count millisecond by millisecond.
    #[test]
    fn less_the_time_away_is_never_more(
        scopes in proptest::collection::vec((0..200_u32, 0..50_u32), 1..40),
        turns in proptest::collection::vec((0..220_u64, 0..3_u8), 1..40),
    ) {
        let scopes: Vec<_> = scopes.iter().map(|(start, length)| ("a", f64::from(*start), f64::from(*length), Some(true))).collect();
        let scopes = written(0, &scopes);
        let mut turns: Vec<_> =
            turns.iter().map(|(at, turn)| (*at, [Turn::In, Turn::Slept, Turn::Preempted][usize::from(*turn)])).collect();
        turns.sort_by_key(|(at, _)| *at);
        let recording = switches(300, &turns);
        let found = long(&scopes, 0, Which::All, Some(&recording)).unwrap();
        let whole: u64 = scopes.threads[0].scopes.iter().map(|scope| scope.length_ns).sum();
        prop_assert_eq!(found.covered, found.scopes);
        prop_assert!(found.rows.iter().all(|row| row.long.total_ns <= whole));
        // The same result, computed millisecond by millisecond.
        let is_away = |ms: u64| {
            let before = turns.iter().rev().find(|(at, _)| *at <= ms);
            match before {
                Some((_, turn)) => *turn != Turn::In,
                None => turns[0].1 == Turn::In,
            }
        };
        let ran: u64 = scopes.threads[0]
            .scopes
            .iter()
            .map(|scope| (scope.start_ns / MS..scope.end_ns() / MS).filter(|ms| !is_away(*ms)).count() as u64)
            .sum();
        let total = found.rows.first().map_or(0, |row| row.long.total_ns);
        // If two switch-outs follow each other, `long` counts from the later one, but this model counts from the earlier one.
        // So compare only switches without such pairs.
        let is_plain = turns.windows(2).all(|pair| pair[0].1 == Turn::In || pair[1].1 == Turn::In);
        let is_even = turns.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if is_plain && is_even {
            prop_assert_eq!(total, ran * MS);
        }
    }
}
