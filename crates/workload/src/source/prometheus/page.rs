//! The values of the requested series on a page of metrics, and the values of a window from two readings of the page.

use std::collections::BTreeMap;

use crate::source::NoNumber;
use crate::source::prometheus::text::{Kind, Line, Series, parse_head, parse_line};
use crate::source::rule::Rule;

/// The maximum number of series of one selector. A selector with more series is not specific enough.
const SERIES_MAX: usize = 10_000;
/// The maximum difference between a server's own quantile and the requested one.
const QUANTILE_NEAR: f64 = 1e-9;

/// A selector `NAME{LABEL="VALUE",…}`. It selects every series that has this name and these labels, whatever other labels the series has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl Selector {
    /// Parses a selector, which is written like a series on a page.
    pub fn parse(text: &str) -> Option<Selector> {
        let (name, labels, rest) = parse_head(text.trim())?;
        let labels = labels.into_iter().map(|(label, value)| (label.into_owned(), value.into_owned())).collect();
        let name = name?.into_owned();
        (rest.is_empty() && !name.is_empty()).then_some(Selector { name, labels })
    }

    fn takes(&self, series: &Series<'_>) -> bool {
        self.labels.iter().all(|(label, value)| series.label(label) == Some(value))
    }
}

/// A bound or a quantile as a key that can be sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key(f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The values of one selector on a page. Several histograms or counters are added, as `sum` does in Prometheus.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    kind: Option<Kind>,
    /// The values of plain series, by their labels as on the page.
    plain: BTreeMap<String, f64>,
    /// The cumulative counts of a histogram, by upper bound.
    buckets: BTreeMap<Key, f64>,
    quantiles: BTreeMap<Key, f64>,
    sum: Option<f64>,
    count: Option<f64>,
}

impl Found {
    /// Whether the page has no series for the selector.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.buckets.is_empty() && self.quantiles.is_empty() && self.count.is_none()
    }

    fn take(&mut self, selector: &Selector, series: &Series<'_>) {
        let Some(part) = series.name.strip_prefix(selector.name.as_str()) else { return };
        if !matches!(part, "" | "_total" | "_bucket" | "_sum" | "_count") || !selector.takes(series) {
            return;
        }
        // If the page does not give the type, the suffix `_total` marks a counter, even if the suffix is a part of the selector's name.
        let part = if part.is_empty() && selector.name.ends_with("_total") { "_total" } else { part };
        let bound = |label| series.label(label).and_then(|text| text.parse().ok()).map(Key);
        match (part, bound("le"), bound("quantile")) {
            ("_bucket", Some(bound), _) if self.buckets.len() < SERIES_MAX => {
                *self.buckets.entry(bound).or_default() += series.value;
            }
            ("_sum", ..) => *self.sum.get_or_insert_default() += series.value,
            ("_count", ..) => *self.count.get_or_insert_default() += series.value,
            ("", _, Some(quantile)) if self.quantiles.len() < SERIES_MAX => {
                self.quantiles.insert(quantile, series.value);
            }
            ("" | "_total", ..) if self.plain.len() < SERIES_MAX => {
                self.plain.insert(format!("{part}{:?}", series.labels), series.value);
            }
            _ => {}
        }
    }
}

/// Parses a page, and returns the values of each of these selectors.
///
/// # Errors
/// Returns the first invalid line.
pub fn read(page: &str, selectors: &[Selector]) -> Result<Vec<Found>, NoNumber> {
    let mut found = vec![Found::default(); selectors.len()];
    for line in page.split('\n') {
        match parse_line(line) {
            Some(Line::Other) => {}
            Some(Line::Kind(name, kind)) => {
                for (found, selector) in found.iter_mut().zip(selectors) {
                    let rest = name.strip_prefix(selector.name.as_str());
                    // In OpenMetrics, the type line of `x_total` has the name `x`.
                    if rest == Some("") || rest == Some("_total") || selector.name.strip_suffix("_total") == Some(&name)
                    {
                        found.kind = Some(kind);
                    }
                }
            }
            Some(Line::Series(series)) => {
                for (found, selector) in found.iter_mut().zip(selectors) {
                    found.take(selector, &series);
                }
            }
            None => {
                let start: String = line.chars().take(80).collect();
                return Err(format!("its page has a line that is not a metric: {start:?}").into());
            }
        }
    }
    Ok(found)
}

