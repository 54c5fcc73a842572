//! Counts of a recording, and what could not be recorded.

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Nanoseconds since the start of the recording.
    pub elapsed_ns: u64,
    /// The number of samples of all events.
    pub samples: u64,
    /// The number of switches.
    pub switches: u64,
    /// The number of records that were lost, because a ring was full.
    pub lost: u64,
    /// How often the kernel paused sampling.
    pub throttled: u64,
    /// The size of the records in bytes.
    pub bytes: u64,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// The final counts.
    pub status: Status,
    /// The processes whose end stopped the recording. Empty if something else stopped it.
    pub ended_with: Vec<u32>,
    /// The name of the sampling event, such as `cpu-clock`. None if no samples were requested.
    pub clock: Option<String>,
    /// The name of each sampled event, and the number of samples of that event.
    pub events: Vec<(String, u64)>,
    /// Events and data that could not be recorded.
    pub unseen: Vec<Unseen>,
}

/// Something that could not be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// What is missing and why, in one sentence.
    pub what: String,
    /// The processes whose data is missing. Empty means all processes.
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

    /// The data of these processes that could not be recorded. An empty `pids` means all processes.
    pub fn unseen_of(&self, pids: &[u32]) -> Vec<String> {
        let concerns = |of: &[u32]| pids.is_empty() || of.is_empty() || of.iter().any(|pid| pids.contains(pid));
        self.unseen.iter().filter(|unseen| concerns(&unseen.of)).map(|unseen| unseen.what.clone()).collect()
    }
}
