//! `PlanFile`: a plan as a file that people review and other commands apply.
//! For every step it lists the current
//! and the new value, when the new value takes effect, its side effects, and how to undo it.

use evenkeel_host::{
    Action, Advice, AdviceContext, Facts, Plan, PlanError, Setting, SettingError, State, Step, TakesEffect, advise,
    knobs,
};
use evenkeel_hostfs::{Root, TreeError, json_words};
use serde::{Deserialize, Serialize};

use crate::outcome::{SideEffect, StepError};
use crate::persist::{self, PersistContext};
use crate::persist_exec::is_in_place;
use crate::persist_plan::{Lasting, PersistPlan};
use crate::place::{EffectiveValue, Target};
use crate::record::OwnedStep;
use crate::service_name::{ServiceName, ServiceNameError};
use crate::undo_text::undo_commands;

/// The number in the file's `format`.
const FORMAT: u64 = 1;

/// The longest plan that evenkeel reads, in bytes: some thousand steps.
pub const MAX_PLAN_BYTES: usize = 4 << 20;

/// A plan for a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanFile {
    /// The format's number.
    pub format: u64,
    /// The version of the program that made the plan.
    pub evenkeel: String,
    /// Its purpose.
    pub title: String,
    /// The settings of the plan, as `KNOB=VALUE`. evenkeel derives the plan from them, on this machine or another.
    pub settings: Vec<String>,
    /// The steps that change the running machine, in their order.
    pub steps: Vec<PlannedStep>,
    /// The files and commands that make the plan persist, if requested.
    #[serde(alias = "keep", default, skip_serializing_if = "Option::is_none")]
    pub persist: Option<Lasting>,
}

/// A step with the value at its place when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedStep {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// The value when the plan was made; `None` if evenkeel can read nothing before it applies the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Why the step has no value, if it should have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// Whether the value was in force already.
    pub already_so: bool,
    /// Why the kernel will refuse the step, if the machine shows the reason.
    #[serde(alias = "doubt", default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// The other owner that sets the value and will set it again, and what to do about that owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<String>,
    /// When it takes effect.
    pub takes_effect: TakesEffect,
    /// The other files that the kernel changes with this step, with their current values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<SideEffect>,
    /// The shell command that undoes the step without this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// The error for a text that is not a plan, or not a plan for this machine.
/// Except for `Setting`, the message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    /// The text is not a plan.
    #[error("read the plan: {}", self.cause())]
    Text(String),
    /// A newer program wrote it.
    #[error("read the plan: {}", self.cause())]
    Format(u64),
    /// The plan names a setting that this program does not know.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The plan names an invalid unit.
    #[error("read the plan: {}", self.cause())]
    Unit(#[from] ServiceNameError),
    /// A setting has no place on this machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The settings need other steps on this machine.
    #[error(
        "apply the plan: its settings give another plan on this machine: {what}. It was made on another machine, \
            or the plan or the machine changed. Make it again: evenkeel plan {settings}"
    )]
    Differs {
        /// The first difference.
        what: String,
        /// The settings, as arguments.
        settings: String,
    },
}

impl PlanFileError {
    /// The error without the action, for callers that name the file.
    pub fn cause(&self) -> String {
        match self {
            PlanFileError::Text(what) => what.clone(),
            PlanFileError::Format(other) => {
                format!("this evenkeel does not know format {other}; use the version that wrote it")
            }
            PlanFileError::Unit(error) => error.to_string(),
            other => other.to_string(),
        }
    }
}

