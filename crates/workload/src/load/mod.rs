//! The load generator of the servers that answer requests: many connections, one thread a CPU, keys and sizes drawn beforehand.
//!
//! *Open loop*: requests are due at times that are fixed before the server has answered anything, and a request's time counts from when it was
//! due. A server that stalls is charged for every request that fell due meanwhile, where a loop that waits for answers would ask nothing
//! and see nothing ("coordinated omission"). *Closed loop*: each connection asks again as soon as it was answered, which finds the
//! throughput. Whether the generator itself kept up is measured too: what a machine can't send says nothing of the server.

mod connection;
mod counts;
mod dataset;
pub mod ddnet;
mod draw;
mod fault;
mod loader;
pub mod protocol;
mod schedule;
mod settings;
mod worker;

pub use dataset::{Dataset, KEYS_MAX, Sizes};
pub use draw::Popularity;
pub use fault::Fault;
pub use loader::{Loader, Pace, Shape};
pub use protocol::{Answer, Found, Http, Kind, Memcached, Mqtt, OddAnswer, Op, Protocol, Redis};
pub use schedule::Arrivals;
pub use settings::{COMMON, Settings, Taken};
