//! Tests cards as data: the accepted cards, the refused cards, and the results of comparisons.

use expect_test::{expect, expect_file};
use proptest::prelude::*;

use super::*;

fn said(id: &str, better: Better, value: f64) -> CardLine {
    let reference = (id == "clock_gettime_ps_p50").then(|| Reference {
        figure: "20 ns".into(),
        source: "a paper".into(),
        says: "2.00 seconds for 100 million calls".into(),
    });
    CardLine { id: id.into(), title: id.replace('_', " "), unit: Unit::Ps, better, value, reference }
}

/// A card with two rounds of each meter.
fn card(scale: f64) -> Card {
    let round = |of: f64| {
        vec![
            said("clock_gettime_ps_p50", Better::Lower, 20_000.0 * scale + of),
            said("switches", Better::Neither, 70.0 * scale + of),
            said("share", Better::Higher, 10.0 + of),
        ]
    };
    Card {
        kind: KIND.to_owned(),
        taken: Taken {
            at: "2026-11-21T15:00:00Z".into(),
            by: "evenkeel 0.1.0".into(),
            pace: "full".into(),
            rounds: 2,
            seconds: 119.5,
            interrupted: false,
        },
        host: vec![Trait { name: "kernel".into(), value: "6.18.5".into() }],
        meters: vec![
            MeterResults::of_rounds("clock", &[round(0.0), round(2.0)], None),
            MeterResults::of_rounds("wake", &[], Some("run on CPU 1: operation not permitted (EPERM)".into())),
        ],
    }
}

fn text(card: &Card) -> String {
    #[derive(Serialize)]
    struct File<'a> {
        format: u64,
        #[serde(flatten)]
        card: &'a Card,
    }
    serde_json::to_string_pretty(&File { format: FORMAT, card }).unwrap() + "\n"
}

#[test]
fn a_card_reads_as_it_was_written() {
    // Never change this file while the format keeps its number.
    let written = text(&card(1.0));
    expect_file!["golden-1.json"].assert_eq(&written);
    assert_eq!(Card::parse(&written).unwrap(), card(1.0));
    assert_eq!(Card::parse(include_str!("golden-1.json")).unwrap(), card(1.0));
    // A reader ignores fields that a later version adds.
    let newer = written.replacen("\"rounds\": 2,", "\"rounds\": 2, \"weather\": [1],", 2);
    assert_eq!(Card::parse(&newer).unwrap(), card(1.0));
}

#[test]
fn other_texts_are_refused_as_cards_with_a_reason() {
    let good = text(&card(1.0));
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        Card::parse(&good.replacen(from, to, 1)).map(drop).map_err(|error| error.to_string())
    };
    let table = [
        (with("\"format\": 1", "\"format\": 2"), "it has format 2, but this evenkeel knows format 1"),
        (with("\"format\": 1", "\"format\": \"1\""), "it has no format number"),
        (with("\"format\": 1,", ""), "it has no format number"),
        (with("evenkeel-card", "x"), "it is not a card: it does not say \"kind\": \"evenkeel-card\""),
        (
            with("\"value\": 20001.0", "\"value\": 3"),
            "clock_gettime_ps_p50 of clock is 3, not within 20000 to 20002 of 2 rounds",
        ),
        (with("\"id\": \"share\"", "\"id\": \"switches\""), "switches is there twice"),
        (with("119.5", "-1"), "it took -1 seconds"),
        (
            with("\"better\": \"lower\"", "\"better\": \"worse\""),
            "unknown word \"worse\"; expected \"lower\", \"higher\", \"neither\"",
        ),
        (with("\"high\": 20002.0", "\"high\": 1e999"), "a number is too large (line 29, column 23)"),
    ];
    for (refused, expected) in table {
        assert_eq!(refused, Err(expected.to_owned()));
    }
    let long = good.replacen("6.18.5", &"x".repeat(5000), 1);
    assert!(Card::parse(&long).unwrap_err().to_string().contains("a text has 5000 bytes"));
    let error = r#"{"format":1,"error":{"message":"failed to measure","exit_code":4}}"#;
    expect!["it is an error of evenkeel: failed to measure"].assert_eq(&Card::parse(error).unwrap_err().to_string());
    let deep = "[".repeat(100_000);
    assert!(Card::parse(&deep).is_err(), "depth is bounded");
    assert!(Card::parse(&" ".repeat(MAX_CARD_BYTES + 1)).is_err());
}

