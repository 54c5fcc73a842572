//! `Margin`: how much earlier than needed a sleep has to end, learned from how late sleeps end here. Pure.

/// The most that is ever waited out awake: a tick of 20 ms loses half a per cent of one CPU.
pub(crate) const MOST_NS: u64 = 100_000;
/// Less is not worth a sleep of its own.
const LEAST_NS: u64 = 2_000;
/// Where it starts: an ordinary wake-up on a virtual machine.
const FIRST_NS: u64 = 60_000;
/// How many of a hundred wake-ups the margin is to cover. The rest are those that no margin would have helped.
const COVERED: f64 = 0.99;
/// How far one wake-up moves it.
const STEP_NS: f64 = 2_000.0;
/// Of so many wake-ups the latest but one is taken at first, since one may be anything: by steps alone it would take a minute to come down to a CPU that wakes quickly, and
/// each tick until then would be waited out awake for nothing.
const AT_FIRST: u32 = 16;
/// What it is multiplied by.
const ROOM: f64 = 1.25;

/// Follows a high quantile of the wake-ups' lateness: up by much at each that it did not cover, down by little at each that it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    ns: f64,
    most_ns: f64,
    /// How many wake-ups were learned from, and the latest two of them, while they are the first.
    first: (u32, [u64; 2]),
}

impl Margin {
    /// Of at most so much; none where that is too little to be of use.
    pub(crate) fn up_to(most_ns: u64) -> Option<Margin> {
        let most_ns = most_ns.min(MOST_NS);
        let ns = FIRST_NS.min(most_ns) as f64;
        (most_ns > LEAST_NS).then_some(Margin { ns, most_ns: most_ns as f64, first: (0, [0; 2]) })
    }

    pub(crate) fn ns(&self) -> u64 {
        self.ns as u64
    }

    /// A sleep ended so much later than asked for.
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
        // Spread evenly up to 50 us: 95 of a hundred are below 47.5 us.
        let spread = after(|at| at * 7919 % 50_000);
        assert!((40_000..56_000).contains(&spread), "{spread}");
        assert_eq!(after(|_| 300_000), MOST_NS, "it is bounded");
        assert_eq!(after(|_| 0), LEAST_NS);
        let mut quick = Margin::up_to(u64::MAX).unwrap();
        (0..AT_FIRST).for_each(|at| quick.learn(if at == 3 { 90_000 } else { u64::from(at) * 500 }));
        assert_eq!(quick.ns(), 9_375, "the latest but one of the first, and a quarter");
        let mut little = Margin::up_to(10_000).unwrap();
        (0..5000).for_each(|_| little.learn(50_000));
        assert_eq!(little.ns(), 10_000);
        assert!(Margin::up_to(1000).is_none());
        // One in ten is milliseconds late: a neighbour's turn, which no margin covers.
        let crowded = after(|at| if at % 10 == 0 { 4_000_000 } else { 10_000 });
        assert!(crowded < 20_000, "{crowded}");
    }
}
