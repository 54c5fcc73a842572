//! Runs one check.
//! The runner examines the machine, runs the check in its own process, and examines the machine again after a failure.
//! A failure counts only if the machine was fit before and after.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use evenkeel_sys::thread;
use evenkeel_testkit::fitness::Needs;
use evenkeel_testkit::live::NOT_JUDGED_VARIABLE;

use crate::check::Check;
use crate::results::{CheckResult, Outcome};

/// The time of one examination.
pub(crate) const LOOK_SECONDS: u64 = 1;
/// A check that fails once on a fit machine runs again, because the machine may have paused during the check.
const RUNS_MAX: usize = 2;
/// The maximum share of CPU time that the hypervisor may take during a check.
const STEAL_SHARE_MAX: f64 = 0.02;
/// A check hangs if it takes longer than this multiple of its expected time, plus this much.
const HANG_FACTOR: u32 = 10;
const HANG_SECONDS: u64 = 120;
/// The lines kept of a failed check's output.
const OUTPUT_LINES: usize = 40;

/// How one run of a check ended.
enum Ended {
    Passed,
    NotJudged(String),
    Failed { output: String },
}

pub(crate) fn run(check: &Check) -> Result<CheckResult> {
    let begun = Instant::now();
    let mut failures = Vec::new();
    let mut outcome = None;
    while outcome.is_none() && failures.len() < RUNS_MAX {
        let unfit_before = unfit();
        let ticks = cpu_ticks();
        match once(check)? {
            Ended::Passed => outcome = Some(Outcome::Passed { failed_before: failures.len() }),
            Ended::NotJudged(why) => outcome = Some(Outcome::NotJudged { why }),
            Ended::Failed { output } => match unfit_before.or_else(|| stolen_since(ticks)).or_else(unfit) {
                Some(why) => {
                    outcome = Some(Outcome::NotJudged { why: format!("it failed on an unfit machine: {why}") })
                }
                None => failures.push(output),
            },
        }
    }
    let outcome = outcome.unwrap_or_else(|| Outcome::Failed { output: failures.pop().unwrap_or_default() });
    Ok(CheckResult { name: check.name.clone(), outcome, seconds: begun.elapsed().as_secs_f64() })
}

fn once(check: &Check) -> Result<Ended> {
    let folder = std::env::temp_dir().join(format!("evenkeel-live-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context("make a folder for the check")?;
    let (not_judged, output) = (folder.join("not-judged"), folder.join("output"));
    let _ = std::fs::remove_file(&not_judged);
    let file = std::fs::File::create(&output)?;
    let mut command = Command::new(&check.program);
    command.args(["--exact", &check.name_in_program, "--test-threads=1", "--nocapture", "--include-ignored"]);
    // Like cargo, start it in the crate's folder, where the golden files are.
    command
        .current_dir(&check.folder)
        .env("CARGO_MANIFEST_DIR", &check.folder)
        .env(NOT_JUDGED_VARIABLE, &not_judged)
        .stdin(Stdio::null());
    command.stdout(file.try_clone()?).stderr(file).process_group(0);
    let mut child = command.spawn().with_context(|| format!("start {}", check.program.display()))?;
    let limit = Duration::from_secs(check.seconds) * HANG_FACTOR + Duration::from_secs(HANG_SECONDS);
    let succeeded = wait(&mut child, limit)?;
    let mut text = Vec::new();
    std::fs::File::open(&output)?.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let why = std::fs::read_to_string(&not_judged).unwrap_or_default();
    std::fs::remove_dir_all(&folder)?;
    Ok(match succeeded {
        Some(true) if why.is_empty() => Ended::Passed,
        Some(true) => Ended::NotJudged(why.trim().replace('\n', "; ")),
        Some(false) => Ended::Failed { output: last_lines(&text) },
        None => {
            Ended::Failed { output: format!("it took over {} s and was ended\n{}", limit.as_secs(), last_lines(&text)) }
        }
    })
}

/// Whether the check succeeded. `None` if it hung and was killed.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<bool>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begun.elapsed() > limit {
            // Kill its process group, so that its children end too.
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n")
}

/// The requirement that a CPU fails to meet now. `None` if all CPUs are fit.
fn unfit() -> Option<String> {
    let cpus: Vec<usize> = thread::affinity().map(|cpus| cpus.iter().collect()).unwrap_or_default();
    let look = |cpu: usize| std::thread::spawn(move || Some(format!("CPU {cpu}: {}", Needs::on_cpu(cpu).unmet()?)));
    let looks: Vec<_> = cpus.into_iter().map(look).collect();
    looks.into_iter().find_map(|look| look.join().unwrap_or_else(|_| Some("a look at a CPU failed".to_owned())))
}

/// The CPU time that was stolen so far, and the total CPU time, in ticks.
fn cpu_ticks() -> [u64; 2] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    [ticks.get(7).copied().unwrap_or(0), ticks.iter().sum()]
}

fn stolen_since([stolen, all]: [u64; 2]) -> Option<String> {
    let now = cpu_ticks();
    let share = now[0].saturating_sub(stolen) as f64 / now[1].saturating_sub(all).max(1) as f64;
    (share > STEAL_SHARE_MAX).then(|| format!("the hypervisor took {:.1} % of the CPU time", share * 100.0))
}
