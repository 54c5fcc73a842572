//! Chooses the action for the current boot: a pure function of the state and of the machine's status.

use crate::arm::ArmName;

use super::state::{Armed, BootOutcome, BootWords, BootsEnded, BootsState, SeenBoot, TRIES_MAX};

/// What is seen of the machine when evenkeel is started in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootStatus {
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The wall clock, in seconds since 1970 UTC.
    pub now_s: u64,
    /// Whether the journal still has the transaction that lets it go on after boots.
    pub is_licensed: bool,
    /// What the machine is.
    pub machine: BootWords,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// This boot is the one that was got ready: look whether the arm is in force, and measure it.
    Measure {
        /// The arm.
        arm: ArmName,
    },
    /// Get the next boot ready; then the machine has to reboot.
    Arm {
        /// Which of the wanted boots it is to be.
        slot: usize,
        /// Its arm.
        arm: ArmName,
        /// Whether what is there of the arm is to be made anew, since the last boot of it came up otherwise.
        anew: bool,
    },
    /// The next boot is ready: the machine has to reboot.
    Reboot,
    /// It is over, by this: put everything back, and put the unit away.
    End(BootsEnded),
}

/// What is to be done now, with this boot entered in the state.
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
            "{boots_max} boots are the most that it may take, and {counted} of {} count",
            state.design.boots
        ));
    }
    ready(state, status)
}

/// Enters this boot, if it is a new one.
fn arrive(state: &mut BootsState, status: &BootStatus) -> Result<(), Action> {
    if state.seen.iter().any(|boot| boot.boot_id == status.boot_id) {
        return Ok(());
    }
    if let Some(last) = state.seen.last_mut().filter(|last| last.outcome == BootOutcome::Begun) {
        last.outcome = BootOutcome::CutOff;
    }
    let Some((slot, arm)) = state.next_slot() else { return Ok(()) };
    if state.seen.len() >= state.boots_max() {
        return Err(give_up(format!("{} boots are the most that it may take", state.boots_max())));
    }
    // What was got ready for another boot than this one, or not at all, is not to be measured as the arm that is due. One that was cut
    // off is still ready.
    let is_ready = state.armed.as_ref().is_some_and(|armed| armed.slot == slot && armed.boot_id != status.boot_id);
    let outcome = if is_ready { BootOutcome::Begun } else { BootOutcome::Passed };
    let machine = status.machine.clone();
    state.seen.push(SeenBoot { boot_id: status.boot_id.clone(), slot, arm, tries: 0, machine, outcome });
    Ok(())
}

/// Gets the next boot ready, unless it is.
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
