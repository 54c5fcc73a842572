//! Tests `capacity` on a simulated server, in which no real time passes: the answer, the log, and errors.

use evenkeel_testkit::needs_root;

use crate::support::Scene;

const SLACK: &str = "process.timer_slack_ns=1";
/// Each test has a separate state, because each state allows only one trial at a time.
const LINE: &str = "capacity --workload simulated --max 8 --seed 1 --state state";

#[test]
fn a_limit_that_is_never_broken_is_no_upper_bound() {
    let scene = Scene::new();
    let (code, answer) = scene.json(&format!("{LINE} --limit latency_us_p99=400 --save-need need.csv"));
    assert_eq!((code, &answer["found"]["sessions"], &answer["found"]["at_least"]), (0, &8.into(), &8.into()));
    assert!(answer["found"]["at_most"].is_null() && answer["ended_by"].is_null() && answer["ended"] == "proven");
    let windows: Vec<u64> =
        answer["curve"].as_array().unwrap().iter().map(|step| step["held"].as_u64().unwrap()).collect();
    assert_eq!(windows, [3, 3, 3, 8]);
    // Cut off the last column, because other programs on this machine may change the memory figure.
    let need = scene.read("need.csv");
    assert!(need.starts_with("session,cpus,tick_hz,memory_mib\nsession,0.1000,,"), "{need}");
    assert_eq!(scene.run("instances need.csv --rows 1").code, 0);
}

#[test]
fn a_limit_that_nothing_holds_is_known_after_eight_windows() {
    let seen = Scene::new().run(&format!("{LINE} --limit latency_us_p99=1"));
    assert!(seen.stdout.contains("0: proven in both directions"), "{seen}");
    assert!(
        seen.stdout.contains("a session alone does not hold the limits") && seen.stdout.contains("0 of 8"),
        "{seen}"
    );
}

