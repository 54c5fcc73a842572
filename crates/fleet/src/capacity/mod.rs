//! How many sessions of a server fit on a machine before a limit is broken.

mod drift;
mod evidence;
mod gain;
mod report;
mod search;
mod window;

pub use evidence::Evidence;
pub use gain::{Comparison, Gain, GainVerdict};
pub use report::{CapacityReport, Ended, EndedBy, Machine, Step, Subject, report};
pub use search::{CLAIM, Found, Search};
pub use window::{Limit, MachineUse, Window};
