//! Meters measure how a machine disturbs a server. Disturbers disturb a server in the same ways on purpose.
//!
//! Every meter in [`meters`] has a disturber of known shape in [`disturb`], and a test that compares the two.
//! A meter neither prints nor judges.
//! A meter returns [`Samples`] with their unit and the conditions of the measurement, and always reports the samples that it lost.
//!
//! | part | what it is |
//! |---|---|
//! | [`Samples`], [`Unit`], [`Lost`] | the result of a meter |
//! | [`Watch`] | a meter's progress, and the request to stop |
//! | [`Spin`] | the loop that finds missing time of its own thread, for several meters |
//! | [`card`] | the main numbers of all meters, and the comparison of two machines |
//! | [`Keeper`] | restores what a meter changes, also after SIGKILL |
//! | [`disturb::RtHog`] | a real-time thread that takes a CPU at known times |

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
