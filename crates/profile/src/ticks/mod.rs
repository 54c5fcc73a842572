//! Divides a recording into the ticks of one thread, and finds where the slowest ticks spend more time than the others.
//! A stall in one of a hundred ticks is one percent of the samples. A flame graph of the whole recording does not show such a stall.
//!
//! | part | what it does |
//! |---|---|
//! | [`cut`] | which off-CPU intervals lie between ticks, and so when each tick was due, began and was done |
//! | [`marks`] | ticks that events of the recording mark: a function's entry and return, a marker in the program |
//! | [`account`](mod@account) | accounts for each nanosecond of a tick: a stack on a CPU, a stack that waited and why, or lateness |
//! | [`compare`](mod@compare) | compares the average slow tick with the average of the rest |
//! | [`place`] | finds the function that makes the difference |
//! | [`whole`] | all threads of a recording as one stream, to find the tick; several threads as one |

pub mod account;
pub mod compare;
pub mod cut;
pub mod marks;
pub mod place;
mod stretch;
mod tick;
pub mod whole;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::tick::{Spent, Tick};

use self::account::{Account, Places, account};
use self::compare::{Comparison, TickData, compare};
use self::cut::{Cut, NoTicks, Wanted};
use self::marks::ThreadTicks;
use crate::names::Names;
use crate::offcpu::OffCpuInterval;
use crate::recording::Recording;

/// The ticks of a recording.
#[derive(Clone, Debug)]
pub struct Ticks {
    /// The thread and its ticks.
    pub cut: Cut,
    /// The time account of each tick.
    pub accounts: Vec<Account>,
    life: Vec<OffCpuInterval>,
    period_ns: Option<u64>,
}

impl Ticks {
    /// Finds the ticks of the wanted loop. If several loops match, the loop with most work is taken. `intervals` has all threads.
    ///
    /// # Errors
    /// If no such loop is found.
    pub fn find(
        recording: &Recording,
        names: &Names,
        intervals: &[OffCpuInterval],
        wanted: &Wanted,
    ) -> Result<Ticks, NoTicks> {
        let lives = cut::by_thread(intervals);
        let cut = cut::find(recording, &lives, wanted)?;
        Ok(Ticks::from_recording(recording, names, cut, &lives))
    }

    /// The ticks of a thread, as events mark them.
    pub fn at(recording: &Recording, names: &Names, intervals: &[OffCpuInterval], marked: &ThreadTicks) -> Ticks {
        let lives = cut::by_thread(intervals);
        let life = lives.get(&marked.tid).map_or(&[][..], Vec::as_slice);
        Ticks::from_recording(recording, names, cut::at(recording, life, marked), &lives)
    }

    /// Ticks per second: the rate of the loop, or the average rate of marked ticks. None if unknown.
    pub fn hz(&self) -> Option<f64> {
        let came = || {
            let (first, last) = (self.cut.ticks.first()?, self.cut.ticks.last()?);
            let over_ns = last.begun_ns.checked_sub(first.begun_ns).filter(|ns| *ns > 0)?;
            Some((self.cut.ticks.len() - 1) as f64 * 1e9 / over_ns as f64)
        };
        self.cut.tempo.map(|tempo| tempo.hz()).or_else(came)
    }

    fn from_recording(
        recording: &Recording,
        names: &Names,
        cut: Cut,
        lives: &BTreeMap<u32, Vec<OffCpuInterval>>,
    ) -> Ticks {
        let life = whole::merged_or_own(lives, &cut.tids);
        let places = Places::from_recording(recording, names, &cut.tids, &life);
        let accounts = cut.ticks.iter().map(|tick| account(&life, &places, tick)).collect();
        Ticks { cut, accounts, life, period_ns: places.period_ns }
    }

    /// Compares the slowest `slow_share` (0 to 1) with the rest. `None` if there are too few ticks.
    pub fn compare(&self, recording: &Recording, names: &Names, slow_share: f64) -> Option<Comparison> {
        let Ticks { cut, accounts, life, period_ns } = self;
        compare(&TickData { recording, names, life, cut, accounts, period_ns: *period_ns }, slow_share)
    }
}