impl PlanFile {
    /// The plan for `settings` on the machine of `facts` and `root`. With `lasting`, the plan also persists over boots.
    /// The second part of `lasting` has the settings of earlier transactions in the same files.
    /// The new files must still contain those settings.
    ///
    /// # Errors
    /// If a setting has no place on this machine.
    pub fn new(
        root: &Root,
        facts: &Facts,
        settings: &[Setting],
        title: &str,
        lasting: Option<(&PersistContext<'_>, &[Setting])>,
    ) -> Result<PlanFile, PlanError> {
        let plan = Plan::from_settings(facts, settings)?;
        let advice = advise(facts, &AdviceContext::default());
        let persist = lasting.map(|(context, before)| {
            let all = [before, settings].concat();
            Lasting {
                unit: context.unit.map(ServiceName::to_string),
                again: None,
                persist: persist::plan(context, &all),
            }
        });
        Ok(PlanFile {
            format: FORMAT,
            evenkeel: env!("CARGO_PKG_VERSION").to_owned(),
            title: title.to_owned(),
            settings: settings.iter().map(Setting::to_string).collect(),
            steps: plan.steps.into_iter().map(|step| PlannedStep::new(root, &advice, step)).collect(),
            persist,
        })
    }

    /// The plan for a root without a running kernel.
    /// The plan has only steps that need no device, and all steps wait for the first boot.
    pub fn of_image(
        root: &Root,
        facts: &Facts,
        settings: &[Setting],
        title: &str,
        context: &PersistContext<'_>,
        before: &[Setting],
    ) -> PlanFile {
        let advice = advise(facts, &AdviceContext::default());
        let steps =
            settings.iter().filter_map(|setting| Plan::from_settings(facts, std::slice::from_ref(setting)).ok());
        let steps = steps.flat_map(|plan| plan.steps).map(|step| PlannedStep::new(root, &advice, step)).collect();
        let persist = persist::plan(context, &[before, settings].concat());
        PlanFile {
            format: FORMAT,
            evenkeel: env!("CARGO_PKG_VERSION").to_owned(),
            title: title.to_owned(),
            settings: settings.iter().map(Setting::to_string).collect(),
            steps,
            persist: Some(Lasting { unit: context.unit.map(ServiceName::to_string), again: None, persist }),
        }
    }

    /// A plan of files that evenkeel does not derive from settings. `again` is the command that makes the plan again.
    pub fn of_files(root: &Root, plan: Plan, persist: PersistPlan, title: &str, again: &str) -> PlanFile {
        PlanFile {
            format: FORMAT,
            evenkeel: env!("CARGO_PKG_VERSION").to_owned(),
            title: title.to_owned(),
            settings: Vec::new(),
            steps: plan.steps.into_iter().map(|step| PlannedStep::new(root, &[], step)).collect(),
            persist: Some(Lasting { unit: None, again: Some(again.to_owned()), persist }),
        }
    }

    /// Whether the machine is as planned now and after the next boot, as far as [`apply`](crate::apply) can change it.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn is_done(&self, root: &Root) -> Result<bool, TreeError> {
        let is_so = |planned: &PlannedStep| planned.already_so || !matches!(planned.step.action, Action::Write { .. });
        let keeps = self.persist.as_ref().map_or(Ok(true), |lasting| is_in_place(root, &lasting.persist))?;
        // Without `--persist`, apply sets no property of a process and keeps no device open.
        // So a second apply would not change these settings either.
        let waits = self
            .steps
            .iter()
            .any(|planned| !planned.already_so && matches!(planned.step.action, Action::KernelArgument { .. }));
        // If the plan persists nothing, no file shows whether a kernel argument was ever requested.
        // Then the plan does not count as done.
        Ok(self.steps.iter().all(is_so) && keeps && (!waits || self.persist.is_some()))
    }

    /// Parses a plan's text.
    ///
    /// # Errors
    /// If the text is not a plan, or has a format that this program does not know.
    pub fn parse(text: &str) -> Result<PlanFile, PlanFileError> {
        if text.len() > MAX_PLAN_BYTES {
            return Err(PlanFileError::Text(format!("it has more than {MAX_PLAN_BYTES} bytes")));
        }
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        let bad = |error: serde_json::Error| PlanFileError::Text(json_words::plain(&error));
        match serde_json::from_str::<Format>(text).map_err(bad)?.format {
            FORMAT => serde_json::from_str(text).map_err(bad),
            other => Err(PlanFileError::Format(other)),
        }
    }

