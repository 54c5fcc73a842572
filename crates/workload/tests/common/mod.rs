//! Shared code of the tests and live checks of this crate.

#![allow(dead_code, reason = "each of the two programs uses a part of it")]

pub(crate) mod memcached;
pub(crate) mod scripts;
