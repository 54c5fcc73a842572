//! What one window of load comes to, counted by each thread for itself and added up at the end.

use evenkeel_stats::Histogram;

use super::protocol::Found;
use crate::workload::Sample;

/// A request that is sent so much later than it was due, with a connection free all the time, shows that the generator does not keep up, in
/// nanoseconds.
const BEHIND_NS: u64 = 1_000_000;

/// When a window's parts begin and end, by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The load starts.
    pub(super) start_ns: u64,
    /// The window begins.
    pub(super) begin_ns: u64,
    /// It ends; no request is due any more.
    pub(super) end_ns: u64,
    /// What was due and could not be sent yet is given up.
    pub(super) give_up_ns: u64,
}

impl Span {
    pub(super) fn has(&self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }
}

/// Counts of one window.
#[derive(Clone, Debug)]
pub(super) struct RequestCounts {
    /// From when requests were due until they were answered.
    took: Histogram,
    /// By how much later than it could the generator itself sent them; nothing in a closed loop.
    late: Histogram,
    /// Answers that came within the window.
    answered: u64,
    /// Requests that fell due in it; nothing in a closed loop.
    due: u64,
    hits: u64,
    misses: u64,
    behind: u64,
    /// Requests that fell due and were never sent, for want of a connection that was not waiting.
    unsent: u64,
    /// Sums over the threads, within the window as each saw it.
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

    /// A request that counts for this window was answered.
    pub(super) fn took(&mut self, ns: u64, found: Found) {
        self.took.record(ns);
        match found {
            Found::Hit => self.hits += 1,
            Found::Miss => self.misses += 1,
            Found::Stored => {}
        }
    }

    /// Any answer came within the window.
    pub(super) fn answered(&mut self) {
        self.answered += 1;
    }

    /// A request of an open loop was sent, so much later than the generator could have.
    pub(super) fn sent(&mut self, late_ns: u64) {
        self.due += 1;
        self.late.record(late_ns);
        self.behind += u64::from(late_ns > BEHIND_NS);
    }

    /// A request fell due so long ago, and was never sent: the time that it took is at least that.
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

    /// Whether nothing was asked at all.
    pub(super) fn is_empty(&self) -> bool {
        self.took.count() == 0
    }

    /// The numbers of a window that took so long.
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
    fn shares_are_of_what_they_say() {
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
    fn what_was_not_seen_is_not_there() {
        let sample = RequestCounts::new().sample(1_000_000_000);
        assert_eq!(sample.keys().collect::<Vec<_>>(), ["requests", "throughput_per_s"]);
    }
}
