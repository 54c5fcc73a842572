//! Honest A/B trials of settings on a real server.
//!
//! A [`Design`], with its seed and its rules for dropping windows, is fixed before anything is measured.
//! [`run`] alternates the arms, block by block, in an order drawn from the seed.
//! A block of two is a pair.
//! A [`Switch`] changes the host and writes the journal, so that `evenkeel revert` restores the host after a killed trial.
//! Then the host settles, and the [`Workload`](evenkeel_workload::Workload) measures one window.
//! Each window gives one number and the conditions of the machine.
//! The [`Record`] has everything that was observed, and [`Record::report`] judges it.

mod arm;
pub mod boots;
mod caveat;
mod comparison;
mod concurrent_trials;
mod conditions;
mod counters;
mod design;
mod effect;
mod engaged;
mod error;
mod log_file;
mod outcome;
mod report;
mod rules;
pub mod saved;
mod schedule;
pub mod search;
mod session;
mod switch;
mod titles;
mod window;
pub mod words;

pub use arm::{ARMS_MAX, Arm, ArmName, Level};
pub use caveat::Caveat;
pub use concurrent_trials::ConcurrentTrials;
pub use conditions::{Conditions, Snapshot, Watch};
pub use design::{Design, Guard, Settle, Stop};
pub use effect::{Effect, Interval};
pub use engaged::{Engaged, Mechanism, Reading};
pub use error::{InvalidLine, TrialError};
pub use log_file::LogFileError;
pub use outcome::Outcome;
pub use report::{Answers, ArmReport, Between, ByArm, Choice, ControlReport, Cost, GuardReport, Report, ticks_wanted};
pub use rules::{DropReason, Rules};
pub use schedule::Pace;
pub use session::session_log;
pub use session::{
    ArmSoFar, Detectable, Dropped, Ended, Left, LeftWhy, Mishap, NetworkPath, Progress, Record, SessionWriter,
    SettleHow, SettleSeen, Stretch, Trial, Window, resume, run,
};
pub use switch::{Reach, Switch};
pub use titles::{Away, Identity, Titles};
pub use window::Measured;
