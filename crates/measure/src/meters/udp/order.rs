//! `Order`: counts loss, duplicates and reordering of numbered packets. Its memory does not grow.

use serde::Serialize;

/// How many of the last numbers the counter remembers.
const WINDOW: u64 = 1 << 16;

/// Counts each arriving packet by its number.
#[derive(Clone, Debug)]
pub struct Order {
    /// One bit per number, for the last [`WINDOW`] numbers.
    come: Vec<u64>,
    /// The highest number so far, plus one.
    next: u64,
    counts: Counts,
}

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Numbers that arrived, each counted once.
    pub arrived: u64,
    /// Packets whose number had arrived before.
    pub duplicates: u64,
    /// Packets that arrived after a packet with a higher number.
    pub reordered: u64,
    /// The maximum lateness of a packet: how much higher the highest earlier number was.
    pub extent_max: u64,
    /// Packets that are more than 65,536 numbers late. Whether they are duplicates is unknown.
    pub too_old: u64,
}

/// The kind of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The packet's number is higher than all earlier numbers.
    Ahead,
    /// Later packets overtook this packet, by this many numbers.
    Behind(u64),
    /// The packet's number had arrived before.
    Again,
    /// The packet's number is so old that we do not know whether it had arrived before.
    TooOld,
}

impl Default for Order {
    fn default() -> Order {
        Order { come: vec![0; (WINDOW / 64) as usize], next: 0, counts: Counts::default() }
    }
}

impl Order {
    /// Counts a packet.
    pub fn see(&mut self, number: u64) -> Place {
        if number >= self.next {
            // Skipped numbers have not arrived, so clear their old bits.
            let jumped = (number - self.next).min(WINDOW - 1);
            self.clear(number - jumped, number);
            self.set(number);
            self.next = number.saturating_add(1);
            self.counts.arrived += 1;
            return Place::Ahead;
        }
        let behind = self.next - 1 - number;
        if behind >= WINDOW {
            self.counts.too_old += 1;
            return Place::TooOld;
        }
        if self.has_come(number) {
            self.counts.duplicates += 1;
            return Place::Again;
        }
        self.set(number);
        self.counts.arrived += 1;
        self.counts.reordered += 1;
        self.counts.extent_max = self.counts.extent_max.max(behind);
        Place::Behind(behind)
    }

    /// The counts up to now.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn at(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn has_come(&self, number: u64) -> bool {
        let (word, bit) = Order::at(number);
        self.come[word] & bit != 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = Order::at(number);
        self.come[word] |= bit;
    }

    /// Clears whole words where possible, because a packet may jump ahead by thousands of numbers.
    fn clear(&mut self, mut from: u64, to: u64) {
        while from < to {
            let (word, bit) = Order::at(from);
            if bit == 1 && to - from >= 64 {
                self.come[word] = 0;
                from += 64;
            } else {
                self.come[word] &= !bit;
                from += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn counts(numbers: &[u64]) -> Counts {
        let mut order = Order::default();
        numbers.iter().for_each(|number| {
            order.see(*number);
        });
        order.counts()
    }

    #[test]
    fn arrivals_are_classified() {
        let of = |arrived, duplicates, reordered, extent_max, too_old| Counts {
            arrived,
            duplicates,
            reordered,
            extent_max,
            too_old,
        };
        let far = WINDOW + 5;
        for (numbers, expected) in [
            (&[0, 1, 2, 3][..], of(4, 0, 0, 0, 0)),
            (&[0, 2, 3], of(3, 0, 0, 0, 0)),
            (&[1, 0, 3, 2], of(4, 0, 2, 1, 0)),
            (&[0, 4, 5, 1], of(4, 0, 1, 4, 0)),
            (&[0, 0, 1, 1, 0], of(2, 3, 0, 0, 0)),
            (&[0, far, 1], of(2, 0, 0, 0, 1)),
            (&[7, 7 + WINDOW, 8], of(3, 0, 1, WINDOW - 1, 0)),
            (&[u64::MAX, u64::MAX - 1], of(2, 0, 1, 0, 0)),
        ] {
            assert_eq!(counts(numbers), expected, "{numbers:?}");
        }
    }

    proptest! {
        #[test]
        fn it_counts_like_a_set(numbers in proptest::collection::vec(0_u64..300, 0..400)) {
            let mut come = BTreeSet::new();
            let mut expected = Counts::default();
            for number in &numbers {
                let highest = come.last().copied();
                if !come.insert(*number) {
                    expected.duplicates += 1;
                    continue;
                }
                expected.arrived += 1;
                if let Some(highest) = highest.filter(|highest| highest > number) {
                    expected.reordered += 1;
                    expected.extent_max = expected.extent_max.max(highest - number);
                }
            }
            prop_assert_eq!(counts(&numbers), expected);
        }

        #[test]
        fn every_packet_is_counted_once(numbers in proptest::collection::vec(any::<u64>(), 0..100)) {
            let counts = counts(&numbers);
            prop_assert_eq!(counts.arrived + counts.duplicates + counts.too_old, numbers.len() as u64);
            prop_assert!(counts.reordered <= counts.arrived && counts.extent_max < WINDOW);
        }
    }
}
