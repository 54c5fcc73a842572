//! Tests with a function that the user names as the tick.

use std::sync::Arc;

use super::choice::{Unclear, Wanted, choose};
use super::function::{Find, TickFunction};
use super::stream::{Stream, ThreadLog};
use super::wakes::Wake;
use super::{report, tick_account};

const MS: u64 = 1_000_000;

fn wake(start_ns: u64, end_ns: u64) -> Wake {
    Wake { start_ns, end_ns, on_cpu_ns: end_ns - start_ns, preempted: 0, cpu: 0, is_moved: false }
}

fn wanted(name: &str) -> Wanted {
    let find: Arc<Find> = Arc::new(|_, _| unreachable!("a stream that is there needs no place"));
    Wanted { function: Some(TickFunction { name: name.to_owned(), find }), ..Wanted::default() }
}

/// A server that polls every 5 ms for 20 us. It enters its tick at every tenth poll, 30 us into the wake, for 300 us.
/// Another thread does far more work at 100 Hz.
fn server() -> Stream {
    let from_ns = 1_000_000_000;
    let mut main = ThreadLog { pid: 7, tid: 7, name: "main".to_owned(), switches: 2, ..ThreadLog::default() };
    let mut other = ThreadLog { pid: 7, tid: 8, name: "saver".to_owned(), switches: 2, ..ThreadLog::default() };
    for poll in 0..800_u64 {
        // Each poll is up to 40 us late, by a different amount each time.
        let start_ns = from_ns + (poll + 1) * 5 * MS + poll * 7919 % 40_000;
        let is_tick = poll % 10 == 0;
        main.wakes.push(wake(start_ns, start_ns + if is_tick { 330_000 } else { 20_000 }));
        main.entries.extend(is_tick.then_some(start_ns + 30_000));
        if poll % 2 == 0 {
            other.wakes.push(wake(start_ns + 400_000, start_ns + 2_400_000));
        }
    }
    let function = Some("tick".to_owned());
    Stream { from_ns, to_ns: from_ns + 4_010 * MS, threads: vec![main, other], function, ..Stream::default() }
}

#[test]
fn the_function_that_is_named_is_the_tick_whatever_holds_the_work() {
    let stream = server();
    let choice = choose(&stream, &wanted("tick"));
    let tick = choice.tick().unwrap();
    assert!((tick.tempo.hz() / 20.0 - 1.0).abs() < 0.001, "{tick:?}");
    assert_eq!((tick.ticks, tick.tick_work_ns_p50), (80, 300_000));
    assert_eq!(tick.carriers.iter().map(|one| (one.tid, one.share)).collect::<Vec<_>>(), [(7, 1.0)]);
    assert_eq!(choice.tick, Some(0));
    assert!(choice.loops.len() > 1, "the others stand below it");
    let account = tick_account(&stream, tick, None).unwrap();
    assert_eq!((account.ticks, account.missed), (80, 0));
    assert!(account.work_ns.iter().all(|work_ns| *work_ns == 300_000));
    assert!(report(&stream, &wanted("tick")).ticks.is_some());
}

/// A server checks slightly less often than every 5 ms whether a tick is due.
/// So each tick has another lateness, and half of the intervals are longer than the period.
#[test]
fn ticks_that_a_poll_spreads_have_the_rate_of_their_number() {
    let from_ns = 1_000_000_000;
    let mut main = ThreadLog { pid: 7, tid: 7, name: "main".to_owned(), switches: 2, ..ThreadLog::default() };
    let mut due_ns = from_ns;
    for poll in 0..800_u64 {
        let start_ns = from_ns + poll * 5_070_000;
        let is_tick = start_ns >= due_ns;
        main.wakes.push(wake(start_ns, start_ns + if is_tick { 800_000 } else { 20_000 }));
        if is_tick {
            main.entries.push(start_ns + 5_000);
            due_ns += 40 * MS;
        }
    }
    let stream = Stream { from_ns, to_ns: from_ns + 4_056 * MS, threads: vec![main], ..Stream::default() };
    let choice = choose(&stream, &wanted("tick"));
    let tick = choice.tick().unwrap();
    assert!((tick.tempo.hz() / 25.0 - 1.0).abs() < 0.005, "{tick:?}");
}

#[test]
fn a_function_that_is_not_periodic_is_refused() {
    let mut stream = server();
    stream.threads[0].entries.clear();
    let none = choose(&stream, &wanted("tick")).tick().unwrap_err();
    assert_eq!(none, Unclear::NotEntered { function: "tick".to_owned() });
    // The function is entered once for each of a varying number of players.
    let mut random = 1_u64;
    let wakes = stream.threads[0].wakes.clone();
    for wake in wakes.iter().filter(|wake| wake.on_cpu_ns > 300_000) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        stream.threads[0].entries.extend((0..1 + (random >> 60)).map(|player| wake.start_ns + 10_000 * player));
    }
    let often = choose(&stream, &wanted("tick")).tick().unwrap_err();
    assert!(matches!(often, Unclear::EnteredIrregularly { entries_hz, .. } if entries_hz > 100.0), "{often}");
}
