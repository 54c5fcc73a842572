//! The pages of `plan`, `diff` and `image`.

use std::path::Path;

use evenkeel_change::{Content, Lasting, PersistedFile, PlanFile, PlannedStep, Transaction};
use evenkeel_host::{Advice, TakesEffect};
use serde::Serialize;

use crate::show::advice::opinion;
use crate::show::change::{entry, name, steps};
use crate::show::page::{BAD, DIM, GOOD, HEADING, Indent, PLAIN, Page, WARN};
use crate::show::step::{how, value};

/// The planned changes.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Difference {
    /// The steps whose values differ from the wanted values.
    pub(crate) steps: Vec<PlannedStep>,
    /// The files that differ from the wanted files.
    pub(crate) files: Vec<FileDifference>,
}

/// A file that the plan would change.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct FileDifference {
    pub(crate) path: String,
    /// The difference, in the unified format that `patch` accepts.
    pub(crate) diff: String,
}

pub(crate) fn page(plan: &PlanFile) -> String {
    judged(plan, &[])
}

/// The audit's remarks about the steps that the user named, one line per remark.
pub(crate) fn opinions(plan: &PlanFile, advice: &[Advice]) -> String {
    let mut page = Page::default();
    for step in plan.steps.iter().map(|planned| &planned.step) {
        if let Some(opinion) = opinion(step, advice) {
            let text = format!("{} = {}: {opinion}", name(&step.knob, &step.place), value(&step.wanted));
            page.paragraph(Indent { first: 0, rest: 2 }, PLAIN, &text);
        }
    }
    page.finish()
}

/// The page of a plan, with the audit's remark about each step.
pub(crate) fn judged(plan: &PlanFile, advice: &[Advice]) -> String {
    let mut page = Page::default();
    if plan.steps.is_empty() && plan.persist.is_none() {
        page.line(PLAIN, "There is nothing to set.");
    }
    let is_kept = plan.persist.is_some();
    for planned in &plan.steps {
        step(&mut page, planned, is_kept, advice);
    }
    if let Some(lasting) = &plan.persist {
        keep(&mut page, lasting);
    }
    page.finish()
}

fn step(page: &mut Page, planned: &PlannedStep, is_kept: bool, advice: &[Advice]) {
    let step = &planned.step;
    page.line(HEADING, &format!("{} = {}", name(&step.knob, &step.place), value(&step.wanted)));
    let todo = match (&step.action, is_kept) {
        (evenkeel_host::Action::Write { .. }, _) | (_, false) => how(step),
        (_, true) => "how it persists is listed below".to_owned(),
    };
    page.paragraph(Indent::all(2), PLAIN, &todo);
    match (&planned.seen, &planned.unseen) {
        _ if planned.already_so => page.paragraph(Indent::all(2), GOOD, "it is already set"),
        (Some(seen), _) => page.paragraph(Indent::all(2), PLAIN, &format!("it is {} now", value(seen))),
        (None, Some(why)) => page.paragraph(Indent::all(2), BAD, why),
        (None, None) => {}
    }
    if let Some(opinion) = opinion(step, advice) {
        page.paragraph(Indent::all(2), PLAIN, &opinion);
    }
    for note in planned.blocked.iter().chain(&planned.owned) {
        page.paragraph(Indent::all(2), WARN, note);
    }
    if planned.takes_effect != TakesEffect::AtOnce {
        page.paragraph(Indent::all(2), WARN, &format!("takes effect {}", when(planned.takes_effect)));
    }
    if let evenkeel_host::Action::Write { side_effects, .. } = &step.action
        && !side_effects.is_empty()
    {
        page.paragraph(Indent::all(2), DIM, &format!("the kernel may change too: {}", side_effects.join(", ")));
    }
    if let Some(undo) = &planned.undo {
        page.paragraph(Indent { first: 2, rest: 4 }, DIM, &format!("undone by: {undo}"));
    }
}

fn when(takes_effect: TakesEffect) -> &'static str {
    match takes_effect {
        TakesEffect::AtOnce => "at once",
        TakesEffect::NewSockets => "for sockets made afterwards: restart the server",
        TakesEffect::NewInterfaces => "for interfaces brought up afterwards",
        TakesEffect::ProcessStart => "when the server starts",
        TakesEffect::Reboot => "after a reboot",
    }
}

fn keep(page: &mut Page, lasting: &Lasting) {
    for PersistedFile { path, content } in &lasting.persist.files {
        let (what, text) = match content {
            Content::Whole { text, mode } => (format!("write {path} (mode {mode:o})"), text.clone()),
            Content::Link { target } => (format!("link {path} to {target}"), String::new()),
            Content::Block { lines } => (format!("add lines to {path}"), lines.clone()),
            Content::KernelArguments { arguments } => (format!("add kernel arguments to {path}"), arguments.join(" ")),
        };
        page.line(HEADING, &what);
        for line in text.lines() {
            page.line(DIM, &format!("  {line}"));
        }
    }
    for command in &lasting.persist.commands {
        page.line(HEADING, &format!("run {}", command.argv.join(" ")));
        page.paragraph(Indent::all(2), DIM, &command.why);
    }
    for cannot in &lasting.persist.cannot {
        entry(page, (WARN, "does not last"), &cannot.setting, &format!("{}: {}", cannot.why, cannot.todo));
    }
}

pub(crate) fn difference(difference: &Difference) -> String {
    let mut page = Page::default();
    for planned in &difference.steps {
        let step = &planned.step;
        let seen = planned.seen.as_deref().map_or("?", value);
        let change = format!("{seen} -> {}", value(&step.wanted));
        entry(&mut page, (WARN, "differs"), &name(&step.knob, &step.place), &change);
    }
    for file in &difference.files {
        for line in file.diff.lines() {
            let style = match line.as_bytes().first() {
                Some(b'+') => GOOD,
                Some(b'-') => BAD,
                _ => PLAIN,
            };
            page.line(style, line);
        }
    }
    if difference.steps.is_empty() && difference.files.is_empty() {
        page.line(GOOD, "Nothing would change.");
    }
    page.finish()
}

pub(crate) fn image(done: &Transaction, commands: &[String], image: &Path) -> String {
    let mut page = Page::default();
    steps(&mut page, done);
    for command in commands {
        let rest = format!("inside the image: chroot {} {command}", image.display());
        entry(&mut page, (WARN, "to run"), command, &rest);
    }
    page.line(PLAIN, "");
    page.line(PLAIN, &format!("Undo: evenkeel image --undo {}", image.display()));
    page.finish()
}
