//! Tests the ledger with constructed samples.

use evenkeel_watch::ledger::{self, Usual, totals_of};
use evenkeel_watch::sample::{
    Cause, CpuGapsSample, DueSample, GapSample, GapsSample, HistogramSample, LateTicks, LateWas, LedgerSample,
    OutsideLate, OutsideSample, PauseSample, Sample, WaitKind, WaitSample, WaitsSample,
};
use evenkeel_watch::{Measured, Model, metrics};

use crate::rates::{sample, telemetry};

/// The index of the first bucket whose values are all above 5 ms, and the index of a bucket of 20 us.
const LATE: usize = 76;
const EARLY: usize = 26;

/// The ledger of a collector that has just started.
fn entries(before: &Sample, after: &Sample) -> LedgerSample {
    ledger::entries(before, after, &Usual::default())
}

/// Two samples with 50 ticks in the second between them. `late` of the ticks were late, and nothing else happened on the host.
fn second(late: u64) -> (Sample, Sample) {
    let histogram = |late: u64, ticks: u64| HistogramSample {
        sum_ns: ticks * 1_000_000,
        max_ns: Some(30_000_000),
        buckets: [(EARLY, ticks - late), (LATE, late)].into_iter().filter(|(_, count)| *count > 0).collect(),
    };
    let mut samples = [(100, 1000), (101, 1050)].map(|(at_s, ticks)| {
        let mut sample = sample(100);
        sample.at.monotonic_ns = at_s * 1_000_000_000;
        let mut page = telemetry(ticks);
        let late = if at_s == 101 { late } else { 0 };
        (page.missed, page.major_faults) = (0, Some(0));
        (page.lateness, page.work) = (histogram(late, ticks), histogram(0, ticks));
        sample.servers[0].telemetry = Some(Ok(page));
        sample.host.pressure.io = sample.host.pressure.cpu.clone();
        sample.host.pressure.memory = sample.host.pressure.cpu.clone();
        let process = sample.servers[0].process.as_mut().unwrap();
        process.thread_cpus = [(7, 0)].into();
        process.threads.get_mut(&7).unwrap().voluntary_switches = ticks;
        process.threads.get_mut(&7).unwrap().cpu_ns = ticks * 1_000_000;
        sample
    });
    samples[1].at.realtime_ns += 1_000_000_000;
    let [before, after] = samples;
    (before, after)
}

fn judged(late: u64, plant: impl Fn(&mut Sample)) -> Vec<LateTicks> {
    let (before, mut after) = second(late);
    plant(&mut after);
    entries(&before, &after).new
}

#[track_caller]
fn is(expected: Cause, plant: impl Fn(&mut Sample)) {
    let found = judged(10, plant);
    assert_eq!((found.len(), found[0].late, found[0].cause), (1, 10, expected), "{found:?}");
}

fn thread(sample: &mut Sample) -> &mut evenkeel_measure::meters::rates::ThreadCounts {
    sample.servers[0].process.as_mut().unwrap().threads.get_mut(&7).unwrap()
}

fn cpu(sample: &mut Sample) -> &mut evenkeel_hostfs::proc::CpuTicks {
    sample.host.stat.as_mut().unwrap().cpus.get_mut(&0).unwrap()
}

fn page(sample: &mut Sample) -> &mut evenkeel_watch::sample::TelemetrySample {
    sample.servers[0].telemetry.as_mut().unwrap().as_mut().unwrap()
}

/// The tick's thread was ready but had no CPU for this time, and that made ticks late.
fn delay(sample: &mut Sample, ms: u64) {
    thread(sample).run_delay_ns += ms * 1_000_000;
    page(sample).late_run_delay_ns = Some(ms * 1_000_000);
}

fn throttle(sample: &mut Sample, us: u64) {
    let group = sample.host.groups.as_mut().unwrap().limited.get_mut("/game.slice").unwrap();
    *group.throttled_us.as_mut().unwrap() += us;
}

/// Adds ticks whose work takes longer than 25 ms, which is a period plus the bound of a late tick.
fn work_too_long(sample: &mut Sample) {
    page(sample).work.buckets = [(EARLY, 1040), (92, 10)].into();
    thread(sample).cpu_ns += 1_000_000_000;
}

