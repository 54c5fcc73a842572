//! Tests the Agones client with simulated sidecars: good ones, late ones, and ones with arbitrary answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_rt::agones::{Agones, AgonesError, AgonesReport, AgonesSettings, Client, Progress};

use crate::PATIENCE;

/// The time limit of requests that are expected to time out.
const SHORT: Duration = Duration::from_millis(100);

/// How a sidecar handles a request, whose first line it gets.
type Manner = fn(&mut TcpStream, &str);

struct Sidecar {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sidecar {
    fn new(manner: Manner) -> Sidecar {
        Sidecar::on(TcpListener::bind("127.0.0.1:0").unwrap(), manner)
    }

    fn on(listener: TcpListener, manner: Manner) -> Sidecar {
        let port = listener.local_addr().unwrap().port();
        let (heard, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (lines, over) = (Arc::clone(&heard), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let line = first_line(&mut stream);
                lines.lock().unwrap().push(line.clone());
                manner(&mut stream, &line);
            }
        });
        Sidecar { port, heard, is_over, thread: Some(thread) }
    }

    fn client(&self) -> Client {
        Client::at(self.port).within(PATIENCE)
    }

    fn heard(&self, line: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| heard.starts_with(line)).count()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.thread.take().unwrap().join());
    }
}

/// Reads a request to its end, and returns its first line.
fn first_line(stream: &mut TcpStream) -> String {
    let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        request.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                break;
            }
        }
    }
    String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned()
}

const GAME_SERVER: &str = r#"{"object_meta":{"name":"local"},"status":{"state":"Ready","address":"127.0.0.1","ports":[{"name":"default","port":7777}]}}"#;

fn good(stream: &mut TcpStream, line: &str) {
    let body = if line.starts_with("GET /gameserver ") { GAME_SERVER } else { "{}" };
    let length = body.len();
    let _ =
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
}

