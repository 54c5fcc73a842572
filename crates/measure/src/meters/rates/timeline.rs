//! A rate over time in bounded memory. Hours of readings become fewer, longer stretches, each with its highest rate.

use serde::Serialize;

/// The maximum number of stretches. A page has fewer columns.
const STRETCHES_MAX: usize = 1024;

/// A rate over some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// The start of the stretch since the first reading, in nanoseconds.
    pub start_ns: u64,
    /// The end of the stretch since the first reading, in nanoseconds.
    pub end_ns: u64,
    /// The rate over the whole stretch.
    pub mean: f64,
    /// The highest rate between two readings in the stretch.
    pub max: f64,
}

impl Stretch {
    /// Merges this stretch with a later one. The time between the two stretches belongs to neither.
    fn with(self, next: Stretch) -> Stretch {
        let length = |stretch: Stretch| stretch.end_ns.saturating_sub(stretch.start_ns) as f64;
        let (one, other) = (length(self), length(next));
        let mean = if one + other > 0.0 { (self.mean * one + next.mean * other) / (one + other) } else { self.mean };
        Stretch { start_ns: self.start_ns, end_ns: next.end_ns, mean, max: self.max.max(next.max) }
    }
}

/// The stretches so far.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    stretches: Vec<Stretch>,
    /// How many more readings fit into the last stretch.
    room: u64,
    /// The number of readings in one stretch.
    each: u64,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { stretches: Vec::new(), room: 0, each: 1 }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, stretch: Stretch) {
        if self.room > 0
            && let Some(last) = self.stretches.last_mut()
        {
            *last = last.with(stretch);
            self.room -= 1;
            return;
        }
        if self.stretches.len() == STRETCHES_MAX {
            let pairs = self.stretches.chunks(2);
            self.stretches = pairs.map(|pair| pair.iter().copied().reduce(Stretch::with).unwrap_or(pair[0])).collect();
            self.each *= 2;
        }
        self.stretches.push(stretch);
        self.room = self.each - 1;
    }

    pub(super) fn finish(self) -> Vec<Stretch> {
        self.stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_fit_and_no_peak_is_lost() {
        for count in [1, 1000, 1024, 1025, 5000, 100_000_u64] {
            let mut timeline = Timeline::default();
            for at in 0..count {
                let rate = if at == count / 3 { 1e6 } else { 10.0 };
                timeline.add(Stretch { start_ns: at, end_ns: at + 1, mean: rate, max: rate });
            }
            let stretches = timeline.finish();
            assert!(stretches.len() <= STRETCHES_MAX && stretches.len() as u64 >= count.min(512), "{count}");
            assert!(stretches.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns), "no hole");
            assert_eq!((stretches[0].start_ns, stretches[stretches.len() - 1].end_ns), (0, count));
            let peak = stretches.iter().find(|stretch| stretch.max > 1e5).unwrap();
            assert!((peak.start_ns..peak.end_ns).contains(&(count / 3)));
            let whole: f64 = stretches.iter().map(|part| part.mean * (part.end_ns - part.start_ns) as f64).sum();
            assert!((whole / (1e6 + 10.0 * (count - 1) as f64) - 1.0).abs() < 1e-9, "what happened is all in it");
        }
    }
}
