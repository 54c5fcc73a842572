//! How to measure.

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to look at beside the machine.
    pub target: Target,
    /// How long.
    pub for_ms: u64,
    /// From one reading to the next.
    pub every_ms: u64,
    /// Whether to find out which pages of the process are used.
    pub pages: Pages,
}

/// What to look at beside the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing; of control groups our own.
    Machine,
    /// A process, and the control group that it is in.
    Process(u32),
    /// A control group.
    Group(String),
}

/// What is done to the marks by which the kernel knows which pages of a process are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They are read as they are.
    AsTheyAre,
    /// They are cleared at the beginning, so that what is referenced at the end is what was used in between. The process's next use of each
    /// page takes a little longer.
    ClearReferenced,
}
