//! Tests `serve --replay`, and the dumps of a running `serve`.

use evenkeel_testkit::browser::{self, Browser};
use evenkeel_testkit::{skipped, wait_for};
use evenkeel_watch::store::{Replay, StoreOptions, StoreWriter};
use serde_json::Value;

use crate::served::{Server, TOKEN};
use crate::support::Scene;

/// Writes a store with samples of some moments.
fn stored(scene: &Scene) {
    for _ in 0..4 {
        let seen = scene.run("watch --once --interval 100ms --store samples --state state --no-find");
        assert_eq!(seen.code, 0, "{seen}");
    }
}

/// `serve --replay` answers from a store, and shows nothing of the live host.
#[test]
fn a_store_is_served() {
    let scene = Scene::new();
    stored(&scene);
    let server = Server::with(&scene, "--replay samples");
    let json = |path: &str| -> Value {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let whole = answer.body.find('{').map_or("", |at| &answer.body[at..]);
        serde_json::from_str(whole.trim_end_matches(['\r', '\n', '0'])).unwrap()
    };
    let range = json("/api/v1/replay");
    let (from, to) = (range["range_ms"][0].as_u64().unwrap(), range["range_ms"][1].as_u64().unwrap());
    assert!(range["is_stored"] == true && to > from, "{range}");
    let all = json(&format!("/api/v1/history?from_ms={from}&to_ms={to}"));
    assert_eq!((all["points"].as_array().unwrap().len(), &all["is_thinned"]), (7, &Value::Bool(false)), "{all}");
    let none = json(&format!("/api/v1/history?from_ms={to}&to_ms={from}"));
    assert_eq!(none["points"], serde_json::json!([]));
    let last = json("/api/v1/model");
    assert_eq!(last["at_realtime_ns"].as_u64().unwrap() / 1_000_000, to);
    let first = json(&format!("/api/v1/model?at_ms={from}"));
    assert_eq!(first["at_realtime_ns"].as_u64().unwrap() / 1_000_000, from);
    assert_eq!(server.get("/api/v1/model?at_ms=1").status, 404);
    for odd in ["/api/v1/history", "/api/v1/history?from_ms=-1&to_ms=x", "/api/v1/model?at_ms=99999999999999999999999"]
    {
        assert_eq!(server.get(odd).status, 400, "{odd}");
    }
    for gone in ["/metrics", "/api/v1/events", "/dump"] {
        assert_eq!(server.get(gone).status, 404, "{gone}");
    }
    let seen = scene.run("serve --replay nowhere");
    assert!(seen.code != 0 && seen.stderr.contains("nowhere"), "{seen}");
    // A live server reports that it is not a store.
    let live = Server::start(&scene, "");
    assert!(live.get("/api/v1/replay").body.contains("\"is_stored\":false"));
}

/// The time of the first sample of [`an_hour`].
/// No sample is at the start of a minute, so the browser always prints the seconds.
const FIRST_MS: u64 = 1_700_000_000_000;

/// Writes a store with one sample for each minute of an hour.
fn an_hour(scene: &Scene) {
    let seen = scene.run("watch --once --interval 100ms --store real --state state --no-find");
    assert_eq!(seen.code, 0, "{seen}");
    let mut real = Replay::open(&scene.path("real")).unwrap();
    let last = real.at(u64::MAX).unwrap();
    let mut sample = real.sample(last).unwrap();
    let mut writer = StoreWriter::open(&scene.path("samples"), StoreOptions::default()).unwrap();
    sample.at.realtime_ns = FIRST_MS * 1_000_000;
    for _ in 0..=60 {
        writer.append(&sample).unwrap();
        for ns in [&mut sample.at.realtime_ns, &mut sample.at.monotonic_ns, &mut sample.at.boottime_ns] {
            *ns += 60_000_000_000;
        }
        // In each minute, a sixth of the time is busy. The unit is ticks of 10 ms.
        for times in sample.host.stat.as_mut().unwrap().cpus.values_mut() {
            (times.user, times.idle) = (times.user + 1_000, times.idle + 5_000);
        }
    }
}

