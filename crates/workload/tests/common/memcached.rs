//! A minimal memcached that can stall, hang, answer incorrectly or close its connections, and a load for it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_workload::load::{Arrivals, Dataset, Memcached, Pace, Popularity, Protocol, Shape, Sizes};

/// What the server does after this many answers on one connection. Answers to stored values do not count.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    GoesOn,
    /// The server once stops answering on all connections: this long after the first request, however many requests there are.
    Stalls {
        after: Duration,
        lasts: Duration,
    },
    Hangs,
    Closes,
    Says(&'static str),
}

/// Starts a minimal memcached.
pub(crate) fn server(after: u32, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let values = Arc::new(Mutex::new(HashMap::new()));
    // The thread ends with the test process. The load closes its connections earlier and opens no new connections.
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
                if let Then::Stalls { after, lasts } = then
                    && since_first >= after
                    && !std::mem::replace(&mut has_stalled, true)
                {
                    // Requests that arrive in the meantime wait for the lock.
                    std::thread::sleep(lasts);
                }
                if answered == after {
                    match then {
                        Then::GoesOn | Then::Stalls { .. } => {}
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

pub(crate) fn protocol(value_sizes: Sizes) -> Arc<dyn Protocol> {
    Arc::new(Memcached { data: Arc::new(Dataset::new(100, Sizes::Fixed(20), value_sizes, 1).unwrap()) })
}

pub(crate) fn shape(connections: u32, pace: Pace) -> Shape {
    Shape { connections, pace, keys: 100, popularity: Popularity::Uniform, get_share: 1.0, seed: 1 }
}

pub(crate) fn open(rate_per_s: f64) -> Pace {
    Pace::Open { rate_per_s, arrivals: Arrivals::Even }
}
