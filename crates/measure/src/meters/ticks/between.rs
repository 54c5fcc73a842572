//! `divisor_of`: whether the ticks of a loop are only every second, third or fourth tick of a faster loop.
//! On a busy CPU a tick begins at once, or one scheduler tick (4 ms) later.
//! At 50 Hz such a delay is outside the gate.
//! At 25 Hz the gate is twice as wide, so the delay is inside.
//! The slower period then looks regular, and the true period does not.
//!
//! Three facts identify the ticks in between.
//! Each period has the same number of them, they do as much work, and they begin when they are due or later.
//! Packets and polls have none of these properties.

use evenkeel_stats::median;

use super::track::{Beat, Followed, Gate};

/// The largest multiple of the rate to try: one tick in time for every three late ticks.
const DIVISOR_MAX: usize = 4;
/// The minimum number of complete periods.
const PERIODS_MIN: usize = 8;
/// The share of periods that must contain the same number of ticks in between. In the other periods, a tick was lost or two ticks merged.
const SAME_COUNT_MIN: f64 = 0.7;
/// A tick in between does at least this share of the work of a tick in time.
const AS_HEAVY: f64 = 0.5;
/// At least this share of the ticks in between begin no earlier than they are due.
const NOT_EARLY_MIN: f64 = 0.9;

/// How many ticks each period of `followed` really contains. None if each period contains a single tick.
pub(super) fn divisor_of(beats: &[Beat], followed: &Followed, period_ns: f64) -> Option<u32> {
    let in_time: Vec<(u64, usize)> =
        followed.slots.iter().filter_map(|slot| Some((slot.number, slot.at_its_time()?))).collect();
    let tick_work = median(&in_time.iter().filter_map(|(_, at)| Some(beats.get(*at)?.weight)).collect::<Vec<_>>())?;
    let whole = in_time.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1 && pair[1].1 > pair[0].1);
    let periods: Vec<(u64, Vec<Beat>)> = whole
        .filter_map(|pair| {
            let between = beats.get(pair[0].1 + 1..pair[1].1)?.iter();
            let heavy = between.filter(|beat| beat.weight >= AS_HEAVY * tick_work);
            Some((beats.get(pair[0].1)?.at_ns, heavy.copied().take(DIVISOR_MAX).collect()))
        })
        .collect();
    if periods.len() < PERIODS_MIN {
        return None;
    }
    let holding = |count: usize| periods.iter().filter(move |(_, between)| between.len() == count);
    let count = (1..DIVISOR_MAX).max_by_key(|count| holding(*count).count())?;
    if (holding(count).count() as f64) < SAME_COUNT_MIN * periods.len() as f64 {
        return None;
    }
    let part_ns = period_ns / (count as f64 + 1.0);
    // The tick in time may itself be late, as far as the gate of its own period allows.
    let early_ns = Gate::widest(period_ns).ns;
    let is_due = |(tick_ns, between): &&(u64, Vec<Beat>)| {
        let due_ns = |at: usize| *tick_ns as f64 + (at as f64 + 1.0) * part_ns;
        between.iter().enumerate().all(|(at, beat)| beat.at_ns as f64 >= due_ns(at) - early_ns)
    };
    let due = holding(count).filter(is_due).count();
    (due as f64 >= NOT_EARLY_MIN * holding(count).count() as f64).then_some(count as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::super::track::{Pull, Start, follow};
    use super::*;

    const PERIOD_NS: u64 = 40_000_000;
    const WORK_NS: u64 = 2_000_000;

    /// One tick in time comes every 40 ms. `between` lists the ticks that follow it: their delay and their work.
    fn divisor(between: impl Fn(u64) -> Vec<(u64, u64)>) -> Option<u32> {
        let beat = |at_ns: u64, work_ns: u64| Beat { at_ns, until_ns: at_ns + work_ns, weight: work_ns as f64 };
        let mut beats: Vec<Beat> = (0..200)
            .flat_map(|number| {
                let at_ns = number * PERIOD_NS + number * 7919 % 100_000;
                let others = between(number).into_iter().map(move |(us, work_us)| (at_ns + us * 1000, work_us * 1000));
                std::iter::once((at_ns, WORK_NS)).chain(others).collect::<Vec<_>>()
            })
            .map(|(at_ns, work_ns)| beat(at_ns, work_ns))
            .collect();
        beats.sort_by_key(|beat| beat.at_ns);
        let start = Start { period_ns: PERIOD_NS as f64, at_ns: 0.0 };
        let gate = Gate::new(start.period_ns, 30_000.0);
        divisor_of(&beats, &follow(&beats, WORK_NS as f64 / 3.0, start, gate, Pull::Some), start.period_ns)
    }

    #[test]
    fn late_ticks_between_the_others_are_counted() {
        let late_us = |number: u64| number * 31 % 7 * 1_500;
        for (what, expected, found) in [
            ("nothing between", None, divisor(|_| Vec::new())),
            ("every second tick is late", Some(2), divisor(|number| vec![(20_000 + late_us(number), 2_000)])),
            (
                "two of three are",
                Some(3),
                divisor(|number| vec![(13_400 + late_us(number) / 2, 2_000), (26_700 + late_us(number), 2_000)]),
            ),
            ("packets: less work", None, divisor(|number| vec![(20_000 + late_us(number), 300)])),
            ("a second part of each tick", None, divisor(|number| vec![(5_000 + late_us(number) / 10, 2_000)])),
            ("requests at any time", None, divisor(|number| vec![(4_000 + number * 13 % 36 * 1_000, 2_000)])),
            (
                "sometimes two, sometimes none",
                None,
                divisor(|number| vec![(20_000, 2_000), (27_000, 2_000)].split_off((number % 3) as usize)),
            ),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }
}
