//! Tests the caveats of `prove`. Each simulated server has exactly one disturbance.
//! The caveat must have the right figures, and must come before the numbers.

use serde_json::{Value, json};

use crate::scene::{Scene, json as answer_of};

const SLACK: &str =
    "prove process.timer_slack_ns=1 --workload simulated --set script=script.json --settle 50ms --guard none --seed 8";

/// An event that happens in every window.
fn always(event: Value) -> Value {
    let mut event = event;
    (event["window"], event["until"]) = (1.into(), 1_000_000.into());
    json!({"events": [event]})
}

fn slower(ratio: f64) -> Value {
    json!({"effects": [{"of": "process.timer_slack_ns", "value": "1", "ratio": ratio}]})
}

#[test]
fn each_caveat_has_its_figures() {
    let scene = Scene::new();
    let what = |kind: &str, field: &str, value: Value| (kind.to_owned(), field.to_owned(), value);
    let p99 = "--metric latency_us_p99";
    let table = [
        // The server itself uses 0.1 of one CPU, on a machine with two.
        (always(json!({"busy_share": 0.97})), "", Some(what("others-busy", "share", 0.92.into()))),
        (always(json!({"busy_share": 0.5})), "", None),
        (always(json!({"pressure_share": 0.6})), "", Some(what("pressure", "share", 0.6.into()))),
        (always(json!({"pressure_share": 0.2})), "", None),
        (always(json!({"cpu_share": 1.0})), "", Some(what("server-full", "share", 1.0.into()))),
        (always(json!({"cpu_share": 0.9})), "", None),
        (always(json!({"cpu_share": 1.5})), "", None),
        // The server fills two CPUs. This is a caveat only if the machine's number of CPUs is known.
        (always(json!({"cpu_share": 1.98, "busy_share": 1.0})), "", Some(what("server-full", "share", 1.98.into()))),
        (always(json!({"ticks": 30.0})), p99, Some(what("few-ticks", "ticks", 30.into()))),
        (always(json!({"ticks": 300.0})), p99, None),
        (always(json!({"ticks": 30.0})), "", None),
        (
            always(json!({"other_trial": "evenkeel tune (pid 7)"})),
            "--control-pairs 2",
            Some(what("concurrent-trial", "windows", 200.into())),
        ),
        (slower(1.0), "--set noise-percent=40", Some(what("wide-noise", "smallest_effect_ratio", 0.05.into()))),
        (slower(1.0), "", None),
        (slower(1.05), "--set noise-percent=6", Some(what("stopped-early", "pairs", Value::Null))),
        (slower(3.0), "", None),
    ];
    for (script, options, expected) in table {
        scene.script(&script);
        let line = format!("{SLACK} {options}");
        let answer = answer_of(&scene.run(&format!("{line} --json")));
        let name = format!("{script} {options}");
        assert_eq!(answer["format"], 2, "{name}");
        let caveats = answer["caveats"].as_array().unwrap();
        // A simulated machine has no /proc/pressure, and this test is not about guards.
        let reported: Vec<&Value> = caveats.iter().filter(|caveat| caveat["kind"] != "no-pressure").collect();
        let Some((kind, field, value)) = expected else {
            assert!(reported.is_empty(), "{name}: {reported:?}");
            continue;
        };
        let caveat = reported.iter().find(|caveat| caveat["kind"] == kind.as_str());
        let caveat = caveat.unwrap_or_else(|| panic!("{name}: {reported:?}"));
        match (value.as_f64(), caveat[&field].as_f64()) {
            (Some(value), Some(figure)) if kind == "concurrent-trial" => {
                assert!(figure <= value && caveat["windows"] == caveat["of"], "{name}: {caveat}");
            }
            (Some(value), Some(figure)) => assert!((figure - value).abs() < 1e-9, "{name}: {caveat}"),
            (value, figure) => assert!(value.is_none() && figure.is_some(), "{name}: {caveat}"),
        }
        let text = caveat["text"].as_str().unwrap();
        // In the text, the caveat must come before the numbers.
        let page = scene.run(&line).stdout;
        let page = String::from_utf8_lossy(&page);
        let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{name}: no {words:?} in {page}"));
        assert!(at(text) < at("  A  median "), "{name}: {page}");
    }
}

/// If the claimed effect is smaller than the smallest detectable effect of the run, the page reports that.
#[test]
fn no_page_claims_less_than_it_can_detect_without_a_word() {
    let scene = Scene::new();
    let (mut claims, mut below) = (0, 0);
    for seed in 0..24 {
        scene.script(&slower(1.06));
        let line = format!("{SLACK} --set noise-percent=8 --json").replace("--seed 8", &format!("--seed {seed}"));
        let answer = answer_of(&scene.run(&line));
        if !["better", "worse"].iter().any(|claim| answer["verdict"] == *claim) {
            continue;
        }
        claims += 1;
        let effect = &answer["effect"];
        let is_below =
            effect["ratio"].as_f64().unwrap().ln().abs() < effect["smallest_visible_ratio"].as_f64().unwrap().ln_1p();
        let says = answer["caveats"].as_array().unwrap().iter().any(|caveat| caveat["kind"] == "below-detectable");
        assert_eq!(is_below, says, "seed {seed}: {effect}");
        below += u32::from(is_below);
    }
    assert!(claims > 5, "{claims} claims, {below} below");
}
