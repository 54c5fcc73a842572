//! What is searched for periods: gaps, the time that was watched, and the bounds of the search.

use serde::Serialize;

/// The shortest period that is looked for, in nanoseconds.
pub const PERIOD_MIN_NS: f64 = 2e6;

/// The longest, in nanoseconds. A gap longer than this is a pause of the machine, and counts as time that was not watched.
pub const PERIOD_MAX_NS: f64 = 60e6;

/// The last so many nanoseconds are searched for a period; all that is given refines it.
pub const SEARCH_NS: f64 = 4e9;

/// Gaps that are searched at the most.
pub const SEARCH_GAPS: usize = 2048;

/// Who took the CPU in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// The guest's own scheduler: another thread, or a limit of a control group.
    Preempted,
    /// Nobody inside the guest: the hypervisor, or an interrupt.
    Foreign,
    /// Not known.
    Unknown,
}

/// Time in which the watching thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in nanoseconds on any one clock.
    pub start_ns: u64,
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
    /// Who took it.
    pub label: Label,
}

/// Time in which a thread watched. What is no gap in it was ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first moment, in nanoseconds on the gaps' clock.
    pub start_ns: u64,
    /// Its last.
    pub end_ns: u64,
}

/// The median; the order of the values is lost.
pub(super) fn middle_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let at = values.len() / 2;
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}
