//! Checks that each disturber has the shape that it reports.
//! We observe the disturber from outside: with a thread on its CPU,
//! with a port that receives its packets, or by the kernel's counts.
//!
//! These tests run on machines that pause and have other users. So a test needs the shape in only one of a few runs.
//! The test compares that run with the disturber's own report on the run, never with a clock alone.

use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::parse_per_cpu;
use evenkeel_measure::disturb::memory::{bandwidth, headroom, pressure};
use evenkeel_measure::disturb::spinner::Duty;
use evenkeel_measure::disturb::storm::{packets, timers, wakes};
use evenkeel_measure::disturb::{all_cpus, quantum, sibling, spinner};
use evenkeel_measure::meters::udp;
use evenkeel_measure::{MeterError, Missing, Spin, Watch};
use evenkeel_sys::tsc::Scale;
use evenkeel_sys::{CpuSet, clock, thread};
use evenkeel_testkit::fitness::{self, Machine, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const RUNS: usize = 4;

/// Repeats a run until it succeeds. Otherwise returns the last error.
fn in_one_of_some_runs(run: impl FnMut() -> Result<(), String>) {
    fitness::one_of(RUNS, &Needs::on_last_cpu(), run);
}

fn ensure(well: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if well { Ok(()) } else { Err(why()) }
}

fn in_ms(ms: u64) -> u64 {
    clock::monotonic_ns() + ms * MS
}

/// The started disturber. If this user may not start it, records the check as not judged and returns None.
fn allowed<T>(started: Result<T, MeterError>) -> Option<T> {
    match started {
        Ok(running) => Some(running),
        Err(MeterError::Refused { what, errno }) if errno.is_denial() => {
            not_judged(format_args!("{what}: {errno}"));
            None
        }
        Err(MeterError::NotPossible { what, why }) => {
            not_judged(format_args!("{what}: {why}"));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn last_cpu() -> CpuSet {
    all_cpus().unwrap().iter().last().into_iter().collect()
}

/// The stretches of a millisecond or more in which an ordinary thread on `cpu` did not run.
fn missing_on(cpu: usize, until_ns: u64) -> Vec<(u64, u64)> {
    let watcher = std::thread::spawn(move || {
        thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
        let scale = Scale::measured();
        let mut seen: Vec<Missing> = Vec::new();
        Spin { scale, threshold_ns: MS }.until(scale.ticks_at(until_ns), |missing| {
            seen.push(missing);
            seen.len() < 10_000
        });
        let scale = scale.since();
        seen.into_iter().map(|one| (scale.ns_at(one.start_ticks), scale.ns_at(one.end_ticks))).collect()
    });
    watcher.join().unwrap()
}

fn quantum_of(cpus: CpuSet) -> quantum::Settings {
    quantum::Settings {
        cpus,
        period_ns: 10 * MS,
        share_left: 0.6,
        phase_ns: 3 * MS,
        jitter_ns: 0,
        jitter_adds_up: false,
        drift_ppm: 0.0,
        priority: 60,
        seed: 5,
    }
}

/// The gaps have the requested length, are one period apart, and are shifted by the phase from each CPU to the next.
#[test]
fn a_quantum_is_seen_by_others_as_it_is_asked_for() {
    let _host = HostLock::take();
    let settings = quantum_of(all_cpus().unwrap());
    in_one_of_some_runs(|| {
        let Some(running) = allowed(quantum::start(&settings, in_ms(600))) else { return Ok(()) };
        let until_ns = in_ms(550);
        let watchers: Vec<_> =
            settings.cpus.iter().map(|cpu| std::thread::spawn(move || missing_on(cpu, until_ns))).collect();
        let seen: Vec<Vec<(u64, u64)>> = watchers.into_iter().map(|watcher| watcher.join().unwrap()).collect();
        let report = running.stop();
        for (at, (cpu, gaps)) in report.cpus.iter().zip(&seen).enumerate() {
            ensure((cpu.share_left - 0.6).abs() < 0.02, || format!("{cpu:?}"))?;
            ensure(cpu.period_ns_mean.is_some_and(|ns| (ns / 1e7 - 1.0).abs() < 0.01), || format!("{cpu:?}"))?;
            let phase_ns = 3 * MS * at as u64 % (10 * MS);
            ensure(cpu.start_ns == report.cpus[0].start_ns + phase_ns, || format!("{cpu:?}"))?;
            // A gap belongs to a slot if it begins on the grid. A busy neighbour may lengthen some gaps.
            let in_grid = gaps.iter().filter(|(start_ns, end_ns)| {
                let off_ns = (start_ns + 10 * MS / 2).saturating_sub(cpu.start_ns) % (10 * MS);
                off_ns.abs_diff(10 * MS / 2) < MS / 5 && (end_ns - start_ns).abs_diff(4 * MS) < MS / 5
            });
            let (in_grid, turns) = (in_grid.count() as u64, cpu.turns);
            ensure(in_grid * 10 >= turns * 7 && turns >= 40, || format!("{in_grid} of {turns}: {gaps:?}"))?;
        }
        Ok(())
    });
}

#[test]
fn a_quantum_jitters_and_drifts_as_it_is_asked_to() {
    let _host = HostLock::take();
    let settings = quantum::Settings {
        period_ns: 5 * MS,
        share_left: 0.9,
        jitter_ns: MS,
        jitter_adds_up: false,
        drift_ppm: 20_000.0,
        ..quantum_of(last_cpu())
    };
    in_one_of_some_runs(|| {
        let Some(running) = allowed(quantum::start(&settings, in_ms(500))) else { return Ok(()) };
        clock::sleep_until_ns(in_ms(520));
        let cpu = running.stop().cpus.remove(0);
        // The jitter of both ends is at most 1 ms each, in a run of some 460 ms.
        ensure(cpu.period_ns_mean.is_some_and(|ns| (ns / 5.1e6 - 1.0).abs() < 0.006), || {
            format!("period {:?} ns", cpu.period_ns_mean)
        })?;
        // If the wake-up came late in a slot, the slot is shorter, because its end is fixed.
        // The reported times must add up, except for the overhead of each turn.
        // On some hypervisors the overhead is as long as the shortest slots.
        let Some(bare) =
            allowed(quantum::start(&quantum::Settings { share_left: 0.9999, ..settings.clone() }, in_ms(300)))
        else {
            return Ok(());
        };
        clock::sleep_until_ns(in_ms(320));
        let bare = bare.stop().cpus.remove(0);
        let asked = 0.5 / 5.1 * cpu.turns as f64 / (cpu.turns + cpu.missed_turns) as f64;
        let late_share = cpu.late.histogram.mean().unwrap_or_default() / (5.1 * MS as f64);
        let said = cpu.share_taken - bare.share_taken + late_share;
        let few_missed = cpu.missed_turns * 4 <= cpu.turns;
        ensure((said - asked).abs() < 0.01 && bare.share_taken < asked / 2.0 && few_missed, || {
            format!("{said} of {asked}: {cpu:?}, bare {bare:?}")
        })
    });
}

/// The kernel's run time of our threads with this name, in nanoseconds, by thread.
fn ran_ns(name: &str) -> Vec<u64> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let named = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    named
        .filter_map(|task| fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok())
        .collect()
}

fn spinners(threads: usize, duty: Duty) -> spinner::Settings {
    spinner::Settings { cpus: last_cpu(), threads, nice: 5, duty }
}

/// A spinner's report equals the kernel's counts. On a free CPU, the spinner gets all the CPU time that it requests.
#[test]
fn a_spinner_runs_as_much_as_it_says() {
    let _host = HostLock::take();
    in_one_of_some_runs(|| {
        let running = spinner::start(&spinners(2, Duty::Always), in_ms(60_000)).unwrap();
        let cpu = last_cpu().first();
        clock::sleep_until_ns(in_ms(400));
        let seen = ran_ns("evenkeel-spinne");
        let report = running.stop();
        assert_eq!(report.threads.len(), 2);
        // Threads of an earlier run may still be listed.
        ensure(seen.len() == 2, || format!("{seen:?}"))?;
        for (thread, seen_ns) in report.threads.iter().zip(&seen) {
            assert_eq!(thread.cpu, cpu);
            // The kernel updates a running thread's count at the scheduler's tick.
            ensure(thread.taken_ns.abs_diff(*seen_ns) < 30 * MS, || format!("{thread:?} {seen_ns}"))?;
        }
        let both: f64 = report.threads.iter().map(|thread| thread.share_taken).sum();
        ensure(both <= 1.02, || format!("two threads had {both} of one CPU"))
    });
    // A joined thread stays in the list a little longer.
    let tries = (0..400).take_while(|_| !ran_ns("evenkeel-spinne").is_empty());
    assert!(tries.map(|_| clock::sleep_until_ns(in_ms(5))).count() < 400, "none is left");
}

#[test]
fn a_spinner_rests_as_it_is_asked_to() {
    let _host = HostLock::take();
    let share = Duty::Share { share_busy: 0.3, period_ns: 10 * MS };
    let random = Duty::Random { busy_ns_mean: 2 * MS, idle_ns_mean: 6 * MS, seed: 3 };
    for (duty, wanted, within) in [(share, 0.3, 0.03), (random, 0.25, 0.1)] {
        in_one_of_some_runs(|| {
            let running = spinner::start(&spinners(1, duty), in_ms(800)).unwrap();
            clock::sleep_until_ns(in_ms(810));
            let thread = running.stop().threads.remove(0);
            let had = thread.wanted_ns as f64 / thread.elapsed_ns as f64;
            ensure((had - wanted).abs() < within && thread.turns > 20, || format!("{thread:?}"))?;
            // Resting also costs time. On some hypervisors this cost is high.
            let turns_ns = 2 * thread.turns * Machine::seen_on(last_cpu().first().unwrap()).turn_ns;
            ensure(thread.taken_ns <= thread.wanted_ns + 20 * MS + turns_ns, || format!("{thread:?}"))
        });
    }
}

fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_thrasher_walks_through_its_working_set() {
    let _host = HostLock::take();
    let settings = sibling::Settings { cpus: last_cpu(), working_set_bytes: 64 * MIB };
    // With two nested hypervisors, the first touch of a page may take tens of microseconds.
    let mut for_ms = 100;
    in_one_of_some_runs(|| {
        for_ms *= 3;
        let before = resident_bytes();
        let Some(running) = allowed(sibling::start(&settings, in_ms(60_000))) else { return Ok(()) };
        clock::sleep_until_ns(in_ms(for_ms));
        let (held, ran) = (resident_bytes().saturating_sub(before), ran_ns("evenkeel-siblin"));
        let cpu = running.stop().cpus.remove(0);
        ensure(held >= 60 * MIB, || format!("{held}"))?;
        ensure(cpu.passes >= 1.0 && (cpu.passes - cpu.lines as f64 / (1 << 20) as f64).abs() < 1e-6, || {
            format!("{cpu:?}")
        })?;
        // The report does not include the time to fill the working set.
        ensure(ran.len() == 1 && ran[0] + 30 * MS >= cpu.taken_ns, || format!("{ran:?} {cpu:?}"))
    });
}

#[test]
fn bandwidth_moves_what_it_says() {
    let _host = HostLock::take();
    let settings = bandwidth::Settings { cpus: last_cpu(), working_set_bytes: 64 * MIB };
    let mut for_ms = 100;
    in_one_of_some_runs(|| {
        for_ms *= 3;
        let Some(running) = allowed(bandwidth::start(&settings, in_ms(for_ms))) else { return Ok(()) };
        clock::sleep_until_ns(in_ms(for_ms + 10));
        let cpu = running.stop().cpus.remove(0);
        let per_s = cpu.copied_bytes as f64 * 1e9 / cpu.elapsed_ns as f64;
        ensure((per_s / cpu.copied_bytes_per_s - 1.0).abs() < 1e-9, || format!("{cpu:?}"))?;
        // Every machine copies between 100 MB and a terabyte per second of CPU time.
        let per_cpu_s = cpu.copied_bytes as f64 * 1e9 / cpu.taken_ns.max(1) as f64;
        ensure((1e8..1e12).contains(&per_cpu_s), || format!("{cpu:?}"))
    });
}

/// A port receives every sent packet, at the requested size and rate.
#[test]
fn packets_arrive_as_they_are_counted() {
    let _host = HostLock::take();
    in_one_of_some_runs(|| {
        let heard = UdpSocket::bind("127.0.0.1:0").unwrap();
        heard.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let to = packets::To::Own(heard.local_addr().unwrap());
        let settings = packets::Settings { cpus: last_cpu(), to, rate_per_s: 3000, size_bytes: 77 };
        let running = packets::start(&settings, in_ms(400)).unwrap();
        let (mut count, mut bytes) = (0_u64, [0; 2048]);
        let until_ns = in_ms(500);
        while clock::monotonic_ns() < until_ns {
            if let Ok(length) = heard.recv(&mut bytes) {
                assert_eq!(length, 77);
                count += 1;
            }
        }
        let report = running.stop();
        let cpu = &report.cpus[0];
        ensure(count == report.sent && cpu.unheard == 0 && cpu.refused == 0, || format!("{count}: {report:?}"))?;
        ensure((cpu.sent + cpu.missed).abs_diff(1200) < 150, || format!("{report:?}"))?;
        ensure(cpu.softirqs.is_none_or(|softirqs| softirqs > 0), || format!("{report:?}"))
    });
}

/// Runs `storm` against a server that consents, and returns what the server counted.
fn with_a_consenting_peer<T>(seconds: f64, storm: impl FnOnce(packets::To) -> T) -> (T, udp::Counted) {
    let at = "127.0.0.1:0".parse().unwrap();
    let server = udp::server::Server::bind(&udp::server::Settings {
        at,
        seconds,
        cpu: None,
        echoes_per_s_max: 10,
        give_bits_per_s_max: 0,
        receive_buffer_bytes: None,
    });
    let (server, stop) = (server.unwrap(), AtomicBool::new(false));
    let peer = packets::To::Peer { peer: server.address() };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = server.run(&Watch::new(&stop, &|_, _| {})).unwrap();
            drop(server);
            served
        });
        let did = storm(peer);
        stop.store(true, Ordering::Relaxed);
        (did, serving.join().unwrap().packets)
    })
}

