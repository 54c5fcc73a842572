//! A server loop that chooses its own rate, counts its faults and keeps a telemetry page: `steady_rate WORK_US SECONDS`.
//! Each tick uses WORK_US of CPU time. The program prints when and why its rate changes. Other processes can read its page meanwhile.

use std::time::Duration;

use evenkeel_rt::TickLoop;
use evenkeel_rt::memory::MemoryConfig;
use evenkeel_rt::rate::{RateSettings, TickRate};
use evenkeel_rt::telemetry::{TelemetryReader, TelemetrySettings};
use evenkeel_sys::clock::{monotonic_ns, thread_cpu_ns};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let work_ns = arguments.next().transpose()?.unwrap_or(3_000).saturating_mul(1000);
    let seconds = arguments.next().transpose()?.unwrap_or(10);

    let builder = TickLoop::builder().adaptive_rate(RateSettings::default()).memory(MemoryConfig::default());
    let mut ticks = builder.telemetry(TelemetrySettings::named("steady_rate")).build()?;
    print!("{}", ticks.setup());
    let start_ns = monotonic_ns();
    ticks.on_rate_change(move |change| println!("{:6.2} s: {change}", (monotonic_ns() - start_ns) as f64 / 1e9));
    println!("{:?}, page {:?}", ticks.rate().map(TickRate::thresholds), ticks.telemetry_path());
    while monotonic_ns() - start_ns < seconds.saturating_mul(1_000_000_000) {
        let _tick = ticks.wait();
        let done_ns = thread_cpu_ns() + work_ns;
        while thread_cpu_ns() < done_ns {}
    }
    print!("{}", ticks.report());
    println!("load {:?}", ticks.rate().and_then(TickRate::load));
    if let Some(path) = ticks.telemetry_path() {
        let page = TelemetryReader::open(path)?.read()?;
        let quantile = |q: f64| page.due_to_done.quantile_ns(q).map(Duration::from_nanos);
        println!("the page: due to done p50 {:?}, p99 {:?}", quantile(0.5), quantile(0.99));
        println!("faults {:?}, CPU {:?}", page.faults, page.turns);
    }
    Ok(())
}
