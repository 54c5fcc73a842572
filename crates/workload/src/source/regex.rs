//! Reads numbers from the lines that a program prints, with regular expressions.
//! The regex library takes time in proportion to the line's length, for any expression and any line.

use regex::{Captures, Regex, RegexBuilder};

use crate::metric::Metric;
use crate::source::InvalidMetric;
use crate::source::lines::ReadLine;
use crate::source::named::{self, Directions};
use crate::source::rule::Rule;

/// The maximum memory of a compiled expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// The numbers that given expressions find in lines.
pub struct RegexLines {
    metrics: Vec<(Metric, Rule)>,
    expressions: Vec<Regex>,
}

impl RegexLines {
    /// Each metric is `NAME=EXPRESSION` or `NAME@RULE=EXPRESSION`.
    /// The default rule is the median over the window. The number is the text that the group `v` matches.
    /// Without a group `v`, the first group counts. Without any group, the whole match counts.
    ///
    /// # Errors
    /// Fails if a metric has no name, an unknown rule, or an invalid expression.
    pub fn new(metrics: &[String], directions: &Directions) -> Result<RegexLines, InvalidMetric> {
        let mut known = RegexLines { metrics: Vec::new(), expressions: Vec::new() };
        for text in metrics {
            let wrong = |why: InvalidMetric| InvalidMetric::from(format!("--regex-metric {text}: {why}"));
            let (name, expression) = text
                .split_once('=')
                .filter(|(name, expression)| !name.is_empty() && !expression.is_empty())
                .ok_or_else(|| wrong("expected a name and an expression: rps='requests/s: ([0-9.]+)'".into()))?;
            let (name, rule) = Rule::split(name).map_err(wrong)?;
            known.metrics.push((named::metric(name, "", directions), rule.unwrap_or_default()));
            known.expressions.push(compile(expression).map_err(wrong)?);
        }
        Ok(known)
    }
}

/// Compiles an expression of the user.
///
/// # Errors
/// Returns what is wrong with the expression, as a single line.
pub fn compile(expression: &str) -> Result<Regex, InvalidMetric> {
    let made = RegexBuilder::new(expression).size_limit(EXPRESSION_BYTES_MAX).build();
    made.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large".into(),
        // The error text has several lines: the expression with a mark below it, and the reason as the last line.
        error => {
            let text = error.to_string();
            let why = text.rsplit("error: ").next().unwrap_or_default().trim();
            format!("the expression is invalid: {why}").into()
        }
    })
}

impl ReadLine for RegexLines {
    fn describe(&self) -> String {
        let rules = self.metrics.iter().zip(&self.expressions);
        let rules = rules.map(|((metric, rule), expression)| format!("{} ({rule}) by {expression}", metric.name));
        format!("lines: {}", rules.collect::<Vec<_>>().join(", "))
    }

    fn metrics(&self) -> Vec<(Metric, Rule)> {
        self.metrics.clone()
    }

    fn read(&self, line: &str, put: &mut dyn FnMut(usize, f64)) {
        for (metric, expression) in self.expressions.iter().enumerate() {
            let Some(found) = expression.captures(line) else { continue };
            if let Some(number) = captured(&found).and_then(|text| text.trim().parse().ok()) {
                put(metric, number);
            }
        }
    }

    fn near_miss(&self, line: &str) -> Option<String> {
        let texts = self.expressions.iter().filter_map(|expression| expression.captures(line));
        let text: String = texts.filter_map(|found| captured(&found)).next()?.chars().take(40).collect();
        Some(format!(
            "an expression matches, but {text:?} is no number; put a group around the number alone, as in 'requests/s: ([0-9.]+)'"
        ))
    }
}

/// The text that should be the number.
fn captured<'a>(found: &Captures<'a>) -> Option<&'a str> {
    found.name("v").or_else(|| found.get(1)).or_else(|| found.get(0)).map(|text| text.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(metrics: &[&str], line: &str) -> Vec<(usize, f64)> {
        let metrics: Vec<String> = metrics.iter().map(|metric| (*metric).to_owned()).collect();
        let mut found = Vec::new();
        let reader = RegexLines::new(&metrics, &Directions::default()).unwrap();
        reader.read(line, &mut |metric, value| found.push((metric, value)));
        found
    }

    #[test]
    fn numbers_are_found_where_the_expression_says() {
        let csv = r#""GET","144927.54","0.06","0.02","0.06""#;
        type Row = (&'static [&'static str], &'static str, &'static [(usize, f64)]);
        let table: [Row; 7] = [
            (&[r#"rps=^"GET","([0-9.]+)""#], csv, &[(0, 144_927.54)]),
            (&[r#"us@p99=^"GET","[0-9.]+","(?<v>[0-9.]+)""#, "x=GET(.)"], csv, &[(0, 0.06)]),
            (&["n=[0-9]+"], "took 17 ms", &[(0, 17.0)]),
            (&["n=(a)|([0-9]+)"], "17", &[(0, 17.0)]),
            (&["n=v: (.*)"], "v: 1e3 ", &[(0, 1000.0)]),
            (&["n=v: (.*)"], "v: many", &[]),
            (&["a=a([0-9])", "b=b([0-9])"], "a1 b2", &[(0, 1.0), (1, 2.0)]),
        ];
        for (metrics, line, expected) in table {
            assert_eq!(read(metrics, line), expected, "{metrics:?}");
        }
    }

    #[test]
    fn a_match_without_a_number_is_explained() {
        let miss = |expression: &str, line: &str| {
            RegexLines::new(&[expression.to_owned()], &Directions::default()).unwrap().near_miss(line)
        };
        let why = miss("n=took .*ms", "took 17 ms").unwrap();
        assert!(why.starts_with("an expression matches, but \"took 17 ms\" is no number; put a group"), "{why}");
        assert_eq!(miss("n=took .*ms", "connected"), None);
    }

    #[test]
    fn invalid_metrics_are_explained() {
        for (text, expected) in [
            ("rps", "--regex-metric rps: expected a name and an expression: rps='requests/s: ([0-9.]+)'"),
            ("=x", "--regex-metric =x: expected a name and an expression"),
            ("a@b=x", "--regex-metric a@b=x: unknown rule @b"),
            ("a=(", "--regex-metric a=(: the expression is invalid: unclosed group"),
            ("a=(x{900}){900}", "--regex-metric a=(x{900}){900}: the expression is too large"),
        ] {
            let message = RegexLines::new(&[text.to_owned()], &Directions::default()).err().unwrap().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_expression_and_no_line_is_a_panic(metric in "[a@p9]{0,4}=?[a-z0-9.()\\[\\]+*|?{}\\\\<>]{0,12}", line in ".{0,30}") {
            if let Ok(reader) = RegexLines::new(&[metric], &Directions::default()) {
                reader.read(&line, &mut |_, _| {});
            }
        }
    }
}