#[test]
fn each_planted_cause_is_the_one_of_all_late_ticks() {
    assert_eq!(judged(0, |_| {}), []);
    is(Cause::Unknown, |_| {});
    is(Cause::Preempted, |sample| delay(sample, 80));
    is(Cause::Stolen, |sample| cpu(sample).steal += 8);
    is(Cause::Throttled, |sample| {
        throttle(sample, 80_000);
        delay(sample, 80);
    });
    is(Cause::Interrupt, |sample| cpu(sample).softirq += 8);
    is(Cause::PageFault, |sample| {
        page(sample).major_faults = Some(10);
        sample.host.pressure.memory.as_mut().unwrap().some_us += 80_000;
    });
    is(Cause::OwnWork, |sample| {
        work_too_long(sample);
        cpu(sample).user += 100;
    });
}

/// A server with many players has interrupts all the time. Each interrupt is too short to make a tick late.
#[test]
fn interrupts_as_in_every_second_are_no_cause() {
    let (before, after) = second(10);
    let cause = |ms: u64, usual: &Usual| {
        let mut after = after.clone();
        cpu(&mut after).softirq += ms / 10;
        ledger::entries(&before, &after, usual).new[0].cause
    };
    let mut usual = Usual::default();
    for ms in [70, 90, 80] {
        let mut quiet = after.clone();
        cpu(&mut quiet).softirq += ms / 10;
        usual.add(&before, &quiet);
    }
    let causes = |usual: &Usual| [80, 140, 300].map(|ms| cause(ms, usual));
    assert_eq!(causes(&Usual::default()), [Cause::Interrupt; 3]);
    assert_eq!(causes(&usual), [Cause::Unknown, Cause::Interrupt, Cause::Interrupt]);
    // The interrupts of a storm count, however long it lasts.
    for _ in 0..20 {
        let mut storm = after.clone();
        cpu(&mut storm).softirq += 60;
        usual.add(&before, &storm);
    }
    assert_eq!(cause(600, &usual), Cause::Interrupt);
}

/// A host that starts a process for each match has more servers over time than the table has rows.
#[test]
fn ended_servers_leave_room_for_new_ones() {
    let (mut before, after) = second(10);
    for pid in 1000..1256 {
        let key = LedgerSample::key("an earlier match", Some(pid));
        before.ledger.totals.insert(key, [(Cause::Unknown, 3)].into());
    }
    let ledger = entries(&before, &after);
    let own = LedgerSample::key(&after.servers[0].name, Some(7));
    assert_eq!(ledger.totals.get(&own), Some(&[(Cause::Unknown, 10)].into()));
    assert_eq!(ledger.totals.len(), 1, "the table has room again");
}

/// Waits of ticks for a mutex, with this total time.
fn waits(ms: u64) -> Option<WaitsSample> {
    let last = WaitSample {
        kind: WaitKind::Mutex,
        address: 0x5500,
        length_ns: ms * 1_000_000,
        by: Some(9),
        by_name: Some("saver".to_owned()),
    };
    let last = (ms > 0).then_some(last);
    Some(WaitsSample { total_ns: ms * 1_000_000, long_ns: ms * 1_000_000, last })
}

#[test]
fn a_lock_is_the_cause_if_it_explains_the_long_ticks() {
    let entry = |lock_ms: u64, plant: &dyn Fn(&mut Sample)| {
        let (mut before, mut after) = second(10);
        page(&mut before).waits = waits(0);
        page(&mut after).waits = waits(lock_ms);
        // One tick that took about 50 ms.
        page(&mut after).work.buckets = [(EARLY, 1049), (94, 1)].into();
        page(&mut after).work.sum_ns += 50_000_000;
        plant(&mut after);
        entries(&before, &after).new.remove(0)
    };
    let found = entry(45, &|_| {});
    let words = "ticks waited 45.0 ms for locks, the last one 45.0 ms for a mutex at 0x5500, held by saver (thread 9)";
    assert_eq!((found.cause, found.evidence.as_str()), (Cause::Lock, words));
    assert_eq!(entry(3, &|_| {}).cause, Cause::Unknown, "something else took the time");
    assert_eq!(entry(45, &|sample| cpu(sample).steal += 5).cause, Cause::Unknown);
    assert_eq!(entry(45, &|sample| thread(sample).run_delay_ns += 40_000_000).cause, Cause::Unknown);
    // The page names the tick's thread, so other threads do not matter.
    let named = entry(45, &|sample| {
        page(sample).thread = Some(7);
        sample.servers[0].process.as_mut().unwrap().threads_beyond = 3;
    });
    assert_eq!(named.cause, Cause::Lock);
    let beside = entry(45, &|sample| page(sample).thread = Some(70));
    assert_eq!(beside.cause, Cause::Unknown, "nothing is known of the thread");
    // If the server does not report its waits, the cause is unknown.
    assert_eq!(entry(45, &|sample| page(sample).waits = None).cause, Cause::Unknown);
}

