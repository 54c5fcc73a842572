//! `Guard`: keeps a real-time tick from starving the rest of the machine.
//! Otherwise an overloaded server would leave no time for the shell that an administrator needs to stop the server.
//! The code is pure: callers pass the times.

/// The minimum length of a window over which the busy share is judged.
const WINDOW_NS: u64 = 1_000_000_000;
/// Above this busy share, the thread becomes an ordinary one. The kernel's own limit is 0.95, and stops the thread for 50 ms at a time.
const TOO_BUSY: f64 = 0.9;
/// Below this share, the thread may become real-time again.
const CALM: f64 = 0.7;
/// How many calm windows in a row are needed before the thread becomes real-time again.
/// Otherwise a server that exceeds `TOO_BUSY` every other second would change its class every second.
const CALM_WINDOWS: u32 = 5;

/// How to change the thread's scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassChange {
    /// Make it an ordinary thread.
    Ordinary,
    /// Make it real-time again.
    RealTime,
}

/// How busy the tick's thread is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    window_start_ns: u64,
    busy_ns: u64,
    is_relieved: bool,
    calm_windows: u32,
}

impl Guard {
    pub(crate) fn new(now_ns: u64) -> Guard {
        Guard { window_start_ns: now_ns, busy_ns: 0, is_relieved: false, calm_windows: 0 }
    }

    /// Records a tick that ended at `now_ns` and was busy for `busy_ns`. Returns a class change if one is due.
    pub(crate) fn after_tick(&mut self, now_ns: u64, busy_ns: u64) -> Option<ClassChange> {
        self.busy_ns = self.busy_ns.saturating_add(busy_ns);
        let window_ns = now_ns.saturating_sub(self.window_start_ns);
        if window_ns < WINDOW_NS {
            return None;
        }
        let share = self.busy_ns as f64 / window_ns as f64;
        (self.window_start_ns, self.busy_ns) = (now_ns, 0);
        if !self.is_relieved {
            self.is_relieved = share > TOO_BUSY;
            self.calm_windows = 0;
            return self.is_relieved.then_some(ClassChange::Ordinary);
        }
        self.calm_windows = if share < CALM { self.calm_windows + 1 } else { 0 };
        self.is_relieved = self.calm_windows < CALM_WINDOWS;
        (!self.is_relieved).then_some(ClassChange::RealTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates seconds of 10 ms ticks, with one share of busy time for each second.
    /// Returns the seconds in which the class changed, and the new class.
    fn turns(shares: &[f64]) -> Vec<(usize, ClassChange)> {
        let mut guard = Guard::new(0);
        let mut turned = Vec::new();
        for (second, share) in shares.iter().enumerate() {
            for tick in 1..=100 {
                let now_ns = (second as u64 * 100 + tick) * 10_000_000;
                turned.extend(guard.after_tick(now_ns, (share * 1e7) as u64).map(|turn| (second, turn)));
            }
        }
        turned
    }

    #[test]
    fn it_turns_when_it_must_and_back_when_it_may() {
        assert_eq!(turns(&[0.5; 20]), []);
        assert_eq!(turns(&[0.89; 20]), [], "0.89 is below the limit of 0.9");
        let busy = [vec![0.5; 3], vec![0.99; 4], vec![0.5; 8]].concat();
        assert_eq!(turns(&busy), [(3, ClassChange::Ordinary), (11, ClassChange::RealTime)]);
        let uneasy = [vec![0.99; 1], [0.5, 0.8].repeat(10)].concat();
        assert_eq!(turns(&uneasy), [(0, ClassChange::Ordinary)], "the class does not change back and forth");
        assert_eq!(turns(&[10.0; 2]), [(0, ClassChange::Ordinary)], "a tick longer than its period");
    }
}
