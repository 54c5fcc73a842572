//! The goal file: a plan made of what a search found, with the evidence inside it.

use std::path::Path;

use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_sys::Root;
use evenkeel_trial::search::{Answer, Evidence, GoalFile, HostWords, SearchDesign, WorkloadSpec};
use evenkeel_trial::workload::SETTING_PREFIX;

use super::{Args, Told};
use crate::exit;
use crate::failure::Failure;
use crate::selection::{Selection, Term};

/// Writes it, and returns what a user should know of it.
pub(super) fn write(
    args: &Args,
    root: &Root,
    facts: &Facts,
    file: &Path,
    evidence: (&SearchDesign, WorkloadSpec, HostWords),
    told: &Told,
) -> Result<Vec<String>, Failure> {
    let settings = told.answer.set.iter().flat_map(|chosen| chosen.settings.clone());
    // What the workload is like is not the host's: whoever runs the server sets it there.
    let (of_workload, settings): (Vec<String>, Vec<String>) =
        settings.partition(|text| text.starts_with(SETTING_PREFIX));
    let mut notes: Vec<String> = of_workload
        .iter()
        .map(|text| {
            format!("{text} is part of the set, and a setting of the workload: no plan sets it, give it to your server")
        })
        .collect();
    let term = term(args, facts, &settings, &mut notes)?;
    let (design, spec, host) = evidence;
    let selection = Selection::of_settings(settings, args.unit.clone());
    let mut plan = selection.plan(root, facts, &args.state.read()?, term)?.plan;
    plan.title = format!("tuned: {} of {}", design.metric.name, spec.name);
    for cannot in plan.keep.iter().flat_map(|lasting| &lasting.keep.cannot) {
        notes.push(format!("{} can't be made to last: {}; {}", cannot.setting, cannot.why, cannot.todo));
    }
    let written = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string();
    let workload = (spec, told.workload.clone());
    let goal = GoalFile { plan, evidence: Evidence::new(design, workload, host, told.answer.clone(), written) };
    let text = goal.text().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    std::fs::write(file, text)
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, format!("write the goal {}", file.display()), &error))?;
    Ok(notes)
}

/// Whether the set has settings of the host.
pub(super) fn has_a_plan(answer: &Answer) -> bool {
    answer.set.iter().flat_map(|chosen| &chosen.settings).any(|text| !text.starts_with(SETTING_PREFIX))
}

/// Until the next boot, unless it was asked otherwise, or a setting lasts only as long as something keeps it.
fn term(args: &Args, facts: &Facts, settings: &[String], notes: &mut Vec<String>) -> Result<Term, Failure> {
    if args.persist {
        return Ok(Term::Lasting);
    }
    let bad = |error| Failure::text(exit::NOT_POSSIBLE, "plan the set", error);
    let parsed = settings.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>().map_err(bad)?;
    let plan = Plan::of(facts, &parsed).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
    let kept = plan.steps.iter().find(|step| !matches!(step.action, Action::Write { .. }));
    Ok(match kept {
        None => Term::Runtime,
        Some(step) => {
            notes.push(format!("{} is in no file that stays: the plan makes the set outlive a boot", step.knob));
            Term::Lasting
        }
    })
}
