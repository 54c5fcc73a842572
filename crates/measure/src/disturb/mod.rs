//! The disturbers, one file each: noise of a known shape. All are bounded in time, and leave nothing behind however they end.

mod thief;

pub use thief::{Schedule, Taken, Thief};
