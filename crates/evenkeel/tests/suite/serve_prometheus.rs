//! Tests `serve` with a real Prometheus, and the rules and the dashboard that evenkeel ships.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_testkit::{skipped, wait_for};
use serde_json::Value;

use crate::served::{Server, Session};
use crate::support::Scene;

/// The Prometheus of Debian, which scrapes a server every second.
struct Prometheus(Server);

impl Prometheus {
    fn start(scene: &Scene, server: &Server, more: &str) -> Prometheus {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        scene.write(
            "prometheus.yml",
            format!(
                "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{more}scrape_configs:\n- job_name: evenkeel\n  \
                 static_configs:\n  - targets: ['{}']\n",
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
        Prometheus(Server { child: started.unwrap(), address: free.to_string() })
    }

    /// The first result of a query. The query must have no characters that need an escape in an address.
    fn query(&self, what: &str) -> Option<Value> {
        TcpStream::connect(&self.0.address).ok()?;
        let answer = self.0.get(&format!("/api/v1/query?query={what}"));
        let body = answer.body.find('{').map(|at| answer.body[at..].trim_end_matches(['\r', '\n', '0']).to_owned())?;
        serde_json::from_str::<Value>(&body).ok()?["data"]["result"].get(0).cloned()
    }
}

/// If many ticks are late, the shipped alert fires in a real Prometheus.
/// The test shortens only the waiting times of alerts.
#[test]
fn an_alert_fires_when_ticks_are_missed() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skipped("prometheus is not installed (Debian: prometheus)");
    }
    let rules = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/evenkeel.rules.yml");
    let shortened: Vec<String> = std::fs::read_to_string(rules)
        .unwrap()
        .lines()
        .map(|line| match line.trim_start().starts_with("for: ") {
            true => format!("{}for: 1s", &line[..line.len() - line.trim_start().len()]),
            false => line.to_owned(),
        })
        .collect();
    let scene = Scene::new();
    scene.write("rules.yml", shortened.join("\n"));
    // Each tick takes more than two periods.
    let storm = Session::with_work("storm", Duration::from_millis(5), Duration::from_millis(12));
    let server = Server::start(&scene, "");
    server.await_samples();
    let prometheus = Prometheus::start(&scene, &server, "rule_files: ['rules.yml']\n");
    let firing = |session: &Session| {
        let labels = format!(
            "alertname%3D%22EvenkeelTicksMissed%22%2Calertstate%3D%22firing%22%2Csession%3D%22{}%22",
            session.name
        );
        prometheus.query(&format!("ALERTS%7B{labels}%7D"))
    };
    let alert = wait_for("the alert", || firing(&storm));
    assert_eq!(alert["metric"]["severity"], "warning", "{alert}");
    drop(storm);
}

/// The Prometheus of Debian can scrape `serve`.
#[test]
fn prometheus_scrapes_it() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skipped("prometheus is not installed (Debian: prometheus)");
    }
    let scene = Scene::new();
    let server = Server::start(&scene, "");
    server.await_samples();
    let prometheus = Prometheus::start(&scene, &server, "");
    let query = |what: &str| prometheus.query(what);
    let up = wait_for("a scrape", || query("up").filter(|up| up["value"][1] == "1"));
    assert_eq!(up["metric"]["job"], "evenkeel");
    wait_for("the CPU time", || query("evenkeel_host_cpu_seconds_total"));
}

/// The shipped rules and the dashboard use only metrics that exist.
#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let read = |name: &str| std::fs::read_to_string(crate::prometheus_files::folder().join(name)).unwrap();
    // Each tick takes more than two periods, which causes late ticks.
    let session = Session::with_work("metrics", Duration::from_millis(5), Duration::from_millis(12));
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
                // Names with a colon are series of recording rules.
                if word.starts_with("evenkeel_") && !word.contains(':') {
                    assert!(exist.contains(word), "{name}.{file}: {word} is not a metric");
                    found += 1;
                }
            }
        }
        assert!(found > 30, "{name}: {found}");
    }
}
