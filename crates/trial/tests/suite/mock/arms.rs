//! Sessions of several arms: blocks in the order of the seed, a verdict for each arm, the choice, and the log on disk.

use std::path::Path;
use std::time::Duration;

use evenkeel_stats::BlockDesign;
use evenkeel_trial::LogFileError;
use evenkeel_trial::session_log;
use evenkeel_trial::{Answers, Arm, ArmName, Design, Ended, Guard, LeftWhy, Outcome, Settle, SettleHow, Stop, Stretch};

use super::server::{HOST, KNOB, LogTo, METRIC, Mock, Run, TAIL, aa, arms, session, titles_of};

fn run_kept(kept: LogTo<'_>, arms: Vec<Arm>, seed: u64, change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    let mut design = Design::sequential(METRIC, 60, Duration::from_millis(100), 77);
    design.rules.overrun_share_max = 1000.0;
    design.settle = Settle::Fixed { time: Duration::ZERO };
    design.control_pairs = 2;
    session(HOST, seed, arms, &mut design, kept, change)
}

fn run(seed: u64, change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    run_kept(LogTo::Nowhere, arms(&["50000", "100000"]), seed, |mock, design| {
        design.seed = seed;
        change(mock, design);
    })
}

fn answers(run: Run) -> Answers {
    let arms = run.record.arms.len();
    run.record.answers(&run.design, titles_of(arms)).unwrap()
}

#[test]
fn each_arm_has_its_verdict_and_the_best_is_advised() {
    let session = answers(run(5, |mock, _| {
        mock.effect = 0.9;
        mock.others = vec![("50000", 0.7), ("100000", 1.3)];
    }));
    let verdicts: Vec<Outcome> = session.reports.iter().map(|report| report.verdict).collect();
    assert_eq!(verdicts, [Outcome::Better, Outcome::Better, Outcome::Worse]);
    let choice = session.choice.unwrap();
    assert_eq!(
        (choice.better, choice.alike, choice.advised),
        (vec![ArmName::C, ArmName::B], vec![ArmName::C], ArmName::C)
    );
    for (report, name) in session.reports.iter().zip(ArmName::further(4)) {
        assert_eq!(report.arms.iter().map(|arm| arm.arm).collect::<Vec<_>>(), [ArmName::A, name]);
        assert_eq!(report.windows.len(), 2 * report.pairs);
        for pair in report.windows.chunks(2) {
            let mut two = [pair[0].arm, pair[1].arm];
            two.sort_unstable();
            assert_eq!((two, pair[0].pair), ([ArmName::A, name], pair[1].pair));
        }
        assert_eq!(report.ended, Ended::Decided);
        let effect = report.effect.unwrap();
        assert!((effect.confidence - (1.0 - 0.05 / 3.0)).abs() < 1e-12 && effect.high.is_some(), "{effect:?}");
        assert_eq!(report.mechanism[0].knob, KNOB);
    }
    let worse = session.reports[2].left.as_ref().unwrap();
    assert_eq!(worse.why, LeftWhy::Worse);
    assert!(session.reports[2].pairs <= session.reports[1].pairs);
}

#[test]
fn among_equal_arms_the_smaller_change_is_advised() {
    let choice = answers(run(6, |mock, _| {
        mock.effect = 0.7;
        mock.others = vec![("50000", 0.7), ("100000", 0.7)];
    }))
    .choice
    .unwrap();
    assert_eq!((choice.better.len(), choice.alike.len(), choice.advised), (3, 3, ArmName::B));
    // The leader is known to be like the others, or the blocks were used up. The result calls no arm better.
    assert!(choice.between.iter().all(|between| matches!(between.verdict, Outcome::Same | Outcome::Undecided)));
}

#[test]
fn without_a_better_arm_the_unchanged_machine_is_advised() {
    let session =
        answers(run(7, |_, design| design.stop = Stop::Sequential { pairs_min: 5, pairs_max: 12, budget: None }));
    assert!(session.reports.iter().all(|report| report.verdict != Outcome::Better));
    let choice = session.choice.unwrap();
    assert_eq!((choice.better, choice.advised), (Vec::new(), ArmName::A));
}

#[test]
fn a_block_has_every_arm_once_in_the_order_of_the_seed() {
    let run = run(8, |_, design| design.stop = Stop::After { pairs: 9 });
    let orders = BlockDesign::new(4, 9, 8).unwrap();
    let blocks: Vec<Vec<usize>> = run
        .record
        .windows
        .chunk_by(|one, next| one.pair == next.pair)
        .map(|block| block.iter().map(|window| window.arm as usize).collect())
        .collect();
    assert_eq!(blocks, (0..9).map(|block| orders.order_of_block(block)).collect::<Vec<_>>());
    assert!(run.record.control.iter().all(|window| window.arm <= ArmName::B), "the A/A phase is of pairs");
    let session = answers(run);
    assert!(
        session.reports.iter().all(|report| report.pairs == 9 && report.ended == Ended::Whole && report.left.is_none())
    );
}

