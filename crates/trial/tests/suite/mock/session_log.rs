//! Tests the log of a session. The log is complete however the session ended, is read back unchanged, and can be continued.

use std::path::Path;
use std::time::Duration;

use evenkeel_trial::LogFileError;
use evenkeel_trial::session_log;
use evenkeel_trial::{Design, Ended, Outcome, SessionWriter, Settle};

use super::server::{HOST, LogTo, METRIC, Mock, Run, ab, session, titles};

fn run(kept: LogTo<'_>, seed: u64, change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    let mut design = Design::sequential(METRIC, 60, Duration::from_millis(100), 41);
    design.rules.overrun_share_max = 1000.0;
    design.settle = Settle::Fixed { time: Duration::ZERO };
    design.control_pairs = 3;
    session(HOST, seed, ab(), &mut design, kept, change)
}

#[test]
fn a_session_log_gives_the_same_report_as_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let run = run(LogTo::In(&path), 41, |mock, _| mock.effect = 0.8);
    let read = session_log::read(&path).unwrap();
    assert!(read.record == run.record, "to the last digit");
    assert_eq!(read.head.design, run.design);
    let (here, there) = (run.report(), read.record.report(&read.head.design, read.head.titles.clone()).unwrap());
    assert_eq!((here.verdict, here.ended.clone()), (Outcome::Better, Ended::Decided));
    assert!(here == there, "the same report");
    // Also convert it to JSON and back, because reports are compared across machines.
    let text = serde_json::to_string(&here).unwrap();
    assert!(serde_json::from_str::<evenkeel_trial::Report>(&text).unwrap() == here);
    let again = SessionWriter::begin(&path, &read.head).unwrap_err().to_string();
    assert!(again.contains("the file is not empty"), "{again}");
}

#[test]
fn many_windows_without_a_value_end_a_session_and_keep_what_there_is() {
    let words = "measure 8 windows in a row: compare round_trip_us_p50: one window has the value -1, but ratios of windows need values above 0; \
                 choose another metric, or longer windows";
    // In one case the second window of the third A/A pair has no value.
    // In the other case the first window of the third pair of the trial has none.
    for (at, control, windows) in [(6, 4, 0), (11, 6, 4)] {
        let run = run(LogTo::Nowhere, 41, |mock, _| mock.is_nothing_at = Some(at));
        assert_eq!((run.record.control.len(), run.record.windows.len()), (control, windows), "{at}");
        assert_eq!(run.record.ended, Ended::Failed { why: words.to_owned() });
        assert_eq!(run.report().control_stretch.unwrap().pairs, control / 2);
    }
}

#[test]
fn a_stored_number_without_a_ratio_does_not_spoil_the_report() {
    let mut run = run(LogTo::Nowhere, 41, |mock, _| mock.effect = 0.8);
    run.record.control[0].value = 0.0;
    let report = run.report();
    assert_eq!((report.verdict, report.control_stretch.unwrap().pairs), (Outcome::Better, 2));
}

#[test]
fn a_session_that_was_cut_off_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    // Three A/A pairs come first, then four pairs of the trial. The server dies in the fifth.
    let died = run(LogTo::In(&path), 41, |mock, _| {
        mock.effect = 0.8;
        mock.dies_at = Some(16);
    });
    assert_eq!(died.record.windows.len(), 8);
    assert!(matches!(&died.record.ended, Ended::Failed { .. }));
    // A kill or a full disk can leave an incomplete last line.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{\"pair\":[{\"pa");
    std::fs::write(&path, &bytes).unwrap();
    assert!(session_log::read(&path).unwrap().record == died.record);
    let whole = run(LogTo::GoesOn(&path), 42, |mock, _| mock.effect = 0.8);
    assert!(whole.record.windows[..8] == died.record.windows[..], "what was measured counts");
    let pairs: Vec<usize> = whole.record.windows.chunks(2).map(|pair| pair[0].pair).collect();
    assert_eq!(pairs, (0..pairs.len()).collect::<Vec<_>>(), "the orders continue where they stopped");
    assert!(session_log::read(&path).unwrap().record == whole.record);
    assert_eq!(whole.report().verdict, Outcome::Better);
}

#[test]
fn a_full_disk_is_a_doubt_and_not_the_end() {
    if !Path::new("/dev/full").exists() {
        evenkeel_testkit::skipped("there is no /dev/full here");
        return;
    }
    let report = run(LogTo::In(Path::new("/dev/full")), 41, |mock, _| mock.effect = 0.8).report();
    assert_eq!((report.verdict, &report.ended), (Outcome::Better, &Ended::Decided));
    let last = report.caveat_texts().pop().unwrap();
    assert!(last.starts_with("failed to store the whole session in /dev/full: no space left"), "{last}");
}

#[test]
fn damaged_logs_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    run(LogTo::In(&path), 41, |mock, _| mock.effect = 0.8);
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.jsonl");
    let mut windows = 0;
    for length in (0..bytes.len()).step_by(97) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        match session_log::read(&cut) {
            Ok(kept) => {
                assert!(kept.record.windows.len() >= windows, "more of the file is more of the session");
                windows = kept.record.windows.len();
                assert!(kept.record.windows.is_empty() || kept.record.ended == Ended::CutOff);
            }
            Err(error) => {
                let why = if length == 0 { "it is empty" } else { "no whole line" };
                assert!(error.to_string().contains(why), "{error}");
            }
        }
    }
    assert!(windows > 0);
    let text = String::from_utf8(bytes).unwrap();
    let head = text.lines().next().unwrap();
    let pair = text.lines().find(|line| line.starts_with("{\"pair\"")).unwrap();
    let one_window = serde_json::from_str::<serde_json::Value>(pair).unwrap()["pair"][0].clone();
    for (what, text) in [
        ("no JSON", "x\n".to_owned()),
        ("another format", format!("{}\n", head.replacen("\"format\":1", "\"format\":3", 1))),
        ("an unknown line", format!("{head}\n{{\"colour\":1}}\n")),
        ("half a pair", format!("{head}\n{{\"pair\":[{one_window}]}}\n")),
        ("twice the same arm", format!("{head}\n{{\"pair\":[{one_window},{one_window}]}}\n")),
        ("a design that can't be", format!("{}\n", head.replacen("\"confidence\":0.95", "\"confidence\":7", 1))),
        ("binary", "\u{0}\u{1}\n".to_owned()),
    ] {
        std::fs::write(&cut, text).unwrap();
        assert!(matches!(session_log::read(&cut), Err(LogFileError::Unreadable { .. })), "{what}");
    }
    assert!(matches!(session_log::read(&folder.path().join("none")), Err(LogFileError::Io { .. })));
}

#[test]
fn a_hostile_value_ends_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    run(LogTo::In(&path), 41, |mock, _| mock.effect = 0.8);
    let mut kept = session_log::read(&path).unwrap();
    kept.record.windows[0].value = -1.0;
    let error = kept.record.report(&kept.head.design, titles()).unwrap_err().to_string();
    assert!(error.starts_with("design a trial: compare round_trip_us_p50"), "{error}");
}
