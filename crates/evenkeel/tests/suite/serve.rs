//! `serve`: what it answers, whom it refuses, and what hostile clients cost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_rt::TickLoop;
use evenkeel_rt::telemetry::{Count, TelemetrySettings};
use evenkeel_testkit::browser::{self, Browser};
use evenkeel_testkit::mutate::{Chance, mutated_file};
use evenkeel_testkit::{skipped, wait_for, wait_until};
use serde_json::Value;

use crate::support::Scene;

/// A hang, not a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdefghij";

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
}

/// An answer: its status, its headers in lower case, and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Server {
    /// Starts one on a free port, and waits until it is ready.
    fn start(scene: &Scene, options: &str) -> Server {
        let line = format!("serve --listen 127.0.0.1:0 --interval 100ms --state state {options}");
        let mut child = scene.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serving on http://").and_then(|line| line.strip_suffix('/'));
        let Some(address) = address.map(str::to_owned) else {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{line:?} {text}");
        };
        Server { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// A request on a connection of its own.
    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
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
    fn await_samples(&self) {
        wait_until("the first samples", || self.get("/readyz").status == 200);
    }

    fn resident_kib(&self) -> u64 {
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

#[test]
fn every_address_answers_with_what_it_says() {
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    assert_eq!((server.get("/healthz").status, server.get("/healthz").body.as_str()), (200, "ok\n"));
    server.await_samples();
    let table = [
        ("/", "text/html", "<title>evenkeel</title>"),
        ("/serve.js", "text/javascript", "EventSource"),
        ("/charts.js", "text/javascript", "export function drawLines"),
        ("/serve.css", "text/css", "prefers-color-scheme"),
        ("/metrics", "application/openmetrics-text", "evenkeel_host_cpu_seconds_total{"),
        ("/api/v1/model", "application/json", "\"format\":1"),
        ("/api/v1/history", "application/json", "\"points\":[{\"at_ms\":"),
    ];
    for (path, kind, expected) in table {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{path}: {}", answer.head);
        assert!(answer.body.contains(expected), "{path}: {}", answer.body);
        for header in
            ["content-security-policy: default-src 'none';", "x-content-type-options: nosniff", "x-frame-options: deny"]
        {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
        assert_eq!(server.ask("HEAD", path, "").body, "", "{path}");
    }
    crate::schemas::check_as("watch", &serde_json::from_str(&server.get("/api/v1/model").body).unwrap());
    let points =
        |path| serde_json::from_str::<Value>(&server.get(path).body).unwrap()["points"].as_array().unwrap().len();
    assert_eq!(points("/api/v1/history?since_ms=99999999999999"), 0);
    for (path, status) in
        [("/nothing", 404), ("/../etc/passwd", 404), ("//", 404), ("/api/v1/history?since_ms=-1", 400)]
    {
        assert_eq!(server.get(path).status, status, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        assert_eq!(server.ask(method, "/metrics", "").status, 405, "{method}");
    }
}

#[test]
fn events_come_as_samples_are_taken() {
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    let mut stream = server.connect();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut times = Vec::new();
    while times.len() < 3 {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0);
        if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).unwrap();
            assert_eq!(event["format"], 1);
            assert!(event["model"]["host"]["cpus"].is_array(), "{event}");
            times.push(event["point"]["at_ms"].as_u64().unwrap());
        }
    }
    assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
}

#[test]
fn only_who_may_gets_an_answer() {
    use std::os::unix::fs::PermissionsExt;

    let scene = Scene::new();
    scene.write("token", format!("{TOKEN}\n"));
    let mode = |mode| std::fs::set_permissions(scene.path("token"), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let cases = [
        ("serve --listen 127.0.0.1:0 --token-file token", 2, "every user of this machine may use the file"),
        ("serve --listen 0.0.0.0:0", 2, "it can be reached from other machines, and no token is needed"),
        ("serve --listen 127.0.0.1", 2, "--listen"),
        ("serve --token-file none", 2, "none"),
        ("serve --pid 4194305", 2, "watch process 4194305"),
        ("serve --listen 192.0.2.1:80 --insecure", 4, "listen on 192.0.2.1:80"),
    ];
    for (line, code, expected) in cases {
        let seen = scene.run(&format!("{line} --state state"));
        assert!(seen.code == code && seen.stderr.contains(expected), "{line}: {seen}");
    }
    mode(0o600);
    let server = Server::start(&scene, "--token-file token --host-name game1.example");
    let status = |path: &str, headers: &str| server.ask("GET", path, headers).status;
    assert_eq!(status("/healthz", ""), 200, "supervisors have no token");
    for path in ["/", "/metrics", "/api/v1/model", "/api/v1/history", "/api/v1/events", "/readyz", "/nothing"] {
        assert_eq!(status(path, ""), 401, "{path}");
        assert_eq!(status(path, "Authorization: Bearer 0123456789abcdefghik\r\n"), 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    wait_until("the first samples", || status("/readyz", &bearer) == 200);
    assert_eq!(status("/metrics", &bearer), 200);
    assert_eq!(status("/metrics", &format!("{bearer}Host: evil.example\r\n")), 421);
    assert_eq!(status("/metrics", &format!("{bearer}Host: game1.example:80\r\n")), 200);
    let first = server.get(&format!("/?token={TOKEN}"));
    assert!(first.status == 303 && first.head.contains("location: /\r\n"), "{}", first.head);
    assert!(first.head.contains("httponly; samesite=strict"), "{}", first.head);
    assert_eq!(status("/", &format!("Cookie: evenkeel_token={TOKEN}\r\n")), 200);
    // A port that is taken.
    let seen = scene.run(&format!("serve --listen {} --state state", server.address));
    assert!(seen.code == 4 && seen.stderr.contains("choose another address"), "{seen}");
}

/// A server with a page of telemetry, whose ticks go on until it is dropped.
struct Session {
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    fn start(what: &str) -> Session {
        Session::with_pauses(what, Duration::ZERO)
    }

    /// One in fifty ticks takes this much longer.
    fn with_pauses(what: &str, pause: Duration) -> Session {
        let name = format!("serve-test-{what}-{}", std::process::id());
        let stop = Arc::new(AtomicBool::new(false));
        let (settings, ended) = (TelemetrySettings::named(&name), Arc::clone(&stop));
        let body = move || {
            let period = Duration::from_millis(20);
            let mut ticks = TickLoop::builder().period(period).telemetry(settings).build().unwrap();
            ticks.counters().unwrap().set(Count::Players, 12);
            for tick in 0_u64.. {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                drop(ticks.wait());
                if tick % 50 == 0 {
                    std::thread::sleep(pause);
                }
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

/// Slow and broken clients make room for others, and memory stays bounded.
#[test]
fn hostile_clients_do_not_keep_others_out() {
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    server.await_samples();
    let before = server.resident_kib();
    let slow: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = server.connect();
            // Those that had to make room refuse it.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
            stream
        })
        .collect();
    assert_eq!(server.get("/metrics").status, 200);
    assert!(
        server.resident_kib() < before + 64 * 1024,
        "{before} KiB before, {} KiB with slow clients",
        server.resident_kib()
    );
    drop(slow);
    let big = server.ask("GET", "/", &format!("X: {}\r\n", "x".repeat(100_000)));
    assert!(big.status == 431 || big.status == 0, "{}", big.head);
    let many: String = (0..500).map(|at| format!("X{at}: 1\r\n")).collect();
    let many = server.ask("GET", "/", &many);
    assert!(many.status == 431 || many.status == 0, "{}", many.head);
    let whole =
        "GET /api/v1/history?since_ms=1 HTTP/1.1\r\nHost: localhost\r\nCookie: a=b\r\nConnection: close\r\n\r\n";
    let files = [whole.to_owned()];
    let mut chance = Chance(26);
    for _ in 0..2000 {
        let mut stream = server.connect();
        let mutated = mutated_file(&files, &mut chance);
        let _ = stream.write_all(mutated.as_bytes()).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.take(1 << 20).read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{mutated:?}: {answer:?}");
    }
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn it_ends_at_a_signal_also_with_open_streams() {
    let scene = Scene::new();
    let mut server = Server::start(&scene, "");
    let mut stream = server.connect();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 15]).unwrap();
    let sent = Command::new("kill").arg(server.child.id().to_string()).status().unwrap();
    assert!(sent.success());
    let code = wait_for("the end", || server.child.try_wait().unwrap()).code();
    assert_eq!(code, Some(0));
}

/// Its page, as a reader uses it.
#[test]
fn the_page_shows_what_happens_in_a_browser() {
    let Some(program) = browser::program() else { return };
    let session = Session::start("page");
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    let mut browser = Browser::open(&program);
    browser.visit(&format!("http://{}/", server.address), 1200, "light");
    browser.wait_until("document.getElementById('status')?.textContent.startsWith('live, ') ?? false");
    let shown = "document.getElementById('status').textContent";
    let first = browser.evaluate(shown);
    browser.wait_until(&format!("{shown} !== {first}"));
    browser.wait_until("document.getElementById('cpus-text').textContent.includes('most on CPU')");
    browser.wait_until("document.getElementById('settings-text').textContent.includes('has applied no settings here')");
    // Sessions of other tests may be there too. Its button shows its chart, and pointing at the chart reads a moment.
    let button = format!(
        "[...document.querySelectorAll('#servers button')].find((button) => button.textContent.startsWith('{}'))",
        session.name
    );
    browser.wait_until(&format!("{button} !== undefined"));
    browser.evaluate(&format!("{button}.click()"));
    browser.wait_until(&format!("document.getElementById('lateness-of').textContent.startsWith('{}')", session.name));
    let middle = "(() => { const box = document.getElementById('lateness').getBoundingClientRect(); \
                  return [box.left + box.width / 2, box.top + box.height / 2]; })()";
    let at = browser.evaluate(middle);
    browser.point("mouseMoved", at[0].as_f64().unwrap(), at[1].as_f64().unwrap());
    browser
        .wait_until("/: p50 .*, p99 .*, max .*; \\d+ late/.test(document.getElementById('lateness-text').textContent)");
    // What the charts are drawn on has something on it.
    let drawn = "(() => { const c = document.getElementById('cpus'); \
                 return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((value) => value > 0); })()";
    browser.wait_until(drawn);

    // Dragging over a chart chooses a range; Escape goes back to now.
    let side = |browser: &mut Browser, side: &str| {
        browser.evaluate(&format!("document.getElementById('cpus').getBoundingClientRect().{side}")).as_f64().unwrap()
    };
    browser.evaluate("document.getElementById('cpus').scrollIntoView()");
    let (left, right, top) = (side(&mut browser, "left"), side(&mut browser, "right"), side(&mut browser, "top"));
    let y = top + 30.0;
    browser.point("mouseMoved", left + 200.0, y);
    browser.point("mousePressed", left + 200.0, y);
    browser.point("mouseMoved", (left + right) / 2.0, y);
    browser.point("mouseReleased", (left + right) / 2.0, y);
    browser.wait_until("!document.getElementById('live').hidden");
    browser.press("Escape");
    browser.wait_until("document.getElementById('live').hidden");
    // The keyboard reads a moment too.
    browser.evaluate("document.getElementById('cpus').focus()");
    browser.press("ArrowLeft");
    browser.wait_until("document.activeElement.id === 'cpus'");

    // On a phone nothing is wider than the page, and in the dark the colours change.
    let colour = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(colour);
    browser.visit(&format!("http://{}/", server.address), 400, "dark");
    browser.wait_until("document.getElementById('status')?.textContent.startsWith('live, ') ?? false");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= 400"), true);
    assert_ne!(browser.evaluate(colour), light);
    // A server that ends is shown as such.
    drop(server);
    browser.wait_until("document.getElementById('status').textContent === 'no connection; trying again'");
}

/// Prometheus of Debian scrapes it.
#[test]
fn prometheus_scrapes_it() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skipped("prometheus is not installed (Debian: prometheus)");
    }
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    server.await_samples();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    scene.write(
        "prometheus.yml",
        format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: evenkeel\n  static_configs:\n  - targets: ['{}']\n",
            server.address
        ),
    );
    let started = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
        .arg(format!("--web.listen-address={free}"))
        .current_dir(scene.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let prometheus = Server { child: started.unwrap(), address: free.to_string() };
    let query = |what: &str| -> Option<Value> {
        TcpStream::connect(&prometheus.address).ok()?;
        let answer = prometheus.get(&format!("/api/v1/query?query={what}"));
        let body = answer.body.find('{').map(|at| answer.body[at..].trim_end_matches(['\r', '\n', '0']).to_owned())?;
        serde_json::from_str::<Value>(&body).ok()?["data"]["result"].get(0).cloned()
    };
    let up = wait_for("a scrape", || query("up").filter(|up| up["value"][1] == "1"));
    assert_eq!(up["metric"]["job"], "evenkeel");
    wait_for("the CPU time", || query("evenkeel_host_cpu_seconds_total"));
}

/// The rules and the dashboard that are shipped use only metrics that exist.
#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let read = |name: &str| std::fs::read_to_string(crate::prometheus_files::folder().join(name)).unwrap();
    let session = Session::with_pauses("metrics", Duration::from_millis(100));
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    let has_players = |body: &str| body.contains(&format!("evenkeel_players{{session=\"{}\"", session.name));
    let has_late_ticks = |body: &str| body.contains("evenkeel_server_late_ticks_total{");
    let metrics = wait_for("the players and the late ticks of a session", || {
        Some(server.get("/metrics").body).filter(|body| has_players(body) && has_late_ticks(body))
    });
    let exist: std::collections::BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .flat_map(|(name, kind)| match kind {
            "counter" => vec![format!("{name}_total")],
            "histogram" => ["bucket", "sum", "count"].iter().map(|end| format!("{name}_{end}")).collect(),
            _ => vec![name.to_owned()],
        })
        .collect();
    assert!(exist.contains("evenkeel_settings_drift") && exist.contains("evenkeel_ticks_total"), "{exist:?}");
    for name in ["evenkeel", "evenkeel-fleet"] {
        let mut found = 0;
        for file in ["rules.yml", "rules.test.yml", "dashboard.json"] {
            let text = read(&format!("{name}.{file}"));
            for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')) {
                // Names with a colon are those of recording rules.
                if word.starts_with("evenkeel_") && !word.contains(':') {
                    assert!(exist.contains(word), "{name}.{file}: {word} is no metric");
                    found += 1;
                }
            }
        }
        assert!(found > 30, "{name}: {found}");
    }
}

/// What systemd itself says of the units.
#[test]
fn the_units_are_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dist");
    let scene = Scene::new();
    let program = env!("CARGO_BIN_EXE_evenkeel");
    for unit in ["evenkeel-serve.service", "evenkeel-serve.socket"] {
        let text = std::fs::read_to_string(folder.join(unit)).unwrap();
        // The manual page is not installed here.
        let text: String =
            text.lines().filter(|line| !line.starts_with("Documentation=")).map(|line| format!("{line}\n")).collect();
        scene.write(unit, text.replace("/usr/bin/evenkeel", program));
    }
    let verified = Command::new("systemd-analyze")
        .args(["verify", "./evenkeel-serve.service", "./evenkeel-serve.socket"])
        .current_dir(scene.path("."))
        .output();
    let Ok(output) = verified else { return skipped("systemd-analyze is not installed (Debian: systemd)") };
    let said = String::from_utf8_lossy(&output.stderr);
    // It also reports on other units of the machine.
    assert!(!said.contains("evenkeel-serve"), "{said}");
}
