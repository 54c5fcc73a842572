//! Runs other tools on this machine, for comparison.

use std::process::Command;

use evenkeel_testkit::skipped;

/// The output of a tool. `None`, and a recorded skip, if the tool is not installed or fails.
pub(crate) fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let why = match Command::new(program).args(arguments).env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => return Some(String::from_utf8(output.stdout).unwrap()),
        Ok(output) => format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => error.to_string(),
    };
    skipped(format_args!("{program} {}: {why}", arguments.join(" ")));
    None
}
