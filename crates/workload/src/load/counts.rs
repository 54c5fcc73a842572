//! The counts of the load in one window. Each thread has its own counts, which are added at the end.

use evenkeel_stats::Histogram;

use super::protocol::Found;
use crate::workload::Sample;

/// A request counts as late if the generator sends it this many nanoseconds after its due time although a connection was free.
const BEHIND_NS: u64 = 1_000_000;

/// The times at which the phases of a window begin and end, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// When the load starts.
    pub(super) start_ns: u64,
    /// When the window begins.
    pub(super) begin_ns: u64,
    /// When the window ends. No request is due after this time.
    pub(super) end_ns: u64,
    /// The time at which the load gives up due requests that could not be sent.
    pub(super) give_up_ns: u64,
}

impl Span {
    pub(super) fn has(&self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }
}

/// The counts of one window.
#[derive(Clone, Debug)]
pub(super) struct RequestCounts {
    /// The time from each request's due time until its answer.
    took: Histogram,
    /// The delays with which the generator itself sent requests. Empty in a closed loop.
    late: Histogram,
    /// The number of answers within the window.
    answered: u64,
    /// The number of requests that were due in the window. 0 in a closed loop.
    due: u64,
    hits: u64,
    misses: u64,
    behind: u64,
    /// The number of requests that were due but never sent, because no connection was free.
    unsent: u64,
    /// The CPU time of the threads in the window, and the length of the window as each thread saw it. Both are sums over the threads.
    cpu_ns: u64,
    wall_ns: u64,
}

impl RequestCounts {
    pub(super) fn new() -> RequestCounts {
        let (took, late) = (Histogram::new(), Histogram::new());
        RequestCounts {
            took,
            late,
            answered: 0,
            due: 0,
            hits: 0,
            misses: 0,
            behind: 0,
            unsent: 0,
            cpu_ns: 0,
            wall_ns: 0,
        }
    }

    /// Adds the answer to a request that counts for this window.
    pub(super) fn took(&mut self, ns: u64, found: Found) {
        self.took.record(ns);
        match found {
            Found::Hit => self.hits += 1,
            Found::Miss => self.misses += 1,
            Found::Stored => {}
        }
    }

    /// Counts an answer that arrived within the window.
    pub(super) fn answered(&mut self) {
        self.answered += 1;
    }

    /// Counts a sent request of an open loop, and the generator's own delay.
    pub(super) fn sent(&mut self, late_ns: u64) {
        self.due += 1;
        self.late.record(late_ns);
        self.behind += u64::from(late_ns > BEHIND_NS);
    }

    /// Counts a request that was never sent. The request has waited at least since its due time.
    pub(super) fn unsent(&mut self, waited_ns: u64) {
        self.due += 1;
        self.unsent += 1;
        self.took.record(waited_ns);
    }

    pub(super) fn ran(&mut self, cpu_ns: u64, wall_ns: u64) {
        self.cpu_ns += cpu_ns;
        self.wall_ns += wall_ns;
    }

    pub(super) fn merge(&mut self, other: &RequestCounts) {
        self.took.merge(&other.took);
        self.late.merge(&other.late);
        self.answered += other.answered;
        self.due += other.due;
        self.hits += other.hits;
        self.misses += other.misses;
        self.behind += other.behind;
        self.unsent += other.unsent;
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
    }

    /// Whether there was no request at all.
    pub(super) fn is_empty(&self) -> bool {
        self.took.count() == 0
    }

    /// The values of a window of this length.
    pub(super) fn sample(&self, window_ns: u64) -> Sample {
        let mut sample = Sample::new();
        let seconds = window_ns as f64 / 1e9;
        let share = |part: u64, of: u64| part as f64 / of as f64;
        let mut put = |name: &str, value: f64| sample.insert(name.to_owned(), value);
        put("requests", self.took.count() as f64);
        put("throughput_per_s", self.answered as f64 / seconds);
        for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            if let Some(ns) = self.took.quantile(q) {
                put(&format!("request_us_{name}"), ns as f64 / 1e3);
            }
        }
        if let Some(ns) = self.took.mean() {
            put("request_us_mean", ns / 1e3);
        }
        if self.hits + self.misses > 0 {
            put("miss_share", share(self.misses, self.hits + self.misses));
        }
        if self.wall_ns > 0 {
            put("load_cpu_share", share(self.cpu_ns, self.wall_ns));
        }
        if self.due > 0 {
            put("due_per_s", self.due as f64 / seconds);
            put("unsent_share", share(self.unsent, self.due));
        }
        if let Some(late_ns) = self.late.quantile(0.99) {
            put("load_late_us_p99", late_ns as f64 / 1e3);
            put("load_behind_share", share(self.behind, self.late.count()));
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_refer_to_the_right_whole() {
        let mut one = RequestCounts::new();
        one.took(10_000, Found::Hit);
        one.took(20_000, Found::Miss);
        one.took(30_000, Found::Stored);
        (0..3).for_each(|_| one.answered());
        one.ran(50, 100);
        let mut two = RequestCounts::new();
        two.sent(500);
        two.sent(2_000_000);
        two.unsent(9_000_000);
        two.ran(100, 100);
        assert!(RequestCounts::new().is_empty() && !two.is_empty());
        one.merge(&two);
        let sample = one.sample(500_000_000);
        let expected = [
            ("requests", 4.0),
            ("throughput_per_s", 6.0),
            ("request_us_max", 9000.0),
            ("request_us_mean", 2265.0),
            ("miss_share", 0.5),
            ("load_cpu_share", 0.75),
            ("due_per_s", 6.0),
            ("unsent_share", 1.0 / 3.0),
            ("load_behind_share", 0.5),
            ("load_late_us_p99", 2000.0),
        ];
        for (name, value) in expected {
            assert!((sample[name] - value).abs() < 1e-9 * value, "{name} is {}", sample[name]);
        }
    }

    #[test]
    fn unseen_numbers_are_missing() {
        let sample = RequestCounts::new().sample(1_000_000_000);
        assert_eq!(sample.keys().collect::<Vec<_>>(), ["requests", "throughput_per_s"]);
    }
}
