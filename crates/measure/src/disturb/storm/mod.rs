//! `storm`: interrupts a server frequently, at a set rate. There are three kinds.
//! The first is packets to this host or to a peer that consents, with their softirqs.
//! The second is timer interrupts.
//! The third is wakes from another CPU, which need an interrupt between processors.

pub mod packets;
pub mod peer;
pub mod timers;
pub mod wakes;

use evenkeel_sys::clock;

use super::worker_group::End;
use crate::error::MeterError;

const SECOND_NS: u64 = 1_000_000_000;

/// Moments at a fixed rate. Late moments are skipped and counted. To catch up after a pause would send a burst instead of a steady storm.
struct Beats {
    start_ns: u64,
    rate_per_s: u64,
    next: u64,
    missed: u64,
}

impl Beats {
    fn new(start_ns: u64, rate_per_s: u64) -> Beats {
        Beats { start_ns, rate_per_s: rate_per_s.max(1), next: 0, missed: 0 }
    }

    fn at_ns(&self, beat: u64) -> u64 {
        let whole = beat / self.rate_per_s * SECOND_NS;
        self.start_ns + whole + beat % self.rate_per_s * SECOND_NS / self.rate_per_s
    }

    /// Sleeps until the next beat in the future, and returns when the beat was due. None at the end.
    fn wait(&mut self, end: &End) -> Option<u64> {
        let now_ns = clock::monotonic_ns();
        if self.at_ns(self.next + 1) <= now_ns {
            let over =
                (u128::from(now_ns - self.start_ns) * u128::from(self.rate_per_s) / u128::from(SECOND_NS)) as u64;
            self.missed += over.saturating_sub(self.next);
            self.next = self.next.max(over);
        }
        let at_ns = self.at_ns(self.next);
        self.next += 1;
        end.sleep_until_ns(at_ns);
        (!end.is_now()).then_some(at_ns)
    }
}

fn refuse_rate(rate_per_s: u64, most: u64) -> Result<(), MeterError> {
    if (1..=most).contains(&rate_per_s) {
        return Ok(());
    }
    Err(MeterError::wrong_use(format!("make {rate_per_s} a second"), format!("expected 1 to {most}")))
}

/// The increase of a kernel count. None if the kernel did not report the count.
fn moved(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_even_and_missed_beats_are_counted() {
        let beats = Beats::new(1000, 3);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|beat| beats.at_ns(beat)),
            [1000, 333_334_333, 666_667_666, 1_000_001_000, 1_333_334_333]
        );
        let end = End::new(u64::MAX);
        let mut late = Beats::new(clock::monotonic_ns() - 10_500_000_000, 10);
        let due_ns = late.wait(&end).unwrap();
        assert!(late.missed >= 104 && late.next == late.missed + 1, "{} {}", late.missed, late.next);
        assert_eq!(due_ns, late.at_ns(late.missed));
        end.stop();
        assert_eq!(late.wait(&end), None);
        assert!(refuse_rate(0, 5).is_err() && refuse_rate(6, 5).is_err() && refuse_rate(5, 5).is_ok());
    }
}
