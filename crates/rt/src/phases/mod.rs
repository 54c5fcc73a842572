//! Sessions on one host spread their ticks in time, so that fewer of them want a CPU at the same moment.
//!
//! | step | where |
//! |---|---|
//! | where a session's ticks should be, and how fast they move there | `rule` |

mod rule;
#[cfg(test)]
mod simulated;
