//! Nothing is allocated after the start: an allocation can take a lock, or fault a page in, in the middle of a tick.

use std::alloc::System;
use std::time::Duration;

use evenkeel_rt::{Overrun, Spinning, TickClock, TickSettings};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_million_ticks_allocate_nothing() {
    let period = Duration::from_nanos(1);
    for overrun in [Overrun::Skip, Overrun::CatchUp { at_most: 3 }, Overrun::SlowDown] {
        let mut clock =
            TickClock::start(TickSettings { period, overrun, spinning: Spinning::Always, ..TickSettings::default() });
        // Its thread at the side starts meanwhile, which takes memory too.
        std::thread::sleep(Duration::from_millis(500));
        let region = Region::new(COUNTING);
        for _ in 0..350_000 {
            std::hint::black_box(clock.wait());
            clock.done();
        }
        std::hint::black_box(clock.report());
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{overrun:?}: {change:?}");
        assert_eq!(clock.report().ticks, 350_000);
    }
    let region = Region::new(COUNTING);
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(region.change().allocations, 1, "the counter counts");
}