#[test]
fn what_does_not_decide_is_unknown() {
    // The work takes a second, but no counter of the CPU includes that second. So the CPU was away.
    is(Cause::Unknown, work_too_long);
    // The steal was on another CPU, or on a CPU that the thread left.
    is(Cause::Unknown, |sample| sample.host.stat.as_mut().unwrap().cpus.get_mut(&1).unwrap().steal += 8);
    is(Cause::Unknown, |sample| {
        cpu(sample).steal += 8;
        sample.servers[0].process.as_mut().unwrap().thread_cpus = [(7, 1)].into();
    });
    // The server moved to another group, or the limit was removed.
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        sample.servers[0].process.as_mut().unwrap().group = Some("/".to_owned());
    });
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        sample.host.groups.as_mut().unwrap().limited.clear();
    });
    // Another thread sleeps once per tick, or is busier.
    for (cpu_ns, sleeps) in [(0, 50), (1_000_000_000, 0)] {
        let (mut before, mut after) = second(10);
        delay(&mut after, 80);
        for (sample, more) in [(&mut before, 0), (&mut after, 1)] {
            let mut other = thread(sample).clone();
            (other.cpu_ns, other.voluntary_switches) = (cpu_ns * more, sleeps * more);
            sample.servers[0].process.as_mut().unwrap().threads.insert(8, other);
        }
        assert_eq!(entries(&before, &after).new[0].cause, Cause::Unknown, "{cpu_ns} {sleeps}");
    }
    // Some threads are not read because of the limit.
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        let process = sample.servers[0].process.as_mut().unwrap();
        process.threads_beyond = 1;
    });
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        cpu(sample).steal += 1;
    });
    // The limit is new, so its earlier counts are unknown.
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        let groups = &mut sample.host.groups.as_mut().unwrap().limited;
        groups.insert("/game.slice/one".to_owned(), Default::default());
    });
    // The missed ticks take much more time than the thread waited.
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        page(sample).missed = 20;
    });
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        sample.host.stat = Err(evenkeel_watch::Unknown { unknown: evenkeel_watch::Kind::Denied, why: String::new() });
    });
}

/// The server reports which waits for a CPU made ticks late. The sum of all waits in a second is no evidence.
#[test]
fn many_short_waits_for_a_cpu_do_not_explain_a_late_tick() {
    is(Cause::Unknown, |sample| thread(sample).run_delay_ns += 80_000_000);
    is(Cause::Unknown, |sample| {
        thread(sample).run_delay_ns += 80_000_000;
        page(sample).late_run_delay_ns = Some(20_000_000);
    });
    // An older library does not report them.
    is(Cause::Unknown, |sample| {
        delay(sample, 80);
        page(sample).late_run_delay_ns = None;
    });
    // Observed from outside, the thread also wakes for packets between its ticks. Each of these waits is short.
    let packets = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 25_000_000;
        thread(sample).voluntary_switches += 400;
    };
    causes(&[OFF], 0, packets, &[(Cause::Unknown, 1, 0)]);
    // The ticks that began in time waited for up to 1.1 ms each, which explains all of that time.
    let short = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 10_300_000;
        outside(sample).ticks.lateness.buckets = [(EARLY, 1000), (61, 50)].into();
    };
    causes(&[OFF], 0, short, &[(Cause::Unknown, 1, 0)]);
    // The records show when the thread was woken for each tick.
    let ready = |ms: u64| OutsideLate { ready_ns: Some(ms * 1_000_000), ..OFF };
    causes(&[ready(11)], 0, packets, &[(Cause::Preempted, 1, 0)]);
    causes(&[ready(0)], 0, packets, &[(Cause::Unknown, 1, 0)]);
    causes(&[ready(11), ready(1)], 0, packets, &[(Cause::Preempted, 1, 0), (Cause::Unknown, 1, 0)]);
    // The kernel counts less than the records show: the CPU was not there.
    causes(&[ready(11)], 0, |sample| thread(sample).run_delay_ns += 1_000_000, &[(Cause::Unknown, 1, 0)]);
    // The timer of one tick fired late, because the hypervisor had the CPU. The other one waited for another thread.
    let stolen = |sample: &mut Sample| cpu(sample).steal += 1;
    causes(&[ready(0)], 0, stolen, &[(Cause::Stolen, 1, 0)]);
    let missed = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 60_000_000;
        thread(sample).voluntary_switches += 400;
        outside(sample).missed_ready = Some(2);
    };
    causes(&[ready(11)], 3, missed, &[(Cause::Preempted, 1, 2), (Cause::Unknown, 0, 1)]);
}

