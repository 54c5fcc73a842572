//! Tests the search for the tick on simulated servers with a known tick.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::account::{Due, account, beats};
use super::tempo::{self, NoTick, Pacing};
use super::views::Timer;
use super::wakes::Wake;

const US: f64 = 1e3;
const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// A server, and its disturbances.
#[derive(Clone, Copy)]
struct Server {
    hz: f64,
    pacing: Pacing,
    /// The work of a tick in nanoseconds, and the work of every second tick.
    work: [f64; 2],
    /// The mean lateness, which is exponentially distributed.
    late: f64,
    /// The share of ticks that are late by up to half a period, and the share that is skipped.
    very_late: f64,
    missed: f64,
    /// Wakes for packets per second, and their work.
    packets: (f64, f64),
}

const PLAIN: Server = Server {
    hz: 50.0,
    pacing: Pacing::FixedTimes,
    work: [400.0 * US, 400.0 * US],
    late: 20.0 * US,
    very_late: 0.0,
    missed: 0.0,
    packets: (0.0, 0.0),
};

impl Server {
    /// The server's activity in this many seconds.
    fn wakes(&self, seconds: f64, seed: u64) -> Vec<Wake> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut exponential = |mean: f64| -f64::ln(1.0 - random.random::<f64>()) * mean;
        let (period, end) = (SECOND / self.hz, seconds * SECOND);
        let mut begun = Vec::new();
        let mut due = exponential(period);
        let mut turn = 0;
        while due < end {
            let chance = exponential(1.0);
            let at = due + exponential(self.late).min(period / 3.0);
            let at =
                if (-chance).exp() < self.very_late { at + exponential(period / 8.0).min(period / 2.0) } else { at };
            if (-exponential(1.0)).exp() >= self.missed {
                begun.push((at, self.work[turn % 2] * (0.9 + exponential(0.1).min(1.0))));
            }
            turn += 1;
            due = period + if self.pacing == Pacing::FixedTimes { due } else { at };
        }
        let (rate, work) = self.packets;
        let mut at = 0.0;
        while rate > 0.0 && at < end {
            at += exponential(SECOND / rate);
            begun.push((at, work * (0.7 + exponential(0.3))));
        }
        laid_out(begun)
    }
}

/// Orders the work as one thread does it. Work that would begin before the previous work has ended joins the previous wake.
fn laid_out(mut begun: Vec<(f64, f64)>) -> Vec<Wake> {
    begun.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let mut wakes: Vec<Wake> = Vec::new();
    for (at, work) in begun {
        let (start_ns, work_ns) = (1_000_000_000 + at as u64, work as u64);
        match wakes.last_mut().filter(|last| last.end_ns + 2_000 >= start_ns) {
            Some(last) => {
                last.end_ns += work_ns;
                last.on_cpu_ns += work_ns;
            }
            None => wakes.push(Wake {
                start_ns,
                end_ns: start_ns + work_ns,
                on_cpu_ns: work_ns,
                preempted: 0,
                cpu: 0,
                is_moved: false,
            }),
        }
    }
    wakes
}

fn found(wakes: &[Wake]) -> Result<(f64, Pacing), NoTick> {
    tempo::find(&beats(wakes)).map(|tempo| (tempo.hz(), tempo.pacing))
}

#[test]
fn servers_of_all_kinds_have_their_rate() {
    let table = [
        ("plain", PLAIN),
        ("slow", Server { hz: 2.0, work: [5.0 * MS; 2], ..PLAIN }),
        ("ten a second", Server { hz: 10.0, ..PLAIN }),
        ("fast", Server { hz: 500.0, ..PLAIN }),
        ("sixty-two and a half, each after the one before", Server { hz: 62.5, pacing: Pacing::Chained, ..PLAIN }),
        ("every second one sends", Server { work: [90.0 * US, 250.0 * US], ..PLAIN }),
        ("few packets", Server { work: [60.0 * US, 200.0 * US], packets: (144.0, 30.0 * US), ..PLAIN }),
        ("many packets", Server { packets: (800.0, 60.0 * US), ..PLAIN }),
        ("packets as heavy as ticks", Server { packets: (100.0, 400.0 * US), ..PLAIN }),
        ("late", Server { late: 300.0 * US, very_late: 0.05, ..PLAIN }),
        (
            "a third of them late by much more than the others differ",
            Server { hz: 100.0, late: 5.0 * US, very_late: 0.35, ..PLAIN },
        ),
        ("some left out", Server { missed: 0.05, very_late: 0.02, packets: (100.0, 30.0 * US), ..PLAIN }),
    ];
    for (name, server) in table {
        for seed in 0..6 {
            let seconds = if server.hz < 8.0 { 8.0 } else { 2.0 };
            let wakes = server.wakes(seconds, seed);
            let (hz, pacing) = found(&wakes).unwrap_or_else(|why| panic!("{name}, seed {seed}: {why}"));
            assert!((hz / server.hz - 1.0).abs() < 0.02, "{name}, seed {seed}: {hz} Hz for {}", server.hz);
            assert!(
                pacing == server.pacing
                    || pacing == Pacing::Unknown
                    || server.late > 100.0 * US
                    || server.hz < 8.0
                    || server.very_late > 0.1,
                "{name}, seed {seed}: {pacing:?}"
            );
        }
    }
}

