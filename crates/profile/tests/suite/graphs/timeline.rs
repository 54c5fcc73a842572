//! Tests the page of a timeline: its data, names that may break the page, and more intervals than a page has room for.

use evenkeel_profile::graph::{PageHead, Row, timeline_html};
use evenkeel_profile::names::Names;
use evenkeel_profile::offcpu::timeline::Timeline;
use evenkeel_profile::offcpu::{self, OffCpuInterval};
use evenkeel_profile::recording::{Recording, Span, Switch, Thread, Turn};
use evenkeel_profile::ticks::Tick;
use expect_test::expect_file;
use serde_json::Value;

use super::{hostile, small};

/// The data in the page, which its script reads.
pub(crate) fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// A page of the small recording, with two ticks, and one wait in its table.
pub(crate) fn small_page() -> String {
    const MS: u64 = 1_000_000;
    let small::Small { recording, names } = small::recording();
    let mut intervals = offcpu::intervals(&recording, &names);
    // Add the place of the wait, and the thread that ended it.
    let of_net = intervals
        .iter_mut()
        .find(|interval| interval.tid == 10 && interval.span.start_ns > recording.span.start_ns)
        .unwrap();
    (of_net.stack, of_net.woken_by) = (Some(recording.samples[0].stack), Some((11, None)));
    of_net.woken_at_ns = Some(1030 * MS);
    let tick = |number: u64, length: u64| {
        let start_ns = (1000 + 40 * number) * MS;
        Tick { number, span: Span { start_ns, end_ns: start_ns + length * MS }, begun_ns: start_ns + MS }
    };
    let ticks = [tick(0, 31), tick(1, 20)];
    let timeline = Timeline::from_recording(&recording, &names, &intervals, |_| true, Some((10, &ticks)));
    let said =
        PageHead { title: "game".into(), subtitle: "on vm".into(), caveats: vec!["1 < 2 records were lost.".into()] };
    let cells = ["0.0220 s", "9.00 ms", "preempted", "game (10)", "by net worker 2 (11)"].map(str::to_owned);
    timeline_html(&timeline, &said, &[Row { tid: 10, at_ns: 22 * MS, length_ns: 9 * MS, cells }])
}

/// A recording of this many threads. Each thread sleeps `intervals` times: for 3 us of every 10 us, and sometimes for 6 us.
pub(crate) fn many(threads: u32, intervals: u64) -> (Recording, Names) {
    let mut recording = Recording::default();
    for at in 0..intervals {
        for tid in 1..=threads {
            let at_ns = 1_000_000 + at * 10_000 + u64::from(tid) * 10;
            let length_ns = if at % 1000 == 0 { 6_000 } else { 3_000 };
            let switch = Switch { at_ns, cpu: tid % 4, pid: 1, tid, turn: Turn::Slept, other: None };
            recording.switches.push(switch);
            recording.switches.push(Switch { at_ns: at_ns + length_ns, turn: Turn::In, ..switch });
        }
    }
    recording.switches.sort_by_key(|switch| switch.at_ns);
    recording.span = Span { start_ns: 1_000_000, end_ns: 1_000_000 + intervals * 10_000 + 20_000 };
    let names = Names::resolve(&recording, |_| Vec::new());
    (recording, names)
}

pub(crate) fn page_of(recording: &Recording, names: &Names) -> String {
    let intervals = offcpu::intervals(recording, names);
    let timeline = Timeline::from_recording(recording, names, &intervals, |_| true, None);
    timeline_html(&timeline, &PageHead { title: "many".into(), ..PageHead::default() }, &[])
}

#[test]
fn a_small_one_is_as_it_was() {
    let page = small_page();
    expect_file!["timeline.json"].assert_eq(&(serde_json::to_string_pretty(&data(&page)).unwrap() + "\n"));
    for text in ["<title>game</title>", "1 &lt; 2 records", "data-lane=\"0\" data-at=\"22000000\" data-for=\"9000000\""]
    {
        assert!(page.contains(text), "{text}");
    }
    // The page contains nothing that a browser would load.
    assert!(!page.contains("://") && !page.contains(" src=") && !page.contains("url("));
    assert_eq!(page, small_page());
}

