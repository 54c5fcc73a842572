//! Simulated servers with known ticks. The records of a server arrive in portions, as in a collector.

use evenkeel_measure::meters::ticks::choice::{Wanted, choose};
use evenkeel_measure::meters::ticks::stream::{Stream, ThreadLog};
use evenkeel_measure::meters::ticks::wakes::Wake;
use evenkeel_sys::perf_wakers::Woken;

use super::follower::Follower;
use super::handover::{join, until};
use crate::sample::{DueSample, LateWas, OutsideLate, OutsideSample};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const PERIOD: u64 = 20 * MS;
/// The start time of the simulated server.
const BEGAN: u64 = 1_000 * S;

/// What delays or changes a tick.
#[derive(Clone, Copy)]
enum Plant {
    /// The tick's thread gets the CPU this much later.
    Late(u64),
    /// The tick works this much longer.
    Long(u64),
    /// In the middle of the tick, its thread waits for a CPU for this long.
    Waits(u64),
    /// In the middle of the tick, its thread waits for thread 9 for this long.
    Lock(u64),
    /// The tick does not happen.
    Missed,
}

/// The wakes of a server with 50 ticks a second, each with 2 ms of work.
fn wakes(seconds: u64, plants: &[(u64, Plant)]) -> Vec<Wake> {
    let mut list: Vec<Wake> = Vec::new();
    for number in 0..seconds * 50 {
        // A deviation of some microseconds, which differs from tick to tick.
        let jitter = number.wrapping_mul(7_919) % 40_000;
        let mut wake = Wake {
            start_ns: BEGAN + number * PERIOD + jitter,
            end_ns: 0,
            on_cpu_ns: 2 * MS + jitter,
            preempted: 0,
            cpu: 1,
            is_moved: false,
        };
        let mut waited_ns = 0;
        match plants.iter().find(|(of, _)| *of == number).map(|(_, plant)| *plant) {
            Some(Plant::Late(ns)) => wake.start_ns += ns,
            Some(Plant::Long(ns)) => wake.on_cpu_ns += ns,
            Some(Plant::Waits(ns)) => (waited_ns, wake.preempted) = (ns, 1),
            Some(Plant::Missed) => continue,
            Some(Plant::Lock(ns)) => {
                let half_ns = wake.on_cpu_ns / 2;
                list.push(Wake { end_ns: wake.start_ns + half_ns, on_cpu_ns: half_ns, ..wake });
                (wake.start_ns, wake.on_cpu_ns) = (wake.start_ns + half_ns + ns, half_ns);
            }
            None => {}
        }
        wake.end_ns = wake.start_ns + wake.on_cpu_ns + waited_ns;
        match list.last_mut().filter(|last| last.end_ns >= wake.start_ns) {
            // The thread does not sleep between a long tick and the next tick.
            Some(last) => {
                last.end_ns += wake.on_cpu_ns;
                last.on_cpu_ns += wake.on_cpu_ns;
            }
            None => list.push(wake),
        }
    }
    list
}

/// The records of the wakes that ended between two times.
fn stretch(wakes: &[Wake], from_ns: u64, to_ns: u64) -> Stream {
    let wakes: Vec<Wake> = wakes.iter().filter(|wake| (from_ns..to_ns).contains(&wake.end_ns)).copied().collect();
    let switches = wakes.len() as u64 * 2;
    let thread = ThreadLog { pid: 7, tid: 8, name: "main".to_owned(), wakes, switches, ..ThreadLog::default() };
    Stream { from_ns, to_ns, threads: vec![thread], ..Stream::default() }
}

/// Follows a server whose records arrive in portions of `stretch_ms`. Returns the last counts, and all late ticks.
fn followed(seconds: u64, plants: &[(u64, Plant)], stretch_ms: u64) -> (OutsideSample, Vec<OutsideLate>) {
    let wakes = wakes(seconds, plants);
    let look_until = BEGAN + 3 * S + 7 * MS;
    let found_in = stretch(&wakes, BEGAN, look_until);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let mut late = Vec::new();
    let mut from_ns = look_until;
    let mut last = follower.count().unwrap().clone();
    late.extend(last.late.clone());
    while from_ns < BEGAN + seconds * S {
        let to_ns = from_ns + stretch_ms * MS;
        last = follower.take(stretch(&wakes, from_ns, to_ns)).unwrap().clone();
        late.extend(last.late.clone());
        from_ns = to_ns;
    }
    (last, late)
}

