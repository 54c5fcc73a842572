//! The pages of the meters, one file each: blocks made of a report.

pub(crate) mod bandwidth;
pub(crate) mod card;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod frequency;
pub(crate) mod gaps;
pub(crate) mod imbalance;
pub(crate) mod memory;
pub(crate) mod quantum;
pub(crate) mod rates;
pub(crate) mod ticks;
pub(crate) mod udp;
pub(crate) mod wake;
