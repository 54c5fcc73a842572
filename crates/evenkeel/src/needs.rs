//! The requirements of a trial's settings: a journal, or root.

use evenkeel_host::{Action, Facts, Knob, Plan, Setting, knobs};
use evenkeel_sys::process;

use crate::arms;
use crate::exit;
use crate::experiment;
use crate::failure::Failure;

/// The hint names the exceptions.
/// The kernel allows only root to change the timer slack of another process;
/// the workloads arena and tick change their own timer slack.
const WITHOUT_ROOT: &str = "run it with sudo. Without root you can prove process.* knobs, except sched_policy=fifo, sched_policy=rr, and \
                            timer_slack_ns of workloads other than arena and tick";

/// What some settings require.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Whether the settings write files of the host, which needs a journal.
    pub(crate) journal: bool,
    root: bool,
}

impl Needs {
    pub(crate) fn from_settings(facts: &Facts, settings: &[Setting]) -> Result<Needs, Failure> {
        let plan = Plan::from_settings(facts, settings).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        experiment::refuse_twice(&plan)?;
        Ok(Needs {
            journal: plan.steps.iter().any(|step| matches!(step.action, Action::Write { .. })),
            // A user may try to set a process: the kernel decides, and the trial reports a refusal.
            // If a user must persist a setting by hand, evenkeel refuses it, or applies it to its own process.
            root: plan.steps.iter().any(|step| {
                let is_ours = matches!(step.action, Action::Process | Action::ByHand { .. });
                !is_ours && !knobs::find(&step.knob).is_ok_and(Knob::is_of_server)
            }),
        })
    }

    /// If the settings need root, refuses a user without root before a server starts.
    pub(crate) fn refuse_without_root(self, command: &str, settings: &[Setting]) -> Result<(), Failure> {
        if !self.root || process::is_root() {
            return Ok(());
        }
        let error =
            anyhow::anyhow!("{command} {}: you need root for a setting of the whole host", arms::text_of(settings));
        Err(Failure::new(exit::NOT_ALLOWED, error).hint(WITHOUT_ROOT))
    }
}
