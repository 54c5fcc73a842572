//! The meters, one file (or folder) each. Each has `Settings` for how to measure, a `Report` of what was seen, and `run`.

pub mod clock;
pub mod quantum;
