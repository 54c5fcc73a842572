//! `prove --goal FILE`: the set of a goal file once more, by the metric, the windows and the workload that it was found with, on this
//! machine as it is now.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use evenkeel_change::MAX_PLAN_BYTES;
use evenkeel_host::Facts;
use evenkeel_trial::search::{GoalFile, HostWords, WorkloadSpec};
use evenkeel_trial::workload::SETTING_PREFIX;

use super::Args;
use crate::commands::workload_of;
use crate::exit;
use crate::failure::Failure;
use crate::report::as_change;
use crate::show::Out;
use crate::workload_args::WorkloadArgs;

/// The arguments with what the file says filled in; what was given besides stands.
pub(super) fn asked_by(args: &Args, file: &Path, facts: &Facts, out: &Out) -> Result<Args, Failure> {
    let goal = read(file)?;
    let wrong = |error| {
        Failure::new(exit::WRONG_USE, anyhow::Error::from(error)).hint("`evenkeel tune --out FILE` writes goals")
    };
    let mut asked = args.clone();
    asked.settings = goal.settings().map_err(wrong)?.iter().map(ToString::to_string).collect();
    let evidence = &goal.evidence;
    // What no plan sets, and was part of the set all the same.
    let chosen = evidence.answer.set.iter().flat_map(|chosen| &chosen.settings);
    asked.settings.extend(chosen.filter(|text| text.starts_with(SETTING_PREFIX)).cloned());
    asked.plan.metric = asked.plan.metric.or_else(|| Some(evidence.metric.name.to_string()));
    asked.plan.window_ms =
        u32::try_from(evidence.window_ms).ok().filter(|ms| (100..=600_000).contains(ms)).ok_or_else(|| {
            Failure::text(exit::WRONG_USE, file.display(), format!("a window of {} ms", evidence.window_ms))
        })?;
    if asked.plan.metric.as_deref() == Some(evidence.metric.name.as_ref()) {
        asked.plan.smallest_effect = asked.plan.smallest_effect.or_ratio(evidence.smallest_effect_ratio);
    }
    // Who names another workload wants to know whether the set helps that one.
    if args.workload.workload.is_none() && args.workload.command.is_empty() {
        asked.workload = workload(&evidence.workload, file)?;
    }
    let then =
        evidence.answer.effect.as_ref().map_or_else(|| "not proved".to_owned(), |effect| as_change(effect.ratio));
    out.say(&format!(
        "found {}: {} was {then} with {}",
        evidence.written, evidence.metric.title, evidence.workload_words
    ));
    for difference in goal.differences(&HostWords::of(facts)) {
        out.say(&format!("another machine: {difference}"));
    }
    Ok(asked)
}

fn read(file: &Path) -> Result<GoalFile, Failure> {
    let tried = || format!("read the goal {}", file.display());
    let mut text = String::new();
    // One byte more than a goal may have, so that a longer one is seen as such.
    let limit = MAX_PLAN_BYTES as u64 + 1;
    File::open(file)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
    GoalFile::parse(&text).map_err(|error| {
        Failure::text(exit::WRONG_USE, file.display(), error).hint("`evenkeel tune --out FILE` writes goals")
    })
}

/// The workload that the file tells of. A command is not run since a file says so: a file can come from anywhere.
fn workload(spec: &WorkloadSpec, file: &Path) -> Result<WorkloadArgs, Failure> {
    let workload = workload_of(&spec.arguments)?;
    if workload.command.is_empty() && workload.of_command.is_empty() {
        return Ok(workload);
    }
    let cause = "its workload is a command, which is not run because a file says so";
    let again = format!("evenkeel prove --goal {} {}", file.display(), spec.arguments);
    Err(Failure::text(exit::WRONG_USE, file.display(), cause)
        .hint(format!("look at it, and name it yourself: {again}")))
}