#[test]
fn counts_add_up_in_the_model_and_the_metrics() {
    let (before, mut after) = second(10);
    delay(&mut after, 80);
    after.ledger = entries(&before, &after);
    page(&mut after).missed = 0;
    let mut later = after.clone();
    later.at.monotonic_ns += 1_000_000_000;
    page(&mut later).missed = 3;
    page(&mut later).ticks += 50;
    later.ledger = entries(&after, &later);
    let counts: Vec<(Cause, u64)> = totals_of(&later, &later.servers[0].name, Some(7)).collect();
    assert_eq!(counts, [(Cause::Preempted, 10), (Cause::Unknown, 3)]);
    let model = Model::from_samples(&after, &later);
    assert_eq!((model.late_ticks[0].missed, model.servers[0].causes[&Cause::Preempted]), (3, 10));
    let text = metrics::render(&model);
    assert!(
        text.contains("evenkeel_server_late_ticks_total{server=\"game server\",pid=\"7\",cause=\"preempted\"} 10"),
        "{text}"
    );
    // Each series begins at zero. Otherwise Prometheus sees no increase when the first tick of a cause is late.
    let stolen = "evenkeel_server_late_ticks_total{server=\"game server\",pid=\"7\",cause=\"stolen\"} 0";
    assert!(text.contains(stolen), "{text}");
    // A session that has just begun has no earlier ticks to compare with.
    page(&mut later).began_realtime_ns = 2;
    assert_eq!(entries(&after, &later).new, []);
}

/// The same second for a server without a telemetry page, which is observed from outside. `late` are its late ticks.
fn seen_from_outside(late: &[OutsideLate], missed: u64) -> (Sample, Sample) {
    let (mut before, mut after) = second(0);
    for (sample, late) in [(&mut before, &[][..]), (&mut after, late)] {
        let mut ticks = sample.servers[0].telemetry.take().unwrap().unwrap();
        ticks.missed = if late.is_empty() { 0 } else { missed };
        let at_ns = sample.at.monotonic_ns;
        sample.servers[0].outside = Some(Ok(OutsideSample {
            ticks,
            workers: "main (thread 7)".to_owned(),
            tid: Some(7),
            due: DueSample::AsAsked,
            hidden: 0,
            counted_from_ns: at_ns - 1_020_000_000,
            counted_to_ns: at_ns - 20_000_000,
            waited_awake_ns: 0,
            timer_slack_ns: Some(50_000),
            late: late.to_vec(),
            late_beyond: 0,
            missed_waiting: Vec::new(),
            missed_ready: None,
            wakers: [(9, "saver".to_owned())].into(),
            lost: 0,
            uncounted: 0,
        }));
    }
    // The counters of both CPUs cover the whole second.
    after.host.stat.as_mut().unwrap().cpus.values_mut().for_each(|times| times.idle += 100);
    (before, after)
}

fn outside(sample: &mut Sample) -> &mut OutsideSample {
    sample.servers[0].outside.as_mut().unwrap().as_mut().unwrap()
}

const OFF: OutsideLate =
    OutsideLate { due_ns: 100_500_000_000, lateness_ns: 12_000_000, cpu: 0, was: LateWas::Off, ready_ns: None };

