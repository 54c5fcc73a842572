//! `Margin`: how much earlier than needed a sleep has to end. We learn the margin from how late sleeps end on this machine.
//! This code reads no clock.

/// The longest time that the thread spins before a tick. With ticks of 20 ms, this is half a percent of one CPU.
pub(crate) const MOST_NS: u64 = 100_000;
/// A shorter margin is not worth a separate sleep.
const LEAST_NS: u64 = 2_000;
/// The margin at the start: the delay of an ordinary wake-up on a virtual machine.
const FIRST_NS: u64 = 60_000;
/// The share of wake-ups that the margin should cover. The others are so late that no reasonable margin covers them.
const COVERED: f64 = 0.99;
/// How far one wake-up moves the margin.
const STEP_NS: f64 = 2_000.0;
/// After this many wake-ups, we set the margin to the second-longest lateness; the longest may be an exception.
/// With steps alone, the margin would take a minute to adapt to a CPU that wakes quickly. Every tick would spin too long in that minute.
const AT_FIRST: u32 = 16;
/// The factor between the learned lateness and the margin.
const ROOM: f64 = 1.25;

/// Follows a high quantile of the wake-ups' lateness.
/// A wake-up later than the margin raises the margin by a large step; any other wake-up lowers the margin by a small step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    ns: f64,
    most_ns: f64,
    /// During the first wake-ups: their number so far, and the two longest latenesses.
    first: (u32, [u64; 2]),
}

impl Margin {
    /// A new margin, limited to this length. `None` if the limit is too short for a useful margin.
    pub(crate) fn up_to(most_ns: u64) -> Option<Margin> {
        let most_ns = most_ns.min(MOST_NS);
        let ns = FIRST_NS.min(most_ns) as f64;
        (most_ns > LEAST_NS).then_some(Margin { ns, most_ns: most_ns as f64, first: (0, [0; 2]) })
    }

    pub(crate) fn ns(&self) -> u64 {
        self.ns as u64
    }

    /// Learns from a sleep that ended this much later than requested.
    pub(crate) fn learn(&mut self, late_ns: u64) {
        // A wake-up far beyond any margin has another cause: another thread had the CPU.
        if late_ns > 4 * MOST_NS {
            return;
        }
        let (count, [latest_ns, second_ns]) = self.first;
        if count < AT_FIRST {
            self.first = (count + 1, [latest_ns.max(late_ns), second_ns.max(latest_ns.min(late_ns))]);
            if count + 1 == AT_FIRST {
                self.ns = (self.first.1[1] as f64 * ROOM).clamp(LEAST_NS as f64, self.most_ns);
            }
            return;
        }
        let step = if late_ns as f64 > self.ns { COVERED } else { COVERED - 1.0 };
        self.ns = (self.ns + step * STEP_NS).clamp(LEAST_NS as f64, self.most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lateness: impl Fn(u64) -> u64) -> u64 {
        let mut margin = Margin::up_to(u64::MAX).unwrap();
        (0..5000).for_each(|at| margin.learn(lateness(at)));
        margin.ns()
    }

    #[test]
    fn it_covers_what_it_can() {
        assert!((20_000..26_000).contains(&after(|_| 20_000)), "{}", after(|_| 20_000));
        // Delays spread evenly up to 50 us: 95 percent of them are below 47.5 us.
        let spread = after(|at| at * 7919 % 50_000);
        assert!((40_000..56_000).contains(&spread), "{spread}");
        assert_eq!(after(|_| 300_000), MOST_NS, "it is bounded");
        assert_eq!(after(|_| 0), LEAST_NS);
        let mut quick = Margin::up_to(u64::MAX).unwrap();
        (0..AT_FIRST).for_each(|at| quick.learn(if at == 3 { 90_000 } else { u64::from(at) * 500 }));
        assert_eq!(quick.ns(), 9_375, "the second-longest lateness of the first wake-ups, times 1.25");
        let mut little = Margin::up_to(10_000).unwrap();
        (0..5000).for_each(|_| little.learn(50_000));
        assert_eq!(little.ns(), 10_000);
        assert!(Margin::up_to(1000).is_none());
        // One wake-up in ten is milliseconds late because a neighbour had the CPU. No margin covers that.
        let crowded = after(|at| if at % 10 == 0 { 4_000_000 } else { 10_000 });
        assert!(crowded < 20_000, "{crowded}");
    }
}