#[test]
fn a_search_goes_on_with_its_log() {
    let scene = Scene::new();
    let line = format!("{LINE} --limit latency_us_p99=400 --log windows.jsonl");
    let (_, whole) = scene.json(&line);
    let log = scene.read("windows.jsonl");
    assert_eq!(log.lines().count(), 18);
    assert_eq!(scene.run(&line).code, 2, "an existing log is not replaced");
    // This is the log of a search that was killed while it wrote a line.
    let cut: String = log.lines().take(7).map(|line| format!("{line}\n")).collect();
    scene.write("windows.jsonl", &(cut + "{\"sessions\":"));
    let (code, answer) = scene.json(&format!("{line} --continue"));
    assert_eq!((code, &answer["found"]), (0, &whole["found"]));
    assert_eq!(scene.read("windows.jsonl").lines().count(), 18);
    let other = scene.run(&format!("{LINE} --limit latency_us_p99=300 --log windows.jsonl --continue"));
    assert!(other.code == 2 && other.stderr.contains("of other limits"), "{other}");
    // A log may come from anywhere. No search writes these numbers, and they would overflow.
    for sessions in ["0", "9", "4294967295"] {
        let odd = log.replacen("\"sessions\":1,", &format!("\"sessions\":{sessions},"), 1);
        scene.write("odd.jsonl", odd);
        let seen = scene.run(&format!("{LINE} --limit latency_us_p99=400 --log odd.jsonl --continue"));
        assert!(seen.code == 2 && seen.stderr.contains(&format!("line 2: {sessions} sessions")), "{seen}");
    }
    scene.write("empty.jsonl", "");
    scene.write("wrong.jsonl", "{\"format\":1}\n");
    for file in ["empty.jsonl", "wrong.jsonl", "none.jsonl"] {
        let seen = scene.run(&format!("{LINE} --limit latency_us_p99=300 --log {file} --continue"));
        assert_eq!(seen.code, 2, "{file}: {seen}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let scene = Scene::new();
    let cases = [
        (LINE.to_owned(), 2, "this workload has no lateness of a tick"),
        (format!("{LINE} --limit round_trips=3"), 2, "its metrics: latency_us_p50"),
        (format!("{LINE} --limit latency_us_p99"), 2, "write NAME=N"),
        ("capacity --workload nothing --state state".to_owned(), 2, "unknown workload"),
        ("capacity --state state --ready-after 0s --limit x=1 -- /bin/false {port}".to_owned(), 4, "false"),
    ];
    for (line, code, expected) in cases {
        let seen = scene.run(&line);
        assert!(seen.code == code && seen.stderr.contains(expected), "{line}: {seen}");
    }
}

/// With this setting of the server's process, the server takes 50 % longer, so that no session holds the limit.
#[test]
fn settings_are_worth_a_number_of_sessions() {
    let scene = Scene::new();
    scene.write("script.json", r#"{"effects": [{"of": "process.timer_slack_ns", "value": "1", "ratio": 1.5}]}"#);
    let line = format!(
        "{LINE} --set script=script.json --limit latency_us_p99=400 --price-per-hour 0.4 --log windows.jsonl \
         process.timer_slack_ns=1"
    );
    let (code, answer) = scene.json(&line);
    let (found, compared) = (&answer["found"], &answer["compared"]);
    assert_eq!((code, &found["at_least"], &answer["price_per_session_hour"]), (0, &8.into(), &0.05.into()));
    assert_eq!((&compared["report"]["found"]["at_most"], &compared["settings"][0]), (&0.into(), &SLACK.into()));
    assert!(compared["report"]["price_per_session_hour"].is_null(), "no session fits");
    let gain = &compared["gain"];
    assert_eq!((&gain["sessions"], &gain["at_most"], &gain["verdict"]), (&(-8).into(), &(-8).into(), &"fewer".into()));
    // Windows with and without the settings alternate. The side that begins a pair alternates, too.
    let log = scene.read("windows.jsonl");
    let order: Vec<bool> = log.lines().skip(1).map(|line| line.contains("\"with_settings\":true")).take(8).collect();
    assert_eq!(order, [false, true, true, false, false, true, true, false]);
    let whole = log.lines().count();
    let cut: String = log.lines().take(7).map(|line| format!("{line}\n")).collect();
    scene.write("windows.jsonl", cut);
    let (_, again) = scene.json(&format!("{line} --continue"));
    assert_eq!((&again["compared"]["gain"], scene.read("windows.jsonl").lines().count()), (gain, whole));
    let other = scene.run(&line.replace(SLACK, "process.timer_slack_ns=2").replace("--price", "--continue --price"));
    assert!(other.code == 2 && other.stderr.contains("of other settings"), "{other}");
    // A search without settings must refuse a log of windows with settings.
    let (head, windows) = log.split_once('\n').unwrap();
    scene.write("odd.jsonl", head.replace(&format!("\"settings\":[\"{SLACK}\"],"), "") + "\n" + windows);
    let odd = scene.run(&line.replace(SLACK, "").replace("windows.jsonl", "odd.jsonl --continue"));
    assert!(odd.code == 2 && odd.stderr.contains("failed to resume odd.jsonl: line 3"), "{odd}");
    let page = scene.run(&line.replace("--log windows.jsonl", "--report page"));
    let head = ["8 fewer sessions fit with these settings", "8 without, 0 with", "0.0500 per session and hour"];
    for expected in head.into_iter().chain(["page/report.html"]) {
        assert!(page.stdout.contains(expected), "{expected}: {page}");
    }
    let drawn = scene.read("page/report.html");
    for expected in head.into_iter().chain(["class=\"rule\"", "Rings: without the settings", "report.json"]) {
        assert!(drawn.contains(expected), "{expected}: {drawn}");
    }
    // The chart has a ring for each number of sessions without the settings,
    // and a square for each number with the settings.
    assert_eq!((drawn.matches("<circle class=\"a\"").count(), drawn.matches("<rect class=\"b\"").count()), (4, 1));
    let kept: serde_json::Value = serde_json::from_str(&scene.read("page/report.json")).unwrap();
    assert_eq!((&kept["found"], &kept["report_file"]), (found, &"page/report.html".into()));
    // If evenkeel can't write the page, the answer does not name the page, but has the measurement.
    std::fs::create_dir_all(scene.path("taken/report.html")).unwrap();
    let unwritten = scene.run(&line.replace("--log windows.jsonl", "--report taken"));
    assert!(unwritten.code == 2 && unwritten.stdout.contains(head[0]), "{unwritten}");
    assert!(!unwritten.stdout.contains("taken") && unwritten.stderr.contains("taken/report.html"), "{unwritten}");
}

/// evenkeel restores the host whether or not the search succeeds.
#[test]
fn settings_of_the_host_are_restored() {
    if needs_root("to change a sysctl") {
        return;
    }
    let scene = Scene::new();
    let read = || std::fs::read_to_string("/proc/sys/vm/stat_interval").unwrap();
    let before = read();
    let wanted = if before.trim() == "7" { "8" } else { "7" };
    let line = format!("{LINE} --limit latency_us_p99=400 vm.stat_interval={wanted}");
    let (code, answer) = scene.json(&line);
    assert_eq!((code, &answer["compared"]["gain"]["verdict"]), (0, &"undecided".into()));
    assert_eq!(read(), before);
    let history = scene.run("history --state state");
    assert!(history.stdout.contains("capacity with vm.stat_interval"), "{history}");
    scene.write("script.json", r#"{"events": [{"window": 3, "dies": "it crashed"}]}"#);
    let died = scene.run(&format!("{line} --set script=script.json"));
    assert!(died.code == 4, "{died}");
    assert_eq!(read(), before);
}
