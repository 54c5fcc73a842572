//! `divisor_of`: whether the ticks of a loop are only every second, third or fourth tick of a faster loop.
//! On a busy CPU a tick begins at once, or one scheduler tick (4 ms) later.
//! At 50 Hz such a delay is outside the gate.
//! At 25 Hz the gate is twice as wide, so the delay is inside.
//! The slower period then looks regular, and the true period does not.
//!
//! Three facts identify the ticks in between.
//! Each period has the same number of them, they do as much work, and they begin when they are due or later.
//! Packets and polls have none of these properties.
//!
//! [`at_times`] finds a server whose rate doubles or halves from time to time. Either rate then fits much of the time, and neither is the whole
//! answer.

use evenkeel_stats::median;

use super::track::{Beat, Followed, Found, Gate, Slot};

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

/// Another rate must hold for this many periods in a row, and in total for this share of them. Packets fill a few periods by chance.
const ROW_MIN: usize = 8;
const OTHER_SHARE_MIN: f64 = 0.15;

/// The factor of another rate that a server keeps for a part of the time: 2, 3 or 4 times the rate of `followed`, or a part of it.
/// Each tick of the slower rate is also a tick of the faster rate.
pub(super) fn at_times(beats: &[Beat], followed: &Followed, spread_ns: f64) -> Option<f64> {
    let faster = faster_at_times(beats, followed, spread_ns).map(|times| times as f64);
    faster.or_else(|| slower_at_times(followed).map(|times| 1.0 / times as f64))
}

fn faster_at_times(beats: &[Beat], followed: &Followed, spread_ns: f64) -> Option<usize> {
    let ticks: Vec<(u64, Beat)> =
        followed.slots.iter().filter_map(|slot| Some((slot.number, *beats.get(slot.beat()?)?))).collect();
    let tick_work = median(&ticks.iter().map(|(_, beat)| beat.weight).collect::<Vec<_>>())?;
    let periods: Vec<(u64, u64)> = ticks
        .windows(2)
        .filter(|pair| pair[1].0 == pair[0].0 + 1)
        .map(|pair| (pair[0].1.at_ns, pair[1].1.at_ns))
        .collect();
    let has_tick_at = |at_ns: f64, gate: Gate| {
        let from = beats.partition_point(|beat| (beat.at_ns as f64) < at_ns - gate.ns);
        let near = beats[from..].iter().take_while(|beat| beat.at_ns as f64 <= at_ns + gate.ns);
        near.map(|beat| beat.weight).any(|weight| weight >= AS_HEAVY * tick_work)
    };
    let is_divided = |(from_ns, to_ns): &(u64, u64), divisor: usize| {
        let part_ns = to_ns.saturating_sub(*from_ns) as f64 / divisor as f64;
        let gate = Gate::new(part_ns, spread_ns);
        (1..divisor).all(|part| has_tick_at(*from_ns as f64 + part as f64 * part_ns, gate))
    };
    (2..=DIVISOR_MAX).rev().find(|divisor| keeps_for_a_while(periods.iter().map(|period| is_divided(period, *divisor))))
}

fn slower_at_times(followed: &Followed) -> Option<usize> {
    let is_alone =
        |slots: &[Slot]| slots[0].beat().is_some() && slots[1..].iter().all(|slot| slot.found == Found::Missed);
    // The ticks of the slower rate may begin at any slot.
    let from = |first: usize, divisor: usize| {
        let slots = followed.slots.get(first..).unwrap_or_default();
        keeps_for_a_while(slots.chunks_exact(divisor).map(is_alone))
    };
    (2..=DIVISOR_MAX).rev().find(|divisor| (0..*divisor).any(|first| from(first, *divisor)))
}

/// Whether enough periods are at another rate, many in a row.
fn keeps_for_a_while(periods: impl Iterator<Item = bool>) -> bool {
    let periods: Vec<bool> = periods.collect();
    let rows = periods.chunk_by(|one, next| one == next).filter(|row| row[0] && row.len() >= ROW_MIN);
    let in_rows = rows.map(<[bool]>::len).sum::<usize>();
    in_rows > 0 && in_rows as f64 >= OTHER_SHARE_MIN * periods.len() as f64
}

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
        let (beats, followed) = followed(between);
        divisor_of(&beats, &followed, PERIOD_NS as f64)
    }

    fn followed(between: impl Fn(u64) -> Vec<(u64, u64)>) -> (Vec<Beat>, Followed) {
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
        let followed = follow(&beats, WORK_NS as f64 / 3.0, start, gate, Pull::Some);
        (beats, followed)
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

    /// The factor of the other rate. `between` lists what follows each of the 200 ticks: how much later, and how much work.
    fn other(between: impl Fn(u64) -> Vec<(u64, u64)>) -> Option<f64> {
        let (beats, followed) = followed(between);
        at_times(&beats, &followed, 30_000.0)
    }

    #[test]
    fn a_rate_that_doubles_for_a_while_is_found() {
        let half = |is_fast: bool| if is_fast { vec![(20_000, 1_900)] } else { Vec::new() };
        let third = |is_fast: bool| if is_fast { vec![(13_330, 2_000), (26_670, 2_100)] } else { Vec::new() };
        for (what, expected, found) in [
            ("never", None, other(|_| Vec::new())),
            ("twice as fast, every second stretch", Some(2.0), other(|number| half(number / 50 % 2 == 1))),
            ("three times as fast, at the end", Some(3.0), other(|number| third(number >= 150))),
            ("for less than a sixth of the time", None, other(|number| half(number >= 180))),
            ("a few periods at a time", None, other(|number| half(number % 8 < 5))),
            ("packets: less work", None, other(|number| vec![(20_000, 300 + number)])),
            ("packets at any time", None, other(|number| vec![(4_000 + number * 13 % 36 * 1_000, 2_000)])),
            ("a second part of each tick", None, other(|_| vec![(5_000, 2_000)])),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn a_rate_that_halves_for_a_while_is_found() {
        // The loop is followed at its faster rate.
        let slower = |is_there: fn(u64) -> bool| {
            let beat = |number: u64| Beat {
                at_ns: number * 20_000_000,
                until_ns: number * 20_000_000 + WORK_NS,
                weight: WORK_NS as f64,
            };
            let beats: Vec<Beat> = (0..400).filter(|number| is_there(*number)).map(beat).collect();
            let start = Start { period_ns: 20_000_000.0, at_ns: 0.0 };
            let followed =
                follow(&beats, WORK_NS as f64 / 3.0, start, Gate::new(start.period_ns, 30_000.0), Pull::Some);
            at_times(&beats, &followed, 30_000.0)
        };
        for (what, expected, found) in [
            ("never", None, slower(|_| true)),
            ("every second second, the odd ticks", Some(0.5), slower(|number| number / 50 % 2 == 0 || number % 2 == 1)),
            ("a third, at the end", Some(1.0 / 3.0), slower(|number| number < 300 || number % 3 == 0)),
            ("lost ticks at random", None, slower(|number| number * 7919 % 101 > 30)),
            ("a pause", None, slower(|number| !(100..200).contains(&number))),
        ] {
            assert_eq!(found, expected, "{what}");
        }
    }
}
