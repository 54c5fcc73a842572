//! The pages of `evenkeel profile`, one file for each question.

pub(crate) mod diff;
pub(crate) mod imbalance;
pub(crate) mod scopes;
pub(crate) mod switches;
pub(crate) mod ticks;
pub(crate) mod view;
