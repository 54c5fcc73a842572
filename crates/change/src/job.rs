//! `Job`: what to apply, and how.

use evenkeel_host::Plan;

use crate::owner::Owner;
use crate::persist_plan::Lasting;
use crate::record::{OwnedStep, Until};

/// What to apply.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The steps on the running machine.
    pub plan: &'a Plan,
    /// The purpose, which `history` and `revert` show to people.
    pub title: &'a str,
    /// The settings of the plan, as `KNOB=VALUE`.
    pub settings: &'a [String],
    /// The files and commands that make the change persist over a boot.
    pub lasting: Option<&'a Lasting>,
    /// The time at which the change reverts itself unless the user confirms it.
    /// `None` if the change needs no confirmation.
    pub until: Option<Until>,
    /// Whether a failed step stops the rest.
    pub on_failure: OnFailure,
    /// The steps whose places have another owner, which will set them again.
    /// evenkeel applies these steps because the user asked for them.
    /// The report names the owner instead of claiming that the values are in force.
    pub owned: &'a [OwnedStep],
    /// The trial or the cluster's goal that the change belongs to.
    pub owner: Option<&'a Owner>,
}

/// What happens to the other steps if one fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Earlier steps are restored, and later steps are not applied.
    #[default]
    PutBack,
    /// Only the failed step is restored and recorded; the others continue.
    GoOn,
}

impl<'a> Job<'a> {
    /// A job with steps on the running machine only, of which all are applied or none.
    pub fn new(plan: &'a Plan, title: &'a str) -> Job<'a> {
        let on_failure = OnFailure::PutBack;
        Job { plan, title, settings: &[], lasting: None, until: None, on_failure, owned: &[], owner: None }
    }
}
