//! The due times of requests. They are fixed before any answer arrives. This makes the loop an open loop.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::WorkloadError;

/// The number of gaps to draw. The gaps repeat after these.
const DRAWN: usize = 1 << 16;

/// How the due times of requests are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Requests are due at equal intervals.
    Even,
    /// Requests are due at random, as from many independent users (a Poisson process). The gaps are exponentially distributed.
    Poisson,
}

impl Arrivals {
    pub(crate) fn parse(name: &str, value: &str) -> Result<Arrivals, WorkloadError> {
        match value {
            "even" => Ok(Arrivals::Even),
            "poisson" => Ok(Arrivals::Poisson),
            _ => Err(WorkloadError::setting(name, value, "expected even or poisson")),
        }
    }
}

/// The due times of one thread's requests.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// The gaps between requests, relative to the mean gap.
    gaps: Arc<[f64]>,
    at: usize,
    mean_ns: f64,
    from_ns: u64,
    after_ns: f64,
}

impl Schedule {
    /// `rate_per_s` must be above 0.
    pub(super) fn new(rate_per_s: f64, arrivals: Arrivals, seed: u64) -> Schedule {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let gaps: Arc<[f64]> = match arrivals {
            Arrivals::Even => Arc::new([1.0]),
            Arrivals::Poisson => {
                let drawn: Vec<f64> = (0..DRAWN).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect();
                let mean = drawn.iter().sum::<f64>() / DRAWN as f64;
                drawn.into_iter().map(|gap| gap / mean).collect()
            }
        };
        Schedule { gaps, at: 0, mean_ns: 1e9 / rate_per_s, from_ns: 0, after_ns: 0.0 }
    }

    /// Starts the schedule again. The first request is due one gap after this time.
    pub(super) fn start(&mut self, from_ns: u64) {
        self.from_ns = from_ns;
        self.after_ns = 0.0;
        self.advance();
    }

    /// The due time of the next request, on the monotonic clock.
    pub(super) fn due_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.after_ns as u64)
    }

    pub(super) fn advance(&mut self) {
        self.after_ns += self.gaps.get(self.at).copied().unwrap_or(1.0) * self.mean_ns;
        self.at = (self.at + 1) % self.gaps.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_gaps_are_even_and_lose_nothing() {
        let mut schedule = Schedule::new(3.0, Arrivals::Even, 1);
        schedule.start(1000);
        let mut due = Vec::new();
        for _ in 0..3 {
            due.push(schedule.due_ns());
            schedule.advance();
        }
        assert_eq!(due, [333_334_333, 666_667_666, 1_000_001_000]);
        for _ in 3..3_000_000 {
            schedule.advance();
        }
        let late_ns = schedule.due_ns() as f64 - (1e15 + 1000.0 + 1e9 / 3.0);
        assert!(late_ns.abs() < 1e6, "after a million seconds it is {late_ns} ns away");
    }

    #[test]
    fn drawn_gaps_have_the_mean_that_was_asked_for_and_are_spread() {
        let mut schedule = Schedule::new(1000.0, Arrivals::Poisson, 1);
        schedule.start(0);
        let mut short = 0;
        for _ in 0..DRAWN {
            let before_ns = schedule.due_ns();
            schedule.advance();
            short += u32::from(schedule.due_ns() - before_ns < 693_147);
        }
        let rate = DRAWN as f64 / (schedule.due_ns() as f64 / 1e9);
        assert!((999.0..1001.0).contains(&rate), "{rate}");
        // In a Poisson process, half of the gaps are shorter than ln 2 times the mean.
        let share = f64::from(short) / DRAWN as f64;
        assert!((0.49..0.51).contains(&share), "{share}");
    }

    #[test]
    fn words_are_read() {
        assert_eq!(Arrivals::parse("arrivals", "even").ok(), Some(Arrivals::Even));
        assert_eq!(Arrivals::parse("arrivals", "poisson").ok(), Some(Arrivals::Poisson));
        let message = Arrivals::parse("arrivals", "odd").err().map(|error| error.to_string());
        assert_eq!(message.as_deref(), Some("set arrivals=odd: expected even or poisson"));
    }
}
