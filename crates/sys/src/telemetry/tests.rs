//! Tests the page, written and read: its contents, complete or torn, and hostile bytes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;
use proptest::prelude::*;

use super::layout::{self, head, histogram, tick};
use super::*;
use crate::errno::Errno;
use crate::lock::tick_waits::{TickWait, TickWaits};
use crate::lock::waits::Kind;
use crate::shared_page::Access;

fn entry(number: u64) -> TickEntry {
    TickEntry {
        number,
        missed: 0,
        due_ns: number * 20_000_000,
        began_ns: number * 20_000_000 + 60_000,
        done_ns: number * 20_000_000 + 4_060_000,
        period_ns: Some(20_000_000),
        turns: PageSlices::Slots { period_ns: 10_000_000, share: 0.4 },
        faults: Some(Faults { minor: 2, major: 0 }),
        swapped_in: None,
        thread: Some(70),
        waits: None,
        run_delay_ns: None,
    }
}

/// The words of a valid page.
fn page(session: &str) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PageWriter::create(folder.path(), session, Access::Owner).unwrap();
    let counters = writer.counters();
    (0..3).for_each(|number| writer.tick(&entry(number)));
    writer.tick(&TickEntry { missed: 5, done_ns: 10_180_000_000, ..entry(8) });
    counters.add(Count::PacketsIn, 70);
    counters.add(Count::PacketsIn, 7);
    counters.set(Count::Players, 0);
    let bytes = std::fs::read(writer.path()).unwrap();
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn a_page_says_what_was_written() {
    let mut words = page("match 7");
    let found = Snapshot::parse(&bytes(&words)).unwrap();
    assert_eq!((found.session.as_str(), found.owner), ("match 7", Owner::ours().unwrap()));
    assert_eq!((found.ticks, found.missed, found.period_ns, found.period_changes), (4, 5, Some(20_000_000), 0));
    assert_eq!(found.turns, PageSlices::Slots { period_ns: 10_000_000, share: 0.4 });
    assert_eq!((found.faults, found.swapped_in), (Some(Faults { minor: 8, major: 0 }), None));
    let counts = Count::ALL.map(|count| found.count(count));
    assert_eq!(counts, [None, Some(77), None, None, None, None, Some(0)], "unknown is not 0");
    assert_eq!((found.lateness.count, found.lateness.quantile_ns(1.0)), (4, Some(60_000)));
    assert_eq!((found.work.quantile_ns(0.5), found.work.quantile_ns(1.0)), (Some(4_000_000), Some(10_019_940_000)));
    assert_eq!(found.work.quantile_ns(1.1), None);
    let since = found.work.since(&found.work);
    assert_eq!((since.count, since.sum_ns, since.max_ns, since.quantile_ns(0.5)), (0, 0, None, None));
    // A page of a later version, with longer parts at other offsets, and more histograms.
    words.resize(2000, 7);
    let parts = [
        (head::TICK_AT, head::TICK_WORDS, 1000, tick::WORDS),
        (head::COUNTS_AT, head::COUNTS_WORDS, 1100, layout::COUNTS_WORDS),
    ];
    for (at, length, to, count) in parts {
        let from = words[at] as usize;
        words.copy_within(from..from + count, to);
        words[length] += 5;
        words[at] = to as u64;
    }
    words[head::HISTOGRAMS] += 1;
    assert_eq!(Snapshot::parse(&bytes(&words)), Ok(found));
}

