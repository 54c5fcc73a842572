//! What a job system is built of, so that the scheduler itself needs no unsafe code and no allocation: closures that are held in a few
//! words ([`Task`]) and may borrow for as long as somebody waits for them ([`open`]), a bounded queue between any number of threads
//! ([`Ring`]), who waits for whom ([`Links`]), and who sleeps ([`Gate`]).

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
