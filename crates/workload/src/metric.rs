//! `Metric`: describes a value that each window has.
//! Built-in workloads define their metrics as constants.
//! For a program's output or a Prometheus page, the user gives the names.

use std::borrow::Cow;

use evenkeel_stats::Direction;
use serde::{Deserialize, Serialize};

/// A value that each window has, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// The name of the metric with unit and quantile: `round_trip_us_p50`.
    pub name: Cow<'static, str>,
    /// A short description.
    pub title: Cow<'static, str>,
    /// The unit, such as `us`. It is `share` for a part of one, and empty if unknown.
    pub unit: Cow<'static, str>,
    /// Whether lower or higher values are better.
    pub better: Direction,
}

impl Metric {
    /// A metric that is known at compile time.
    pub const fn new(name: &'static str, title: &'static str, unit: &'static str, better: Direction) -> Metric {
        Metric { name: Cow::Borrowed(name), title: Cow::Borrowed(title), unit: Cow::Borrowed(unit), better }
    }

    /// A time in microseconds: lower is better.
    pub const fn us(name: &'static str, title: &'static str) -> Metric {
        Metric::new(name, title, "us", Direction::Lower)
    }

    /// The smallest effect that matters, as a share, unless the user gives one. It is larger for lateness and jitter.
    /// On a healthy machine these are some tens of microseconds, and nobody notices a change of 5 % of that.
    pub fn smallest_effect_ratio(&self) -> f64 {
        let is_deviation = ["lateness", "jitter"].iter().any(|part| self.name.contains(part));
        if is_deviation { 0.10 } else { 0.05 }
    }

    /// A time of 0 was shorter than the clock's resolution of a nanosecond.
    /// This function returns one nanosecond instead, which can form a ratio with other times.
    pub fn at_resolution(&self, value: f64) -> f64 {
        let resolution = match self.unit.as_ref() {
            "us" => 1e-3,
            "ms" => 1e-6,
            "ns" => 1.0,
            _ => return value,
        };
        if value == 0.0 { resolution } else { value }
    }

    /// How many times worse a value is than another value, if this is their ratio.
    pub fn times_worse(&self, ratio: f64) -> f64 {
        match self.better {
            Direction::Lower => ratio,
            Direction::Higher => 1.0 / ratio,
        }
    }

    /// Whether the metric describes the tail of a distribution. The value of such a metric depends on the length of the window.
    pub fn is_tail(&self) -> bool {
        ["_p9", "_max"].iter().any(|part| self.name.contains(part))
    }

    /// A metric that a user named. Its title is its name.
    pub fn named(name: String, unit: String, better: Direction) -> Metric {
        Metric { title: Cow::Owned(name.clone()), name: Cow::Owned(name), unit: Cow::Owned(unit), better }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_known_by_their_names() {
        for (name, is_tail) in [
            ("round_trip_us_p50", false),
            ("throughput_per_s", false),
            ("tick_lateness_us_p90", true),
            ("request_us_p999", true),
            ("load_late_us_max", true),
        ] {
            assert_eq!(Metric::us(name, "").is_tail(), is_tail, "{name}");
        }
    }

    #[test]
    fn the_smallest_effect_depends_on_the_metric() {
        let table = [
            ("round_trip_us_p99", 0.05),
            ("due_to_done_us_p50", 0.05),
            ("cpu_share", 0.05),
            ("tick_lateness_us_p99", 0.10),
            ("snapshot_jitter_us_p99", 0.10),
            ("", 0.05),
        ];
        for (name, ratio) in table {
            assert_eq!(Metric::us(name, "").smallest_effect_ratio(), ratio, "{name}");
        }
    }
}