fn behind(on_cpu_ms: u64, waited_ms: u64) -> OutsideLate {
    let (on_cpu_ns, waited_ns) = (on_cpu_ms * 1_000_000, waited_ms * 1_000_000);
    let was = LateWas::Awake { on_cpu_ns, waited_ns, began_late_ns: Some(50_000) };
    OutsideLate { due_ns: 100_700_000_000, lateness_ns: 15_000_000, cpu: 0, was, ready_ns: None }
}

/// The tick after [`OFF`]: its thread worked for 18 ms since it got the CPU, and did several ticks in that time.
fn caught_up(began_late_ns: Option<u64>) -> OutsideLate {
    let was = LateWas::Awake { on_cpu_ns: 18_000_000, waited_ns: 0, began_late_ns };
    OutsideLate { due_ns: OFF.due_ns + 20_000_000, lateness_ns: 8_000_000, cpu: 0, was, ready_ns: None }
}

/// After a delay, most servers do several ticks at once. Their work takes no longer than usual.
#[test]
fn ticks_that_are_caught_up_are_no_own_work() {
    causes(&[caught_up(Some(1_000_000))], 0, |_| {}, &[(Cause::OwnWork, 1, 0)]);
    causes(&[caught_up(Some(12_000_000))], 0, |_| {}, &[(Cause::Unknown, 1, 0)]);
    causes(&[caught_up(None)], 2, |_| {}, &[(Cause::Unknown, 1, 2)]);
    // A tick that the thread catches up with has the cause of the tick that began late.
    let preempted = |sample: &mut Sample| thread(sample).run_delay_ns += 12_000_000;
    causes(&[OFF, caught_up(Some(12_000_000))], 0, preempted, &[(Cause::Preempted, 2, 0)]);
    causes(&[OFF, caught_up(Some(1_000_000))], 0, preempted, &[(Cause::OwnWork, 1, 0), (Cause::Preempted, 1, 0)]);
}

#[track_caller]
fn causes(late: &[OutsideLate], missed: u64, plant: impl Fn(&mut Sample), expected: &[(Cause, u64, u64)]) {
    let (before, mut after) = seen_from_outside(late, missed);
    plant(&mut after);
    let ledger = entries(&before, &after);
    let found: Vec<(Cause, u64, u64)> = ledger.new.iter().map(|one| (one.cause, one.late, one.missed)).collect();
    assert_eq!(found, expected, "{:?}", ledger.new);
    let total: u64 = totals_of(&Sample { ledger: ledger.clone(), ..after.clone() }, "game server", Some(7))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(total, late.len() as u64 + missed, "each tick has one cause");
}

/// A tick that was 12 ms late. Its thread waited for thread `by` from before the due time until `until_ms`.
fn waited(by: u32, until_ms: u64) -> OutsideLate {
    let due_ns = OFF.due_ns;
    let was = LateWas::Waited { since_ns: due_ns - 15_000_000, until_ns: due_ns + until_ms * 1_000_000, by };
    OutsideLate { was, ..OFF }
}

#[test]
fn a_wait_for_a_thread_of_the_server_is_a_lock() {
    causes(&[waited(9, 12)], 0, |_| {}, &[(Cause::Lock, 1, 0)]);
    // Thread 10 belongs to another process, or has ended.
    causes(&[waited(10, 12)], 0, |_| {}, &[(Cause::Unknown, 1, 0)]);
    // The wait ended long before the tick began.
    causes(&[waited(9, 5)], 0, |_| {}, &[(Cause::Unknown, 1, 0)]);
    causes(&[waited(9, 12)], 0, |sample| throttle(sample, 30_000), &[(Cause::Unknown, 1, 0)]);
    causes(&[waited(9, 12)], 0, |sample| cpu(sample).steal += 2, &[(Cause::Unknown, 1, 0)]);
    causes(&[waited(9, 12)], 0, |sample| outside(sample).timer_slack_ns = Some(20_000_000), &[(Cause::Unknown, 1, 0)]);
    // Each late tick gets its own cause, and so does each missed tick.
    let missed = |sample: &mut Sample| outside(sample).missed_waiting = vec![waited(9, 12), waited(10, 12)];
    causes(&[waited(9, 12), OFF], 3, missed, &[(Cause::Lock, 1, 1), (Cause::Unknown, 1, 2)]);
    let (before, after) = seen_from_outside(&[waited(9, 12)], 0);
    let words = &entries(&before, &after).new[0].evidence;
    assert!(words.contains("waited 27.0 ms") && words.contains("saver (thread 9)"), "{words}");
}

