//! `Family`: a metric with all its series, and its encoder.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The labels of a series: names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A metric.
#[derive(Debug)]
pub(super) struct Family {
    /// The name of the metric without the unit and without `_total`.
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    series: Vec<(Labels, Value)>,
}

/// The value of a series.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// A histogram: the sum, and for each bucket its upper bound and its count. The last bucket has no bound.
    Histogram { sum: f64, buckets: Vec<(f64, u64)> },
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl Family {
    pub(super) fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, help, unit: None, kind: MetricType::Counter, series: Vec::new() }
    }

    pub(super) fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { kind: MetricType::Gauge, ..Family::counter(name, help) }
    }

    pub(super) fn histogram(name: &'static str, help: &'static str) -> Family {
        Family { kind: MetricType::Histogram, ..Family::counter(name, help) }
    }

    /// Sets the unit to seconds.
    pub(super) fn seconds(self) -> Family {
        Family { unit: Some(Unit::Seconds), ..self }
    }

    /// Sets the unit to bytes.
    pub(super) fn bytes(self) -> Family {
        Family { unit: Some(Unit::Bytes), ..self }
    }

    /// Adds a series. If the value is unknown or not a number, no series is added.
    pub(super) fn add(&mut self, labels: Labels, value: Option<impl Into<Value>>) {
        match value.map(Into::into) {
            Some(Value::Number(number)) if !number.is_finite() => {}
            Some(value) => self.series.push((labels, value)),
            None => {}
        }
    }

    /// Adds a series without labels.
    pub(super) fn one(mut self, value: Option<impl Into<Value>>) -> Family {
        self.add(Vec::new(), value);
        self
    }

    /// Adds these series.
    pub(super) fn many<V: Into<Value>>(mut self, series: impl IntoIterator<Item = (Labels, Option<V>)>) -> Family {
        for (labels, value) in series {
            self.add(labels, value);
        }
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if self.series.is_empty() {
            return Ok(());
        }
        let mut metric = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)?;
        for (labels, value) in &self.series {
            match labels.is_empty() {
                true => encode_value(&mut metric, self.kind, value)?,
                false => encode_value(&mut metric.encode_family(labels)?, self.kind, value)?,
            }
        }
        Ok(())
    }
}

fn encode_value(metric: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> Result<(), std::fmt::Error> {
    match (kind, value) {
        (MetricType::Counter, Value::Count(count)) => metric.encode_counter::<NoLabelSet, u64, f64>(count, None),
        (MetricType::Counter, Value::Number(number)) => metric.encode_counter::<NoLabelSet, f64, f64>(number, None),
        (_, Value::Count(count)) => metric.encode_gauge(&(*count as f64)),
        (_, Value::Number(number)) => metric.encode_gauge(number),
        (_, Value::Histogram { sum, buckets }) => {
            // If the sum of the counts overflows, the counts are wrong, and the encoder would panic.
            let count = buckets.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
            count.map_or(Ok(()), |count| metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None))
        }
    }
}

/// All metrics of a model.
#[derive(Debug)]
pub(super) struct Families(pub(super) Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}
