//! Recordings of unprepared servers, each with its true tick rate from another source:
//! the source code, strace, or the server's own count.
//! The answer must be the true rate, or "unclear" with the true rate among the loops. It must never be a wrong rate.
//!
//! Each file has eight seconds of `evenkeel measure ticks --pid PID --seconds 8 --save FILE`, on a virtual machine with two CPUs.
//! Builds kept this machine busy.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use evenkeel_measure::meters::ticks::choice::{Choice, Wanted, choose};
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::tempo::Pacing;
use evenkeel_measure::meters::ticks::{share_followed, tick_account};
use expect_test::expect_file;

/// The true tick of a server.
#[derive(Clone, Copy, PartialEq)]
enum Truth {
    /// A tick of this rate at fixed times.
    SetTimes(f64),
    /// A chained tick: its rate over a stretch that began slightly before the recording and ended slightly later.
    Chained(f64),
    /// No tick.
    None,
}

const TRUTHS: &[(&str, Truth)] = &[
    ("armagetron-idle", Truth::None),
    // The server waits for several files, one of them a timerfd.
    ("asio-chained-idle", Truth::Chained(37.538)),
    ("asio-chained-load", Truth::Chained(37.422)),
    ("asio-idle", Truth::SetTimes(40.0)),
    ("asio-load", Truth::SetTimes(40.0)),
    ("asyncio-call-at-idle", Truth::SetTimes(20.0)),
    ("asyncio-call-later-idle", Truth::Chained(17.965)),
    ("asyncio-sleep-idle", Truth::Chained(17.697)),
    // The CPU pressure is 80 to 95 %. A tick begins at once or one scheduler tick of 4 ms later, and only every second tick looks regular.
    ("busy-asyncio", Truth::SetTimes(50.0)),
    ("busy-asyncio-later", Truth::SetTimes(50.0)),
    ("busy-asyncio-sparse", Truth::SetTimes(50.0)),
    // The server waits for its tick in a loop that never sleeps.
    ("busy-loop", Truth::None),
    ("busy-sleep-2ms", Truth::SetTimes(50.0)),
    ("busy-sleep-5ms", Truth::SetTimes(50.0)),
    ("busy-sleep-sparse", Truth::SetTimes(50.0)),
    ("bzflag-idle", Truth::None),
    ("bzflag-load", Truth::None),
    ("crossfire-idle", Truth::SetTimes(8.333)),
    ("ddnet-idle", Truth::None),
    ("ddnet-load", Truth::SetTimes(50.0)),
    // Its rate doubles every three seconds, from 20 to 40 Hz.
    ("doubles-20", Truth::None),
    ("freeciv-idle", Truth::None),
    ("freeciv-load", Truth::None),
    // Packets and the runtime wake the server at times that look like a rhythm of 60 or 90 Hz.
    ("go-net-60", Truth::SetTimes(30.0)),
    ("go-net-90", Truth::SetTimes(30.0)),
    ("go-sleep-idle", Truth::Chained(27.135)),
    ("go-ticker-1-idle", Truth::SetTimes(30.0)),
    ("go-ticker-2-idle", Truth::SetTimes(30.0)),
    // Its rate is 60 or 30 Hz, in turn for a second.
    ("halves-60", Truth::None),
    ("hedgewars-idle", Truth::None),
    ("hedgewars-load", Truth::None),
    ("java-delay-idle", Truth::Chained(18.474)),
    ("java-rate-idle", Truth::SetTimes(20.0)),
    ("java-rate-pool-idle", Truth::SetTimes(20.0)),
    ("minetest-idle", Truth::Chained(11.06)),
    // The main thread paces the server, and counts 8 to 11 steps per second as the world grows.
    // The bursts of another thread cover every second step.
    ("minetest-emerging", Truth::Chained(11.09)),
    ("minetest-emerging-more", Truth::Chained(11.09)),
    ("minetest-load", Truth::Chained(10.97)),
    ("mosquitto-idle", Truth::None),
    ("mosquitto-load", Truth::None),
    ("netpanzer-idle", Truth::SetTimes(50.0)),
    ("node-20-idle", Truth::Chained(19.585)),
    ("node-60-idle", Truth::Chained(56.665)),
    ("openarena-idle", Truth::SetTimes(20.0)),
    ("openarena-load", Truth::SetTimes(20.0)),
    ("openttd-idle", Truth::SetTimes(33.333)),
    ("node-immediate-busy", Truth::SetTimes(60.0)),
    ("park-busy", Truth::SetTimes(20.0)),
    ("pioneers-idle", Truth::None),
    ("pool-idle", Truth::SetTimes(60.0)),
    ("python-sleep-idle", Truth::Chained(18.398)),
    ("teeworlds-idle", Truth::SetTimes(50.0)),
    ("teeworlds-joining", Truth::SetTimes(50.0)),
    ("teeworlds-load", Truth::SetTimes(50.0)),
    // Players get a snapshot every second tick. Such a tick does three times the work.
    ("teeworlds-snapshots", Truth::SetTimes(50.0)),
    ("teeworlds-snapshots-light", Truth::SetTimes(50.0)),
    ("teeworlds-players", Truth::SetTimes(50.0)),
    // Each tick is a thread, which ends before it can be watched.
    ("thread-per-tick", Truth::None),
    ("tokio-idle", Truth::SetTimes(60.0)),
    ("beanstalkd-idle", Truth::None),
    ("beanstalkd-load", Truth::None),
    ("coturn-idle", Truth::None),
    ("coturn-load", Truth::None),
    ("liquidwar-idle", Truth::None),
    ("memcached-idle", Truth::None),
    ("mumble-idle", Truth::None),
    ("mumble-load", Truth::None),
    ("nats-idle", Truth::None),
    ("nginx-idle", Truth::None),
    ("nginx-load", Truth::None),
    ("ngircd-idle", Truth::None),
    ("redis-idle", Truth::None),
    ("redis-load", Truth::None),
    ("wesnoth-idle", Truth::None),
];

