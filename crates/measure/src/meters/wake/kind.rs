//! What wakes, and where.

use serde::Serialize;

use super::variant::Variant;

/// What wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `clock_nanosleep` to an absolute time of the monotonic clock.
    Timer,
    /// A timer that is a file, read.
    Timerfd,
    /// Another CPU, by `FUTEX_WAKE`.
    Futex,
    /// Another CPU, by a UDP packet on the loopback.
    Udp,
}

impl Kind {
    /// All, with their names.
    pub const ALL: [(Kind, &'static str); 4] =
        [(Kind::Timer, "timer"), (Kind::Timerfd, "timerfd"), (Kind::Futex, "futex"), (Kind::Udp, "udp")];

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// By its name.
    pub fn of(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    pub(super) fn takes(self, variant: Variant) -> bool {
        // Only timers of a thread have slack: with the others it would be the plain wait once more.
        self == Kind::Timer || variant != Variant::Slack1
    }

    pub(super) fn is_by_another_cpu(self) -> bool {
        matches!(self, Kind::Futex | Kind::Udp)
    }
}

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The CPU that wakes; none for a timer.
    pub waker_cpu: Option<usize>,
    /// The CPU that is slept on.
    pub waiter_cpu: usize,
}
