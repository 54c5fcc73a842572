//! `TickRate`: chooses the tick period by the load of the ticks on the CPU time that they get.
//! An overloaded server misses ticks at random. A server that changes to a longer period in time keeps ticking evenly.
//! When the load falls, it returns to the shorter period.

mod change;
mod decide;
mod ladder;
mod sampler;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use change::{RateChange, RatePhase, RateReason};
pub use decide::Thresholds;
use decide::{Decider, DeciderConfig, Hardware};
pub use ladder::{LadderError, RUNG_LEAST, RUNG_MOST, RUNGS_MAX, SliceModel, TimeSlices};
use sampler::Sampler;

use crate::tick::Done;

/// Time between two readings of the system's counters, in nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// We read the counters after a tick that leaves this much time, in nanoseconds. After a second window we no longer wait for such a tick.
const ROOM_NS: u64 = 500_000;

/// Settings of a [`TickRate`].
#[derive(Clone, Debug)]
pub struct RateSettings {
    /// The periods to choose from, 1 ms to 10 s, up to 16, in any order.
    pub ladder: Vec<Duration>,
    /// The period to start with. `TickRate` uses the nearest period of the ladder.
    pub start: Duration,
    /// The phase of the game to start in.
    pub phase: RatePhase,
    /// The highest sustainable load, 0.05 to 1. The load is how long a tick works, divided by the part of the period in which it may run.
    /// Above this load, a single gap makes the server miss ticks.
    pub sustainable: f64,
    /// With one CPU, the share of the CPU for the rest of the system, 0 to 0.95. With more CPUs it has no effect.
    pub system_share: f64,
}

impl Default for RateSettings {
    /// Periods of 10, 20, 30 and 50 ms, a load of up to 0.75, and half of a single CPU for the system.
    /// The period is 10 ms only in a phase that requests it.
    fn default() -> RateSettings {
        RateSettings {
            ladder: [10, 20, 30, 50].map(Duration::from_millis).to_vec(),
            start: Duration::from_millis(20),
            phase: RatePhase::between(Duration::from_millis(20), Duration::from_millis(50)),
            sustainable: 0.75,
            system_share: 0.5,
        }
    }
}

/// Why a [`TickRate`] cannot start.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    /// The ladder is invalid.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// A share is out of range.
    #[error("{what} {share} is not within {least} to {most}")]
    Share {
        /// The name of the share.
        what: &'static str,
        /// The value of the share.
        share: f64,
        /// The smallest valid value.
        least: f64,
        /// The largest valid value.
        most: f64,
    },
}

/// Chooses the period of a [`TickClock`](crate::TickClock). Start it on the tick's thread, because it reads that thread's counters.
/// [`TickLoopBuilder::adaptive_rate`](crate::TickLoopBuilder::adaptive_rate) makes all calls of this example for you.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::rate::{RatePhase, RateSettings, TickRate, TimeSlices};
/// use evenkeel_rt::{TickClock, TickSettings};
///
/// const ROUND: RatePhase = RatePhase::between(Duration::from_millis(10), Duration::from_millis(30));
///
/// let mut rate = TickRate::start(RateSettings::default())?.on_change(|change| {
///     println!("{:?} to {:?}: {:?}", change.from, change.to, change.why);
/// });
/// let mut clock = TickClock::start(TickSettings { period: rate.period(), ..TickSettings::default() })?;
/// rate.enter(ROUND);
/// for _ in 0..3 {
///     clock.wait();
///     // … move the world by `rate.period()` …
///     rate.set_slices(TimeSlices::from_quantum(&clock.quantum()));
///     if let Some(done) = clock.done() {
///         rate.after(&done);
///     }
///     clock.set_period(rate.period())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TickRate {
    decider: Decider,
    sampler: Sampler,
    window_start_ns: Option<u64>,
    on_change: Option<Box<dyn FnMut(RateChange) + Send>>,
}

impl fmt::Debug for TickRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TickRate").field("decider", &self.decider).finish_non_exhaustive()
    }
}

