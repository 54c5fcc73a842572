//! The settings of the rates meter.

/// The settings of the rates meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to measure in addition to the machine.
    pub target: Target,
    /// How long to measure, in milliseconds.
    pub for_ms: u64,
    /// The interval between readings, in milliseconds.
    pub every_ms: u64,
    /// Whether to find out which pages the process uses.
    pub pages: Pages,
}

/// What to measure in addition to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Only the machine, with evenkeel's own control group.
    Machine,
    /// A process, and its control group.
    Process(u32),
    /// A control group.
    Group(String),
}

/// How to treat the kernel's marks on the pages that a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Read the marks as they are.
    AsTheyAre,
    /// Clear the marks at the beginning.
    /// The pages that are referenced at the end were then used in between.
    /// The process's next use of each page takes slightly longer.
    ClearReferenced,
}
