//! `Wakes`: converts switch records to the activity of each wake.

use evenkeel_sys::perf_thread::{ThreadRecord, ThreadSwitch, Turn};
use serde::Serialize;

/// The maximum number of wakes of one window to hold. At 5,000 per second this is most of a minute.
pub const WAKES_MAX: usize = 1 << 18;

/// The time from the moment when a thread got a CPU until it slept again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When the thread got the CPU, on the monotonic clock.
    pub start_ns: u64,
    /// When the thread slept again.
    pub end_ns: u64,
    /// How long the thread ran in between.
    pub on_cpu_ns: u64,
    /// How often the thread lost the CPU in between.
    pub preempted: u32,
    /// The CPU on which the wake began.
    pub cpu: u32,
    /// Whether the thread changed CPUs in between.
    pub is_moved: bool,
}

/// The records and wakes that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unseen {
    /// Records for which the kernel had no space, as far as the kernel reports them.
    pub records: u64,
    /// How often the ring was full, so that further records may be missing.
    pub overflows: u64,
    /// Wakes that were dropped because the meter already held [`WAKES_MAX`] wakes.
    pub wakes: u64,
}

impl Unseen {
    /// The sum of the losses of two parts.
    #[must_use]
    pub fn and(self, other: Unseen) -> Unseen {
        Unseen {
            records: self.records.saturating_add(other.records),
            overflows: self.overflows.saturating_add(other.overflows),
            wakes: self.wakes.saturating_add(other.wakes),
        }
    }

    /// Whether nothing was lost.
    pub fn is_nothing(&self) -> bool {
        *self == Unseen::default()
    }
}

/// A thread's wakes, built from its records in order.
#[derive(Debug, Default)]
pub struct Wakes {
    list: Vec<Wake>,
    entries: Vec<u64>,
    unseen: Unseen,
    switches: u64,
    now: Option<Awake>,
}

/// A thread's activity so far.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// The wakes that have ended, in order of time.
    pub wakes: Vec<Wake>,
    /// The thread's entries of the probed function, on the monotonic clock.
    pub entries: Vec<u64>,
    /// The records that were lost.
    pub unseen: Unseen,
    /// The number of the thread's switches.
    pub switches: u64,
}

/// A wake that has not ended.
#[derive(Clone, Copy, Debug)]
struct Awake {
    wake: Wake,
    /// When the thread last got the CPU. None while it waits for a CPU.
    since_ns: Option<u64>,
    last_cpu: u32,
}

impl Wakes {
    /// Adds one record.
    pub fn take(&mut self, record: ThreadRecord) {
        match record {
            ThreadRecord::Switch(switch) => {
                self.switches += 1;
                match switch.turn {
                    Turn::In => self.given(switch),
                    Turn::Slept | Turn::Preempted => self.gone(switch),
                }
            }
            ThreadRecord::Entered(at_ns) if self.entries.len() < WAKES_MAX => self.entries.push(at_ns),
            ThreadRecord::Entered(_) => self.unseen.wakes += 1,
            // The next record may belong to another wake.
            ThreadRecord::Lost(records) => {
                self.unseen.records = self.unseen.records.saturating_add(records);
                self.now = None;
            }
            ThreadRecord::Other => {}
        }
    }

    /// Records that the ring was full.
    pub fn overflowed(&mut self) {
        self.unseen.overflows += 1;
    }

    fn given(&mut self, switch: ThreadSwitch) {
        let at_ns = switch.at_ns;
        match &mut self.now {
            // The thread continues its wake after it had lost the CPU.
            Some(awake) if awake.since_ns.is_none() => {
                awake.since_ns = Some(at_ns);
                awake.wake.is_moved |= awake.last_cpu != switch.cpu;
                awake.last_cpu = switch.cpu;
            }
            // This is the start of a wake, or the first record of a wake.
            _ => {
                let wake = Wake {
                    start_ns: at_ns,
                    end_ns: at_ns,
                    on_cpu_ns: 0,
                    preempted: 0,
                    cpu: switch.cpu,
                    is_moved: false,
                };
                self.now = Some(Awake { wake, since_ns: Some(at_ns), last_cpu: switch.cpu });
            }
        }
    }

