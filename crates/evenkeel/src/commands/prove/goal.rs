//! `prove --goal FILE`: tests the set of a goal file again on this machine.
//! It uses the metric, the windows and the workload of the search.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use evenkeel_change::MAX_PLAN_BYTES;
use evenkeel_host::Facts;
use evenkeel_hostfs::user_file;
use evenkeel_trial::search::{Evidence, GoalFile, HostWords, WorkloadSpec};
use evenkeel_workload::SETTING_PREFIX;

use super::asked::TrialArgs;
use super::design::percent_of;
use crate::exit;
use crate::failure::Failure;
use crate::report::as_change;
use crate::show::Out;
use crate::times;
use crate::workload_args::{WorkloadArgs, workload_of};

/// `--goal` takes a file in two commands, and a word in four others, so the hint explains which commands take a file.
const HINT: &str = "--goal takes a file here, which `evenkeel tune --out FILE` writes; `audit`, `plan` and `apply` take --goal latency, throughput \
                    or density";

/// Completes the arguments of a trial from the file. The user's own arguments take precedence.
pub(super) fn asked_by(args: &TrialArgs, file: &Path, facts: &Facts, out: &Out) -> Result<TrialArgs, Failure> {
    let goal = read(file)?;
    let mut asked = args.clone();
    asked.settings = settings_of(&goal, file)?;
    let evidence = &goal.evidence;
    let decision = &mut asked.plan.decision;
    decision.metric.get_or_insert_with(|| evidence.metric.name.to_string());
    if decision.window.asked().is_none() {
        decision.window = decision.window.or(window(evidence, file)?);
    }
    if decision.metric.as_deref() == Some(evidence.metric.name.as_ref()) {
        decision.smallest_effect = decision.smallest_effect.or_ratio(evidence.smallest_effect_ratio);
        if decision.guard.is_empty() {
            decision.guard = guards(evidence);
        }
    }
    // If the user names another workload, the trial shows whether the set helps that workload.
    if args.workload.workload.is_none() && args.workload.command.is_empty() {
        asked.workload = workload(&evidence.workload, file)?;
    }
    let then =
        evidence.answer.effect.as_ref().map_or_else(|| "not proved".to_owned(), |effect| as_change(effect.ratio));
    out.status(&format!(
        "found {}: {} was {then} with {}",
        evidence.written, evidence.metric.title, evidence.workload_words
    ));
    for difference in goal.differences(&HostWords::from_facts(facts)) {
        out.status(&format!("found on another machine: {difference}"));
    }
    Ok(asked)
}

/// The settings of a goal file, as words of a command line.
///
/// # Errors
/// If the file is not a goal, or has no settings.
pub(crate) fn settings(file: &Path) -> Result<Vec<String>, Failure> {
    settings_of(&read(file)?, file)
}

fn settings_of(goal: &GoalFile, file: &Path) -> Result<Vec<String>, Failure> {
    let of_host = goal.settings().map_err(|error| wrong(file, error.cause()))?;
    // No plan contains settings of the workload, so take them from the evidence.
    let chosen = goal.evidence.answer.set.iter().flat_map(|chosen| &chosen.settings);
    let of_workload = chosen.filter(|text| text.starts_with(SETTING_PREFIX)).cloned();
    let settings: Vec<String> = of_host.iter().map(ToString::to_string).chain(of_workload).collect();
    if settings.is_empty() { Err(wrong(file, "it has no settings")) } else { Ok(settings) }
}

fn window(evidence: &Evidence, file: &Path) -> Result<Duration, Failure> {
    times::window(&times::option(Duration::from_millis(evidence.window_ms))).map_err(|_| {
        let cause = format!("its windows last {} ms, but 100 to 600000 ms are allowed", evidence.window_ms);
        wrong(file, cause).hint("set the length with --window")
    })
}

/// The guards of the search as arguments. If the search had no guards, the trial has no guards either.
fn guards(evidence: &Evidence) -> Vec<String> {
    let guards = evidence.guards.iter();
    let named: Vec<String> =
        guards.map(|guard| format!("{}={}", guard.metric.name, percent_of(guard.harm_ratio))).collect();
    if named.is_empty() { vec!["none".to_owned()] } else { named }
}

/// The failure for a file that is not a goal.
fn wrong(file: &Path, why: impl Display) -> Failure {
    Failure::text(exit::WRONG_USE, format!("read the goal {}", file.display()), why).hint(HINT)
}

fn read(file: &Path) -> Result<GoalFile, Failure> {
    let tried = || format!("read the goal {}", file.display());
    let text = user_file::read_text(file, MAX_PLAN_BYTES as u64)
        .map_err(|error| Failure::user_file(tried(), &error).or_hint(HINT))?;
    GoalFile::parse(&text).map_err(|error| wrong(file, error.cause()))
}

