//! Follows the main rates from reading to reading, as samples and as a timeline.
//! Most of these rates are usually 0, and a logarithmic histogram has no bar for 0. So zeros are counted separately.

use super::report::{Level, ProcessRates, Rates, Spread};
use super::settings::Target;
use super::timeline::{Stretch, Timeline};
use crate::{Lost, Samples, Unit};

/// The maximum number of values of one rate to hold. Beyond that number, the course keeps every second value, then every fourth, and so on.
const KEPT_MAX: usize = 1 << 16;
const PPM: f64 = 1e6;

/// A rate to follow: its name, its unit, and the function that reads it.
type Followed = (&'static str, Unit, fn(&Rates) -> Option<f64>);

const OF_THE_MACHINE: [Followed; 11] = [
    ("context_switches_per_s", Unit::PerS, |rates| rates.system.context_switches_per_s.known().copied()),
    ("interrupts_per_s", Unit::PerS, |rates| rates.system.interrupts_per_s.known().copied()),
    ("minor_faults_per_s", Unit::PerS, |rates| rates.system.minor_faults_per_s.known().copied()),
    ("major_faults_per_s", Unit::PerS, |rates| rates.system.major_faults_per_s.known().copied()),
    ("swap_ins_per_s", Unit::PerS, |rates| rates.system.swap_ins_per_s.known().copied()),
    ("steal_ppm", Unit::Ppm, |rates| rates.system.all.known().map(|all| all.steal * PPM)),
    ("busy_ppm", Unit::Ppm, |rates| rates.system.all.known().map(|all| (1.0 - all.idle - all.steal) * PPM)),
    ("cpu_pressure_ppm", Unit::Ppm, |rates| pressure(rates, 0)),
    ("memory_pressure_ppm", Unit::Ppm, |rates| pressure(rates, 1)),
    ("io_pressure_ppm", Unit::Ppm, |rates| pressure(rates, 2)),
    ("throttled_periods_ppm", Unit::Ppm, throttled),
];

/// The share of the time in which some thread of the machine waited for a resource, by its index in `Resource::ALL`.
fn pressure(rates: &Rates, at: usize) -> Option<f64> {
    rates.system.pressure.get(at)?.some.known().map(|some| some * PPM)
}

/// The share of its periods in which the group was throttled, by the tightest of its own limits and its ancestors' limits.
/// None without a limit, or if no period has begun.
fn throttled(rates: &Rates) -> Option<f64> {
    let of = |level: &Level| {
        let periods = level.periods.known().filter(|periods| **periods > 0)?;
        level.quota.known()?.as_ref()?;
        Some(*level.throttled_periods.known()? as f64 / *periods as f64 * PPM)
    };
    rates.group.levels.known()?.iter().filter_map(of).reduce(f64::max)
}

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

/// The followed rates.
pub(super) struct Course {
    rates: Vec<(&'static Followed, Series)>,
}

struct Series {
    kept: Vec<f64>,
    /// The course keeps one value out of `skip + 1`.
    skip: u64,
    count: u64,
    zeros: u64,
    unknown: u64,
    min: Option<f64>,
    max: Option<f64>,
    samples: Samples,
    timeline: Timeline,
}

/// The time from one reading to the next, in nanoseconds since the first reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Course {
    pub(super) fn new(target: &Target, every_ms: u64) -> Course {
        let of_a_process: &[Followed] = if matches!(target, Target::Process(_)) { &OF_A_PROCESS } else { &[] };
        let followed = OF_THE_MACHINE.iter().chain(of_a_process);
        Course { rates: followed.map(|followed| (followed, Series::new(followed.0, followed.1, every_ms))).collect() }
    }

    pub(super) fn add(&mut self, rates: &Rates, between: Between) {
        for ((_, _, of), series) in &mut self.rates {
            match of(rates) {
                Some(rate) => series.add(rate, between),
                None => series.unknown += 1,
            }
        }
    }

    /// The spreads so far. A rate that this machine never reports is not counted as lost.
    pub(super) fn finish(self) -> (Vec<Spread>, Lost) {
        let why = "unknown rates between two readings";
        let mut unknown = 0;
        let mut spreads = Vec::new();
        for ((name, unit, _), series) in self.rates {
            let missing = series.unknown;
            if let Some(mut spread) = series.spread(name, *unit) {
                unknown += missing;
                spread.samples.lose(missing, why);
                spreads.push(spread);
            }
        }
        (spreads, Lost::new(unknown, why))
    }
}

impl Series {
    fn new(name: &str, unit: Unit, every_ms: u64) -> Series {
        Series {
            kept: Vec::new(),
            skip: 0,
            count: 0,
            zeros: 0,
            unknown: 0,
            min: None,
            max: None,
            samples: Samples::new(name, unit, [("every_ms", every_ms.to_string())]),
            timeline: Timeline::default(),
        }
    }

    fn add(&mut self, rate: f64, between: Between) {
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
        self.timeline.add(Stretch { start_ns: between.start_ns, end_ns: between.end_ns, mean: rate, max: rate });
        // Shares of rounded counters can come out slightly below 0.
        if rate <= 0.0 {
            self.zeros += 1;
        } else {
            self.samples.record(rate.ceil() as u64);
        }
    }

    fn spread(self, name: &'static str, unit: Unit) -> Option<Spread> {
        let at = |q| evenkeel_stats::quantile(&self.kept, q);
        let (p10, p50, p90) = (at(0.1)?, at(0.5)?, at(0.9)?);
        let Series { count, zeros, samples, .. } = self;
        let timeline = self.timeline.finish();
        Some(Spread { name, unit, count, min: self.min?, p10, p50, p90, max: self.max?, zeros, samples, timeline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64) -> Between {
        Between { start_ns: at * 1_000_000_000, end_ns: (at + 1) * 1_000_000_000 }
    }

    #[test]
    fn many_are_thinned_out_and_the_ends_stay() {
        let mut series = Series::new("x_per_s", Unit::PerS, 1000);
        let count = 5 * KEPT_MAX as u64;
        (0..count).for_each(|at| series.add(at as f64, second(at)));
        assert!(series.kept.len() <= KEPT_MAX && series.kept.len() > KEPT_MAX / 4, "{}", series.kept.len());
        let spread = series.spread("x_per_s", Unit::PerS).unwrap();
        assert_eq!((spread.count, spread.min, spread.max), (count, 0.0, (count - 1) as f64));
        assert!((spread.p50 / count as f64 - 0.5).abs() < 0.01, "{spread:?}");
        assert_eq!((spread.zeros, spread.samples.histogram.count()), (1, count - 1), "each is counted");
        assert!(Series::new("x", Unit::PerS, 1000).spread("x", Unit::PerS).is_none());
    }

    #[test]
    fn few_readings_give_no_quantiles() {
        let mut series = Series::new("major_faults_per_s", Unit::PerS, 1000);
        for (at, rate) in [0.0, 0.0, 0.2, 0.0, 7.0, -1e-9].into_iter().enumerate() {
            series.add(rate, second(at as u64));
        }
        let spread = series.spread("major_faults_per_s", Unit::PerS).unwrap();
        assert_eq!((spread.count, spread.zeros), (6, 4));
        let bars: Vec<(u64, u64)> = spread.samples.histogram.bars().iter().map(|bar| (bar.upper, bar.count)).collect();
        assert_eq!(bars, [(1, 1), (2, 0), (5, 0), (10, 1)], "a rate of 0.2 per second is not 0");
        assert_eq!(spread.samples.histogram.clamped(), 0);
        let means: Vec<f64> = spread.timeline.iter().map(|stretch| stretch.mean).collect();
        assert_eq!(means, [0.0, 0.0, 0.2, 0.0, 7.0, -1e-9]);
    }
}