impl Truth {
    /// Whether a rate is the true one: within 1 %, or slightly more if the rate itself changes with the machine's load.
    fn is(self, hz: f64) -> bool {
        match self {
            Truth::SetTimes(truth) => (hz / truth - 1.0).abs() <= 0.01,
            Truth::Chained(truth) => (hz / truth - 1.0).abs() <= 0.015,
            Truth::None => false,
        }
    }
}

fn recordings() -> impl Iterator<Item = (&'static str, Truth, Stream)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/ticks_zoo");
    TRUTHS.iter().map(move |(name, truth)| {
        let text = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
        (*name, *truth, Stream::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}")))
    })
}

fn line(name: &str, choice: &Choice) -> String {
    let mut line = match choice.tick() {
        Ok(tick) => format!("{name}: {:.2} Hz {:?} by {}", tick.tempo.hz(), tick.tempo.pacing, tick.carriers[0].name),
        Err(why) => format!("{name}: unclear: {why}"),
    };
    for one in &choice.loops {
        let _ = write!(line, "\n    {:.2} Hz {:.1} %", one.tempo.hz(), one.work_share * 100.0);
    }
    line + "\n"
}

#[test]
fn every_server_gets_its_true_rate_or_a_list_that_holds_it() {
    let mut wrong = Vec::new();
    let mut lines = String::new();
    for (name, truth, stream) in recordings() {
        let choice = choose(&stream, &Wanted::default());
        lines += &line(name, &choice);
        let listed = || choice.loops.iter().flat_map(|one| [Some(one.tempo.hz()), one.heavier_hz]).flatten();
        let is_right = match choice.tick() {
            Ok(tick) => truth.is(tick.tempo.hz()),
            Err(_) => truth == Truth::None || listed().any(|hz| truth.is(hz)),
        };
        if !is_right {
            wrong.push(name);
        }
    }
    expect_file!["said.txt"].assert_eq(&lines);
    assert_eq!(wrong, Vec::<&str>::new(), "{lines}");
}

#[test]
fn set_times_and_chains_are_never_taken_for_each_other() {
    let (mut known, mut all) = (0, 0);
    for (name, truth, stream) in recordings() {
        let Ok(tick) = choose(&stream, &Wanted::default()).tick().cloned() else { continue };
        let never = match truth {
            Truth::SetTimes(_) => Pacing::Chained,
            Truth::Chained(_) => Pacing::FixedTimes,
            Truth::None => continue,
        };
        assert_ne!(tick.tempo.pacing, never, "{name}");
        known += u32::from(tick.tempo.pacing != Pacing::Unknown);
        all += 1;
    }
    assert!(all >= 20 && known * 10 >= all * 9, "{known} of {all} are known");
}

#[test]
fn a_rate_that_the_user_names_is_found() {
    for (name, truth, stream) in recordings() {
        let hz = match truth {
            Truth::SetTimes(hz) | Truth::Chained(hz) => hz,
            Truth::None => continue,
        };
        let choice = choose(&stream, &Wanted { tick_hz: Some(hz), ..Wanted::default() });
        match choice.tick() {
            Ok(tick) => assert!(truth.is(tick.tempo.hz()), "{name}: {} Hz for {hz}", tick.tempo.hz()),
            // Without players, the server's ticks and its polls are alike.
            Err(why) => assert_eq!(name, "teeworlds-idle", "{why}"),
        }
    }
}

/// Follows the chosen loop as a trial does: in consecutive short windows, and in consecutive parts of a window.
/// Another loop must never replace the chosen loop.
#[test]
fn a_chosen_loop_is_followed_in_every_window_and_in_most_turns() {
    assert_eq!(not_followed(12e9, 1e9, 0.1), Vec::<String>::new());
    // If one of five ticks in a chain is late, the rate falls by a fifth.
    // Another loop would be off by a half.
    // Players' packets are about as frequent as this server's ticks, and a dozen ticks do not separate the two.
    assert_eq!(not_followed(5e9, 0.25e9, 0.3), ["teeworlds-load: 32 of 32"]);
}

/// The servers for which more than a quarter of the windows have no tick.
/// A window has `ticks` ticks, and at least `least_ns`.
/// No rate differs by more than `off_max` from the tick's rate.
fn not_followed(ticks: f64, least_ns: f64, off_max: f64) -> Vec<String> {
    let mut lost = Vec::new();
    for (name, _, stream) in recordings() {
        let Ok(tick) = choose(&stream, &Wanted::default()).tick().cloned() else { continue };
        let window_ns = (ticks / tick.tempo.hz()).max(least_ns) as u64;
        let (mut windows, mut without) = (0, 0);
        let mut from_ns = stream.from_ns;
        while from_ns + window_ns <= stream.to_ns {
            match tick_account(&stream.between(from_ns, from_ns + window_ns), &tick, None) {
                Ok(account) => {
                    let off = (account.tempo.hz() / tick.tempo.hz() - 1.0).abs();
                    assert!(off < off_max, "{name}: {} Hz for {}", account.tempo.hz(), tick.tempo.hz());
                }
                Err(_) => without += 1,
            }
            windows += 1;
            from_ns += window_ns;
        }
        assert!(
            (share_followed(&stream, &tick, window_ns) - (1.0 - without as f64 / windows as f64)).abs() < 1e-9,
            "{name}"
        );
        if without * 4 > windows {
            lost.push(format!("{name}: {without} of {windows}"));
        }
    }
    lost
}
