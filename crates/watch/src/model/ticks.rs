//! The ticks of a server between two samples, from its telemetry page or observed from outside.

use evenkeel_measure::meters::rates::Measured;
use evenkeel_sys::telemetry::PageHistogram;
use evenkeel_sys::telemetry::layout::lower_bound_ns;
use serde::Serialize;

use super::span::{Span, both};
use crate::sample::{
    Asked, Counted, DueSample, HistogramSample, OutsideSample, SlicesSample, TelemetrySample, late_bound_ns,
};

/// The ticks of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TicksModel {
    /// Who counted the ticks.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub counted_by: CountedBy,
    /// The moment from which lateness is counted. None unless the ticks are observed from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<DueSample>,
    /// The threads that do ticks. None unless the ticks are observed from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<String>,
    /// Completed ticks.
    pub ticks_per_s: Measured<f64>,
    /// Missed ticks.
    pub missed_per_s: Measured<f64>,
    /// The number of due times at which records were lost. No other count includes them, and no rate includes their time.
    /// None unless the ticks are observed from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<u64>,
    /// The time between two ticks in milliseconds. `null` if the server does not report the time.
    pub period_ms: Option<f64>,
    /// The times from due to begin.
    pub lateness: Measured<Durations>,
    /// The times from begin to done.
    pub work: Measured<Durations>,
    /// The times from due to done, which is what players notice.
    pub due_to_done: Measured<Durations>,
    /// The share of a tick's period in which it works, on average.
    pub load: Measured<f64>,
    /// The number of ticks that began later than `late_after_us`.
    /// The telemetry page counts in buckets, so this bound is exact only to a seventh. Missed ticks are not included.
    pub late: Measured<u64>,
    /// A tick is late if it begins this much after its due time, in microseconds. None if unknown.
    pub late_after_us: Option<f64>,
    /// The hypervisor's time slices, as the server detected them.
    pub slices: SlicesSample,
    /// The number of players at the later sample. `null` if the server does not report it.
    pub players: Option<u64>,
    /// Received datagrams, as the server counts them.
    pub packets_in_per_s: Measured<f64>,
    /// Sent datagrams.
    pub packets_out_per_s: Measured<f64>,
    /// Received bytes.
    pub bytes_in_per_s: Measured<f64>,
    /// Sent bytes.
    pub bytes_out_per_s: Measured<f64>,
}

/// Who counted ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// The server itself, in its telemetry page.
    Server,
    /// evenkeel, from outside, by the kernel's switch records.
    /// If the thread was already awake when a tick became due, the tick counts, but its lateness is unknown. Work is time on a CPU.
    Outside,
}

/// Durations of the ticks between two samples, in microseconds. They come from buckets, so the longest are up to a seventh too long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the names say it")]
pub struct Durations {
    pub us_p50: f64,
    pub us_p99: f64,
    pub us_max: f64,
}

/// The counts of a server's ticks at one moment: from its page, and from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickCounts<'a> {
    /// The counts in the server's telemetry page, if it has one.
    pub(super) page: Option<&'a Counted<TelemetrySample>>,
    /// The counts that were observed from outside, if any.
    pub(super) outside: Option<&'a Counted<OutsideSample>>,
    /// The time of the sample on the monotonic clock.
    pub(super) at_ns: u64,
}

pub(super) fn ticks(
    before: Option<TickCounts<'_>>,
    after: TickCounts<'_>,
    asked: Asked,
    span: Span,
) -> Measured<TicksModel> {
    match (after.page, after.outside) {
        (Some(page), _) => by_page(before.and_then(|before| before.page), page, asked, span),
        (None, Some(Ok(now))) => Measured::Known(by_outside(before, now, asked, span)),
        (None, Some(Err(unknown))) => Measured::Unknown(unknown.clone()),
        (None, None) => Measured::absent("the server has no page of telemetry: it was not built with evenkeel-rt"),
    }
}

fn by_page(
    before: Option<&Counted<TelemetrySample>>,
    after: &Counted<TelemetrySample>,
    asked: Asked,
    span: Span,
) -> Measured<TicksModel> {
    let page = Measured::from(after.as_ref().map_err(Clone::clone));
    page.map(|now| {
        let then = match before {
            None => Measured::absent("the session was not there at the sample before"),
            Some(before) => {
                both(before, after).and_then(|(before, now)| match before.began_realtime_ns == now.began_realtime_ns {
                    true => Measured::Known(*before),
                    false => Measured::odd("a new session began between the samples"),
                })
            }
        };
        between(&then, now, asked, span)
    })
}

