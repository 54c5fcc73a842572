//! The CPUs' clocks, on the card: of the slowest CPU.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::frequency::{self, Report};
use evenkeel_sys::thread;

use super::entry::{Entry, Pace, line, with};

const PPM: f64 = 1e6;
/// All CPUs of a large machine share this, so that a turn has the same length everywhere.
const ALONE_NS: u64 = 1_000_000_000;

pub(super) const ENTRY: Entry = Entry {
    name: "frequency",
    seconds: 2.0,
    turn: |pace: Pace, watch| {
        let cpus = thread::affinity().map_or(1, |cpus| cpus.iter().count().max(1)) as u64;
        let each_ns = (pace.of(ALONE_NS, ALONE_NS / 2) / cpus).clamp(5_000_000, 200_000_000);
        let settings = frequency::Settings { each_ns, pairs_max: 2 };
        Ok(lines(&frequency::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    let slowest = |of: &dyn Fn(&frequency::CpuClock) -> Option<u64>| report.cpus.iter().filter_map(of).min();
    let p50 = |clock: &frequency::Clock| Some(clock.clock_khz.histogram.summary()?.p50);
    let alone = slowest(&|cpu| p50(&cpu.alone)).map(|khz| {
        let line = line("clock_alone_khz", "one CPU busy", Unit::Khz, Better::Higher, khz as f64);
        beside_the_paper(line, "3.5 GHz (c4.8xlarge)")
    });
    let all = slowest(&|cpu| p50(cpu.all_busy.as_ref()?)).map(|khz| {
        let line = line("clock_all_busy_khz", "all CPUs busy", Unit::Khz, Better::Higher, khz as f64);
        beside_the_paper(line, "3.2 GHz (c4.8xlarge)")
    });
    let pairs = report.siblings.pairs.iter().filter_map(|pair| pair.together_to_alone);
    let beside = pairs.min_by(f64::total_cmp).map(|ratio| {
        line("beside_neighbour_ppm", "work left beside a busy neighbour CPU", Unit::Ppm, Better::Higher, ratio * PPM)
    });
    [alone, all, beside].into_iter().flatten().collect()
}

fn beside_the_paper(line: CardLine, figure: &str) -> CardLine {
    with(
        line,
        figure,
        "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
        "a c4.8xlarge runs at up to 3.5 GHz with two CPUs busy, and at 3.2 GHz with all 36, or with none allowed below C1",
    )
}
