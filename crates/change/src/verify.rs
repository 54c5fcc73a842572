//! `verify`: whether what was applied still holds.

use std::collections::BTreeMap;

use evenkeel_host::{Action, Fact, Step};
use evenkeel_sys::Root;
use serde::Serialize;

use crate::apply::is_booted_with;
use crate::history::add_argument;
use crate::log::{End, Log, boot_id};
use crate::place::{Blind, Standing, Target};
use crate::shell;

/// How the host compares with what the journal says is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many values hold.
    pub holds: usize,
    /// Those that do not.
    pub drift: Vec<Drift>,
    /// What waits for a boot.
    pub pending: Vec<Pending>,
    /// Transactions that were killed half-way, could not be wholly put back, or are being worked on right now.
    pub interrupted: Vec<u64>,
    /// Transactions whose values the kernel forgot at a restart, and that nobody has reverted since.
    pub ended_by_reboot: Vec<u64>,
}

/// A value that was applied and is not in force any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The value applied.
    pub wanted: String,
    /// The value found.
    pub found: Fact<String>,
    /// What happened, as far as can be told.
    pub why: String,
    /// The command that applies it again.
    pub mend: String,
}

/// A kernel argument that the running kernel was not started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The value wanted.
    pub wanted: String,
    /// What to do by hand.
    pub todo: String,
}

/// Reads every value that is in force by the journal, and says which are not. Of several transactions that set one file,
/// the newest counts.
pub fn verify(root: &Root, log: &Log) -> Verification {
    let boot_id = boot_id(root);
    let mut verification = Verification::default();
    let mut in_force: BTreeMap<(&str, &str), (u64, usize, &Step)> = BTreeMap::new();
    for logged in log.transactions().filter(|logged| !logged.is_closed()) {
        if !logged.is_of_boot(boot_id.as_deref()) {
            verification.ended_by_reboot.push(logged.id);
        } else if logged.is_unfinished() || !matches!(logged.end, Some(End::Committed)) {
            verification.interrupted.push(logged.id);
        } else {
            let steps = logged.steps.iter().enumerate();
            in_force.extend(steps.filter_map(|(index, step)| Some((key(step)?, (logged.id, index, step)))));
        }
    }
    // In the order in which they were applied, not that of their paths.
    let mut steps: Vec<(u64, usize, &Step)> = in_force.into_values().collect();
    steps.sort_by_key(|(id, index, _)| (*id, *index));
    for (id, _, step) in steps {
        verification.judge(root, id, step);
    }
    verification
}

/// What makes two steps be about one thing; `None` for steps that leave nothing on the host.
fn key(step: &Step) -> Option<(&str, &str)> {
    match &step.action {
        Action::Write { path, .. } => Some(("", path)),
        Action::KernelArgument { .. } => Some((&step.knob, &step.place)),
        Action::Hold { .. } | Action::Process | Action::ByHand { .. } => None,
    }
}

impl Verification {
    fn judge(&mut self, root: &Root, id: u64, step: &Step) {
        let standing = match (&step.action, Target::of(step)) {
            (_, Some(target)) => target.standing(root, &step.wanted),
            (Action::KernelArgument { argument }, _) if !is_booted_with(root, argument) => {
                let Step { knob, place, wanted, .. } = step.clone();
                self.pending.push(Pending { knob, place, wanted, todo: add_argument(argument) });
                return;
            }
            _ => Ok(Standing::Holds),
        };
        let (found, why) = match standing {
            Ok(Standing::Holds) => {
                self.holds += 1;
                return;
            }
            Ok(Standing::Other { found, read_from }) => {
                let why = match Target::of(step) {
                    Some(target) if target.path == read_from => format!("somebody changed {read_from}"),
                    _ => format!("{read_from} does not follow what was set"),
                };
                (Fact::Known(found), format!("{why} after transaction {id}"))
            }
            Err(Blind::Odd { text, why }) => (Fact::Known(text), why),
            Err(Blind::Refused(refusal)) => {
                let why = format!("what transaction {id} set can't be read any more: {refusal}");
                (Fact::from(refusal), why)
            }
        };
        let Step { knob, place, wanted, .. } = step.clone();
        let mend = format!("evenkeel apply {}", shell::word(&format!("{knob}@{place}={wanted}")));
        self.drift.push(Drift { knob, place, wanted, found, why, mend });
    }
}