#[test]
fn ticks_seen_from_outside_have_each_their_own_cause() {
    causes(&[], 0, |_| {}, &[]);
    causes(&[OFF, OFF], 0, |_| {}, &[(Cause::Unknown, 2, 0)]);
    causes(&[OFF, OFF], 0, |sample| thread(sample).run_delay_ns += 25_000_000, &[(Cause::Preempted, 2, 0)]);
    causes(&[OFF], 0, |sample| cpu(sample).steal += 2, &[(Cause::Stolen, 1, 0)]);
    causes(&[behind(36, 0)], 0, |_| {}, &[(Cause::OwnWork, 1, 0)]);
    causes(&[behind(4, 31)], 0, |sample| thread(sample).run_delay_ns += 31_000_000, &[(Cause::Preempted, 1, 0)]);
    let throttled = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 31_000_000;
        throttle(sample, 30_000);
    };
    causes(&[behind(4, 31)], 0, throttled, &[(Cause::Throttled, 1, 0)]);
    // Three causes in one second. For two of them, the records of the tick's thread show the cause.
    let three = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 31_000_000 + 12_000_000;
        outside(sample).waited_awake_ns = 31_000_000;
    };
    let expected = [(Cause::OwnWork, 1, 0), (Cause::Preempted, 2, 0)];
    causes(&[behind(36, 0), behind(4, 31), OFF], 0, three, &expected);
    causes(&[OFF], 2, |sample| thread(sample).run_delay_ns += 60_000_000, &[(Cause::Preempted, 1, 2)]);
    // The lateness is within the thread's timer slack.
    causes(&[OFF], 0, |sample| outside(sample).timer_slack_ns = Some(20_000_000), &[(Cause::LateTimer, 1, 0)]);
}

#[test]
fn what_is_seen_from_outside_and_does_not_decide_is_unknown() {
    let slack = |sample: &mut Sample| {
        outside(sample).timer_slack_ns = Some(20_000_000);
        outside(sample).due = DueSample::Earliest;
    };
    causes(&[OFF], 0, slack, &[(Cause::Unknown, 1, 0)]);
    // The hypervisor took some of that time, or no counter includes it.
    causes(&[behind(36, 0)], 0, |sample| cpu(sample).steal += 1, &[(Cause::Unknown, 1, 0)]);
    causes(&[behind(36, 0)], 0, |sample| cpu(sample).idle -= 6, &[(Cause::Unknown, 1, 0)]);
    // Half of the time was a wait for a CPU.
    causes(&[behind(18, 8)], 0, |sample| thread(sample).run_delay_ns += 8_000_000, &[(Cause::Unknown, 1, 0)]);
    // The wait alone is long enough to make the tick late, and the work alone is long enough too.
    causes(&[behind(30, 31)], 0, |sample| thread(sample).run_delay_ns += 31_000_000, &[(Cause::Unknown, 1, 0)]);
    // It is unknown whether a limit stopped the thread.
    causes(
        &[behind(4, 31)],
        0,
        |sample| sample.servers[0].process.as_mut().unwrap().group = None,
        &[(Cause::Unknown, 1, 0)],
    );
    // The counts cover several seconds, so they cannot explain a single tick.
    let late = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 25_000_000;
        outside(sample).counted_from_ns -= 3_000_000_000;
    };
    causes(&[OFF], 0, late, &[(Cause::Unknown, 1, 0)]);
    // If a loop has many threads, it is unknown which of them waited.
    let pool = |sample: &mut Sample| {
        thread(sample).run_delay_ns += 25_000_000;
        outside(sample).tid = None;
    };
    causes(&[OFF], 0, pool, &[(Cause::Unknown, 1, 0)]);
}

