//! The pages of `evenkeel profile`, one file a question.

pub(crate) mod imbalance;
pub(crate) mod ticks;
