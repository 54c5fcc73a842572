//! `Job`: what is to be applied, and how.

use evenkeel_host::Plan;

use crate::owner::Owner;
use crate::persist_plan::Lasting;
use crate::record::{OwnedStep, Until};

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The steps on the running machine.
    pub plan: &'a Plan,
    /// Tells people later what it was for.
    pub title: &'a str,
    /// The settings that the plan is made from, as `KNOB=VALUE`.
    pub settings: &'a [String],
    /// What makes it outlive a boot.
    pub lasting: Option<&'a Lasting>,
    /// When it undoes itself unless somebody confirms it.
    pub until: Option<Until>,
    /// Whether a step that does not come about stops the rest.
    pub on_failure: OnFailure,
    /// The steps whose places belong to somebody else, who will set them again. They are taken, since they were asked for; what is told
    /// of them afterwards is this, and not that they are in force.
    pub owned: &'a [OwnedStep],
    /// The trial that it belongs to.
    pub owner: Option<&'a Owner>,
}

/// What a step that does not come about means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Those before it are put back, and those after it are not taken.
    #[default]
    PutBack,
    /// It alone is put back and recorded.
    GoOn,
}

impl<'a> Job<'a> {
    /// Steps on the running machine alone, all of them or none.
    pub fn of(plan: &'a Plan, title: &'a str) -> Job<'a> {
        let on_failure = OnFailure::PutBack;
        Job { plan, title, settings: &[], lasting: None, until: None, on_failure, owned: &[], owner: None }
    }
}
