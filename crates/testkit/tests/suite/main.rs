//! The fixtures themselves.

mod fitness;