#[test]
fn a_harmed_guard_sends_an_arm_away_and_takes_it_out_of_the_choice() {
    // The arm with 200000 makes the tail worse.
    let session = answers(run(9, |mock, design| {
        mock.effect = 0.6;
        mock.others = vec![("50000", 0.8), ("100000", 0.8)];
        mock.tail_effect = 4.0;
        design.guards = vec![Guard { metric: TAIL, harm_ratio: 0.2 }];
    }));
    let b = &session.reports[0];
    assert!(
        matches!(&b.left, Some(left) if matches!(&left.why, LeftWhy::Harm { guard } if guard == "round_trip_us_p99")),
        "{:?}",
        b.left
    );
    assert_ne!(b.verdict, Outcome::Better);
    let choice = session.choice.unwrap();
    assert!(!choice.better.contains(&ArmName::B) && choice.advised != ArmName::B, "{choice:?}");
}

#[test]
fn lost_windows_are_counted_by_arm_and_used_up() {
    let run = run(3, |_, design| {
        design.stop = Stop::Sequential { pairs_min: 5, pairs_max: 6, budget: None };
        design.spare_pairs = 2;
        design.rules.overrun_share_max = -1.0;
    });
    assert_eq!((run.record.ended.clone(), run.record.windows.len()), (Ended::OutOfSpares, 0));
    let lost = |arm| run.record.dropped.iter().filter(|lost| lost.stretch == Stretch::Trial && lost.arm == arm).count();
    assert_eq!(ArmName::ALL[..4].iter().map(|arm| lost(*arm)).collect::<Vec<_>>(), [8; 4]);
    let session = answers(run);
    for report in &session.reports {
        let of_trial = report.dropped.iter().filter(|lost| lost.stretch == Stretch::Trial).count();
        assert_eq!((report.pairs, of_trial), (0, 8), "a block is one lost pair of each arm");
    }
}

#[test]
fn arms_that_are_the_machine_itself_are_a_control() {
    let alike = vec![aa()[0].clone(); 4];
    let record = run_kept(LogTo::Nowhere, alike, 31, |_, _| ()).record;
    assert!(record.windows.iter().all(|window| window.sample["cpu_share"] == 0.1));
}

#[test]
fn how_long_a_switch_is_felt_is_found_over_all_arms() {
    let session = answers(run(31, |mock, design| {
        (mock.effect, mock.carries) = (0.5, Duration::from_millis(80));
        design.window = Duration::from_millis(200);
        design.settle = Settle::Found { least: Duration::from_millis(10), most: Duration::from_secs(2) };
    }));
    let settle = &session.reports[0].settle;
    assert!((100..=150).contains(&settle.settle_ms) && settle.how == SettleHow::Found, "{settle:?}");
}

#[test]
fn a_session_of_several_arms_is_stored_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let several = || arms(&["50000"]);
    let helps = |mock: &mut Mock| (mock.effect, mock.others) = (0.9, vec![("50000", 0.75)]);
    // Two A/A pairs are four windows, and three blocks are nine. The server dies in the fourth block.
    let died = run_kept(LogTo::In(&path), several(), 41, |mock, _| {
        helps(mock);
        mock.dies_at = Some(15);
    });
    assert_eq!((died.record.windows.len(), session_log::read(&path).unwrap().head.format), (9, 2));
    let whole = run_kept(LogTo::GoesOn(&path), several(), 42, |mock, _| helps(mock));
    assert!(whole.record.windows[..9] == died.record.windows[..], "what was measured counts");
    let numbers: Vec<usize> =
        whole.record.windows.chunk_by(|one, next| one.pair == next.pair).map(|block| block[0].pair).collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "the orders go on where they were");
    let read = session_log::read(&path).unwrap();
    assert!(read.record == whole.record);
    let here = answers(whole);
    assert!(read.record.answers(&read.head.design, read.head.titles).unwrap() == here, "the same answers");
    assert_eq!(here.choice.map(|choice| choice.advised), Some(ArmName::C));
}

#[test]
fn invalid_sessions_of_several_arms_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    run_kept(LogTo::In(&path), arms(&["50000"]), 41, |_, design| {
        design.stop = Stop::Sequential { pairs_min: 5, pairs_max: 6, budget: None };
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let head = text.lines().next().unwrap();
    let block: serde_json::Value =
        serde_json::from_str(text.lines().find(|line| line.starts_with("{\"pair\"")).unwrap()).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut block = block.clone();
        change(&mut block["pair"]);
        format!("{head}\n{block}\n")
    };
    for (what, text, expected) in [
        ("one window", with(&|block| *block = serde_json::json!([block[0]])), "two windows or more"),
        ("twice an arm", with(&|block| block[1]["arm"] = block[0]["arm"].clone()), "each of another arm"),
        ("an unknown arm", with(&|block| block[1]["arm"] = "D".into()), "each of another arm"),
        ("no letter", with(&|block| block[1]["arm"] = "Z".into()), "unknown word \"Z\""),
        ("two blocks", with(&|block| block[1]["pair"] = 9.into()), "each of another arm"),
        (
            "arms without names",
            format!("{}\n", head.replacen("\"200000\",", "", 1)),
            "2 arms are named, but 3 were measured",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        match session_log::read(&path) {
            Err(LogFileError::Unreadable { why, .. }) => assert!(why.contains(expected), "{what}: {why}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    assert!(matches!(session_log::read(Path::new("/nonexistent")), Err(LogFileError::Io { .. })));
}
