//! Sums over windows: how much of each window was missing, and who took the missing time.

use evenkeel_stats::{Share, ShareSum};
use serde::Serialize;

use super::cause::Cause;

/// The length of a window.
/// The window is long enough to contain an interrupt now and then, and short compared with time slices of threads and hypervisors.
pub(super) const WINDOW_NS: u64 = 100_000;

/// A window to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The first moment of the window, on the monotonic clock.
    pub from_ns: u64,
    /// The last moment of the window.
    pub to_ns: u64,
    /// The time that the window represents, in nanoseconds.
    pub stratum_ns: u64,
}

impl Window {
    /// How much of a stretch lies in the window.
    pub(super) fn holds_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.to_ns).saturating_sub(from_ns.max(self.from_ns))
    }
}

/// A stretch in which the thread did not run: after the planned end of a sleep, or during a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sleep {
    /// When the thread should have run.
    pub due_ns: u64,
    /// When the thread ran again.
    pub woke_ns: u64,
    /// The last part of the stretch, in which the thread was ready and waited to run.
    pub waited_ns: u64,
    /// The throttling that the limits on CPU time report for the stretch.
    pub throttled_ns: u64,
}

impl Sleep {
    /// When the thread was ready to run.
    pub(super) fn ready_ns(&self) -> u64 {
        self.woke_ns.saturating_sub(self.waited_ns).max(self.due_ns).min(self.woke_ns)
    }

    /// The two stretches before the thread ran: the time in which it was due but not ready, and the time in which it was ready but waited.
    pub(super) fn stretches(&self) -> [(u64, u64); 2] {
        [(self.due_ns.min(self.ready_ns()), self.ready_ns()), (self.ready_ns(), self.woke_ns)]
    }
}

/// The missing time of the current window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    /// The window.
    pub window: Window,
    by_threads_ns: u64,
    other_ns: u64,
    /// Whether the thread was not ready when the window began.
    was_gone: bool,
}

impl Watching {
    /// Starts a window. `absent` is the last stretch before it in which the thread did not run.
    pub(super) fn new(window: Window, absent: &Sleep) -> Watching {
        let was_gone = absent.ready_ns() > window.from_ns;
        Watching { window, by_threads_ns: 0, other_ns: 0, was_gone }
    }

    /// The missing time so far, in nanoseconds: the part that other threads took, and the rest.
    pub(super) fn missing_ns(&self) -> (u64, u64) {
        (self.by_threads_ns, self.other_ns)
    }

    /// Adds a gap, and returns how much of it lies in the window.
    pub(super) fn add(&mut self, start_ns: u64, length_ns: u64, cause: Cause) -> u64 {
        let within_ns = self.window.holds_ns(start_ns, start_ns.saturating_add(length_ns));
        match cause {
            Cause::Preemption | Cause::Throttle | Cause::OwnRealTimeThrottle => self.by_threads_ns += within_ns,
            _ => self.other_ns += within_ns,
        }
        within_ns
    }
}

/// The sums over all windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    windows: u64,
    missing: ShareSum,
    by_threads: ShareSum,
    /// Missing time with other causes: in windows that began while the thread was not ready, and in windows in which threads took no time.
    other_gone: ShareSum,
    other_watched: ShareSum,
    /// Missing time with other causes in windows in which other threads had the CPU for some time. Those threads hide other causes.
    other_hidden: ShareSum,
    /// The final lead.
    pub lead_ns: u64,
}

impl Sums {
    /// The number of windows.
    pub(super) fn windows(&self) -> u64 {
        self.windows
    }

    pub(super) fn add(&mut self, seen: &Watching) {
        let Watching { window, by_threads_ns, other_ns, was_gone } = *seen;
        let (length, weight) = ((window.to_ns - window.from_ns) as f64, window.stratum_ns as f64);
        self.windows += 1;
        self.missing.add(weight, (by_threads_ns + other_ns) as f64 / length);
        self.by_threads.add(weight, by_threads_ns as f64 / length);
        let other = match (was_gone, by_threads_ns) {
            (true, _) => &mut self.other_gone,
            (false, 0) => &mut self.other_watched,
            (false, _) => &mut self.other_hidden,
        };
        other.add(weight, other_ns as f64 / length);
    }

