//! How the main rates went from reading to reading. Not a histogram: most of these rates are 0 most of the time, and a histogram of
//! durations has no 0.

use serde::Serialize;

use super::Target;
use super::report::{ProcessRates, Rates};
use crate::{Lost, Unit};

/// Rates that are kept of one kind; of more, every second one, then every fourth, and so on.
const KEPT_MAX: usize = 1 << 16;
const PPM: f64 = 1e6;

/// How one rate went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// What it is, the unit last.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// Pairs of readings that it is made of.
    pub count: u64,
    /// The lowest.
    pub min: f64,
    /// A tenth were no higher.
    pub p10: f64,
    /// Half were no higher.
    pub p50: f64,
    /// Nine in ten were no higher.
    pub p90: f64,
    /// The highest.
    pub max: f64,
}

/// A rate that is followed: its name, its unit, and where it stands.
type Followed = (&'static str, Unit, fn(&Rates) -> Option<f64>);

const OF_THE_MACHINE: [Followed; 8] = [
    ("context_switches_per_s", Unit::PerS, |rates| rates.system.context_switches_per_s.known().copied()),
    ("interrupts_per_s", Unit::PerS, |rates| rates.system.interrupts_per_s.known().copied()),
    ("minor_faults_per_s", Unit::PerS, |rates| rates.system.minor_faults_per_s.known().copied()),
    ("major_faults_per_s", Unit::PerS, |rates| rates.system.major_faults_per_s.known().copied()),
    ("swap_ins_per_s", Unit::PerS, |rates| rates.system.swap_ins_per_s.known().copied()),
    ("steal_ppm", Unit::Ppm, |rates| rates.system.all.known().map(|all| all.steal * PPM)),
    ("busy_ppm", Unit::Ppm, |rates| rates.system.all.known().map(|all| (1.0 - all.idle - all.steal) * PPM)),
    ("cpu_pressure_ppm", Unit::Ppm, |rates| rates.system.pressure.first()?.some.known().map(|some| some * PPM)),
];

const OF_A_PROCESS: [Followed; 4] = [
    ("process_cpu_ppm", Unit::Ppm, |rates| process_of(rates)?.cpu.known().map(|cpu| cpu * PPM)),
    ("process_run_delay_ppm", Unit::Ppm, |rates| process_of(rates)?.run_delay.known().map(|delay| delay * PPM)),
    ("process_major_faults_per_s", Unit::PerS, |rates| process_of(rates)?.major_faults_per_s.known().copied()),
    ("process_involuntary_switches_per_s", Unit::PerS, |rates| {
        process_of(rates)?.involuntary_switches_per_s.known().copied()
    }),
];

fn process_of(rates: &Rates) -> Option<&ProcessRates> {
    rates.process.as_ref()?.known()
}

/// The rates that are followed, as they come.
pub(super) struct Course {
    rates: Vec<(&'static Followed, Series)>,
}

#[derive(Default)]
struct Series {
    kept: Vec<f64>,
    /// One in so many is kept, less one.
    skip: u64,
    count: u64,
    untold: u64,
    min: Option<f64>,
    max: Option<f64>,
}

impl Course {
    pub(super) fn new(target: &Target) -> Course {
        let of_a_process: &[Followed] = if matches!(target, Target::Process(_)) { &OF_A_PROCESS } else { &[] };
        let followed = OF_THE_MACHINE.iter().chain(of_a_process);
        Course { rates: followed.map(|followed| (followed, Series::default())).collect() }
    }

    pub(super) fn add(&mut self, rates: &Rates) {
        for ((_, _, of), series) in &mut self.rates {
            match of(rates) {
                Some(rate) => series.add(rate),
                None => series.untold += 1,
            }
        }
    }

    /// What there is of them. What this machine never tells is not lost.
    pub(super) fn finish(self) -> (Vec<Spread>, Lost) {
        let mut untold = 0;
        let mut spreads = Vec::new();
        for ((name, unit, _), series) in self.rates {
            if let Some(spread) = series.spread(name, *unit) {
                untold += series.untold;
                spreads.push(spread);
            }
        }
        (spreads, Lost::of(untold, "rates between two readings that could not be told"))
    }
}

impl Series {
    fn add(&mut self, rate: f64) {
        if self.count.is_multiple_of(self.skip + 1) {
            if self.kept.len() == KEPT_MAX {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.skip = self.skip * 2 + 1;
            }
            self.kept.push(rate);
        }
        self.count += 1;
        self.min = Some(self.min.map_or(rate, |min| min.min(rate)));
        self.max = Some(self.max.map_or(rate, |max| max.max(rate)));
    }

    fn spread(&self, name: &'static str, unit: Unit) -> Option<Spread> {
        let at = |q| evenkeel_stats::quantile(&self.kept, q);
        let (p10, p50, p90) = (at(0.1)?, at(0.5)?, at(0.9)?);
        Some(Spread { name, unit, count: self.count, min: self.min?, p10, p50, p90, max: self.max? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_thinned_out_and_the_ends_stay() {
        let mut series = Series::default();
        let count = 5 * KEPT_MAX as u64;
        (0..count).for_each(|at| series.add(at as f64));
        assert!(series.kept.len() <= KEPT_MAX && series.kept.len() > KEPT_MAX / 4, "{}", series.kept.len());
        let spread = series.spread("x_per_s", Unit::PerS).unwrap();
        assert_eq!((spread.count, spread.min, spread.max), (count, 0.0, (count - 1) as f64));
        assert!((spread.p50 / count as f64 - 0.5).abs() < 0.01, "{spread:?}");
        assert_eq!(Series::default().spread("x", Unit::PerS), None);
    }
}
