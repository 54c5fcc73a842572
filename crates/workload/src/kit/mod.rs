//! The building blocks of workloads: server and load processes, their placement on CPUs, and the check whether the load was at its limit.

pub(crate) mod child;
pub(crate) mod full;
pub(crate) mod game;
pub(crate) mod pair;
pub(crate) mod place;
pub(crate) mod server;
pub(crate) mod serving;
