//! tokio's interval at 60 Hz on the multi-thread runtime, 2 workers, 1 ms of work a tick: set times, and the task may move between workers.
//! It prints its own count every 20 s (tokio's signal handling takes a driver that this crate does without).
use std::hint::black_box;
use std::time::{Duration, Instant};

fn rounds(n: u64) {
    let mut x = black_box(1_u64);
    for _ in 0..n {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

async fn tick_loop(work: u64) {
    let mut interval = tokio::time::interval(Duration::from_nanos(1_000_000_000 / 60));
    let (start, mut ticks) = (Instant::now(), 0_u32);
    loop {
        interval.tick().await;
        rounds(work);
        ticks += 1;
        if ticks.is_multiple_of(1200) {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("zoo: {ticks} ticks in {seconds:.3} s, {:.3} Hz", f64::from(ticks) / seconds);
        }
    }
}

fn main() {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        rounds(200_000);
        best = best.min(start.elapsed().as_secs_f64());
    }
    let percent = std::env::var("ZOO_WORK_PERCENT").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(100.0);
    let work = (200_000.0 / best * 1e-3 * percent / 100.0) as u64;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    runtime.block_on(async move {
        tokio::spawn(tick_loop(work)).await.expect("the loop never ends");
    });
}
