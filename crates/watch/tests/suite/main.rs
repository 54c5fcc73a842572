//! The tests of the crate on captured, made-up and live hosts.

mod captured;
mod ledger;
mod live;
mod made_up;
mod metrics;
mod rates;
mod store;
