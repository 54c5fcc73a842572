//! Meters: what a machine does to a server, in numbers; and disturbers, which do it to one on purpose.
//!
//! A meter is trusted only after a disturber of known shape was put under it and read back, so every meter in [`meters`] has its
//! disturber in [`disturb`] and a test that puts the two together. A meter neither prints nor judges. It yields [`Samples`] with their
//! unit and the conditions that they were taken under, and always says what it lost.
//!
//! | part | what it is |
//! |---|---|
//! | [`Samples`], [`Unit`], [`Lost`] | what a meter saw |
//! | [`Watch`] | how it tells how far it is, and learns that it is to stop |
//! | [`Spin`] | time that our own thread saw missing: the loop that several meters rest on |
//! | [`card`] | the main numbers of all meters, and two machines' beside each other |
//! | [`Keeper`] | puts back what a meter changes, after SIGKILL too |
//! | [`disturb::Thief`] | takes a CPU away at known times |

pub mod card;
pub mod disturb;
mod error;
mod keeper;
pub mod meters;
mod pinned;
mod samples;
mod spin;
mod watch;

pub use error::MeterError;
pub use keeper::Keeper;
pub use samples::{Conditions, Lost, Samples, Unit};
pub use spin::{Missing, Spin};
pub use watch::Watch;
