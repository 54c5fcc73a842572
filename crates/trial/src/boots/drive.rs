//! Carries out the actions that `next` chooses, boot by boot, on a given machine.

use evenkeel_workload::Sample;

use crate::arm::ArmName;

use super::counters::BootCounters;
use super::error::BootsError;
use super::guards::medians;
use super::next::{Action, BootStatus, next};
use super::state::{Armed, BootOutcome, BootsDesign, BootsEnded, BootsState};

/// The maximum number of actions in one boot. A boot needs two (measure this boot, prepare the next one), plus some in reserve.
const PASSES_MAX: usize = 16;

/// The measurements of one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    /// The value of each counted window, in the order of measurement.
    pub samples: Vec<Sample>,
    /// The number of windows that a rule dropped. Rules do not use the arm.
    pub dropped: usize,
    /// The settings' counters in the counted windows. None if no counter was read.
    pub counted: Option<BootCounters>,
}

/// The machine, as far as a trial over boots uses it.
pub trait Machine {
    /// The machine's current status.
    ///
    /// # Errors
    /// Fails if the boot id or the license in the journal can't be read.
    fn status(&mut self) -> Result<BootStatus, BootsError>;

    /// Stores the state so that it survives a power cut.
    ///
    /// # Errors
    /// Fails if the state can't be written.
    fn keep(&mut self, state: &BootsState) -> Result<(), BootsError>;

    /// Checks that the settings have the values of this arm in this boot.
    ///
    /// # Errors
    /// Returns the first setting that differs.
    fn reads_back(&mut self, arm: ArmName) -> Result<(), BootsError>;

    /// Waits until the machine has settled, and measures the windows. None if the run should stop.
    ///
    /// # Errors
    /// Returns the reason why there are no values.
    fn measure(&mut self, design: &BootsDesign) -> Result<Option<Windows>, BootsError>;

    /// Prepares the next boot for this arm. With `anew`, it writes the arm's files again, because the existing files may be wrong.
    ///
    /// # Errors
    /// Fails if the change fails. Then no part of the change remains, or the journal lists it.
    fn arm(&mut self, arm: ArmName, anew: bool) -> Result<(), BootsError>;

    /// Whether the run should stop, because the user stopped it or because the machine shuts down.
    fn is_stopped(&mut self) -> bool;

    /// Restores all settings, and removes the unit. You can call it twice.
    ///
    /// # Errors
    /// Names the settings that could not be restored.
    fn put_back(&mut self) -> Result<(), BootsError>;
}

/// How a run of the unit ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The machine has to reboot.
    Reboot,
    /// The run should stop. It continues when the unit starts again.
    Stopped,
    /// The trial has ended, and the host is restored.
    Ended {
        /// How the trial ended.
        ended: BootsEnded,
        /// Whether the running kernel still has values of an arm, so that the host needs one more reboot.
        reboot_left: bool,
    },
}

/// Carries out actions until the machine must reboot, the run is stopped, or the trial has ended.
///
/// # Errors
/// Fails if the host could not be restored, or the machine can't be read.
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
                    // A shutdown also ends programs that write the boot menu. The failure may have this cause, so the next boot tries again.
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

/// Counts the reboot request. Fails if the machine seems to reboot endlessly.
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

/// Measures this boot and stores the result. Returns whether to continue.
fn measure(state: &mut BootsState, machine: &mut dyn Machine, arm: ArmName) -> Result<bool, BootsError> {
    // Store the start first, so that a machine that crashes under this load does not measure again endlessly.
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

/// The part of a boot's windows that the state stores: the value of each window, but only the median of each guard. So the state stays small.
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

/// Stores the end before it restores anything. If evenkeel is killed in between, the next start restores the rest.
fn end(state: &mut BootsState, machine: &mut dyn Machine, ended: BootsEnded) -> Result<Ending, BootsError> {
    state.ended = Some(ended.clone());
    let kept = machine.keep(state);
    machine.put_back()?;
    kept?;
    Ok(Ending::Ended { ended, reboot_left: machine.reads_back(ArmName::A).is_err() })
}
