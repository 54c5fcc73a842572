//! Tests `profile record` as a process: its files after a kill,
//! and the function names of a program that no longer exists.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use evenkeel_sys::process;
use evenkeel_testkit::skipped;
use serde_json::Value;

use crate::schemas;
use crate::wait::{cpu_ns, until};

/// A program that uses 60 ms of CPU time in one function.
const PROGRAM: &str = r#"
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) unsigned long find_a_path(unsigned long n) {
    volatile unsigned long sum = 0;
    for (unsigned long at = 0; at < n; at++) sum += at * at;
    return sum;
}
/* With an argument it goes on until it is killed, or for a minute: it must not outlive a test that is. */
int main(int count, char **words) {
    unsigned long sum;
    (void)words;
    if (count > 1) alarm(60);
    do sum = find_a_path(1000000UL); while (count > 1 || clock() < CLOCKS_PER_SEC * 6 / 100);
    return (int)(sum & 1) * 0;
}
"#;

fn evenkeel(folder: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    program.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    program
}

/// The answer of a recording. `None` if the user may not record; then the test is skipped.
fn answer(output: &Output) -> Option<Value> {
    if output.status.code() == Some(3) {
        skipped(String::from_utf8_lossy(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schemas::check_any(&answer);
    Some(answer)
}

/// Compiles the program into this folder.
fn compiled(folder: &Path, flags: &[&str]) {
    std::fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let made = Command::new("cc").args(flags).args(["-O1", "program.c", "-o", "program"]).current_dir(folder).status();
    assert!(made.unwrap().success());
}

/// The share of the function that works, according to `profile view`.
fn share(folder: &Path, options: &[&str]) -> f64 {
    let output = evenkeel(folder).args(["profile", "view", "x.data", "--json"]).args(options).output().unwrap();
    let answer = answer(&output).unwrap();
    let rows = answer["functions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == "find_a_path");
    row.map_or(0.0, |row| row["own_share"].as_f64().unwrap())
}

#[test]
fn a_program_that_is_gone_is_named_by_what_was_kept_at_the_end() {
    // Test with a build ID and without one. Without a build ID, the cached names are valid only for this recording.
    for flags in [["-g", "-Wl,--build-id"], ["-g", "-Wl,--build-id=none"]] {
        let folder = tempfile::tempdir().unwrap();
        compiled(folder.path(), &flags);
        let record = ["profile", "record", "--hz", "1000", "--output", "x.data", "--json", "--", "./program"];
        let output = evenkeel(folder.path()).args(record).output().unwrap();
        let Some(answer) = answer(&output) else { return };
        let user = &answer["names"]["user"];
        assert!(answer["names"]["missed"].is_null() && user["frames"].as_u64() > Some(10), "{answer:#}");
        let there = share(folder.path(), &["--no-cache"]);
        // The other samples come from the start of the program.
        assert!(there > 0.5, "{there}");
        std::fs::remove_file(folder.path().join("program")).unwrap();
        let (without, with) = (share(folder.path(), &["--no-cache"]), share(folder.path(), &[]));
        assert_eq!((without, with), (0.0, there), "{flags:?}");
    }
}

#[test]
fn a_program_that_was_built_anew_is_not_named_by_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    compiled(folder.path(), &["-g", "-Wl,--build-id"]);
    // The kernel mapped the program before the recording began, so it writes no record of the mapping.
    let program = Running(Command::new("./program").arg("on").current_dir(folder.path()).spawn().unwrap());
    until("the program is at work", || cpu_ns(program.0.id()) > 10_000_000);
    let pid = program.0.id();
    let mut is_recorded = false;
    // The file appears slightly before the first sample.
    // If the machine pauses in between, a short recording may have no samples.
    until("something is recorded", || match recorded_for_a_moment(folder.path(), pid) {
        None => true,
        Some(answer) => {
            assert!(answer["names"].is_null(), "{answer:#}");
            is_recorded = answer["samples"].as_u64() > Some(10);
            is_recorded
        }
    });
    drop(program);
    if !is_recorded {
        return;
    }
    let before = share(folder.path(), &["--no-cache"]);
    assert!(before > 0.5, "{before}");
    let (recorded, path) = (folder.path().join("x.data"), folder.path().join("program"));
    compiled(folder.path(), &["-g", "-Wl,--build-id", "-DOTHER", "-fno-pie", "-no-pie"]);
    // The modification time of the recording must not matter.
    let long_ago = std::fs::metadata(&recorded).unwrap().modified().unwrap() - Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(share(folder.path(), &["--no-cache"]), 0.0);
    let view = evenkeel(folder.path()).args(["profile", "view", "x.data", "--json", "--no-cache"]).output().unwrap();
    let view: Value = schemas::parse("profile-view", &view.stdout);
    let unnamed = view["names"]["unnamed"].as_array().unwrap();
    let of_program = unnamed.iter().find(|one| one["file"] == path.to_str().unwrap());
    let detail = of_program.and_then(|one| one["detail"].as_str());
    assert!(detail.is_some_and(|detail| detail.starts_with("its build id is ")), "{unnamed:#?}");
}

/// A running program. Dropping it kills the program.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the program has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records a working process until the process has used some CPU time, and then ends the recording by a signal.
/// `None` if the user may not record.
fn recorded_for_a_moment(folder: &Path, pid: u32) -> Option<Value> {
    let record = ["profile", "record", "--hz", "1000", "--output", "x.data", "--json", "--no-cache", "--pid"];
    let recorder = recorder(folder, &record, pid);
    let start_ns = cpu_ns(pid);
    until("the process has had some CPU time", || cpu_ns(pid) > start_ns + 100_000_000);
    process::ask_to_end(recorder.id());
    answer(&recorder.wait_with_output().unwrap())
}

/// Starts to record a process. Returns when the recorder has created its file, or has ended.
fn recorder(folder: &Path, record: &[&str], pid: u32) -> Child {
    let mut program = evenkeel(folder);
    program.args(record).arg(pid.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = program.spawn().unwrap();
    let fds = format!("/proc/{}/fd", recorder.id());
    let holds_file = || {
        let links = std::fs::read_dir(&fds).into_iter().flatten().flatten();
        let mut links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.any(|link| link.starts_with(folder))
    };
    until("the recorder holds its file", || recorder.try_wait().unwrap().is_some() || holds_file());
    recorder
}

#[test]
fn one_that_is_killed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let record = ["profile", "record", "--output", "x.data", "--seconds", "60", "--pid"];
    let mut recorder = recorder(folder.path(), &record, std::process::id());
    if recorder.try_wait().unwrap().is_some() {
        let output = recorder.wait_with_output().unwrap();
        assert!(answer(&output).is_none(), "{output:?}");
        return;
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
