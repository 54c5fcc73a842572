//! Sessions on one host spread their ticks in time, so that fewer of them want a CPU at the same moment.
//!
//! | step | where |
//! |---|---|
//! | where a session's ticks should be, and how fast they move there; no clock and no system call | `rule` |
//! | the slots of all sessions on the host | `evenkeel_sys::phase_registry`, `evenkeel_sys::phase_slot` |
//! | both in a [`TickClock`](crate::TickClock), with a thread that reads the slots | `keeper` |
//!
//! Alignment comes first. While the clock searches for time slices, tries phases, or holds one, its session keeps its phase.
//! The other sessions spread around it.

mod keeper;
mod rule;
#[cfg(test)]
mod simulated;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_sys::Errno;

pub(crate) use keeper::PhaseKeeper;

/// Where sessions find each other.
///
/// ```
/// use evenkeel_rt::{PhaseSettings, PhaseState, TickLoop};
/// # let here = tempfile::tempdir().unwrap();
/// # let folder = Some(here.path().to_owned());
///
/// let settings = PhaseSettings { folder }; // folder: None for /dev/shm
/// let mut ticks = TickLoop::builder().rate_hz(500).phases(settings).build()?;
/// drop(ticks.wait());
/// let phase = ticks.phase();
/// println!("{phase}"); // alone, 0 neighbours, shifted by 0ns
/// assert_ne!(phase.state, PhaseState::Off);
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseSettings {
    /// The folder of the sessions' files. `None` means /dev/shm. Sessions see each other if they use the same folder.
    pub folder: Option<PathBuf>,
}

/// What a clock does about the phases of other sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhaseState {
    /// Spreading was not requested.
    #[default]
    Off,
    /// The clock keeps its phase, because the [`Align`](crate::Align) setting of its ticks needs that. Other sessions spread around it.
    Aligned,
    /// No other session with a matching period shares CPUs with this one.
    Alone,
    /// The clock's ticks move towards their goal.
    Settling,
    /// The clock's ticks are at their goal, to within a two-hundredth of the period.
    Settled,
}

/// How a session's ticks are spread among the ticks of others. `Display` writes one line.
///
/// ```
/// # let here = tempfile::tempdir().unwrap();
/// use evenkeel_rt::{PhaseSettings, PhaseState, TickClock, TickSettings};
///
/// let mut clock = TickClock::start(TickSettings::default())?;
/// assert_eq!(clock.phase().state, PhaseState::Off);
/// clock.join_phases(&PhaseSettings { folder: Some(here.path().to_owned()) })?;
/// clock.wait();
/// println!("{}, {} neighbours", clock.phase(), clock.phase().neighbours);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseReport {
    /// The state of the clock.
    pub state: PhaseState,
    /// The number of other sessions that the clock takes into account.
    pub neighbours: u32,
    /// The sum of all shifts so far, including the delay of the first tick. Positive: later.
    pub shifted_ns: i64,
    /// The remaining shift to the session's goal in the period. Positive: later.
    pub distance_ns: i64,
}

impl fmt::Display for PhaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            PhaseState::Off => return f.write_str("off"),
            PhaseState::Aligned => "kept for alignment",
            PhaseState::Alone => "alone",
            PhaseState::Settling => "settling",
            PhaseState::Settled => "settled",
        };
        let sign = if self.shifted_ns < 0 { "-" } else { "" };
        let shifted = Duration::from_nanos(self.shifted_ns.unsigned_abs());
        write!(f, "{state}, {} neighbours, shifted by {sign}{shifted:.1?}", self.neighbours)
    }
}

/// Why a clock cannot share its phase with other sessions.
///
/// ```
/// use evenkeel_rt::{PhaseError, PhaseSettings, TickClock, TickSettings};
///
/// let mut clock = TickClock::start(TickSettings::default())?;
/// match clock.join_phases(&PhaseSettings { folder: Some("/nowhere".into()) }) {
///     Err(PhaseError::Folder { folder, errno }) => println!("{} refuses: {errno}", folder.display()),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhaseError {
    /// The kernel refused the session's file.
    #[error("the phases of sessions in {}: {errno}; name a folder that this user can write to, best on a tmpfs", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// Only Linux has the files of sessions.
    #[error("phases of sessions need Linux: leave phases out on this system")]
    Unsupported,
    /// The thread that reads the other sessions' slots could not be started.
    #[error("the thread that reads the phases of other sessions could not be started: {0}")]
    Thread(Errno),
}
