//! The results of checks: printed as they end, stored in `target/live/results.jsonl`, and summarized at the end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::check::Check;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The check passed, after this many failures on a fit machine.
    Passed { failed_before: usize },
    /// The check failed on a fit machine.
    Failed { output: String },
    /// This machine could not judge the check.
    NotJudged { why: String },
}

impl Outcome {
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, Outcome::Failed { .. })
    }

    pub(crate) fn is_not_judged(&self) -> bool {
        matches!(self, Outcome::NotJudged { .. })
    }
}

/// The result of one check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
}

/// The results of this run, and of the previous run that it continues.
pub(crate) struct Results {
    path: PathBuf,
    file: File,
    before: Vec<CheckResult>,
    now: Vec<CheckResult>,
}

impl Results {
    /// Starts a new run, or continues the last one.
    pub(crate) fn open(top: &Path, resume: bool) -> Result<Results> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), PathBuf::from);
        let folder = target.join("live");
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let path = folder.join("results.jsonl");
        let text = if resume { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        let before = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = File::options().create(true).write(true).append(resume).truncate(!resume).open(&path);
        let file = file.with_context(|| format!("write {}", path.display()))?;
        Ok(Results { path, file, before, now: Vec::new() })
    }

    /// The checks that passed in the continued run.
    pub(crate) fn passed(&self) -> BTreeSet<String> {
        let mut passed = BTreeSet::new();
        for result in &self.before {
            match result.outcome {
                Outcome::Passed { .. } => passed.insert(result.name.clone()),
                _ => passed.remove(&result.name),
            };
        }
        passed
    }

    pub(crate) fn this_run(&self) -> &[CheckResult] {
        &self.now
    }

    /// All results, those of the continued run first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CheckResult> {
        self.before.iter().chain(&self.now)
    }

    /// Prints which check begins.
    pub(crate) fn announce(&self, number: usize, of: usize, check: &Check) {
        print!("[{number}/{of}] {} ({} s) ... ", check.name, check.seconds);
        let _ = std::io::stdout().flush();
    }

    /// Prints and stores a result.
    pub(crate) fn add(&mut self, result: CheckResult) -> Result<()> {
        let seconds = result.seconds;
        match &result.outcome {
            Outcome::Passed { failed_before: 0 } => println!("passed in {seconds:.1} s"),
            Outcome::Passed { .. } => println!("passed in {seconds:.1} s, at the second run"),
            Outcome::Failed { output } => println!("FAILED in {seconds:.1} s\n{output}\n"),
            Outcome::NotJudged { why } => println!("not judged: {why}"),
        }
        writeln!(self.file, "{}", serde_json::to_string(&result)?)
            .with_context(|| format!("write {}", self.path.display()))?;
        self.now.push(result);
        Ok(())
    }

    /// Lists what failed and what was not judged, and counts.
    pub(crate) fn summary(&self) {
        println!();
        for result in &self.now {
            match &result.outcome {
                Outcome::Failed { .. } => println!("failed: {}", result.name),
                Outcome::NotJudged { why } => println!("not judged: {}: {why}", result.name),
                Outcome::Passed { failed_before } if *failed_before > 0 => {
                    println!("passed at the second run only: {}", result.name);
                }
                Outcome::Passed { .. } => {}
            }
        }
        let count = |is: fn(&Outcome) -> bool| self.now.iter().filter(|result| is(&result.outcome)).count();
        let (failed, not_judged) = (count(Outcome::is_failed), count(Outcome::is_not_judged));
        let passed = self.now.len() - failed - not_judged;
        println!(
            "\nlive checks: {passed} passed, {failed} failed, {not_judged} not judged; kept in {}",
            self.path.display()
        );
    }
}

/// A time as text.
pub(crate) fn time(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}