#[test]
fn only_differences_beyond_the_spread_count() {
    let outcomes = |a: &Card, b: &Card| {
        let comparison = compare(a, b);
        comparison.lines.iter().map(|line| (line.ratio.map(|r| (r * 100.0).round()), line.outcome)).collect::<Vec<_>>()
    };
    let (one, twice) = (card(1.0), card(2.0));
    let within = |ratio| (Some(ratio), Outcome::WithinSpread);
    assert_eq!(outcomes(&one, &one), [within(100.0), within(100.0), within(100.0)]);
    let slower = [(Some(200.0), Outcome::ABetter), (Some(199.0), Outcome::Different), within(100.0)];
    assert_eq!(outcomes(&one, &twice), slower);
    assert_eq!(outcomes(&twice, &one)[0], (Some(50.0), Outcome::BBetter));

    let mut other = card(2.0);
    other.meters[0].lines[0].rounds = 1;
    other.meters[0].lines[1].unit = "ns".into();
    other.meters[0].lines[2] = Line { value: 0.0, low: 0.0, high: 0.0, ..other.meters[0].lines[2].clone() };
    other.taken.pace = "quick".into();
    let comparison = compare(&one, &other);
    assert_eq!(comparison.lines[0].outcome, Outcome::NoSpread);
    assert_eq!((comparison.only_a, comparison.only_b), (vec!["switches".to_owned()], vec!["switches".to_owned()]));
    assert_eq!((comparison.lines[1].ratio, comparison.lines[1].outcome), (None, Outcome::ABetter));
    assert_eq!((comparison.a_better, comparison.b_better), (1, 0));
    // The rounds of two cards with two rounds each can come in six orders.
    assert!((comparison.by_chance.unwrap() - 2.0 / 6.0).abs() < 1e-12);
    expect![[r#"
        [
            "the first has the pace full, the second quick: a longer run shows more rare events",
            "wake of the first failed: run on CPU 1: operation not permitted (EPERM)",
            "wake of the second failed: run on CPU 1: operation not permitted (EPERM)",
        ]
    "#]]
    .assert_debug_eq(&comparison.caveats.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn rounds_are_joined_by_name() {
    let rounds = [
        vec![said("a", Better::Lower, 3.0), said("b", Better::Lower, f64::NAN)],
        vec![said("c", Better::Lower, 9.0)],
        vec![said("a", Better::Lower, 1.0), said("a", Better::Lower, 100.0)],
    ];
    let part = MeterResults::of_rounds("m", &rounds, None);
    let lines: Vec<_> =
        part.lines.iter().map(|line| (line.id.as_str(), line.value, line.low, line.high, line.rounds)).collect();
    assert_eq!(lines, [("a", 2.0, 1.0, 3.0, 2), ("c", 9.0, 9.0, 9.0, 1)]);
}

proptest! {
    #[test]
    fn a_card_that_was_changed_anywhere_is_read_or_refused(at in 0.0..1.0_f64, with in "[0-9eE\"{}\\[\\],:.-]{0,6}|null|.{0,3}") {
        let good = text(&card(1.0));
        let at = (at * good.len() as f64) as usize;
        let end = (at + with.len()).min(good.len());
        let (Some(head), Some(tail)) = (good.get(..at), good.get(end..)) else { return Ok(()) };
        if let Ok(card) = Card::parse(&format!("{head}{with}{tail}")) {
            let comparison = compare(&card, &card);
            prop_assert!(comparison.a_better == 0 && comparison.b_better == 0);
        }
    }
}
