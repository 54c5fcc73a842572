//! Live checks of the load generator with simple servers: whether the generator keeps its schedule, and how it counts a stall.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use evenkeel_sys::CpuSet;
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::one_of_by;
use evenkeel_workload::Sample;
use evenkeel_workload::load::{Arrivals, Fault, Loader, Pace, Shape, Sizes};

use crate::common::memcached::{Then, open, protocol, server, shape};
use crate::unfit;

fn window(address: SocketAddr, shape: Shape, ms: u64) -> Result<Sample, Fault> {
    let mut loader = Loader::connect(address, &protocol(Sizes::Uniform(0, 3000)), &shape, &CpuSet::default())?;
    let (mut begun, mut ended) = (Instant::now(), None);
    let settle = Duration::from_millis(50);
    let window = Duration::from_millis(ms);
    let sample = loader.window(settle, window, &mut || begun = Instant::now(), &mut || ended = Some(Instant::now()))?;
    assert!(ended.unwrap() - begun > window * 9 / 10);
    Ok(sample)
}

/// The server does not answer for 200 ms of each second. So a fifth of the due requests must wait, half of these for more than 100 ms.
/// A client that waits for answers would measure one slow request among thousands.
/// The rate is low enough for connections with a round trip of a millisecond.
#[test]
fn a_stall_is_charged_to_all_requests_due_in_it() {
    let _host = HostLock::take();
    let check = || {
        let stall = Then::Stalls { after: Duration::from_millis(500), lasts: Duration::from_millis(200) };
        let open = window(server(0, stall), shape(1, open(250.0)), 1000).unwrap();
        let closed = window(server(0, stall), shape(1, Pace::Closed), 1000).unwrap();
        let (open_us, closed_us) = (open["request_us_p90"], closed["request_us_p90"]);
        let seen = format!("open {open:?}, closed {closed:?}");
        let asked = (open["due_per_s"] - 250.0).abs() < 2.0 && open["requests"] >= 248.0;
        let charged = (60_000.0..260_000.0).contains(&open_us) && open["request_us_p50"] < 30_000.0;
        let blind = closed_us < open_us / 5.0 && closed["request_us_max"] > 190_000.0;
        // The server caused the stall, not the generator. The generator had no free connection, so its requests do not count as late.
        let is_separated = open["load_behind_share"] < 0.1;
        if asked && charged && blind && is_separated { Ok(()) } else { Err(seen) }
    };
    one_of_by(4, check, unfit);
}

#[test]
fn a_schedule_is_kept_whatever_the_connections() {
    let _host = HostLock::take();
    for (connections, arrivals) in [(1, Arrivals::Even), (8, Arrivals::Even), (5, Arrivals::Poisson)] {
        let check = || {
            let pace = Pace::Open { rate_per_s: 400.0, arrivals };
            let sample = window(server(0, Then::GoesOn), shape(connections, pace), 500).unwrap();
            let spread = if arrivals == Arrivals::Even { 5.0 } else { 120.0 };
            let asked = (sample["due_per_s"] - 400.0).abs() <= spread;
            let kept = (sample["throughput_per_s"] / sample["due_per_s"] - 1.0).abs() < 0.1;
            let whole = sample["unsent_share"] == 0.0 && sample["miss_share"] == 0.0;
            if asked && kept && whole { Ok(()) } else { Err(format!("{connections}: {sample:?}")) }
        };
        one_of_by(4, check, unfit);
    }
}

#[test]
fn the_throughput_of_one_connection_is_one_over_its_time() {
    let _host = HostLock::take();
    let check = || {
        let sample = window(server(0, Then::GoesOn), shape(1, Pace::Closed), 500).unwrap();
        assert!(!sample.contains_key("due_per_s") && !sample.contains_key("load_behind_share"), "{sample:?}");
        let busy = sample["throughput_per_s"] * sample["request_us_mean"] / 1e6;
        let counted = (sample["requests"] - sample["throughput_per_s"] / 2.0).abs() < 1.0;
        if counted && (0.5..1.05).contains(&busy) { Ok(()) } else { Err(format!("{sample:?}")) }
    };
    one_of_by(4, check, unfit);
}

#[test]
fn one_that_hangs_is_given_up() {
    let _host = HostLock::take();
    // Run both checks at the same time, because each takes the five seconds after which silence is an error.
    std::thread::scope(|scope| {
        for (connections, pace) in [(1, Pace::Closed), (3, open(500.0))] {
            scope.spawn(move || {
                let fault = window(server(20, Then::Hangs), shape(connections, pace), 200).unwrap_err();
                assert_eq!(fault, Fault::Silent { seconds: 5 });
            });
        }
    });
}
