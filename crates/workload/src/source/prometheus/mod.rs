//! A server's own metrics in Prometheus text format. evenkeel reads them over HTTP right before and right after a window.
//! The difference gives the window's value.

use std::time::Instant;

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::source::http::Address;
use crate::source::named::{Directions, unit_of};
use crate::source::rule::Rule;
use crate::source::{InvalidMetric, Source};
use crate::workload::Sample;

pub mod page;
pub mod text;

use page::{Found, Selector};

/// The metrics that are read from a server's page.
pub struct Prometheus {
    url: String,
    address: Address,
    metrics: Vec<(Metric, Option<Rule>)>,
    selectors: Vec<Selector>,
    begun: Option<(Instant, Vec<Found>)>,
}

impl Prometheus {
    /// Each metric is `NAME` or `NAME{LABEL="VALUE",…}`, optionally with `@RULE`.
    /// `@last` is a gauge's value at the window's end, and `@rate` is a counter's growth per second.
    /// Histograms and summaries have a quantile (`@p99`), a mean or a rate.
    ///
    /// # Errors
    /// Fails if the address or a metric is invalid.
    pub fn new(url: &str, metrics: &[String], directions: &Directions) -> Result<Prometheus, InvalidMetric> {
        let address = Address::parse(url).map_err(|why| format!("--prometheus {why}"))?;
        let mut known =
            Prometheus { url: url.to_owned(), address, metrics: Vec::new(), selectors: Vec::new(), begun: None };
        for text in metrics {
            let (selector, rule) = Rule::split(text).map_err(|why| format!("--prometheus-metric {text}: {why}"))?;
            let parsed = Selector::parse(selector).ok_or_else(|| {
                format!("--prometheus-metric {text}: NAME or NAME{{LABEL=\"VALUE\"}} is wanted, and @RULE behind it")
            })?;
            let name = rule.map_or_else(|| selector.to_owned(), |rule| format!("{selector}_{rule}"));
            let metric = crate::source::named::metric(&name, &unit(selector, rule), directions);
            known.metrics.push((metric, rule));
            known.selectors.push(parsed);
        }
        Ok(known)
    }

    fn error(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Program { program: self.url.clone(), why: why.into() }
    }

    /// Reads the page. Also returns the time at which the server made the page, which is between request and answer.
    /// The middle of the two is the best estimate, and its error is the same at both ends of a window.
    fn look(&self) -> Result<(Instant, Vec<Found>), WorkloadError> {
        let asked = Instant::now();
        let page = self.address.get().map_err(|why| self.error(why.to_string()))?;
        let at = middle(asked, Instant::now());
        page::read(&page, &self.selectors).map(|found| (at, found)).map_err(|why| self.error(why.to_string()))
    }
}

fn middle(asked: Instant, answered: Instant) -> Instant {
    asked + answered.saturating_duration_since(asked) / 2
}

/// The unit of a value. Growth is per second: of a counter's unit, or of the count of a histogram or summary. Other units come from the name.
fn unit(selector: &str, rule: Option<Rule>) -> String {
    let name = selector.split('{').next().unwrap_or_default();
    let is_counter = name.ends_with("_total") || name.ends_with("_sum");
    match (rule, unit_of(name)) {
        (Some(Rule::Rate) | None, "") if is_counter => "1/s".into(),
        (Some(Rule::Rate) | None, unit) if is_counter => format!("{unit}/s"),
        (Some(Rule::Rate), _) => "1/s".into(),
        (_, unit) => unit.into(),
    }
}

impl Source for Prometheus {
    fn describe(&self) -> String {
        let names = self.metrics.iter().map(|(metric, _)| metric.name.as_ref());
        format!("{}: {}", self.url, names.collect::<Vec<_>>().join(", "))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.metrics.iter().map(|(metric, _)| metric.clone()).collect()
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        let (at, found) = self.look()?;
        for ((metric, _), found) in self.metrics.iter().zip(&found) {
            if found.is_empty() {
                return Err(self.error(format!("its page has no metric {}", metric.name)));
            }
        }
        self.begun = Some((at, found));
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        let Some((begun, begin)) = self.begun.take() else { return Err(self.error("a window ends that never began")) };
        let (ended, end) = self.look()?;
        let span_s = ended.saturating_duration_since(begun).as_secs_f64();
        let mut sample = Sample::new();
        for (((metric, rule), begin), end) in self.metrics.iter().zip(&begin).zip(&end) {
            let number = page::number(*rule, begin, end, span_s);
            sample.insert(
                metric.name.clone().into_owned(),
                number.map_err(|why| self.error(format!("{}: {why}", metric.name)))?,
            );
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Starts a server that gives one of these pages to each connection. Returns its address.
    fn pages(pages: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for page in pages {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = write!(stream, "HTTP/1.0 200 OK\r\n\r\n{page}");
            }
        });
        url
    }

