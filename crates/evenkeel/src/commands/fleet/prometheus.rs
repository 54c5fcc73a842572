//! Reads the numbers of nodes from Prometheus.

use std::collections::BTreeMap;

use evenkeel_workload::source::http::Address;
use serde::Deserialize;

use crate::exit;
use crate::failure::Failure;
use crate::show::escape::percent_encoded;

/// The Prometheus server that has the numbers.
pub(super) struct Prometheus {
    base: String,
}

#[derive(Deserialize)]
struct QueryAnswer {
    data: QueryData,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum QueryData {
    Vector(Vec<Sample>),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

impl Prometheus {
    /// The server at this address, which the user gave.
    pub(super) fn at(base: &str) -> Result<Prometheus, Failure> {
        let base = base.trim_end_matches('/').to_owned();
        let wrong = |error: &dyn std::fmt::Display| Failure::text(exit::WRONG_USE, "find Prometheus", error);
        Address::parse(&format!("{base}/api/v1/query")).map_err(|error| wrong(&error))?;
        Ok(Prometheus { base })
    }
}

impl Prometheus {
    /// The result of a query: one number for each host, by the label `node`, or else `instance`.
    ///
    /// # Errors
    /// Why the query has no answer, for people.
    pub(super) fn numbers(&self, query: &str) -> Result<BTreeMap<String, f64>, String> {
        let address = format!("{}/api/v1/query?query={}", self.base, percent_encoded(query, b""));
        let address = Address::parse(&address).map_err(|error| error.to_string())?;
        let page = address.get().map_err(|error| error.to_string())?;
        let answer: QueryAnswer = serde_json::from_str(&page).map_err(|error| format!("odd answer: {error}"))?;
        let QueryData::Vector(samples) = answer.data else {
            return Err("the query does not give one number a node".to_owned());
        };
        let node = |sample: &Sample| sample.metric.get("node").or_else(|| sample.metric.get("instance")).cloned();
        let number = |sample: Sample| Some((node(&sample)?, sample.value.1.parse().ok()?));
        Ok(samples.into_iter().filter_map(number).collect())
    }
}

#[cfg(feature = "kubernetes")]
impl evenkeel_fleet::kubernetes::controller::Metrics for Prometheus {
    fn query(&self, query: &str) -> Result<BTreeMap<String, f64>, String> {
        self.numbers(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_query_is_read() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
                {"metric":{"node":"vm-1"},"value":[1.5,"2.5"]},{"metric":{},"value":[1,"1"]}]}}"#;
        let answer: QueryAnswer = serde_json::from_str(text).unwrap();
        let QueryData::Vector(samples) = answer.data else { panic!("no vector") };
        assert_eq!((samples.len(), samples[0].value.1.as_str()), (2, "2.5"));
        let scalar = r#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert!(serde_json::from_str::<QueryAnswer>(scalar).is_err());
    }
}
