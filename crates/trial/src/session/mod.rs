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

/// The inputs of one trial.
pub struct Trial<'a, 'b> {
    /// The design.
    pub design: &'a Design,
    /// The steps of each arm, A first. If all arms are equal it is a control.
    pub arms: Vec<Arm>,
    /// The knobs.
    pub switch: &'a mut Switch<'b>,
    /// The server with its load.
    pub workload: &'a mut dyn Workload,
    /// The machine's conditions.
    pub watch: &'a Watch,
    /// Whether the user asked to stop; checked before each window.
    pub stop: &'a dyn Fn() -> bool,
    /// The log that each pair is written to as soon as it is measured.
    pub keep: &'a mut SessionWriter,
}

/// How far a trial is, and what is known so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The phase that the session is in.
    pub stretch: Stretch,
    /// The pairs of this phase that count so far, for the arm with the fewest.
    pub pairs: usize,
    /// The maximum number of pairs of this phase.
    pub of: usize,
    /// The pairs or blocks so far in which something was dropped.
    pub dropped: usize,
    /// The elapsed time of the session.
    pub elapsed: Duration,
    /// The time that all missing pairs would take at the pace so far: a sequential trial may end sooner.
    pub left: Duration,
    /// The result so far of each arm against A.
    pub arms: Vec<ArmSoFar>,
    /// The effect that the pairs in the budget can detect; known from the first pair on, if there was an A/A phase.
    pub detectable: Option<Detectable>,
}

/// The comparison of an arm with A so far.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmSoFar {
    /// The arm.
    pub arm: ArmName,
    /// Pairs with A that count.
    pub pairs: usize,
    /// The ratio to A.
    pub effect: Option<Effect>,
    /// The verdict if the trial ended now, without guards and mechanism.
    pub verdict: Outcome,
    /// The reason if it has no further windows.
    pub left: Option<Left>,
}
