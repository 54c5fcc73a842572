//! `Keeper`: runs the `Aligner` on a real clock.
//! The keeper sleeps, reads the clocks and the kernel's counters, and passes the gaps to the `Finder`.

use std::ops::RangeInclusive;

use evenkeel_stats::periodicity::{Gap, Label};
use evenkeel_sys::IS_LINUX;
use evenkeel_sys::clock;
use evenkeel_sys::cpu_limit::{self, Counters};

use super::Aligned;
use super::aligner::{Aligner, Given, Seen};
use super::finder::Finder;
use super::own::{self, Descheduled};

/// Tick periods that we can align. Shorter periods leave no idle time to search in. In longer periods a few milliseconds do not matter.
const PERIODS_NS: RangeInclusive<u64> = 4_000_000..=200_000_000;
/// The work has met a gap if the time between two checkpoints is this much longer than usual.
/// The first value is in nanoseconds, the second is a multiple of the usual time.
const LONG_NS: u64 = 150_000;
const LONG_TURNS: u64 = 8;

#[derive(Debug)]
pub(crate) struct Keeper {
    aligner: Aligner,
    finder: Finder,
    /// Whether the thread's CPU time is limited. If so, the kernel may stop the thread without counting that time as waiting.
    is_limited: bool,
    counters: Counters,
    throttled: u64,
    is_on: bool,
    work: Work,
}

/// The tick whose work runs now.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    began_ns: u64,
    cpu_ns: u64,
    lost_ns: u64,
    /// How late the tick began. The kernel's count of waiting may include up to this much time from before the work.
    late_ns: u64,
    /// The time of the last checkpoint, and the usual time between two checkpoints. Both are 0 if there was no checkpoint.
    passed_ns: u64,
    usual_ns: u64,
}

impl Keeper {
    /// `None` if the system does not start the thread that analyses gaps.
    /// The result is also `None` on other systems than Linux, which do not report the cause of a gap.
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

    /// Spends the idle time from `now_ns` to the tick at `due_ns`, and returns the time at the end.
    /// In the idle time, the keeper wakes if there is something to observe.
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

    /// Records that a tick begins. `slept` says whether the thread slept until then.
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

    /// Records that the tick's work reached a checkpoint.
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
            Descheduled::For(waited_ns) => {
                let waited_ns = waited_ns.saturating_sub(std::mem::take(&mut work.late_ns));
                work.lost_ns += waited_ns;
                (waited_ns >= LONG_NS).then(|| gap(waited_ns.min(since_ns), Label::Preempted))
            }
            Descheduled::Not => is_long.then(|| gap(since_ns - work.usual_ns.min(since_ns), Label::Foreign)),
            Descheduled::Unknown => is_long.then(|| gap(since_ns - work.usual_ns.min(since_ns), Label::Unknown)),
        };
        if work.usual_ns == 0 {
            work.usual_ns = since_ns.max(1);
        } else if met.is_none() {
            work.usual_ns = ((work.usual_ns * 15 + since_ns) / 16).max(1);
        }
        work.passed_ns = now_ns;
        self.aligner.passed(now_ns, met);
    }

    /// Records that the tick has ended.
    pub(crate) fn done(&mut self, due_ns: u64, done_ns: u64) {
        if !self.is_on {
            return;
        }
        let mut lost_ns = self.work.lost_ns;
        if let Descheduled::For(waited_ns) = own::kept() {
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

    /// Records that the ticks have another period from now on.
    pub(crate) fn set_period(&mut self, now_ns: u64, due_ns: u64, period_ns: u64) {
        self.is_on = PERIODS_NS.contains(&period_ns);
        if self.is_on {
            self.aligner.set_period(now_ns, due_ns, period_ns);
        }
    }
}

/// Returns who made a sleep end this late.
/// Some kernels do not count time under a limit as waiting, but all count how often the limit took effect.
fn label(late_ns: u64, counters: &Counters, throttled: &mut u64) -> Label {
    let label = own::label_of_sleep(late_ns);
    if counters.is_empty() {
        return label;
    }
    let times = counters.read().times.unwrap_or(0);
    if times > std::mem::replace(throttled, times) { Label::Preempted } else { label }
}
