//! Ticks that events mark: entries and returns, marks, packets.

use super::super::marks::{self, Marks, MarksError};
use super::*;

/// Events by name. Each sample of an event has a time and the words of its raw data.
type Marked<'a> = &'a [(&'a str, &'a [(u64, &'a [u64])])];

fn marked(events: Marked<'_>) -> Recording {
    let mut server = Server::new();
    let stack = server.stack("main;tick");
    let recording = &mut server.recording;
    recording.clock = Some(1);
    for (name, moments) in events {
        let event = recording.events.len() as u16;
        recording.events.push(Event { name: (*name).to_owned(), unit: Unit::Events });
        for (at_ns, words) in *moments {
            let from = recording.raw.len() as u32;
            recording.raw.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            let raw = (from, words.len() as u32 * 8);
            recording.samples.push(Sample {
                event,
                at_ns: *at_ns,
                cpu: 0,
                pid: TID,
                tid: TID,
                stack,
                weight: 1,
                address: 0,
                raw,
            });
        }
    }
    recording.samples.sort_by_key(|sample| sample.at_ns);
    server.recording
}

/// The beginning and end of each tick.
fn spans(marks: &Marks, recording: &Recording) -> (Vec<(u64, Option<u64>)>, u64) {
    let found = marks.ticks(recording, &|tid| tid == TID).unwrap();
    (found.ticks.iter().map(|tick| (tick.begun_ns, tick.done_ns)).collect(), found.unended)
}

#[test]
fn entries_and_returns_are_put_together() {
    type Row<'a> = (&'a str, &'a [u64], &'a [u64], &'a [(u64, Option<u64>)], u64);
    let rows: [Row<'_>; 5] = [
        ("one after the other", &[10, 20], &[15, 25], &[(10, Some(15)), (20, Some(25))], 0),
        ("an end is lost", &[10, 20, 30], &[15, 35], &[(10, Some(15)), (30, Some(35))], 1),
        ("it calls itself", &[10, 12, 20, 22], &[14, 15, 24, 25], &[(10, Some(15)), (20, Some(25))], 0),
        ("begun before the recording", &[10, 20], &[5, 15, 25], &[(10, Some(15)), (20, Some(25))], 0),
        ("not done at its end", &[10, 20, 30], &[15, 25], &[(10, Some(15)), (20, Some(25))], 1),
    ];
    for (name, begins, ends, expected, unended) in rows {
        let of = |moments: &[u64]| -> Vec<(u64, &[u64])> { moments.iter().map(|at_ns| (*at_ns, &[][..])).collect() };
        let recording = marked(&[("probe_server:tick", &of(begins)), ("probe_server:tick__return", &of(ends))]);
        let marks = Marks::named(&recording, "tick").unwrap();
        assert_eq!(marks.end.as_deref(), Some("probe_server:tick__return"));
        assert_eq!(spans(&marks, &recording), (expected.to_vec(), unended), "{name}");
        let begun: Vec<u64> = spans(&marks.without_end(), &recording).0.iter().map(|(begun_ns, _)| *begun_ns).collect();
        assert_eq!(begun, begins, "{name}");
    }
}

#[test]
fn places_are_named_as_they_were_recorded() {
    let seen: &[(u64, &[u64])] = &[(10, &[]), (20, &[])];
    let recording = marked(&[
        ("probe_server:game::tick", seen),
        ("probe_server:game::tick__until_send", seen),
        ("sdt_evenkeel:tick_done", seen),
        ("uprobes:frame", seen),
    ]);
    let begin = |name: &str| Marks::named(&recording, name).map(|marks| (marks.begin, marks.end));
    let ended = Some("probe_server:game::tick__until_send".to_owned());
    assert_eq!(begin("game::tick"), Ok(("probe_server:game::tick".to_owned(), ended)));
    assert_eq!(begin("uprobes:frame"), Ok(("uprobes:frame".to_owned(), None)));
    assert_eq!(begin("cpu-clock"), Ok(("cpu-clock".to_owned(), None)), "any event, if it is named");
    let until = Marks::named(&recording, "frame").unwrap().until(&recording, "sdt_evenkeel:tick_done").unwrap();
    assert_eq!(until.end.as_deref(), Some("sdt_evenkeel:tick_done"));
    let refused = Marks::named(&recording, "tock").unwrap_err();
    assert!(refused.to_string().contains("it has cpu-clock, probe_server:game::tick, "), "{refused}");
    let places: Vec<String> = Marks::places(&recording).into_iter().map(|marks| marks.begin).collect();
    assert_eq!(places, ["probe_server:game::tick", "uprobes:frame"]);
    assert_eq!(Marks::of_library(&recording), None);
    let nobodys = Marks::named(&recording, "frame").unwrap().ticks(&recording, &|_| false).unwrap_err();
    assert!(matches!(nobodys, MarksError::TooFew { seen: 0, .. }), "{nobodys}");
}

/// The library marks each tick with its number and its due time. Impossible values are ignored.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_librarys_marks_have_the_due_times() {
    const WHICH: u64 = 1 << 5 | 1 << 4;
    let second = 1_000_000_000;
    let begins: [(u64, &[u64]); 5] = [
        (second + 100, &[WHICH, second, 7]),
        (second + 1_000, &[WHICH, second + 900, 8]),
        // Three impossible due times: in the future, cut off, and long past.
        (second + 2_000, &[WHICH, u64::MAX, 11]),
        (second + 3_000, &[WHICH, 5]),
        (200 * second, &[WHICH, 1, 13]),
    ];
    let ends: Vec<(u64, &[u64])> = begins.iter().map(|(at_ns, _)| (at_ns + 50, &[][..])).collect();
    let mut recording = marked(&[("sdt_evenkeel:tick_begin", &begins), ("sdt_evenkeel:tick_done", &ends)]);
    let marks = Marks::of_library(&recording).unwrap();
    let found = marks.ticks(&recording, &|_| true).unwrap();
    let seen: Vec<_> = found.ticks.iter().map(|tick| (tick.number, tick.due_ns)).collect();
    assert_eq!(
        seen,
        [
            (Some(7), Some(second)),
            (Some(8), Some(second + 900)),
            (Some(11), Some(second + 2_000)),
            (None, None),
            (Some(13), None)
        ]
    );
    let cut = cut::at(&recording, &[], &found);
    assert_eq!((cut.ends, cut.missed, cut.ticks.len()), (Ends::AtItsEnd, 2, 5));
    let lateness: Vec<u64> = cut.ticks.iter().map(Tick::lateness_ns).collect();
    assert_eq!(lateness, [100, 100, 0, 0, 0]);
    // Times of a clock other than the recording's clock have no meaning here.
    recording.clock = None;
    let found = marks.ticks(&recording, &|_| true).unwrap();
    assert!(found.ticks.iter().all(|tick| tick.due_ns.is_none()));
}

#[test]
fn packets_are_cut_by_the_ends_of_their_bursts() {
    let period_ns = 20 * MS;
    // Each burst has three packets, 200 us apart. The fourth burst comes 5 ms late.
    let burst = |number: u64| {
        let late_ns = if number == 4 { 5 * MS } else { 0 };
        (0..3).map(move |packet| (1_000 * MS + number * period_ns + late_ns + packet * MS / 5, &[][..]))
    };
    let packets: Vec<(u64, &[u64])> = (0..8).flat_map(burst).collect();
    let recording = marked(&[("net:net_dev_queue", &packets)]);
    let found = marks::packets(&recording, &|tid| tid == TID).unwrap();
    let cut = cut::at(&recording, &[], &found);
    let lengths: Vec<u64> = cut.ticks.iter().map(|tick| tick.span.length_ns() / MS).collect();
    assert_eq!(lengths, [20, 20, 20, 25, 15, 20, 20]);
    let none = marks::packets(&marked(&[]), &|_| true).unwrap_err();
    assert!(matches!(none, MarksError::NoEvent { .. }), "{none}");
    let few = marks::packets(&marked(&[("net:net_dev_queue", &packets[..3])]), &|_| true).unwrap_err();
    assert!(matches!(few, MarksError::TooFew { seen: 1, .. }), "{few}");
}

proptest! {
    /// For any events, ticks do not overlap. No tick is longer than the time to the next begin.
    #[test]
    fn no_marks_are_a_panic(
        begins in prop::collection::vec((0_u64..1_000, prop::collection::vec(any::<u64>(), 0..4)), 0..60),
        ends in prop::collection::vec(0_u64..1_000, 0..60),
    ) {
        let begins: Vec<(u64, &[u64])> = begins.iter().map(|(at_ns, words)| (*at_ns, words.as_slice())).collect();
        let ends: Vec<(u64, &[u64])> = ends.iter().map(|at_ns| (*at_ns, &[][..])).collect();
        let recording = marked(&[("sdt_evenkeel:tick_begin", &begins), ("sdt_evenkeel:tick_done", &ends)]);
        let marks = Marks::of_library(&recording).unwrap();
        for marks in [marks.clone(), marks.without_end()] {
            let Ok(found) = marks.ticks(&recording, &|_| true) else { continue };
            let cut = cut::at(&recording, &[], &found);
            prop_assert!(cut.ticks.windows(2).all(|pair| pair[0].span.end_ns <= pair[1].span.start_ns));
            prop_assert!(cut.ticks.iter().all(|tick| tick.span.start_ns <= tick.begun_ns && tick.begun_ns <= tick.span.end_ns));
            prop_assert!(cut.ticks.len() as u64 + cut.unended <= begins.len() as u64);
        }
    }
}