    fn window(metrics: &[&str], texts: [&str; 2]) -> Result<Sample, WorkloadError> {
        let metrics: Vec<String> = metrics.iter().map(|metric| (*metric).to_owned()).collect();
        let url = pages(texts.map(str::to_owned).to_vec());
        let mut source = Prometheus::new(&url, &metrics, &Directions::default()).unwrap();
        source.begin()?;
        source.end()
    }

    #[test]
    fn a_window_counts_the_difference_of_two_readings() {
        let begin = "load 1\nx_bucket{le=\"1\"} 5\nx_bucket{le=\"+Inf\"} 5\n";
        let end = "load 2\nx_bucket{le=\"1\"} 9\nx_bucket{le=\"+Inf\"} 9\n";
        let sample = window(&["load", "x@p50"], [begin, end]).unwrap();
        assert_eq!(sample, Sample::from([("load".to_owned(), 2.0), ("x_p50".to_owned(), 0.5)]));
    }

    /// The growth must not include one more reading of the page than the time does.
    /// Otherwise a page that takes 150 ms would make a counter seem 50 % faster.
    #[test]
    fn a_page_that_takes_long_makes_no_counter_faster() {
        let asked = Instant::now();
        assert_eq!(middle(asked, asked + Duration::from_millis(300)), asked + Duration::from_millis(150));
        let url = pages(["x_total 5".to_owned(), "x_total 100005".to_owned()].to_vec());
        let mut source = Prometheus::new(&url, &["x_total".to_owned()], &Directions::default()).unwrap();
        source.begin().unwrap();
        // Make the window seem a hundred seconds long, so that a stall of the machine does not matter.
        let (at, _) = source.begun.as_mut().unwrap();
        *at = at.checked_sub(Duration::from_secs(100)).unwrap();
        let rate = source.end().unwrap()["x_total"];
        assert!((600.0..=1000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn errors_include_the_address() {
        for (metric, texts, expected) in [
            ("none", ["load 1", ""], "its page has no metric none"),
            ("load", ["load 1", ""], "load: its page no longer has this metric"),
            ("load", ["load 1", "oops"], "its page has a line that is not a metric: \"oops\""),
            (
                "x@p50",
                ["x_bucket{le=\"1\"} 5", "x_bucket{le=\"1\"} 4"],
                "x_p50: its count went from 5 to 4: the server restarted",
            ),
        ] {
            let message = window(&[metric], texts).unwrap_err().to_string();
            assert!(message.starts_with("measure http://127.0.0.1:") && message.ends_with(expected), "{message}");
        }
    }

    #[test]
    fn metrics_have_names_and_units() {
        for (text, name, unit_wanted) in [
            ("rtt_seconds@p99", "rtt_seconds_p99", "s"),
            ("rtt_seconds{op=\"get\"}@rate", "rtt_seconds{op=\"get\"}_rate", "1/s"),
            ("requests_total", "requests_total", "1/s"),
            ("bytes_total", "bytes_total", "bytes/s"),
            ("cpu_seconds_total@rate", "cpu_seconds_total_rate", "s/s"),
            ("rtt_seconds_count@rate", "rtt_seconds_count_rate", "1/s"),
            ("players", "players", ""),
        ] {
            let source = Prometheus::new("http://x", &[text.to_owned()], &Directions::default()).unwrap();
            let metric = &source.metrics()[0];
            assert_eq!((metric.name.as_ref(), metric.unit.as_ref()), (name, unit_wanted));
        }
        let wrong = |url, metric: &str| {
            let error = Prometheus::new(url, &[metric.to_owned()], &Directions::default()).err();
            error.unwrap().to_string()
        };
        assert_eq!(wrong("x", "a"), "--prometheus x: expected an address that begins with http://");
        assert!(
            wrong("http://x", "a{b}").starts_with("--prometheus-metric a{b}: NAME or NAME{LABEL=\"VALUE\"} is wanted")
        );
    }
}
