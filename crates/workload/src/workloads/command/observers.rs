//! Observes a command from outside, for servers that do not report their ticks.
//! The observers see the tick and the cadence of packets.
//! Each start searches for the threads and sockets again, because their numbers may then belong to others.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::meters::ticks::choice::Wanted;

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::source::outside_packets::{self, OutsidePackets};
use crate::source::outside_ticks::{self, OutsideTicks};
use crate::source::{InvalidMetric, Source};
use crate::workload::Sample;

/// What to observe from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observer {
    /// The tick, by the kernel's switch records of its thread.
    Ticks,
    /// The cadence of the packets that the server sends.
    Packets,
}

impl Observer {
    fn metrics(self) -> &'static [Metric] {
        match self {
            Observer::Ticks => outside_ticks::METRICS,
            Observer::Packets => outside_packets::METRICS,
        }
    }
}

/// What the user wants to observe, and the open sources while the server runs.
#[derive(Default)]
pub(super) struct Observers {
    requested: Vec<Observer>,
    tick: Wanted,
    open: Vec<Box<dyn Source>>,
}

impl Observers {
    pub(super) fn new(requested: &[Observer], tick: &Wanted) -> Result<Observers, InvalidMetric> {
        let mut requested = requested.to_vec();
        requested.sort_unstable();
        requested.dedup();
        if *tick != Wanted::default() && !requested.contains(&Observer::Ticks) {
            return Err("--tick, --tick-thread, --tick-function: add --observe ticks".into());
        }
        Ok(Observers { requested, tick: tick.clone(), open: Vec::new() })
    }

    /// The metrics of the open sources. Before sources are open, all metrics that the sources may have.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        match &self.open[..] {
            [] => self.requested.iter().flat_map(|observer| observer.metrics()).cloned().collect(),
            open => open.iter().flat_map(|source| source.metrics()).collect(),
        }
    }

    /// See [`Source::events_per_s`]. The value is the smallest of all sources.
    pub(super) fn events_per_s(&self) -> Option<f64> {
        self.open.iter().filter_map(|source| source.events_per_s()).min_by(f64::total_cmp)
    }

    /// Whether there are sources, and all of them allow interleaving.
    pub(super) fn takes_turns(&self) -> bool {
        !self.open.is_empty() && self.open.iter().all(|source| source.takes_turns())
    }

    /// Opens the sources for these processes. Finding a tick takes some three seconds.
    pub(super) fn open(&mut self, pids: &[u32], stop: &AtomicBool) -> Result<(), WorkloadError> {
        self.close();
        for observer in &self.requested {
            self.open.push(match observer {
                Observer::Ticks => Box::new(OutsideTicks::start(pids, &self.tick, stop)?),
                Observer::Packets => Box::new(OutsidePackets::start(pids)?),
            });
        }
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    /// The open sources.
    pub(super) fn open_sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.open.iter().map(AsRef::as_ref)
    }

    pub(super) fn begin(&mut self) -> Result<(), WorkloadError> {
        self.open.iter_mut().try_for_each(|source| source.begin())
    }

    pub(super) fn end(&mut self) -> Result<Sample, WorkloadError> {
        let mut sample = Sample::new();
        for source in &mut self.open {
            sample.extend(source.end()?);
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_for_its_tick_alone_and_nothing_is_seen_twice() {
        let main = Wanted { thread: Some("main".to_owned()), ..Wanted::default() };
        let observers = Observers::new(&[Observer::Packets, Observer::Ticks, Observer::Packets], &main).unwrap();
        let names: Vec<_> = observers.metrics().into_iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), outside_ticks::METRICS.len() + outside_packets::METRICS.len());
        assert_eq!(names[0], "due_to_done_us_p99", "the tick's metrics come first");
        let wrong = Observers::new(&[Observer::Packets], &main).err().unwrap().to_string();
        assert_eq!(wrong, "--tick, --tick-thread, --tick-function: add --observe ticks");
    }
}
