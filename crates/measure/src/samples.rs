//! `Samples`: the recorded values of one quantity, with unit, conditions, and the number of lost values.

use std::collections::BTreeMap;

use evenkeel_stats::{Histogram, Summary};
use serde::{Deserialize, Serialize, Serializer};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Picoseconds, for times below a nanosecond.
    Ps,
    /// Bytes per second.
    BytesPerS,
    /// Times per second.
    PerS,
    /// Kilohertz.
    Khz,
    /// Millionths of a whole.
    Ppm,
}

impl Unit {
    /// The suffix of field names.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Ps => "ps",
            Unit::BytesPerS => "bytes_per_s",
            Unit::PerS => "per_s",
            Unit::Khz => "khz",
            Unit::Ppm => "ppm",
        }
    }
}

/// The conditions of a measurement, such as `cpu: 1` and `policy: fifo`. Names end with their unit.
pub type Conditions = BTreeMap<String, String>;

/// Values that existed but were not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// The number of lost values.
    pub count: u64,
    /// Why the values were lost, in words. None if nothing was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Many values of one quantity.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(from = "Shown<'static>", into = "Shown<'static>")
)]
pub struct Samples {
    /// The quantity with its unit last: `wake_latency_ns`.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// The conditions.
    pub conditions: Conditions,
    /// The values.
    pub histogram: Histogram,
    /// The values that are missing.
    pub lost: Lost,
}

impl Samples {
    /// An empty set.
    pub fn new<const N: usize>(name: &str, unit: Unit, conditions: [(&str, String); N]) -> Samples {
        let conditions = conditions.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Samples { name: name.to_owned(), unit, conditions, histogram: Histogram::new(), lost: Lost::default() }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.histogram.record(value);
    }

    /// Counts values that were not recorded.
    pub fn lose(&mut self, count: u64, why: &str) {
        if count > 0 {
            self.lost.count += count;
            self.lost.why.get_or_insert_with(|| why.to_owned());
        }
    }
}

impl Lost {
    /// Values that were not recorded, and why.
    pub fn new(count: u64, why: &str) -> Lost {
        Lost { count, why: (count > 0).then(|| why.to_owned()) }
    }
}

/// The JSON of samples.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Shown<'a> {
    name: &'a str,
    unit: Unit,
    conditions: &'a Conditions,
    summary: Option<Summary>,
    mean: Option<f64>,
    clamped: u64,
    lost: &'a Lost,
    /// The bars, each as `[upper end of the bar, number of values]`.
    bars: Vec<(u64, u64)>,
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Samples { name, unit, conditions, histogram, lost } = self;
        let bars = histogram.bars().into_iter().map(|bar| (bar.upper, bar.count)).collect();
        let shown = Shown {
            name,
            unit: *unit,
            conditions,
            summary: histogram.summary(),
            mean: histogram.mean(),
            clamped: histogram.clamped(),
            lost,
            bars,
        };
        shown.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_with_the_rest() {
        let mut samples = Samples::new("wake_latency_ns", Unit::Ns, [("cpu", 1.to_string())]);
        samples.lose(0, "nothing");
        assert_eq!(samples.lost, Lost::default());
        for value in [3, 40, 50] {
            samples.record(value);
        }
        samples.lose(2, "the ring was full");
        expect_test::expect![[r#"{"name":"wake_latency_ns","unit":"ns","conditions":{"cpu":"1"},"summary":{"count":3,"min":3,"p50":40,"p90":50,"p99":50,"p999":50,"max":50},"mean":31.0,"clamped":0,"lost":{"count":2,"why":"the ring was full"},"bars":[[5,1],[10,0],[20,0],[50,2]]}"#]]
            .assert_eq(&serde_json::to_string(&samples).unwrap());
    }
}
