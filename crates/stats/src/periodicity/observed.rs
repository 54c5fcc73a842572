//! `Observed`: watched time and counted gaps, as doubles relative to the first moment.

use super::gap::{Gap, Label, PERIOD_MAX_NS, Window};

/// A stretch of time, in nanoseconds since the base.
pub(super) type Stretch = (f64, f64);

#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The first moment of the first window.
    pub(super) base_ns: u64,
    /// Watched time, divided where a gap was ignored.
    pub(super) windows: Vec<Stretch>,
    /// Counted gaps.
    pub(super) gaps: Vec<Stretch>,
}

impl Observed {
    /// Memory for this many windows and gaps. An ignored gap divides a window in two.
    pub(super) fn with_room(windows: usize, gaps: usize) -> Observed {
        Observed { base_ns: 0, windows: Vec::with_capacity(windows + gaps), gaps: Vec::with_capacity(gaps) }
    }

    #[cfg(test)]
    fn new(windows: &[Window], gaps: &[Gap], counts: impl Fn(Label) -> bool) -> Observed {
        let mut observed = Observed::default();
        observed.fill(windows, gaps, counts);
        observed
    }

    /// Replaces the earlier observation.
    pub(super) fn fill(&mut self, windows: &[Window], gaps: &[Gap], counts: impl Fn(Label) -> bool) {
        let observed = self;
        let base_ns = windows.first().map_or(0, |window| window.start_ns);
        let since = |ns: u64| ns as f64 - base_ns as f64;
        observed.base_ns = base_ns;
        observed.windows.clear();
        observed.gaps.clear();
        let mut rest = gaps.iter().peekable();
        for window in windows {
            let (mut from, end) = (since(window.start_ns), since(window.end_ns));
            while let Some(gap) = rest.next_if(|gap| since(gap.start_ns) < end) {
                let start = since(gap.start_ns).max(from);
                let stop = (since(gap.start_ns) + gap.length_ns as f64).min(end);
                if stop <= start {
                    continue;
                }
                if counts(gap.label) && (gap.length_ns as f64) < PERIOD_MAX_NS {
                    match observed.gaps.last_mut() {
                        // Two touching reports are one gap. The reporter divided the gap by who took the CPU.
                        Some(last) if start <= last.1 && last.0 >= from => last.1 = stop,
                        _ => observed.gaps.push((start, stop)),
                    }
                } else {
                    observed.watch(from, start);
                    from = stop;
                }
            }
            observed.watch(from, end);
        }
    }

    fn watch(&mut self, from: f64, to: f64) {
        if to > from {
            self.windows.push((from, to));
        }
    }

    pub(super) fn watched_ns(&self) -> f64 {
        total(&self.windows)
    }

    pub(super) fn lost_ns(&self) -> f64 {
        total(&self.gaps)
    }

    pub(super) fn lost_share(&self) -> f64 {
        let watched_ns = self.watched_ns();
        if watched_ns > 0.0 { (self.lost_ns() / watched_ns).min(1.0) } else { 0.0 }
    }

    /// The first and the last watched moment.
    pub(super) fn span(&self) -> Stretch {
        (self.windows.first().map_or(0.0, |first| first.0), self.windows.last().map_or(0.0, |last| last.1))
    }
}

/// The total length.
pub(super) fn total(stretches: &[Stretch]) -> f64 {
    // The sum of nothing is -0.0, which would look odd in output.
    stretches.iter().fold(0.0, |sum, (from, to)| sum + (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_gaps_are_not_watched() {
        let gap = |start_ns, length_ns, label| Gap { start_ns, length_ns, label };
        let windows = [Window { start_ns: 100, end_ns: 200 }, Window { start_ns: 300, end_ns: 400 }];
        let (foreign, preempted) = (Label::Foreign, Label::Preempted);
        let gaps = [gap(110, 10, foreign), gap(120, 10, preempted), gap(310, 5, foreign), gap(315, 5, foreign)];
        let outside = Observed::new(&windows, &gaps, |label| label == foreign);
        assert_eq!(outside.windows, [(0.0, 20.0), (30.0, 100.0), (200.0, 300.0)]);
        assert_eq!(outside.gaps, [(10.0, 20.0), (210.0, 220.0)], "parts of one gap are one");
        let all = Observed::new(&windows, &gaps, |_| true);
        assert_eq!((all.windows.len(), all.gaps.clone()), (2, vec![(10.0, 30.0), (210.0, 220.0)]));
        assert_eq!((all.watched_ns(), all.lost_ns(), all.lost_share()), (200.0, 30.0, 0.15));
        let long = Observed::new(&windows, &[gap(110, 70_000_000, foreign)], |_| true);
        assert_eq!(
            (long.windows.as_slice(), long.gaps.len()),
            (&[(0.0, 10.0), (200.0, 300.0)][..], 0),
            "a pause is not a gap"
        );
    }
}
