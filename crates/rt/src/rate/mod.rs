//! `TickRate`: how often the server ticks, chosen by what its ticks take of the CPU that they get. A server that can't keep up misses
//! ticks at random; one that steps to a longer period in time stays even, and comes back when it can.

mod change;
mod decide;
mod ladder;
mod sampler;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use change::{RateChange, RatePhase, RateReason};
pub use decide::{CALM_WINDOWS, CALM_WINDOWS_MAX, Hardware, Readings, Thresholds};
use decide::{Decider, DeciderConfig};
pub use ladder::{LadderError, RUNG_LEAST, RUNG_MOST, RUNGS_MAX, SliceModel, TimeSlices};
use sampler::Sampler;

use crate::tick::Done;

/// From one look at the system to the next, in nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// Looks wait for a tick with so much time left behind it, in nanoseconds, and no longer than a second window.
const ROOM_NS: u64 = 500_000;

/// How a tick rate is chosen.
#[derive(Clone, Debug)]
pub struct RateSettings {
    /// The periods to choose from, 1 ms to 10 s, up to 16, in any order.
    pub ladder: Vec<Duration>,
    /// The one to start with: the rung nearest to it.
    pub start: Duration,
    /// The phase of the game to start in.
    pub phase: RatePhase,
    /// Work over the tick's share of the period that can go on for ever, 0.05 to 1. Above it a gap now and then costs ticks.
    pub sustainable: f64,
    /// With one CPU, the share of it that the system keeps, 0 to 0.95. With more it is not used.
    pub system_share: f64,
}

impl Default for RateSettings {
    /// 10, 20, 30 and 50 ms, of which 10 are only for a phase that asks for them; three quarters of the tick's share, and half of an only
    /// CPU for the system.
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

/// Why a rate could not be started.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    /// The ladder is none.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// A share is out of its range.
    #[error("{what} {share} is not within {least} to {most}")]
    Share {
        /// Which one.
        what: &'static str,
        /// What was given.
        share: f64,
        /// The least that it may be.
        least: f64,
        /// The most that it may be.
        most: f64,
    },
}

/// Chooses the period of a [`TickClock`](crate::TickClock). Start it on the tick's own thread: it reads that thread's counts.
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
///     rate.set_slices(TimeSlices::of(&clock.quantum()));
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
    told: Option<Box<dyn FnMut(RateChange) + Send>>,
}

impl fmt::Debug for TickRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TickRate").field("decider", &self.decider).finish_non_exhaustive()
    }
}

impl TickRate {
    /// Opens what it will read of the machine, and takes all memory that it needs. What can't be opened is not judged by.
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
        let wishes = DeciderConfig {
            ladder: &settings.ladder,
            start: settings.start,
            phase: settings.phase,
            sustainable: settings.sustainable,
            system_share: settings.system_share,
        };
        Ok(TickRate { decider: Decider::new(&wishes, hardware)?, sampler, window_start_ns: None, told: None })
    }

    /// Calls this at each change, on the tick's thread, after a tick.
    #[must_use]
    pub fn on_change(self, told: impl FnMut(RateChange) + Send + 'static) -> TickRate {
        TickRate { told: Some(Box::new(told)), ..self }
    }

    /// The period now.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.decider.period_ns())
    }

    /// Work over share of the period in the last window, such as 0.6; none before the first window is over.
    pub fn load(&self) -> Option<f64> {
        self.decider.load()
    }

    /// From where on a window counts as overloaded on this machine.
    pub fn thresholds(&self) -> Thresholds {
        self.decider.thresholds()
    }

    /// A tick is done. About once a second this looks at the system, which takes some microseconds, and it chooses such a tick for it as
    /// leaves time for that. The new period, where it changes.
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
        self.tell(change)
    }

    /// Another phase of the game begins: the period moves into its range at once. The new period, where it changes.
    pub fn enter(&mut self, phase: RatePhase) -> Option<Duration> {
        let change = self.decider.enter(phase);
        self.tell(change)
    }

    /// Tells how the CPU is given in turns, none where it is not, best by [`TimeSlices::of`] the clock's quantum after each tick: rungs become multiples of the turns' period. The new period, where it
    /// changes. TimeSlices without a period or a share change nothing.
    pub fn set_slices(&mut self, turns: Option<TimeSlices>) -> Option<Duration> {
        let change = self.decider.set_slices(turns);
        self.tell(change)
    }

    fn tell(&mut self, change: Option<RateChange>) -> Option<Duration> {
        let change = change?;
        if let Some(told) = &mut self.told {
            told(change);
        }
        Some(change.to)
    }
}
