//! Replays recordings of real servers. The meter must find each tick, with the same numbers each time.
//! The recordings were made with `evenkeel measure ticks --pid PID --save FILE` on virtual machines with two CPUs under other load.

use evenkeel_measure::meters::ticks::choice::{Wanted, choose};
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::tick_account;
use expect_test::{Expect, expect};

fn check(text: &str, expect: Expect) {
    let stream = Stream::parse(text).unwrap();
    let us = |values: &[u64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize] / 1000;
        format!("{} {}", at(0.5), at(0.99))
    };
    expect.assert_eq(&match choose(&stream, &Wanted::default()).tick() {
        Err(why) => format!("no tick: {why}"),
        Ok(tick) => {
            let account = tick_account(&stream, tick, None).unwrap();
            format!(
                "{:.2} Hz {:?} {:?}; {} ticks, {} missed, {} hidden, {} preempted, {} others; p50 and p99 in us: interval {}, late {}, work {}, due to done {}",
                account.tempo.hz(),
                account.tempo.pacing,
                account.due,
                account.ticks,
                account.missed,
                account.hidden,
                account.preempted_ticks,
                account.other_wakes,
                us(&account.interval_ns),
                us(&account.lateness_ns),
                us(&account.work_ns),
                us(&account.due_to_done_ns),
            )
        }
    });
}
#[test]
fn real_servers_have_their_ticks() {
    // The reference server at 50 Hz, as an ordinary thread.
    check(
        include_str!("arena50.txt"),
        expect![
            "50.00 Hz FixedTimes AsAsked; 250 ticks, 0 missed, 0 hidden, 9 preempted, 0 others; p50 and p99 in us: interval 19999 20016, late 54 75, work 363 902, due to done 419 970"
        ],
    );
    // The reference server at 50 Hz, as a tick thread of evenkeel-rt.
    check(
        include_str!("arena-steady.txt"),
        expect![
            "50.00 Hz FixedTimes AsAsked; 250 ticks, 0 missed, 0 hidden, 250 preempted, 0 others; p50 and p99 in us: interval 19999 20005, late 4 9, work 1192 1668, due to done 1206 1794"
        ],
    );
    // ddnet-server with eight bots, whose packets wake it between its 50 ticks per second.
    check(
        include_str!("ddnet-8.txt"),
        expect![
            "50.00 Hz FixedTimes AsAsked; 250 ticks, 0 missed, 0 hidden, 1 preempted, 356 others; p50 and p99 in us: interval 20000 20058, late 57 110, work 65 187, due to done 123 286"
        ],
    );
    // ddnet-server with sixteen players. Their packets are half of its work, and are frequent at some phases of a tick.
    // The rate is not 200 or 250 per second.
    check(
        include_str!("ddnet-16.txt"),
        expect![
            "50.00 Hz FixedTimes Earliest; 124 ticks, 0 missed, 1 hidden, 10 preempted, 1537 others; p50 and p99 in us: interval 19999 20786, late 126 901, work 894 1188, due to done 1012 5260"
        ],
    );
    // A ddnet-server without players does not tick.
    check(include_str!("ddnet-idle.txt"), expect!["no tick: it hardly woke"]);
    // openarena with four bots of its own, sv_fps 20.
    check(
        include_str!("oa20.txt"),
        expect![
            "20.00 Hz FixedTimes AsAsked; 100 ticks, 0 missed, 0 hidden, 0 preempted, 0 others; p50 and p99 in us: interval 50016 50266, late 17 218, work 954 1198, due to done 993 1198"
        ],
    );
    // openarena with sv_fps 60. It rounds the period to whole milliseconds, which gives 62.5.
    check(
        include_str!("oa60.txt"),
        expect![
            "62.50 Hz FixedTimes AsAsked; 312 ticks, 0 missed, 0 hidden, 0 preempted, 0 others; p50 and p99 in us: interval 16006 16193, late 63 222, work 947 1133, due to done 1003 1159"
        ],
    );
}
