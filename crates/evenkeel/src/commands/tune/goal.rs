//! The goal file: a plan made from the result of a search, with the evidence inside it.

use std::path::Path;

use evenkeel_change::Cannot;
use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_trial::search::{Answer, Evidence, GoalFile, HostWords, SearchDesign, WorkloadSpec};
use evenkeel_workload::SETTING_PREFIX;

use super::context::SearchContext;
use crate::exit;
use crate::failure::Failure;
use crate::output_file;
use crate::selection::{Selection, Term};
use crate::show::tune::SearchResult;

/// A goal file, if there is one.
pub(super) struct Written {
    /// The path of the file.
    pub(super) file: Option<String>,
    /// Whether `evenkeel apply` accepts the file as it is.
    pub(super) applies: bool,
    /// Warnings for the user.
    pub(super) notes: Vec<String>,
}

/// Writes the file, unless the set has only settings of the workload.
pub(super) fn write(
    search: &SearchContext<'_>,
    file: &Path,
    evidence: (&SearchDesign, WorkloadSpec, HostWords),
    result: &SearchResult,
) -> Result<Written, Failure> {
    let SearchContext { out_args: args, state, root, facts, .. } = search;
    if !has_a_plan(&result.answer) {
        let why =
            "no goal file was written: the set has only settings of the workload, which `evenkeel apply` can't set";
        return Ok(Written { file: None, applies: false, notes: vec![why.to_owned()] });
    }
    let settings = result.answer.set.iter().flat_map(|chosen| chosen.settings.clone());
    // The workload's own settings do not belong to the host. The server's operator has to set them.
    let (of_workload, settings): (Vec<String>, Vec<String>) =
        settings.partition(|text| text.starts_with(SETTING_PREFIX));
    let mut notes: Vec<String> = of_workload
        .iter()
        .map(|text| {
            format!("{text} is part of the set, but `evenkeel apply` can't set it: configure your server with it")
        })
        .collect();
    let kept = if args.persist { Vec::new() } else { in_no_file(facts, &settings)? };
    let term = if args.persist || !kept.is_empty() { Term::Lasting } else { Term::Runtime };
    let (design, spec, host) = evidence;
    let selection = Selection::of_settings(settings, args.unit.clone());
    let mut plan = selection.plan(root, facts, &state.read()?, term)?.plan;
    plan.title = format!("tuned: {} of {}", design.metric.name, spec.name);
    let cannot: &[Cannot] = plan.persist.as_ref().map_or(&[], |lasting| &lasting.persist.cannot);
    notes.extend(words(&kept, cannot, &plan.settings));
    let applies = !cannot.iter().any(|cannot| plan.settings.contains(&cannot.setting));
    if !applies && args.unit.is_none() {
        let file = file.display();
        notes.push(format!(
            "`{} --out {file} --unit YOUR.service` writes a goal file that `evenkeel apply` accepts",
            search.resume
        ));
    }
    let written = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string();
    let workload = (spec, result.workload.clone());
    let goal = GoalFile { plan, evidence: Evidence::new(design, workload, host, result.answer.clone(), written) };
    let text = goal.text().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    std::fs::write(file, text).map_err(|error| output_file::failure(file, &error))?;
    Ok(Written { file: Some(file.display().to_string()), applies, notes })
}

/// How to get a goal file that evenkeel could not write.
pub(super) fn again(search: &SearchContext<'_>, file: &Path) -> String {
    let args = search.out_args;
    let persist = if args.persist { " --persist" } else { "" };
    let unit = args.unit.as_ref().map_or_else(String::new, |unit| format!(" --unit {unit}"));
    let again = format!("`{} --out FILE{persist}{unit}`", search.resume);
    format!("the result is stored: {again} writes it to another file than {} without measuring again", file.display())
}

/// Whether the set has settings of the host.
fn has_a_plan(answer: &Answer) -> bool {
    answer.set.iter().flat_map(|chosen| &chosen.settings).any(|text| !text.starts_with(SETTING_PREFIX))
}

/// The settings that last only while a process keeps a file open. Only a persistent plan can apply them.
fn in_no_file(facts: &Facts, settings: &[String]) -> Result<Vec<String>, Failure> {
    let bad = |error| Failure::text(exit::NOT_POSSIBLE, "plan the set", error);
    let parsed = settings.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>().map_err(bad)?;
    let plan = Plan::from_settings(facts, &parsed).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let kept = plan.steps.iter().filter(|step| !matches!(step.action, Action::Write { .. }));
    let names = |knob: &str| parsed.iter().find(|setting| setting.knob.id == knob).map(ToString::to_string);
    Ok(kept.filter_map(|step| names(&step.knob)).collect())
}

/// The note about a plan that persists because these settings would otherwise not last.
fn words(kept: &[String], cannot: &[Cannot], own: &[String]) -> Vec<String> {
    let is_refused = |setting: &String| cannot.iter().any(|cannot| cannot.setting == *setting);
    let mut notes = Vec::new();
    // Leave out a refused setting here.
    // Otherwise one line would report that it persists, and the next line that it does not.
    if let Some(setting) = kept.iter().find(|setting| !is_refused(setting)) {
        let rest = if own.iter().any(is_refused) { ", except the following" } else { "" };
        notes.push(format!(
            "{setting} is in no file that persists: the plan makes the set persist across reboots{rest}"
        ));
    }
    for Cannot { setting, why, todo } in cannot {
        let refused = if own.contains(setting) { "; `evenkeel apply` refuses this plan" } else { "" };
        notes.push(format!("{setting} can't persist: {why}; {todo}{refused}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_on_one_set_agree() {
        let (dma, slack) = ("cpuidle.dma_latency_us=0".to_owned(), "process.timer_slack_ns=1".to_owned());
        let cannot = || Cannot { setting: slack.clone(), why: "nobody said which unit".into(), todo: "--unit".into() };
        let is_refused = "process.timer_slack_ns=1 can't persist: nobody said which unit; --unit; `evenkeel apply` \
                          refuses this plan";
        let lasts =
            "cpuidle.dma_latency_us=0 is in no file that persists: the plan makes the set persist across reboots";
        let lasts_but = format!("{lasts}, except the following");
        let table: [(&[&String], bool, &[&str]); 4] = [
            (&[&dma], false, &[lasts]),
            (&[&slack], true, &[is_refused]),
            (&[&dma, &slack], true, &[&lasts_but, is_refused]),
            (&[], false, &[]),
        ];
        for (kept, is_cannot, expected) in table {
            let kept: Vec<String> = kept.iter().copied().cloned().collect();
            let cannot: Vec<Cannot> = is_cannot.then(cannot).into_iter().collect();
            assert_eq!(words(&kept, &cannot, &kept), expected, "{kept:?}");
        }
    }
}
