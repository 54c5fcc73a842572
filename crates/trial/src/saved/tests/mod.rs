//! Tests which reports the reader accepts and refuses, and how they are compared.

use expect_test::expect;

use super::*;
use crate::arm::Arm;
use crate::caveat::Caveat;
use crate::design::Stop;
use crate::engaged::Engaged;
use crate::outcome::Outcome;
use crate::session::{Ended, LeftWhy};

fn trial(knob: &str, ratio: f64, noise: f64, pairs: u64) -> Value {
    let windows: Vec<Value> = (0..pairs)
        .flat_map(|pair| {
            // The noise is deterministic, because it only has to vary from pair to pair.
            let wobble = 1.0 + noise * (((pair * 7919) % 101) as f64 / 50.0 - 1.0);
            let window = |arm: &str, value: f64| {
                serde_json::json!({ "pair": pair, "arm": arm, "start_us": 0, "value": value, "sample": {},
                    "conditions": { "span_us": 0 } })
            };
            let [a, b] = [window("A", 50.0), window("B", 50.0 * ratio * wobble)];
            if pair % 3 == 0 { [b, a] } else { [a, b] }
        })
        .collect();
    serde_json::json!({
        "knob": knob, "title": knob, "verdict": "better", "metric": METRIC.clone(), "pairs": pairs, "arms": [], "dropped": [],
        "effect": { "ratio": ratio, "low": ratio * (1.0 - noise), "high": ratio * (1.0 + noise), "confidence": 0.95, "p_value": 0.5 },
        "design": design(&serde_json::json!({ "after": { "pairs": pairs } }), 0.05), "seed": 7, "ended": "whole",
        "settle": { "settle_ms": 50, "how": "asked" }, "workload": "a server", "windows": windows,
    })
}

/// The metric of a trial, in the form of a report.
static METRIC: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
    || serde_json::json!({ "name": "round_trip_us_p50", "title": "the median round trip", "unit": "us", "better": "lower" }),
);

fn design(stop: &Value, smallest_effect_ratio: f64) -> Value {
    serde_json::json!({
        "metric": METRIC.clone(), "stop": stop, "spare_pairs": 0, "control_pairs": 0, "window_ms": 100, "seed": 7,
        "settle": { "fixed": { "ms": 50 } }, "confidence": 0.95, "smallest_effect_ratio": smallest_effect_ratio,
        "rules": { "gap_us_max": 4e4, "steal_share_max": 0.1, "overrun_share_max": 0.5 },
    })
}

fn report(trials: Vec<Value>) -> RunReport {
    RunReport::parse(&serde_json::json!({ "format": 1, "trials": trials }).to_string()).unwrap()
}

fn agreement_of(ratios: &[f64]) -> Agreement {
    let reports: Vec<(String, RunReport)> =
        ratios.iter().map(|ratio| (String::new(), report(vec![trial("k=1", *ratio, 0.05, 30)]))).collect();
    let across = across(&reports);
    assert_eq!(across.asked.len(), 1);
    across.asked[0].agreement.clone()
}

