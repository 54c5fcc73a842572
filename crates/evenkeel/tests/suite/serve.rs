//! Tests `serve`: its answers, the clients that it refuses, and the cost of hostile clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use evenkeel_testkit::browser::{self, Browser};
use evenkeel_testkit::mutate::{Chance, mutated_file};
use evenkeel_testkit::{skipped, wait_for, wait_until};
use serde_json::Value;

use crate::served::{Server, Session, TOKEN};
use crate::support::Scene;

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
    for (path, status) in [
        ("/nothing", 404),
        ("/../etc/passwd", 404),
        ("//", 404),
        ("/api/v1/history?since_ms=-1", 400),
        ("/api/v1/history?sinc_ms=1", 400),
    ] {
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
    wait_until("the first samples", || status("/readyz", "") == 200);
    assert_eq!(status("/readyz", "Host: game1.svc\r\n"), 200, "supervisors may use any name");
    for path in ["/", "/metrics", "/api/v1/model", "/api/v1/history", "/api/v1/events", "/nothing"] {
        assert_eq!(status(path, ""), 401, "{path}");
        assert_eq!(status(path, "Authorization: Bearer 0123456789abcdefghik\r\n"), 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(status("/metrics", &bearer), 200);
    assert_eq!(status("/metrics", &format!("{bearer}Host: evil.example\r\n")), 421);
    assert_eq!(status("/metrics", &format!("{bearer}Host: game1.example:80\r\n")), 200);
    // A request names one host, also in the form for proxies.
    for hosts in
        ["Host: localhost\r\nHost: evil.example\r\n", "Host: evil.example\r\nHost: localhost\r\n", "Host: \r\n"]
    {
        assert_eq!(status("/metrics", &format!("{bearer}{hosts}")), 400, "{hosts}");
    }
    for (address, host, expected) in [
        ("http://evil.example/metrics", "localhost", 400),
        ("http://localhost/metrics", "evil.example", 400),
        ("http://evil.example/metrics", "evil.example", 421),
        ("http://LOCALHOST:80/metrics", "localhost:80", 200),
    ] {
        assert_eq!(status(address, &format!("{bearer}Host: {host}\r\n")), expected, "{address} {host}");
    }
    let first = server.get(&format!("/?token={TOKEN}"));
    assert!(first.status == 303 && first.head.contains("location: /\r\n"), "{}", first.head);
    assert!(first.head.contains("httponly; samesite=strict"), "{}", first.head);
    assert_eq!(status("/", &format!("Cookie: evenkeel_token={TOKEN}\r\n")), 200);
    // A port that is taken.
    let seen = scene.run(&format!("serve --listen {} --state state", server.address));
    assert!(seen.code == 4 && seen.stderr.contains("choose another address"), "{seen}");
}

/// Creates a self-signed certificate for this machine with openssl. Returns false if openssl is not installed.
fn certificate(scene: &Scene, name: &str) -> bool {
    let names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"];
    let made = Command::new("openssl")
        .args(["req", "-x509", "-days", "30"].iter().chain(&names).chain(&key))
        .args([format!("{name}.key"), "-out".to_owned(), format!("{name}.pem")])
        .current_dir(scene.path(""))
        .output();
    let Ok(output) = made else { return false };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// An independent client connects, accepts a certificate that it knows, and refuses an unknown certificate.
#[test]
fn connections_are_encrypted_and_a_renewed_certificate_is_taken() {
    let scene = Scene::new();
    scene.write_private("token", TOKEN);
    if !certificate(&scene, "one") || !certificate(&scene, "other") {
        return skipped("openssl is not installed (Debian: openssl)");
    }
    scene.write_private("empty.key", "");
    scene.write("open.key", scene.read("one.key"));
    std::fs::set_permissions(scene.path("open.key"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let cases = [
        ("--tls-cert one.pem", "--tls-key"),
        ("--tls-cert one.pem --tls-key open.key", "every user of this machine may use the file"),
        (
            "--tls-cert one.pem --tls-key other.key",
            "failed to use the certificate in one.pem with the key in other.key",
        ),
        ("--tls-cert one.pem --tls-key empty.key", "failed to read the key in empty.key"),
        ("--tls-cert token --tls-key one.key", "it has no certificate in PEM"),
        ("--tls-cert none.pem --tls-key one.key", "none.pem"),
        ("--tls-cert one.pem --tls-key one.key --insecure", "--insecure"),
    ];
    for (options, expected) in cases {
        let seen = scene.run(&format!("serve --listen 127.0.0.1:0 --state state {options}"));
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{options}: {seen}");
    }
    let server = Server::start(&scene, "--token-file token --tls-cert one.pem --tls-key one.key");
    let asked = |trusted: &str, path: &str| {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--write-out", "%{http_code}", "--output", "answer"])
            .args(["--cacert", trusted, "--header", &format!("Authorization: Bearer {TOKEN}")])
            .arg(format!("https://{}{path}", server.address))
            .current_dir(scene.path(""))
            .output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if asked("one.pem", "/healthz").is_err() {
        return skipped("curl is not installed (Debian: curl)");
    }
    wait_until("the first samples", || asked("one.pem", "/readyz").unwrap() == "200");
    assert_eq!(asked("one.pem", "/metrics").unwrap(), "200");
    assert!(scene.read("answer").ends_with("# EOF\n"));
    assert_eq!(asked("other.pem", "/metrics").unwrap(), "000", "no answer of a server that can't be trusted");
    // A client without TLS gets no answer, and the next client gets one.
    let mut plain = server.connect();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut got = Vec::new();
    let _ = plain.read_to_end(&mut got);
    assert!(!String::from_utf8_lossy(&got).contains("HTTP/1.1"), "{got:?}");
    // A renewal writes one file after the other.
    scene.write("one.pem", scene.read("other.pem"));
    assert_eq!(asked("other.pem", "/metrics").unwrap(), "000", "the key is still the old one's");
    scene.write("one.key", scene.read("other.key"));
    assert_eq!(asked("other.pem", "/metrics").unwrap(), "200");
}

/// When slow and broken clients fill the limit, the server closes their connections for others. Memory stays bounded.
#[test]
fn hostile_clients_do_not_keep_others_out() {
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    server.await_samples();
    let before = server.resident_kib();
    let slow: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = server.connect();
            // The server may already have closed this connection for another client.
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

/// Uses the page as a reader would.
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
    // Sessions of other tests may also be listed.
    // The session's button shows its chart, and pointing at the chart reads a moment.
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
    // Every chart shows some data.
    let drawn = "(() => { const c = document.getElementById('cpus'); \
                 return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((value) => value > 0); })()";
    browser.wait_until(drawn);

    // Dragging over a chart selects a range. Escape returns to the present.
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
    // The keyboard can also read a moment.
    browser.evaluate("document.getElementById('cpus').focus()");
    browser.press("ArrowLeft");
    browser.wait_until("document.activeElement.id === 'cpus'");

    // On a phone no element is wider than the page, and in dark mode the colours change.
    let colour = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(colour);
    browser.visit(&format!("http://{}/", server.address), 400, "dark");
    browser.wait_until("document.getElementById('status')?.textContent.startsWith('live, ') ?? false");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= 400"), true);
    assert_ne!(browser.evaluate(colour), light);
    // The page shows that the server has ended.
    drop(server);
    browser.wait_until("document.getElementById('status').textContent === 'no connection; trying again'");
}

/// systemd itself checks the units.
#[test]
fn the_units_are_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dist");
    let scene = Scene::new();
    let program = env!("CARGO_BIN_EXE_evenkeel");
    for unit in ["evenkeel-serve.service", "evenkeel-serve.socket"] {
        let text = std::fs::read_to_string(folder.join(unit)).unwrap();
        // The manual page is not installed on this machine.
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
    // systemd also reports on other units of the machine.
    assert!(!said.contains("evenkeel-serve"), "{said}");
}
