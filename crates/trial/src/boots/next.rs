//! Chooses the action for the current boot: a pure function of the state and of the machine's status.

use crate::arm::ArmName;

use super::state::{Armed, BootOutcome, BootWords, BootsEnded, BootsState, SeenBoot, TRIES_MAX};

/// The machine's status when evenkeel starts in this boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootStatus {
    /// The kernel's boot id.
    pub boot_id: String,
    /// The wall clock, in seconds since 1970 UTC.
    pub now_s: u64,
    /// Whether the transaction of the unit is still in force in the journal. The trial ends if the user reverted this transaction.
    pub is_licensed: bool,
    /// The kernel, processor and CPUs of this boot.
    pub machine: BootWords,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// This boot was prepared: check that the arm's values are in force, and measure this boot.
    Measure {
        /// The arm of this boot.
        arm: ArmName,
    },
    /// Prepare the next boot. After that, the machine must reboot.
    Arm {
        /// The index of the planned boot.
        slot: usize,
        /// The arm of the planned boot.
        arm: ArmName,
        /// Whether to write the arm's files again, because the arm's last boot had other values.
        anew: bool,
    },
    /// The next boot is prepared: the machine must reboot.
    Reboot,
    /// The trial has ended: restore everything, and remove the unit.
    End(BootsEnded),
}

/// Chooses the next action, and adds this boot to the state if it is new.
pub fn next(state: &mut BootsState, status: &BootStatus) -> Action {
    if let Some(ended) = &state.ended {
        return Action::End(ended.clone());
    }
    if !status.is_licensed {
        return Action::End(BootsEnded::Cancelled);
    }
    if status.now_s > state.begun_s.saturating_add(state.design.limit_s) {
        return give_up(format!("it has taken longer than {} s", state.design.limit_s));
    }
    if status.boot_id == state.begun_boot {
        return ready(state, status);
    }
    if let Err(action) = arrive(state, status) {
        return action;
    }
    let boots_max = state.boots_max();
    let may_boot = state.seen.len() < boots_max;
    let Some(boot) = state.seen.last_mut() else { return ready(state, status) };
    match boot.outcome {
        BootOutcome::Begun if boot.tries < TRIES_MAX => {
            boot.tries += 1;
            return Action::Measure { arm: boot.arm };
        }
        BootOutcome::Begun => boot.outcome = BootOutcome::CutOff,
        _ => {}
    }
    if state.next_slot().is_none() {
        return Action::End(BootsEnded::Whole);
    }
    if !may_boot {
        let counted = state.measured().count();
        return give_up(format!(
            "it may take at most {boots_max} boots, and {counted} of {} count",
            state.design.boots
        ));
    }
    ready(state, status)
}

/// Adds this boot to the state if it is new.
fn arrive(state: &mut BootsState, status: &BootStatus) -> Result<(), Action> {
    if state.seen.iter().any(|boot| boot.boot_id == status.boot_id) {
        return Ok(());
    }
    if let Some(last) = state.seen.last_mut().filter(|last| last.outcome == BootOutcome::Begun) {
        last.outcome = BootOutcome::CutOff;
    }
    let Some((slot, arm)) = state.next_slot() else { return Ok(()) };
    if state.seen.len() >= state.boots_max() {
        return Err(give_up(format!("it may take at most {} boots", state.boots_max())));
    }
    // A boot is measured only if it was prepared for the planned slot. After an interrupted boot, the preparation is still valid.
    let is_ready = state.armed.as_ref().is_some_and(|armed| armed.slot == slot && armed.boot_id != status.boot_id);
    let outcome = if is_ready { BootOutcome::Begun } else { BootOutcome::Passed };
    let machine = status.machine.clone();
    state.seen.push(SeenBoot { boot_id: status.boot_id.clone(), slot, arm, tries: 0, machine, outcome });
    Ok(())
}

/// Prepares the next boot, unless the next boot is already prepared.
fn ready(state: &BootsState, status: &BootStatus) -> Action {
    let Some((slot, arm)) = state.next_slot() else { return Action::End(BootsEnded::Whole) };
    let now = Armed { slot, boot_id: status.boot_id.clone() };
    if state.armed.as_ref() == Some(&now) {
        return Action::Reboot;
    }
    let anew = state.seen.last().is_some_and(|boot| matches!(boot.outcome, BootOutcome::Missed { .. }));
    Action::Arm { slot, arm, anew }
}

fn give_up(why: String) -> Action {
    Action::End(BootsEnded::GivenUp { why })
}
