//! Simulates hours of ticks in a moment.

use std::sync::mpsc;

use proptest::prelude::*;

use super::decide::{CALM_WINDOWS, CALM_WINDOWS_MAX, Readings};
use super::*;
use crate::{Done, Tick};

const FOUR_CPUS: Hardware = Hardware { cpus: 4, cpu_limit: None };
const ONE_CPU: Hardware = Hardware { cpus: 1, cpu_limit: None };
const SLOTS: TimeSlices = TimeSlices { period: Duration::from_millis(10), share: 0.4, model: SliceModel::Slots };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn decider(hardware: Hardware, phase: RatePhase) -> Decider {
    let settings = RateSettings::default();
    let config = DeciderConfig {
        ladder: &settings.ladder,
        start: settings.start,
        phase,
        sustainable: settings.sustainable,
        system_share: settings.system_share,
    };
    Decider::new(&config, hardware).unwrap()
}

fn usual(hardware: Hardware) -> Decider {
    decider(hardware, RateSettings::default().phase)
}

/// The state of the machine and the game in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// How long a tick lasts.
    lasts_us: u64,
    /// The CPU time of a tick, if it is less than the tick's duration.
    cpu_us: Option<u64>,
    missed: u64,
    run_wait: f64,
    pressure: f64,
    throttled: f64,
}

fn lasting(us: u64) -> Second {
    Second { lasts_us: us, ..Second::default() }
}

/// Simulates a second at the decider's own rate.
fn play(decider: &mut Decider, second: Second) -> Option<RateChange> {
    let period_ns = decider.period_ns();
    let ticks = 1_000_000_000 / period_ns;
    for tick in 0..ticks {
        decider.tick(second.lasts_us * 1000, if tick == 0 { second.missed } else { 0 });
    }
    let ns = |share: f64| Some((share * 1e9) as u64);
    let readings = Readings {
        window_ns: ticks * period_ns,
        cpu_ns: Some(second.cpu_us.unwrap_or(second.lasts_us) * 1000 * ticks),
        run_wait_ns: ns(second.run_wait),
        pressure_ns: ns(second.pressure),
        group_pressure_ns: None,
        throttled_ns: ns(second.throttled),
    };
    decider.window(&readings)
}

/// Simulates some seconds. Returns when the period changed, to how many milliseconds, and why.
fn hours(decider: &mut Decider, seconds: u32, of: impl Fn(u32, u64) -> Second) -> Vec<(u32, u128, RateReason)> {
    (0..seconds)
        .filter_map(|at| {
            let second = of(at, decider.period_ns());
            play(decider, second).map(|change| (at, change.to.as_millis(), change.why))
        })
        .collect()
}

/// A row: name, machine, time slices, what happens in each second, and each change: at which second, to which period in ms, and why.
type Row<'a> = (&'a str, Hardware, Option<TimeSlices>, Second, &'a [(u32, u128, RateReason)]);

#[test]
fn an_hour_of_the_same_is_one_change_at_most() {
    let bucket = TimeSlices { model: SliceModel::Bucket, ..SLOTS };
    let limited = Hardware { cpus: 2, cpu_limit: Some(0.4) };
    let table: [Row<'_>; 14] = [
        ("light", FOUR_CPUS, None, lasting(3_000), &[]),
        ("just sustainable", FOUR_CPUS, None, lasting(14_900), &[]),
        ("too much", FOUR_CPUS, None, lasting(18_000), &[(1, 30, RateReason::Work)]),
        ("far too much", FOUR_CPUS, None, lasting(33_000), &[(1, 50, RateReason::Work)]),
        ("more than there is", FOUR_CPUS, None, lasting(70_000), &[(1, 50, RateReason::Work)]),
        ("half of a single CPU belongs to the system", ONE_CPU, None, lasting(12_860), &[(1, 30, RateReason::Work)]),
        ("one turn of two", ONE_CPU, Some(SLOTS), lasting(3_900), &[]),
        ("3.5 ms in a turn of 4", FOUR_CPUS, Some(SLOTS), lasting(3_500), &[]),
        ("6.5 ms of work in 12.5", FOUR_CPUS, Some(SLOTS), lasting(12_500), &[(1, 30, RateReason::Work)]),
        ("13 ms of work in 31", FOUR_CPUS, Some(SLOTS), lasting(31_000), &[(1, 50, RateReason::Work)]),
        (
            "6.5 ms under a limit, in the best phase",
            FOUR_CPUS,
            Some(bucket),
            Second { cpu_us: Some(6_500), ..lasting(7_500) },
            &[(1, 30, RateReason::Work)],
        ),
        (
            "a limit without turns",
            limited,
            None,
            Second { cpu_us: Some(6_500), ..lasting(7_500) },
            &[(1, 30, RateReason::Work)],
        ),
        ("a limit with room", limited, None, lasting(4_000), &[]),
        ("others wait, not for us", ONE_CPU, None, Second { pressure: 0.9, ..lasting(1_000) }, &[]),
    ];
    for (what, hardware, turns, second, expected) in table {
        let mut decider = usual(hardware);
        assert_eq!(decider.set_slices(turns), None, "20 ms are a multiple");
        assert_eq!(hours(&mut decider, 3600, |_, _| second), expected, "{what}");
    }
}