#[test]
fn each_tick_is_counted_once_however_the_records_are_cut() {
    for stretch_ms in [100, 333, 1_000, 2_777] {
        let (counted, late) = followed(30, &[], stretch_ms);
        let until = (counted.counted_to_ns - BEGAN) as f64 / PERIOD as f64;
        assert!(late.is_empty(), "{late:?}");
        assert_eq!((counted.ticks.missed, counted.hidden, counted.lost), (0, 0, 0));
        assert_eq!(counted.ticks.ticks as f64, until.round(), "{stretch_ms} ms");
        assert!(until > 30.0 * 50.0 - 20.0, "the last ticks are counted soon: {until}");
        assert_eq!((counted.due, counted.tid), (DueSample::Earliest, Some(8)));
        assert!(counted.ticks.period_ns.unwrap().abs_diff(PERIOD) < 10_000);
        assert_eq!(counted.ticks.lateness.to_page().count, counted.ticks.ticks);
    }
}

#[test]
fn late_ticks_are_found_with_what_their_thread_did() {
    let plants = [
        (260, Plant::Late(8 * MS)),
        (311, Plant::Late(12 * MS)),
        (400, Plant::Long(31 * MS)),
        (500, Plant::Waits(33 * MS)),
        (601, Plant::Missed),
        (700, Plant::Late(4 * MS)),
    ];
    for stretch_ms in [100, 1_000, 1_717] {
        let (counted, late) = followed(20, &plants, stretch_ms);
        assert_eq!(counted.ticks.missed, 1, "{stretch_ms} ms");
        let is_near = |ns: u64, expected: u64| ns.abs_diff(expected) < MS;
        let number = |late: &OutsideLate| (late.due_ns - BEGAN + PERIOD / 2) / PERIOD;
        let off: Vec<&OutsideLate> = late.iter().filter(|late| late.was == LateWas::Off).collect();
        assert_eq!(off.iter().map(|late| number(late)).collect::<Vec<_>>(), [260, 311], "{late:?}");
        assert!(is_near(off[0].lateness_ns, 8 * MS) && is_near(off[1].lateness_ns, 12 * MS), "{off:?}");
        let awake: Vec<(u64, LateWas)> =
            late.iter().filter(|late| late.was != LateWas::Off).map(|late| (number(late), late.was)).collect();
        // The tick after the long tick began 13 ms late. The tick after the waiting tick began 15 ms late.
        assert!(matches!(awake[..], [(401, _), (501, _)]), "{awake:?}");
        let LateWas::Awake { on_cpu_ns, waited_ns, began_late_ns: Some(began_late_ns) } = awake[0].1 else {
            panic!("{awake:?}")
        };
        assert!(on_cpu_ns > 33 * MS && waited_ns == 0 && began_late_ns < MS, "{awake:?}");
        let LateWas::Awake { on_cpu_ns, waited_ns, .. } = awake[1].1 else { panic!("{awake:?}") };
        assert!(on_cpu_ns < 6 * MS && is_near(waited_ns, 33 * MS), "{awake:?}");
        assert!(is_near(counted.waited_awake_ns, 33 * MS));
    }
}

