//! Programs whose files are damaged or malicious, in the search for names and in unwinding.

use std::path::{Path, PathBuf};

use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::input::read;
use evenkeel_profile::symbols::{Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;
use proptest::prelude::*;

const PATH_THERE: &[u8] = b"/tmp/fx/tiny\0\0\0\0";

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// A file whose path is as long as the program's path in the recording. Dropping this value removes the file.
struct Program(PathBuf);

impl Program {
    fn new() -> Program {
        Program(PathBuf::from(format!("/dev/shm/{:06}", std::process::id() % 1_000_000)))
    }

    /// The recording, with the path of this file in place of the program's.
    fn recording(&self) -> Vec<u8> {
        let mut bytes = file("dwarf.data");
        let mut path = self.0.to_str().unwrap().as_bytes().to_vec();
        path.resize(PATH_THERE.len(), 0);
        let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(PATH_THERE)).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + path.len()].copy_from_slice(&path);
        }
        bytes
    }

    fn folded(&self, program: &[u8]) -> Folded {
        std::fs::write(&self.0, program).unwrap();
        let recording = read(&self.recording(), &mut Unwinder::new()).unwrap();
        let names = Symbols::new(Settings::default()).names(&recording);
        Folded::from_samples(&recording, &names, Base::Nothing, recording.samples.iter())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn a_damaged_program_takes_nobody_down() {
    let program = Program::new();
    let whole = file("tiny");
    let folded = program.folded(&whole);
    assert!(folded.lines.keys().any(|line| line.contains("outer") || line.contains("inner")), "{folded:?}");
    // The file is cut off at many places, even at its beginning.
    for length in (0..whole.len()).step_by(whole.len() / 6) {
        assert_eq!(program.folded(&whole[..length]).total(), folded.total(), "{length}");
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: if std::env::var_os("EVENKEEL_CALIBRATE").is_some() { 2_000 } else { 12 },
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let any_change = (any::<prop::sample::Index>(), prop::sample::select(vec![0_u8, 1, 4, 0x7f, 0x80, 0xff, 0x12]));
    // Most changes are in the headers, the exception tables and the list of functions, because these matter most.
    let changes = (
        prop::collection::vec(any_change, 1..40),
        prop::sample::select(vec![(0, 1024), (8192, 4096), (12288, 3856), (0, 16000)]),
    );
    let checked = runner.run(&changes, |(changes, (from, length))| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            bytes[from + at.index(length)] = byte;
        }
        prop_assert_eq!(program.folded(&bytes).total(), folded.total());
        Ok(())
    });
    checked.unwrap();
}
