//! The comparison of measurements: orders of windows, verdicts, designs, intervals, corrections for many claims.
//! A server that only counts its own ticks needs neither this module nor its random number generator.

mod blocks;
mod boots;
mod calibration;
mod compare;
mod corrections;
pub mod designs;
mod error;
mod limits;
mod pairs;
mod sequential;
mod share;
mod signed_rank;
mod student;
mod verdict;
mod walsh;

pub use blocks::BlockDesign;
pub use boots::{BOOTS_BLOCK, BOOTS_ERROR, BOOTS_MAX, Boot, BootsComparison, boot_order, compare_boots};
pub use calibration::{Calibration, calibrate};
pub use compare::{Comparison, Options, Pair, compare};
pub use corrections::{e_benjamini_hochberg, holm};
pub use error::StatsError;
pub use limits::{MAX_ARMS, MAX_PAIRS, VALUE_RANGE};
pub use pairs::{Order, PairDesign};
pub use sequential::{Look, Sequential};
pub use share::{Share, ShareSum};
pub use verdict::{Direction, Verdict};
