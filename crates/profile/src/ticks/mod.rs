//! Where the time of a server's ticks went: a recording cut by the ticks of one thread, and what the slowest of them have that the rest do
//! not. A stall in one tick of a hundred is a hundredth of all samples, and on no flame graph of the whole to be seen.
//!
//! | part | what it does |
//! |---|---|
//! | [`cut`] | which spells without a CPU lie between ticks, and so when each tick was due, began and was done |
//! | [`told`] | ticks that something else in the recording tells: a function that is entered and returns, a mark of the program's |
//! | [`account`](mod@account) | what each nanosecond of a tick went to: a stack on a CPU, a stack that waited and why, or lateness |
//! | [`compare`](mod@compare) | the mean slow tick beside the mean of the rest, and what makes the difference |
//! | [`place`] | in which function that is |
//! | [`whole`] | all threads of a recording as one stream, in which the tick is looked for; several threads as one |

pub mod account;
pub mod compare;
pub mod cut;
pub mod place;
pub mod told;
pub mod whole;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use self::account::{Account, Places, account};
use self::compare::{Cloth, Comparison, compare};
use self::cut::{Cut, NoTicks, Wanted};
use self::told::OfThread;
use crate::names::Names;
use crate::offcpu::{Reason, Spell};
use crate::recording::{Recording, Span};

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number: how many periods after the first, where it keeps time; else its place.
    pub number: u64,
    /// From when it was due, or began where that is not known, until it was done.
    pub span: Span,
    /// When it was given the CPU.
    pub begun_ns: u64,
}

impl Tick {
    /// How late it began.
    pub fn lateness_ns(&self) -> u64 {
        self.begun_ns.saturating_sub(self.span.start_ns)
    }
}

/// What a stretch of a tick's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// It ran, at a place that samples tell.
    Ran,
    /// It ran, and the kernel got it memory that was not there.
    Faulted,
    /// It had a CPU, and no sample tells where it was.
    Unsampled,
    /// It had no CPU.
    Without(Reason),
    /// It was due and had not begun.
    Late,
}

impl Spent {
    /// Of which kind it is: a page fault is one cause, whether the CPU or the disk works for it.
    pub fn kind(self) -> Spent {
        if self == Spent::Faulted { Spent::Without(Reason::PageFault) } else { self }
    }

    /// A word or two for it, as JSON and the frames of graphs have it.
    pub fn name(self) -> &'static str {
        match self {
            Spent::Ran => "on a CPU",
            Spent::Faulted => "page fault, on a CPU",
            Spent::Unsampled => "on a CPU, not sampled",
            Spent::Late => "late",
            Spent::Without(reason) => reason.words(),
        }
    }

    /// The same for people, as the beginning of what is said of a stall.
    pub fn words(self) -> &'static str {
        match self {
            Spent::Ran => "work on a CPU",
            Spent::Faulted => "page fault",
            Spent::Unsampled => "a CPU that stood still or was taken by the hypervisor, since no sample came",
            Spent::Late => "begun late",
            Spent::Without(reason) => match reason {
                Reason::Futex => "futex wait",
                Reason::Poll => "wait for files or sockets (poll)",
                Reason::Sleep => "sleep",
                Reason::Socket => "wait for a socket or pipe",
                Reason::Disk => "wait for a device",
                Reason::PageFault => "page fault",
                Reason::Preempted => "another thread had the CPU",
                Reason::Throttled => "throttled: its control group had used up its CPU time",
                Reason::KernelLock => "wait for a lock of the kernel's",
                Reason::Yielded => "gave the CPU away (sched_yield)",
                Reason::Stopped => "stopped",
                Reason::Steal => "the hypervisor had the CPU (steal)",
                Reason::Ended => "end of the thread",
                Reason::Other => "wait in the kernel",
                Reason::Unknown => "no CPU, and nobody knows why",
            },
        }
    }
}

impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A recording's ticks.
#[derive(Clone, Debug)]
pub struct Ticks {
    /// The thread and its ticks.
    pub cut: Cut,
    /// What each of them went to.
    pub accounts: Vec<Account>,
    life: Vec<Spell>,
    period_ns: Option<u64>,
}

impl Ticks {
    /// Of the loop that holds most of the work among what is `wanted`. `spells` are those of all threads.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(recording: &Recording, names: &Names, spells: &[Spell], wanted: &Wanted) -> Result<Ticks, NoTicks> {
        let lives = cut::by_thread(spells);
        let cut = cut::find(recording, &lives, wanted)?;
        Ok(Ticks::of(recording, names, cut, &lives))
    }

    /// Those of a thread that something else told.
    pub fn at(recording: &Recording, names: &Names, spells: &[Spell], told: &OfThread) -> Ticks {
        let lives = cut::by_thread(spells);
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

    fn of(recording: &Recording, names: &Names, cut: Cut, lives: &BTreeMap<u32, Vec<Spell>>) -> Ticks {
        let life = whole::merged_or_own(lives, &cut.tids);
        let places = Places::of(recording, names, &cut.tids, &life);
        let accounts = cut.ticks.iter().map(|tick| account(&life, &places, tick)).collect();
        Ticks { cut, accounts, life, period_ns: places.period_ns }
    }

    /// Sets the slowest `slow_share`, from 0 to 1, beside the rest; none if there are too few ticks for that.
    pub fn compare(&self, recording: &Recording, names: &Names, slow_share: f64) -> Option<Comparison> {
        let Ticks { cut, accounts, life, period_ns } = self;
        compare(&Cloth { recording, names, life, cut, accounts, period_ns: *period_ns }, slow_share)
    }
}
