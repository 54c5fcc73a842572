//! Ticks on a CPU that a real-time thread takes away at set times. The clock finds the slots itself.
//! Its ticks must finish about as soon as the ticks of a clock that knows the slots.

use std::time::Duration;

use evenkeel_rt::{Align, Aligned, Quantum, ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};

use crate::stage::{Group, MS, OFF_NS, Slots, Taker, cpu, limited, may_be_real_time, pin};

const TRIES: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Server {
    period_ms: f64,
    work_ms: f64,
    seconds: f64,
    align: Align,
    /// The start of our share and its period in milliseconds, for a clock that knows them.
    informed: Option<(u64, f64)>,
    sets_up: bool,
    /// The control group that the server's thread enters.
    group: Option<&'static Group>,
}

struct Ran {
    /// For each tick: its start in seconds, and the time from due to done in milliseconds.
    ticks: Vec<(f64, f64)>,
    aligned: Aligned,
    interval_ms: f64,
    /// The share of the work's time that was lost between two clock readings: taken by the hog, a neighbour, or the machine.
    gone_share: f64,
}

impl Ran {
    fn median_after(&self, second: f64) -> f64 {
        let mut ms: Vec<f64> = self.ticks.iter().filter(|(at, _)| *at >= second).map(|(_, ms)| *ms).collect();
        ms.sort_unstable_by(f64::total_cmp);
        ms[ms.len() / 2]
    }

    fn mean_after(&self, second: f64) -> f64 {
        let ms: Vec<f64> = self.ticks.iter().filter(|(at, _)| *at >= second).map(|(_, ms)| *ms).collect();
        ms.iter().sum::<f64>() / ms.len() as f64
    }
}

const SERVER: Server = Server {
    period_ms: 20.0,
    work_ms: 3.5,
    seconds: 12.0,
    align: Align::Measured,
    informed: None,
    sets_up: true,
    group: None,
};

fn serve(cpu: usize, server: Server) -> Ran {
    let body = move || {
        let config = ThreadConfig { cpus: Some([cpu].into_iter().collect()), ..ThreadConfig::default() };
        pin(cpu);
        if let Some(group) = server.group {
            std::fs::write(group.0.join("tasks"), thread::id().to_string()).unwrap();
        }
        let _thread = server.sets_up.then(|| TickThread::set_up(&config));
        let period = Duration::from_nanos((server.period_ms * MS) as u64);
        let mut clock =
            TickClock::start(TickSettings { period, align: server.align, ..TickSettings::default() }).unwrap();
        if let Some((start_ns, quantum_ms)) = server.informed {
            let turns = (clock.next_due_ns() as f64 - start_ns as f64) / (quantum_ms * MS);
            clock.shift_ns(((turns.ceil() - turns) * quantum_ms * MS + 50_000.0) as i64);
        }
        let begin_ns = clock::monotonic_ns();
        let mut ticks = Vec::with_capacity(1 << 16);
        let (mut last_ns, mut gone_ns) = (begin_ns, 0);
        while last_ns < begin_ns + (server.seconds * 1e9) as u64 {
            let tick = clock.wait();
            let until_ns = clock::thread_cpu_ns() + (server.work_ms * MS) as u64;
            let mut look_ns = clock::monotonic_ns();
            while clock::thread_cpu_ns() < until_ns {
                let now_ns = clock::monotonic_ns();
                gone_ns += if now_ns - look_ns > OFF_NS { now_ns - look_ns } else { 0 };
                look_ns = now_ns;
            }
            let done = clock.done().unwrap();
            last_ns = tick.began_ns;
            ticks.push(((last_ns - begin_ns) as f64 / 1e9, done.due_to_done_ns() as f64 / MS));
        }
        let span_ms = (ticks.last().unwrap().0 - ticks[0].0) * 1e3;
        let gone_share = gone_ns as f64 / (ticks.len() as f64 * server.work_ms * MS);
        Ran { interval_ms: span_ms / (ticks.len() - 1) as f64, ticks, aligned: clock.aligned(), gone_share }
    };
    std::thread::spawn(body).join().unwrap()
}

/// Each try returns a description, whether the result was right, and whether the conditions were as requested.
/// If the machine takes the CPU at other times, or other programs use the CPU, a wrong result shows nothing about the clock.
fn holds(mut try_it: impl FnMut() -> (String, bool, bool)) {
    fitness::holds(TRIES, || {
        let (seen, is_right, is_staged) = try_it();
        println!("{seen}");
        if is_right {
            return Some(Ok(()));
        }
        let unmet = if is_staged { Needs::on_cpu(cpu()).unmet() } else { Some("the stage was another one".to_owned()) };
        unmet.iter().for_each(|why| println!("a try was wrong, where {why}"));
        unmet.is_none().then_some(Err(seen))
    });
}

