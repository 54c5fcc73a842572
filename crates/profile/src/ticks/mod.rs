//! Where the time of a server's ticks went: a recording cut by the ticks of one thread, and what the slowest of them have that the rest do
//! not. A stall in one tick of a hundred is a hundredth of all samples, and on no flame graph of the whole to be seen.
//!
//! | part | what it does |
//! |---|---|
//! | [`cut`] | which intervals without a CPU lie between ticks, and so when each tick was due, began and was done |
//! | [`told`] | ticks that something else in the recording tells: a function that is entered and returns, a mark of the program's |
//! | [`account`](mod@account) | what each nanosecond of a tick went to: a stack on a CPU, a stack that waited and why, or lateness |
//! | [`compare`](mod@compare) | the mean slow tick beside the mean of the rest, and what makes the difference |
//! | [`place`] | in which function that is |
//! | [`whole`] | all threads of a recording as one stream, in which the tick is looked for; several threads as one |

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

/// A recording's ticks.
#[derive(Clone, Debug)]
pub struct Ticks {
    /// The thread and its ticks.
    pub cut: Cut,
    /// What each of them went to.
    pub accounts: Vec<Account>,
    life: Vec<OffCpuInterval>,
    period_ns: Option<u64>,
}

impl Ticks {
    /// Of the loop that holds most of the work among what is `wanted`. `intervals` are those of all threads.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(
        recording: &Recording,
        names: &Names,
        intervals: &[OffCpuInterval],
        wanted: &Wanted,
    ) -> Result<Ticks, NoTicks> {
        let lives = cut::by_thread(intervals);
        let cut = cut::find(recording, &lives, wanted)?;
        Ok(Ticks::of(recording, names, cut, &lives))
    }

    /// Those of a thread that something else told.
    pub fn at(recording: &Recording, names: &Names, intervals: &[OffCpuInterval], told: &ThreadTicks) -> Ticks {
        let lives = cut::by_thread(intervals);
        let life = lives.get(&told.tid).map_or(&[][..], Vec::as_slice);
        Ticks::of(recording, names, cut::at(recording, life, told), &lives)
    }

    /// Ticks a second, as they keep time or, where they were told, as they came; none if neither says it.
    pub fn hz(&self) -> Option<f64> {
        let came = || {
            let (first, last) = (self.cut.ticks.first()?, self.cut.ticks.last()?);
            let over_ns = last.begun_ns.checked_sub(first.begun_ns).filter(|ns| *ns > 0)?;
            Some((self.cut.ticks.len() - 1) as f64 * 1e9 / over_ns as f64)
        };
        self.cut.tempo.map(|tempo| tempo.hz()).or_else(came)
    }

    fn of(recording: &Recording, names: &Names, cut: Cut, lives: &BTreeMap<u32, Vec<OffCpuInterval>>) -> Ticks {
        let life = whole::merged_or_own(lives, &cut.tids);
        let places = Places::of(recording, names, &cut.tids, &life);
        let accounts = cut.ticks.iter().map(|tick| account(&life, &places, tick)).collect();
        Ticks { cut, accounts, life, period_ns: places.period_ns }
    }

    /// Sets the slowest `slow_share`, from 0 to 1, beside the rest; none if there are too few ticks for that.
    pub fn compare(&self, recording: &Recording, names: &Names, slow_share: f64) -> Option<Comparison> {
        let Ticks { cut, accounts, life, period_ns } = self;
        compare(&TickData { recording, names, life, cut, accounts, period_ns: *period_ns }, slow_share)
    }
}
