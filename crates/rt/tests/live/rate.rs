//! A server that chooses its own rate on a real CPU. Under a limit it changes to a longer period.
//! Without a limit it keeps the short period, and returns to it when the work decreases.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_rt::rate::{RateChange, RatePhase, RateSettings, TickRate, TimeSlices};
use evenkeel_rt::{ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};

use crate::stage::{Group, MS, Slots, Taker, cpu, limited, may_be_real_time, pin};

const TRIES: usize = 3;

/// The server's work for some time.
struct Part {
    /// Work per tick in milliseconds.
    work_ms: f64,
    seconds: f64,
    /// The part ends early when the tick period has this value.
    until: Option<Duration>,
}

const fn part(work_ms: f64, seconds: f64) -> Part {
    Part { work_ms, seconds, until: None }
}

/// With this many pauses of the machine in a part, a rate change may be justified: two bad seconds of three are no accident.
const PAUSES: u64 = 2;

#[derive(Debug)]
struct Ran {
    /// The period at the end of each part.
    periods: Vec<Duration>,
    #[expect(dead_code, reason = "printed with the rest")]
    changes: Vec<RateChange>,
    /// The missed ticks in the last second of each part.
    missed: Vec<u64>,
    /// How often the machine stalled in each part, as an independent watcher saw it.
    pauses: Vec<u64>,
}

/// Whether the server behaved as expected. If it did not, and the machine stalled repeatedly, that part shows nothing.
fn judged(ran: &Ran, is_right: bool) -> Option<Result<(), String>> {
    println!("{ran:?}");
    if is_right {
        return Some(Ok(()));
    }
    let is_fit = ran.pauses.iter().all(|pauses| *pauses < PAUSES) && Needs::on_cpu(cpu()).unmet().is_none();
    is_fit.then(|| Err(format!("{ran:?}")))
}

fn serve(group: Option<&'static Group>, parts: Vec<Part>) -> Ran {
    let body = move || {
        pin(cpu());
        // Start the watcher before the limit, because a thread under the limit may not be real-time.
        let watcher = Taker::watcher(cpu());
        if let Some(group) = group {
            std::fs::write(group.0.join("tasks"), thread::id().to_string()).unwrap();
        }
        let own = TickThread::set_up(&ThreadConfig::default());
        let changes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&changes);
        let mut rate = TickRate::start(RateSettings::default())
            .unwrap()
            .on_change(move |change| seen.lock().unwrap().push(change));
        let mut clock =
            TickClock::start(TickSettings { period: rate.period(), ..TickSettings::default() }).unwrap().on(own);
        let (mut periods, mut missed, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
        for Part { work_ms, seconds, until } in &parts {
            let end_ns = clock::monotonic_ns() + (seconds * 1e9) as u64;
            let mut missed_at_end = 0;
            watcher.pauses();
            while clock::monotonic_ns() < end_ns && *until != Some(clock.period()) {
                let tick = clock.wait();
                if clock::monotonic_ns() + 1_000_000_000 > end_ns {
                    missed_at_end += tick.missed;
                }
                let until_ns = clock::thread_cpu_ns() + (work_ms * MS) as u64;
                while clock::thread_cpu_ns() < until_ns {
                    std::hint::spin_loop();
                }
                let done = clock.done().unwrap();
                rate.set_slices(TimeSlices::from_quantum(&clock.quantum()));
                if let Some(period) = rate.after(&done) {
                    clock.set_period(period).unwrap();
                }
            }
            periods.push(clock.period());
            missed.push(missed_at_end);
            pauses.push(watcher.pauses());
        }
        drop(rate);
        let changes = changes.lock().unwrap().clone();
        Ran { periods, changes, missed, pauses }
    };
    std::thread::spawn(body).join().unwrap()
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The limit allows 4 ms in 10. So 6.5 ms in 20 ms are a load of 0.81, which is more than the sustainable three quarters.
/// In 30 ms they are a load of 0.54.
#[test]
fn under_a_limit_the_period_is_longer() {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let Some(limited) = limited() else { return };
    fitness::holds(TRIES, || {
        let ran = serve(Some(limited.0), vec![part(6.5, 8.0)]);
        judged(&ran, ran.periods[0] >= ms(30))
    });
}

/// With the whole CPU, this work keeps the period. Work of 18 ms lengthens it. When that work ends, the period returns to 20 ms, and stays.
#[test]
fn with_the_whole_cpu_the_period_stays_and_comes_back() {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    fitness::holds(TRIES, || {
        // The rate returns after ten calm seconds per rung. The number of rungs depends on the machine.
        let back = Part { until: Some(ms(20)), ..part(3.0, 60.0) };
        let ran = serve(None, vec![part(6.5, 4.0), part(18.0, 5.0), back, part(3.0, 2.0)]);
        let [stays, slows, comes_back, stays_again] = ran.periods[..] else { unreachable!() };
        judged(&ran, slows > ms(20) && [stays, comes_back, stays_again] == [ms(20); 3])
    });
}

/// The server runs next to a hog that leaves 4 of 10 ms. The chosen period is a multiple of the hog's, and the server misses no tick.
#[test]
fn next_to_a_hog_the_period_is_a_multiple_of_its_own() {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let slots = Slots { period_ms: 10.0, share: 0.4, jitter: 0.02, drift_ppm: 100.0, start_ns: clock::monotonic_ns() };
    fitness::holds(TRIES, || {
        let hog = Taker::hog(cpu(), slots);
        let ran = serve(None, vec![part(6.5, 25.0)]);
        let off_share = hog.off_share();
        drop(hog);
        // The kernel's clock and the hog's clock differ by the drift.
        let turns = ran.periods[0].as_secs_f64() / 0.010_001;
        let is_right = ran.periods[0] >= ms(29) && (turns - turns.round()).abs() < 0.01 && ran.missed[0] <= 1;
        println!("{:.1} % of a hog's turns were off their time", 100.0 * off_share);
        // The watcher is late next to a hog of its own priority, so here the test ignores the watcher's pauses.
        let is_staged = off_share < 0.05;
        let ran = Ran { pauses: vec![if is_staged { 0 } else { PAUSES }], ..ran };
        judged(&ran, is_right)
    });
}

/// No machine can do this work in time, so the period becomes longer on any machine.
#[test]
fn too_much_work_makes_the_period_longer() {
    let _host = HostLock::take();
    let body = || {
        let settings = RateSettings {
            ladder: [2, 4, 8, 500].map(ms).to_vec(),
            start: ms(2),
            phase: RatePhase::between(ms(2), ms(500)),
            ..RateSettings::default()
        };
        let mut rate = TickRate::start(settings).unwrap();
        let mut clock = TickClock::start(TickSettings { period: rate.period(), ..TickSettings::default() }).unwrap();
        for _ in 0..100_000 {
            let tick = clock.wait();
            while clock::monotonic_ns() < tick.began_ns + 1_900_000 {}
            if let Some(period) = clock.done().and_then(|done| rate.after(&done)) {
                return (period, rate.load());
            }
        }
        panic!("200 seconds of too much work changed nothing");
    };
    let (period, load) = std::thread::spawn(body).join().unwrap();
    assert!(period > ms(2) && load.unwrap() > 0.9, "{period:?} {load:?}");
}
