//! The targets of recordings: what perf writes into files, and what it prints of them.

use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::input::{ReadError, read};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::text;
use evenkeel_profile::unwind::NoUnwind;

/// A `perf.data` file, of which each character is a byte: it is read, or refused with a place that it has or whose part it lacks.
pub(super) fn perf_data(text: &str) {
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    match read(&bytes, &mut NoUnwind) {
        Ok(recording) => adds_up(&recording, bytes.len()),
        Err(error) => assert!(!matches!(error, ReadError::Text(_)) || !bytes.starts_with(b"PERFILE2"), "{error}"),
    }
}

/// What `perf script` printed.
pub(super) fn perf_script(text: &str) {
    match text::parse(text.as_bytes()) {
        Ok(recording) => adds_up(&recording, text.len()),
        Err(bad) => assert!((1..=text.split('\n').count()).contains(&bad.line), "{bad}"),
    }
}

/// What was read is no more than its bytes can say, is in order, and folds to what it weighs.
fn adds_up(recording: &Recording, bytes: usize) {
    assert!(recording.samples.len() + recording.switches.len() + recording.mappings.len() <= bytes / 4);
    assert!(recording.stacks.count() <= bytes + 1 && recording.raw.len() <= bytes);
    assert!(recording.samples.is_sorted_by_key(|sample| sample.at_ns));
    assert!(recording.switches.is_sorted_by_key(|switch| switch.at_ns));
    let names = Names::of(recording, |_| Vec::new());
    let folded = Folded::of(recording, &names, Base::Cpu, recording.samples.iter());
    let weight = recording.samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight));
    assert_eq!(folded.total(), weight);
    for sample in &recording.samples {
        assert!(usize::from(sample.event) < recording.events.len());
    }
}
