//! Mutated captures through the program itself, in every form that inspect and audit answer in: an answer or an error, never a
//! panic, within a second of CPU time and a bounded address space, which the shell holds it to.

use std::fs;
use std::process::Command;

use evenkeel_testkit::mutate::{Chance, asked, hosts, mutated};

/// How many captures are tried unless told; of so many as are asked for, one in fifty, since each takes twelve programs.
const MUTATIONS: u64 = 600;
const ONE_IN: u64 = 50;

/// What each capture is given to.
const FORMS: [&[&str]; 12] = [
    &["inspect"],
    &["inspect", "--json"],
    &["inspect", "--topology"],
    &["inspect", "--topology=svg"],
    &["audit"],
    &["audit", "--json"],
    &["audit", "--md"],
    &["audit", "--sarif"],
    &["audit", "--goal", "throughput"],
    &["audit", "--goal", "density", "--json"],
    &["audit", "--server", "pps=3840,cpus=2,players=64"],
    &["audit", "--fail-on", "unknown", "--color", "always"],
];

#[test]
fn every_form_of_answer_is_given_or_refused() {
    let hosts = hosts();
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut answers, mut refusals) = (0, 0);
    for seed in 0..asked(MUTATIONS) / ONE_IN {
        fs::write(file.path(), mutated(&hosts, &mut Chance(seed.wrapping_mul(ONE_IN)))).unwrap();
        for form in FORMS {
            // 512 MiB of address space; SIGXCPU after a second of CPU time.
            let mut program = Command::new("sh");
            program.args([
                "-c",
                r#"ulimit -v 524288 && ulimit -t 1 && exec "$0" "$@""#,
                env!("CARGO_BIN_EXE_evenkeel"),
            ]);
            let output = program.args(form).arg("--host").arg(file.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0 | 1) => answers += 1,
                Some(2) => refusals += 1,
                _ => panic!("seed {seed}, {form:?}: {}: {said}", output.status),
            }
            assert!(!said.contains("panicked"), "seed {seed}, {form:?}: {said}");
        }
    }
    println!("{answers} answers and {refusals} refusals in {} forms", FORMS.len());
    assert!(answers > refusals, "{answers} answers, {refusals} refusals");
}
