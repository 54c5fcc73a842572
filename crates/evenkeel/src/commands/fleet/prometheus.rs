//! Reads the numbers of nodes from Prometheus.

use std::collections::BTreeMap;

use evenkeel_workload::source::http::{Address, page};
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use serde_json::Value;

use crate::exit;
use crate::failure::Failure;
use crate::show::escape::RESERVED;

/// The Prometheus server that has the numbers.
pub(super) struct Prometheus {
    base: String,
}

#[derive(Deserialize)]
struct QueryAnswer {
    data: QueryData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryData {
    result_type: String,
    result: Value,
}

#[derive(Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

#[derive(Deserialize)]
struct QueryError {
    error: String,
}

/// Why Prometheus refused a query, such as the place of a mistake in the query; `None` if Prometheus gives no reason.
fn refusal_of(status: u16, body: &[u8]) -> Option<String> {
    let error: QueryError = serde_json::from_slice(body).ok().filter(|_| status != 200)?;
    let why: String = error.error.chars().take(ERROR_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Some(format!("it answered {status}: {why}"))
}

/// The maximum length of a Prometheus error in our message.
const ERROR_CHARS_MAX: usize = 300;

/// Extracts the number of each node from the answer to a query.
fn numbers_of(page: &str) -> Result<BTreeMap<String, f64>, String> {
    let odd = |error: serde_json::Error| format!("odd answer: {error}");
    let QueryData { result_type, result } = serde_json::from_str::<QueryAnswer>(page).map_err(odd)?.data;
    if result_type != "vector" {
        return Err(format!("the query returns a {result_type}, not one number per node"));
    }
    let samples: Vec<Sample> = serde_json::from_value(result).map_err(odd)?;
    let mut numbers = BTreeMap::new();
    for Sample { metric, value: (_, number) } in samples {
        let node = metric.get("node").or_else(|| metric.get("instance"));
        let (Some(node), Ok(number)) = (node, number.parse()) else { continue };
        // A node has several numbers, from its queues, CPUs or sessions. Choosing one of them would be arbitrary.
        if numbers.insert(node.clone(), number).is_some() {
            return Err(format!(
                "the query gives several numbers for {node}; aggregate them, such as `max by (instance) (…)`"
            ));
        }
    }
    Ok(numbers)
}

impl Prometheus {
    /// Uses the Prometheus server at this address, which the user gave.
    pub(super) fn at(base: &str) -> Result<Prometheus, Failure> {
        let base = base.trim_end_matches('/').to_owned();
        let wrong = |error: &dyn std::fmt::Display| Failure::text(exit::WRONG_USE, "find Prometheus", error);
        Address::parse(&format!("{base}/api/v1/query")).map_err(|error| wrong(&error))?;
        Ok(Prometheus { base })
    }

    /// Runs a query. Returns one number for each host, which the label `node` or else `instance` names.
    ///
    /// # Errors
    /// Why the query has no answer, as a text for people.
    pub(super) fn numbers(&self, query: &str) -> Result<BTreeMap<String, f64>, String> {
        let address = format!("{}/api/v1/query?query={}", self.base, utf8_percent_encode(query, RESERVED));
        let address = Address::parse(&address).map_err(|error| error.to_string())?;
        let answer = address.answer().map_err(|error| error.to_string())?;
        if let Some(why) = refusal_of(answer.status, &answer.body) {
            return Err(why);
        }
        numbers_of(&page(answer).map_err(|error| error.to_string())?)
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
        assert_eq!(numbers_of(text), Ok(BTreeMap::from([("vm-1".to_owned(), 2.5)])));
        for (number, is_nan) in [("NaN", true), ("+Inf", false)] {
            let text = text.replace("2.5", number);
            assert_eq!(numbers_of(&text).unwrap()["vm-1"].is_nan(), is_nan, "{number}");
        }
        for kind in ["scalar", "matrix", "string"] {
            let text = format!(r#"{{"data":{{"resultType":"{kind}","result":[1,"2"]}}}}"#);
            let why = format!("the query returns a {kind}, not one number per node");
            assert_eq!(numbers_of(&text), Err(why));
        }
        assert!(numbers_of("{}").unwrap_err().starts_with("odd answer: missing field `data`"));
    }

    #[test]
    fn a_mistake_in_a_query_is_shown_in_the_words_of_prometheus() {
        let body = br#"{"status":"error","errorType":"bad_data","error":"1:5: parse error:\nunexpected <op:->"}"#;
        let why = "it answered 400: 1:5: parse error: unexpected <op:->";
        assert_eq!(refusal_of(400, body).as_deref(), Some(why));
        assert_eq!(refusal_of(200, body), None);
        assert_eq!(refusal_of(502, b"<html>"), None);
    }

    #[test]
    fn several_numbers_of_a_node_are_an_error_and_not_the_last_of_them() {
        let text = r#"{"data":{"resultType":"vector","result":[
                {"metric":{"instance":"vm-1","cpu":"0"},"value":[1.5,"2.5"]},
                {"metric":{"instance":"vm-1","cpu":"1"},"value":[1.5,"90"]}]}}"#;
        let why = "the query gives several numbers for vm-1; aggregate them, such as `max by (instance) (…)`";
        assert_eq!(numbers_of(text), Err(why.to_owned()));
    }
}
