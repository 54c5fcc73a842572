//! One session: the loop that fills its record of windows, and the log that stores it.

mod detectable;
mod multi_arm;
mod record;
mod run;
pub mod session_log;
mod settle;
mod settled;

use std::time::Duration;

use evenkeel_workload::Workload;

use crate::arm::{Arm, ArmName};
use crate::conditions::Watch;
use crate::design::Design;
use crate::effect::Effect;
use crate::outcome::Outcome;
use crate::switch::Switch;

pub use detectable::Detectable;
pub(crate) use detectable::PLANNED_MAX;
pub(crate) use multi_arm::{ArmState, MultiArmTest, blocks, pairs_of};
pub use multi_arm::{Left, LeftWhy};
pub use record::{Dropped, Ended, Mishap, NetworkPath, Record, Stretch, Window};
pub use run::{resume, run};
pub use session_log::SessionWriter;
pub(crate) use settle::find as find_settle;
pub use settled::{SettleHow, SettleSeen};

/// Everything that a session needs.
pub struct Trial<'a, 'b> {
    /// The design.
    pub design: &'a Design,
    /// The arms, A first. If all arms are equal, the session is a control.
    pub arms: Vec<Arm>,
    /// Switches the host from one arm to another.
    pub switch: &'a mut Switch<'b>,
    /// The server with its load.
    pub workload: &'a mut dyn Workload,
    /// The machine's conditions.
    pub watch: &'a Watch,
    /// Returns whether the user asked to stop. The session calls this before each window.
    pub stop: &'a dyn Fn() -> bool,
    /// The log to which the session writes each pair as soon as the pair is measured.
    pub keep: &'a mut SessionWriter,
}

/// The progress of a session, and its results so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The phase of the session.
    pub stretch: Stretch,
    /// The number of counted pairs in this phase, for the arm with the fewest pairs.
    pub pairs: usize,
    /// The maximum number of pairs of this phase.
    pub of: usize,
    /// The number of pairs or blocks so far in which a window was dropped.
    pub dropped: usize,
    /// The time since the session began.
    pub elapsed: Duration,
    /// The time that all remaining pairs would take, at the average so far. A sequential trial may end sooner.
    pub left: Duration,
    /// The result so far of each arm against A.
    pub arms: Vec<ArmSoFar>,
    /// The smallest effect that the pairs in the budget can detect. None before the first pair, and without an A/A phase.
    pub detectable: Option<Detectable>,
}

/// The comparison of an arm with A so far.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmSoFar {
    /// The name of the arm.
    pub arm: ArmName,
    /// The number of counted pairs of this arm and A.
    pub pairs: usize,
    /// The ratio of this arm to A. None without counted pairs.
    pub effect: Option<Effect>,
    /// The verdict if the trial ended now, without the guards and without the check for engaged knobs.
    pub verdict: Outcome,
    /// Why the arm has no further windows. None if the arm continues.
    pub left: Option<Left>,
}
