//! Compares the page of a small fixed report with a golden file, and checks the requirements on all pages.

use evenkeel_trial::saved::across;
use expect_test::expect_file;

use super::*;

mod boots;
mod contrast;

/// A report with every possible part of a page. Its texts try to inject markup.
const SMALL: &str = include_str!("small.json");
/// A real report of an old version, which fixed the number of pairs in advance.
const OLD: &str = include_str!("../../../../trial/src/saved/tests/format-1.json");

fn page(json: &str) -> String {
    html::page(&RunReport::parse(json).unwrap(), json).into_string()
}

fn side_by_side() -> String {
    let reports = ["frankfurt.json", "<ohio>.json"].map(|name| (name.to_owned(), RunReport::parse(SMALL).unwrap()));
    super::across::page(&across(&reports))
}

/// Puts each tag on its own line, so that differences are readable.
fn in_lines(page: &str) -> String {
    page.replace('<', "\n<").replace("\n</", "</") + "\n"
}

#[test]
fn the_page_of_a_small_report() {
    expect_file!["small.html"].assert_eq(&in_lines(&page(SMALL)));
    expect_file!["compare.html"].assert_eq(&in_lines(&side_by_side()));
}

#[test]
fn text_of_a_server_is_not_markup() {
    for page in [page(SMALL), side_by_side()] {
        assert!(!page.contains("<script") && !page.contains("<ohio>"), "a name became markup");
        assert!(page.contains("&lt;script&gt;alert("), "it is shown all the same");
    }
}

/// One page of each kind.
fn pages() -> [String; 4] {
    [page(SMALL), page(OLD), side_by_side(), boots::page()]
}

#[test]
fn pages_need_nothing_but_themselves() {
    for page in pages() {
        for outside in ["src=", "href=\"http", "url(", "@import", "<link", "<script", "onload", "NaN", "inf%", "=\"inf"]
        {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}

/// Every drawing has a text for readers who cannot see it. Heading levels follow each other without gaps.
#[test]
fn every_drawing_has_words() {
    for page in pages() {
        let drawings = page.split("<svg").skip(1).map(|drawing| drawing.split('>').next().unwrap());
        for drawing in drawings {
            let words = drawing.split("aria-label=\"").nth(1).and_then(|rest| rest.split('"').next());
            let has_text = drawing.contains("role=\"img\"") && words.is_some_and(|words| words.len() > 10);
            assert!(has_text || drawing.contains("aria-hidden=\"true\""), "{drawing}");
        }
        assert!(page.contains("<html lang=\"en\">") && page.matches("<h1>").count() == 1);
        let first = |tag: &str| page.find(tag).unwrap();
        assert!(first("<h1") < first("<h2"));
    }
}

#[test]
fn caveats_come_before_what_might_impress() {
    let page = page(SMALL);
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(at("<h3>Caveats") < at("class=\"estimates\""));
    assert!(at("/proc/pressure is not readable") < at("class=\"estimates\""));
}

#[test]
fn downloads_are_what_was_written() {
    use base64::Engine;
    let page = page(SMALL);
    let href =
        page.split("download=\"report.json\" href=\"data:application/json;charset=utf-8;base64,").nth(1).unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(href.split('"').next().unwrap()).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), SMALL);
    assert!(page.contains("download=\"host.txt\""));
}

/// Even the longest trial has a page that is small enough for a browser.
#[test]
fn the_longest_trial_fits_a_page() {
    let mut report: serde_json::Value = serde_json::from_str(SMALL).unwrap();
    let windows = report["trials"][0]["windows"].as_array().unwrap().clone();
    let many: Vec<serde_json::Value> = (0..20_000_usize)
        .map(|at| {
            let mut window = windows[at % 16].clone();
            window["pair"] = (at / 2).into();
            window["start_us"] = (at as f64 * 1.1e6).into();
            window
        })
        .collect();
    report["trials"][0]["windows"] = many.into();
    let saved = RunReport::parse(&report.to_string()).unwrap();
    let page = html::page(&saved, "{}").into_string();
    assert!(page.len() < 600_000, "{} bytes", page.len());
    assert!(page.contains("Every 100th pair is drawn"));
}