/// The offsets and numbers come from docs/formats.md, not from the code, because readers that follow that document must keep working.
#[test]
fn format_1_stays_readable() {
    let mut words = vec![0_u64; 512];
    let head =
        [u64::from_ne_bytes(*b"EVENKEEL"), 1, 4096, 32, 24, 56, 12, 68, 3, 146, 7, 1234, 4026531836, 5, 6, 99, 1];
    words[..17].copy_from_slice(&head);
    words[17] = u64::from_ne_bytes(*b"x\0\0\0\0\0\0\0");
    let tick = [10, 2, 11, 100, 110, 120, 20_000_000, 1, 2, 100_000_000, 400_000, 30, 31, 1, 0, u64::MAX];
    words[32..48].copy_from_slice(&tick);
    words[56..63].copy_from_slice(&[1, 2, 3, 4, 5, u64::MAX, 64]);
    // Ten values of up to 5.6 ms. Four factors of ten have 80 buckets minus the first. Six buckets of the next factor follow.
    for at in [68, 214, 360] {
        words[at..at + 3].copy_from_slice(&[10, 50_000_000, 5_500_000]);
        words[at + 4 + 75] = 10;
    }
    let page = Snapshot::parse(&bytes(&words)).unwrap();
    assert_eq!((page.session.as_str(), page.began_realtime_ns), ("x", 99));
    assert_eq!(page.owner, Owner { pid: 7, start_ticks: 1234, namespace: 4_026_531_836, boot: [5, 6] });
    let faults = Some(Faults { minor: 1, major: 0 });
    assert_eq!(page.last, Some(LastTick { number: 11, due_ns: 100, began_ns: 110, done_ns: 120, faults }));
    assert_eq!((page.ticks, page.missed, page.period_ns, page.period_changes), (10, 2, Some(20_000_000), 1));
    assert_eq!(page.turns, PageSlices::Bucket { period_ns: 100_000_000, share: 0.4 });
    assert_eq!((page.faults, page.swapped_in), (Some(Faults { minor: 30, major: 31 }), None));
    assert_eq!(page.counts, [Some(1), Some(2), Some(3), Some(4), Some(5), None, Some(64)]);
    for histogram in [&page.lateness, &page.work, &page.due_to_done] {
        assert_eq!((histogram.count, histogram.sum_ns, histogram.max_ns), (10, 50_000_000, Some(5_500_000)));
        assert_eq!(histogram.since(&PageHistogram { max_ns: None, ..histogram.clone() }).count, 0);
        let upper_ns = layout::BOUNDS_NS[75];
        assert_eq!((upper_ns, histogram.quantile_ns(0.5)), (5_600_000, Some(5_500_000)));
    }
}

#[test]
fn errors_in_a_page_are_reported() {
    let sound = page("a");
    let at_count = layout::HISTOGRAMS_AT + histogram::COUNT;
    let table: [(usize, u64, &str); 13] = [
        (head::MAGIC, layout::MAGIC.swap_bytes(), "it does not begin as a page of telemetry does"),
        (head::MAGIC, 0, "it does not begin as a page of telemetry does"),
        (head::FORMAT, 2, "it has format 2, and this reader knows 1"),
        (head::TICK_WORDS, 3, "its part \"tick\" is shorter than format 1 has it"),
        (head::TICK_AT, 5000, "it has 4096 bytes, and says that it needs 40192"),
        (head::TICK_AT, u64::MAX, "it has 4096 bytes, and says that it needs 18446744073709551615"),
        (head::COUNTS_WORDS, u64::MAX, "it has 4096 bytes, and says that it needs 18446744073709551615"),
        (head::HISTOGRAMS, 2, "its part \"histograms\" is shorter than format 1 has it"),
        (head::HISTOGRAM_WORDS, 1 << 62, "it has 4096 bytes, and says that it needs 18446744073709551615"),
        (head::NAME_BYTES, 65, "its session's name is too long, empty, or not UTF-8"),
        (head::NAME_BYTES, 0, "its session's name is too long, empty, or not UTF-8"),
        (head::NAME, 0xff, "its session's name is too long, empty, or not UTF-8"),
        (at_count, 5, "the buckets of its histogram \"lateness\" don't add up to its count"),
    ];
    for (at, value, expected) in table {
        let mut words = sound.clone();
        words[at] = value;
        let error = Snapshot::parse(&bytes(&words)).map(drop).unwrap_err().to_string();
        assert_eq!(error, expected, "word {at} is {value}");
    }
    for length in [0, 7, 8, 255] {
        assert_eq!(Snapshot::parse(&bytes(&sound)[..length]), Err(Odd::Foreign), "{length}");
    }
    assert!(matches!(Snapshot::parse(&bytes(&sound)[..4000]), Err(Odd::Short(4000, _))));
    // An impossible CPU share is ignored, and affects nothing else.
    let mut words = sound;
    words[layout::TICK_AT + tick::TURNS_SHARE] = 1_000_001;
    assert_eq!(Snapshot::parse(&bytes(&words)).unwrap().turns, PageSlices::Unknown);
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic(
        changes in prop::collection::vec((0_usize..512, prop_oneof![any::<u64>(), 0_u64..2000, Just(u64::MAX)]), 0..20),
        length in 0_usize..4200,
    ) {
        let mut words = page("a");
        for (at, value) in changes {
            words[at] = value;
        }
        let mut bytes = bytes(&words);
        bytes.truncate(length.max(8));
        if let Ok(page) = Snapshot::parse(&bytes) {
            for histogram in [&page.lateness, &page.work, &page.due_to_done] {
                let _ = (histogram.quantile_ns(0.99), histogram.since(&page.work));
            }
            let _ = prometheus(&[page]);
        }
    }
}