/// Runs the clock next to an RT hog. Then, for three seconds, runs a clock that knows where the share begins.
/// The last value is whether the hog was on time in both runs.
fn next_to_a_hog(slots: Slots, server: Server) -> (Ran, Ran, bool) {
    let cpu = cpu();
    // The first tick may be at any phase.
    let begin = |part: f64| clock::monotonic_ns() + 20_000_000 + (part * slots.period_ms * MS) as u64;
    let chance = clock::monotonic_ns() % 997;
    let hog = Taker::hog(cpu, Slots { start_ns: begin(chance as f64 / 997.0), ..slots });
    let ran = serve(cpu, server);
    let off_share = hog.off_share();
    drop(hog);
    let slots = Slots { drift_ppm: 0.0, start_ns: begin(0.0), ..slots };
    let hog = Taker::hog(cpu, slots);
    let informed = Some((slots.start_ns, slots.period_ms));
    let informed = serve(cpu, Server { align: Align::Never, seconds: 3.0, informed, ..server });
    let off_share = off_share.max(hog.off_share());
    drop(hog);
    println!("{:.1} % of a hog's turns were off their time", 100.0 * off_share);
    (ran, informed, off_share < 0.05)
}

/// Ticks of 20 ms, or of the nearest multiple of the hog's period, find the share that the hog leaves.
fn find(period_ms: f64, share: f64, jitter: f64, drift_ppm: f64) {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let slots = Slots { period_ms, share, jitter, drift_ppm, start_ns: 0 };
    let ticks_ms = period_ms * (20.0_f64 / period_ms).round().max(1.0);
    let server = Server { period_ms: ticks_ms, work_ms: 3.5_f64.min(0.6 * share * ticks_ms), ..SERVER };
    holds(|| {
        let (ran, informed, is_staged) = next_to_a_hog(slots, server);
        let (got, bar) = (ran.median_after(8.0), informed.median_after(0.5));
        let seen = format!(
            "{slots:?} ticks {ticks_ms} ms: {got:.3} ms, mean {:.3}, informed {bar:.3}, interval {:.4}, {:?}",
            ran.mean_after(8.0),
            ran.interval_ms,
            ran.aligned
        );
        (seen, got <= bar * 1.05 && matches!(ran.aligned.quantum, Quantum::FixedSlot(_)), is_staged)
    });
}

#[test]
fn ticks_find_4_of_10_ms_with_jitter_and_drift() {
    find(10.0, 0.4, 0.02, 100.0);
}

#[test]
fn ticks_find_4_of_10_ms() {
    find(10.0, 0.4, 0.0, 0.0);
}

#[test]
fn ticks_find_3_of_5_ms_with_jitter_and_drift() {
    find(5.0, 0.6, 0.02, 100.0);
}

#[test]
fn ticks_find_nine_tenths_of_5_ms() {
    find(5.0, 0.9, 0.0, 0.0);
}

#[test]
fn ticks_find_four_fifths_of_8_ms_with_jitter_and_drift() {
    find(8.0, 0.8, 0.02, 100.0);
}

#[test]
fn ticks_find_two_fifths_of_15_6_ms_with_jitter_and_drift() {
    find(15.6, 0.4, 0.02, 100.0);
}

#[test]
fn ticks_find_8_of_20_ms_with_jitter_and_drift() {
    find(20.0, 0.4, 0.02, 100.0);
}

#[test]
fn ticks_find_6_of_30_ms_with_jitter_and_drift() {
    find(30.0, 0.2, 0.02, 100.0);
}

#[test]
fn ticks_stay_there_for_90_seconds() {
    stay_for(90);
}

#[test]
#[ignore = "an hour, for figures in documents"]
fn ticks_stay_there_for_an_hour() {
    stay_for(3_600);
}

/// Next to a hog with jitter and drift, compares the clock in each half minute with a clock that knows the slots.
fn stay_for(seconds: u32) {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let slots = Slots { period_ms: 10.0, share: 0.4, jitter: 0.02, drift_ppm: 100.0, start_ns: 0 };
    holds(|| {
        let (ran, informed, is_staged) = next_to_a_hog(slots, Server { seconds: f64::from(seconds), ..SERVER });
        let bar = informed.median_after(0.5);
        let mut behind = Vec::new();
        for from in (0..seconds / 30).map(|part| f64::from(part) * 30.0) {
            let within = Ran {
                ticks: ran.ticks.iter().filter(|(at, _)| (from..from + 30.0).contains(at)).copied().collect(),
                aligned: ran.aligned,
                interval_ms: 0.0,
                gone_share: 0.0,
            };
            println!(
                "{from} s: {:.3} ms, mean {:.3}, informed {bar:.3}",
                within.median_after(0.0),
                within.mean_after(0.0)
            );
            if from > 0.0 && within.median_after(0.0) > bar * 1.05 {
                behind.push(from);
            }
        }
        let seen = format!(
            "more than 5 % behind in the half minutes from {behind:?} s; interval {:.4} ms, {:?}",
            ran.interval_ms, ran.aligned
        );
        (seen, behind.is_empty(), is_staged)
    });
}

