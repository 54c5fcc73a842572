//! Starts `serve` for tests, and sessions that it can watch.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_rt::TickLoop;
use evenkeel_rt::telemetry::{Count, TelemetrySettings};
use evenkeel_testkit::wait_until;

use crate::support::Scene;

/// The time limit that detects a hang. Even a slow machine takes less time.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "0123456789abcdefghij";

/// A running `serve`. Dropping it kills the process.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
}

/// An answer: its status, its headers in lower case, and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Server {
    /// Starts a server on a free port, and waits until it is ready.
    pub(crate) fn start(scene: &Scene, options: &str) -> Server {
        Server::with(scene, &format!("--interval 100ms --state state {options}"))
    }

    /// Starts a server with exactly these options.
    pub(crate) fn with(scene: &Scene, options: &str) -> Server {
        let line = format!("serve --listen 127.0.0.1:0 {options}");
        let mut child = scene.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serving on ").and_then(|line| line.strip_suffix('/'));
        let address = address.and_then(|line| line.strip_prefix("http://").or_else(|| line.strip_prefix("https://")));
        let Some(address) = address.map(str::to_owned) else {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{line:?} {text}");
        };
        Server { child, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// Sends a request on a separate connection.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let host = if headers.to_lowercase().contains("host:") { "" } else { "Host: localhost\r\n" };
        let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Waits for the first two samples.
    pub(crate) fn await_samples(&self) {
        wait_until("the first samples", || self.get("/readyz").status == 200);
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session with a telemetry page. It ticks until it is dropped.
pub(crate) struct Session {
    pub(crate) name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    pub(crate) fn start(what: &str) -> Session {
        Session::with_work(what, Duration::from_millis(20), Duration::ZERO)
    }

    /// Starts a session. The work of each of its ticks takes `work`.
    pub(crate) fn with_work(what: &str, period: Duration, work: Duration) -> Session {
        let name = format!("serve-test-{what}-{}", std::process::id());
        let stop = Arc::new(AtomicBool::new(false));
        let (settings, ended) = (TelemetrySettings::named(&name), Arc::clone(&stop));
        let body = move || {
            let mut ticks = TickLoop::builder().period(period).telemetry(settings).build().unwrap();
            ticks.counters().unwrap().set(Count::Players, 12);
            while !ended.load(Ordering::Relaxed) {
                drop(ticks.wait());
                std::thread::sleep(work);
            }
        };
        Session { name, stop, thread: Some(std::thread::spawn(body)) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
