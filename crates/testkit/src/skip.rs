//! Makes skipped tests visible.
//! The test harness captures a test's output and reports the test as passed, so a skip would be silent.
//! So each skip is written to the process's own standard error, and to the file that `make test` lists at the end.

use std::fmt::Display;
use std::io::Write;

use evenkeel_sys::process;

/// The file that `make test` collects the skips in.
const FILE_VARIABLE: &str = "EVENKEEL_SKIPPED";

/// Records that the calling test could not run here, and why. The caller returns.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    note(FILE_VARIABLE, "skipped", &format!("{}: {why}", thread.name().unwrap_or("a thread of a test")));
}

/// Whether the process lacks root. If so, records that the test is skipped.
pub fn needs_root(what: impl Display) -> bool {
    let lacks_root = !process::is_root();
    if lacks_root {
        skipped(format_args!("{what} needs root"));
    }
    lacks_root
}

/// Writes one line to standard error, past the harness's capture, and appends it to the file that the variable names.
pub(crate) fn note(variable: &str, kind: &str, line: &str) {
    let line = format!("{}\n", line.replace('\n', " "));
    let _ = std::io::stderr().write_all(format!("{kind}: {line}").as_bytes());
    let Some(path) = std::env::var_os(variable) else { return };
    let file = std::fs::File::options().create(true).append(true).open(path);
    // Use one write per line: tests of several threads and programs append to the same file.
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("record a skipped test");
}
