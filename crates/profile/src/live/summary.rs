//! What a recording tells beside its samples.

/// How a recording goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Since it began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples of all events.
    pub samples: u64,
    /// Switches.
    pub switches: u64,
    /// Records that found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// The last count of all.
    pub status: Status,
    /// The processes that it was about and with the last of which it ended; none if something else ended it.
    pub ended_with: Vec<u32>,
    /// The event that says what runs, such as `cpu-clock`; none if that was not asked.
    pub clock: Option<String>,
    /// Each event that is sampled, and its samples.
    pub events: Vec<(String, u64)>,
    /// What cannot be seen in it.
    pub unseen: Vec<Unseen>,
}

/// Something that cannot be seen in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// What, and why, in one sentence.
    pub what: String,
    /// The processes of which it cannot be seen; empty if it concerns all.
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
    /// Who had ended when it did, if that is why: `process 7`, `the last of processes 7, 8`.
    pub fn ended_with(&self) -> Option<String> {
        match self.ended_with.as_slice() {
            [] => None,
            [pid] => Some(format!("process {pid}")),
            pids => Some(format!("the last of processes {}", numbers(pids))),
        }
    }

    /// What cannot be seen in it of these processes, a sentence each; of all, if there are none.
    pub fn unseen_of(&self, pids: &[u32]) -> Vec<String> {
        let concerns = |of: &[u32]| pids.is_empty() || of.is_empty() || of.iter().any(|pid| pids.contains(pid));
        self.unseen.iter().filter(|unseen| concerns(&unseen.of)).map(|unseen| unseen.what.clone()).collect()
    }
}
