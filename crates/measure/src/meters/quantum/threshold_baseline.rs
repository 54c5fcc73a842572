//! The loop of the talk that inspired this meter, for comparison.
//! The loop spins for 50 ms, and takes the first gap over a millisecond as the time that the hypervisor gave to others.
//! The talk's server runs the loop once per CPU. A second run right after the first gives the period.

use evenkeel_sys::sched;
use evenkeel_sys::tsc::{self, Scale};

use crate::pinned::stay_on;
use crate::spin::{Missing, Spin};
use crate::{MeterError, Watch};

const PRIORITY: u8 = 10;
const LIMIT_NS: u64 = 50_000_000;
const THRESHOLD_NS: u64 = 1_000_000;

/// The result of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    /// The time from the end of one gap to the end of the next. None without a second gap.
    pub(super) period_ns: Option<f64>,
    /// The first gap.
    pub(super) gap_ns: f64,
    /// The end of the first gap, where our slice begins, on the monotonic clock.
    pub(super) start_ns: u64,
}

/// Runs the loop on `cpu`. The thread is real-time where that is allowed, as in the talk.
/// Returns None without a gap. Call it in a separate thread.
pub(super) fn run(cpu: usize, watch: &Watch<'_>) -> Result<(bool, Option<Said>), MeterError> {
    stay_on(cpu)?;
    let scale = Scale::measured();
    watch.progress(0.5, &format!("CPU {cpu}"));
    let is_real_time = sched::set_fifo(PRIORITY).is_ok();
    let Some(first) = first_gap(scale) else { return Ok((is_real_time, None)) };
    let second = first_gap(scale);
    let said = Said {
        period_ns: second.map(|second| scale.length_ns(second.end_ticks.saturating_sub(first.end_ticks)) as f64),
        gap_ns: scale.length_ns(first.ticks()) as f64,
        start_ns: scale.ns_at(first.end_ticks),
    };
    Ok((is_real_time, Some(said)))
}

fn first_gap(scale: Scale) -> Option<Missing> {
    let mut first = None;
    let spin = Spin { scale, threshold_ns: THRESHOLD_NS };
    spin.until(tsc::ticks() + scale.ticks(LIMIT_NS), |missing| {
        first = Some(missing);
        false
    });
    first
}
