//! A server loop that chooses its own rate, counts its faults and keeps a page of telemetry: `steady_rate WORK_US SECONDS`. It works for so
//! long a tick, of CPU time, and says when and why its rate changes; its page can be read meanwhile.

use std::time::Duration;

use evenkeel_rt::memory::{Memory, MemoryConfig};
use evenkeel_rt::rate::{RateSettings, TickRate, TimeSlices};
use evenkeel_rt::telemetry::{Telemetry, TelemetryReader, TelemetrySettings};
use evenkeel_rt::{ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::clock::{monotonic_ns, thread_cpu_ns};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let work_ns = arguments.next().transpose()?.unwrap_or(3_000).saturating_mul(1000);
    let seconds = arguments.next().transpose()?.unwrap_or(10);

    let thread = TickThread::set_up(&ThreadConfig::default());
    let mut memory = Memory::set_up(&MemoryConfig::default());
    memory.report().advice().iter().for_each(|advice| println!("{advice}"));
    let mut telemetry = Telemetry::create(&TelemetrySettings::named("steady_rate"))?;
    let start_ns = monotonic_ns();
    let mut rate = TickRate::start(RateSettings::default())?.on_change(move |change| {
        let at = (monotonic_ns() - start_ns) as f64 / 1e9;
        println!("{at:6.2} s: {:?} to {:?}: {:?}", change.from, change.to, change.why);
    });
    println!("{:?}, page {}", rate.thresholds(), telemetry.path().display());
    let settings = TickSettings { period: rate.period(), ..TickSettings::default() };
    let mut clock = TickClock::start(settings).on(thread);
    telemetry.set_period(clock.period());
    while monotonic_ns() - start_ns < seconds.saturating_mul(1_000_000_000) {
        clock.wait();
        let done_ns = thread_cpu_ns() + work_ns;
        while thread_cpu_ns() < done_ns {}
        let Some(done) = clock.done() else { continue };
        let tick = memory.after(&done);
        telemetry.set_faults(tick.faults);
        telemetry.set_swapped_in(tick.swapped_in);
        telemetry.after(&done);
        telemetry.set_quantum(&clock.quantum());
        rate.set_slices(TimeSlices::of(&clock.quantum()));
        rate.after(&done);
        if rate.period() != clock.period() {
            clock.set_period(rate.period());
            telemetry.set_period(rate.period());
        }
    }
    let page = TelemetryReader::open(telemetry.path())?.read()?;
    let ms = |ns: Option<u64>| ns.map(Duration::from_nanos);
    println!("{} ticks, {} missed, load {:?}", page.ticks, page.missed, rate.load());
    println!(
        "due to done: median {:?}, p99 {:?}",
        ms(page.due_to_done.quantile_ns(0.5)),
        ms(page.due_to_done.quantile_ns(0.99))
    );
    println!("faults {:?}, CPU {:?}", page.faults, page.turns);
    Ok(())
}
