//! `Ring`: the samples of the last seconds in bounded memory. Each sample is compressed separately.

use std::collections::VecDeque;

use crate::sample::Sample;
use crate::store::encode_alone;

/// The length of time that a dump covers.
pub const SECONDS: u64 = 30;
/// The maximum size of the compressed samples, in bytes.
const BYTES_MAX: usize = 4 << 20;

/// The compressed samples.
#[derive(Debug, Default)]
pub(super) struct Ring {
    frames: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Ring {
    /// Adds a sample, and drops samples that are too old.
    pub(super) fn add(&mut self, sample: &Sample) {
        // If a sample can't be encoded, it is too large. A store would not accept it either.
        let Ok(frame) = encode_alone(sample) else { return };
        self.bytes += frame.len();
        self.frames.push_back((sample.at.monotonic_ns, frame));
        let from_ns = sample.at.monotonic_ns.saturating_sub(SECONDS * 1_000_000_000);
        while let Some((at_ns, _)) = self.frames.front()
            && (*at_ns < from_ns || self.bytes > BYTES_MAX)
            && let Some((_, frame)) = self.frames.pop_front()
        {
            self.bytes -= frame.len();
        }
    }

    /// Whether there is no sample yet.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// All samples, in the format of a store.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.frames.iter().flat_map(|(_, frame)| frame).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_hostfs::Root;

    use super::*;
    use crate::store::parse_segment;
    use crate::{Collector, CollectorOptions};

    #[test]
    fn the_last_seconds_are_held_and_no_more() {
        let mut sample = Collector::new(Root::from(BTreeMap::new()), CollectorOptions::default()).sample();
        let mut ring = Ring::default();
        for second in 0..100 {
            sample.at.monotonic_ns = second * 1_000_000_000;
            ring.add(&sample);
        }
        let held = parse_segment(&ring.bytes(), 1000);
        assert_eq!((held.samples.len(), held.damage.frames), (31, 0));
        assert_eq!(held.samples[0].at.monotonic_ns, 69_000_000_000);
        // Samples that together are larger than the maximum.
        for second in 100..120 {
            sample.at.monotonic_ns = second * 1_000_000_000;
            let long = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second << 7).to_string();
            sample.host.clock_source = Ok((0..60_000).map(long).collect());
            ring.add(&sample);
        }
        assert!(ring.bytes <= BYTES_MAX && !ring.frames.is_empty(), "{}", ring.bytes);
        assert_eq!(ring.bytes, ring.bytes().len());
    }
}
