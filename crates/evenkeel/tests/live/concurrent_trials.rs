//! Two trials run at the same time on this machine, with journals in different folders.
//! Each trial runs to its end, and reports that the other disturbed it, even if another user started the other trial.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::scene::{Finished, Scene, json};
use serde_json::Value;

/// Reads the caveat that begins with `who`:
/// the number of windows during which another trial ran, and the number of all windows.
/// `None` without such a caveat.
fn disturbed(answer: &Value, who: &str) -> Option<(u64, u64)> {
    let caveats = answer["caveats"].as_array().into_iter().flatten().filter_map(|caveat| caveat["text"].as_str());
    let counts = caveats.filter_map(|caveat| caveat.strip_prefix(who)?.split_once(" ran during "));
    let counts: Vec<&str> = counts.map(|(_, counts)| counts).collect();
    assert!(counts.len() < 2, "each is reported once: {counts:?}");
    let words: Vec<&str> = counts.first()?.split(' ').collect();
    assert_eq!((words[1], &words[3..]), ("of", &["windows:", "each", "disturbs", "the", "other"][..]));
    Some((words[0].parse().unwrap(), words[2].parse().unwrap()))
}

#[test]
fn two_trials_at_once_report_each_other() {
    let scene = Scene::of_host();
    let mut first = scene.start(
        "prove process.timer_slack_ns=1 --window-ms 100 --pairs 1000 --fixed --control-pairs 1 --settle 20ms --keep session.jsonl",
    );
    let pairs =
        || std::fs::read_to_string(scene.path("session.jsonl")).map_or(0, |text| text.matches("{\"pair\":[").count());
    first.wait_until(|| pairs() >= 3);
    let who = format!("another trial (evenkeel prove process.timer_slack_ns=1 (pid {}))", first.id());
    let line =
        "prove process.timer_slack_ns=2 --pairs 6 --fixed --control-pairs 1 --window-ms 100 --settle 20ms --json";
    let second = scene.run_as_ordinary_user(line);
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(stderr.contains(&format!("{who} runs at the same time: each disturbs the other\n")), "{stderr}");
    let second = json(&second);
    let (count, all) = disturbed(&second, &who).unwrap_or_else(|| panic!("{}", second["caveats"]));
    assert!(count == all && all > 0, "the first ran throughout: {count} of {all}");

    let search =
        "tune --knobs process.timer_slack_ns=1 --budget 12s --window-ms 100 --settle-ms 10 --workload tick --json";
    let search = scene.run(&format!("{search} --state {}", scene.path("elsewhere").display()));
    let stderr = String::from_utf8_lossy(&search.stderr);
    assert!(stderr.contains(&who), "{stderr}");
    let search = json(&search);
    let (count, all) = disturbed(&search, &who).unwrap_or_else(|| panic!("{search}"));
    let windows: u64 = search["windows"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!((count, all), (windows, windows), "{search}");

    first.signal("TERM");
    let Finished { code, stderr, .. } = first.finish();
    assert!(matches!(code, Some(0 | 1 | 8)), "stopped, or decided before that: {stderr}");
    let first = json(&scene.run("prove report session.jsonl --json"));
    for other in ["another trial (evenkeel prove process.timer_slack_ns=2 (pid ", "another trial (evenkeel tune (pid "]
    {
        assert_eq!(stderr.matches(other).count(), 1, "once, when it is seen: {stderr}");
        let (count, all) = disturbed(&first, other).unwrap_or_else(|| panic!("{}", first["caveats"]));
        assert!(0 < count && count < all, "{other} began later, and ended before: {count} of {all}");
    }
    scene.assert_all_as_before();
}

/// Any user may bind a socket with the name of a trial, and send anything.
#[test]
fn sockets_that_only_look_like_a_trial_do_no_harm() {
    let scene = Scene::of_host();
    let bind = |name: &[u8]| UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    let mut sockets = vec![
        bind(b"evenkeel-trial/0/1/\x1b[2J\n<script>\xff"),
        bind(b"evenkeel-trial/"),
        bind(b"evenkeel-trial/x/1/y"),
    ];
    sockets.extend((0..300).map(|at| bind(format!("evenkeel-trial/{at}/2/{}", "z".repeat(80)).as_bytes())));
    let line =
        "prove process.timer_slack_ns=1 --pairs 6 --fixed --control-pairs 0 --window-ms 100 --settle 20ms --report out";
    let output = scene.run(line);
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another trial (evenkeel ?[2J"), "{said}");
    assert!(!said.chars().any(|letter| letter.is_control() && letter != '\n'), "{said:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(scene.path("out/report.json")).unwrap()).unwrap();
    let caveats = report["trials"][0]["caveats"].to_string();
    assert_eq!(caveats.matches("another trial").count(), 4, "the others are only counted: {caveats}");
    let page = std::fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("ran during") && !page.contains("<script>"), "it is text");
}
