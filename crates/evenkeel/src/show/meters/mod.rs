//! The pages of the meters, one file each: blocks made of a report.

pub(crate) mod clock;
pub(crate) mod quantum;
