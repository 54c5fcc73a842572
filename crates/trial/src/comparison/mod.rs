//! What compares two arms, whichever way their windows are taken: the number that decides (`judge`), the guards beside it (`guards`), and
//! whether an arm is decided (`arm_test`). Trials of two arms and of several, and the proof of a search, all decide here.

mod arm_test;
mod guards;
mod judge;

pub(crate) use arm_test::ArmTest;
pub(crate) use guards::{GuardNumbers, GuardSet, guard_numbers};
pub(crate) use judge::{Judge, PairEffect};
