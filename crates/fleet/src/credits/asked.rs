//! The question to `evenkeel credits`, and why it may have no answer.

use evenkeel_host::credits::CreditMode;

use crate::records::TableError;

/// The question about the credits.
#[derive(Clone, Debug, PartialEq)]
pub struct CreditsAsked {
    /// The present or future instance type of the server.
    pub instance_type: String,
    /// The mode that the user named; none for the cloud's default.
    pub mode: Option<CreditMode>,
    /// The credits at the start of the trace.
    pub start: StartCredits,
    /// If the trace is shorter than this many days, it is repeated until they are over.
    pub days: f64,
    /// The minimum memory of other types, in GiB.
    pub memory_gib: Option<f64>,
    /// The price in US dollars of one hour of one CPU beyond the credits. It replaces the documented price.
    pub surplus_usd_per_vcpu_hour: Option<f64>,
}

/// How many credits there are at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StartCredits {
    /// The maximum balance of the type.
    Full,
    /// The launch credits of a new instance.
    Launch,
    /// This number of credits.
    Number(f64),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CreditsError {
    /// The table can't be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table has percentages, but the number of CPUs is unknown.
    #[error("the table has percentages, and the number of CPUs is not known")]
    PercentOfWhat,
    /// The table has a single row, which shows no length of time.
    #[error("a trace needs two rows or more, since a row lasts until the next one")]
    TooShort,
    /// The table covers less time than credits count.
    #[error("its rows cover {0} seconds, and credits count minutes: a trace needs a minute or more")]
    UnderMinute(f64),
    /// More credits than the type can have.
    #[error("{name} has at most {max} credits, and --credits is {credits}")]
    TooMany {
        /// The instance type.
        name: String,
        /// The given number.
        credits: f64,
        /// The maximum balance of the type.
        max: f64,
    },
    /// The catalogue does not have the instance type.
    #[error("the catalogue of instance types does not have {0:?}")]
    UnknownType(String),
    /// The instance type has no credits.
    #[error("{0} has no CPU credits: it may use all of its CPUs for ever")]
    NoCredits(String),
    /// The instance type has a baseline, but no document says for how long it may exceed it.
    #[error("{name} has a baseline of {baseline_cpus} CPUs, and no document says for how long it may use more")]
    Undocumented {
        /// The instance type.
        name: String,
        /// The baseline of the type: the CPU time that it may always use, in CPUs.
        baseline_cpus: f64,
    },
    /// The instance type has no unlimited mode. Microsoft's types have none.
    #[error("{0} has no unlimited mode: without credits it is held at its baseline")]
    NotUnlimited(String),
}
