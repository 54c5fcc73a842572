//! Live checks of ticks, phases, rates, locks and packets on a CPU that is taken away, shared or quiet. They measure, and need a quiet machine.

#![expect(clippy::unwrap_used, reason = "helpers of checks: a panic is how a check says that it can't go on")]

mod aligned;
mod guard;
mod inherit;
mod phases;
mod rate;
mod stage;
mod udp;
