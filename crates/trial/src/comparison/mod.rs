//! Compares two arms, however their windows were measured: the primary metric
//! (`judge`), the guards (`guards`), and whether an arm is decided (`arm_test`).
//! Trials of two or more arms use this module, and so does the confirmation of a search.

mod arm_test;
mod guards;
mod judge;

pub(crate) use arm_test::ArmTest;
pub(crate) use guards::{GuardNumbers, GuardSet, guard_numbers};
pub(crate) use judge::{Judge, PairEffect};
