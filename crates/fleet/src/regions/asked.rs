//! The question to `evenkeel regions`, and the reasons why it may have no answer.

use super::candidates::{CANDIDATES_MAX, Candidate};
use crate::records::TableError;

/// The regions that a table of players may be served from.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// For a table of positions: the regions. `None` for a table of latencies, whose columns are the regions.
    pub listed: Option<Vec<Candidate>>,
    /// If not empty, only these.
    pub among: Vec<String>,
    /// Regions that are used already, and stay.
    pub keep: Vec<String>,
}

/// The goal of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The maximum number of regions. `None` for the fewest that keep the latency within the limit.
    pub count: Option<u32>,
    /// The limit of the latency, in milliseconds.
    pub within_ms: Option<f64>,
    /// The percentile of the players' latency, in thousandths: 950 for p95.
    pub thousandths: u32,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RegionsError {
    /// The table can't be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table has positions, but there are no regions.
    #[error("the table has positions, and no regions are named")]
    NoCandidates,
    /// The table has latencies, but regions are given too.
    #[error("the columns of the table are the regions, and other regions are named")]
    ListedAndMeasured,
    /// No region has that name.
    #[error("there is no region {0:?} to choose from")]
    UnknownRegion(String),
    /// More candidates than a set can have.
    #[error("{0} regions to choose from, and the most is {CANDIDATES_MAX}")]
    TooManyCandidates(usize),
    /// The user wants to keep more regions than may be chosen.
    #[error("{keep} regions stay, and only {count} may be chosen")]
    TooFew {
        /// The number of regions to keep.
        keep: usize,
        /// The maximum number of regions that may be chosen.
        count: u32,
    },
    /// Neither a number of regions nor a limit is given.
    #[error("neither a number of regions nor a limit of the latency")]
    NoGoal,
    /// Too few players have a latency to any region.
    #[error("only {percent:.1} % of the players have a latency to any of the regions")]
    Unmeasured {
        /// The share of players who have a latency to a region.
        percent: f64,
    },
    /// All regions together reach enough players, but the search found no set of this size that does.
    #[error(
        "found no {count} of {regions} regions with a latency to {percentile} % of the players; all {regions} together have one"
    )]
    TooFewReach {
        /// The maximum number of regions that may be chosen.
        count: u32,
        /// The number of candidates.
        regions: usize,
        /// The percentile in question, such as 95.
        percentile: f64,
    },
    /// Not even all regions are within the limit.
    #[error("even with all {regions} regions, p{percentile} is {least_ms:.1} ms, and the limit is {within_ms} ms")]
    OutOfReach {
        /// The number of candidates.
        regions: usize,
        /// The percentile in question, such as 95.
        percentile: f64,
        /// The percentile with all candidates, in milliseconds.
        least_ms: f64,
        /// The requested limit, in milliseconds.
        within_ms: f64,
    },
}
