//! The building blocks of a job system, so that the scheduler itself needs neither unsafe code nor allocation.
//! A task holds a closure in a few words ([`Task`]). The closure may borrow as long as a thread waits for it ([`open`]).
//! There is a bounded queue between any number of threads ([`Ring`]), dependencies ([`Links`]), and sleeping threads ([`Gate`]).

mod gate;
mod ledger;
mod links;
mod primitive;
mod ring;
mod scope;
mod task;

pub use gate::{Gate, SLOTS_MAX};
pub use links::{Link, Links};
pub use ring::{Claim, Ring, Sink, Source, one_to_many};
pub use scope::{JobScope, Left, open};
pub use task::{CAPTURED_BYTES_MAX, Tally, Task};