/// Follows a server whose ticks are begun by thread `usual` (None: by an interrupt), and whose waits are ended by thread 9.
/// Returns the late and missed ticks by number, with what the thread did.
fn held_up(usual: Option<u32>, is_recorded: bool, plants: &[(u64, Plant)], stretch_ms: u64) -> Vec<(u64, LateWas)> {
    let wakes = wakes(20, plants);
    let look_until = BEGAN + 3 * S + 7 * MS;
    let found_in = stretch(&wakes, BEGAN, look_until);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let mut found = Vec::new();
    let mut from_ns = look_until;
    while from_ns < BEGAN + 20 * S {
        let to_ns = from_ns + stretch_ms * MS;
        let mut next = stretch(&wakes, from_ns, to_ns);
        let woken = wakes.iter().map(|wake| {
            let number = (wake.start_ns - BEGAN) / PERIOD;
            let is_tick = (wake.start_ns - BEGAN) % PERIOD < 100_000 || is_late(plants, number);
            Woken { at_ns: wake.start_ns - 5_000, by: if is_tick { usual } else { Some(9) } }
        });
        next.threads[0].woken = woken.filter(|woken| (from_ns..to_ns).contains(&woken.at_ns)).collect();
        next.threads[0].woken_from_ns = is_recorded.then_some(from_ns);
        let counted = follower.take(next).unwrap();
        let all = counted.late.iter().chain(&counted.missed_waiting);
        found.extend(all.map(|late| ((late.due_ns - BEGAN + PERIOD / 2) / PERIOD, late.was)));
        from_ns = to_ns;
    }
    found.sort_by_key(|(number, _)| *number);
    found
}

fn is_late(plants: &[(u64, Plant)], number: u64) -> bool {
    plants.iter().any(|(of, plant)| *of == number && matches!(plant, Plant::Late(_)))
}

#[test]
fn a_wait_in_the_middle_of_a_tick_names_the_thread_that_ended_it() {
    let plants = [(300, Plant::Lock(31 * MS)), (420, Plant::Late(9 * MS)), (500, Plant::Lock(75 * MS))];
    for stretch_ms in [100, 1_000, 1_717] {
        let found = held_up(None, true, &plants, stretch_ms);
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [301, 420, 501, 502, 503], "{found:?}");
        for (number, was) in found {
            let LateWas::Waited { since_ns, until_ns, by } = was else {
                assert_eq!((number, was), (420, LateWas::Off));
                continue;
            };
            let expected = if number == 301 { 31 * MS } else { 75 * MS };
            assert!(by == 9 && (until_ns - since_ns).abs_diff(expected) < MS, "{number}: {was:?}");
        }
        // If a thread begins the ticks, or if wake-ups are not recorded, a wait inside a tick cannot be recognized.
        for (usual, is_recorded) in [(Some(5), true), (None, false)] {
            let found = held_up(usual, is_recorded, &plants, stretch_ms);
            assert!(found.iter().all(|(_, was)| *was == LateWas::Off), "{found:?}");
        }
    }
    // A server that rests for longer by design is not reported.
    let found = held_up(None, true, &[(300, Plant::Lock(1_500 * MS))], 1_000);
    assert!(!found.iter().any(|(_, was)| matches!(was, LateWas::Waited { .. })), "{found:?}");
}

/// Follows a server with late ticks, and returns these with how long the thread was ready before them, in milliseconds, and how often it was
/// ready when a missed tick was due. `woken` says when the thread was woken for a wake that began late.
fn ready(plants: &[(u64, Plant)], woken: Option<fn(&Wake, u64) -> u64>) -> (Vec<(u64, Option<u64>)>, Option<u64>) {
    let wakes = wakes(20, plants);
    let look_until = BEGAN + 3 * S + 7 * MS;
    let found_in = stretch(&wakes, BEGAN, look_until);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let (mut late, mut missed) = (Vec::new(), None);
    for second in 3..20 {
        let (from_ns, to_ns) =
            if second == 3 { (look_until, BEGAN + 4 * S) } else { (BEGAN + second * S, BEGAN + (second + 1) * S) };
        let mut next = stretch(&wakes, from_ns, to_ns);
        if let Some(woken) = woken {
            let woken = wakes.iter().map(|wake| {
                let delay = plants.iter().find_map(|(number, plant)| match plant {
                    Plant::Late(ns) => (wake.start_ns.abs_diff(BEGAN + number * PERIOD + ns) < MS).then_some(*ns),
                    _ => None,
                });
                Woken { at_ns: delay.map_or(wake.start_ns - 5_000, |ns| woken(wake, ns)), by: None }
            });
            next.threads[0].woken = woken.filter(|woken| (from_ns..to_ns).contains(&woken.at_ns)).collect();
            next.threads[0].woken_from_ns = Some(from_ns);
        }
        let counted = follower.take(next).unwrap();
        let off = counted.late.iter().filter(|late| late.was == LateWas::Off);
        late.extend(
            off.map(|late| ((late.due_ns - BEGAN + PERIOD / 2) / PERIOD, late.ready_ns.map(|ns| (ns + MS / 2) / MS))),
        );
        missed = missed.max(counted.missed_ready);
    }
    (late, missed)
}

