//! The counts of the players in one window.

use std::collections::VecDeque;

use evenkeel_stats::Histogram;

use super::TICK_NS;
use crate::workload::Sample;

/// The maximum number of snapshots of a window that are stored with their time. Further snapshots are only counted.
const SNAPSHOTS_MAX: usize = 1 << 20;
/// An input counts as late if it is sent this many nanoseconds after its due time. Then the players themselves do not keep up.
const BEHIND_NS: u64 = 2_000_000;

/// What the players counted in one window.
#[derive(Debug)]
pub(super) struct PlayerCounts {
    begin_ns: u64,
    end_ns: u64,
    round_trip: Histogram,
    /// For each snapshot, the time when the snapshot was complete, minus its tick's distance in time from the first tick of all.
    snapshots: Vec<i64>,
    snapshots_count: u64,
    pings: u64,
    /// The send times of unanswered pings, the oldest first.
    unanswered: VecDeque<u64>,
    lost: u64,
    behind: u64,
    /// The CPU time of the players in nanoseconds, and the time over which it was measured.
    pub(super) cpu_ns: u64,
    pub(super) wall_ns: u64,
}

impl PlayerCounts {
    pub(super) fn new(begin_ns: u64, end_ns: u64) -> PlayerCounts {
        PlayerCounts {
            begin_ns,
            end_ns,
            round_trip: Histogram::new(),
            snapshots: Vec::new(),
            snapshots_count: 0,
            pings: 0,
            unanswered: VecDeque::new(),
            lost: 0,
            behind: 0,
            cpu_ns: 0,
            wall_ns: 0,
        }
    }

    fn has(&self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }

    /// Counts an input and its ping, and their delay.
    pub(super) fn sent(&mut self, due_ns: u64, now_ns: u64) {
        if self.has(now_ns) {
            self.pings += 1;
            self.unanswered.push_back(now_ns);
            self.behind += u64::from(now_ns.saturating_sub(due_ns) > BEHIND_NS);
        }
    }

    /// Counts an answer to a ping, if the ping was sent in this window.
    pub(super) fn pong(&mut self, sent_ns: u64, now_ns: u64) {
        if let Some(index) = self.unanswered.iter().position(|waiting_ns| *waiting_ns == sent_ns) {
            self.unanswered.remove(index);
            self.round_trip.record(now_ns.saturating_sub(sent_ns));
        }
    }

    /// Whether answers are still outstanding.
    pub(super) fn waits(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Counts each missing answer with the time for which it has been missing.
    /// Otherwise, a server that does not answer pings would look fast.
    pub(super) fn give_up(&mut self, now_ns: u64) {
        for sent_ns in self.unanswered.drain(..) {
            self.round_trip.record(now_ns.saturating_sub(sent_ns));
            self.lost += 1;
        }
    }

    pub(super) fn snapshot(&mut self, tick: i32, now_ns: u64) {
        if self.has(now_ns) {
            self.snapshots_count += 1;
            if self.snapshots.len() < SNAPSHOTS_MAX {
                self.snapshots.push(now_ns as i64 - i64::from(tick) * TICK_NS as i64);
            }
        }
    }

    /// The values of the window.
    pub(super) fn sample(&self, players: u32) -> Sample {
        let mut sample = Sample::new();
        let mut put = |name: &str, value: f64| sample.insert(name.to_owned(), value);
        let window_ns = self.end_ns.saturating_sub(self.begin_ns) as f64;
        // The server ticks by the same clock.
        // So the earliest snapshot of a window shows the due times of ticks, and all other snapshots are compared with those times.
        let earliest = self.snapshots.iter().min().copied().unwrap_or_default();
        let mut lateness = Histogram::new();
        self.snapshots.iter().for_each(|at_ns| lateness.record((at_ns - earliest) as u64));
        for (of, histogram) in [("round_trip", &self.round_trip), ("snapshot_lateness", &lateness)] {
            for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
                if let Some(ns) = histogram.quantile(q) {
                    put(&format!("{of}_us_{name}"), ns as f64 / 1e3);
                }
            }
        }
        let due = window_ns / TICK_NS as f64 * f64::from(players);
        if due > 0.0 {
            // A window may begin right before a tick. Then it has one tick more than its length suggests.
            put("snapshots_share", (self.snapshots_count as f64 / due).min(1.0));
        }
        if self.pings > 0 {
            put("unanswered_share", self.lost as f64 / self.pings as f64);
            put("load_behind_share", self.behind as f64 / self.pings as f64);
        }
        if self.wall_ns > 0 {
            put("load_cpu_share", self.cpu_ns as f64 / self.wall_ns as f64);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_counted_from_the_earliest_of_all_ticks() {
        let mut counts = PlayerCounts::new(1_000, 1_000 + 4 * TICK_NS);
        // The second player's snapshots come 30 us after the first player's, and one tick is 5 ms late.
        for tick in 0..4_u64 {
            let at_ns = 2_000 + tick * TICK_NS + if tick == 2 { 5_000_000 } else { 0 };
            counts.snapshot(100 + tick as i32, at_ns);
            counts.snapshot(100 + tick as i32, at_ns + 30_000);
        }
        counts.snapshot(99, 500);
        let sample = counts.sample(2);
        assert!((sample["snapshot_lateness_us_p50"] - 30.0).abs() < 1.0, "{sample:?}");
        assert!((sample["snapshot_lateness_us_max"] - 5_030.0).abs() < 50.0, "{sample:?}");
        assert_eq!(sample["snapshots_share"], 1.0);
        assert!(!sample.contains_key("round_trip_us_p50") && !sample.contains_key("load_cpu_share"));
    }

    #[test]
    fn an_answer_counts_in_the_window_of_its_ping_and_a_missing_one_by_its_wait() {
        let mut counts = PlayerCounts::new(1_000_000, 2_000_000);
        counts.sent(1_100_000, 1_200_000);
        counts.sent(900_000, 1_900_000);
        counts.sent(100, 5_000_000);
        counts.sent(1_950_000, 1_950_000);
        counts.pong(1_200_000, 1_260_000);
        // One answer arrives after the window, and then arrives again.
        // Another answer is from before the window. The last answer belongs to no ping.
        for sent_ns in [1_900_000, 1_900_000, 900_000, 1_500_000] {
            counts.pong(sent_ns, 2_100_000);
        }
        assert!(counts.waits());
        counts.give_up(3_950_000);
        assert!(!counts.waits());
        counts.cpu_ns = 25;
        counts.wall_ns = 100;
        let sample = counts.sample(1);
        let expected = [
            ("round_trip_us_p50", 200.0),
            ("round_trip_us_max", 2_000.0),
            ("unanswered_share", 1.0 / 3.0),
            ("load_behind_share", 0.0),
            ("load_cpu_share", 0.25),
            ("snapshots_share", 0.0),
        ];
        for (name, value) in expected {
            assert!((sample[name] - value).abs() <= 0.01 * value, "{name} is {}", sample[name]);
        }
    }
}
