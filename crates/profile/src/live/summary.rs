//! Counts of a recording, and what could not be recorded.

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Nanoseconds since its start.
    pub elapsed_ns: u64,
    /// Samples of all events.
    pub samples: u64,
    /// Switches.
    pub switches: u64,
    /// Lost records: a ring was full.
    pub lost: u64,
    /// How often the kernel paused sampling.
    pub throttled: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// The final counts.
    pub status: Status,
    /// The processes whose end stopped the recording; empty if something else stopped it.
    pub ended_with: Vec<u32>,
    /// The sampling event, such as `cpu-clock`; none if not requested.
    pub clock: Option<String>,
    /// Each sampled event and its number of samples.
    pub events: Vec<(String, u64)>,
    /// Events and data that could not be recorded.
    pub unseen: Vec<Unseen>,
}

/// Something that could not be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// The missing data and the reason, in one sentence.
    pub what: String,
    /// The processes that it concerns; empty means all.
    pub of: Vec<u32>,
}

impl From<String> for Unseen {
    fn from(what: String) -> Unseen {
        Unseen { what, of: Vec::new() }
    }
}

pub(super) fn numbers(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl RecordSummary {
    /// The process whose end stopped the recording: `process 7`, `the last of processes 7, 8`.
    pub fn ended_with(&self) -> Option<String> {
        match self.ended_with.as_slice() {
            [] => None,
            [pid] => Some(format!("process {pid}")),
            pids => Some(format!("the last of processes {}", numbers(pids))),
        }
    }

    /// The data that could not be recorded of these processes, or of all if `pids` is empty.
    pub fn unseen_of(&self, pids: &[u32]) -> Vec<String> {
        let concerns = |of: &[u32]| pids.is_empty() || of.is_empty() || of.iter().any(|pid| pids.contains(pid));
        self.unseen.iter().filter(|unseen| concerns(&unseen.of)).map(|unseen| unseen.what.clone()).collect()
    }
}
