//! Detects datagrams that were received before or are too old, in constant memory (the window of IPsec, RFC 4303 3.4.3).

/// How far behind the newest sequence number a datagram may be and still be accepted.
pub const WINDOW: u32 = 64;

/// The newest sequence number, and which of the 64 numbers up to it were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    newest: u32,
    /// Bit `n` stands for `newest - n`. Zero only before the first datagram.
    seen: u64,
}

impl ReplayWindow {
    /// Marks `sequence` as seen. Returns true if it was new. Numbers do not wrap: 2^32 inputs at 200 per second last 248 days.
    pub fn accept(&mut self, sequence: u32) -> bool {
        if self.seen == 0 || sequence > self.newest {
            let ahead = if self.seen == 0 { WINDOW } else { sequence - self.newest };
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = sequence;
            return true;
        }
        let behind = self.newest - sequence;
        if behind >= WINDOW {
            return false;
        }
        let bit = 1 << behind;
        let new = self.seen & bit == 0;
        self.seen |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn table() {
        let mut window = ReplayWindow::default();
        for (sequence, new) in [
            (10, true),
            (10, false),
            (12, true),
            (11, true),
            (11, false),
            (0, true), // within 64 of 12, never seen
            (0, false),
            (76, true),
            (12, false), // exactly 64 behind: out of the window
            (13, true),  // 63 behind
            (13, false),
            (u32::MAX, true),
            (76, false),
            (u32::MAX, false),
        ] {
            assert_eq!(window.accept(sequence), new, "sequence {sequence}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(sequences in prop::collection::vec(0u32..300, 0..200)) {
            let (mut window, mut seen, mut newest) = (ReplayWindow::default(), HashSet::new(), None);
            for sequence in sequences {
                let too_old = newest.is_some_and(|n: u32| n.saturating_sub(sequence) >= WINDOW);
                let new = !too_old && seen.insert(sequence);
                prop_assert_eq!(window.accept(sequence), new);
                newest = newest.max(Some(sequence));
            }
        }
    }
}