/// Whether the thread waited for a CPU, or its timer fired late, as when the hypervisor has the CPU.
#[test]
fn a_late_tick_has_the_time_in_which_its_thread_was_ready() {
    let plants = [(300, Plant::Late(12 * MS)), (420, Plant::Late(75 * MS))];
    let in_time: fn(&Wake, u64) -> u64 = |wake, delay_ns| wake.start_ns - delay_ns;
    assert_eq!(ready(&plants, Some(in_time)), (vec![(300, Some(12)), (423, Some(75))], Some(3)));
    let late: fn(&Wake, u64) -> u64 = |wake, _| wake.start_ns - 5_000;
    assert_eq!(ready(&plants, Some(late)), (vec![(300, Some(0)), (423, Some(0))], Some(0)));
    assert_eq!(ready(&plants, None), (vec![(300, None), (423, None)], None));
}

#[test]
fn a_moment_without_a_cpu_costs_no_tick_and_a_server_that_stops_is_lost() {
    // The thread has no CPU for half a second. Then it does all ticks that became due, at once.
    let (counted, late) = followed(20, &[(300, Plant::Late(507 * MS))], 1_000);
    assert_eq!(counted.ticks.missed, 25, "{late:?}");
    assert!(late.iter().any(|late| late.lateness_ns.abs_diff(7 * MS) < MS), "{late:?}");
    assert!(counted.ticks.ticks + counted.ticks.missed > 950, "{counted:?}");
    // The ticks that become due during the delay are late too. Their thread was not busy with one long tick.
    let awake: Vec<LateWas> = late.iter().map(|late| late.was).filter(|was| *was != LateWas::Off).collect();
    let catches_up = |was: &LateWas| matches!(was, LateWas::Awake { began_late_ns: None, .. });
    assert!(!awake.is_empty() && awake.iter().all(catches_up), "{late:?}");
    let wakes = wakes(10, &[]);
    let found_in = stretch(&wakes, BEGAN, BEGAN + 3 * S);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let mut from_ns = BEGAN + 3 * S;
    let lost_after = (0..60).position(|_| {
        let end_ns = from_ns + S;
        let lost = follower.take(stretch(&wakes, from_ns, end_ns)).is_err();
        from_ns = end_ns;
        lost
    });
    assert!(lost_after.is_some_and(|seconds| (10..30).contains(&seconds)), "{lost_after:?}");
}

#[test]
fn ticks_whose_records_were_lost_are_neither_missed_nor_late() {
    let whole = wakes(20, &[(560, Plant::Missed)]);
    // The ring overflowed: the records of ticks 400 to 403 are lost. The records of tick 404 begin after its wait for a CPU.
    let mut seen = whole.clone();
    seen.retain(|wake| !(BEGAN + 400 * PERIOD..BEGAN + 404 * PERIOD).contains(&wake.start_ns));
    for wake in &mut seen {
        if (BEGAN + 404 * PERIOD..BEGAN + 405 * PERIOD).contains(&wake.start_ns) {
            (wake.start_ns, wake.end_ns) = (wake.start_ns + 9 * MS, wake.end_ns + 9 * MS);
        }
    }
    let found_in = stretch(&seen, BEGAN, BEGAN + 3 * S);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let mut late = Vec::new();
    for second in 3..20 {
        let mut next = stretch(&seen, BEGAN + second * S, BEGAN + (second + 1) * S);
        // Tick 400 is due at 8 s. The kernel may report only that the ring was full, without a count.
        next.unseen.overflows = u64::from(second == 8);
        late.extend(follower.take(next).unwrap().late.clone());
    }
    let counted = follower.count().unwrap();
    assert_eq!((counted.ticks.missed, counted.uncounted, late), (1, 5, vec![]));
    let until = (counted.counted_to_ns - BEGAN) as f64 / PERIOD as f64;
    assert_eq!((counted.ticks.ticks + counted.ticks.missed + counted.uncounted) as f64, until.round());
}

