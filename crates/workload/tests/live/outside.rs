//! Live checks of observation from outside. A thread of this process serves as the server with a tick and packets.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sys::clock;
use evenkeel_testkit::fitness::one_of_by;
use evenkeel_testkit::{HostLock, live};
use evenkeel_workload::{Options, Placement, find};
use evenkeel_workload::{Workload, WorkloadError};

use crate::unfit;

/// Observes this process as the server.
fn start(set: &[(&str, &str)]) -> Result<Box<dyn Workload>, WorkloadError> {
    let pid = ("pid".to_owned(), std::process::id().to_string());
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = Options {
        programs: PathBuf::new(),
        seed: 1,
        players: None,
        placement: Placement::Free,
        command: Vec::new(),
        set: set.chain([pid]).collect(),
        stop: Arc::default(),
        tick_function: None,
        simulated: Default::default(),
    };
    (find("outside").unwrap().start)(&options)
}

fn is_refused(error: &WorkloadError) -> bool {
    let why = error.to_string();
    ["EACCES", "EPERM", "ENOSYS", "denied", "not permitted", "need root"].iter().any(|word| why.contains(word))
}

#[test]
fn a_thread_of_ours_is_a_server_until_it_ends() {
    let _host = HostLock::take();
    let mut refused = None;
    let check = || {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let (begun, has_begun) = std::sync::mpsc::channel();
        let ticks = move || {
            // A thread gets its name only when it runs for the first time.
            begun.send(()).unwrap();
            let mut due_ns = clock::monotonic_ns();
            while !ended.load(Ordering::Relaxed) {
                due_ns += 10_000_000;
                clock::sleep_until_ns(due_ns);
                let until_ns = clock::monotonic_ns() + 500_000;
                while clock::monotonic_ns() < until_ns {}
            }
        };
        let server = std::thread::Builder::new().name("ek-outside".to_owned()).spawn(ticks).unwrap();
        has_begun.recv().unwrap();
        let outcome = seen(&stop);
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap();
        let mut outside = match outcome {
            Ok(outside) => outside,
            Err(error) if is_refused(&error) => {
                refused = Some(error);
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        let gone = outside.window(Duration::from_millis(300), Duration::from_millis(300), &mut || {});
        let why = gone.unwrap_err().to_string();
        assert!(why.contains("ek-outside") && why.contains("it has ended"), "{why}");
        Ok(())
    };
    one_of_by(3, check, unfit);
    if let Some(error) = refused {
        live::not_judged(error);
    }
}

/// Observes a server that keeps its schedule, and checks one window.
fn seen(stop: &AtomicBool) -> Result<Box<dyn Workload>, WorkloadError> {
    let mut outside = start(&[("thread", "ek-outside")])?;
    assert!(outside.describe().contains(" Hz"), "{}", outside.describe());
    let mut begun = 0;
    let sample = outside.window(Duration::from_millis(50), Duration::from_secs(1), &mut || begun += 1)?;
    assert!(begun == 1 && !stop.load(Ordering::Relaxed));
    for metric in outside.metrics() {
        assert!(sample.contains_key(metric.name.as_ref()), "{}: {sample:?}", metric.name);
    }
    let (interval_us, work_us) = (sample["tick_interval_us_p50"], sample["tick_work_us_p50"]);
    if (interval_us - 10_000.0).abs() < 500.0 && work_us > 400.0 {
        return Ok(outside);
    }
    Err(WorkloadError::Program { program: "ek-outside".into(), why: format!("{sample:?}") })
}

/// The kernel passes on the ring's blocks one after another. This window fills more blocks than the ring has.
#[test]
fn a_window_that_is_longer_than_the_ring_lasts_loses_nothing() {
    let _host = HostLock::take();
    let mut refused = None;
    let check = || {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut outside = match start(&[("see", "packets")]) {
            Ok(outside) => outside,
            Err(error) if is_refused(&error) => {
                refused = Some(error);
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        let to = to.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let server = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                for _ in 0..3 {
                    from.send_to(&[7; 20], to).unwrap();
                }
                std::thread::sleep(Duration::from_millis(25));
            }
        });
        let sample = outside.window(Duration::from_millis(50), Duration::from_secs(3), &mut || {});
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap();
        let sample = sample.map_err(|error| error.to_string())?;
        // There are 3 packets every 25 ms, which is 360 packets.
        let is_whole =
            sample["sent_packets"] >= 300.0 && sample["packets_lost"] == 0.0 && sample["packets_unread"] == 0.0;
        if is_whole { Ok(()) } else { Err(format!("{sample:?}")) }
    };
    one_of_by(3, check, unfit);
    if let Some(error) = refused {
        live::not_judged(error);
    }
}