/// Without slots the clock loses nothing: with a neighbour or alone, with a configured thread and without.
fn lose_nothing(sets_up: bool, is_quiet: bool, seconds: f64) {
    let _host = HostLock::take();
    let server = Server { sets_up, seconds, ..SERVER };
    holds(|| {
        let _neighbour = (!is_quiet).then(|| Taker::neighbour(cpu()));
        let (ran, left) = (serve(cpu(), server), serve(cpu(), Server { align: Align::Never, ..server }));
        let (got, bar) = (ran.mean_after(0.0), left.mean_after(0.0));
        // If no other thread uses the CPU, only the machine itself takes any of it.
        let gone_share = ran.gone_share.max(left.gone_share);
        let seen = format!(
            "set up {sets_up}, quiet {is_quiet}: {got:.3} ms, median {:.3}; unaligned {bar:.3}, {:.3}; interval {:.4}, \
             {:.1} % of the work's time was gone, {:?}",
            ran.median_after(0.0),
            left.median_after(0.0),
            ran.interval_ms,
            100.0 * gone_share,
            ran.aligned
        );
        // Use three times the limit of a long run, because this run is short and varies more.
        let is_right = got <= bar * 1.03 && !matches!(ran.aligned.quantum, Quantum::FixedSlot(_));
        (seen, is_right, !is_quiet || gone_share < 0.01)
    });
}

#[test]
fn alone_nothing_is_lost() {
    lose_nothing(true, true, 4.0);
}

#[test]
fn alone_nothing_is_lost_by_an_ordinary_thread() {
    lose_nothing(false, true, 10.0);
}

#[test]
fn beside_a_neighbour_nothing_is_lost() {
    lose_nothing(true, false, 30.0);
}

#[test]
fn beside_a_neighbour_nothing_is_lost_by_an_ordinary_thread() {
    lose_nothing(false, false, 30.0);
}

/// Under a limit, the clock tries several phases, because no rule shows which phase is best.
/// The check compares the clock with clocks that stay at each of eight phases.
fn come_near_the_best_place(work_ms: f64) {
    let _host = HostLock::take();
    let Some(limited) = limited() else { return };
    let server = Server { work_ms, group: Some(limited.0), seconds: 20.0, ..SERVER };
    holds(|| {
        let ran = serve(cpu(), server);
        let places = (0..8_u64).map(|place| {
            let informed = Some((place * 1_250_000, 10.0));
            serve(cpu(), Server { align: Align::Never, informed, seconds: 3.0, ..server }).mean_after(0.5)
        });
        let places: Vec<f64> = places.collect();
        let best = places.iter().copied().fold(f64::INFINITY, f64::min);
        let got = ran.mean_after(12.0);
        let seen = format!("{work_ms} ms under 4 of 10: {got:.3} ms; places {places:.3?}; {:?}", ran.aligned);
        (seen, got <= best * 1.05, true)
    });
}

#[test]
fn under_a_limit_short_ticks_come_near_the_best_place() {
    come_near_the_best_place(3.0);
}

#[test]
fn under_a_limit_long_ticks_come_near_the_best_place() {
    come_near_the_best_place(6.5);
}

/// The mean and the median interval of ticks at 4 of 10 ms, measured as in a game's published table.
fn keep_intervals(period_ms: f64, work_ms: f64, bar_ms: f64) {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let slots = Slots { period_ms: 10.0, share: 0.4, jitter: 0.0, drift_ppm: 0.0, start_ns: 0 };
    holds(|| {
        let (ran, informed, is_staged) = next_to_a_hog(slots, Server { period_ms, work_ms, ..SERVER });
        let (got, bar) = (ran.median_after(8.0), informed.median_after(0.5));
        let seen = format!(
            "4 of 10 ms, {work_ms} ms of work in {period_ms}: mean interval {:.4} ms, due to done {got:.3} ms, informed {bar:.3}",
            ran.interval_ms
        );
        (seen, ran.interval_ms <= bar_ms && got <= bar * 1.05, is_staged)
    });
}

#[test]
fn intervals_of_short_work_are_as_good_as_published() {
    keep_intervals(20.0, 3.5, 20.02);
}

#[test]
fn intervals_of_half_a_period_of_work_are_as_good_as_published() {
    keep_intervals(20.0, 6.5, 20.02);
}

#[test]
fn intervals_of_long_work_are_as_good_as_published() {
    keep_intervals(40.0, 13.0, 40.04);
}

#[test]
fn intervals_on_a_whole_cpu_are_as_good_as_published() {
    let _host = HostLock::take();
    holds(|| {
        let whole = serve(cpu(), SERVER);
        let seen = format!("the whole CPU: mean interval {:.4} ms", whole.interval_ms);
        (seen, whole.interval_ms <= 20.005, whole.gone_share < 0.01)
    });
}