/// The page can move through the store.
#[test]
fn the_page_moves_through_a_store_in_a_browser() {
    let Some(program) = browser::program() else { return };
    let scene = Scene::new();
    an_hour(&scene);
    let server = Server::with(&scene, "--replay samples");
    let mut browser = Browser::open(&program);
    browser.visit(&format!("http://{}/", server.address), 1200, "light");
    browser.wait_until("document.getElementById('moment')?.hidden === false");
    // Checks that the page has requested these minutes of the hour, and shows the last of them.
    let shows = |browser: &mut Browser, from: u64, to: u64| {
        let [from, to] = [from, to].map(|minute| FIRST_MS + minute * 60_000);
        let asked = format!("entry.name.endsWith('/history?from_ms={from}&to_ms={to}')");
        browser.wait_until(&format!(
            "performance.getEntriesByType('resource').some((entry) => {asked}) && \
             document.getElementById('at').value === new Date({to}).toISOString().slice(0, 19) && \
             document.getElementById('status').textContent.startsWith('stored, ')"
        ));
    };
    // Forget earlier requests, and clear the status. If a page loads nothing new, the status stays empty.
    let forget = "performance.clearResourceTimings(); document.getElementById('status').textContent = '';";
    let click = |browser: &mut Browser, button: &str| {
        browser.evaluate(&format!("{forget} document.querySelector('{button}').click()"));
    };
    shows(&mut browser, 55, 60);
    browser.wait_until("document.getElementById('cpus-text').textContent.includes('most on CPU')");
    click(&mut browser, "#earlier");
    shows(&mut browser, 50, 55);
    click(&mut browser, "button[data-seconds=\"60\"]");
    shows(&mut browser, 54, 55);
    click(&mut browser, "#earlier");
    shows(&mut browser, 53, 54);
    click(&mut browser, "#later");
    shows(&mut browser, 54, 55);
    browser.evaluate(forget);
    browser.press("Escape");
    shows(&mut browser, 59, 60);
    click(&mut browser, "button[data-seconds=\"0\"]");
    shows(&mut browser, 0, 60);
    click(&mut browser, "#earlier");
    shows(&mut browser, 0, 0);
    let width = "document.documentElement.scrollWidth <= 400";
    browser.visit(&format!("http://{}/", server.address), 400, "dark");
    browser.wait_until("document.getElementById('status')?.textContent.startsWith('stored, ') ?? false");
    assert_eq!(browser.evaluate(width), true);
}

/// A client with the token gets a dump, but at most once per minute. `watch` and `profile` can open the file.
#[test]
fn a_dump_is_for_who_has_the_token() {
    let scene = Scene::new();
    scene.write("token", TOKEN);
    std::fs::set_permissions(scene.path("token"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let open = Server::start(&scene, "");
    assert_eq!(open.ask("POST", "/dump", "").status, 403, "without a token nobody may");
    assert_eq!(open.get("/dump").status, 405);
    drop(open);
    let plain = Server::start(&scene, "--token-file token");
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(plain.ask("POST", "/dump", "").status, 401);
    assert_eq!(plain.ask("POST", "/dump", &bearer).status, 404, "no recorder runs");
    assert_eq!(plain.ask("POST", "/metrics", &bearer).status, 405, "nothing else can be posted");
    drop(plain);
    let server = Server::start(&scene, "--token-file token --dumps dumps");
    let model = || -> Value {
        let body = server.ask("GET", "/api/v1/model", &bearer).body;
        let whole = body.find('{').map_or("", |at| &body[at..]).trim_end_matches(['\r', '\n', '0']).to_owned();
        serde_json::from_str(&whole).unwrap_or_default()
    };
    let recorder = wait_for("the recorder", || Some(model()["recorder"].clone()).filter(Value::is_object));
    if let Some(why) = recorder["failure"].as_str() {
        return skipped(format_args!("the flight recorder: {why}"));
    }
    let asked = server.ask("POST", "/dump", &bearer);
    assert!(asked.status == 202 && asked.body.contains("\"accepted\":true"), "{} {}", asked.status, asked.body);
    let again = server.ask("POST", "/dump", &bearer);
    assert!(again.status == 429 && again.head.contains("retry-after: "), "{}", again.head);
    let dump = wait_for("the dump", || model()["recorder"]["last"].as_str().map(str::to_owned));
    let (code, replayed) = scene.json(&format!("watch --replay {dump}"));
    assert_eq!((code, replayed["recorder"].is_object()), (0, true), "{replayed}");
    let (code, switches) = scene.json(&format!("profile switches {dump}"));
    assert!(code == 0 && switches["threads"].as_array().is_some_and(|all| !all.is_empty()), "{switches}");
}