#[test]
fn it_comes_back_when_it_is_over() {
    let mut decider = usual(FOUR_CPUS);
    let changes = hours(&mut decider, 600, |at, _| lasting(if (100..200).contains(&at) { 25_000 } else { 5_000 }));
    assert_eq!(changes, [(101, 50, RateReason::Work), (209, 30, RateReason::Calm), (219, 20, RateReason::Calm)]);
}

#[test]
fn a_pause_of_the_machine_changes_nothing() {
    let pause =
        Second { missed: 10, run_wait: 0.5, throttled: 0.5, pressure: 1.0, lasts_us: 14_000, ..Second::default() };
    let mut decider = usual(FOUR_CPUS);
    let changes = hours(&mut decider, 3600, |at, _| if at % 3 == 0 { pause } else { lasting(14_000) });
    assert_eq!(changes, [], "one window of three");
    let changes = hours(&mut decider, 10, |at, _| if at % 2 == 0 { pause } else { lasting(14_000) });
    assert_eq!(changes.first(), Some(&(2, 30, RateReason::Missed)), "two overloaded windows of three are no accident");
}

#[test]
fn each_sign_counts() {
    let base = lasting(9_000);
    let table = [
        (Second { missed: 3, ..base }, RateReason::Missed),
        (Second { run_wait: 0.25, ..base }, RateReason::Waited),
        (Second { throttled: 0.25, ..base }, RateReason::Throttled),
        (Second { pressure: 0.7, ..base }, RateReason::Starved),
    ];
    for (second, why) in table {
        let mut decider = usual(FOUR_CPUS);
        assert_eq!(hours(&mut decider, 2, |_, _| second), [(1, 30, why)]);
        let blind = Readings { window_ns: 1_000_000_000, ..Readings::default() };
        (0..50).for_each(|_| decider.tick(9_000_000, 0));
        assert_eq!(decider.window(&blind), None, "unknown readings have no influence");
    }
    let mut decider = usual(FOUR_CPUS);
    let in_group = Readings {
        window_ns: 1_000_000_000,
        group_pressure_ns: Some(900_000_000),
        run_wait_ns: Some(50_000_000),
        ..Readings::default()
    };
    let whys: Vec<_> = (0..2)
        .filter_map(|_| {
            (0..50).for_each(|_| decider.tick(9_000_000, 0));
            decider.window(&in_group).map(|change| change.why)
        })
        .collect();
    assert_eq!(whys, [RateReason::Pressure]);
}

