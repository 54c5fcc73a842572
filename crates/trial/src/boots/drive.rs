//! Carries out the actions that `next` chooses, boot by boot, on a given machine.

use evenkeel_workload::Sample;

use crate::arm::ArmName;

use super::counters::BootCounters;
use super::error::BootsError;
use super::guards::medians;
use super::next::{Action, BootStatus, next};
use super::state::{Armed, BootOutcome, BootsDesign, BootsEnded, BootsState};

/// The most that is done in one boot: measure, get ready, and some more for what does not come about.
const PASSES_MAX: usize = 16;

/// What was measured in one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    /// What each window that counts gave, in the order in which they were measured.
    pub samples: Vec<Sample>,
    /// Windows that were dropped by a rule that does not know the arm.
    pub dropped: usize,
    /// What the settings' counters showed in those that count.
    pub counted: Option<BootCounters>,
}

/// What a trial over boots needs of a machine.
pub trait Machine {
    /// What is seen of it now.
    ///
    /// # Errors
    /// If the boot id or the license in the journal can't be read.
    fn status(&mut self) -> Result<BootStatus, BootsError>;

    /// Keeps the state, so that it is there after a power cut.
    ///
    /// # Errors
    /// If the disk does not take it.
    fn keep(&mut self, state: &BootsState) -> Result<(), BootsError>;

    /// Whether the arm is in force in this boot.
    ///
    /// # Errors
    /// What reads otherwise.
    fn reads_back(&mut self, arm: ArmName) -> Result<(), BootsError>;

    /// Lets it settle, and measures its windows. None if it was asked to stop.
    ///
    /// # Errors
    /// Why there are no numbers.
    fn measure(&mut self, design: &BootsDesign) -> Result<Option<Windows>, BootsError>;

    /// Brings about that the next boot is of this arm; `anew` if what is there of it is not to be relied on.
    ///
    /// # Errors
    /// If it can't be; nothing of it is left then, or the journal says what is.
    fn arm(&mut self, arm: ArmName, anew: bool) -> Result<(), BootsError>;

    /// Whether it was asked to stop: by somebody, or because the machine goes down.
    fn is_stopped(&mut self) -> bool;

    /// Puts everything back, and the unit away. To do it twice does no harm.
    ///
    /// # Errors
    /// What is left.
    fn put_back(&mut self) -> Result<(), BootsError>;
}

/// What is left to be done when nothing more can be done in this boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The machine has to reboot.
    Reboot,
    /// It was asked to stop, and goes on when it is started again.
    Stopped,
    /// It is over, and the host is put back.
    Ended {
        /// How.
        ended: BootsEnded,
        /// Whether the running kernel still is as an arm wanted it, so that it takes one more reboot.
        reboot_left: bool,
    },
}

/// Goes on in this boot as far as it goes.
///
/// # Errors
/// If the host could not be restored, or the machine can't be read.
pub fn go_on(state: &mut BootsState, machine: &mut dyn Machine) -> Result<Ending, BootsError> {
    for _ in 0..PASSES_MAX {
        let status = machine.status()?;
        let action = next(state, &status);
        let ended = match action {
            Action::Reboot => match ask(state, machine) {
                Ok(()) => return Ok(Ending::Reboot),
                Err(error) => given_up(&error),
            },
            Action::End(ended) => ended,
            Action::Measure { arm } => match measure(state, machine, arm) {
                Ok(true) => continue,
                Ok(false) => return Ok(Ending::Stopped),
                Err(error) => given_up(&error),
            },
            Action::Arm { slot, arm, anew } => {
                let armed = Armed { slot, boot_id: status.boot_id };
                match get_ready(state, machine, (arm, anew), armed) {
                    Ok(()) => continue,
                    // A machine that goes down ends what writes its boot menu: that is tried again in the next boot.
                    Err(_) if machine.is_stopped() => return Ok(Ending::Stopped),
                    Err(error) => given_up(&error),
                }
            }
        };
        return end(state, machine, ended);
    }
    let why = "it turned in a circle, which is a fault of evenkeel".to_owned();
    end(state, machine, BootsEnded::GivenUp { why })
}

fn given_up(error: &BootsError) -> BootsEnded {
    BootsEnded::GivenUp { why: error.to_string() }
}

/// Notes that a reboot is asked for, and refuses one that never ends.
fn ask(state: &mut BootsState, machine: &mut dyn Machine) -> Result<(), BootsError> {
    if !state.design.reboots {
        return Ok(());
    }
    state.asked += 1;
    if state.asked > state.boots_max() + 1 {
        return Err(BootsError::TooManyReboots { asked: state.asked, boots: state.seen.len() });
    }
    machine.keep(state)
}

/// Whether to go on.
fn measure(state: &mut BootsState, machine: &mut dyn Machine, arm: ArmName) -> Result<bool, BootsError> {
    // That it was begun is on disk first: a machine that goes down under its load every time must not be tried for ever.
    machine.keep(state)?;
    let measured = machine.reads_back(arm).and_then(|()| machine.measure(&state.design));
    let outcome = match measured {
        Ok(None) => return Ok(false),
        Ok(Some(windows)) => outcome(&state.design, &windows),
        Err(error) => BootOutcome::Missed { why: error.to_string() },
    };
    if let Some(boot) = state.seen.last_mut() {
        boot.outcome = outcome;
    }
    machine.keep(state)?;
    Ok(true)
}

/// What is kept of a boot's windows: each one's number, and of the guards no more than their medians, so that the state stays small.
fn outcome(design: &BootsDesign, windows: &Windows) -> BootOutcome {
    let number = |sample: &Sample| sample.get(design.metric.name.as_ref()).copied().filter(|value| value.is_finite());
    let counting: Vec<&Sample> = windows.samples.iter().filter(|sample| number(sample).is_some()).collect();
    if counting.is_empty() {
        return BootOutcome::Missed { why: "no window of it gave a number".to_owned() };
    }
    BootOutcome::Measured {
        values: counting.iter().filter_map(|sample| number(sample)).collect(),
        dropped: windows.dropped + windows.samples.len() - counting.len(),
        guards: medians(&design.guards, &counting),
        counted: windows.counted.clone(),
    }
}

fn get_ready(
    state: &mut BootsState,
    machine: &mut dyn Machine,
    (arm, anew): (ArmName, bool),
    armed: Armed,
) -> Result<(), BootsError> {
    machine.keep(state)?;
    machine.arm(arm, anew)?;
    state.armed = Some(armed);
    machine.keep(state)
}

/// The end is on disk before anything is put back: whoever is killed in between finds it there and puts back what is left.
fn end(state: &mut BootsState, machine: &mut dyn Machine, ended: BootsEnded) -> Result<Ending, BootsError> {
    state.ended = Some(ended.clone());
    let kept = machine.keep(state);
    machine.put_back()?;
    kept?;
    Ok(Ending::Ended { ended, reboot_left: machine.reads_back(ArmName::A).is_err() })
}
