//! Reduces the values of a window to one number, by a rule that is part of the metric: `NAME@RULE`.

use std::fmt;

use evenkeel_stats::quantile;

use crate::source::InvalidMetric;

/// The maximum number of values to store for a quantile.
/// Beyond this number, every second value is dropped, so the rest is an evenly spaced sample.
const KEPT_MAX: usize = 1 << 16;

/// A rule that reduces the values of a window to one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// `@median`: the median.
    #[default]
    Median,
    /// `@mean`: the mean.
    Mean,
    /// `@last`: the last value.
    Last,
    /// `@min`: the smallest value.
    Min,
    /// `@max`: the largest value.
    Max,
    /// `@sum`: the sum.
    Sum,
    /// `@rate`: the growth per second of a number that only grows.
    Rate,
    /// `@p99` or `@p99.9`: a percentile from 0 to 100.
    Quantile(f64),
}

/// The names of the rules, for help and errors.
pub const RULES: &str = "median, mean, last, min, max, sum, rate, p50, p99, p99.9 and so on";

impl Rule {
    /// Parses the text after the `@`.
    pub fn parse(text: &str) -> Option<Rule> {
        Some(match text {
            "median" => Rule::Median,
            "mean" => Rule::Mean,
            "last" => Rule::Last,
            "min" => Rule::Min,
            "max" => Rule::Max,
            "sum" => Rule::Sum,
            "rate" => Rule::Rate,
            _ => {
                let digits = text.strip_prefix('p')?;
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let percent: f64 = digits.parse().ok().filter(|_| plain)?;
                Rule::Quantile(Some(percent).filter(|percent| (0.0..=100.0).contains(percent))?)
            }
        })
    }

    /// Splits `NAME@RULE` into its parts. The rule is None if there is no `@`.
    ///
    /// # Errors
    /// Fails if the text after the last `@` is not a rule.
    pub fn split(text: &str) -> Result<(&str, Option<Rule>), InvalidMetric> {
        let Some((name, rule)) = text.rsplit_once('@') else { return Ok((text, None)) };
        let rule = Rule::parse(rule).ok_or_else(|| format!("unknown rule @{rule}; known rules: {RULES}"))?;
        Ok((name, Some(rule)))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Median => f.write_str("median"),
            Rule::Mean => f.write_str("mean"),
            Rule::Last => f.write_str("last"),
            Rule::Min => f.write_str("min"),
            Rule::Max => f.write_str("max"),
            Rule::Sum => f.write_str("sum"),
            Rule::Rate => f.write_str("rate"),
            Rule::Quantile(percent) => write!(f, "p{percent}"),
        }
    }
}

/// The time that the first value of a window describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The first value describes the time before the window, because the program reports repeatedly.
    /// So the first value is used only if it is the only value.
    SpeaksForBefore,
    /// The first value describes the window, because the program runs within the window.
    Counts,
}

/// The values of one metric in a window, in limited memory.
#[derive(Clone, Debug)]
pub struct Values {
    first_rule: First,
    first: Option<(f64, u64)>,
    last: Option<(f64, u64)>,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    kept: Vec<f64>,
    /// The store keeps one of every `step` values.
    step: u64,
    /// The last value that was skipped because it is not finite. None if no value was skipped.
    passed_over: Option<f64>,
}

impl Values {
    /// No values yet.
    pub fn new(first_rule: First) -> Values {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        let (first, last, kept) = (None, None, Vec::new());
        Values { first_rule, first, last, count: 0, sum: 0.0, min, max, kept, step: 1, passed_over: None }
    }

