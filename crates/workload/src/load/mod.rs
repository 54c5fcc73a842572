//! The load generator for servers that answer requests: many connections, one thread per CPU, keys and sizes drawn beforehand.
//!
//! *Open loop*: the due times of requests are fixed before the server answers anything,
//! and a request's latency counts from its due time.
//! If a server stalls, every request that becomes due during the stall counts with its wait.
//! A loop that waits for answers would send nothing during the stall. So it would measure only one slow request ("coordinated omission").
//! *Closed loop*: each connection sends its next request as soon as it has its answer.
//! This measures the throughput.
//! The generator also measures its own delays, because requests that the generator sent late show nothing about the server.

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
