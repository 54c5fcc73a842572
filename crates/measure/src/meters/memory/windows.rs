//! Time windows in which several threads work at once. Each thread counts its finished work per window.
//! The result is the sum over the threads.

use evenkeel_sys::clock;

use crate::pinned;
use crate::{MeterError, Watch};

/// The times of the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// The number of windows.
    pub(crate) count: usize,
    /// The length of each window, in nanoseconds.
    pub(crate) each_ns: u64,
}

/// The counts: for each window the sum over all threads, and the totals over the whole time.
#[derive(Clone, Debug)]
pub(crate) struct Counted<const N: usize> {
    pub(crate) windows: Vec<[u64; N]>,
    pub(crate) whole: [u64; N],
}

impl Windows {
    /// Runs one thread at each of `places`. Each thread repeats `step`, which returns its counts.
    /// `make` prepares a thread. Work does not count before all threads are ready.
    pub(crate) fn run<S, const N: usize>(
        self,
        places: &[Option<usize>],
        watch: &Watch<'_>,
        make: impl Fn(usize) -> Result<S, MeterError> + Sync,
        step: impl Fn(&mut S) -> [u64; N] + Sync,
    ) -> Result<Counted<N>, MeterError> {
        let ready = std::sync::atomic::AtomicUsize::new(0);
        let start_ns = std::sync::OnceLock::new();
        let each = pinned::at_once(places, |turn| {
            let made = make(turn);
            let order = std::sync::atomic::Ordering::AcqRel;
            // The last thread to be ready sets the start. A thread that failed to prepare must not delay the others.
            if ready.fetch_add(1, order) + 1 == places.len() {
                let _ = start_ns.set(clock::monotonic_ns() + 1_000_000);
            }
            let mut state = made?;
            let start_ns = loop {
                match start_ns.get() {
                    Some(start_ns) => break *start_ns,
                    None if watch.stopped() => return Ok(Vec::new()),
                    None => std::hint::black_box(step(&mut state)),
                };
            };
            Ok(self.count(start_ns, watch, || step(&mut state)))
        })?;
        let each: Vec<Vec<[u64; N]>> = each.into_iter().collect::<Result<_, MeterError>>()?;
        let sum = |window: usize| {
            let of_threads = each.iter().filter_map(|windows| windows.get(window));
            of_threads.fold([0; N], |sum, counts| std::array::from_fn(|at| sum[at] + counts[at]))
        };
        // After a stop, the last window is shorter, so count only windows that every thread finished.
        let whole_windows = each.iter().map(Vec::len).min().unwrap_or(0);
        let windows: Vec<[u64; N]> = (0..whole_windows).map(sum).collect();
        let whole = windows.iter().fold([0; N], |sum, counts| std::array::from_fn(|at| sum[at] + counts[at]));
        Ok(Counted { windows, whole })
    }

    fn count<const N: usize>(
        self,
        start_ns: u64,
        watch: &Watch<'_>,
        mut step: impl FnMut() -> [u64; N],
    ) -> Vec<[u64; N]> {
        let mut windows = vec![[0; N]; self.count];
        let end_ns = start_ns + self.each_ns * self.count as u64;
        loop {
            let done = step();
            let now_ns = clock::monotonic_ns();
            if now_ns >= end_ns {
                return windows;
            }
            let at = (now_ns.saturating_sub(start_ns) / self.each_ns) as usize;
            if watch.stopped() {
                windows.truncate(at);
                return windows;
            }
            if let Some(window) = windows.get_mut(at).filter(|_| now_ns >= start_ns) {
                window.iter_mut().zip(done).for_each(|(sum, count)| *sum += count);
            }
        }
    }

    /// A count of one window as a rate.
    pub(crate) fn per_s(self, count: u64) -> u64 {
        (u128::from(count) * 1_000_000_000 / u128::from(self.each_ns.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn work_of_threads_is_summed_by_window() {
        let stop = AtomicBool::new(false);
        let watch = Watch::new(&stop, &|_, _| {});
        let windows = Windows { count: 5, each_ns: 4_000_000 };
        let make = |turn: usize| Ok(turn as u64 + 1);
        // If the machine stalls for a whole run, no work is counted, so try again.
        let runs = (0..5).map(|_| windows.run(&[None, None, None], &watch, make, |state| [1, *state]).unwrap());
        let counted = runs.into_iter().find(|counted| counted.whole[0] > 0).expect("something was done in one of them");
        assert_eq!(counted.windows.len(), 5);
        assert!(counted.whole[1] >= counted.whole[0], "{counted:?}");
        assert_eq!(windows.per_s(8), 2000);
        let none = windows.run(&[None, None], &watch, |_| Err::<(), _>(MeterError::wrong_use("a", "b")), |()| [1]);
        assert_eq!(none.unwrap_err().to_string(), "a: b");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let stopped = windows.run(&[None], &watch, |_| Ok(()), |()| [1]).unwrap();
        assert!(stopped.windows.len() < 5);
    }
}