#[test]
fn prometheus_reads_it() {
    let mut first = Snapshot::parse(&bytes(&page("a \"quoted\" \\ name\nof two lines"))).unwrap();
    let mut second = Snapshot::parse(&bytes(&page("b"))).unwrap();
    (first.owner.pid, second.owner.pid) = (7, 8);
    (first.began_realtime_ns, second.began_realtime_ns) = (1_700_000_000_500_000_000, 0);
    (second.faults, second.turns) = (None, PageSlices::Whole);
    let text = prometheus(&[first, second]);
    // Another test checks the metrics with buckets by rule, so one of these metrics is enough here.
    let plain: Vec<&str> = text.lines().filter(|line| !line.contains("_bucket") || line.contains("work")).collect();
    expect![[r##"
        # HELP evenkeel_ticks_total Ticks that were done.
        # TYPE evenkeel_ticks_total counter
        evenkeel_ticks_total{session="a \"quoted\" \\ name\nof two lines",pid="7"} 4
        evenkeel_ticks_total{session="b",pid="8"} 4
        # HELP evenkeel_missed_ticks_total Ticks that were missed.
        # TYPE evenkeel_missed_ticks_total counter
        evenkeel_missed_ticks_total{session="a \"quoted\" \\ name\nof two lines",pid="7"} 5
        evenkeel_missed_ticks_total{session="b",pid="8"} 5
        # HELP evenkeel_tick_period_changes_total How often the time between ticks changed.
        # TYPE evenkeel_tick_period_changes_total counter
        evenkeel_tick_period_changes_total{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0
        evenkeel_tick_period_changes_total{session="b",pid="8"} 0
        # HELP evenkeel_page_faults_total Page faults of the tick's thread; major ones waited for a disk.
        # TYPE evenkeel_page_faults_total counter
        evenkeel_page_faults_total{session="a \"quoted\" \\ name\nof two lines",pid="7",kind="major"} 0
        evenkeel_page_faults_total{session="a \"quoted\" \\ name\nof two lines",pid="7",kind="minor"} 8
        # HELP evenkeel_packets_total Datagrams.
        # TYPE evenkeel_packets_total counter
        evenkeel_packets_total{session="a \"quoted\" \\ name\nof two lines",pid="7",direction="in"} 77
        evenkeel_packets_total{session="b",pid="8",direction="in"} 77
        # HELP evenkeel_session_start_time_seconds When the session began, since 1970 UTC.
        # TYPE evenkeel_session_start_time_seconds gauge
        evenkeel_session_start_time_seconds{session="a \"quoted\" \\ name\nof two lines",pid="7"} 1700000000.5
        evenkeel_session_start_time_seconds{session="b",pid="8"} 0
        # HELP evenkeel_tick_period_seconds Time from one tick to the next.
        # TYPE evenkeel_tick_period_seconds gauge
        evenkeel_tick_period_seconds{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0.02
        evenkeel_tick_period_seconds{session="b",pid="8"} 0.02
        # HELP evenkeel_cpu_turn_period_seconds Period of the CPU's time slices, or of the CPU limit.
        # TYPE evenkeel_cpu_turn_period_seconds gauge
        evenkeel_cpu_turn_period_seconds{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0.01
        # HELP evenkeel_cpu_turn_share_ratio Share of that period in which the server has the CPU.
        # TYPE evenkeel_cpu_turn_share_ratio gauge
        evenkeel_cpu_turn_share_ratio{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0.4
        # HELP evenkeel_players Players that are there.
        # TYPE evenkeel_players gauge
        evenkeel_players{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0
        evenkeel_players{session="b",pid="8"} 0
        # HELP evenkeel_tick_lateness_seconds From when a tick was due to when it began.
        # TYPE evenkeel_tick_lateness_seconds histogram
        evenkeel_tick_lateness_seconds_sum{session="a \"quoted\" \\ name\nof two lines",pid="7"} 0.00024
        evenkeel_tick_lateness_seconds_count{session="a \"quoted\" \\ name\nof two lines",pid="7"} 4
        evenkeel_tick_lateness_seconds_sum{session="b",pid="8"} 0.00024
        evenkeel_tick_lateness_seconds_count{session="b",pid="8"} 4
        # HELP evenkeel_tick_work_seconds From when a tick began to when it was done.
        # TYPE evenkeel_tick_work_seconds histogram
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.000001"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.000002"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.000005"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.00001"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.00002"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.00005"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.0001"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.0002"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.0005"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.001"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.002"} 0
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.005"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.01"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.02"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.05"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.1"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.2"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="0.5"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="1"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="2"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="5"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="10"} 3
        evenkeel_tick_work_seconds_bucket{session="a \"quoted\" \\ name\nof two lines",pid="7",le="+Inf"} 4
        evenkeel_tick_work_seconds_sum{session="a \"quoted\" \\ name\nof two lines",pid="7"} 10.03194
        evenkeel_tick_work_seconds_count{session="a \"quoted\" \\ name\nof two lines",pid="7"} 4
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.000001"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.000002"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.000005"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.00001"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.00002"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.00005"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.0001"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.0002"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.0005"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.001"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.002"} 0
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.005"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.01"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.02"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.05"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.1"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.2"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="0.5"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="1"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="2"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="5"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="10"} 3
        evenkeel_tick_work_seconds_bucket{session="b",pid="8",le="+Inf"} 4
        evenkeel_tick_work_seconds_sum{session="b",pid="8"} 10.03194
        evenkeel_tick_work_seconds_count{session="b",pid="8"} 4
        # HELP evenkeel_tick_due_to_done_seconds From when a tick was due to when it was done.
        # TYPE evenkeel_tick_due_to_done_seconds histogram
        evenkeel_tick_due_to_done_seconds_sum{session="a \"quoted\" \\ name\nof two lines",pid="7"} 10.03218
        evenkeel_tick_due_to_done_seconds_count{session="a \"quoted\" \\ name\nof two lines",pid="7"} 4
        evenkeel_tick_due_to_done_seconds_sum{session="b",pid="8"} 10.03218
        evenkeel_tick_due_to_done_seconds_count{session="b",pid="8"} 4"##]]
    .assert_eq(&plain.join("\n"));
}

/// The rules of the exposition format that promtool and the scraper check.
#[test]
fn the_text_keeps_the_formats_rules() {
    let text =
        prometheus(&[Snapshot::parse(&bytes(&page("a"))).unwrap(), Snapshot::parse(&bytes(&page("b}"))).unwrap()]);
    assert!(text.ends_with('\n'));
    let (mut named, mut seen): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut buckets: Option<(String, f64, f64)> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(!named.contains(&name), "{name} has one block");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            named.push(name);
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let name = line.split('{').next().unwrap();
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value >= 0.0 && name.starts_with(named.last().unwrap()), "{line} is in the block of its metric");
        assert!(!seen.contains(&series.to_owned()), "{series} is there once");
        seen.push(series.to_owned());
        if let Some((of, bound)) = series.split_once("le=\"") {
            let bound: f64 = bound.trim_end_matches("\"}").parse().unwrap();
            if let Some((before, last, count)) = &buckets
                && before == of
            {
                assert!(*last < bound && *count <= value, "{line}: buckets count up");
            }
            buckets = Some((of.to_owned(), bound, value));
        } else if name.ends_with("_count") {
            let (_, bound, count) = buckets.as_ref().unwrap();
            assert!(bound.is_infinite() && *count == value, "{line}: the last bucket has all values");
        }
    }
    assert_eq!(named.len(), 13, "{named:?}");
}

#[test]
fn a_page_lives_as_long_as_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let writer = PageWriter::create(folder.path(), "a/../b c", Access::Owner).unwrap();
    let name = format!("evenkeel-rt.{}.a____b_c", std::process::id());
    assert_eq!(writer.path(), folder.path().join(&name));
    let found = sessions(folder.path()).unwrap();
    assert_eq!(
        found.iter().map(|found| (found.state, found.path.as_path())).collect::<Vec<_>>(),
        [(State::Live, writer.path())]
    );
    // A killed server left the same page, but its process started at another time. Another file only looks like a page.
    let mut words = page("left");
    words[head::START_TICKS] += 1;
    let left = folder.path().join(format!("evenkeel-rt.{}.left", std::process::id()));
    std::fs::write(&left, bytes(&words)).unwrap();
    let foreign = folder.path().join("evenkeel-rt.1.x");
    std::fs::write(&foreign, "no page").unwrap();
    let states = || sessions(folder.path()).unwrap().iter().map(|found| found.state).collect::<Vec<_>>();
    assert_eq!(states(), [State::Live, State::Gone]);
    let second = PageWriter::create(folder.path(), "second", Access::Owner).unwrap();
    assert_eq!(states(), [State::Live, State::Live]);
    assert!(!left.exists() && foreign.exists(), "only pages that are known to be left behind are removed");
    let counters = second.counters();
    drop((writer, second));
    assert_eq!(states(), [State::Live], "somebody still counts");
    drop(counters);
    assert_eq!(states(), []);
    assert_eq!(sessions(&folder.path().join("none")).map(drop), Err(Errno::NOENT));
    let long = "x".repeat(65);
    assert_eq!(PageWriter::create(folder.path(), &long, Access::Owner).map(drop), Err(PageError::Name(65)));
}

#[test]
fn nothing_torn_is_ever_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PageWriter::create(folder.path(), "a", Access::Owner).unwrap();
    let (path, stop): (PathBuf, AtomicBool) = (writer.path().into(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Write in bursts, as ticks do: a writer that never pauses would leave no moment to read.
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..200 {
                    writer.tick(&entry(number));
                    number += 1;
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let reader = TelemetryReader::open(&path).unwrap();
        let (mut read, mut last) = (0, 0);
        while read < 300 {
            let page = match reader.read() {
                Ok(page) => page,
                Err(PageError::HalfWritten { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let Some(tick) = page.last else { continue };
            assert_eq!((page.ticks, tick.due_ns), (tick.number + 1, tick.number * 20_000_000));
            assert_eq!((page.work.count, page.lateness.count), (page.ticks, page.ticks));
            assert_eq!(page.faults, Some(Faults { minor: 2 * page.ticks, major: 0 }));
            assert!(page.ticks >= last, "time goes forward");
            (read, last) = (read + 1, page.ticks);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn waits_for_locks_are_summed_and_the_last_long_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PageWriter::create(folder.path(), "a", Access::Owner).unwrap();
    let reader = TelemetryReader::open(writer.path()).unwrap();
    let wait = |length_ns, by| TickWait { kind: Kind::Event, address: 0x1234, length_ns, by };
    let with = |number, total_ns, longest| TickEntry { waits: Some(TickWaits { total_ns, longest }), ..entry(number) };
    writer.tick(&entry(0));
    let page = reader.read().unwrap();
    assert_eq!((page.thread, page.waits), (Some(70), None), "an older library has no waits");
    writer.tick(&with(1, 0, None));
    assert_eq!(reader.read().unwrap().waits, Some(PageWaits::default()));
    writer.tick(&with(2, 9_000_000, Some(wait(8_000_000, Some(71)))));
    // An eighth of 20 ms is 2.5 ms, and waits from there on count as long.
    writer.tick(&with(3, 2_000_000, Some(wait(1_000_000, None))));
    let expected = PageWaits { total_ns: 11_000_000, long_ns: 9_000_000, last: Some(wait(8_000_000, Some(71))) };
    assert_eq!(reader.read().unwrap().waits, Some(expected));
    writer.tick(&with(4, 3_000_000, Some(wait(3_000_000, None))));
    assert_eq!(reader.read().unwrap().waits.and_then(|waits| waits.last), Some(wait(3_000_000, None)));
}

/// An eighth of the period of 20 ms is 2.5 ms.
#[test]
fn only_waits_for_a_cpu_that_make_a_tick_late_are_summed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PageWriter::create(folder.path(), "a", Access::Owner).unwrap();
    let reader = TelemetryReader::open(writer.path()).unwrap();
    let late = || reader.read().unwrap().late_run_delay_ns;
    // A tick that begins and ends this many microseconds after it was due.
    let mut tick = |number: u64, began_us: u64, done_us: u64, delay_us: u64| {
        let due_ns = number * 20_000_000;
        let (began_ns, done_ns) = (due_ns + began_us * 1000, due_ns + done_us * 1000);
        writer.tick(&TickEntry { began_ns, done_ns, run_delay_ns: Some(delay_us * 1000), ..entry(number) });
    };
    tick(0, 300, 4_000, 300);
    assert_eq!(late(), Some(0), "it began in time");
    tick(1, 300, 15_000, 9_000);
    assert_eq!(late(), Some(0), "a wait in a tick that ended in time delays nothing");
    tick(2, 9_000, 12_000, 8_800);
    assert_eq!(late(), Some(8_800_000));
    tick(3, 9_000, 12_000, 12_000);
    assert_eq!(late(), Some(17_800_000), "at most its lateness");
    tick(4, 9_000, 12_000, 2_400);
    assert_eq!(late(), Some(17_800_000), "something else delayed it");
    tick(5, 200, 45_000, 30_000);
    assert_eq!(late(), Some(47_800_000), "a wait in a tick that delays the next one");
    writer.tick(&entry(6));
    assert_eq!(late(), Some(47_800_000));
}

#[test]
fn a_half_written_page_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evenkeel-rt.1.a");
    let mut words = page("a");
    words[head::BEGUN] += 1;
    std::fs::write(&path, bytes(&words)).unwrap();
    let error = TelemetryReader::open(&path).unwrap().read().unwrap_err();
    assert_eq!(error, PageError::HalfWritten { path });
}
