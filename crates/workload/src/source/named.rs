//! Metrics that the user names. The unit comes from the name. Only the user can say whether lower or higher is better.

use std::collections::BTreeMap;

use evenkeel_stats::Direction;

use crate::metric::Metric;
use crate::source::InvalidMetric;

/// Units that may be words of a name, and how evenkeel shows each unit.
const UNITS: [(&str, &str); 18] = [
    ("ns", "ns"),
    ("us", "us"),
    ("ms", "ms"),
    ("s", "s"),
    ("nanoseconds", "ns"),
    ("microseconds", "us"),
    ("milliseconds", "ms"),
    ("seconds", "s"),
    ("bytes", "bytes"),
    ("kib", "KiB"),
    ("mib", "MiB"),
    ("share", "share"),
    ("ratio", "share"),
    ("percent", "%"),
    ("hz", "Hz"),
    ("rps", "1/s"),
    ("qps", "1/s"),
    ("pps", "1/s"),
];

/// Whether lower or higher is better, as the user said: for all metrics, and for single metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    all: Option<Direction>,
    named: BTreeMap<String, Direction>,
}

impl Directions {
    /// Parses arguments such as `lower`, `higher`, `NAME=lower` and `NAME=higher`.
    ///
    /// # Errors
    /// Fails if an argument has none of these forms, or contradicts an earlier one.
    pub fn new(texts: &[String]) -> Result<Directions, InvalidMetric> {
        let mut directions = Directions::default();
        for text in texts {
            let (name, way) = text.rsplit_once('=').map_or((None, text.as_str()), |(name, way)| (Some(name), way));
            let way = match way {
                "lower" => Direction::Lower,
                "higher" => Direction::Higher,
                _ => return Err(format!("--better {text}: expected lower, higher, NAME=lower or NAME=higher").into()),
            };
            let before = match name {
                Some(name) => directions.named.insert(name.to_owned(), way),
                None => directions.all.replace(way),
            };
            if before.is_some_and(|before| before != way) {
                return Err(format!("--better {text}: an earlier option says the opposite").into());
            }
        }
        Ok(directions)
    }

    /// Whether lower or higher is better for the metric with this name. None if the user did not say.
    pub fn get(&self, name: &str) -> Option<Direction> {
        self.named.get(name).copied().or(self.all)
    }

    /// The names of the metrics for which the user gave a direction.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

/// Makes a metric with this name. If the user gave no direction for the metric, it cannot decide a trial: see [`Directions::get`].
pub fn metric(name: &str, unit: &str, directions: &Directions) -> Metric {
    let unit = if unit.is_empty() { unit_of(name) } else { unit };
    Metric::named(name.to_owned(), unit.to_owned(), directions.get(name).unwrap_or(Direction::Lower))
}

/// The unit among the words of a name, such as `rtt_us_p99`, `latency_ms.p99` or `http_request_duration_seconds`.
/// The last unit in the name counts. The result is empty if the name contains no unit.
pub fn unit_of(name: &str) -> &'static str {
    let name = name.split(['{', '@']).next().unwrap_or_default().to_ascii_lowercase();
    let mut words = name.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    // A single `s` in the middle of a name is more often an abbreviation than the unit of seconds.
    let of = |word: &str| UNITS.iter().find(|(unit, _)| *unit == word).map(|(_, written)| *written);
    words.find_map(of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_in_names() {
        let table = [
            ("rtt_us_p99", "us"),
            ("latency_ms.p99", "ms"),
            ("http_request_duration_seconds", "s"),
            ("process_resident_memory_bytes", "bytes"),
            ("x_seconds{le=\"1_ms\"}", "s"),
            ("rps", "1/s"),
            ("players", ""),
            ("", ""),
        ];
        for (name, unit) in table {
            assert_eq!(unit_of(name), unit, "{name}");
        }
    }

    #[test]
    fn the_user_sets_the_better_direction() {
        let directions =
            |texts: &[&str]| Directions::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let said = directions(&["lower", "rps=higher", "x{a=\"b\"}=lower"]).unwrap();
        assert_eq!(said.get("rtt"), Some(Direction::Lower));
        assert_eq!(said.get("rps"), Some(Direction::Higher));
        assert_eq!(said.get("x{a=\"b\"}"), Some(Direction::Lower));
        assert_eq!(directions(&["rps=higher"]).unwrap().get("rtt"), None);
        assert_eq!(said.names().collect::<Vec<_>>(), ["rps", "x{a=\"b\"}"]);
        for odd in ["", "up", "rps=up"] {
            assert!(
                directions(&[odd])
                    .unwrap_err()
                    .to_string()
                    .contains("expected lower, higher, NAME=lower or NAME=higher")
            );
        }
        assert_eq!(
            directions(&["lower", "higher"]).unwrap_err().to_string(),
            "--better higher: an earlier option says the opposite"
        );
    }
}
