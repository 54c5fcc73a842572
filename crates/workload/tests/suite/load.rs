//! Tests the load generator with servers that stall, hang, answer incorrectly or close, and checks the values of the window.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use evenkeel_sys::CpuSet;
use evenkeel_workload::Sample;
use evenkeel_workload::load::{Arrivals, Fault, Loader, Pace, Shape, Sizes};

use crate::common::memcached::{Then, open, protocol, server, shape};

fn window(address: SocketAddr, shape: Shape, ms: u64) -> Result<Sample, Fault> {
    let mut loader = Loader::connect(address, &protocol(Sizes::Uniform(0, 3000)), &shape, &CpuSet::default())?;
    let (settle, window) = (Duration::from_millis(5), Duration::from_millis(ms));
    let (mut begun, mut ended) = (0, 0);
    let sample = loader.window(settle, window, &mut || begun += 1, &mut || ended += 1)?;
    assert_eq!((begun, ended), (1, 1));
    Ok(sample)
}

/// The due times are fixed before any answer arrives. So the rate is right even on a busy machine, and with any number of connections.
#[test]
fn the_due_rate_is_the_requested_rate() {
    for (connections, arrivals) in [(1, Arrivals::Even), (8, Arrivals::Even), (5, Arrivals::Poisson)] {
        let pace = Pace::Open { rate_per_s: 400.0, arrivals };
        let sample = window(server(0, Then::GoesOn), shape(connections, pace), 200).unwrap();
        // With even arrivals, the count is right within one request per connection.
        // A Poisson process with a mean of 80 practically never deviates by 40 or more.
        let spread = if arrivals == Arrivals::Even { 5.0 * f64::from(connections) } else { 200.0 };
        assert!((sample["due_per_s"] - 400.0).abs() <= spread, "{connections}: {sample:?}");
        assert_eq!(sample["miss_share"], 0.0, "{sample:?}");
    }
}

/// In a window of 300 ms, a third of the due requests waits for a stall of 100 ms. A tenth waits for more than 70 ms.
/// A client that waits for answers would measure the stall in one request only.
/// On a busy machine, these shares can only be larger.
#[test]
fn a_stall_is_charged_to_all_requests_due_in_it() {
    let stall = Then::Stalls { after: Duration::from_millis(50), lasts: Duration::from_millis(100) };
    let sample = window(server(0, stall), shape(1, open(500.0)), 300).unwrap();
    assert!(sample["request_us_p90"] > 50_000.0 && sample["request_us_max"] > 90_000.0, "{sample:?}");
    assert!((sample["due_per_s"] - 500.0).abs() < 8.0, "{sample:?}");
}

#[test]
fn an_impossible_rate_is_not_hidden() {
    let sample = window(server(0, Then::GoesOn), shape(2, open(30_000_000.0)), 20).unwrap();
    // Unsent requests count with the time until they were given up, which is one second after the window.
    assert!(sample["unsent_share"] > 0.3 && sample["request_us_p99"] > 500_000.0, "{sample:?}");
    assert!((sample["due_per_s"] / 3e7 - 1.0).abs() < 0.01, "{sample:?}");
}

#[test]
fn a_closed_loop_counts_its_answers() {
    let sample = window(server(0, Then::GoesOn), shape(1, Pace::Closed), 100).unwrap();
    assert!(!sample.contains_key("due_per_s") && !sample.contains_key("load_behind_share"), "{sample:?}");
    assert!((sample["requests"] - sample["throughput_per_s"] / 10.0).abs() < 1.0, "{sample:?}");
    let mut writes = shape(3, Pace::Closed);
    writes.get_share = 0.0;
    let sample = window(server(0, Then::GoesOn), writes, 100).unwrap();
    assert!(sample["throughput_per_s"] > 0.0 && !sample.contains_key("miss_share"), "{sample:?}");
}

#[test]
fn a_server_that_does_not_answer_is_described() {
    let table = [
        (Then::Closes, "it closed a connection"),
        (Then::Says("\u{1}\u{2}garbage\r\n"), "got \"\\x01\\x02garbage\\r\\nVALUE"),
        (Then::Says("END\r\n"), "it sent more than the answer: got \"VALUE"),
        (Then::Says("VALUE k0000001____________ 0 1\r\nx"), "asked for another value, got \"VALUE k0000001"),
        (Then::Says("VALUE k0000001 0 999999999\r\n"), "got \"VALUE k0000001 0 999999999"),
    ];
    for (then, expected) in table {
        for shape in [shape(1, Pace::Closed), shape(4, Pace::Closed), shape(2, open(2000.0))] {
            // The error does not wait for the end of the window, which is a day away.
            let message = window(server(20, then), shape, 86_400_000).unwrap_err().to_string();
            // Two writes of the server may arrive in two reads.
            // Then the second part looks like an answer to a newer request, or to no request.
            let expected = expected.strip_suffix("VALUE").unwrap_or(expected);
            let later = [
                "it sent more than the answer: got \"VALUE",
                "it sent bytes without a request: got \"VALUE",
                "asked for another value, got \"VALUE",
            ];
            let is_said = message.starts_with(expected) || later.iter().any(|later| message.starts_with(later));
            assert!(is_said, "{shape:?}: {message}");
        }
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = window(nobody, shape(1, Pace::Closed), 100).unwrap_err().to_string();
    assert!(message.starts_with("no connection: Connection refused"), "{message}");
}

#[test]
fn a_window_without_due_requests_is_an_error() {
    let fault = window(server(0, Then::GoesOn), shape(1, open(1.0)), 100).unwrap_err();
    assert_eq!(fault, Fault::Idle);
}
