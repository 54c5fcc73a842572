//! The target for scopes: recordings of servers on `evenkeel-rt`, possibly forged.

use evenkeel_profile::recording::{Recording, Span, Switch, Turn};
use evenkeel_profile::scopes::{Which, long, parse};

/// A file of scopes: an error in the file, or scopes that corrections never lengthen.
pub(super) fn scopes(text: &str) {
    let scopes = match parse(text.as_bytes()) {
        Ok(scopes) => scopes,
        Err(error) => return assert!(error.offset <= text.len() as u64),
    };
    let whole_ns = scopes.threads.iter().flat_map(|thread| &thread.scopes).map(|scope| scope.length_ns);
    let whole_ns = whole_ns.fold(0_u64, u64::saturating_add);
    let recording = recording_of(scopes.threads.iter().filter_map(|thread| thread.tid));
    for which in [Which::Leaf, Which::All] {
        for recording in [None, Some(&recording)] {
            let Ok(found) = long(&scopes, 0, which, recording) else { continue };
            assert!(found.rows.iter().all(|row| row.long.total_ns <= whole_ns && row.count <= row.of));
        }
    }
}

/// A recording in which each of these threads has the CPU for every other millisecond of a second.
fn recording_of(tids: impl Iterator<Item = u32>) -> Recording {
    let mut recording =
        Recording { clock: Some(1), span: Span { start_ns: 0, end_ns: 1_000_000_000 }, ..Recording::default() };
    for tid in tids.take(16) {
        let turns = [Turn::In, Turn::Slept].into_iter().cycle();
        let switches = (0..1000_u64).zip(turns);
        recording.switches.extend(switches.map(|(at, turn)| Switch {
            at_ns: at * 1_000_000,
            cpu: 0,
            pid: tid,
            tid,
            turn,
            other: None,
        }));
    }
    recording.switches.sort_by_key(|switch| switch.at_ns);
    recording
}
