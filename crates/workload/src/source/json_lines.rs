//! Reads numbers from the JSON lines that a program prints.
//! A metric is a path, such as `latency_us.p99` in `{"latency_us":{"p99":120.5}}`.
//! The reader skips other lines.

use serde_json::Value;

use crate::metric::Metric;
use crate::source::InvalidMetric;
use crate::source::lines::ReadLine;
use crate::source::named::{self, Directions};
use crate::source::rule::Rule;

/// The numbers at given paths in JSON lines.
pub struct JsonLines {
    metrics: Vec<(Metric, Rule)>,
    paths: Vec<Vec<String>>,
}

impl JsonLines {
    /// Each metric is `PATH` or `PATH@RULE`. The default rule is the median over the window.
    ///
    /// # Errors
    /// Fails if a metric has no path, or an unknown rule.
    pub fn new(metrics: &[String], directions: &Directions) -> Result<JsonLines, InvalidMetric> {
        let mut known = JsonLines { metrics: Vec::new(), paths: Vec::new() };
        for text in metrics {
            let (path, rule) = Rule::split(text).map_err(|why| format!("--json-metric {text}: {why}"))?;
            let steps = parse_path(path).ok_or_else(|| {
                format!("--json-metric {text}: expected a path such as latency_us.p99; write \\. for a dot in a name")
            })?;
            known.metrics.push((named::metric(path, "", directions), rule.unwrap_or_default()));
            known.paths.push(steps);
        }
        Ok(known)
    }
}

/// Parses a path: names and indices, separated by dots. `\.` is a dot within a name.
pub fn parse_path(text: &str) -> Option<Vec<String>> {
    let mut steps = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => steps.push(String::new()),
            '\\' => steps.last_mut()?.push(letters.next()?),
            _ => steps.last_mut()?.push(letter),
        }
    }
    steps.iter().all(|step| !step.is_empty()).then_some(steps)
}

/// The number at a path. A string that contains a number counts too.
fn number(line: &Value, path: &[String]) -> Option<f64> {
    let mut at = line;
    for step in path {
        at = match at {
            Value::Object(fields) => fields.get(step)?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    match at {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

impl ReadLine for JsonLines {
    fn describe(&self) -> String {
        let rules = self.metrics.iter().map(|(metric, rule)| format!("{} ({rule})", metric.name));
        format!("JSON lines: {}", rules.collect::<Vec<_>>().join(", "))
    }

    fn metrics(&self) -> Vec<(Metric, Rule)> {
        self.metrics.clone()
    }

    fn read(&self, line: &str, put: &mut dyn FnMut(usize, f64)) {
        let line = line.trim();
        if !line.starts_with(['{', '[']) {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        for (metric, path) in self.paths.iter().enumerate() {
            if let Some(number) = number(&value, path) {
                put(metric, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(paths: &[&str], line: &str) -> Vec<(usize, f64)> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let mut found = Vec::new();
        JsonLines::new(&paths, &Directions::default())
            .unwrap()
            .read(line, &mut |metric, value| found.push((metric, value)));
        found
    }

    #[test]
    fn numbers_are_found_at_their_paths() {
        let line =
            r#" {"rtt_us":{"p50":12,"p99":"40.5"},"cpus":[{"busy":0.5},{"busy":0.25}],"a.b":7,"ok":true,"no":null} "#;
        type Row = (&'static [&'static str], &'static [(usize, f64)]);
        let table: [Row; 9] = [
            (&["rtt_us.p50"], &[(0, 12.0)]),
            (&["rtt_us.p99@last", "rtt_us.p50"], &[(0, 40.5), (1, 12.0)]),
            (&["cpus.1.busy"], &[(0, 0.25)]),
            (&["a\\.b"], &[(0, 7.0)]),
            (&["a.b"], &[]),
            (&["cpus.2.busy", "cpus.x.busy", "cpus"], &[]),
            (&["ok", "no", "rtt_us"], &[]),
            (&["none", "cpus.0.busy"], &[(1, 0.5)]),
            (&["0"], &[]),
        ];
        for (paths, expected) in table {
            assert_eq!(read(paths, line), expected, "{paths:?}");
        }
        assert_eq!(read(&["0"], "[3, 4]"), [(0, 3.0)]);
        for other in ["", "rtt 7", "{\"a\":", "7", "\u{0}", "[[[[[[["] {
            assert_eq!(read(&["0"], other), [], "{other:?}");
        }
        let deep = "[".repeat(10_000);
        assert_eq!(read(&["0.0"], &deep), []);
    }

    #[test]
    fn invalid_metrics_are_explained() {
        for (text, expected) in [
            ("", "--json-metric : expected a path such as latency_us.p99; write \\. for a dot in a name"),
            ("a..b", "--json-metric a..b: expected a path such as"),
            ("a\\", "--json-metric a\\: expected a path such as"),
            ("a@b", "--json-metric a@b: unknown rule @b; known rules: median, mean"),
        ] {
            let message = JsonLines::new(&[text.to_owned()], &Directions::default()).err().unwrap().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_line_and_no_path_is_a_panic(path in "[a-z0-9.\\\\]{0,9}", line in "[\\[{]?[\\[\\]{}\":,0-9a-z.e+-]{0,40}") {
            if let Ok(reader) = JsonLines::new(&[path], &Directions::default()) {
                reader.read(&line, &mut |_, _| {});
            }
        }
    }
}