#[test]
fn a_peer_that_agrees_counts_the_same_packets() {
    let _host = HostLock::take();
    in_one_of_some_runs(|| {
        let (report, counted) = with_a_consenting_peer(60.0, |to| {
            let settings = packets::Settings { cpus: last_cpu(), to, rate_per_s: 3000, size_bytes: 77 };
            let running = packets::start(&settings, in_ms(400)).unwrap();
            clock::sleep_until_ns(in_ms(500));
            running.stop()
        });
        let cpu = &report.cpus[0];
        assert!(!cpu.peer_went_away && cpu.unheard == 0, "{report:?}");
        ensure(cpu.arrived == Some(report.sent), || format!("{report:?}"))?;
        ensure((cpu.sent + cpu.missed).abs_diff(1200) < 150, || format!("{report:?}"))?;
        ensure(counted.malformed == 0 && counted.unproven == 0, || format!("{counted:?}"))
    });
}

/// The count of a CPU in /proc/interrupts.
fn interrupts(label: &str, cpu: usize) -> Option<u64> {
    parse_per_cpu(&fs::read_to_string("/proc/interrupts").ok()?).count(label, cpu)
}

#[test]
fn a_timer_storm_causes_timer_interrupts() {
    let _host = HostLock::take();
    let settings = timers::Settings { cpus: last_cpu(), rate_per_s: 4000 };
    let cpu = last_cpu().first().unwrap();
    in_one_of_some_runs(|| {
        let before = interrupts("LOC", cpu);
        let running = timers::start(&settings, in_ms(400)).unwrap();
        clock::sleep_until_ns(in_ms(410));
        let seen = running.stop().cpus.remove(0);
        let Some(counted) = interrupts("LOC", cpu).zip(before).map(|(after, before)| after - before) else {
            not_judged("the kernel does not count local timer interrupts here");
            return Ok(());
        };
        ensure((seen.timers + seen.late.lost.count).abs_diff(1600) < 200, || format!("{seen:?}"))?;
        ensure(counted * 10 >= seen.timers * 9 && seen.timers > 1000, || format!("{counted}: {seen:?}"))?;
        ensure(seen.interrupts.is_some_and(|reported| reported <= counted && reported * 10 >= seen.timers * 9), || {
            format!("{seen:?}")
        })
    });
}