fn by_outside(before: Option<TickCounts<'_>>, now: &OutsideSample, asked: Asked, span: Span) -> TicksModel {
    let zero = now.zero();
    let then = before.and_then(|before| match before.outside {
        Some(Ok(then)) if then.ticks.began_realtime_ns == now.ticks.began_realtime_ns => Some(then),
        // The loop was found after the earlier sample.
        // If all ticks that the loop counted came after that sample, the counts at that sample were zero.
        _ => (now.counted_from_ns >= before.at_ns).then_some(&zero),
    });
    let pages = match then {
        Some(then) => Measured::Known(&then.ticks),
        None => Measured::absent("its tick was not known at the sample before"),
    };
    let mut model = between(&pages, &now.ticks, asked, span);
    // The counted interval ends shortly before the sample. So the rate is computed over the length of that interval.
    let counted_ns = now.counted_to_ns.saturating_sub(then.map_or(now.counted_to_ns, |then| then.counted_to_ns));
    let uncounted = then.map_or(0, |then| now.uncounted.saturating_sub(then.uncounted));
    let counted_ns = counted_ns.saturating_sub(uncounted.saturating_mul(now.ticks.period_ns.unwrap_or(0)));
    let rate = |of: fn(&TelemetrySample) -> u64| {
        pages.and_then(|then| match (counted_ns, of(&now.ticks).checked_sub(of(then))) {
            (0, _) | (_, None) => Measured::absent("no tick was counted between the samples"),
            (ns, Some(grown)) => Measured::Known(grown as f64 * 1e9 / ns as f64),
        })
    };
    (model.ticks_per_s, model.missed_per_s) = (rate(|page| page.ticks), rate(|page| page.missed));
    model.counted_by = CountedBy::Outside;
    model.uncounted = Some(uncounted).filter(|uncounted| *uncounted > 0);
    (model.due, model.workers) = (Some(now.due), Some(now.workers.clone()));
    if now.due == DueSample::Unknown {
        let why = "its ticks keep no set times, and the times for which it asked are not visible";
        (model.lateness, model.due_to_done) = (Measured::absent(why), Measured::absent(why));
        model.late = Measured::absent(why);
    }
    model
}

fn between(then: &Measured<&TelemetrySample>, now: &TelemetrySample, asked: Asked, span: Span) -> TicksModel {
    let rate = |name: &str, of: fn(&TelemetrySample) -> u64| then.and_then(|then| span.per_s(name, of(then), of(now)));
    let count = |name: &str| {
        let of = |page: &TelemetrySample| page.counts.get(name).copied();
        then.and_then(|then| match of(now) {
            // A counter is missing in the page until its first event.
            Some(after) => span.per_s(name, of(then).unwrap_or(0), after),
            None => Measured::absent(format!("the server does not count {name}")),
        })
    };
    let grown = |of: fn(&TelemetrySample) -> &HistogramSample| {
        then.and_then(|then| {
            // If no time passed between the samples, there is no difference.
            span.increase("ticks", then.ticks, now.ticks).map(|_| of(now).to_page().since(&of(then).to_page()))
        })
    };
    let late_after_ns = late_bound_ns(asked.late_after_ns, now.period_ns);
    let work = grown(|page| &page.work);
    TicksModel {
        counted_by: CountedBy::Server,
        due: None,
        workers: None,
        ticks_per_s: rate("ticks", |page| page.ticks),
        missed_per_s: rate("missed ticks", |page| page.missed),
        uncounted: None,
        period_ms: now.period_ns.map(|ns| ns as f64 / 1e6),
        lateness: grown(|page| &page.lateness).and_then(durations),
        due_to_done: grown(|page| &page.due_to_done).and_then(durations),
        load: work.and_then(|work| load(work, now.period_ns)),
        work: work.and_then(durations),
        late: grown(|page| &page.lateness).and_then(|lateness| match late_after_ns {
            Some(bound_ns) => Measured::Known(longer(lateness, bound_ns)),
            None => Measured::absent("the server does not say its period: name a bound with --late"),
        }),
        late_after_us: late_after_ns.map(|ns| ns as f64 / 1e3),
        slices: now.slices,
        players: now.counts.get("players").copied(),
        packets_in_per_s: count("packets_in"),
        packets_out_per_s: count("packets_out"),
        bytes_in_per_s: count("bytes_in"),
        bytes_out_per_s: count("bytes_out"),
    }
}

fn durations(histogram: &PageHistogram) -> Measured<Durations> {
    let us = |q: f64| histogram.quantile_ns(q).map(|ns| ns as f64 / 1e3);
    match (us(0.5), us(0.99), us(1.0)) {
        (Some(us_p50), Some(us_p99), Some(us_max)) => Measured::Known(Durations { us_p50, us_p99, us_max }),
        _ => Measured::absent("no tick was completed between the samples"),
    }
}

fn load(work: &PageHistogram, period_ns: Option<u64>) -> Measured<f64> {
    match period_ns.filter(|period_ns| *period_ns > 0) {
        Some(period_ns) if work.count > 0 => Measured::Known(work.sum_ns as f64 / work.count as f64 / period_ns as f64),
        Some(_) => Measured::absent("no tick was completed between the samples"),
        None => Measured::absent("the server does not say its period"),
    }
}

/// The number of values in the buckets that are certainly above this bound.
fn longer(histogram: &PageHistogram, bound_ns: u64) -> u64 {
    let above = histogram.buckets.iter().enumerate().filter(|(at, _)| lower_bound_ns(*at) >= bound_ns);
    above.map(|(_, count)| *count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::telemetry::layout::BOUNDS_NS;

    use super::*;

    #[test]
    fn only_ticks_in_buckets_above_the_bound_are_late() {
        let mut buckets = vec![0; BOUNDS_NS.len() + 1];
        // The bounds are 1 us, 1.12 us and so on. The last bucket has everything above 10 s.
        buckets[1] = 5;
        buckets[2] = 7;
        buckets[BOUNDS_NS.len()] = 1;
        let histogram = PageHistogram { count: 13, sum_ns: 0, max_ns: Some(u64::MAX), buckets };
        assert_eq!(longer(&histogram, 1000), 13);
        assert_eq!(longer(&histogram, 1001), 8);
        assert_eq!(longer(&histogram, 10_000_000_000), 1);
        assert_eq!(longer(&histogram, u64::MAX), 0);
    }
}
