//! How many sessions of a server fit on a machine before a limit is broken.

mod evidence;
mod gain;
mod report;
mod search;

pub use evidence::Evidence;
pub use gain::{Comparison, Gain, GainVerdict};
pub use report::{CapacityReport, Ended, EndedBy, Limit, Machine, MachineUse, Step, Subject, Window, report};
pub use search::{CLAIM, Found, Search};