#[test]
fn a_storm_of_wakes_causes_interrupts_between_cpus() {
    let _host = HostLock::take();
    let settings = wakes::Settings { cpus: last_cpu(), rate_per_s: 2000 };
    in_one_of_some_runs(|| {
        let Some(running) = allowed(wakes::start(&settings, in_ms(400))) else { return Ok(()) };
        clock::sleep_until_ns(in_ms(410));
        let seen = running.stop().cpus.remove(0);
        ensure((seen.sent + seen.missed).abs_diff(800) < 100 && seen.sent > 400, || format!("{seen:?}"))?;
        // A sleeper that polls in its idle loop needs no interrupt, and a sleeper that woke late may have several wakes per interrupt.
        ensure(seen.woken * 10 >= seen.sent * 5 && seen.woken <= seen.sent + 20, || format!("{seen:?}"))?;
        ensure(seen.interrupts.is_none_or(|reported| reported * 10 >= seen.sent * 5), || format!("{seen:?}"))
    });
}

fn oom_score() -> String {
    fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().to_owned()
}

#[test]
fn pressure_holds_what_it_reports_and_gives_it_back() {
    let _host = HostLock::take();
    let settings = pressure::Settings { amount_bytes: 200 * MIB, reserve_bytes: 256 * MIB };
    in_one_of_some_runs(|| {
        let (before, score) = (resident_bytes(), oom_score());
        let Some(running) = allowed(pressure::start(&settings, in_ms(60_000))) else { return Ok(()) };
        for _ in 0..500 {
            clock::sleep_until_ns(in_ms(10));
            if running.is_filled() {
                break;
            }
        }
        let held = resident_bytes().saturating_sub(before);
        assert_eq!(oom_score(), "1000");
        let report = running.stop();
        assert_eq!(oom_score(), score);
        ensure(report.held_back || (report.held_bytes_max == 200 * MIB && held > 190 * MIB), || {
            format!("{held}: {report:?}")
        })?;
        let left = resident_bytes().saturating_sub(before);
        ensure(left < 20 * MIB, || format!("{left} are held still"))
    });
}

