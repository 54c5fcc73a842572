//! scratch
use evenkeel_rt::jobs::*;
fn main() {
    const NOW: Queue = Queue(1);
    let queues = vec![QueueSettings::frame(1024), QueueSettings::frame(1024), QueueSettings::asynchronous(64)];
    let mut jobs = Jobs::start(&JobSettings { queues, ..JobSettings::default() }).unwrap();
    let began = std::time::Instant::now();
    let frames: u32 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(20000);
    for _ in 0..frames {
        jobs.frame(|frame| {
            (0..1000u32).try_for_each(|number| {
                frame.push(NOW, move || {
                    std::hint::black_box(number);
                })
            })
        })
        .unwrap();
    }
    println!("{:.2} ns", began.elapsed().as_nanos() as f64 / f64::from(frames) / 1000.0);
    println!("{:?}", jobs.last_frame());
}
