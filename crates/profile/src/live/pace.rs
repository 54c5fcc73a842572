//! `Pace`: the rate at which probes fire.
//! Each hit costs the program some microseconds. A probe that fires many thousand times a second would slow the program down.

use std::collections::BTreeMap;

use super::error::LiveError;
use super::events::Plan;

/// The maximum number of hits per second that is accepted for a tick.
const PER_S_MAX: u64 = 10_000;
/// The minimum time over which the rate is judged, because some servers run many ticks at once after a pause.
const OVER_NS: u64 = 200_000_000;

/// How often each event was hit since the last check, by event number.
#[derive(Debug, Default)]
pub(super) struct Pace {
    hits: BTreeMap<usize, u64>,
    since_ns: Option<u64>,
}

impl Pace {
    /// Counts a sample of this event.
    pub(super) fn hit(&mut self, event: Option<usize>) {
        if let Some(event) = event {
            *self.hits.entry(event).or_default() += 1;
        }
    }

    /// Checks whether any probe fires too often.
    ///
    /// # Errors
    /// [`LiveError::TooOften`].
    pub(super) fn check(&mut self, plan: &Plan, now_ns: u64) -> Result<(), LiveError> {
        let Some(since_ns) = self.since_ns else {
            self.since_ns = Some(now_ns);
            self.hits.clear();
            return Ok(());
        };
        let over_ns = now_ns.saturating_sub(since_ns);
        if over_ns < OVER_NS {
            return Ok(());
        }
        for (number, hits) in std::mem::take(&mut self.hits) {
            let per_s = per_s(hits, over_ns);
            let of_place = plan.events.get(number).filter(|event| event.probe.is_some());
            if let Some(event) = of_place.filter(|_| per_s > PER_S_MAX) {
                return Err(LiveError::TooOften { event: event.name.clone(), per_s });
            }
        }
        self.since_ns = Some(now_ns);
        Ok(())
    }
}

fn per_s(hits: u64, over_ns: u64) -> u64 {
    u64::try_from(u128::from(hits) * 1_000_000_000 / u128::from(over_ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::perf_probe::Probe;

    use super::super::events::Planned;
    use super::*;
    use crate::perf::layout::Layout;

    #[test]
    fn a_function_that_runs_too_often_is_reported_with_its_rate() {
        let probe = Probe::at(std::path::Path::new("/bin/server"), 64).unwrap();
        let event = |name: &str, probe| Planned {
            name: name.to_owned(),
            spec: evenkeel_sys::perf_sampler::Spec::default(),
            probe,
            ids: Vec::new(),
            samples: 0,
        };
        let events = vec![event("cpu-clock", None), event("probe_server:tick", Some(probe))];
        let plan = Plan { events, clock: None, layout: Layout::default(), unseen: Vec::new() };
        // The columns of a row: the number of the event, its hits in 200 ms, and whether the rate is accepted.
        for (event, hits, is_well) in [(1, 1_900, true), (1, 2_100, false), (0, 2_100, true)] {
            let mut pace = Pace::default();
            pace.check(&plan, 1_000).unwrap();
            (0..hits).for_each(|_| pace.hit(Some(event)));
            assert_eq!(pace.check(&plan, 100_001_000), Ok(()), "that is too short to say");
            let said = pace.check(&plan, 200_001_000);
            let refused = LiveError::TooOften { event: "probe_server:tick".to_owned(), per_s: 10_500 };
            assert_eq!(said, if is_well { Ok(()) } else { Err(refused) });
        }
        assert_eq!(per_s(u64::MAX, 0), u64::MAX);
    }
}