/// With a reserve of nearly all available memory, the disturber stops early. If another process takes memory, the disturber gives some back.
#[test]
fn pressure_leaves_its_reserve() {
    let _host = HostLock::take();
    in_one_of_some_runs(|| {
        let left = headroom(&Root::live()).unwrap();
        if left < 1024 * MIB {
            not_judged(format_args!("{left} bytes of memory are left here"));
            return Ok(());
        }
        // Recently freed pages wait on per-CPU lists, up to an eighth of all memory, and do not count as available.
        // A process can take this amount before the kernel's count of available memory changes.
        let amount_bytes = (left / 4).clamp(300 * MIB, 3072 * MIB);
        let settings = pressure::Settings { amount_bytes, reserve_bytes: left - 150 * MIB };
        let running = pressure::start(&settings, in_ms(60_000)).unwrap();
        // Wait until the disturber takes no more memory. The time depends on the cost of a page on this machine.
        let mut held = 0;
        for _ in 0..20 {
            clock::sleep_until_ns(in_ms(1000));
            let now = resident_bytes();
            if now > 50 * MIB && now <= held + 4 * MIB {
                break;
            }
            held = now;
        }
        let held = resident_bytes();
        let mut ours = vec![0_u8; 200 * MIB as usize];
        ours.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        for _ in 0..50 {
            clock::sleep_until_ns(in_ms(100));
            if resident_bytes() < held + 190 * MIB {
                break;
            }
        }
        let report = running.stop();
        std::hint::black_box(ours);
        ensure(report.held_back && report.held_bytes_max < amount_bytes, || format!("{report:?}"))?;
        ensure(report.given_back_bytes > 0 && report.held_bytes_at_end < report.held_bytes_max, || {
            format!("{report:?}")
        })
    });
}
