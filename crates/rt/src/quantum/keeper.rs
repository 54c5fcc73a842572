//! `Keeper`: the `Aligner` of a clock that really ticks: it sleeps, reads the clocks, asks the kernel, and has the gaps judged.

use std::ops::RangeInclusive;

use evenkeel_stats::periodicity::{Gap, Label};
use evenkeel_sys::IS_LINUX;
use evenkeel_sys::clock;
use evenkeel_sys::cpu_limit::{self, Counters};

use super::Aligned;
use super::aligner::{Aligner, Given, Seen};
use super::finder::Finder;
use super::own::{self, Kept};

/// Periods of ticks that can be aligned: below, there is no idle time to look in; above, a few milliseconds do not count.
const PERIODS_NS: RangeInclusive<u64> = 4_000_000..=200_000_000;
/// A stretch between two checkpoints this much longer than usual has met a gap, in nanoseconds and in turns of the usual.
const LONG_NS: u64 = 150_000;
const LONG_TURNS: u64 = 8;

#[derive(Debug)]
pub(crate) struct Keeper {
    aligner: Aligner,
    finder: Finder,
    /// Whether the thread's time is limited: then it is held back in ways that no kernel counts as waiting.
    is_limited: bool,
    counters: Counters,
    throttled: u64,
    is_on: bool,
    work: Work,
}

/// The tick that works.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    began_ns: u64,
    cpu_ns: u64,
    lost_ns: u64,
    /// How late it began: so long it may have waited for a CPU before its work, as what is counted since the last tick has it.
    late_ns: u64,
    /// The last checkpoint, and the usual time from one to the next; 0 without checkpoints.
    passed_ns: u64,
    usual_ns: u64,
}

impl Keeper {
    /// None if no thread can be started that analyses gaps, and on other systems than Linux, which do not report who caused a gap.
    pub(crate) fn start(now_ns: u64, period_ns: u64) -> Option<Keeper> {
        if !IS_LINUX {
            return None;
        }
        let limit = cpu_limit::tightest();
        let tick_ns = Some(clock::kernel_tick_ns());
        let given = Given { limit: limit.as_ref().map(|limit| (limit.quota_ns, limit.period_ns)), tick_ns };
        own::prepare();
        Some(Keeper {
            aligner: Aligner::new(now_ns, period_ns, given),
            finder: Finder::start()?,
            is_limited: limit.is_some(),
            counters: Counters::open(limit.as_ref()),
            throttled: 0,
            is_on: PERIODS_NS.contains(&period_ns),
            work: Work::default(),
        })
    }

    pub(crate) fn report(&self) -> Aligned {
        self.aligner.report()
    }

    /// By how much to move the next tick, in nanoseconds.
    pub(crate) fn move_ns(&mut self, now_ns: u64, due_ns: u64) -> i64 {
        if !self.is_on {
            return 0;
        }
        if let Some(said) = self.finder.answer() {
            self.aligner.found(now_ns, due_ns, &said);
        }
        self.aligner.move_ns(now_ns, due_ns)
    }

    /// Idle time from `now_ns` to a tick that is due at `due_ns`: wakes in it where there is something to see, and gives the time then.
    pub(crate) fn idle(&mut self, now_ns: u64, due_ns: u64) -> u64 {
        let mut now_ns = now_ns;
        if !self.is_on {
            return now_ns;
        }
        self.aligner.idle_from(now_ns);
        while let Some(wake_ns) = self.aligner.next_wake_ns(now_ns, due_ns) {
            clock::sleep_until_ns(wake_ns);
            now_ns = clock::monotonic_ns();
            let (counters, throttled) = (&self.counters, &mut self.throttled);
            self.aligner.woke(wake_ns, now_ns, |late_ns| label(late_ns, counters, throttled));
        }
        now_ns
    }

    /// A tick begins; `slept` is whether the thread slept until then.
    pub(crate) fn began(&mut self, due_ns: u64, began_ns: u64, slept: bool) {
        if !self.is_on {
            return;
        }
        if slept {
            let (counters, throttled) = (&self.counters, &mut self.throttled);
            self.aligner.began(due_ns, began_ns, |late_ns| label(late_ns, counters, throttled));
        }
        let cpu_ns = if self.is_limited { clock::thread_cpu_ns() } else { 0 };
        let late_ns = began_ns.saturating_sub(due_ns);
        self.work = Work { began_ns, cpu_ns, lost_ns: 0, late_ns, passed_ns: began_ns, usual_ns: self.work.usual_ns };
        own::mark();
    }

    /// The tick's work has come so far.
    pub(crate) fn checkpoint(&mut self) {
        if !self.is_on {
            return;
        }
        let now_ns = clock::monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.work.passed_ns);
        let work = &mut self.work;
        let is_long = since_ns >= LONG_NS && since_ns >= LONG_TURNS.saturating_mul(work.usual_ns);
        let gap = |length_ns: u64, label| Gap { start_ns: now_ns - (since_ns + length_ns) / 2, length_ns, label };
        let met = match own::kept() {
            Kept::For(waited_ns) => {
                let waited_ns = waited_ns.saturating_sub(std::mem::take(&mut work.late_ns));
                work.lost_ns += waited_ns;
                (waited_ns >= LONG_NS).then(|| gap(waited_ns.min(since_ns), Label::Preempted))
            }
            Kept::Not => is_long.then(|| gap(since_ns - work.usual_ns.min(since_ns), Label::Foreign)),
            Kept::Unknown => is_long.then(|| gap(since_ns - work.usual_ns.min(since_ns), Label::Unknown)),
        };
        if work.usual_ns == 0 {
            work.usual_ns = since_ns.max(1);
        } else if met.is_none() {
            work.usual_ns = ((work.usual_ns * 15 + since_ns) / 16).max(1);
        }
        work.passed_ns = now_ns;
        self.aligner.passed(now_ns, met);
    }

    /// The tick is done.
    pub(crate) fn done(&mut self, due_ns: u64, done_ns: u64) {
        if !self.is_on {
            return;
        }
        let mut lost_ns = self.work.lost_ns;
        if let Kept::For(waited_ns) = own::kept() {
            lost_ns += waited_ns.saturating_sub(self.work.late_ns);
            if self.is_limited {
                let ran_ns = clock::thread_cpu_ns().saturating_sub(self.work.cpu_ns);
                lost_ns = lost_ns.max(done_ns.saturating_sub(self.work.began_ns).saturating_sub(ran_ns));
            }
        }
        own::settle();
        self.aligner.ticked(&Seen { due_ns, began_ns: self.work.began_ns, done_ns, lost_ns });
        if let Some(watch) = self.aligner.asks(done_ns)
            && !self.finder.ask(watch)
        {
            self.aligner.not_asked();
        }
    }

    /// Ticks come at another period.
    pub(crate) fn set_period(&mut self, now_ns: u64, due_ns: u64, period_ns: u64) {
        self.is_on = PERIODS_NS.contains(&period_ns);
        if self.is_on {
            self.aligner.set_period(now_ns, due_ns, period_ns);
        }
    }
}

/// Who made a sleep end so late. What a limit takes some kernels do not count as waiting, but they count that it took something.
fn label(late_ns: u64, counters: &Counters, throttled: &mut u64) -> Label {
    let label = own::label_of_sleep(late_ns);
    if counters.is_empty() {
        return label;
    }
    let times = counters.read().times.unwrap_or(0);
    if times > std::mem::replace(throttled, times) { Label::Preempted } else { label }
}
