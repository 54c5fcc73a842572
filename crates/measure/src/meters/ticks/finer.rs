//! `finer`: whether a loop with the heavier ticks is only every second, third or fourth tick of a faster loop.
//! If a game server sends to its players every second tick, that tick does several times the work.
//! The ticks in between then look like polls. Two properties distinguish these ticks from polls.
//! The ticks come when the faster loop is due, and they do more work then than wakes at other times.

use evenkeel_stats::median;

use super::account;
use super::tempo::{self, Tempo};
use super::track::{Beat, Followed, Gate};

/// The ticks of a slower loop within a faster one do this many times the work of the wakes in between.
pub(super) const HEAVIER: f64 = 1.4;
/// A server may do more work every second, every third or every fourth tick.
const DIVISORS: std::ops::RangeInclusive<u32> = 2..=4;
/// The share of the times between the ticks that must have a wake.
const PRESENCE_MIN: f64 = 0.8;
/// From this factor on, wakes between the ticks do more work at their due times than at other times.
/// Up to [`HEAVIER`] it is unclear which loop is the tick.
const MAYBE_HEAVIER: f64 = 1.15;
/// Phases, as parts of the faster period. Wakes at these phases are compared with wakes at the due times.
const ELSEWHERE: [f64; 4] = [0.25, 0.4, 0.6, 0.75];
/// The maximum number of ticks to examine.
const TICKS_MAX: usize = 4096;

/// A faster loop that contains the ticks of another loop.
pub(super) struct Finer {
    pub tempo: Tempo,
    pub followed: Followed,
    /// Whether the faster loop's work between the ticks clearly exceeds the work at other times. Otherwise either loop may be the tick.
    pub is_sure: bool,
}

/// Finds the faster loop among `beats` whose heavier ticks are the ticks of `slow`. None if there is no such loop.
pub(super) fn finer(beats: &[Beat], slow: &Tempo, followed: &Followed) -> Option<Finer> {
    let ticks: Vec<u64> = followed.slots.iter().filter_map(|slot| Some(beats.get(slot.beat()?)?.at_ns)).collect();
    let gaps = Gaps { beats, ticks: &ticks[..ticks.len().min(TICKS_MAX)], slow };
    DIVISORS.rev().filter_map(|divisor| gaps.divided_by(divisor)).max_by_key(|finer| finer.is_sure)
}

/// The work of a server between the ticks of a loop.
struct Gaps<'b> {
    beats: &'b [Beat],
    ticks: &'b [u64],
    slow: &'b Tempo,
}

impl Gaps<'_> {
    fn divided_by(&self, divisor: u32) -> Option<Finer> {
        let period_ns = self.slow.period_ns / f64::from(divisor);
        if !tempo::RATE_HZ.contains(&(1e9 / period_ns)) {
            return None;
        }
        let gate = Gate::new(period_ns, self.slow.spread_ns);
        let due = (1..divisor).map(|part| self.work_at(f64::from(part) * period_ns, gate));
        let due = due.collect::<Option<Vec<f64>>>()?.into_iter().min_by(f64::total_cmp)?;
        let parts = (0..divisor).flat_map(|part| ELSEWHERE.map(|place| (f64::from(part) + place) * period_ns));
        let elsewhere = parts.filter_map(|after_ns| self.work_at(after_ns, gate)).chain(self.typical());
        let elsewhere = elsewhere.max_by(f64::total_cmp)?;
        if due < MAYBE_HEAVIER * elsewhere {
            return None;
        }
        let known = Tempo {
            period_ns,
            rate_hz: self.slow.rate_hz * f64::from(divisor),
            light_ns: (due * elsewhere).sqrt(),
            ..*self.slow
        };
        let (tempo, followed) = account::keeps(self.beats, &known)?;
        let is_sure = due >= HEAVIER * elsewhere;
        (tempo.presence >= PRESENCE_MIN).then_some(Finer { tempo, followed, is_sure })
    }

    /// The median work of the heaviest wakes at this delay after each tick. None if too few ticks have a wake at this delay.
    fn work_at(&self, after_ns: f64, gate: Gate) -> Option<f64> {
        let heaviest = |tick_ns: &u64| {
            let middle_ns = *tick_ns as f64 + after_ns;
            let from = self.beats.partition_point(|beat| (beat.at_ns as f64) < middle_ns - gate.ns);
            let near = self.beats[from..].iter().take_while(|beat| beat.at_ns as f64 <= middle_ns + gate.ns);
            near.map(|beat| beat.weight).max_by(f64::total_cmp)
        };
        let found: Vec<f64> = self.ticks.iter().filter_map(heaviest).collect();
        if (found.len() as f64) < PRESENCE_MIN * self.ticks.len() as f64 { None } else { median(&found) }
    }

    /// The work of a wake that is not a tick.
    fn typical(&self) -> Option<f64> {
        let is_tick = |beat: &&Beat| self.ticks.binary_search(&beat.at_ns).is_ok();
        median(&self.beats.iter().filter(|beat| !is_tick(beat)).map(|beat| beat.weight).collect::<Vec<f64>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A wake every `every_ms` for ten seconds. `work_us` gives the work of each wake by its number.
    /// Each wake begins some tens of microseconds off its time.
    fn wakes(every_ms: u64, first_us: u64, work_us: impl Fn(u64) -> u64) -> Vec<Beat> {
        let wake = |number: u64| {
            let at_ns = number * every_ms * MS + first_us * 1000 + number * 7919 % 40_000;
            let weight = (work_us(number) * 1000) as f64 * (1.0 + (number * 31 % 11) as f64 / 100.0);
            Beat { at_ns, until_ns: at_ns + weight as u64, weight }
        };
        (0..10_000 / every_ms).map(wake).collect()
    }

    fn found(beats: &[Beat], hz: f64) -> Option<(f64, bool)> {
        let (slow, followed) = account::keeps(beats, &tempo::at_rate(beats, hz).unwrap()).unwrap();
        finer(beats, &slow, &followed).map(|finer| (finer.tempo.hz().round(), finer.is_sure))
    }

    #[test]
    fn ticks_between_the_heavier_ones_are_distinguished_from_polls() {
        // The server polls for 20 us every 5 ms. Every fourth poll is a tick. Every second or third tick does more work.
        let server = |light_us: u64, heavy_us: u64, every: u64| {
            wakes(5, 0, move |number| match (number % 4, number / 4 % every) {
                (0, 0) => heavy_us,
                (0, _) => light_us,
                _ => 20,
            })
        };
        let (half, third) = (25.0, 50.0 / 3.0);
        for (what, beats, hz, expected) in [
            ("every second tick sends", server(60, 200, 2), half, Some((50.0, true))),
            ("every third does", server(60, 200, 3), third, Some((50.0, true))),
            ("a little more than a poll", server(26, 200, 2), half, Some((50.0, false))),
            ("no more than a poll", server(20, 200, 2), half, None),
        ] {
            assert_eq!(found(&beats, hz), expected, "{what}");
        }
    }

    #[test]
    fn packets_of_players_are_not_ticks() {
        let mut beats = wakes(40, 0, |_| 300);
        // Four players send at twice the tick rate, each at its own phase.
        for first_us in [3_000, 7_500, 12_000, 16_500] {
            beats.extend(wakes(20, first_us, |_| 60));
        }
        beats.sort_by_key(|beat| beat.at_ns);
        assert_eq!(found(&beats, 25.0), None);
    }
}
