//! The pages of `fleet`.

pub(crate) mod audit;
pub(crate) mod diff;
mod parts;
pub(crate) mod table;