/// Players send as often as the server ticks, each at its own phase and unsteady by some milliseconds.
/// Where many packets arrive, every part of the tick's period contains some packets.
#[test]
fn players_packets_make_no_faster_tick() {
    for seed in 0..24 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let players = [4, 8, 16, 32][seed as usize % 4];
        let mut begun = Vec::new();
        for tick in 0..150 {
            begun.push((
                f64::from(tick) * 20.0 * MS + random.random_range(0.0..15.0) * US,
                random.random_range(800.0..1200.0) * US,
            ));
        }
        for _ in 0..players {
            let mut at = random.random_range(0.0..20.0) * MS;
            while at < 3.0 * SECOND {
                begun.push((at + random.random_range(0.0..5.0) * MS, random.random_range(60.0..120.0) * US));
                at += 20.0 * MS;
            }
        }
        let (hz, _) = found(&laid_out(begun)).unwrap_or_else(|why| panic!("seed {seed}, {players} players: {why}"));
        assert!((hz - 50.0).abs() < 0.5, "seed {seed}, {players} players: {hz} Hz");
    }
}

/// A rate of 60 Hz by sleeps of 16 and 17 ms. Every third tick is punctual to the microsecond, but the two ticks in between are ticks too.
#[test]
fn sleeps_of_whole_milliseconds_make_no_slower_tick() {
    for seed in 0..6 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut begun = Vec::new();
        for tick in 0..240_u32 {
            let at_ms = (f64::from(tick) * 1000.0 / 60.0).floor();
            begun.push((at_ms * MS + random.random_range(0.0..15.0) * US, random.random_range(300.0..500.0) * US));
        }
        let (hz, _) = found(&laid_out(begun)).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!((hz - 60.0).abs() < 0.5, "seed {seed}: {hz} Hz");
    }
}

/// The server checks every 5.08 ms whether 20 ms have passed, and then runs a tick.
/// The times of its wakes are not fractions of the tick's period.
#[test]
fn a_polling_server_has_the_rate_of_its_ticks() {
    for seed in 0..6 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut at, mut due) = (0.0, 20.0 * MS);
        let mut begun = Vec::new();
        while at < 4.0 * SECOND {
            at += 5.08 * MS + random.random::<f64>() * 20.0 * US;
            let is_tick = at >= due;
            due += if is_tick { 20.0 * MS } else { 0.0 };
            begun.push((at, if is_tick { 45.0 * US } else { 7.0 * US }));
        }
        let wakes = laid_out(begun);
        let (hz, _) = found(&wakes).unwrap();
        assert!((hz / 50.0 - 1.0).abs() < 0.02, "seed {seed}: {hz} Hz");
    }
}

#[test]
fn requests_at_any_rate_are_not_ticks() {
    let mut claimed = Vec::new();
    for seed in 0..200 {
        let rate = [5.0, 20.0, 60.0, 200.0, 1000.0, 5000.0][seed as usize % 6];
        let server = Server { hz: 0.001, packets: (rate, 20.0 * US), ..PLAIN };
        let wakes = server.wakes(if seed % 2 == 0 { 2.0 } else { 8.0 }, seed);
        if let Ok((hz, _)) = found(&wakes) {
            claimed.push((seed, rate, hz));
        }
    }
    assert!(claimed.len() <= 1, "of 200: {claimed:?}");
    assert_eq!(found(&[]), Err(NoTick::FewWakes));
}

