//! The load generator on servers of the test's own, which stall, hang, lie or leave: what a window then says.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_sys::CpuSet;
use evenkeel_trial::Sample;
use evenkeel_trial::load::{Arrivals, Dataset, Fault, Loader, Memcached, Pace, Popularity, Protocol, Shape, Sizes};

/// How a fake server behaves once it has answered so many requests on one connection, the stored values not counted.
#[derive(Clone, Copy)]
enum Then {
    GoesOn,
    /// Answers nothing anywhere for so long, once: half a second after the first request, however many were asked until then.
    Stalls(Duration),
    Hangs,
    Closes,
    Says(&'static str),
}

/// A memcached of a few lines.
fn server(after: u32, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let values = Arc::new(Mutex::new(HashMap::new()));
    // Ends with the test's process: the load closes its connections, and nobody connects any more.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let values = Arc::clone(&values);
            std::thread::spawn(move || serve(stream.unwrap(), &values, after, then));
        }
    });
    address
}

fn serve(stream: TcpStream, values: &Mutex<HashMap<String, Vec<u8>>>, after: u32, then: Then) -> Option<()> {
    let mut output = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    stream_options(&output);
    let (mut answered, mut first, mut has_stalled) = (0, None, false);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.as_slice() {
            ["set", key, _, _, bytes] => {
                let mut value = vec![0; bytes.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut value).ok()?;
                value.truncate(value.len() - 2);
                values.lock().unwrap().insert((*key).to_owned(), value);
                b"STORED\r\n".to_vec()
            }
            ["get", key] => {
                answered += 1;
                let since_first = first.get_or_insert_with(Instant::now).elapsed();
                let values = values.lock().unwrap();
                if let Then::Stalls(time) = then
                    && since_first >= Duration::from_millis(500)
                    && !std::mem::replace(&mut has_stalled, true)
                {
                    // Whoever asks meanwhile waits for the lock.
                    std::thread::sleep(time);
                }
                if answered == after {
                    match then {
                        Then::GoesOn | Then::Stalls(_) => {}
                        Then::Hangs => std::thread::sleep(Duration::from_secs(30)),
                        Then::Closes => return None,
                        Then::Says(words) => drop(output.write_all(words.as_bytes())),
                    }
                }
                match values.get(*key) {
                    Some(value) => {
                        [format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat()
                    }
                    None => b"END\r\n".to_vec(),
                }
            }
            _ => b"ERROR\r\n".to_vec(),
        };
        output.write_all(&answer).ok()?;
    }
}

fn stream_options(stream: &TcpStream) {
    stream.set_nodelay(true).unwrap();
}

fn protocol(value_sizes: Sizes) -> Arc<dyn Protocol> {
    Arc::new(Memcached { data: Arc::new(Dataset::new(100, Sizes::Fixed(20), value_sizes, 1).unwrap()) })
}

fn shape(connections: u32, pace: Pace) -> Shape {
    Shape { connections, pace, keys: 100, popularity: Popularity::Uniform, get_share: 1.0, seed: 1 }
}

fn open(rate_per_s: f64) -> Pace {
    Pace::Open { rate_per_s, arrivals: Arrivals::Even }
}

fn window(address: SocketAddr, shape: Shape, ms: u64) -> Result<Sample, Fault> {
    let mut loader = Loader::connect(address, &protocol(Sizes::Uniform(0, 3000)), &shape, &CpuSet::default())?;
    let (mut begun, mut ended) = (Instant::now(), None);
    let settle = Duration::from_millis(50);
    let window = Duration::from_millis(ms);
    let sample = loader.window(settle, window, &mut || begun = Instant::now(), &mut || ended = Some(Instant::now()))?;
    assert!(ended.unwrap() - begun > window * 9 / 10);
    Ok(sample)
}

fn alone() -> File {
    let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    host.lock().unwrap();
    host
}

/// A machine that pauses looks like a server that stalls: what a test asks for is true in one of a few tries.
fn in_some_try(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let mut seen = Vec::new();
    for _ in 0..4 {
        match holds() {
            Ok(()) => return,
            Err(why) => seen.push(why),
        }
    }
    panic!("{what}: {seen:#?}");
}