/// The value of a window, from the values at its beginning and at its end.
///
/// # Errors
/// Fails if the rule does not fit the metric, if nothing was counted, or if the server restarted in the meantime.
pub fn number(rule: Option<Rule>, begin: &Found, end: &Found, span_s: f64) -> Result<f64, NoNumber> {
    let number = if !end.buckets.is_empty() {
        of_histogram(rule, begin, end, span_s)?
    } else if !end.quantiles.is_empty() {
        of_summary(rule, begin, end, span_s)?
    } else if end.plain.is_empty() {
        return Err("its page no longer has this metric".into());
    } else {
        of_plain(rule, begin, end, span_s)?
    };
    if number.is_finite() { Ok(number) } else { Err(format!("it is {number}").into()) }
}

fn grown(what: &str, begin: f64, end: f64) -> Result<f64, NoNumber> {
    if let Some(odd) = [begin, end].into_iter().find(|count| !count.is_finite()) {
        return Err(format!("its {what} is {odd}, so evenkeel can't compute its growth").into());
    }
    if end >= begin {
        Ok(end - begin)
    } else {
        Err(format!("its {what} went from {begin} to {end}: the server restarted").into())
    }
}

fn of_histogram(rule: Option<Rule>, begin: &Found, end: &Found, span_s: f64) -> Result<f64, NoNumber> {
    match rule {
        Some(Rule::Quantile(percent)) => {
            let mut buckets = Vec::with_capacity(end.buckets.len());
            for (bound, count) in &end.buckets {
                let before = begin.buckets.get(bound).copied().unwrap_or(0.0);
                buckets.push((bound.0, grown("count", before, *count)?));
            }
            quantile_of_buckets(percent / 100.0, buckets)
        }
        Some(Rule::Median) => of_histogram(Some(Rule::Quantile(50.0)), begin, end, span_s),
        _ => of_counts(rule, begin, end, span_s).unwrap_or_else(|| {
            Err("it is a histogram: add a rule, such as @p99, @mean (of what was counted) or @rate (counts a second)".into())
        }),
    }
}

fn of_summary(rule: Option<Rule>, begin: &Found, end: &Found, span_s: f64) -> Result<f64, NoNumber> {
    let has = || {
        let quantiles = end.quantiles.keys().map(|key| format!("@p{}", key.0 * 100.0));
        NoNumber::from(format!(
            "it is a summary, which has {}, @mean and @rate",
            quantiles.collect::<Vec<_>>().join(", ")
        ))
    };
    let quantile = |percent: f64| {
        let near = end.quantiles.iter().find(|(key, _)| (key.0 - percent / 100.0).abs() < QUANTILE_NEAR);
        near.map(|(_, value)| *value).ok_or_else(has)
    };
    match rule {
        Some(Rule::Quantile(percent)) => quantile(percent),
        Some(Rule::Median) => quantile(50.0),
        _ => of_counts(rule, begin, end, span_s).unwrap_or_else(|| Err(has())),
    }
}

/// A value from the sum and the count of histograms and summaries. None if the rule needs something else.
fn of_counts(rule: Option<Rule>, begin: &Found, end: &Found, span_s: f64) -> Option<Result<f64, NoNumber>> {
    let counted = || grown("count", begin.count.unwrap_or(0.0), end.count.ok_or("it has no count")?);
    match rule {
        Some(Rule::Rate) => Some(counted().map(|count| count / span_s)),
        Some(Rule::Mean) => Some(counted().and_then(|count| {
            if count == 0.0 {
                return Err("nothing was counted during the window".into());
            }
            Ok((end.sum.ok_or("it has no sum")? - begin.sum.unwrap_or(0.0)) / count)
        })),
        _ => None,
    }
}

