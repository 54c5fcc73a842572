//! Whether a late tick, or missed ticks, trigger a dump. A pure function.

use evenkeel_sys::telemetry::layout::lower_bound_ns;

use crate::sample::{Sample, ServerSample, TelemetrySample};

/// The reason for a dump. A tick between two samples was certainly later than `over_ns`, or the missed ticks lasted as long in total.
/// `None` otherwise.
pub(super) fn too_late(before: &Sample, after: &Sample, over_ns: u64) -> Option<String> {
    after.servers.iter().find_map(|server| {
        let then = before.servers.iter().find(|then| then.pid == server.pid && then.name == server.name);
        let Worst { late_ns, missed, missed_ns } = worst(then, server);
        if late_ns >= over_ns.max(1) {
            return Some(format!("a tick of {} was {:.1} ms late", server.name, late_ns as f64 / 1e6));
        }
        (missed_ns >= over_ns.max(1)).then(|| format!("{missed} ticks of {} were missed", server.name))
    })
}

/// The worst of a server's ticks between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Worst {
    /// The minimum lateness of the latest tick.
    late_ns: u64,
    missed: u64,
    /// The total time of the missed ticks, in nanoseconds.
    missed_ns: u64,
}

fn worst(then: Option<&ServerSample>, now: &ServerSample) -> Worst {
    fn page(server: &ServerSample) -> Option<&TelemetrySample> {
        server.telemetry.as_ref()?.as_ref().ok()
    }
    if let Some(page_now) = page(now) {
        return then.and_then(page).map_or_else(Worst::default, |page_then| between(page_then, page_now));
    }
    let Some(Ok(seen)) = &now.outside else { return Worst::default() };
    let zero = seen.zero();
    let known = then.and_then(|then| then.outside.as_ref()?.as_ref().ok());
    let worst = between(&known.unwrap_or(&zero).ticks, &seen.ticks);
    // For listed ticks, the exact lateness is known. The buckets of a histogram give only a lower bound.
    let listed_ns = seen.late.iter().map(|late| late.lateness_ns).max().unwrap_or(0);
    Worst { late_ns: worst.late_ns.max(listed_ns), ..worst }
}

fn between(then: &TelemetrySample, now: &TelemetrySample) -> Worst {
    if now.began_realtime_ns != then.began_realtime_ns {
        return Worst::default();
    }
    let grown = now.lateness.to_page().since(&then.lateness.to_page());
    let latest = grown.buckets.iter().rposition(|count| *count > 0);
    let missed = now.missed.saturating_sub(then.missed);
    let missed_ns = missed.saturating_mul(now.period_ns.unwrap_or(0));
    Worst { late_ns: latest.map_or(0, lower_bound_ns), missed, missed_ns }
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::telemetry::layout::bucket;

    use super::*;
    use crate::sample::HistogramSample;

    const MS: u64 = 1_000_000;

    /// A page of ticks with a period of 20 ms and these latenesses, and with this many missed ticks.
    fn page(began_realtime_ns: u64, lateness_ns: &[u64], missed: u64) -> TelemetrySample {
        let mut lateness = HistogramSample::default();
        for ns in lateness_ns {
            *lateness.buckets.entry(bucket(*ns)).or_default() += 1;
        }
        TelemetrySample {
            session: "match".to_owned(),
            began_realtime_ns,
            ticks: lateness_ns.len() as u64,
            missed,
            last: None,
            period_ns: Some(20 * MS),
            period_changes: 0,
            slices: Default::default(),
            major_faults: None,
            thread: None,
            waits: None,
            late_run_delay_ns: None,
            counts: Default::default(),
            lateness,
            work: HistogramSample::default(),
            due_to_done: HistogramSample::default(),
        }
    }

    #[test]
    fn late_ticks_and_missed_ones_count_between_two_samples() {
        let before = page(1, &[9 * MS, MS], 7);
        let table = [
            ("nothing new", page(1, &[9 * MS, MS], 7), 0..=0, 0),
            ("another late one", page(1, &[9 * MS, MS, 6 * MS], 7), 5 * MS..=6 * MS, 0),
            ("two missed ones", page(1, &[9 * MS, MS], 9), 0..=0, 40 * MS),
            ("both", page(1, &[9 * MS, MS, 30 * MS], 8), 25 * MS..=30 * MS, 20 * MS),
            ("another session", page(2, &[50 * MS], 9), 0..=0, 0),
        ];
        for (name, now, late_ns, missed_ns) in table {
            let worst = between(&before, &now);
            assert!(late_ns.contains(&worst.late_ns), "{name}: {worst:?}");
            assert_eq!(worst.missed_ns, missed_ns, "{name}");
        }
    }
}
