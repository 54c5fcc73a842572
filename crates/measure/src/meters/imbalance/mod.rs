//! Finds a full CPU while others idle, and the threads and interrupts that fill it.
//! The machine's average hides this: one full CPU of eight is 12 %.

mod picture;
mod reading;

use evenkeel_hostfs::Root;
use evenkeel_sys::clock;
use serde::Serialize;

pub use picture::{BusyCpu, BusySource, BusyThread, FULL, IDLE, Picture, Shape, between};
pub use reading::{Reading, Source, ThreadTicks, sources};

use crate::{Lost, MeterError, Watch};

/// The maximum number of parts of the time. Each part takes memory during the run.
const PARTS_MAX: u64 = 100_000;
/// How often to check for a stop.
const STEP_NS: u64 = 50_000_000;

/// The settings of the imbalance meter.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long to measure, in nanoseconds.
    pub for_ns: u64,
    /// The length of a part, in nanoseconds. Each part is judged separately.
    /// Work that moves between CPUs fills each CPU in turn, but fills none over the whole time.
    /// The kernel counts in units of 10 ms.
    pub part_ns: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { for_ns: 5_000_000_000, part_ns: 1_000_000_000 }
    }
}

/// The report of the imbalance meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// How busy the CPUs were over the whole time.
    pub whole: Picture,
    /// The number of parts.
    pub parts: u64,
    /// Parts in which one CPU was full and another CPU idle.
    pub uneven_parts: u64,
    /// The uneven part with the largest difference between CPUs. None if no part was uneven.
    pub worst: Option<Picture>,
    /// Threads that were not read.
    pub lost: Lost,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if /proc does not show the load of the CPUs.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    let first = Reading::now(&root);
    if first.cpus.is_empty() {
        return Err(MeterError::not_possible("see how busy the CPUs are", "/proc/stat can't be read here"));
    }
    let parts = (settings.for_ns / settings.part_ns.max(1)).clamp(1, PARTS_MAX);
    let mut gathered = Gathered::new(first);
    for part in 1..=parts {
        let due_ns = gathered.first.at_ns + settings.for_ns / parts * part;
        while clock::monotonic_ns() < due_ns && !watch.stopped() {
            let passed_ns = clock::monotonic_ns().saturating_sub(gathered.first.at_ns);
            watch.progress(passed_ns as f64 / settings.for_ns.max(1) as f64, "looking at the CPUs");
            clock::sleep_until_ns(due_ns.min(clock::monotonic_ns() + STEP_NS));
        }
        gathered.add(Reading::now(&root));
        if watch.stopped() {
            break;
        }
    }
    Ok(gathered.report())
}

/// Judges readings as they arrive, in order. It holds only two readings at a time.
struct Gathered {
    first: Reading,
    last: Reading,
    parts: u64,
    uneven_parts: u64,
    worst: Option<Picture>,
    unseen: u64,
}

impl Gathered {
    fn new(first: Reading) -> Gathered {
        let unseen = first.unseen_threads;
        Gathered { last: first.clone(), first, parts: 0, uneven_parts: 0, worst: None, unseen }
    }

    fn add(&mut self, reading: Reading) {
        let picture = between(&self.last, &reading);
        self.parts += 1;
        self.unseen = self.unseen.max(reading.unseen_threads);
        if picture.shape == Shape::Uneven {
            self.uneven_parts += 1;
            if self.worst.as_ref().is_none_or(|worst| apart(&picture) > apart(worst)) {
                self.worst = Some(picture);
            }
        }
        self.last = reading;
    }

    fn report(self) -> Report {
        Report {
            whole: between(&self.first, &self.last),
            parts: self.parts,
            uneven_parts: self.uneven_parts,
            worst: self.worst,
            lost: Lost::new(self.unseen, "more threads than one reading looks at"),
        }
    }
}

/// The difference between the busiest and the least busy CPU.
fn apart(picture: &Picture) -> f64 {
    let shares = picture.cpus.iter().map(|cpu| cpu.busy_share);
    let (low, high) = shares.fold((1.0_f64, 0.0_f64), |(low, high), share| (low.min(share), high.max(share)));
    high - low
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::proc::CpuTicks;

    use super::*;

    #[test]
    fn moving_work_fills_no_cpu_overall() {
        let reading = |second: u64, busy: [u64; 2]| {
            let cpu =
                |(cpu, user): (usize, u64)| (cpu, CpuTicks { user, idle: second * 100 - user, ..CpuTicks::default() });
            Reading {
                at_ns: second * 1_000_000_000,
                cpus: busy.into_iter().enumerate().map(cpu).collect(),
                ..Reading::default()
            }
        };
        let mut gathered = Gathered::new(reading(0, [0, 0]));
        for (second, busy) in [(1, [100, 0]), (2, [100, 98]), (3, [160, 130]), (4, [160, 230])] {
            gathered.add(reading(second, busy));
        }
        let report = gathered.report();
        assert_eq!((report.parts, report.uneven_parts, report.whole.shape), (4, 3, Shape::Even));
        assert_eq!(report.worst.unwrap().full_cpus, [0]);
    }
}
