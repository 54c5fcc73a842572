//! Runs the collector in a separate thread, and keeps its latest answer for all requests.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Bytes;
use evenkeel_sys::clock;
use evenkeel_watch::recorder::Dumper;
use evenkeel_watch::{Collector, Model};
use tokio::sync::watch;

use super::history::{History, Point};
use crate::exit;
use crate::failure::Failure;

/// The collector counts as hung if the newest sample is older than this.
const FRESH_NS: u64 = 10_000_000_000;

/// The events between the last two samples.
pub(super) struct Latest {
    pub(super) model: Model,
    pub(super) point: Point,
    /// The answers with this model, as JSON and as metrics. They are made once, and shared by all clients.
    pub(super) json: OnceLock<Bytes>,
    pub(super) metrics: OnceLock<Bytes>,
}

/// The data that requests read. All clones share it.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) latest: watch::Receiver<Option<Arc<Latest>>>,
    history: Arc<Mutex<History>>,
    /// The flight recorder, if it runs.
    pub(super) dumper: Option<Dumper>,
}

impl Shared {
    /// The earlier samples. They stay consistent even if another request panicked while it held the lock.
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The collector's thread.
pub(super) struct Feed {
    pub(super) shared: Shared,
    thread: JoinHandle<()>,
    began_ns: u64,
    interval_ns: u64,
}

impl Feed {
    /// Takes samples, one each `interval`, until `stop` is set.
    ///
    /// # Errors
    /// If the thread does not start.
    pub(super) fn start(
        mut collector: Collector,
        interval: Duration,
        points_max: usize,
        stop: Arc<AtomicBool>,
    ) -> Result<Feed, Failure> {
        let began_ns = clock::monotonic_ns();
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let (send, latest) = watch::channel(None);
        let history = Arc::new(Mutex::new(History::new(points_max)));
        let shared = Shared { latest, history, dumper: collector.dumper() };
        let keep = shared.clone();
        let body = move || {
            let mut before = collector.sample();
            while collector.wait(&stop) {
                let after = collector.sample();
                let model = Model::from_samples(&before, &after);
                let point = Point::from_model(&model);
                keep.history().add(&point);
                let (json, metrics) = (OnceLock::new(), OnceLock::new());
                send.send_replace(Some(Arc::new(Latest { model, point, json, metrics })));
                before = after;
            }
        };
        let spawned = std::thread::Builder::new().name("collector".to_owned()).spawn(body);
        let thread = spawned.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start the collector", &error))?;
        Ok(Feed { shared, thread, began_ns, interval_ns })
    }

    /// Whether the collector still takes samples. The first answer takes one interval.
    /// If this function did not allow for that, systemd's watchdog would end a service with a long interval
    /// before its second sample, again and again.
    pub(super) fn is_fresh(&self) -> bool {
        match self.shared.latest.borrow().as_deref() {
            Some(latest) => is_fresh(Some(latest)),
            None => is_recent(self.began_ns, self.interval_ns),
        }
    }

    /// Waits until the thread ends, after the stop.
    pub(super) fn end(self) {
        let _ = self.thread.join();
    }
}

/// Whether the latest answer is recent.
pub(super) fn is_fresh(latest: Option<&Latest>) -> bool {
    latest.is_some_and(|latest| {
        let sample = &latest.model.sample;
        is_recent(sample.at.monotonic_ns, sample.asked.interval_ns)
    })
}

fn is_recent(at_ns: u64, interval_ns: u64) -> bool {
    clock::monotonic_ns().saturating_sub(at_ns) <= interval_ns.saturating_mul(3).saturating_add(FRESH_NS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::Ordering;

    use evenkeel_hostfs::Root;
    use evenkeel_watch::CollectorOptions;

    use super::*;

    #[test]
    fn a_collector_has_time_for_its_first_interval() {
        let interval = Duration::from_secs(60);
        let options = CollectorOptions { interval, ..CollectorOptions::default() };
        let stop = Arc::new(AtomicBool::new(false));
        let collector = Collector::new(Root::from(BTreeMap::new()), options);
        let feed = Feed::start(collector, interval, 1, Arc::clone(&stop)).unwrap();
        assert!(feed.is_fresh() && feed.shared.latest.borrow().is_none(), "the watchdog must not end it");
        stop.store(true, Ordering::Relaxed);
        feed.end();
    }
}
