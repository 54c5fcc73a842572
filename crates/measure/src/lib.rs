//! Meters measure what a machine does to a server. Disturbers do the same to a server on purpose.
//!
//! Every meter in [`meters`] has a disturber of known shape in [`disturb`], and a test that compares the two. A meter neither prints nor
//! judges. It returns [`Samples`] with their unit and the conditions of the measurement, and always reports what it lost.
//!
//! | part | what it is |
//! |---|---|
//! | [`Samples`], [`Unit`], [`Lost`] | the result of a meter |
//! | [`Watch`] | its progress, and the request to stop |
//! | [`Spin`] | the loop that finds missing time of the own thread; several meters use it |
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