#[test]
fn each_failed_return_waits_longer() {
    // At a period of 20 ms the thread waits for a CPU half of the time, although its work is short.
    let mut decider = usual(FOUR_CPUS);
    let crowded = |_, period_ns| Second { run_wait: if period_ns < 30_000_000 { 0.5 } else { 0.0 }, ..lasting(2_000) };
    let changes = hours(&mut decider, 7200, crowded);
    let back: Vec<u32> = changes.iter().filter(|change| change.2 == RateReason::Calm).map(|change| change.0).collect();
    let waits: Vec<u32> = back.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits[..7], [22, 42, 82, 162, 322, 642, 642], "{changes:?}");
    // After a long calm time, the wait before a return is as short as at first.
    hours(&mut decider, 1500, |_, _| lasting(2_000));
    let changes = hours(&mut decider, 60, |at, _| lasting(if at < 5 { 19_000 } else { 2_000 }));
    assert_eq!(changes, [(1, 30, RateReason::Work), (14, 20, RateReason::Calm)]);
}

#[test]
fn phases_move_the_period_at_once() {
    let mut decider = usual(FOUR_CPUS);
    let lobby = RatePhase::between(ms(50), ms(50));
    let round = RatePhase::between(ms(10), ms(30));
    let change = |from, to, why| Some(RateChange { from: ms(from), to: ms(to), why });
    assert_eq!(decider.enter(lobby), change(20, 50, RateReason::Phase));
    assert_eq!(hours(&mut decider, 3600, |_, _| lasting(500)), [], "room or not");
    assert_eq!(decider.enter(round), change(50, 30, RateReason::Phase));
    assert_eq!(hours(&mut decider, 60, |_, _| lasting(3_000)), [(9, 20, RateReason::Calm), (19, 10, RateReason::Calm)]);
    assert_eq!(hours(&mut decider, 60, |_, _| lasting(40_000)), [(1, 30, RateReason::Work)], "not beyond the phase");
    // The last phase of a round may use 95 % of the period. So work that was too long before fits now.
    assert_eq!(decider.enter(RatePhase::between(ms(20), ms(50)).sustainable(0.95)), None);
    let end = |_, _| lasting(18_000);
    assert_eq!(hours(&mut decider, 600, end), []);
    assert_eq!(decider.set_slices(Some(TimeSlices { period: ms(7), ..SLOTS })), change(30, 35, RateReason::TimeSlices));
    assert_eq!(decider.set_slices(Some(TimeSlices { share: 0.0, ..SLOTS })), change(35, 30, RateReason::TimeSlices));
}

#[test]
fn settings_out_of_range_are_told() {
    let table = [
        (RateSettings { ladder: vec![], ..RateSettings::default() }, "a ladder of tick periods needs at least one"),
        (
            RateSettings { sustainable: f64::NAN, ..RateSettings::default() },
            "the sustainable load NaN is not within 0.05 to 1",
        ),
        (RateSettings { system_share: 1.0, ..RateSettings::default() }, "the system's share 1 is not within 0 to 0.95"),
        (
            RateSettings { phase: RatePhase::between(ms(1), ms(2)).sustainable(7.0), ..RateSettings::default() },
            "the phase's sustainable load 7 is not within 0.05 to 1",
        ),
    ];
    for (settings, expected) in table {
        assert_eq!(TickRate::start(settings).unwrap_err().to_string(), expected);
    }
}

/// Too much work for the period, in ticks with made-up times. No tick leaves time to read the system, so the reads are two seconds apart.
#[test]
fn looks_at_the_system_change_the_period_and_are_told() {
    const SECOND_NS: u64 = 1_000_000_000;
    let (reports, changes) = mpsc::channel();
    let settings = RateSettings {
        ladder: [2, 4, 8, 500].map(ms).to_vec(),
        start: ms(2),
        phase: RatePhase::between(ms(2), ms(500)),
        ..RateSettings::default()
    };
    let mut rate = TickRate::on(settings, FOUR_CPUS, Sampler::of_nothing()).unwrap().on_change(move |change| {
        reports.send(change).unwrap();
    });
    let (begin_ns, mut due_ns) = (7 * SECOND_NS, 7 * SECOND_NS);
    let period = loop {
        assert!(due_ns < begin_ns + 60 * SECOND_NS, "a minute of too much work changed nothing");
        let tick = Tick { number: 0, due_ns, began_ns: due_ns, missed: 0 };
        if let Some(period) = rate.after(&Done { tick, done_ns: due_ns + 1_900_000 }) {
            break period;
        }
        assert_eq!(rate.load().is_some(), due_ns + 1_900_000 >= begin_ns + 2 * SECOND_NS, "{}", due_ns - begin_ns);
        due_ns += 2_000_000;
    };
    assert_eq!(due_ns - begin_ns, 4 * SECOND_NS, "two looks");
    assert!((rate.load().unwrap() - 0.95).abs() < 1e-3, "{:?}", rate.load());
    let change = changes.try_recv().unwrap();
    assert_eq!((change.from, change.to, change.why), (ms(2), period, RateReason::Work));
    assert_eq!((period, rate.period()), (ms(4), ms(4)));
    assert!(changes.try_recv().is_err());
}

