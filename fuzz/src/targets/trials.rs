//! The targets for trials: answers and output of servers under load, their metrics pages, kept sessions, reports, trials over boots.

use std::fs;
use std::sync::{Arc, LazyLock};

use evenkeel_trial::boots::{BootStatus, BootWords, next};
use evenkeel_trial::saved::{RunReport, across};
use evenkeel_trial::search::{GoalFile, Log, is_over};
use evenkeel_workload::load::{Dataset, Http, Kind, Memcached, Mqtt, Op, Protocol, Redis, Sizes};
use evenkeel_workload::source::http::Address;
use evenkeel_workload::source::json_lines::JsonLines;
use evenkeel_workload::source::lines::ReadLine;
use evenkeel_workload::source::named::Directions;
use evenkeel_workload::source::prometheus::page::{self, Selector};
use evenkeel_workload::source::regex::RegexLines;
use evenkeel_workload::source::rule::{First, Rule, Values};
use evenkeel_workload::source::split::{LINE_BYTES_MAX, Split};
use tempfile::TempDir;

static DIR: LazyLock<TempDir> = LazyLock::new(|| TempDir::new_in("/dev/shm").expect("/dev/shm takes a folder"));

/// A server's answer under load (each character a byte), by each protocol: an answer is complete at one length, and at none before.
pub(super) fn answers(text: &str) {
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    for value_bytes in [0, 5] {
        let Ok(data) = Dataset::new(10, Sizes::Fixed(8), Sizes::Fixed(value_bytes), 1) else { return };
        let data = Arc::new(data);
        let protocols: [Box<dyn Protocol>; 4] = [
            Box::new(Memcached { data: Arc::clone(&data) }),
            Box::new(Redis { data: Arc::clone(&data) }),
            Box::new(Http { data: Arc::clone(&data) }),
            Box::new(Mqtt { data }),
        ];
        for protocol in protocols {
            for kind in [Kind::Get, Kind::Set] {
                let read = |bytes: &[u8]| protocol.parse_answer(Op { key: 3, kind }, 7, bytes);
                if let Ok(Some(answer)) = read(&bytes) {
                    let whole = bytes.get(..answer.bytes).unwrap_or_default();
                    assert!(answer.bytes > 0 && whole.len() == answer.bytes);
                    assert_eq!(read(whole), Ok(Some(answer)));
                    assert_eq!(read(whole.get(..answer.bytes - 1).unwrap_or_default()), Ok(None));
                }
            }
        }
    }
}

/// A server's output (each character a byte) after a line with a path and one with an expression: however it is divided, the same numbers
/// result, and they are valid.
pub(super) fn output_lines(text: &str) {
    let mut parts = text.splitn(3, '\n');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (path, expression) = ([next()], [next()]);
    let bytes: Vec<u8> = next().chars().map(|char| char as u8).collect();
    let directions = Directions::default();
    let json = JsonLines::new(&path, &directions).map(|reader| Box::new(reader) as Box<dyn ReadLine>);
    let regex = RegexLines::new(&expression, &directions).map(|reader| Box::new(reader) as Box<dyn ReadLine>);
    for reader in [json, regex].into_iter().flatten() {
        let heard = |piece: usize| {
            let (mut split, mut values) = (Split::default(), Values::new(First::SpeaksForBefore));
            let mut take = |line: &str| {
                assert!(line.len() <= 3 * LINE_BYTES_MAX);
                reader.read(line, &mut |_, value| values.push(value, 0));
            };
            bytes.chunks(piece).for_each(|piece| split.push(piece, &mut take));
            split.end(&mut take);
            reader.metrics().iter().map(|(_, rule)| values.number(*rule)).collect::<Vec<_>>()
        };
        let whole = heard(bytes.len().max(1));
        assert_eq!(heard(1), whole);
        assert!(whole.iter().flatten().all(|number| number.is_finite()));
    }
}

/// A metrics page, after a line with the selectors: its state at a window's begin and, after `=`, at its end. Also the address of one.
pub(super) fn metrics_page(text: &str) {
    let _ = Address::parse(text);
    let (wanted, pages) = text.split_once('\n').unwrap_or((text, ""));
    let (begin, end) = pages.split_once("\n=\n").unwrap_or((pages, pages));
    let Ok((selector, rule)) = Rule::split(wanted) else { return };
    let Some(selector) = Selector::parse(selector) else { return };
    let selectors = [selector];
    let (Ok(begin), Ok(end)) = (page::read(begin, &selectors), page::read(end, &selectors)) else { return };
    if let Ok(number) = page::number(rule, &begin[0], &end[0], 1.0) {
        assert!(number.is_finite());
    }
}

/// The state of a trial over boots, with its checksum and without.
fn boots(text: &str) {
    let _ = evenkeel_trial::boots::parse(text.as_bytes());
    let Ok(mut state) = evenkeel_trial::boots::parse_json(text) else { return };
    drop(state.report());
    let machine = BootWords::default();
    let status = BootStatus { boot_id: "b".to_owned(), now_s: state.begun_s, is_licensed: true, machine };
    drop(next(&mut state, &status));
    // An accepted state can be written and read again.
    if let Ok(text) = state.text() {
        assert!(evenkeel_trial::boots::parse(text.as_bytes()).is_ok());
    }
}

/// A goal file of a search, or a forged one: a valid one prints to its own text, and gives settings or a reason why not.
pub(super) fn goal(text: &str) {
    let Ok(goal) = GoalFile::parse(text) else { return };
    let written = goal.text().expect("a goal is plain data");
    assert_eq!(GoalFile::parse(&written).as_ref(), Ok(&goal), "{written}");
    assert_eq!(goal.differences(&goal.evidence.host), Vec::<String>::new());
    let _ = goal.settings();
}

/// The windows of a search after a kill, or forged ones: a valid log can be continued.
pub(super) fn search_log(text: &str) {
    let file = DIR.path().join("tune.jsonl");
    fs::write(&file, text).expect("/dev/shm takes a file");
    let Ok((header, mut log)) = Log::open(&file) else { return };
    assert!(log.entries().len() < text.lines().count());
    let _ = is_over(&header.design, &mut log);
}

/// A report of a trial and its comparison with another, or a kept session.
pub(super) fn report(text: &str) {
    let _ = evenkeel_trial::session_log::parse(text.as_bytes());
    boots(text);
    let Ok(saved) = RunReport::parse(text) else { return };
    for entry in &saved.trials {
        drop((entry.report.pairs_of_windows(), entry.report.caveat_texts()));
    }
    drop(across(&[("a".to_owned(), saved.clone()), ("b".to_owned(), saved)]));
}
