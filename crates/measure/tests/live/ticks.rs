//! Compares a thread that ticks and records its own ticks with the meter that observes the thread only from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use evenkeel_measure::meters::ticks::account::Due;
use evenkeel_measure::meters::ticks::choice::{Unclear, Wanted};
use evenkeel_measure::meters::ticks::tempo::{NoTick, Pacing};
use evenkeel_measure::meters::ticks::{Report, Settings, record, report};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::fitness::{self, Machine, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

const PERIOD_NS: u64 = 10_000_000;
const WORK_NS: u64 = 1_500_000;

/// The times of a tick in the thread's own record: due, begun, done.
type Own = Vec<(u64, u64, u64)>;

/// A thread that ticks until it is stopped.
struct Ticker {
    thread: JoinHandle<Own>,
    stop: std::sync::Arc<AtomicBool>,
}

impl Ticker {
    /// Starts the thread. Between the ticks, it wakes `others` more times, with almost no work.
    fn start(name: &str, others: u64) -> Ticker {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let ended = std::sync::Arc::clone(&stop);
        // A thread gets its name when it first runs.
        let (say, hear) = channel();
        let inside = move || {
            say.send(()).unwrap();
            let mut own = Own::new();
            let mut due_ns = clock::monotonic_ns() + PERIOD_NS;
            while !ended.load(Ordering::Relaxed) {
                for nth in 1..=others {
                    // These wakes occur at irregular times.
                    let off_ns = (due_ns / 1000 * nth) % (PERIOD_NS / 2);
                    clock::sleep_until_ns(due_ns - PERIOD_NS / 2 + off_ns / others * nth - off_ns / 2);
                }
                clock::sleep_until_ns(due_ns);
                let begun_ns = clock::monotonic_ns();
                while clock::monotonic_ns() < begun_ns + WORK_NS {
                    std::hint::spin_loop();
                }
                let done_ns = clock::monotonic_ns();
                own.push((due_ns, begun_ns, done_ns));
                while due_ns <= done_ns {
                    due_ns += PERIOD_NS;
                }
            }
            own
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(inside).unwrap();
        hear.recv().unwrap();
        Ticker { thread, stop }
    }

    fn end(self) -> Own {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn measured(thread: Option<&str>, seconds: u64) -> Option<Report> {
    let stop = AtomicBool::new(false);
    let wanted = Wanted { thread: thread.map(str::to_owned), ..Wanted::default() };
    let settings = Settings { pids: vec![std::process::id()], wanted: wanted.clone(), for_ns: seconds * 1_000_000_000 };
    match record(&settings, &Watch::new(&stop, &|_, _| {})) {
        Ok(stream) => Some(report(&stream, &wanted)),
        Err(MeterError::Refused { what, errno }) => {
            not_judged(format_args!("{what}: {errno}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn middle(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    values[values.len() / 2] as f64
}

/// Compares the medians, because a pause of the machine changes the largest values in both records alike.
fn compare(report: &Report, own: &Own) -> Result<(), String> {
    let ticks = report.ticks.as_ref().ok_or_else(|| format!("no tick: {:?}", report.choice.unclear))?;
    let p50 =
        |samples: &evenkeel_measure::Samples| samples.histogram.summary().map_or(0.0, |summary| summary.p50 as f64);
    let rows = [
        ("interval", p50(&ticks.interval_ns), middle(own.windows(2).map(|pair| pair[1].1 - pair[0].1).collect()), 0.01),
        ("work", p50(&ticks.work_ns), middle(own.iter().map(|(_, begun, done)| done - begun).collect()), 0.03),
        ("begun to done", p50(&ticks.wall_ns), middle(own.iter().map(|(_, begun, done)| done - begun).collect()), 0.03),
        (
            "due to done",
            p50(&ticks.due_to_done_ns),
            middle(own.iter().map(|(due, _, done)| done - due).collect()),
            0.03,
        ),
    ];
    // For the kernel, waking and going back to sleep belong to a tick, but the thread does not see them.
    // With nested hypervisors they may be expensive, so allow as much time as they cost any thread on this machine.
    let around_ns = Machine::seen_on(thread::current_cpu()).turn_ns as f64;
    for (name, seen, recorded, within) in rows {
        let over_ns = if name == "interval" { 0.0 } else { around_ns };
        println!("{name}: seen {seen:.0} ns, recorded {recorded:.0} ns, {:+.2} %", (seen / recorded - 1.0) * 100.0);
        // Without the thread's own requests, the due time is a guess.
        if name == "due to done" && ticks.due == Due::Earliest {
            not_judged("the thread's requested times are not visible here");
            continue;
        }
        if seen < recorded * (1.0 - within) || seen > recorded * (1.0 + within) + over_ns {
            return Err(format!("{name}: seen {seen}, recorded {recorded}, and {over_ns} around"));
        }
    }
    let hz = 1e9 / PERIOD_NS as f64;
    if (ticks.tick_hz / hz - 1.0).abs() > 0.001 || ticks.pacing != Pacing::FixedTimes {
        return Err(format!("{} Hz, {:?}", ticks.tick_hz, ticks.pacing));
    }
    Ok(())
}

/// The thread that does most of the tick's work.
fn who(report: &Report) -> &str {
    report.choice.tick().ok().and_then(|tick| tick.carriers.first()).map_or("nobody", |carrier| &carrier.name)
}

/// A busy neighbour may spoil one attempt. A fault of the meter spoils all three.
fn one_of_three(one: impl FnMut() -> Result<(), String>) {
    fitness::one_of(3, &Needs::on_last_cpu(), one);
}

#[test]
fn the_meter_agrees_with_the_threads_own_record() {
    let _host = HostLock::take();
    one_of_three(|| {
        let ticker = Ticker::start("ek-ticks", 3);
        let report = measured(None, 2);
        let own = ticker.end();
        let Some(report) = report else { return Ok(()) };
        let chosen = who(&report).to_owned();
        if chosen != "ek-ticks" {
            return Err(format!("the thread {chosen} was chosen"));
        }
        // The calibration checks the reader's cost. Here the cost must only be plausible.
        if report.reader_cpu_share > 0.05 {
            return Err(format!("reading took {} of a CPU", report.reader_cpu_share));
        }
        compare(&report, &own)
    });
}

#[test]
fn the_tick_is_found_among_a_thousand_threads() {
    let _host = HostLock::take();
    let stop = std::sync::Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let idle: Vec<_> = (0..1000)
        .filter_map(|_| {
            let stop = std::sync::Arc::clone(&stop);
            let wait = move || {
                let mut is_over = stop.0.lock().unwrap();
                while !*is_over {
                    is_over = stop.1.wait(is_over).unwrap();
                }
            };
            std::thread::Builder::new().stack_size(32 << 10).spawn(wait).ok()
        })
        .collect();
    one_of_three(|| {
        let ticker = Ticker::start("ek-one-of-many", 0);
        let report = measured(None, 1);
        ticker.end();
        let Some(report) = report else { return Ok(()) };
        let chosen = who(&report).to_owned();
        let threads = report.threads.len() + report.unwatched_threads;
        let is_found = chosen == "ek-one-of-many" && report.ticks.is_some() && report.unwatched_threads > 900;
        if is_found { Ok(()) } else { Err(format!("{chosen} of {threads}: {:?}", report.choice.unclear)) }
    });
    *stop.0.lock().unwrap() = true;
    stop.1.notify_all();
    for thread in idle {
        thread.join().unwrap();
    }
}

#[test]
fn ten_thousand_switches_a_second_are_no_tick_and_nothing_is_lost() {
    let _host = HostLock::take();
    // A reader that gets no CPU for too long loses some records, and reports the loss.
    one_of_three(|| match beside_many_switches() {
        Some(report) if !report.unseen.is_nothing() => Err(format!("{:?}", report.unseen)),
        _ => Ok(()),
    });
}

fn beside_many_switches() -> Option<Report> {
    let (to, from) = channel::<()>();
    let (back, end) = channel::<()>();
    let (begun, has_begun) = channel();
    let worker = std::thread::Builder::new().name("ek-requests".into()).spawn(move || {
        begun.send(()).unwrap();
        while from.recv().is_ok() {
            let until_ns = clock::monotonic_ns() + 20_000;
            while clock::monotonic_ns() < until_ns {}
            if back.send(()).is_err() {
                break;
            }
        }
    });
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let ended = std::sync::Arc::clone(&stop);
    let client = std::thread::spawn(move || {
        let mut seed = 1_u64;
        while !ended.load(Ordering::Relaxed) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            clock::sleep_until_ns(clock::monotonic_ns() + (seed >> 33) % 200_000);
            if to.send(()).is_err() || end.recv().is_err() {
                break;
            }
        }
    });
    // A thread gets its name only when it first runs.
    has_begun.recv().unwrap();
    let report = measured(Some("ek-requests"), 2);
    stop.store(true, Ordering::Relaxed);
    client.join().unwrap();
    worker.unwrap().join().unwrap();
    let report = report?;
    let wakes_per_s = report.threads.first().map_or(0.0, |thread| thread.wakes_per_s);
    println!("{wakes_per_s:.0} wakes a second, reader {:.4} of a CPU, {:?}", report.reader_cpu_share, report.unseen);
    assert!(report.ticks.is_none(), "{:?}", report.ticks.as_ref().map(|ticks| ticks.tick_hz));
    let why = &report.choice.unclear;
    let is_none = matches!(why, Some(Unclear::NoLoop { reason: NoTick::NoPeriod | NoTick::TooMany }));
    assert!(is_none, "{why:?}");
    Some(report)
}
