//! Detects whether the CPUs of a load are full, however many threads share them.
//! If load and server use all of their CPU time, the load itself may limit the throughput.

use evenkeel_stats::median;
use evenkeel_sys::{CpuSet, thread};

use crate::caveat::WorkloadCaveat;
use crate::workload::Sample;

/// A thread is at its limit if it runs for this share of the time.
const SATURATED_SHARE: f64 = 0.95;
/// The maximum number of windows to store for the caveat.
const WINDOWS_MAX: usize = 20_000;
/// CPUs are full if they are used for this share of the time.
const FULL_SHARE: f64 = 0.95;

/// How much CPU some processes used, in CPUs, and the CPUs on which they may run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) cpus: f64,
    pub(crate) on: CpuSet,
}

/// How much of the load's CPUs the load and the server used, as shares of all of these CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Full {
    pub(crate) by_load: f64,
    /// The share that the server used. It is 0 if the server may also run on other CPUs.
    pub(crate) by_server: f64,
}

impl Full {
    /// None if the load's CPUs are unknown.
    pub(crate) fn new(load: &Ran, server: &Ran) -> Option<Full> {
        if load.on.is_empty() {
            return None;
        }
        let share = |ran: &Ran| ran.cpus / load.on.len() as f64;
        // If the server may run both on these CPUs and on others, its use of the load's CPUs is unknown.
        let is_here = !server.on.is_empty() && server.on.is_subset(&load.on);
        let full = Full { by_load: share(load), by_server: if is_here { share(server) } else { 0.0 } };
        full.share().is_finite().then_some(full)
    }

    pub(crate) fn share(&self) -> f64 {
        self.by_load + self.by_server
    }

    /// The caveat that the load itself may limit the result.
    pub(crate) fn caveat(&self) -> Option<WorkloadCaveat> {
        let Full { by_load, by_server } = *self;
        (self.share() >= FULL_SHARE).then_some(WorkloadCaveat::LoadCpusFull { by_load, by_server })
    }
}

/// How full the CPUs of the load were in all windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fullness {
    /// For each window, the share of the time in which the load's busiest thread ran.
    busiest: Vec<f64>,
    /// For each window, how full the load's CPUs were.
    full: Vec<Full>,
}

impl Fullness {
    pub(crate) fn note(&mut self, busiest: Option<f64>, full: Option<Full>) {
        if self.busiest.len().max(self.full.len()) < WINDOWS_MAX {
            self.busiest.extend(busiest.filter(|share| share.is_finite()));
            self.full.extend(full);
        }
    }

    /// Adds a window from the fields of its sample. Load and server report their CPU time and the length of the window.
    pub(crate) fn note_reported(&mut self, sample: &Sample, load: (u32, [&str; 2]), server: (u32, [&str; 2])) {
        let ran = |(pid, [cpu, span]): (u32, [&str; 2])| {
            let cpus = sample.get(cpu)? / sample.get(span)?;
            Some(Ran { cpus, on: thread::affinity_of(pid).unwrap_or_default() })
        };
        if let (Some(load), Some(server)) = (ran(load), ran(server)) {
            self.note(None, Full::new(&load, &server));
        }
    }

    /// How full the load's CPUs were in the median window. None without windows.
    fn usual(&self) -> Option<Full> {
        let of = |share: fn(&Full) -> f64| median(&self.full.iter().map(share).collect::<Vec<_>>());
        Some(Full { by_load: of(|full| full.by_load)?, by_server: of(|full| full.by_server)? })
    }

    /// The caveat that the load itself may limit the result.
    pub(crate) fn caveat(&self) -> Option<WorkloadCaveat> {
        match median(&self.busiest).filter(|share| *share >= SATURATED_SHARE) {
            Some(share) => Some(WorkloadCaveat::LoadThreadFull { share }),
            None => self.usual().and_then(|full| full.caveat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_load_and_server_are_judged() {
        let own = std::process::id();
        let of = |load_us: f64, server_us: f64| {
            let mut fullness = Fullness::default();
            let numbers =
                [("cpu_us", server_us), ("span_us", 1e6), ("load_cpu_us", load_us), ("load_span_us", 1e6), ("x", 1.0)];
            let sample: Sample = numbers.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            fullness.note_reported(&sample, (own, ["load_cpu_us", "load_span_us"]), (own, ["cpu_us", "span_us"]));
            fullness.caveat()
        };
        // Load and server may both run on all CPUs of this process.
        let all_us = thread::affinity().unwrap().len() as f64 * 1e6;
        assert_eq!(of(0.1 * all_us, 0.1 * all_us), None);
        let both = of(0.5 * all_us, 0.48 * all_us).unwrap();
        assert!(
            both.to_string().starts_with("the load used 50 % and the server 48 % of all CPUs that the load may run on"),
            "{both:?}"
        );
        let mut none = Fullness::default();
        none.note_reported(&Sample::new(), (own, ["load_cpu_us", "load_span_us"]), (own, ["cpu_us", "span_us"]));
        assert_eq!(none.caveat(), None, "without numbers there is no caveat");
    }

    #[test]
    fn cpus_are_full_whoever_fills_them() {
        let ran = |cpus, on: &str| Ran { cpus, on: CpuSet::parse_list(on).unwrap() };
        let caveat_of = |load: Ran, server: Ran| {
            let caveat = Full::new(&load, &server).and_then(|full| full.caveat());
            caveat.map(|caveat| caveat.to_string()).unwrap_or_default()
        };
        let end = "the load may limit the result, not the server; give it more CPUs, or CPUs of its own";
        let table = [
            (
                "threads that share one CPU",
                ran(0.99, "1"),
                ran(0.4, "0"),
                "the load used 99 % of all CPUs that it may run on: ",
            ),
            ("one of two CPUs is free", ran(1.0, "2-3"), ran(2.0, "0-1"), ""),
            (
                "both on one CPU",
                ran(0.31, "0"),
                ran(0.67, "0"),
                "the load used 31 % and the server 67 % of all CPUs that the load may run on: ",
            ),
            ("both on one CPU that idles", ran(0.3, "0"), ran(0.4, "0"), ""),
            ("the server may run elsewhere too", ran(0.5, "0"), ran(0.5, "0-1"), ""),
            (
                "a server on a part of them",
                ran(1.2, "0-1"),
                ran(0.8, "1"),
                "the load used 60 % and the server 40 % of ",
            ),
            ("where is not known", ran(0.99, ""), ran(0.0, ""), ""),
            ("no time passed", ran(f64::NAN, "0"), ran(0.0, "0"), ""),
        ];
        for (what, load, server, expected) in table {
            let caveat = caveat_of(load, server);
            assert!(caveat.starts_with(expected) && caveat.is_empty() == expected.is_empty(), "{what}: {caveat}");
            assert!(caveat.is_empty() || caveat.ends_with(end), "{what}: {caveat}");
        }
    }
}
