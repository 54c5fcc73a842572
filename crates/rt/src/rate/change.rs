//! `RatePhase`: the range of periods of a phase of the game. `RateChange`: a change of the period.

use std::fmt;
use std::time::Duration;

/// The range of periods for a phase of the game, such as lobby, round or end.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::rate::{RatePhase, RateSettings, TickRate};
///
/// const ROUND: RatePhase = RatePhase::between(Duration::from_millis(30), Duration::from_millis(50)).sustainable(0.6);
///
/// let mut rate = TickRate::start(RateSettings::default())?;
/// assert_eq!(rate.enter(ROUND), Some(Duration::from_millis(30)));
/// println!("a window is overloaded above a load of {}", rate.thresholds().load);
/// # Ok::<(), evenkeel_rt::rate::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePhase {
    /// The shortest period.
    pub fastest: Duration,
    /// The longest period.
    pub slowest: Duration,
    /// The highest sustainable load in this phase. `None` keeps [`RateSettings::sustainable`](super::RateSettings::sustainable).
    pub sustainable: Option<f64>,
}

impl RatePhase {
    /// A phase with periods from `fastest` to `slowest`. If the ladder has no period in this range, the phase uses the one nearest to `fastest`.
    pub const fn between(fastest: Duration, slowest: Duration) -> RatePhase {
        RatePhase { fastest, slowest, sustainable: None }
    }

    /// Returns this phase with another highest sustainable load.
    #[must_use]
    pub const fn sustainable(self, sustainable: f64) -> RatePhase {
        RatePhase { sustainable: Some(sustainable), ..self }
    }
}

/// A change of the period. `Display` writes one line.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::rate::{RateChange, RateReason};
///
/// let change = RateChange { from: Duration::from_millis(20), to: Duration::from_millis(30), why: RateReason::Missed };
/// assert_eq!(change.to_string(), "20ms to 30ms: ticks were missed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// The period before the change.
    pub from: Duration,
    /// The period from the next tick on.
    pub to: Duration,
    /// The reason.
    pub why: RateReason,
}

impl fmt::Display for RateChange {
    /// Writes the change, such as `20ms to 30ms: ticks were missed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {:?}: {}", self.from, self.to, self.why)
    }
}

impl fmt::Display for RateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateReason::Work => "ticks need too much of their share of the period",
            RateReason::Missed => "ticks were missed",
            RateReason::Waited => "the tick's thread waited too long for a CPU",
            RateReason::Throttled => "a CPU limit stopped the server",
            RateReason::Pressure => "other threads of the server waited too long for a CPU",
            RateReason::Starved => "the rest of the system waited too long for a CPU",
            RateReason::Calm => "there was room for more for long enough",
            RateReason::Phase => "another phase of the game began",
            RateReason::TimeSlices => "the time slices of the CPU changed",
        })
    }
}

/// Why a period changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateReason {
    /// Ticks need too much of their share of the period.
    Work,
    /// Ticks were missed.
    Missed,
    /// The tick's thread waited for a CPU too long.
    Waited,
    /// A CPU limit stopped the server.
    Throttled,
    /// Other threads of the server's control group waited for a CPU, and the ticks are part of the cause.
    Pressure,
    /// The rest of the system waited for a CPU, and the ticks are part of the cause.
    Starved,
    /// There was room for a shorter period for long enough.
    Calm,
    /// Another phase of the game began.
    Phase,
    /// The time slices of the CPU changed.
    TimeSlices,
}