#[test]
fn files_that_are_no_report_are_refused_with_the_reason() {
    let table = [
        ("", "it is empty"),
        ("{}", "it has no field \"format\""),
        ("5", "expected an object in braces, found the number 5"),
        ("[1]", "expected an object in braces, found a list"),
        ("{\"format\": 1}", "no trials and no verdict"),
        ("{\"format\": 99, \"trials\": []}", "format 99, but this version reads 1 to"),
        ("{\"format\": 0, \"trials\": []}", "format 0"),
        ("{\"format\": -1, \"trials\": []}", "expected a whole number, 0 or more, found the number -1"),
        ("{\"format\": 1, \"trials\": {}}", "expected a list, found an object"),
        ("{\"format\": 1, \"trials\": [{}]}", "trial 1: it has no field \"title\""),
        ("{\"format\": 1, \"verdict\": \"splendid\"}", "trial 1: unknown word \"splendid\""),
    ];
    for (text, expected) in table {
        let error = RunReport::parse(text).map_err(|error| error.to_string()).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let mut impossible = trial("k=1", 0.5, 0.1, 2);
    for (field, value, expected) in [
        ("ratio", -1.0, "trial 1: effect: -1 is not a ratio"),
        ("low", 0.0, "trial 1: effect: 0 is not a ratio"),
        ("low", 9.0, "trial 1: effect: its interval ends before it begins"),
        ("confidence", 1.0, "trial 1: effect: 1 is not a confidence"),
    ] {
        let before = impossible["effect"][field].clone();
        impossible["effect"][field] = value.into();
        let text = serde_json::json!({ "format": 1, "trials": [impossible] }).to_string();
        assert_eq!(RunReport::parse(&text).unwrap_err().to_string().split(" of two").next(), Some(expected));
        impossible["effect"][field] = before;
    }
    let deep = format!("{{\"format\": 1, \"facts\": {}{}, \"trials\": []}}", "[".repeat(5000), "]".repeat(5000));
    assert!(matches!(RunReport::parse(&deep), Err(SavedError::Shape(_))));
    assert_eq!(RunReport::parse(&" ".repeat(BYTES_MAX + 1)), Err(SavedError::TooLong));
}

#[test]
fn an_answer_of_prove_is_a_report_of_one_trial() {
    let mut answer = trial("k=1", 0.5, 0.1, 4);
    answer["format"] = 1.into();
    let saved = RunReport::parse(&answer.to_string()).unwrap();
    assert_eq!((saved.trials.len(), saved.trials[0].report.pairs_of_windows().len()), (1, 4));
    assert_eq!(saved.trials[0].report.pairs_of_windows()[0].first, ArmName::B);
    assert_eq!(saved.all_as_before, None, "nobody looked, which is not yes");
}

#[test]
fn a_choice_that_no_session_can_have_is_refused() {
    let between = |ratio: f64| {
        let effect = serde_json::json!({ "ratio": ratio, "confidence": 0.95, "p_value": 0.5 });
        serde_json::json!({ "arm": "C", "against": "B", "pairs": 2, "effect": effect, "verdict": "same" })
    };
    let parse = |between: Vec<Value>, letters: usize| {
        let choice = serde_json::json!({
            "confidence": 0.95, "advised": "B", "alike": ["B"], "better": vec!["B"; letters], "between": between,
        });
        let text =
            serde_json::json!({ "format": 2, "trials": [trial("k=1", 0.5, 0.1, 2)], "choice": choice }).to_string();
        RunReport::parse(&text)
            .map(|saved| saved.choice.map(|entry| entry.choice.advised))
            .map_err(|error| error.to_string())
    };
    assert_eq!(parse(vec![between(0.9)], 1), Ok(Some(ArmName::B)));
    for (found, expected) in [
        (parse(vec![between(-1.0)], 1), "choice: effect: -1 is not a ratio"),
        (parse(vec![between(0.9); 65], 1), "choice: between: 65 entries"),
        (parse(vec![between(0.9)], 9), "choice: better: 9 entries"),
    ] {
        assert!(found.as_ref().is_err_and(|error| error.starts_with(expected)), "{found:?}");
    }
}

#[test]
fn windows_that_make_no_pair_are_passed_over() {
    let mut odd = trial("k=1", 0.5, 0.1, 3);
    odd["windows"][1]["arm"] = odd["windows"][0]["arm"].clone();
    odd["windows"][3]["value"] = 0.0.into();
    let saved = report(vec![odd]);
    let pairs = saved.trials[0].report.pairs_of_windows();
    assert_eq!(pairs.iter().map(|pair| pair.ratio().is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn machines_agree_until_their_intervals_do_not_meet() {
    let alike = agreement_of(&[0.5, 0.505, 0.495]);
    let Agreement::Agree { low, high, confidence } = alike else { panic!("{alike:?}") };
    assert!(low < 0.5 && 0.5 < high && low > 0.48 && high < 0.52, "{low} {high}");
    assert!((confidence - 0.95).abs() < 1e-9, "{confidence}");
    let apart = agreement_of(&[1.0, 0.5, 1.005]);
    let Agreement::Differ { apart, confidence } = apart else { panic!("{apart:?}") };
    assert_eq!(apart, [(1, 0), (1, 2)], "the lower first, and only those that are apart");
    assert!((confidence - 0.95).abs() < 1e-9);
    assert_eq!(agreement_of(&[0.5]), Agreement::TooFew);
}

/// A trial that could have ended after any pair keeps its wider interval, which is valid after every pair.
#[test]
fn a_trial_that_was_looked_at_keeps_an_interval_that_holds_at_every_look() {
    let width = |stop: &str| {
        let mut looked = trial("k=1", 0.5, 0.05, 30);
        looked["design"] = design(&serde_json::json!({ stop: { "pairs": 30, "pairs_min": 6, "pairs_max": 30 } }), 0.05);
        let reports = ["a", "b"].map(|name| (name.to_owned(), report(vec![looked.clone()])));
        let Agreement::Agree { low, high, .. } = across(&reports).asked[0].agreement else { panic!() };
        high / low
    };
    assert!(width("sequential") > width("after") * 1.001, "{} {}", width("sequential"), width("after"));
}

#[test]
fn a_trial_that_was_never_engaged_neither_agrees_nor_differs() {
    let mut idle = trial("k=1", 1.0, 0.01, 30);
    idle["verdict"] = "not-engaged".into();
    let reports = [("a".to_owned(), report(vec![trial("k=1", 0.5, 0.05, 30)])), ("b".to_owned(), report(vec![idle]))];
    assert_eq!(across(&reports).asked[0].agreement, Agreement::TooFew);
}

#[test]
fn without_windows_the_reported_interval_counts_with_its_whole_error() {
    let mut bare = [trial("k=1", 0.5, 0.05, 30), trial("k=1", 1.0, 0.05, 30)];
    for trial in &mut bare {
        trial["windows"] = Value::Array(Vec::new());
    }
    let reports = bare.map(|trial| (String::new(), report(vec![trial])));
    let Agreement::Differ { confidence, .. } = across(&reports).asked[0].agreement else { panic!() };
    assert!((confidence - 0.90).abs() < 1e-9, "two intervals of 95 %: {confidence}");
}

#[test]
fn another_question_is_another_row() {
    let mut other = trial("k=1", 0.5, 0.05, 8);
    other["metric"]["name"] = "cpu_share".into();
    let mut elsewhere = trial("k=1", 0.5, 0.05, 8);
    elsewhere["workload"] = "another server".into();
    elsewhere["design"]["smallest_effect_ratio"] = 0.1.into();
    let reports = [
        ("a".to_owned(), report(vec![trial("k=1", 0.5, 0.05, 8), other])),
        ("b".to_owned(), report(vec![trial("k=2", 0.5, 0.05, 8), elsewhere])),
    ];
    let across = across(&reports);
    let lines: Vec<String> = across
        .asked
        .iter()
        .map(|asked| {
            let caveats: Vec<String> = asked.caveats.iter().map(ToString::to_string).collect();
            format!("{} {} {} {caveats:?}\n", asked.knob, asked.metric, asked.cells.len())
        })
        .collect();
    expect![[r#"
        k=1 round_trip_us_p50 2 ["the workloads differ, which may cause the difference between the machines", "the reports used different values for the smallest effect that matters"]
        k=1 cpu_share 1 []
        k=2 round_trip_us_p50 1 []
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn numbers_have_names_whatever_they_are() {
    let conditions =
        serde_json::json!({ "steal_share": 0.1, "counters": { "rcvbuf_errors": 5, "why": "x" }, "said": "no" });
    let found: Vec<(String, f64)> = numbers(&conditions).into_iter().collect();
    assert_eq!(found, [("counters.rcvbuf_errors".to_owned(), 5.0), ("steal_share".to_owned(), 0.1)]);
    assert!(numbers(&Value::Null).is_empty());
}

/// A value that only a later version knows does not make the file invalid. The reader shows the value as text.
#[test]
fn values_of_later_versions_are_read() {
    let mut later = trial("k=1", 0.5, 0.1, 1);
    later["dropped"] = serde_json::json!([
        { "pair": 1, "arm": "A", "reason": { "thermal": { "degrees": 98.0 } } },
        { "pair": 2, "arm": "A", "reason": "moonlight" },
        { "pair": 3, "arm": "B", "reason": { "gap": { "gap_us": 86_000.0 } } },
    ]);
    later["mechanism"] = serde_json::json!([{ "knob": "k", "readings": [], "engaged": { "half": 5 } }]);
    later["left"] = serde_json::json!({ "block": 7, "why": { "melted": 5 } });
    later["settle"]["how"] = "by heart".into();
    later["windows"][0]["sample"] = serde_json::json!({ "x_us": 1.5, "not_a_number": null });
    let read = |ended: Value| {
        let mut later = later.clone();
        later["ended"] = ended;
        report(vec![later]).trials[0].report.clone()
    };
    let why = "the report does not say why".to_owned();
    for (ended, expected) in [
        (serde_json::json!("whole"), Ended::Whole),
        (Value::Null, Ended::Whole),
        (serde_json::json!("stopped"), Ended::Stopped),
        (
            serde_json::json!({ "failed": { "why": "the server died" } }),
            Ended::Failed { why: "the server died".into() },
        ),
        (serde_json::json!({ "melted": 5 }), Ended::Failed { why }),
    ] {
        assert_eq!(read(ended).ended, expected);
    }
    let read = read("whole".into());
    let rules: Vec<String> = read.dropped.iter().map(|dropped| dropped.reason.to_string()).collect();
    assert_eq!(rules, ["thermal degrees 98", "moonlight", "the machine paused for 86 ms"]);
    assert_eq!((read.mechanism[0].engaged.clone(), read.left.unwrap().why), (Engaged::Unknown, LeftWhy::Other));
    assert_eq!(read.windows[0].sample.len(), 1);
}

/// Tests every field that a page or a comparison relies on, with a value that a malicious file may have.
#[test]
fn values_that_no_trial_can_have_are_refused_by_their_field() {
    let edit = |at: &str, value: Value| {
        let mut file = serde_json::json!({ "format": 2, "trials": [trial("k=1", 0.5, 0.1, 2)] });
        *file["trials"][0].pointer_mut(at).unwrap() = value;
        RunReport::parse(&file.to_string()).map_err(|error| error.to_string())
    };
    let many =
        |count: usize| Value::Array(vec![serde_json::json!({ "name": "n", "title": "t", "a": 1, "b": 1 }); count]);
    let arm = serde_json::json!({ "arm": "A", "does": [], "values": "" });
    for (at, value, expected) in [
        ("/windows/1/start_us", serde_json::json!(-5.0), "trial 1: windows[1].start_us: -5 is not a time in a trial"),
        ("/windows/1/start_us", serde_json::json!(1e300), "trial 1: windows[1].start_us: 1000"),
        ("/windows/0/conditions/span_us", serde_json::json!(-1.0), "trial 1: windows[0].conditions.span_us: -1 is no"),
        ("/windows/0/value", serde_json::json!("NaN"), "trial 1: expected a number, found the text \"NaN\""),
        ("/pairs", serde_json::json!(5_000_000), "trial 1: pairs: 5000000 entries, but at most 100000"),
        ("/arms", Value::Array(vec![arm; 9]), "trial 1: arms: 9 entries, but at most 8"),
        ("/metric/unit", "u".repeat(5000).into(), "trial 1: metric: its words are longer than 4096 bytes"),
        ("/design/confidence", serde_json::json!(0.0), "trial 1: design.confidence: 0 is not a confidence"),
        ("/design/smallest_effect_ratio", serde_json::json!(-0.1), "trial 1: design.smallest_effect_ratio: -0.1 is no"),
    ] {
        let error = edit(at, value).unwrap_err();
        assert!(error.contains(expected), "{at}: {error}");
    }
    let mut costs = serde_json::json!({ "format": 2, "trials": [trial("k=1", 0.5, 0.1, 2)] });
    costs["trials"][0]["costs"] = many(10_001);
    let error = RunReport::parse(&costs.to_string()).unwrap_err().to_string();
    assert_eq!(error, "trial 1: costs: 10001 entries, but at most 10000 are possible");
    let trials = vec![trial("k=1", 0.5, 0.1, 0); 1001];
    let error = RunReport::parse(&serde_json::json!({ "format": 2, "trials": trials }).to_string()).unwrap_err();
    assert_eq!(error.to_string(), "trials: 1001 entries, but at most 1000 are possible");
}

/// A written report is read as the same report, and written again as the same bytes.
#[test]
fn a_report_is_read_as_it_was_written() {
    let mut one = trial("k=1", 0.5, 0.1, 3);
    one["caveats"] = serde_json::json!([{ "kind": "no-pressure" }, { "kind": "steal", "share": 0.25 }]);
    let saved = report(vec![one]);
    assert_eq!(saved.trials[0].report.caveats, [Caveat::NoPressure, Caveat::Steal { share: 0.25 }]);
    let mut written = serde_json::to_value(&saved).unwrap();
    written["format"] = 2.into();
    let again = RunReport::parse(&written.to_string()).unwrap();
    assert_eq!(again, saved);
    assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&saved).unwrap());
}

/// A real report that is cut off anywhere, or has one changed byte, gives an error or a report, but never a panic.
/// If it gives a report, the report can be compared.
#[test]
fn no_damage_to_a_file_makes_the_reader_panic() {
    let between = serde_json::json!({ "arm": "C", "against": "B", "pairs": 3, "verdict": "same" });
    let choice = serde_json::json!({ "confidence": 0.95, "advised": "B", "alike": ["B"], "better": ["B"], "between": [between] });
    let trials = [trial("k=1", 0.5, 0.05, 3)];
    let whole = serde_json::json!({ "format": 2, "taken": "2026", "trials": trials, "choice": choice }).to_string();
    for at in 0..whole.len() {
        drop(RunReport::parse(&whole[..at]));
        for byte in ["\"", "9", "-", "{", "]", "e"] {
            let mut damaged = whole.clone();
            damaged.replace_range(at..=at, byte);
            if let Ok(saved) = RunReport::parse(&damaged) {
                drop(across(&[(String::new(), saved.clone()), ("b".to_owned(), saved)]));
            }
        }
    }
}

/// The report that `evenkeel demo` of 2026-11-21 wrote, with fewer facts and numbers. This format was released, so it must stay readable.
#[test]
fn reports_of_format_1_stay_readable() {
    let saved = RunReport::parse(include_str!("format-1.json")).unwrap();
    assert_eq!((saved.trials.len(), saved.all_as_before), (2, Some(true)));
    let [control, trial] = &saved.trials[..] else { panic!() };
    assert!(control.control && !trial.control);
    let trial = &trial.report;
    assert_eq!((trial.verdict, trial.pairs, trial.pairs_of_windows().len()), (Outcome::Better, 12, 12));
    assert_eq!(trial.design.stop, Stop::After { pairs: 12 });
    assert_eq!((trial.seed, trial.settle.settle_ms), (7, 50));
    assert_eq!(trial.arms[1].does, Arm::planned(1));
    assert!(trial.effect.is_some_and(|effect| effect.ratio < 0.3 && effect.p_value < 0.05));
    assert!(trial.windows[0].conditions.steal_share.is_some());
    assert!(saved.fact("/kernel/release").is_some());
    let across = across(&[("a".to_owned(), saved.clone()), ("b".to_owned(), saved)]);
    assert!(across.asked.iter().all(|asked| matches!(asked.agreement, Agreement::Agree { .. })));
}

/// In format 1, and in reports on several arms before caveats had figures, caveats are sentences only.
#[test]
fn caveats_are_read_from_every_format() {
    let table = [
        (1, serde_json::json!({"doubts": ["a"]}), vec!["a"]),
        (2, serde_json::json!({"doubts": ["a"]}), vec!["a"]),
        (2, serde_json::json!({"doubts": ["b"], "caveats": [{"kind": "steal", "share": 0.1, "text": "b"}]}), vec!["b"]),
        (
            2,
            serde_json::json!({"caveats": [{"kind": "of a later version", "text": "c"}, {"text": "d"}]}),
            vec!["c", "d"],
        ),
        (2, serde_json::json!({}), vec![]),
    ];
    for (format, fields, expected) in table {
        let mut one = trial("k=1", 0.9, 0.1, 2);
        one.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let text = serde_json::json!({"format": format, "trials": [one]}).to_string();
        assert_eq!(RunReport::parse(&text).unwrap().trials[0].report.caveat_texts(), expected, "{format} {fields}");
    }
}
