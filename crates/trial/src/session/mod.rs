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
    /// Whether the user asked to stop; looked at before each window.
    pub stop: &'a dyn Fn() -> bool,
    /// Where each pair is kept as soon as it is measured.
    pub keep: &'a mut SessionWriter,
}

/// How far a trial is, and what is known so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What it is doing.
    pub stretch: Stretch,
    /// Pairs of this stretch that count so far, of the arm that has the fewest.
    pub pairs: usize,
    /// Pairs of this stretch that are wanted, at the most.
    pub of: usize,
    /// Pairs or blocks in which something was dropped so far.
    pub dropped: usize,
    /// How long it runs already.
    pub elapsed: Duration,
    /// The time that all missing pairs would take at the pace so far: a sequential trial may end sooner.
    pub left: Duration,
    /// The result so far of each arm against A.
    pub arms: Vec<ArmSoFar>,
    /// What the pairs that fit will be able to see; known from the first pair on, where there was an A/A phase.
    pub detectable: Option<Detectable>,
}

/// What is known of an arm against A so far.
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
    /// Why it has no further windows.
    pub left: Option<Left>,
}