    /// The text that [`PlanFile::parse`] reads.
    ///
    /// # Errors
    /// No known error: every field is plain data.
    pub fn text(&self) -> Result<String, PlanFileError> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| PlanFileError::Text(error.to_string()))
    }

    /// The settings of the plan. They are checked like user input.
    ///
    /// # Errors
    /// The error for the first invalid setting.
    pub fn settings(&self) -> Result<Vec<Setting>, PlanFileError> {
        Ok(self.settings.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>()?)
    }

    /// The server's unit. It is checked like user input.
    ///
    /// # Errors
    /// If the name is not the name of a service.
    pub fn unit(&self) -> Result<Option<ServiceName>, PlanFileError> {
        let unit = self.persist.as_ref().and_then(|lasting| lasting.unit.as_deref());
        Ok(unit.map(str::parse).transpose()?)
    }

    /// Compares this plan with `now`, which was made from this plan's settings on this machine.
    /// evenkeel never applies the content of a plan file directly, because a file can come from anywhere.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn agrees_with(&self, now: &PlanFile) -> Result<(), PlanFileError> {
        let differs = |what: String| Err(PlanFileError::Differs { what, settings: self.settings.join(" ") });
        if self.steps.len() != now.steps.len() {
            return differs(format!("it has {} steps, and {} are needed", self.steps.len(), now.steps.len()));
        }
        for (ours, theirs) in self.steps.iter().zip(&now.steps) {
            let place = format!("{} at {}", ours.step.knob, ours.step.place);
            if ours.step != theirs.step {
                return differs(format!("the step for {place} differs"));
            }
            if ours.seen != theirs.seen {
                let shown = |seen: &Option<String>| seen.clone().unwrap_or_else(|| "unknown".to_owned());
                return differs(format!("{place} was {}, and is {}", shown(&ours.seen), shown(&theirs.seen)));
            }
        }
        if self.persist != now.persist {
            return differs("other files or commands persist it".to_owned());
        }
        Ok(())
    }

    /// The steps whose places have other owners.
    pub fn owned(&self) -> Vec<OwnedStep> {
        let steps = self.steps.iter().enumerate();
        steps.filter_map(|(step, planned)| Some(OwnedStep { step, by: planned.owned.clone()? })).collect()
    }

    /// The steps alone.
    pub fn plan(&self) -> Plan {
        Plan { steps: self.steps.iter().map(|planned| planned.step.clone()).collect() }
    }
}

impl PlannedStep {
    fn new(root: &Root, advice: &[Advice], step: Step) -> PlannedStep {
        let takes_effect = knobs::find(&step.knob).map_or(TakesEffect::AtOnce, |knob| knob.takes_effect);
        let mut planned = PlannedStep {
            seen: None,
            unseen: None,
            already_so: false,
            blocked: reason_of(State::Blocked, advice, &step),
            owned: reason_of(State::OwnedBy, advice, &step),
            takes_effect,
            along: Vec::new(),
            undo: None,
            step,
        };
        if let Some(target) = Target::from_step(&planned.step) {
            match target.before(root) {
                Ok(before) => {
                    let effective = target.effective(root, &planned.step.wanted);
                    planned.already_so = effective.is_ok_and(|effective| effective == EffectiveValue::Holds);
                    planned.undo =
                        Some(undo_commands(target.path, target.reading, &before.value, &before.side_effects));
                    planned.seen = Some(before.value);
                    planned.along = before.side_effects;
                }
                Err(StepError::Unreadable { why } | StepError::NotPutBack { why }) => planned.unseen = Some(why),
                Err(StepError::Blocked { by, errno }) => planned.unseen = Some(format!("{errno}: {by}")),
                Err(StepError::Refused { errno }) => planned.unseen = Some(errno.to_string()),
                Err(StepError::DidNotTake { .. }) => {}
            }
        } else if let Action::KernelArgument { argument } = &planned.step.action {
            planned.already_so = crate::apply::is_booted_with(root, argument);
        }
        planned
    }
}

/// The reason in the advice for the step's place, if the advice has `state` for that place.
fn reason_of(state: State, advice: &[Advice], step: &Step) -> Option<String> {
    let at_place = |advice: &&Advice| advice.knob == step.knob && advice.place == step.place;
    advice.iter().find(at_place).filter(|found| found.state == state).map(|found| found.reason.clone())
}