fn chunked(stream: &mut TcpStream, _: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in GAME_SERVER.as_bytes().chunks(7) {
        let _ = write!(stream, "{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece));
        let _ = stream.flush();
    }
    let _ = write!(stream, "0\r\n\r\n");
}

/// Keeps the connection open and sends a byte now and then until the other side closes. No single read is late.
fn dripping(stream: &mut TcpStream, _: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && stream.write_all(b"x").is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends nothing until the other side closes, however late that is.
fn silent(stream: &mut TcpStream, _: &str) {
    let _ = stream.read(&mut [0]);
}

fn closing(_: &mut TcpStream, _: &str) {}

fn cut_off(stream: &mut TcpStream, _: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{{");
}

fn garbage(stream: &mut TcpStream, _: &str) {
    let _ = stream.write_all(&[0, 255, 13, 10, 13, 10, 7]);
}

fn endless(stream: &mut TcpStream, _: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n");
    while stream.write_all(&[b'x'; 4096]).is_ok() {}
}

fn refusing(stream: &mut TcpStream, _: &str) {
    let body = format!("not\nnow{}", "\u{1b}[31m".repeat(100));
    let _ = write!(stream, "HTTP/1.1 503 Unavailable\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

fn no_json(stream: &mut TcpStream, _: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[[[[");
}

#[test]
fn whatever_is_answered_there_is_an_end() {
    let table: [(Manner, &str); 9] = [
        (dripping, "no answer of the sidecar"),
        (silent, "no answer of the sidecar"),
        (closing, "the connection closed within the answer"),
        (cut_off, "the connection closed within the answer"),
        (garbage, "the answer is not HTTP/1.x"),
        (endless, "the answer has more than 256 KiB"),
        (refusing, "with 503: not now"),
        (no_json, "is invalid"),
        (good, ""),
    ];
    for (manner, expected) in table {
        let sidecar = Sidecar::new(manner);
        // The timeout is short only if the test expects it. A good answer must not be late on a machine that stalls for a while.
        let runs_out = expected.starts_with("no answer");
        let client = sidecar.client().within(if runs_out { SHORT } else { PATIENCE });
        let said = client.game_server().map(|_| ()).map_err(|error| error.to_string());
        match said {
            Ok(()) => assert_eq!(expected, ""),
            Err(said) => assert!(!expected.is_empty() && said.contains(expected) && said.len() < 400, "{said}"),
        }
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(matches!(Client::at(nobody).ready(), Err(AgonesError::Connection { .. })));
}

#[test]
fn the_four_requests_are_as_documented() {
    let sidecar = Sidecar::new(good);
    let client = sidecar.client();
    client.ready().unwrap();
    client.health().unwrap();
    client.shutdown().unwrap();
    let game_server = client.game_server().unwrap();
    assert_eq!((game_server.status.state.as_deref(), game_server.status.ports[0].port), (Some("Ready"), Some(7777)));
    let lines =
        ["POST /ready HTTP/1.1", "POST /health HTTP/1.1", "POST /shutdown HTTP/1.1", "GET /gameserver HTTP/1.1"];
    assert_eq!(*sidecar.heard.lock().unwrap(), lines);
    let sidecar = Sidecar::new(chunked);
    assert_eq!(sidecar.client().game_server().unwrap(), game_server);
}

fn settings(client: Client) -> AgonesSettings {
    AgonesSettings { client, health_period: Duration::from_millis(10), stall: Duration::from_millis(100) }
}

/// Waits for a condition, long enough for any machine. Returns whether it became true.
fn comes(agones: &Agones, tick: bool, is_so: impl Fn(&AgonesReport) -> bool) -> bool {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if tick {
            agones.tick();
        }
        if is_so(&agones.report()) {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn health_is_withheld_while_nothing_ticks() {
    let sidecar = Sidecar::new(good);
    let agones = Agones::start(settings(sidecar.client())).unwrap();
    assert!(comes(&agones, false, |report| report.health_withheld >= 3));
    assert_eq!(sidecar.heard("POST /health"), 0, "nothing ticked yet");
    assert!(comes(&agones, true, |report| report.health_sent >= 5));
    // The ticks stop now. A request that was sent in time may still be on its way.
    let withheld = agones.report().health_withheld;
    assert!(comes(&agones, false, |report| report.health_withheld >= withheld + 2));
    let sent = agones.report().health_sent;
    assert!(comes(&agones, false, |report| report.health_withheld >= withheld + 6));
    assert_eq!(agones.report().health_sent, sent, "no health without ticks");
    assert!(comes(&agones, true, |report| report.health_sent > sent), "it is well again");
    let report = agones.report();
    assert_eq!(
        (report.ready, report.shutdown, report.failures),
        (Progress::NotRequested, Progress::NotRequested, 0),
        "{report:?}"
    );
}

#[test]
fn requests_are_repeated_until_the_sidecar_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    // After a timeout, the thread repeats the request, which then arrives twice.
    let agones = Agones::start(settings(Client::at(port).within(PATIENCE))).unwrap();
    agones.ready();
    assert_eq!(agones.report().ready, Progress::Asked);
    assert!(comes(&agones, true, |report| report.failures >= 2));
    assert!(agones.report().last_failure.unwrap().contains("no answer of the sidecar"));
    // In the meantime, another program may have taken the port.
    let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) else {
        evenkeel_testkit::skipped(format_args!("somebody else took port {port}"));
        return;
    };
    let sidecar = Sidecar::on(listener, good);
    assert!(comes(&agones, true, |report| report.ready == Progress::Done));
    agones.ready();
    agones.shutdown();
    drop(agones);
    assert_eq!((sidecar.heard("POST /ready"), sidecar.heard("POST /shutdown")), (1, 1));
}

#[test]
fn its_end_is_bounded() {
    let sidecar = Sidecar::new(silent);
    let agones = Agones::start(settings(sidecar.client().within(SHORT))).unwrap();
    agones.tick();
    agones.shutdown();
    assert!(comes(&agones, true, |_| sidecar.heard("POST ") > 0), "a request is on its way");
    let (ended, has_ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        drop(agones);
        ended.send(()).unwrap();
    });
    assert_eq!(has_ended.recv_timeout(PATIENCE), Ok(()));
}