#[test]
fn no_name_becomes_a_part_of_the_page() {
    let page = hostile_page();
    assert!(!page.contains("<img") && !page.contains("<script>document") && !page.contains("<b>"));
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    let data = data(&page);
    assert_eq!(data["lanes"].as_array().unwrap().len(), hostile::NAMES.len());
    assert!(data["lanes"].as_array().unwrap().iter().any(|lane| lane["name"] == hostile::NAMES[0]));
}

/// A page with malicious names of threads and functions, and a malicious title and table.
pub(crate) fn hostile_page() -> String {
    let (mut recording, names) = hostile::recording();
    let threads: Vec<u32> = recording.threads.keys().copied().collect();
    for tid in threads {
        let at_ns = u64::from(tid) * 10;
        let (cpu, pid, other) = (0, tid, Some((1, tid % 20 + 1)));
        recording.switches.push(Switch { at_ns, cpu, pid, tid, turn: Turn::Preempted, other });
        recording.switches.push(Switch { at_ns: at_ns + 5, cpu, pid, tid, turn: Turn::In, other });
    }
    recording.span = Span { start_ns: 0, end_ns: 1000 };
    let mut intervals = offcpu::intervals(&recording, &names);
    for (interval, sample) in intervals.iter_mut().zip(&recording.samples) {
        interval.stack = Some(sample.stack);
    }
    let timeline = Timeline::from_recording(&recording, &names, &intervals, |_| true, None);
    let text = hostile::NAMES[1].to_owned();
    let said = PageHead { title: text.clone(), subtitle: hostile::NAMES[2].into(), caveats: vec![text.clone()] };
    let cells = [0; 5].map(|_| text.clone());
    timeline_html(&timeline, &said, &[Row { tid: 1, at_ns: 1, length_ns: 1, cells }])
}

#[test]
fn pieces_beyond_the_page_are_merged_and_reported() {
    let (recording, names) = many(3, 100_000);
    let page = page_of(&recording, &names);
    assert!(page.len() < 24 << 20, "{} bytes", page.len());
    let data = data(&page);
    let pieces: usize = data["lanes"].as_array().unwrap().iter().map(|lane| lane["at"].as_array().unwrap().len()).sum();
    assert!(pieces <= 250_000 && pieces > 50_000, "{pieces}");
    let merged = data["merged"].as_u64().unwrap();
    assert!(merged > 100_000, "{merged}");
    assert!(page.contains(&format!("{merged} of 300000 intervals are merged")), "{}", &page[page.len() - 30_000..]);
    let several = |lane: &Value| -> u64 {
        let several = lane["several"].as_array().unwrap();
        let counted: u64 = several.iter().map(|one| one[1].as_u64().unwrap()).sum();
        counted + (lane["at"].as_array().unwrap().len() - several.len()) as u64
    };
    for lane in data["lanes"].as_array().unwrap() {
        assert_eq!(several(lane), 100_000, "no interval is dropped");
    }
}

#[test]
fn threads_without_room_are_counted_and_the_one_that_ticks_has_a_lane() {
    let mut recording = Recording { span: Span { start_ns: 0, end_ns: 1_000_000 }, ..Recording::default() };
    for tid in 1..=1000_u32 {
        recording.threads.insert(tid, Thread { pid: tid, name: None });
        // Threads with higher numbers work less.
        let (at_ns, cpu, pid) = (u64::from(tid), 0, tid);
        recording.switches.push(Switch { at_ns, cpu, pid, tid, turn: Turn::In, other: None });
        let at_ns = 500_000 - u64::from(tid);
        recording.switches.push(Switch { at_ns, cpu, pid, tid, turn: Turn::Slept, other: None });
    }
    recording.switches.sort_by_key(|switch| switch.at_ns);
    let names = Names::resolve(&recording, |_| Vec::new());
    let intervals: Vec<OffCpuInterval> = offcpu::intervals(&recording, &names);
    let tids = |ticks| -> (Vec<u32>, usize) {
        let timeline = Timeline::from_recording(&recording, &names, &intervals, |pid| pid > 10, ticks);
        (timeline.lanes.iter().map(|lane| lane.tid).collect(), timeline.lanes_left_out)
    };
    let (without, left_out) = tids(None);
    assert_eq!((without.len(), without[0], left_out), (120, 11, 870));
    let (with, left_out) = tids(Some((900, &[])));
    assert_eq!((with.len(), with[0], with[119], left_out), (120, 11, 900, 870));
}
