//! Whether CPUs are time-sliced by the hypervisor, on the card: of the one that has least.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::quantum::{self, Order, Report};
use evenkeel_stats::periodicity::Model;

use super::entry::{Entry, Pace, line, with};

const PPM: f64 = 1e6;

pub(super) const ENTRY: Entry = Entry {
    name: "quantum",
    seconds: 2.0,
    turn: |pace: Pace, watch| {
        let settings = quantum::Settings {
            duration_ns: pace.of(2_000_000_000, 1_000_000_000),
            order: Order::Together,
            ..quantum::Settings::default()
        };
        Ok(lines(&quantum::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    let named = |model: Model| report.cpus.iter().filter(|cpu| cpu.model == Some(model)).count();
    let measured = report.cpus.iter().filter(|cpu| cpu.model.is_some()).count();
    if measured == 0 {
        return Vec::new();
    }
    // Whose model is none has all of its period; what is irregular has no share that could be told.
    let share = |cpu: &quantum::Cpu| if cpu.model == Some(Model::None) { Some(1.0) } else { cpu.share };
    let least = report.cpus.iter().filter_map(share).min_by(f64::total_cmp);
    let of_all = |count: usize| count as f64 / measured as f64 * PPM;
    let slots = line("quantum_slots_ppm", "CPUs with slots", Unit::Ppm, Better::Lower, of_all(named(Model::FixedSlot)));
    let irregular = line(
        "quantum_irregular_ppm",
        "CPUs taken at times that can't be told",
        Unit::Ppm,
        Better::Lower,
        of_all(named(Model::Irregular)),
    );
    let least = least.map(|share| {
        beside_the_talk(line(
            "quantum_share_ppm",
            "the least share of a period",
            Unit::Ppm,
            Better::Higher,
            share * PPM,
        ))
    });
    let period = report.cpus.iter().filter_map(|cpu| cpu.slots.as_ref().and(cpu.period_ms)).max_by(f64::total_cmp);
    let period = period.map(|ms| line("quantum_period_ns", "the period", Unit::Ns, Better::Neither, ms * 1e6));
    [Some(slots), Some(irregular), least, period].into_iter().flatten().collect()
}

fn beside_the_talk(line: CardLine) -> CardLine {
    with(
        line,
        "4 of 10 ms, older: all 10",
        "Jalal El Mansouri, Optimizing Servers for the Cloud",
        "on Azure a virtual core got all 10 ms of each 10 on older hardware, and most of the time 4 of 10 on newer",
    )
}
