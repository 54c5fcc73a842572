//! The input of the search: gaps, watched time, and the bounds of the search.

use serde::Serialize;

/// The shortest period to find, in nanoseconds.
pub const PERIOD_MIN_NS: f64 = 2e6;

/// The longest period to find, in nanoseconds. A longer gap is a pause of the machine, and counts as unwatched time.
pub const PERIOD_MAX_NS: f64 = 60e6;

/// The search uses only this much of the most recent time, in nanoseconds. The whole time refines its result.
pub const SEARCH_NS: f64 = 4e9;

/// The maximum number of gaps to search.
pub const SEARCH_GAPS: usize = 2048;

/// Who took the CPU during a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// The guest's own scheduler: another thread, or a limit of a control group.
    Preempted,
    /// Nothing inside the guest: the hypervisor, or an interrupt.
    Foreign,
    /// Unknown.
    Unknown,
}

/// Time in which the watching thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The start of the gap, in nanoseconds on any one clock.
    pub start_ns: u64,
    /// The length of the gap, in nanoseconds.
    pub length_ns: u64,
    /// Who took the CPU.
    pub label: Label,
}

/// Time in which a thread watched. Outside gaps the CPU was available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start of the window, in nanoseconds on the gaps' clock.
    pub start_ns: u64,
    /// The end of the window, in nanoseconds on the gaps' clock.
    pub end_ns: u64,
}

/// The median of the values, which are reordered.
pub(super) fn middle_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let at = values.len() / 2;
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}