/// 200 ms of a second in which nothing is answered: a fifth of what fell due waited, half of that for more than 100 ms. Who asks only after
/// an answer sees one slow request among thousands. The rate is one that a connection has room for where a round trip takes a millisecond.
#[test]
fn a_stall_is_charged_to_all_that_fell_due_in_it() {
    let _host = alone();
    in_some_try("open and closed loop beside each other", || {
        let stall = Then::Stalls(Duration::from_millis(200));
        let open = window(server(0, stall), shape(1, open(250.0)), 1000).unwrap();
        let closed = window(server(0, stall), shape(1, Pace::Closed), 1000).unwrap();
        let (open_us, closed_us) = (open["request_us_p90"], closed["request_us_p90"]);
        let seen = format!("open {open:?}, closed {closed:?}");
        let asked = (open["due_per_s"] - 250.0).abs() < 2.0 && open["requests"] >= 248.0;
        let charged = (60_000.0..260_000.0).contains(&open_us) && open["request_us_p50"] < 30_000.0;
        let blind = closed_us < open_us / 5.0 && closed["request_us_max"] > 190_000.0;
        // The stall is the server's: the generator itself had no free connection, and was not late.
        let told_apart = open["load_behind_share"] < 0.1;
        if asked && charged && blind && told_apart { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn a_schedule_is_kept_whatever_the_connections() {
    let _host = alone();
    for (connections, arrivals) in [(1, Arrivals::Even), (8, Arrivals::Even), (5, Arrivals::Poisson)] {
        in_some_try("the rate that was asked for", || {
            let pace = Pace::Open { rate_per_s: 400.0, arrivals };
            let sample = window(server(0, Then::GoesOn), shape(connections, pace), 500).unwrap();
            let spread = if arrivals == Arrivals::Even { 5.0 } else { 120.0 };
            let asked = (sample["due_per_s"] - 400.0).abs() <= spread;
            let kept = (sample["throughput_per_s"] / sample["due_per_s"] - 1.0).abs() < 0.1;
            let whole = sample["unsent_share"] == 0.0 && sample["miss_share"] == 0.0;
            if asked && kept && whole { Ok(()) } else { Err(format!("{connections}: {sample:?}")) }
        });
    }
}

#[test]
fn a_rate_beyond_all_is_not_hidden() {
    let _host = alone();
    let sample = window(server(0, Then::GoesOn), shape(2, open(3_000_000.0)), 100).unwrap();
    // What could not even be sent counts as slow as it was when it was given up, a second after the window.
    assert!(sample["unsent_share"] > 0.3 && sample["request_us_p99"] > 500_000.0, "{sample:?}");
    assert!((sample["due_per_s"] / 3e6 - 1.0).abs() < 0.01, "{sample:?}");
}

#[test]
fn a_closed_loop_counts_its_answers() {
    let _host = alone();
    in_some_try("throughput of one connection is one over its time", || {
        let sample = window(server(0, Then::GoesOn), shape(1, Pace::Closed), 500).unwrap();
        assert!(!sample.contains_key("due_per_s") && !sample.contains_key("load_behind_share"), "{sample:?}");
        let busy = sample["throughput_per_s"] * sample["request_us_mean"] / 1e6;
        let counted = (sample["requests"] - sample["throughput_per_s"] / 2.0).abs() < 1.0;
        if counted && (0.5..1.05).contains(&busy) { Ok(()) } else { Err(format!("{sample:?}")) }
    });
    let mut writes = shape(3, Pace::Closed);
    writes.get_share = 0.0;
    let sample = window(server(0, Then::GoesOn), writes, 500).unwrap();
    assert!(sample["throughput_per_s"] > 0.0 && !sample.contains_key("miss_share"), "{sample:?}");
}

#[test]
fn what_a_server_does_instead_of_answering_is_said() {
    let _host = alone();
    let table = [
        (Then::Closes, "it closed a connection"),
        (Then::Says("\u{1}\u{2}garbage\r\n"), "it said \"\\x01\\x02garbage\\r\\nVALUE"),
        (Then::Says("END\r\n"), "after an answer, unasked, it said \"VALUE"),
        (Then::Says("VALUE k0000001____________ 0 1\r\nx"), "asked for another value, it said \"VALUE k0000001"),
        (Then::Says("VALUE k0000001 0 999999999\r\n"), "it said \"VALUE k0000001 0 999999999"),
    ];
    for (then, expected) in table {
        for shape in [shape(1, Pace::Closed), shape(4, Pace::Closed), shape(2, open(2000.0))] {
            let begun = Instant::now();
            let message = window(server(20, then), shape, 3000).unwrap_err().to_string();
            // Two writes of the server may come as two reads, the second as an answer to what was asked meanwhile, or to nothing.
            let expected = expected.strip_suffix("VALUE").unwrap_or(expected);
            let later = ["unasked, it said \"VALUE", "asked for another value, it said \"VALUE"];
            let is_said = message.starts_with(expected) || later.iter().any(|later| message.starts_with(later));
            assert!(is_said, "{shape:?}: {message}");
            assert!(begun.elapsed() < Duration::from_millis(2500), "it does not wait for the window's end");
        }
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = window(nobody, shape(1, Pace::Closed), 100).unwrap_err().to_string();
    assert!(message.starts_with("no connection: Connection refused"), "{message}");
}

#[test]
fn one_that_hangs_is_given_up() {
    let _host = alone();
    // Both at once, since each takes the five seconds after which silence is a fault.
    std::thread::scope(|scope| {
        for (connections, pace) in [(1, Pace::Closed), (3, open(500.0))] {
            scope.spawn(move || {
                let fault = window(server(20, Then::Hangs), shape(connections, pace), 200).unwrap_err();
                assert_eq!(fault, Fault::Silent { seconds: 5 });
            });
        }
    });
}

#[test]
fn a_window_in_which_nothing_falls_due_says_so() {
    let fault = window(server(0, Then::GoesOn), shape(1, open(1.0)), 100).unwrap_err();
    assert_eq!(fault, Fault::Idle);
}
