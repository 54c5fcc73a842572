//! Ticks and their monitors allocate nothing after the start.

use std::time::Duration;

use evenkeel_rt::memory::{Memory, MemoryConfig};
use evenkeel_rt::rate::{RateSettings, SliceModel, TickRate, TimeSlices};
use evenkeel_rt::telemetry::{Count, Telemetry, TelemetrySettings};
use evenkeel_rt::{Align, Overrun, PhaseSettings, Spinning, TickClock, TickSettings};

use crate::counted;

#[test]
fn a_million_ticks_allocate_nothing() {
    let _alone = counted::alone();
    let period = Duration::from_nanos(1);
    for overrun in [Overrun::Skip, Overrun::CatchUp { at_most: 3 }, Overrun::SlowDown] {
        let mut clock =
            TickClock::start(TickSettings { period, overrun, spinning: Spinning::Always, ..TickSettings::default() })
                .unwrap();
        let mut ticks = 0;
        let change = counted::count(|| {
            for _ in 0..350_000 {
                std::hint::black_box(clock.wait());
                clock.done();
            }
            std::hint::black_box(clock.report());
            ticks += 350_000;
        });
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{overrun:?}: {change:?}");
        assert_eq!(clock.report().ticks, ticks);
    }
}

/// The monitors: telemetry, memory, rate, and the thread that judges gaps of the CPU.
#[test]
fn what_looks_after_ticks_allocates_nothing() {
    let _alone = counted::alone();
    let folder = tempfile::tempdir().unwrap();
    let settings = TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named("a") };
    let mut telemetry = Telemetry::create(&settings).unwrap();
    let counters = telemetry.counters();
    let mut memory = Memory::set_up(&MemoryConfig::default());
    let mut rate = TickRate::start(RateSettings::default()).unwrap().on_change(|change| {
        std::hint::black_box(change);
    });
    let mut clock =
        TickClock::start(TickSettings { period: Duration::from_millis(4), ..TickSettings::default() }).unwrap();
    let mut looks = 0;
    let change = counted::count(|| {
        looks = 0;
        // The clock judges gaps after one and a half seconds. It checks the system after one second and after two seconds.
        // On a busy machine this may take longer.
        for at in 0..15_000_u64 {
            clock.wait();
            let Some(done) = clock.done() else { continue };
            let tick = memory.after(&done);
            telemetry.set_faults(tick.faults);
            telemetry.set_swapped_in(tick.swapped_in);
            telemetry.set_period(rate.period());
            counters.add(Count::Jobs, 3);
            telemetry.after(&done);
            let before = rate.load();
            std::hint::black_box(rate.after(&done));
            looks += u32::from(rate.load() != before);
            if at % 100 == 0 {
                let turns = TimeSlices { period: Duration::from_millis(7), share: 0.4, model: SliceModel::Slots };
                rate.set_slices((at % 200 == 0).then_some(turns));
            }
            if looks >= 2 && clock.aligned().probes > 0 {
                break;
            }
        }
    });
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
    assert!(looks >= 2 && clock.aligned().probes > 0, "{looks} {:?}", clock.aligned());
}

/// Two sessions spread their ticks. The threads that read their slots allocate nothing either.
#[test]
fn spread_ticks_allocate_nothing() {
    let _alone = counted::alone();
    let folder = tempfile::tempdir().unwrap();
    let phases = PhaseSettings { folder: Some(folder.path().into()) };
    let settings = TickSettings { period: Duration::from_millis(4), align: Align::Never, ..TickSettings::default() };
    let mut clocks = [0; 2].map(|_| TickClock::start(settings).unwrap());
    clocks.iter_mut().for_each(|clock| clock.join_phases(&phases).unwrap());
    // Let threads do everything once first, because the allocations of a first time do not belong to a tick.
    let mut see_each_other = |least: u64| {
        let mut ticks = 0;
        while ticks < least || clocks.iter().any(|clock| clock.phase().neighbours != 1) {
            clocks.iter_mut().for_each(|clock| {
                clock.wait();
                clock.done();
            });
            ticks += 1;
            assert!(ticks < 20_000, "{:?}", clocks[0].phase());
        }
    };
    see_each_other(100);
    // 400 ticks are long enough for several reads of the slots.
    let change = counted::count(|| see_each_other(400));
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