    fn gone(&mut self, switch: ThreadSwitch) {
        // Without its start, nothing is known about the wake.
        let Some(awake) = &mut self.now else { return };
        let Some(since_ns) = awake.since_ns.take() else { return };
        let end_ns = switch.at_ns.max(since_ns);
        awake.wake.on_cpu_ns = awake.wake.on_cpu_ns.saturating_add(end_ns - since_ns);
        awake.wake.end_ns = end_ns;
        if switch.turn == Turn::Preempted {
            awake.wake.preempted = awake.wake.preempted.saturating_add(1);
            return;
        }
        let wake = awake.wake;
        self.now = None;
        if self.list.len() < WAKES_MAX { self.list.push(wake) } else { self.unseen.wakes += 1 }
    }

    /// The number of switches so far.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The wakes that have ended so far.
    pub fn list(&self) -> &[Wake] {
        &self.list
    }

    /// The records that were lost so far.
    pub fn unseen(&self) -> Unseen {
        self.unseen
    }

    /// Returns the data and starts anew. The unfinished wake stays, with its entries.
    pub fn hand_over(&mut self) -> HandedOver {
        let of_next = self.now.map_or(self.entries.len(), |awake| {
            self.entries.partition_point(|entered_ns| *entered_ns < awake.wake.start_ns)
        });
        let next = self.entries.split_off(of_next);
        HandedOver {
            wakes: std::mem::take(&mut self.list),
            entries: std::mem::replace(&mut self.entries, next),
            unseen: std::mem::take(&mut self.unseen),
            switches: std::mem::take(&mut self.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn switch(at_ns: u64, cpu: u32, turn: Turn) -> ThreadRecord {
        ThreadRecord::Switch(ThreadSwitch { at_ns, cpu, turn })
    }

    #[test]
    fn a_wake_lasts_until_the_thread_sleeps() {
        let mut wakes = Wakes::default();
        let records = [
            switch(5, 0, Turn::Slept),
            switch(10, 0, Turn::In),
            switch(30, 0, Turn::Preempted),
            switch(50, 1, Turn::In),
            switch(55, 1, Turn::Slept),
            switch(90, 1, Turn::In),
            ThreadRecord::Lost(3),
            switch(95, 1, Turn::Slept),
            switch(100, 1, Turn::In),
            switch(101, 1, Turn::Slept),
            switch(120, 1, Turn::In),
        ];
        records.into_iter().for_each(|record| wakes.take(record));
        let first = Wake { start_ns: 10, end_ns: 55, on_cpu_ns: 25, preempted: 1, cpu: 0, is_moved: true };
        let second = Wake { start_ns: 100, end_ns: 101, on_cpu_ns: 1, preempted: 0, cpu: 1, is_moved: false };
        assert_eq!(wakes.list(), [first, second]);
        assert_eq!(wakes.unseen(), Unseen { records: 3, ..Unseen::default() });
        wakes.take(ThreadRecord::Entered(100));
        wakes.take(ThreadRecord::Entered(121));
        let handed = wakes.hand_over();
        assert_eq!(
            (handed.switches, handed.entries),
            (10, vec![100]),
            "the other entry belongs to the unfinished wake"
        );
        wakes.take(switch(140, 1, Turn::Slept));
        assert_eq!(wakes.list()[0].start_ns, 120, "what had not ended is kept");
        assert_eq!(wakes.hand_over().entries, [121]);
    }

    proptest! {
        #[test]
        fn wakes_are_in_order_and_no_longer_than_they_last(
            records in prop::collection::vec((0_u64..1000, 0_u32..3, 0_u8..4), 0..80), is_in_order in any::<bool>(),
        ) {
            let mut records = records;
            if is_in_order {
                records.sort_unstable();
            }
            let mut wakes = Wakes::default();
            for (at_ns, cpu, what) in records {
                wakes.take(match what {
                    0 => switch(at_ns, cpu, Turn::In),
                    1 => switch(at_ns, cpu, Turn::Slept),
                    2 => switch(at_ns, cpu, Turn::Preempted),
                    _ => ThreadRecord::Lost(1),
                });
            }
            for wake in wakes.list() {
                prop_assert!(wake.end_ns >= wake.start_ns || !is_in_order);
                prop_assert!(wake.on_cpu_ns <= wake.end_ns.saturating_sub(wake.start_ns) || !is_in_order);
            }
            prop_assert!(!is_in_order || wakes.list().windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
        }
    }
}
