//! How much of a CPU's time is lost within one tick.
//! A watcher measures it: a real-time thread that sleeps in short steps, independent of the server.
//! The watcher distinguishes ticks that the server missed from ticks that the machine took.

use std::collections::VecDeque;

/// How long the watcher sleeps. Lateness below this is not a gap. Otherwise the usual lateness of timers would add up.
pub const STEP_NS: u64 = 1_000_000;

/// The loss that makes a tick miss its period, together with the tick's own work.
/// On a slow machine, where the work takes more of the period, a smaller loss does that.
fn most_ns(period_ns: u64) -> u64 {
    period_ns / 2
}

/// The loss that makes ticks with this median work miss their period.
/// A tick may take twice the median without a fault of the server.
pub fn enough_ns(period_ns: u64, work_p50_ns: u64) -> u64 {
    period_ns.saturating_sub(2 * work_p50_ns).clamp(STEP_NS, most_ns(period_ns))
}

/// The recent losses of a watcher.
#[derive(Debug)]
pub struct Lost {
    /// When each gap ended, and its length.
    gaps: VecDeque<(u64, u64)>,
    /// Two gaps that affect one tick end within its period plus the length of the second gap.
    /// That length is less than the loss that is enough alone.
    one_tick_ns: u64,
}

impl Lost {
    /// A watcher for ticks of this period.
    pub fn with_ticks(period_ns: u64) -> Lost {
        Lost { gaps: VecDeque::new(), one_tick_ns: period_ns + most_ns(period_ns) }
    }

    /// Adds a wake-up at `end_ns`, which was late by that much. Returns the loss within one tick.
    pub fn add(&mut self, end_ns: u64, late_ns: u64) -> u64 {
        self.gaps.retain(|(before_ns, _)| before_ns + self.one_tick_ns >= end_ns);
        if late_ns < STEP_NS {
            return 0;
        }
        self.gaps.push_back((end_ns, late_ns));
        self.gaps.iter().map(|(_, late_ns)| late_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn gaps_add_up_within_one_tick_only() {
        let mut lost = Lost::with_ticks(20 * MS);
        assert_eq!(lost.add(100 * MS, 9 * MS), 9 * MS);
        assert_eq!(lost.add(101 * MS, MS / 2), 0);
        assert_eq!(lost.add(120 * MS, 8 * MS), 17 * MS);
        assert_eq!(lost.add(131 * MS, 7 * MS), 15 * MS, "the first one hurt another tick");
        assert_eq!(lost.add(1000 * MS, 30 * MS), 30 * MS);
        assert_eq!([MS / 2, 6 * MS, 15 * MS].map(|work_ns| enough_ns(20 * MS, work_ns)), [10 * MS, 8 * MS, MS]);
    }
}