    /// Adds the sums of another CPU.
    pub(super) fn merge(&mut self, other: &Sums) {
        self.windows += other.windows;
        self.missing.merge(&other.missing);
        self.by_threads.merge(&other.by_threads);
        self.other_gone.merge(&other.other_gone);
        self.other_watched.merge(&other.other_watched);
        self.other_hidden.merge(&other.other_hidden);
        self.lead_ns = self.lead_ns.max(other.lead_ns);
    }

    /// The missing shares. None without windows.
    pub(super) fn sampled(&self) -> Option<Sampled> {
        Some(Sampled {
            windows: self.windows,
            window_ns: WINDOW_NS,
            lead_ns: self.lead_ns,
            missing: self.missing.share()?,
            by_threads: self.by_threads.share()?,
            by_nobody_inside: self.by_nobody_inside()?,
            hidden: self.other_hidden.weight() / self.missing.weight(),
        })
    }

    /// If other threads hid a window, other causes took at least as much of it as of a watched window that began the same way.
    fn by_nobody_inside(&self) -> Option<Share> {
        let mut sum = self.other_gone;
        sum.merge(&self.other_watched);
        // Without a comparable window, the range is from nothing to all.
        let watched = self.other_watched.share().unwrap_or(Share { share: 0.0, low: 0.0, high: 1.0 });
        sum.merge(&self.other_hidden.with_mean_of_at_least(watched.share));
        let Share { share, low, high } = sum.share()?;
        let hidden = self.other_hidden.weight() / self.missing.weight();
        let below = (share - low).hypot(hidden * (watched.share - watched.low));
        let above = (high - share).hypot(hidden * (watched.high - watched.share));
        Some(Share { share, low: (share - below).max(0.0), high: (share + above).min(1.0) })
    }
}

/// The missing share of the time, from samples.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// The number of windows, whether the thread watched them or slept through them.
    pub windows: u64,
    /// The length of each window, in nanoseconds.
    pub window_ns: u64,
    /// The final lead: how long before a window the thread should wake, in nanoseconds. Wakes that took longer count as missing time.
    pub lead_ns: u64,
    /// All missing time, as a share.
    pub missing: Share,
    /// The share that other threads of this machine, or a limit on CPU time, took.
    pub by_threads: Share,
    /// The share that no thread of this machine took: the hypervisor, interrupts, faults, and wakes that took longer than the lead.
    pub by_nobody_inside: Share,
    /// The share of windows in which other threads had the CPU and hid other causes.
    /// The hidden causes are estimated from watched windows that began the same way.
    pub hidden: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_cut_to_its_window_by_who_took_it() {
        let window = Window { from_ns: 1_000, to_ns: 1_100, stratum_ns: 1 };
        // The columns are: due, woke, waited. Then comes the part of the window that nobody inside took, and the part that threads took.
        let table = [
            ((940, 990, 40), (0, 0)),
            ((940, 1_020, 0), (20, 0)),
            ((940, 1_020, 50), (0, 20)),
            ((940, 1_080, 30), (50, 30)),
            ((940, 5_000, 4_000), (0, 100)),
            ((940, 5_000, 10), (100, 0)),
            ((100, 1_050, 9_999), (0, 50)),
            ((5, 5, 0), (0, 0)),
        ];
        for ((due_ns, woke_ns, waited_ns), (other, by_threads)) in table {
            let absent = Sleep { due_ns, woke_ns, waited_ns, throttled_ns: 0 };
            let mut watching = Watching::new(window, &absent);
            let [not_ready, waited] = absent.stretches();
            watching.add(not_ready.0, not_ready.1 - not_ready.0, Cause::InterruptOrHypervisor);
            watching.add(waited.0, waited.1 - waited.0, Cause::Throttle);
            assert_eq!(
                (watching.other_ns, watching.by_threads_ns),
                (other, by_threads),
                "{due_ns} {woke_ns} {waited_ns}"
            );
        }
    }
}
