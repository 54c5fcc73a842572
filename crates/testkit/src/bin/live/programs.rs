//! Finds the live checks. The program `live` of each crate lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::check::Check;
use crate::results::Results;

/// The file with the recorded time of each check. It predicts the time of a run.
const SECONDS_FILE: &str = "crates/testkit/live-seconds.txt";
/// The expected time of a check that is not in the list.
const SECONDS_UNKNOWN: u64 = 10;

/// The variable with cargo's arguments. The Makefile builds tests with the same ones, so nothing is compiled twice.
const SELECTED_BY: &str = "EVENKEEL_TESTED";

/// Builds the programs, and asks each for its checks.
pub(crate) fn find(top: &Path) -> Result<Vec<Check>> {
    let seconds = recorded(top);
    let mut checks = Vec::new();
    let selected = std::env::var(SELECTED_BY).unwrap_or_default();
    let mut arguments = vec!["test", "--locked", "--test", "live", "--no-run", "--message-format=json"];
    arguments.extend(selected.split_whitespace());
    let built = cargo(top, &arguments)?;
    for message in built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(program) = message["executable"].as_str() else { continue };
        if message["target"]["name"] != "live" {
            continue;
        }
        let manifest = Path::new(message["manifest_path"].as_str().context("a program without a manifest")?);
        let folder = manifest.parent().context("a manifest without a folder")?.to_owned();
        let crate_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let extra = listed(program, &["--ignored"])?;
        for name_in_program in listed(program, &[])? {
            let is_extra = extra.contains(&name_in_program);
            let name = format!("{crate_name}::{name_in_program}");
            let seconds = seconds.get(&name).copied().unwrap_or(SECONDS_UNKNOWN);
            let (crate_name, folder) = (crate_name.clone(), folder.clone());
            checks.push(Check {
                name,
                crate_name,
                program: program.into(),
                name_in_program,
                folder,
                seconds,
                is_extra,
            });
        }
    }
    checks.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(checks)
}

/// The names of a program's checks.
fn listed(program: &str, which: &[&str]) -> Result<Vec<String>> {
    let output =
        Command::new(program).args(["--list", "--format", "terse"]).args(which).output().context("list checks")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn cargo(top: &Path, arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // `cargo run` describes this program to it.
    // Build scripts that read such variables would run again, and all that depends on them would be compiled again,
    // here and at the next `make test`.
    for (name, _) in std::env::vars_os() {
        let is_of_this_program = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "LD_LIBRARY_PATH"].contains(&name)
        });
        if is_of_this_program {
            command.env_remove(name);
        }
    }
    let output = command.args(arguments).current_dir(top).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cargo {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn recorded(top: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(top.join(SECONDS_FILE)).unwrap_or_default();
    let line =
        |line: &str| line.split_once(' ').and_then(|(seconds, name)| Some((name.to_owned(), seconds.parse().ok()?)));
    text.lines().filter_map(line).collect()
}

/// Writes the times of this run and the continued one, and the old times of other checks. Removed checks are dropped.
pub(crate) fn record(top: &Path, checks: &[Check], results: &Results) -> Result<()> {
    let mut seconds: BTreeMap<&str, u64> = checks.iter().map(|check| (check.name.as_str(), check.seconds)).collect();
    for result in results.all() {
        seconds.entry(&result.name).and_modify(|seconds| *seconds = result.seconds.ceil() as u64);
    }
    let lines: String = seconds.iter().map(|(name, seconds)| format!("{seconds} {name}\n")).collect();
    std::fs::write(top.join(SECONDS_FILE), lines).context("write the expected seconds")
}

/// The crates that commits of the last day touched.
pub(crate) fn touched_crates(top: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    let output = git.args(["log", "--since=24 hours ago", "--name-only", "--format="]).current_dir(top).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let crates = text.lines().filter_map(|path| path.strip_prefix("crates/")?.split('/').next());
    crates.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}
