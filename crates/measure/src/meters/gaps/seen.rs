//! `Seen`: what a sampling probe recorded in one window, for programs that watch without a time limit.

/// A stretch of time on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When the stretch began, in nanoseconds.
    pub from_ns: u64,
    /// When the stretch ended, in nanoseconds.
    pub to_ns: u64,
}

impl Stretch {
    /// The length of the stretch, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// One window of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The CPU.
    pub cpu: usize,
    /// When the window ended, on the monotonic clock in nanoseconds.
    pub at_ns: u64,
    /// The time that the window represents, in nanoseconds.
    pub stands_for_ns: u64,
    /// The length of the window, in nanoseconds.
    pub window_ns: u64,
    /// How long other threads of this machine had the CPU in the window, in nanoseconds.
    pub by_threads_ns: u64,
    /// The missing time in which no thread had the CPU, because the CPU was taken away or was in interrupts.
    pub by_nobody_ns: u64,
    /// The last stretch in which the probe was due but not even ready, because its timer did not fire.
    /// The stretch may begin long before the window.
    pub gone: Option<Stretch>,
}
