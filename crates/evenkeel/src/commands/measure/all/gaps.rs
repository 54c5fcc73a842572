//! Time that threads of ours saw missing, on the card.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::gaps::{self, Cause, Class, Keep, Mode, Order, Report};

use super::entry::{Entry, Pace, line};

const PPM: f64 = 1e6;
/// Those that nothing inside of this machine takes.
const FROM_OUTSIDE: [Cause; 3] = [Cause::Steal, Cause::Pause, Cause::Hypervisor];

pub(super) const ENTRY: Entry = Entry {
    name: "gaps",
    seconds: 3.0,
    turn: |pace: Pace, watch| {
        let settings = gaps::Settings {
            cpus: None,
            length_ns: pace.of(3_000_000_000, 1_500_000_000),
            threshold_ns: 10_000,
            mode: Mode::Spin,
            order: Order::AllAtOnce,
            class: Class::Ordinary,
            keep: Keep::Longest(1),
        };
        Ok(lines(&gaps::run(&settings, watch)?))
    },
};

fn lines(report: &Report) -> Vec<CardLine> {
    let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
    if watched_ns == 0 {
        return Vec::new();
    }
    let share = |ns: u64| ns as f64 / watched_ns as f64 * PPM;
    let of = |causes: &[Cause]| -> u64 {
        let sums = causes.iter().filter_map(|cause| report.causes.get(cause.name()));
        sums.map(|sum| sum.total_ns).sum()
    };
    let longest = report.all.longest_ns as f64;
    vec![
        line("gaps_longest_ns", "the longest", Unit::Ns, Better::Lower, longest),
        line(
            "gaps_missing_ppm",
            "missing in all, over 10 us each",
            Unit::Ppm,
            Better::Lower,
            share(report.all.total_ns),
        ),
        line("gaps_outside_ppm", "taken from outside", Unit::Ppm, Better::Lower, share(of(&FROM_OUTSIDE))),
        line("gaps_preempted_ppm", "taken by other threads", Unit::Ppm, Better::Lower, share(of(&[Cause::Preemption]))),
    ]
}
