//! Lists the loops of recordings from `evenkeel measure ticks --save`, one line each. It helps to improve the search for the tick.
//!
//! usage: loops FILE…

use evenkeel_measure::meters::ticks::choice::{Wanted, choose};
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::tick_account;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let stream = Stream::parse(&std::fs::read_to_string(&file)?)?;
        let begun = std::time::Instant::now();
        let choice = choose(&stream, &Wanted::default());
        let took = begun.elapsed().as_millis();
        let verdict = match choice.tick() {
            Ok(tick) => format!("tick {:.3} Hz", tick.tempo.hz()),
            Err(why) => format!("unclear: {why}"),
        };
        let cpu = stream.ran_ns() as f64 / stream.span_ns() as f64 * 100.0;
        println!("{file}: {verdict} ({cpu:.2} % of a CPU, {took} ms)");
        for one in &choice.loops {
            let tempo = &one.tempo;
            let carriers: Vec<String> =
                one.carriers.iter().take(3).map(|who| format!("{} {:.0}%", who.name, who.share * 100.0)).collect();
            let account = tick_account(&stream, one, None);
            let due = account.map_or_else(
                |why| why.to_string(),
                |account| {
                    format!(
                        "{:?} {} ticks {} missed {} hidden",
                        account.due, account.ticks, account.missed, account.hidden
                    )
                },
            );
            println!(
                "  {:8.3} Hz {:5.1} % presence {:.2} {:?} spread {:.0} us, work {} us, {:?} {:?} in {:?} holds {:?} heavier {:?} [{}] {due}",
                tempo.hz(),
                one.work_share * 100.0,
                tempo.presence,
                tempo.pacing,
                tempo.spread_ns / 1e3,
                one.tick_work_ns_p50 / 1000,
                one.of,
                one.waits,
                one.within_hz,
                one.holds_hz,
                one.heavier_hz,
                carriers.join(", "),
            );
        }
    }
    Ok(())
}