impl TickRate {
    /// Opens the files with the kernel's counters, and allocates all memory. If a file cannot be opened, its counters have no influence.
    ///
    /// # Errors
    /// If the ladder or a share is out of range.
    pub fn start(settings: RateSettings) -> Result<TickRate, RateError> {
        let sampler = Sampler::of_this_thread();
        let hardware = sampler.hardware();
        TickRate::on(settings, hardware, sampler)
    }

    fn on(settings: RateSettings, hardware: Hardware, sampler: Sampler) -> Result<TickRate, RateError> {
        let in_phase = settings.phase.sustainable.unwrap_or(settings.sustainable);
        for (what, share, least, most) in [
            ("the sustainable load", settings.sustainable, 0.05, 1.0),
            ("the phase's sustainable load", in_phase, 0.05, 1.0),
            ("the system's share", settings.system_share, 0.0, 0.95),
        ] {
            if !(least..=most).contains(&share) {
                return Err(RateError::Share { what, share, least, most });
            }
        }
        let config = DeciderConfig {
            ladder: &settings.ladder,
            start: settings.start,
            phase: settings.phase,
            sustainable: settings.sustainable,
            system_share: settings.system_share,
        };
        Ok(TickRate { decider: Decider::new(&config, hardware)?, sampler, window_start_ns: None, on_change: None })
    }

    /// Sets a function to call at each change, on the tick's thread, after a tick.
    #[must_use]
    pub fn on_change(self, call: impl FnMut(RateChange) + Send + 'static) -> TickRate {
        TickRate { on_change: Some(Box::new(call)), ..self }
    }

    /// The current period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.decider.period_ns())
    }

    /// The load in the last second or so, such as 0.6. `None` in the first second.
    /// The load is how long a tick works, divided by the part of the period in which it may run.
    ///
    /// ```
    /// use evenkeel_rt::rate::{RateSettings, TickRate};
    ///
    /// let rate = TickRate::start(RateSettings::default())?;
    /// assert_eq!(rate.load(), None); // in the first second
    /// # Ok::<(), evenkeel_rt::rate::RateError>(())
    /// ```
    pub fn load(&self) -> Option<f64> {
        self.decider.load()
    }

    /// The limits above which a window counts as overloaded on this machine.
    pub fn thresholds(&self) -> Thresholds {
        self.decider.thresholds()
    }

    /// Records a tick. Call it after each tick. Returns the new period if it changes.
    /// About once a second it reads the system's counters for some microseconds, after a tick that leaves time.
    pub fn after(&mut self, done: &Done) -> Option<Duration> {
        self.decider.tick(done.work_ns(), done.tick.missed);
        let start_ns = *self.window_start_ns.get_or_insert(done.tick.due_ns);
        let window_ns = done.done_ns.saturating_sub(start_ns);
        if window_ns < WINDOW_NS {
            return None;
        }
        let left_ns = self.decider.period_ns().saturating_sub(done.due_to_done_ns());
        if left_ns < ROOM_NS && window_ns < 2 * WINDOW_NS {
            return None;
        }
        self.window_start_ns = Some(done.done_ns);
        let readings = self.sampler.read(window_ns);
        let change = self.decider.window(&readings);
        self.report(change)
    }

    /// Enters another phase of the game: the period moves into the range of that phase at once. Returns the new period if it changes.
    pub fn enter(&mut self, phase: RatePhase) -> Option<Duration> {
        let change = self.decider.enter(phase);
        self.report(change)
    }

    /// Sets the time slices of the CPU. After each tick, pass the result of [`TimeSlices::from_quantum`] for the clock's quantum.
    /// Periods become multiples of the slices' period. Slices without a period or a share change nothing. Returns the new period if it changes.
    pub fn set_slices(&mut self, slices: Option<TimeSlices>) -> Option<Duration> {
        let change = self.decider.set_slices(slices);
        self.report(change)
    }

    fn report(&mut self, change: Option<RateChange>) -> Option<Duration> {
        let change = change?;
        if let Some(call) = &mut self.on_change {
            call(change);
        }
        Some(change.to)
    }
}
