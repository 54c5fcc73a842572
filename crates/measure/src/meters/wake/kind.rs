//! The kinds of wakes, and the places where they happen.

use serde::Serialize;

use super::variant::Variant;

/// What wakes the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A timer: `clock_nanosleep` to an absolute time of the monotonic clock.
    Timer,
    /// A timer whose timerfd the waiter reads.
    Timerfd,
    /// Another CPU wakes the waiter, by `FUTEX_WAKE`.
    Futex,
    /// Another CPU wakes the waiter, by a UDP packet on the loopback device.
    Udp,
}

impl Kind {
    /// All kinds, with their names.
    pub const ALL: [(Kind, &'static str); 4] =
        [(Kind::Timer, "timer"), (Kind::Timerfd, "timerfd"), (Kind::Futex, "futex"), (Kind::Udp, "udp")];

    /// The kind's name, on the command line and in answers.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    pub(super) fn takes(self, variant: Variant) -> bool {
        // Only timers of a thread have slack. For the other kinds, this variant equals the plain wait.
        self == Kind::Timer || variant != Variant::Slack1
    }

    pub(super) fn is_by_another_cpu(self) -> bool {
        matches!(self, Kind::Futex | Kind::Udp)
    }
}

/// The CPUs of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The CPU that wakes the waiter. None for a timer.
    pub waker_cpu: Option<usize>,
    /// The CPU on which the waiter sleeps.
    pub waiter_cpu: usize,
}