/// A report with three arms.
/// It is made from a report with two arms: the trial is repeated with another letter and other numbers.
fn several() -> String {
    let mut report: serde_json::Value = serde_json::from_str(SMALL).unwrap();
    report["format"] = 2.into();
    let mut other = report["trials"][0].clone();
    other["knob"] = "haltpoll.guest_halt_poll_ns=50000".into();
    other["arms"][1]["arm"] = "C".into();
    other["left"] = serde_json::json!({ "block": 7, "why": "worse" });
    for window in other["windows"].as_array_mut().unwrap() {
        if window["arm"] == "B" {
            window["arm"] = "C".into();
            window["start_us"] = (window["start_us"].as_f64().unwrap() + 1.0).into();
        }
    }
    report["trials"] = serde_json::json!([report["trials"][0], other]);
    let effect = serde_json::json!({ "ratio": 0.9, "low": 0.8, "high": 0.95, "confidence": 0.95, "p_value": 0.01 });
    report["choice"] = serde_json::json!({
        "sentence": "take B: it is <script>alert(1)</script>", "confidence": 0.95, "better": ["B"], "alike": ["B"], "advised": "B",
        "between": [{ "arm": "C", "against": "B", "pairs": 8, "effect": effect, "verdict": "worse" }],
    });
    report.to_string()
}

#[test]
fn several_arms_have_a_row_each_and_one_timeline() {
    let page = page(&several());
    assert!(
        !page.contains("<script") && page.contains("Take B: it is &lt;script&gt;"),
        "what a file says is not markup"
    );
    for words in [
        "Best arm",
        "Arm B: ",
        "Arm C: ",
        "left after block 8: worse than A",
        "C against B",
        "A/A phase",
        "C is lower than A",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    assert_eq!(page.matches("Top: ").count(), 1, "one timeline for all arms");
    let at = |words: &str| page.find(words).unwrap();
    assert!(at("Best arm") < at("Arm B: "));
    for outside in ["src=", "href=\"http", "url(", "NaN", "inf%"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn over_machines_each_of_several_arms_is_a_setting_of_its_own() {
    let reports = ["a", "b"].map(|name| (name.to_owned(), RunReport::parse(&several()).unwrap()));
    let asked: Vec<(String, usize)> = across(&reports)
        .asked
        .into_iter()
        .filter(|asked| !asked.control)
        .map(|asked| (asked.knob, asked.cells.len()))
        .collect();
    let expected = ["haltpoll.guest_halt_poll_ns=200000", "haltpoll.guest_halt_poll_ns=50000"];
    assert_eq!(asked, expected.map(|knob| (knob.to_owned(), 2)));
}

/// Random characters anywhere lead to a page or an error, and never to a panic.
#[test]
fn letters_in_the_wrong_place_harm_nobody() {
    let whole = several();
    for (from, to) in
        [("\"arm\":\"A\"", "\"arm\":\"H\""), ("\"arm\":\"B\"", "\"arm\":\"G\""), ("\"arm\":\"C\"", "\"arm\":\"A\"")]
    {
        let text = whole.replace(from, to);
        assert_ne!(text, whole);
        let saved = RunReport::parse(&text).unwrap();
        assert!(html::page(&saved, &text).into_string().contains("</html>"));
        drop(across(&[("a".to_owned(), saved.clone()), ("b".to_owned(), saved)]));
    }
    assert!(RunReport::parse(&whole.replace("\"advised\":\"B\"", "\"advised\":\"Z\"")).is_err());
    assert!(RunReport::parse(&whole.replace("\"ratio\":0.9}", "\"ratio\":-0.9}")).is_err());
}
