//! The disturbers, one file each: noise of a known shape. All are bounded in time, and leave nothing behind however they end.

mod planted;
mod thief;

pub use planted::{Planted, Stretch};
pub use thief::{Schedule, Taken, Thief};