#[test]
fn a_window_shows_the_planted_ticks() {
    let server = Server { late: 30.0 * US, missed: 0.03, packets: (100.0, 20.0 * US), ..PLAIN };
    let wakes = server.wakes(20.0, 3);
    let seen_account = account(&wakes, &[], None, None).unwrap();
    assert_eq!(seen_account.due, Due::Earliest);
    let middle = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values[values.len() / 2] as f64
    };
    assert!((middle(&seen_account.interval_ns) / (20.0 * MS) - 1.0).abs() < 0.01, "{seen_account:?}");
    assert!((middle(&seen_account.work_ns) / (400.0 * US) - 1.0).abs() < 0.1, "{}", middle(&seen_account.work_ns));
    assert!(
        (10.0 * US..40.0 * US).contains(&middle(&seen_account.lateness_ns)),
        "{}",
        middle(&seen_account.lateness_ns)
    );
    let planted = seen_account.ticks + seen_account.missed + seen_account.hidden;
    assert!(planted.abs_diff(1000) <= 2, "{planted}");
    assert!((15..=50).contains(&seen_account.missed), "{}", seen_account.missed);
    assert_eq!(seen_account.lateness_ns.len() as u64, seen_account.ticks);
    assert!(seen_account.work_share > 0.7, "{}", seen_account.work_share);
}

#[test]
fn lateness_counts_from_the_requested_time() {
    let wakes = PLAIN.wakes(4.0, 1);
    // All ticks began some 200 us after the requested time.
    let asked: Vec<Timer> = (0..20)
        .map(|nth| {
            let wake = &wakes[10 + nth * 9];
            let since = (wake.start_ns - wakes[0].start_ns) as f64;
            let due_ns = wakes[0].start_ns - 200_000 + (since / (20.0 * MS)).round() as u64 * 20_000_000;
            Timer { due_ns, begun_ns: wake.start_ns }
        })
        .collect();
    let seen_account = account(&wakes, &asked, None, None).unwrap();
    let plain = account(&wakes, &[], None, None).unwrap();
    assert_eq!(seen_account.due, Due::AsAsked);
    let offset = seen_account.asked_ns.unwrap();
    let more: Vec<f64> = seen_account
        .lateness_ns
        .iter()
        .zip(&plain.lateness_ns)
        .map(|(seen_account, plain)| *seen_account as f64 - *plain as f64)
        .collect();
    assert!(more.iter().all(|more| (more - offset).abs() <= 2.0), "{offset} {more:?}");
    // A thread that requests no time, or a different time for each tick, is not used.
    let odd: Vec<Timer> = asked
        .iter()
        .enumerate()
        .map(|(nth, asked)| Timer { due_ns: asked.begun_ns - 3_000_000 + nth as u64 * 150_000, ..*asked })
        .collect();
    assert_eq!(account(&wakes, &odd, None, None).unwrap().due, Due::Earliest);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_wakes_are_a_panic(
        steps in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 36), 0..60), small in prop::collection::vec((0_u64..30_000_000, 0_u64..900_000), 0..300),
        asked in prop::collection::vec((any::<u64>(), 0_usize..60), 0..20),
    ) {
        for steps in [steps, small] {
            let mut at_ns = 0_u64;
            let wakes: Vec<Wake> = steps.iter().map(|(step, lasted)| {
                let start_ns = at_ns + step;
                at_ns = start_ns + lasted;
                Wake { start_ns, end_ns: at_ns, on_cpu_ns: lasted / 2, preempted: (lasted % 3) as u32, cpu: 0, is_moved: false }
            }).collect();
            let asked: Vec<Timer> = asked.iter().map(|(due_ns, nth)| {
                Timer { due_ns: *due_ns, begun_ns: wakes.get(*nth).map_or(*due_ns, |wake| wake.start_ns) }
            }).collect();
            if let Ok(seen_account) = account(&wakes, &asked, None, None) {
                prop_assert!(seen_account.tempo.period_ns >= 1e9 / 530.0 && seen_account.tempo.period_ns <= 1.1e9);
                prop_assert!(seen_account.ticks as usize + seen_account.other_wakes as usize == wakes.len());
                let due = if seen_account.due == Due::Unknown { 0 } else { seen_account.ticks as usize };
                prop_assert_eq!(seen_account.due_to_done_ns.len(), due);
            }
        }
    }
}
