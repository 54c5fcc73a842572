//! What the tests and the live checks of this crate share.

#![allow(dead_code, reason = "each of the two programs uses a part of it")]

pub(crate) mod memcached;
pub(crate) mod scripts;