/// Adds what the gap meter found since the previous sample. Times are in milliseconds after that sample.
fn saw(sample: &mut Sample, pauses: &[(u64, u64)], gaps: &[(usize, u64, u64)]) {
    let at = |ms: u64| 100_000_000_000 + ms * 1_000_000;
    let pause =
        |(from, to): &(u64, u64)| PauseSample { from_ns: at(*from), to_ns: at(*to), not_before_ns: at(from - 20) };
    let gap = |(cpu, from, to): &(usize, u64, u64)| GapSample { cpu: *cpu, from_ns: at(*from), to_ns: at(*to) };
    let paused_ns = pauses.iter().map(|(from, to)| (to - from) * 1_000_000).sum();
    sample.gaps = Some(Ok(GapsSample {
        cpus: [(0, CpuGapsSample { covered_ns: 1_000_000_000, ..CpuGapsSample::default() })].into(),
        pauses: pauses.len() as u64,
        paused_ns,
        new_pauses: pauses.iter().map(pause).collect(),
        new_gaps: gaps.iter().map(gap).collect(),
    }));
}

#[test]
fn what_the_gap_meter_saw_at_the_time_of_a_tick_decides() {
    // The tick was due at 500 ms and began 12 ms late.
    causes(&[OFF], 0, |sample| saw(sample, &[(501, 512)], &[]), &[(Cause::VmPaused, 1, 0)]);
    causes(&[OFF], 0, |sample| saw(sample, &[(508, 511)], &[]), &[(Cause::VmPaused, 1, 0)]);
    causes(&[OFF], 0, |sample| saw(sample, &[], &[(0, 499, 512)]), &[(Cause::Stolen, 1, 0)]);
    // The gap is at another time, on another CPU, or too short.
    causes(&[OFF], 0, |sample| saw(sample, &[(600, 620)], &[]), &[(Cause::Unknown, 1, 0)]);
    causes(&[OFF], 0, |sample| saw(sample, &[], &[(1, 499, 512), (0, 500, 504)]), &[(Cause::Unknown, 1, 0)]);
    // One tick was late because of the pause, the other because of its own work.
    let expected = [(Cause::VmPaused, 1, 0), (Cause::OwnWork, 1, 0)];
    causes(&[OFF, behind(36, 0)], 0, |sample| saw(sample, &[(501, 512)], &[]), &expected);
    // A server with a telemetry page had ten ticks that were each 8 ms late.
    is(Cause::VmPaused, |sample| saw(sample, &[(100, 190)], &[]));
    is(Cause::Unknown, |sample| saw(sample, &[(100, 120)], &[]));
    is(Cause::Unknown, |sample| {
        saw(sample, &[(100, 190)], &[]);
        delay(sample, 80);
    });
}

#[test]
fn ticks_seen_from_outside_are_in_the_model_and_the_metrics() {
    let (before, after) = seen_from_outside(&[OFF], 0);
    let model = Model::from_samples(&before, &after);
    let ticks = model.servers[0].ticks.known().unwrap();
    assert_eq!(ticks.ticks_per_s.known(), Some(&50.0));
    assert_eq!((ticks.due, ticks.workers.as_deref()), (Some(DueSample::AsAsked), Some("main (thread 7)")));
    let text = metrics::render(&model);
    assert!(text.contains("evenkeel_ticks_total{session=\"game server\",pid=\"7\"} 1050"), "{text}");
}

#[test]
fn due_times_whose_records_were_lost_are_reported_and_lower_no_rate() {
    let (before, mut after) = seen_from_outside(&[], 0);
    let counted = |sample: &Sample, ticks: u64, uncounted: u64| {
        let mut sample = sample.clone();
        let outside = outside(&mut sample);
        (outside.ticks.ticks, outside.uncounted) = (ticks, uncounted);
        sample
    };
    let before = counted(&before, 1000, 3);
    let ticks = |after: &Sample| Model::from_samples(&before, after).servers[0].ticks.known().unwrap().clone();
    outside(&mut after).counted_from_ns = before.at.monotonic_ns;
    let whole = ticks(&counted(&after, 1050, 3));
    assert_eq!((whole.ticks_per_s, whole.uncounted), (Measured::Known(50.0), None));
    let lossy = ticks(&counted(&after, 1040, 13));
    assert_eq!((lossy.ticks_per_s, lossy.uncounted), (Measured::Known(50.0), Some(10)));
}