#[test]
fn a_tick_whose_end_was_lost_with_the_next_records_is_not_missed() {
    // Tick 399 begins at 7.98 s. The record of its end is lost in the next stretch.
    let mut seen = wakes(12, &[]);
    seen.retain(|wake| !(BEGAN + 399 * PERIOD..BEGAN + 401 * PERIOD).contains(&wake.start_ns));
    let found_in = stretch(&seen, BEGAN, BEGAN + 3 * S);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    for second in 3..12 {
        let mut next = stretch(&seen, BEGAN + second * S, BEGAN + (second + 1) * S);
        next.unseen.records = if second == 8 { 4 } else { 0 };
        follower.take(next).unwrap();
    }
    let counted = follower.count().unwrap();
    assert_eq!((counted.ticks.missed, counted.uncounted, counted.lost), (0, 2, 4));
}

#[test]
fn a_jump_of_the_clock_by_hours_is_no_storm_of_missed_ticks() {
    let wakes = wakes(10, &[]);
    let found_in = stretch(&wakes, BEGAN, BEGAN + 3 * S);
    let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
    let mut follower = Follower::new(tick, found_in, None, 5);
    let hours = 5 * 3600 * S;
    let mut later: Vec<Wake> = wakes.clone();
    later.iter_mut().for_each(|wake| (wake.start_ns, wake.end_ns) = (wake.start_ns + hours, wake.end_ns + hours));
    assert!(follower.take(stretch(&later, BEGAN + 3 * S, BEGAN + hours + S)).is_err());
}

/// The records between two times from a watcher that starts at `began_ns`.
/// If a wake began earlier, the watcher knows only the part after the thread got a CPU again.
fn seen_since(wakes: &[Wake], began_ns: u64, from_ns: u64, to_ns: u64) -> Stream {
    let whole = |wake: &Wake| match (wake.start_ns >= began_ns, wake.preempted > 0) {
        (true, _) => Some(*wake),
        (false, true) => Some(Wake { start_ns: wake.end_ns - MS, on_cpu_ns: MS, preempted: 0, ..*wake }),
        (false, false) => None,
    };
    let wakes: Vec<Wake> = wakes.iter().filter_map(whole).filter(|wake| wake.start_ns >= began_ns).collect();
    stretch(&wakes, from_ns, to_ns)
}

#[test]
fn a_handover_loses_no_tick_and_counts_none_twice() {
    let wakes = wakes(12, &[(150, Plant::Waits(8 * MS))]);
    // The handover begins before, during and after tick 150, which waits for its CPU meanwhile, and after the next tick.
    for slow_ms in [2_999, 3_001, 3_005, 3_011, 3_019, 3_023] {
        // How long after the start of the slow watcher the first watcher is read for the last time.
        for more_ms in [0, 1, 4, 9, 25, 70] {
            let (slow_ns, begun_ns) = (BEGAN + slow_ms * MS, BEGAN + (slow_ms + more_ms) * MS);
            let found_in = until(stretch(&wakes, BEGAN, begun_ns), slow_ns);
            let tick = choose(&found_in, &Wanted::default()).tick().unwrap().clone();
            let mut follower = Follower::new(tick, found_in, None, 5);
            let (mut slow_from, mut first_from, mut late) = (slow_ns, begun_ns, Vec::new());
            for nth in 0..9 {
                let to_ns = begun_ns + 2 * MS + nth * S;
                let mut next = seen_since(&wakes, slow_ns, slow_from, to_ns);
                if nth < 2 {
                    // The first watcher is read a moment after the slow watcher.
                    let first_to = to_ns + MS;
                    next = join(stretch(&wakes, first_from, first_to), next, slow_ns);
                    first_from = first_to;
                }
                late.extend(follower.take(next).unwrap().late.clone());
                slow_from = to_ns;
            }
            let counted = follower.count().unwrap();
            let until = (counted.counted_to_ns - BEGAN) as f64 / PERIOD as f64;
            let found = (counted.ticks.missed, counted.hidden, late.len(), counted.ticks.ticks as f64);
            assert_eq!(found, (0, 0, 0, until.round()), "{slow_ms} ms, {more_ms} ms");
            assert_eq!(counted.ticks.work.to_page().count, counted.ticks.ticks);
        }
    }
}
