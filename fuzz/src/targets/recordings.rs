//! The targets for recordings: perf's files and printed output.

use std::fs;
use std::sync::LazyLock;

use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::report;
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::input::{ReadError, read};
use evenkeel_profile::live::probe::{parse_notes, parse_place};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::{Settings, Symbols, parse_build_id, parse_kallsyms, parse_pclntab, parse_perf_map};
use evenkeel_profile::text;
use evenkeel_profile::unwind::{NoUnwind, Unwinder};

/// A recording of a small program, with copies of its stack.
const RECORDED: &[u8] = include_bytes!("../../../crates/profile/tests/data/dwarf.data");

/// The program's path in the recording, including its padding.
const PROGRAM: &[u8] = b"/tmp/fx/tiny\0\0\0\0";

/// A `perf.data` file, each character a byte: it is parsed, or refused with a place in it or the name of a missing part.
pub(super) fn perf_data(text: &str) {
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    match read(&bytes, &mut NoUnwind) {
        Ok(recording) => adds_up(&recording, bytes.len()),
        Err(error) => assert!(!matches!(error, ReadError::Text(_)) || !bytes.starts_with(b"PERFILE2"), "{error}"),
    }
}

/// The program file of a recording, replaced byte by byte: every sample gets a name and an unwound stack, whatever the file contains.
pub(super) fn programs(text: &str) {
    static PATH: LazyLock<String> = LazyLock::new(|| format!("/dev/shm/{:06}", std::process::id() % 1_000_000));
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    fs::write(&*PATH, bytes).expect("/dev/shm takes a file");
    let mut path = PATH.as_bytes().to_vec();
    path.resize(PROGRAM.len(), 0);
    let mut data = RECORDED.to_vec();
    for at in 0..data.len() - path.len() {
        if data[at..].starts_with(PROGRAM) {
            data[at..at + path.len()].copy_from_slice(&path);
        }
    }
    let recording = read(&data, &mut Unwinder::new()).expect("the recording is whole");
    let names = Symbols::new(Settings::default()).names(&recording);
    let folded = Folded::from_samples(&recording, &names, Base::Nothing, recording.samples.iter());
    let weight = recording.samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight));
    assert_eq!(folded.total(), weight);
    fs::remove_file(&*PATH).expect("it was written");
}

/// A file from `measure ticks --save`: it is refused with a line number, or it is parsed, prints as it was read, and gives a report.
pub(super) fn ticks(text: &str) {
    match Stream::parse(text) {
        Ok(stream) => {
            let again = Stream::parse(&stream.to_text());
            assert_eq!(again.as_ref(), Ok(&stream));
            let report = report(&stream, &Wanted::default());
            assert!(report.choice.tick.is_none_or(|at| at < report.choice.loops.len()));
        }
        Err(why) => assert!((1..=text.lines().count() + 1).contains(&why.line), "{why}"),
    }
}

/// The output of `perf script`, and folded stacks.
pub(super) fn perf_script(text: &str) {
    if let Ok(folded) = Folded::parse(text) {
        assert!(folded.lines.len() <= text.lines().count());
    }
    match text::parse(text.as_bytes()) {
        Ok(recording) => adds_up(&recording, text.len()),
        Err(bad) => assert!((1..=text.split('\n').count()).contains(&bad.line), "{bad}"),
    }
}

/// The result is not larger than its bytes allow, is in order, and folds to its own weight.
fn adds_up(recording: &Recording, bytes: usize) {
    assert!(recording.samples.len() + recording.switches.len() + recording.mappings.len() <= bytes / 4);
    assert!(recording.stacks.count() <= bytes + 1 && recording.raw.len() <= bytes);
    assert!(recording.samples.is_sorted_by_key(|sample| sample.at_ns));
    assert!(recording.switches.is_sorted_by_key(|switch| switch.at_ns));
    let names = Names::resolve(recording, |_| Vec::new());
    let folded = Folded::from_samples(recording, &names, Base::Cpu, recording.samples.iter());
    let weight = recording.samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight));
    assert_eq!(folded.total(), weight);
    for sample in &recording.samples {
        assert!(usize::from(sample.event) < recording.events.len());
    }
}

/// Function lists of other programs: a JIT compiler's, and the kernel's. Also USDT markers, and places as people write them.
pub(super) fn symbols(text: &str) {
    let numbers = text.split_whitespace().filter_map(|word| u64::from_str_radix(word, 16).ok());
    let map = parse_perf_map(text);
    for number in numbers {
        let _ = map.at(number);
    }
    let _ = parse_kallsyms(text);
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    if let Some(functions) = parse_pclntab(&bytes, 0x1000) {
        for address in 0xff0..0x1100 {
            let _ = functions.at(address);
        }
    }
    assert!(parse_build_id(&bytes).is_none_or(|id| id.len() < bytes.len()));
    assert!(parse_notes(&bytes).len() <= bytes.len() / 36);
    for line in text.lines() {
        if let Ok(asked) = parse_place(line) {
            assert_eq!(parse_place(&asked.to_string()), Ok(asked), "{line:?}");
        }
    }
}