fn of_plain(rule: Option<Rule>, begin: &Found, end: &Found, span_s: f64) -> Result<f64, NoNumber> {
    let by_name = end.plain.keys().any(|key| key.starts_with("_total"));
    let counts =
        matches!(end.kind, Some(Kind::Counter)) || (end.kind.is_none_or(|kind| kind == Kind::Untyped) && by_name);
    match (rule, counts) {
        (Some(Rule::Rate), _) | (None, true) => {
            let mut sum = 0.0;
            for (labels, value) in &end.plain {
                sum += grown("count", begin.plain.get(labels).copied().unwrap_or(0.0), *value)?;
            }
            Ok(sum / span_s)
        }
        (None | Some(Rule::Last), _) => match end.plain.len() {
            1 => Ok(end.plain.values().sum()),
            many => Err(format!("{many} series match: name the labels of one, as {{instance=\"a\"}}").into()),
        },
        _ => {
            Err("it is one number, which takes @last (its value at the window's end) or @rate (its growth a second)"
                .into())
        }
    }
}

/// The quantile as `histogram_quantile` of Prometheus computes it: by linear interpolation within a bucket.
/// The first bucket begins at 0 if its bound is positive.
/// In the last bucket, the result is the bucket's lower bound.
fn quantile_of_buckets(share: f64, mut buckets: Vec<(f64, f64)>) -> Result<f64, NoNumber> {
    // If the page was made while the server counted, a cumulative count may be smaller than its predecessor.
    let mut most = 0.0_f64;
    for (_, count) in &mut buckets {
        most = most.max(*count);
        *count = most;
    }
    let Some(((last_bound, total), bounded)) = buckets.split_last() else { return Err("it has no buckets".into()) };
    if *last_bound != f64::INFINITY {
        return Err("it has no bucket without a bound (le=\"+Inf\")".into());
    }
    if *total <= 0.0 {
        return Err("nothing was counted during the window".into());
    }
    let rank = share * total;
    let Some(index) = bounded.iter().position(|(_, count)| *count >= rank) else {
        let highest = bounded.last().map(|(bound, _)| *bound);
        return highest.ok_or_else(|| "it has no bucket with a bound".into());
    };
    let (upper, count) = bounded[index];
    let (lower, before) = match index.checked_sub(1) {
        Some(index) => bounded[index],
        None if upper <= 0.0 => return Ok(upper),
        None => (0.0, 0.0),
    };
    let within = count - before;
    Ok(if within > 0.0 { lower + (upper - lower) * ((rank - before) / within) } else { upper })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEGIN: &str = "# TYPE rtt_seconds histogram
rtt_seconds_bucket{op=\"get\",le=\"0.001\"} 100
rtt_seconds_bucket{op=\"get\",le=\"0.01\"} 100
rtt_seconds_bucket{op=\"get\",le=\"+Inf\"} 100
rtt_seconds_sum{op=\"get\"} 0.05
rtt_seconds_count{op=\"get\"} 100
# TYPE players gauge
players{map=\"a\"} 4
players{map=\"b\"} 6
# TYPE packets counter
packets_total{dir=\"in\"} 1000
packets_total{dir=\"out\"} 500
ticks_total 7
load 0.5
# TYPE due_us summary
due_us{quantile=\"0.5\"} 10
due_us{quantile=\"0.99\"} 80
due_us_sum 1000
due_us_count 10
odd NaN
# EOF
";

    fn end() -> String {
        BEGIN
            .replace("le=\"0.001\"} 100", "le=\"0.001\"} 150")
            .replace("le=\"0.01\"} 100", "le=\"0.01\"} 195")
            .replace("le=\"+Inf\"} 100", "le=\"+Inf\"} 200")
            .replace("_sum{op=\"get\"} 0.05", "_sum{op=\"get\"} 0.55")
            .replace("_count{op=\"get\"} 100", "_count{op=\"get\"} 200")
            .replace("\"in\"} 1000", "\"in\"} 3000")
            .replace("\"out\"} 500", "\"out\"} 600")
            .replace("ticks_total 7", "ticks_total 107")
            .replace("map=\"a\"} 4", "map=\"a\"} 5")
            .replace("\"0.99\"} 80", "\"0.99\"} 90")
            .replace("due_us_sum 1000", "due_us_sum 1300")
            .replace("due_us_count 10", "due_us_count 20")
    }

    fn number_of(text: &str, begin: &str, end: &str) -> Result<f64, NoNumber> {
        let (selector, rule) = Rule::split(text).map_err(|error| error.to_string())?;
        let selectors = [Selector::parse(selector).ok_or("no selector")?];
        let (begin, end) = (read(begin, &selectors)?, read(end, &selectors)?);
        number(rule, &begin[0], &end[0], 2.0)
    }

    #[test]
    fn two_readings_make_a_number() {
        let near = |found: f64, wanted: f64| (found - wanted).abs() < 1e-12;
        for (text, expected) in [
            ("rtt_seconds@p50", 0.001),
            ("rtt_seconds@median", 0.001),
            ("rtt_seconds@p25", 0.0005),
            // 40 of the 45 values are in the second bucket, from 1 to 10 ms.
            ("rtt_seconds{op=\"get\"}@p90", 0.001 + 0.009 * 40.0 / 45.0),
            ("rtt_seconds@p99", 0.01),
            ("rtt_seconds@mean", 0.005),
            ("rtt_seconds@rate", 50.0),
            ("players{map=\"a\"}", 5.0),
            ("players{map=\"b\"}@last", 6.0),
            ("packets_total{dir=\"in\"}", 1000.0),
            ("packets_total", 1050.0),
            ("packets", 1050.0),
            ("packets@rate", 1050.0),
            ("packets_total{dir=\"out\"}@last", 600.0),
            ("ticks_total", 50.0),
            ("ticks_total@rate", 50.0),
            ("load", 0.5),
            ("due_us@p99", 90.0),
            ("due_us{quantile=\"0.5\"}@p50", 10.0),
            ("due_us@mean", 30.0),
            ("due_us@rate", 5.0),
            ("due_us_count@rate", 5.0),
        ] {
            let found = number_of(text, BEGIN, &end()).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(near(found, expected), "{text}: {found}, not {expected}");
        }
    }

    #[test]
    fn values_without_a_number_say_why() {
        for (text, expected) in [
            ("rtt_seconds", "it is a histogram: add a rule"),
            ("rtt_seconds@sum", "it is a histogram: add a rule"),
            ("due_us@p90", "it is a summary, which has @p50, @p99, @mean and @rate"),
            ("due_us", "it is a summary"),
            ("players", "2 series match"),
            ("players{map=\"a\"}@p99", "it is one number"),
            ("none", "its page no longer has this metric"),
            ("rtt_seconds{op=\"set\"}@p99", "its page no longer has this metric"),
            ("odd", "it is NaN"),
        ] {
            let why = number_of(text, BEGIN, &end()).unwrap_err().to_string();
            assert!(why.starts_with(expected), "{text}: {why}");
        }
        for text in ["rtt_seconds@p99", "rtt_seconds@mean", "packets_total", "due_us@rate"] {
            let why = number_of(text, &end(), BEGIN).unwrap_err().to_string();
            assert!(why.ends_with("the server restarted"), "{text}: {why}");
        }
        for (begin, end) in [("+Inf", "+Inf"), ("7", "NaN"), ("NaN", "7")] {
            let [begin, end] =
                [begin, end].map(|count| BEGIN.replace("ticks_total 7", &format!("ticks_total {count}")));
            let why = number_of("ticks_total", &begin, &end).unwrap_err().to_string();
            assert!(why.ends_with(", so evenkeel can't compute its growth"), "{why}");
        }
        for text in ["rtt_seconds@p99", "rtt_seconds@mean"] {
            assert_eq!(number_of(text, BEGIN, BEGIN), Err("nothing was counted during the window".into()), "{text}");
        }
        let page = BEGIN.replace("load 0.5", "<html><body>oops");
        let why = number_of("load", &page, &page).unwrap_err().to_string();
        assert_eq!(why, "its page has a line that is not a metric: \"<html><body>oops\"");
    }

    #[test]
    fn a_series_that_appears_during_the_window_began_at_nothing() {
        let begin = BEGIN.replace("packets_total{dir=\"in\"} 1000\n", "");
        assert_eq!(number_of("packets_total", &begin, &end()), Ok((3000.0 + 100.0) / 2.0));
    }

    #[test]
    fn quantiles_of_buckets_are_those_of_prometheus() {
        let inf = f64::INFINITY;
        type Row<'a> = (f64, &'a [(f64, f64)], Result<f64, &'a str>);
        let table: [Row<'_>; 8] = [
            (0.5, &[(1.0, 0.0), (2.0, 10.0), (inf, 10.0)], Ok(1.5)),
            (0.0, &[(1.0, 5.0), (inf, 10.0)], Ok(0.0)),
            (1.0, &[(1.0, 5.0), (inf, 10.0)], Ok(1.0)),
            (0.5, &[(-1.0, 8.0), (1.0, 10.0), (inf, 10.0)], Ok(-1.0)),
            (0.5, &[(1.0, 4.0), (2.0, 3.0), (3.0, 8.0), (inf, 8.0)], Ok(1.0)),
            (0.5, &[(inf, 10.0)], Err("it has no bucket with a bound")),
            (0.5, &[(1.0, 10.0)], Err("it has no bucket without a bound (le=\"+Inf\")")),
            (0.5, &[], Err("it has no buckets")),
        ];
        for (share, buckets, expected) in table {
            let found = quantile_of_buckets(share, buckets.to_vec());
            assert_eq!(found, expected.map_err(NoNumber::from), "{share} of {buckets:?}");
        }
    }

    proptest! {
        #[test]
        fn no_page_is_a_panic_and_every_number_is_valid(
            page in "((x|x_bucket|x_sum|x_count|x_total)(\\{(le|quantile)=\"(0.5|1|\\+Inf|NaN)\"\\})? (1|7|NaN|Inf|-1|1e308)\n){0,6}",
            later in "((x|x_bucket|x_sum|x_count|x_total)(\\{(le|quantile)=\"(0.5|1|\\+Inf|NaN)\"\\})? (1|7|NaN|Inf|-1|1e308)\n){0,6}",
            rule in prop::sample::select(vec!["", "@p50", "@p99.9", "@mean", "@rate", "@last", "@sum"]),
        ) {
            if let Ok(number) = number_of(&format!("x{rule}"), &page, &later) {
                prop_assert!(number.is_finite());
            }
        }

        #[test]
        fn a_quantile_lies_within_the_bounds_and_rises(counts in prop::collection::vec(0u32..9, 1..8), low in 0.0f64..1.0, more in 0.0f64..1.0) {
            let mut sum = 0.0;
            let mut buckets: Vec<(f64, f64)> = counts.iter().zip(1u8..).map(|(count, bound)| { sum += f64::from(*count); (f64::from(bound), sum) }).collect();
            buckets.push((f64::INFINITY, sum));
            let high = low + (1.0 - low) * more;
            match (quantile_of_buckets(low, buckets.clone()), quantile_of_buckets(high, buckets)) {
                (Ok(low), Ok(high)) => prop_assert!(0.0 <= low && low <= high + 1e-9 && high <= counts.len() as f64),
                (low, _) => prop_assert!(sum == 0.0 && low.is_err()),
            }
        }
    }
}
