//! The pages of `evenkeel profile`, one file a question.

pub(crate) mod diff;
pub(crate) mod imbalance;
pub(crate) mod scopes;
pub(crate) mod switches;
pub(crate) mod view;

/// A share as people say it.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