fn seconds() -> impl Strategy<Value = Second> {
    let share = || prop_oneof![Just(0.0), 0.0..1.0];
    (0_u64..60_000, prop_oneof![4 => Just(0), 1 => 0_u64..40], share(), share(), share()).prop_map(
        |(lasts_us, missed, run_wait, pressure, throttled)| Second {
            lasts_us,
            cpu_us: None,
            missed,
            run_wait,
            pressure,
            throttled,
        },
    )
}

fn machines() -> impl Strategy<Value = (Hardware, Option<TimeSlices>)> {
    let turns = (1_u64..80, 0.05..1.0_f64, any::<bool>()).prop_map(|(period, share, slots)| TimeSlices {
        period: ms(period),
        share,
        model: if slots { SliceModel::Slots } else { SliceModel::Bucket },
    });
    let hardware = (1_usize..5, prop::option::of(0.1..3.0_f64));
    (hardware, prop::option::of(turns)).prop_map(|((cpus, cpu_limit), turns)| (Hardware { cpus, cpu_limit }, turns))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random seconds, in runs of up to 20 equal ones.
    #[test]
    fn it_never_oscillates_faster_than_its_hysteresis(
        (hardware, turns) in machines(), runs in prop::collection::vec((seconds(), 1_u32..20), 1..60),
    ) {
        let mut decider = decider(hardware, RatePhase::between(ms(10), ms(50)));
        decider.set_slices(turns);
        let (mut at, mut last): (u32, Option<(u32, RateChange)>) = (0, None);
        for (second, count) in runs {
            for _ in 0..count {
                let before_ns = decider.period_ns();
                let change = play(&mut decider, second);
                at += 1;
                let period = Duration::from_nanos(decider.period_ns());
                if turns.is_none() {
                    prop_assert!([10, 20, 30, 50].map(ms).contains(&period), "{period:?} is not a rung");
                }
                let Some(change) = change else {
                    prop_assert_eq!(before_ns, decider.period_ns());
                    continue;
                };
                prop_assert_eq!((change.from.as_nanos() as u64, change.to), (before_ns, period));
                prop_assert_eq!(change.to < change.from, change.why == RateReason::Calm, "{:?}", change);
                if let Some((last_at, last)) = last {
                    let apart = at - last_at;
                    prop_assert!(apart >= 2, "{last:?} and {change:?} are {apart} s apart");
                    let turned = (last.why == RateReason::Calm) != (change.why == RateReason::Calm);
                    let least = if change.why == RateReason::Calm && turned { CALM_WINDOWS } else { 2 };
                    prop_assert!(apart >= least, "{last:?} and {change:?} are {apart} s apart");
                }
                last = Some((at, change));
            }
        }
    }

    #[test]
    fn it_slows_down_under_overload_and_comes_back(
        (hardware, turns) in machines(), before in prop::collection::vec(seconds(), 0..100), lasts_us in 100_000_u64..400_000,
    ) {
        let mut decider = usual(hardware);
        decider.set_slices(turns);
        let fastest_ns = decider.ladder_period_ns(1);
        for second in before {
            play(&mut decider, second);
        }
        hours(&mut decider, 8, |_, _| lasting(lasts_us));
        prop_assert_eq!(decider.period_ns(), decider.ladder_period_ns(3), "too much work for any rung");
        hours(&mut decider, 3 * CALM_WINDOWS_MAX, |_, _| lasting(10));
        prop_assert_eq!(decider.period_ns(), fastest_ns, "nothing to do");
    }
}