    /// Adds a value with its time. Skips a value that is not finite.
    pub fn push(&mut self, value: f64, at_ns: u64) {
        if !value.is_finite() {
            self.passed_over = Some(value);
            return;
        }
        self.last = Some((value, at_ns));
        if self.first.is_none() {
            self.first = Some((value, at_ns));
            if self.first_rule == First::SpeaksForBefore {
                return;
            }
        }
        if self.count.is_multiple_of(self.step) {
            if self.kept.len() == KEPT_MAX {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.step = self.step.saturating_mul(2);
            }
            if self.count.is_multiple_of(self.step) {
                self.kept.push(value);
            }
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Why there is no result although there are values.
    /// The text follows the name of the metric in a sentence. None if more values would help.
    pub fn lacks(&self, rule: Rule) -> Option<String> {
        match (self.first, self.last) {
            (Some((first, _)), Some((last, _))) if rule == Rule::Rate && last < first => {
                Some(format!("went from {first} to {last}: @rate needs a counter that only grows"))
            }
            (None, _) => self.passed_over.map(|value| format!("was {value}, which can't be compared")),
            _ => None,
        }
    }

    /// The result of the rule. None if there are no values, or too few for the rule.
    pub fn number(&self, rule: Rule) -> Option<f64> {
        let (first, last) = (self.first?, self.last?);
        if rule == Rule::Rate {
            let span_s = last.1.saturating_sub(first.1) as f64 / 1e9;
            return Some((last.0 - first.0) / span_s).filter(|rate| rate.is_finite() && *rate >= 0.0);
        }
        if self.count == 0 {
            return Some(first.0);
        }
        match rule {
            Rule::Median => quantile(&self.kept, 0.5),
            Rule::Quantile(percent) => quantile(&self.kept, percent / 100.0),
            Rule::Mean => Some(self.sum / self.count as f64),
            Rule::Sum => Some(self.sum),
            Rule::Min => Some(self.min),
            Rule::Max => Some(self.max),
            Rule::Last | Rule::Rate => Some(last.0),
        }
        .filter(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(first: First, values: &[f64], rule: &str) -> Option<f64> {
        let mut heard = Values::new(first);
        for (second, value) in values.iter().enumerate() {
            heard.push(*value, second as u64 * 1_000_000_000);
        }
        heard.number(Rule::parse(rule).unwrap())
    }

    #[test]
    fn a_window_is_one_number_by_its_rule() {
        let table: [(&str, &[f64], Option<f64>); 14] = [
            ("median", &[9.0, 1.0, 3.0, 2.0], Some(2.5)),
            ("mean", &[9.0, 1.0, 3.0, 2.0], Some(3.75)),
            ("last", &[9.0, 1.0, 3.0, 2.0], Some(2.0)),
            ("min", &[9.0, 1.0, 3.0, 2.0], Some(1.0)),
            ("max", &[9.0, 1.0, 3.0, 2.0], Some(9.0)),
            ("sum", &[9.0, 1.0, 3.0, 2.0], Some(15.0)),
            ("p100", &[9.0, 1.0, 3.0, 2.0], Some(9.0)),
            ("p0", &[9.0, 1.0, 3.0, 2.0], Some(1.0)),
            ("rate", &[10.0, 11.0, 40.0], Some(15.0)),
            ("rate", &[10.0], None),
            ("rate", &[10.0, 4.0], None),
            ("median", &[], None),
            ("median", &[f64::NAN, f64::INFINITY, 4.0], Some(4.0)),
            ("sum", &[f64::MAX, f64::MAX], None),
        ];
        for (rule, values, expected) in table {
            assert_eq!(number(First::Counts, values, rule), expected, "{rule} of {values:?}");
        }
    }

    #[test]
    fn a_reason_is_given_if_more_values_would_not_help() {
        let lacks = |values: &[f64], rule: &str| {
            let mut heard = Values::new(First::Counts);
            values.iter().for_each(|value| heard.push(*value, 0));
            heard.lacks(Rule::parse(rule).unwrap())
        };
        assert_eq!(lacks(&[f64::INFINITY], "median").unwrap(), "was inf, which can't be compared");
        let falls = "went from 10 to 4: @rate needs a counter that only grows";
        assert_eq!(lacks(&[10.0, 4.0], "rate").unwrap(), falls);
        assert_eq!((lacks(&[], "median"), lacks(&[10.0], "rate")), (None, None));
    }

    #[test]
    fn the_first_line_of_a_program_that_reports_speaks_for_the_time_before_it() {
        for (values, expected) in [(&[5.0][..], 5.0), (&[5.0, 1.0], 1.0), (&[5.0, 1.0, 3.0], 2.0)] {
            assert_eq!(number(First::SpeaksForBefore, values, "mean"), Some(expected));
        }
        assert_eq!(number(First::SpeaksForBefore, &[5.0, 7.0], "rate"), Some(2.0), "a rate needs where it began");
    }

    #[test]
    fn rules_have_names() {
        for (text, expected) in [
            ("rtt", Ok(("rtt", None))),
            ("rtt@last", Ok(("rtt", Some(Rule::Last)))),
            ("a@b@p99.9", Ok(("a@b", Some(Rule::Quantile(99.9))))),
        ] {
            assert_eq!(Rule::split(text), expected);
        }
        for odd in ["rtt@", "rtt@p", "rtt@p101", "rtt@p-1", "rtt@p1e1", "rtt@pinf", "rtt@p1.2.3", "rtt@avg"] {
            assert!(Rule::split(odd).unwrap_err().to_string().contains("; known rules: median"), "{odd}");
        }
        for name in ["median", "mean", "last", "min", "max", "sum", "rate", "p99.9"] {
            assert_eq!(Rule::parse(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_million_values_take_bounded_room_and_keep_their_quantiles() {
        let mut heard = Values::new(First::Counts);
        for index in 0..1_000_000_u64 {
            heard.push((index * 7919 % 1_000_000) as f64, index);
        }
        assert!(heard.kept.len() <= KEPT_MAX && heard.kept.len() > KEPT_MAX / 4);
        assert_eq!(heard.number(Rule::Mean), Some(499_999.5));
        let median = heard.number(Rule::Median).unwrap();
        assert!((480_000.0..520_000.0).contains(&median), "{median}");
    }

    proptest! {
        #[test]
        fn no_values_are_a_panic(values in prop::collection::vec(any::<f64>(), 0..20), text in "@?[a-z]{0,6}[0-9.]{0,6}") {
            for rule in ["median", "mean", "last", "min", "max", "sum", "rate", "p99"] {
                let number = number(First::Counts, &values, rule);
                prop_assert!(number.is_none_or(f64::is_finite));
            }
            let _ = Rule::split(&text);
        }
    }
}