/// The workload that the file names. A file can come from anywhere, so evenkeel does not run a command from it.
fn workload(spec: &WorkloadSpec, file: &Path) -> Result<WorkloadArgs, Failure> {
    let workload = workload_of(&spec.arguments).map_err(|failure| wrong(file, failure.error))?;
    if !workload.runs_command() {
        return Ok(workload);
    }
    let cause = "its workload is a command, and evenkeel runs no command that only a file names";
    let again = format!("evenkeel prove --goal {} {}", file.display(), spec.arguments);
    Err(Failure::text(exit::WRONG_USE, format!("prove the goal {}", file.display()), cause)
        .hint(format!("check the command, then run: {again}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use evenkeel_hostfs::{Capture, Root};

    use super::*;
    use crate::args::OutputOptions;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TrialArgs,
    }

    const GOAL: &str = r#"{"format": 1, "evenkeel": "0.1.0", "title": "t", "settings": ["vm.swappiness=10"], "steps": [], "evidence": {
        "format": 1, "written": "2026-11-23", "smallest_effect_ratio": 0.02, "confidence": 0.95, "window_ms": 250, "settle_ms": 50,
        "metric": {"name": "lat_us", "title": "lat_us", "unit": "us", "better": "lower"},
        "guards": [{"metric": {"name": "cpu_share", "title": "", "unit": "share", "better": "lower"}, "harm_ratio": 0.07}],
        "seed": 1, "workload": {"name": "tick", "placement": "apart", "arguments": "--workload tick"}, "workload_words": "w", "host": {},
        "answer": {"verdict": "better", "ended": "whole", "set": [], "along": {}, "knobs": [], "windows": {}, "took_ms": 1}}}"#;

    fn asked(goal: &str, line: &str) -> Result<TrialArgs, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("goal.json");
        std::fs::write(&file, goal).unwrap();
        let line = format!("x --goal {} {line}", file.display());
        let args = Line::try_parse_from(line.split_whitespace()).unwrap().args;
        let root = Root::captured(Capture::parse(include_str!("../../../tests/suite/host.txt")).unwrap());
        let out = Out::new(OutputOptions { json: true, ..OutputOptions::default() });
        let asked = asked_by(&args, &file, &Facts::probe(&root), &out);
        asked.map_err(|failure| failure.message().replace(&file.display().to_string(), "FILE"))
    }

    #[test]
    fn the_design_of_a_goal_is_taken_but_for_what_was_given() {
        for (line, metric, window_ms, guards) in [
            ("", "lat_us", 250, &["cpu_share=7"][..]),
            ("--window 300ms", "lat_us", 300, &["cpu_share=7"]),
            ("--window-ms 300", "lat_us", 300, &["cpu_share=7"]),
            ("--guard none", "lat_us", 250, &["none"]),
            ("--guard other=3", "lat_us", 250, &["other=3"]),
            // The goal's guards belong to its metric.
            // If the user names another metric, the trial does not use these guards.
            ("--metric other_us", "other_us", 250, &[]),
        ] {
            let plan = asked(GOAL, line).unwrap().plan.decision;
            assert_eq!((plan.metric.as_deref(), plan.window().as_millis()), (Some(metric), window_ms), "{line}");
            assert_eq!(plan.guard, guards, "{line}");
        }
        let unguarded = GOAL.replace("\"guards\": [{", "\"before\": [{");
        assert_eq!(asked(&unguarded, "").unwrap().plan.decision.guard, ["none"]);
    }

    #[test]
    fn a_file_that_is_no_goal_is_named_with_what_is_wrong() {
        for (from, to, expected) in [
            (GOAL, "", "read the goal FILE: it is empty"),
            (GOAL, "{\"format\": 1}", "read the goal FILE: it has no field \""),
            ("\"evidence\"", "\"other\"", "read the goal FILE: it is a plan without evidence"),
            ("\"window_ms\": 250", "\"window_ms\": 1", "read the goal FILE: its windows last 1 ms, but 100 to 600000"),
            ("swappiness=10", "swappiness=abc", "read the goal FILE: vm.swappiness does not accept \"abc\""),
            ("vm.swappiness", "vm.colour", "read the goal FILE: unknown knob \"vm.colour\""),
            ("\"vm.swappiness=10\"", "", "read the goal FILE: it has no settings"),
            ("--workload tick", "--colour", "read the goal FILE: read the workload --colour"),
            (
                "--workload tick",
                "-- server",
                "prove the goal FILE: its workload is a command, and evenkeel runs no command",
            ),
        ] {
            let error = asked(&GOAL.replace(from, to), "").err().unwrap_or_default();
            assert!(error.starts_with(&format!("failed to {expected}")), "{to}: {error}");
        }
    }
}
