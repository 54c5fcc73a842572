//! Reads the numbers of nodes from Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_fleet::host_numbers::NoAnswer;
use evenkeel_workload::source::http::{Address, PATIENCE, page};
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
    let count = samples.len();
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
    if numbers.is_empty() && count > 0 {
        return Err("no number has a label `node` or `instance`; keep one of them, such as by `max by (instance) (…)`"
            .to_owned());
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
    /// Why the query has no answer.
    pub(super) fn numbers(&self, query: &str) -> Result<BTreeMap<String, f64>, NoAnswer> {
        self.numbers_within(query, PATIENCE)
    }

    fn numbers_within(&self, query: &str, patience: Duration) -> Result<BTreeMap<String, f64>, NoAnswer> {
        let address = format!("{}/api/v1/query?query={}", self.base, utf8_percent_encode(query, RESERVED));
        let unreachable = |why: &dyn std::fmt::Display| NoAnswer::Unreachable(format!("{}: {why}", self.base));
        let address = Address::parse(&address).map_err(|error| unreachable(&error))?;
        let answer = address.answer(patience).map_err(|error| unreachable(&error))?;
        if let Some(why) = refusal_of(answer.status, &answer.body) {
            return Err(NoAnswer::NoNumbers(format!("{}: {why}", self.base)));
        }
        let page = page(answer).map_err(|error| NoAnswer::NoNumbers(format!("{}: {error}", self.base)))?;
        numbers_of(&page).map_err(NoAnswer::NoNumbers)
    }
}

#[cfg(feature = "kubernetes")]
impl evenkeel_fleet::kubernetes::Metrics for Prometheus {
    fn query(&self, query: &str) -> Result<BTreeMap<String, f64>, NoAnswer> {
        self.numbers(query)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

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

    /// The numbers from a server that sends this, and then keeps the connection open until the client closes it.
    fn asked(answer: String, patience: Duration) -> Result<BTreeMap<String, f64>, NoAnswer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let _ = stream.read(&mut question);
            let _ = stream.write_all(answer.as_bytes());
            while stream.read(&mut question).is_ok_and(|bytes| bytes > 0) {}
        });
        let numbers = Prometheus::at(&base).unwrap().numbers_within("up", patience);
        server.join().unwrap();
        numbers.map_err(|error| match error {
            NoAnswer::Unreachable(why) => NoAnswer::Unreachable(why.replace(&base, "http://p")),
            NoAnswer::NoNumbers(why) => NoAnswer::NoNumbers(why.replace(&base, "http://p")),
        })
    }

    fn http(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn vector(result: &str) -> String {
        http("200 OK", &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#))
    }

    /// No answer may take longer than this: it only catches a hang.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn each_answer_of_a_server_is_numbers_or_a_reason() {
        let no_numbers = |why: &str| Err(NoAnswer::NoNumbers(why.to_owned()));
        let error = r#"{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}"#;
        let label = "no number has a label `node` or `instance`; keep one of them, such as by `max by (instance) (…)`";
        let rows = [
            (vector(""), Ok(BTreeMap::new())),
            (vector(r#"{"metric":{"job":"x"},"value":[1,"1"]}"#), no_numbers(label)),
            (
                http("503 Service Unavailable", error),
                no_numbers("http://p: it answered 503: query timed out in expression evaluation"),
            ),
            (http("502 Bad Gateway", "<html>"), no_numbers("http://p: it answered \"502 Bad Gateway\"")),
            (http("200 OK", "<html>"), no_numbers("odd answer: expected value at line 1 column 1")),
            (
                http("200 OK", "{\"status\":\"success\"}"),
                no_numbers("odd answer: missing field `data` at line 1 column 20"),
            ),
        ];
        for (answer, expected) in rows {
            assert_eq!(asked(answer, LONG), expected);
        }
        // 20,000 series, one for each node of a large cluster.
        let series = (0..20_000).map(|i| format!(r#"{{"metric":{{"node":"vm-{i}"}},"value":[1,"{i}"]}}"#));
        let numbers = asked(vector(&series.collect::<Vec<_>>().join(",")), LONG).unwrap();
        assert_eq!((numbers.len(), numbers["vm-19999"]), (20_000, 19_999.0));
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat((16 << 20) + 1));
        let why = "http://p: the answer has more than 16384 KiB";
        assert_eq!(asked(endless, LONG), Err(NoAnswer::Unreachable(why.to_owned())));
    }

    #[test]
    fn a_server_that_answers_slowly_or_not_at_all_is_left_after_the_time_limit() {
        let unreachable = |why: &str| Err(NoAnswer::Unreachable(why.to_owned()));
        let short = Duration::from_millis(50);
        for answer in [String::new(), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_owned()] {
            assert_eq!(asked(answer, short), unreachable("http://p: no complete answer within 50ms"));
        }
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody = Prometheus::at(&format!("http://{closed}")).unwrap().numbers("up").unwrap_err().to_string();
        assert!(nobody.starts_with(&format!("http://{closed}: no connection: ")), "{nobody}");
    }
}
