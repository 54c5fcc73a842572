//! The question to `evenkeel regions`, and the reasons why it may have no answer.

use super::candidates::{CANDIDATES_MAX, Candidate};
use crate::records::TableError;

/// The regions that a table of players may be served from.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The regions, for a table of positions. `None` for a table of latencies, whose columns are the regions.
    pub listed: Option<Vec<Candidate>>,
    /// If not empty, only these regions.
    pub among: Vec<String>,
    /// Regions that are already in use. Every answer contains them.
    pub keep: Vec<String>,
}

/// The goal of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The maximum number of regions. `None` for the smallest number that keeps the latency within the limit.
    pub count: Option<u32>,
    /// The limit of the latency, in milliseconds; none if there is no limit.
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
    /// No region has this name.
    #[error("there is no region {0:?} to choose from")]
    UnknownRegion(String),
    /// There are more candidates than a set can have.
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
        /// The percentile that the search minimises, such as 95.
        percentile: f64,
    },
    /// Even with all regions, the latency is above the limit.
    #[error("even with all {regions} regions, p{percentile} is {least_ms:.1} ms, and the limit is {within_ms} ms")]
    OutOfReach {
        /// The number of candidates.
        regions: usize,
        /// The percentile that has to be within the limit, such as 95.
        percentile: f64,
        /// The latency at this percentile with all candidates, in milliseconds.
        least_ms: f64,
        /// The requested limit, in milliseconds.
        within_ms: f64,
    },
}
