//! What the kernel counts while nothing of ours runs, on the card: what the machine is like before a server is put on it.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::rates::{self, Pages, Report, Seen, Target};

use super::entry::{Entry, Pace, line, with};

const PPM: f64 = 1e6;

pub(super) const ENTRY: Entry = Entry {
    name: "rates",
    seconds: 2.0,
    turn: |pace: Pace, watch| {
        let for_ms = pace.of(2000, 1000);
        let settings = rates::Settings { target: Target::Machine, for_ms, every_ms: for_ms, pages: Pages::AsTheyAre };
        Ok(lines(&rates::run(&settings, watch)?))
    },
};

/// What is unknown has no line.
fn lines(report: &Report) -> Vec<CardLine> {
    let system = &report.rates.system;
    let rate =
        |id, title, better, rate: &Seen<f64>| rate.known().map(|rate| line(id, title, Unit::PerS, better, *rate));
    let share =
        |id, title, better, share: Option<f64>| share.map(|share| line(id, title, Unit::Ppm, better, share * PPM));
    let all = system.all.known();
    let cpu = system.pressure.first().and_then(|pressure| pressure.some.known());
    let swap_ins = rate("swap_ins_per_s", "pages swapped in", Better::Lower, &system.swap_ins_per_s);
    let lines = [
        share("steal_ppm", "stolen, as the kernel counts", Better::Lower, all.map(|all| all.steal)),
        share("busy_ppm", "busy before we came", Better::Lower, all.map(|all| 1.0 - all.idle - all.steal)),
        share("cpu_pressure_ppm", "some thread waits for a CPU", Better::Lower, cpu.copied()),
        rate("context_switches_per_s", "context switches", Better::Neither, &system.context_switches_per_s),
        rate("interrupts_per_s", "interrupts", Better::Neither, &system.interrupts_per_s),
        rate("major_faults_per_s", "page faults that wait for a disk", Better::Lower, &system.major_faults_per_s),
        swap_ins.map(beside_the_talk),
    ];
    lines.into_iter().flatten().collect()
}

fn beside_the_talk(line: CardLine) -> CardLine {
    with(
        line,
        "should be none",
        "Jalal El Mansouri, Optimizing Servers for the Cloud",
        "page swaps were seen during gameplay on machines with 1.75 GB, of which the system took up to 40 %",
    )
}
