//! `TickClock`: waits for the next tick, and keeps account of how well that went.

use std::time::Duration;

use evenkeel_stats::{Histogram, Summary};
use evenkeel_sys::{clock, cpu_limit, mark, thread};

use crate::guard::Guard;
use crate::margin::{MOST_NS, Margin};
use crate::quantum::{Align, Aligned, Keeper, Quantum};
use crate::schedule::{Overrun, Schedule};
use crate::thread::{ApplyStatus, ThreadReport, TickThread};

/// How a clock ticks.
#[derive(Clone, Copy, Debug)]
pub struct TickSettings {
    /// From one tick to the next.
    pub period: Duration,
    /// What becomes of ticks that could not be in time.
    pub overrun: Overrun,
    /// Whether the last of the wait is spent awake.
    pub spinning: Spinning,
    /// Whether ticks may be moved in time, to where they are done soonest.
    pub align: Align,
}

/// Whether the last microseconds before a tick, at most 100, are waited out awake. It never yields: under the kernel's present scheduler
/// that gives a whole turn away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spinning {
    /// Where the process has more than one CPU; under a limit on its CPU time, for a fortieth of what it is given in a period at the most.
    #[default]
    WhereThereIsRoom,
    /// Never.
    Never,
    /// Always: for a CPU that is known to be the server's own.
    Always,
}

impl Default for TickSettings {
    /// 50 ticks a second.
    fn default() -> TickSettings {
        TickSettings {
            period: Duration::from_millis(20),
            overrun: Overrun::default(),
            spinning: Spinning::default(),
            align: Align::default(),
        }
    }
}

/// A tick that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// How many came before it, those that were missed included.
    pub number: u64,
    /// When it was due, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
    /// When it began.
    pub began_ns: u64,
    /// How many ticks right before it were missed.
    pub missed: u64,
}

/// A tick that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The tick.
    pub tick: Tick,
    /// When its work was done, in nanoseconds of the monotonic clock.
    pub done_ns: u64,
}

impl Done {
    /// From due to begun, in nanoseconds.
    pub fn lateness_ns(&self) -> u64 {
        self.tick.began_ns.saturating_sub(self.tick.due_ns)
    }

    /// From begun to done, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.tick.began_ns)
    }

    /// From due to done, in nanoseconds: what players feel.
    pub fn due_to_done_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.tick.due_ns)
    }
}

/// How well the ticks kept time so far.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Ticks that began.
    pub ticks: u64,
    /// Ticks that were missed.
    pub missed: u64,
    /// From due to begun, in nanoseconds.
    pub lateness_ns: Option<Summary>,
    /// From due to done, in nanoseconds: what players feel.
    pub due_to_done_ns: Option<Summary>,
    /// From begun to done, in nanoseconds.
    pub work_ns: Option<Summary>,
    /// How long before a tick the clock wakes, in nanoseconds; 0 where it does not wait awake.
    pub margin_ns: u64,
    /// How the CPU is taken away, and what is done about it.
    pub aligned: Aligned,
}

/// Ticks at absolute times. Use it from one thread, best one that [`TickThread`](crate::TickThread) has set up.
#[derive(Debug)]
pub struct TickClock {
    schedule: Schedule,
    margin: Option<Margin>,
    current: Option<Tick>,
    next_number: u64,
    missed: u64,
    lateness: Histogram,
    due_to_done: Histogram,
    work: Histogram,
    thread: Option<(TickThread, Guard)>,
    keeper: Option<Keeper>,
}

impl TickClock {
    /// Starts now: the first tick is due a period from here. All memory is taken here, and a thread is started that says what gaps in
    /// the CPU's time mean, unless ticks are never to be aligned.
    pub fn start(settings: TickSettings) -> TickClock {
        let period_ns = u64::try_from(settings.period.as_nanos()).unwrap_or(u64::MAX);
        let most_ns = match settings.spinning {
            Spinning::Always => MOST_NS,
            Spinning::Never => 0,
            Spinning::WhereThereIsRoom => room_ns(period_ns),
        };
        let now_ns = clock::monotonic_ns();
        let keeper = match settings.align {
            Align::Measured => Keeper::start(now_ns, period_ns),
            Align::Never => None,
        };
        TickClock {
            schedule: Schedule::new(now_ns.saturating_add(period_ns), period_ns, settings.overrun),
            margin: Margin::up_to(most_ns),
            current: None,
            next_number: 0,
            missed: 0,
            lateness: Histogram::new(),
            due_to_done: Histogram::new(),
            work: Histogram::new(),
            thread: None,
            keeper,
        }
    }

    /// Takes the thread's set-up into its care: where that is real-time, the thread becomes an ordinary one for as long as its ticks take
    /// more than nine tenths of the time, so that somebody can still log in and stop the server.
    #[must_use]
    pub fn on(mut self, thread: TickThread) -> TickClock {
        self.take_thread(thread);
        self
    }

    /// As [`on`](TickClock::on), for a clock that ticks already.
    pub fn take_thread(&mut self, thread: TickThread) {
        self.thread = Some((thread, Guard::new(clock::monotonic_ns())));
    }

    /// What the thread that it cares for has of its wishes now.
    pub fn thread(&self) -> Option<ThreadReport> {
        self.thread.as_ref().map(|(thread, _)| thread.report())
    }

    /// When the next tick is due, in nanoseconds of the monotonic clock: for engines that own their loop.
    pub fn next_due_ns(&self) -> u64 {
        self.schedule.due_ns()
    }

    /// Waits until the next tick is due, and begins it. A tick that is not said to be [`done`](TickClock::done) ends here.
    pub fn wait(&mut self) -> Tick {
        self.done();
        let mut now_ns = clock::monotonic_ns();
        if let Some(keeper) = &mut self.keeper {
            let by_ns = keeper.move_ns(now_ns, self.schedule.due_ns());
            // A tick that is late already begins at once: it is the next one that is moved.
            if by_ns != 0 && now_ns < self.schedule.due_ns() {
                self.schedule.shift(by_ns, now_ns);
            }
        }
        let due = self.schedule.next(now_ns);
        if let Some(keeper) = &mut self.keeper {
            now_ns = keeper.idle(now_ns, due.due_ns);
        }
        self.sleep_until(due.due_ns);
        let began_ns = clock::monotonic_ns();
        if let Some(keeper) = &mut self.keeper {
            keeper.began(due.due_ns, began_ns, now_ns < due.due_ns);
        }
        let tick = Tick { number: self.next_number + due.missed, due_ns: due.due_ns, began_ns, missed: due.missed };
        self.next_number = tick.number + 1;
        self.missed += due.missed;
        self.lateness.record(began_ns.saturating_sub(due.due_ns));
        self.current = Some(tick);
        mark::tick_begin(tick.number, tick.due_ns);
        tick
    }

    /// The tick's work is done. None where no tick has begun.
    pub fn done(&mut self) -> Option<Done> {
        self.done_at(clock::monotonic_ns())
    }

    fn done_at(&mut self, done_ns: u64) -> Option<Done> {
        let done = Done { tick: self.current.take()?, done_ns };
        mark::tick_done(done.tick.number, done.tick.due_ns);
        self.due_to_done.record(done.due_to_done_ns());
        self.work.record(done.work_ns());
        if let Some(keeper) = &mut self.keeper {
            keeper.done(done.tick.due_ns, done.done_ns);
        }
        if let Some((thread, guard)) = &mut self.thread
            && (thread.is_real_time() || thread.report().fifo == ApplyStatus::Suspended)
            && let Some(turn) = guard.after_tick(done.done_ns, done.work_ns())
        {
            thread.turn(turn);
        }
        Some(done)
    }

    /// From the next tick on, another period.
    pub fn set_period(&mut self, period: Duration) {
        self.schedule.set_period_ns(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        if let Some(keeper) = &mut self.keeper {
            keeper.set_period(clock::monotonic_ns(), self.schedule.due_ns(), self.schedule.period_ns());
        }
    }

    /// Says that the tick's work has come so far, for little more than a reading of the clock: with calls at every step of the work, gaps within it are seen too. Without
    /// any, those that a hypervisor makes are seen in idle time alone.
    pub fn checkpoint(&mut self) {
        if let (Some(keeper), Some(_)) = (&mut self.keeper, &self.current) {
            keeper.checkpoint();
        }
    }

    /// How the CPU is taken away from the thread that ticks, as far as is known by now.
    pub fn quantum(&self) -> Quantum {
        self.aligned().quantum
    }

    /// The same, with what is done about it.
    ///
    /// ```
    /// use evenkeel_rt::{Align, Alignment, Quantum, TickClock, TickSettings};
    ///
    /// let mut clock = TickClock::start(TickSettings { align: Align::Measured, ..TickSettings::default() });
    /// clock.wait();
    /// match clock.quantum() {
    ///     Quantum::FixedSlot(slot) => println!("ours for {:.0} % of {} ns", slot.share * 100.0, slot.period_ns),
    ///     Quantum::TokenBucket { quota_ns, period_ns } => println!("{quota_ns} ns of every {period_ns}"),
    ///     Quantum::Unknown | Quantum::None | Quantum::Irregular => {}
    /// }
    /// assert_ne!(clock.aligned().alignment, Alignment::Held, "nothing is held after one tick");
    /// ```
    pub fn aligned(&self) -> Aligned {
        self.keeper.as_ref().map_or_else(Aligned::default, Keeper::report)
    }

    /// The time from one tick to the next.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.schedule.period_ns())
    }

    /// Moves all ticks to come by so much, later or earlier: to where the CPU is ours.
    pub fn shift_ns(&mut self, by_ns: i64) {
        self.schedule.shift(by_ns, clock::monotonic_ns());
    }

    /// How well it went so far.
    pub fn report(&self) -> Report {
        Report {
            ticks: self.lateness.count(),
            missed: self.missed,
            lateness_ns: self.lateness.summary(),
            due_to_done_ns: self.due_to_done.summary(),
            work_ns: self.work.summary(),
            margin_ns: self.margin.map_or(0, |margin| margin.ns()),
            aligned: self.aligned(),
        }
    }

    fn sleep_until(&mut self, due_ns: u64) {
        let Some(margin) = &mut self.margin else {
            return clock::sleep_until_ns(due_ns);
        };
        let wake_ns = due_ns.saturating_sub(margin.ns());
        let mut now_ns = clock::monotonic_ns();
        if now_ns < wake_ns {
            clock::sleep_until_ns(wake_ns);
            now_ns = clock::monotonic_ns();
            margin.learn(now_ns.saturating_sub(wake_ns));
        }
        // By the bound on the margin, never longer than that.
        debug_assert!(due_ns.saturating_sub(now_ns) <= MOST_NS);
        while now_ns < due_ns {
            std::hint::spin_loop();
            now_ns = clock::monotonic_ns();
        }
    }
}

/// The longest that may be waited out awake. With one CPU it would be the rest of the server that waits; under a limit it is paid for
/// out of the tick's own time, of which a fortieth is little enough.
fn room_ns(period_ns: u64) -> u64 {
    if thread::allowed_cpus().map_or(1, |cpus| cpus) <= 1 {
        return 0;
    }
    let given_ns = cpu_limit::tightest().map_or(u64::MAX, |limit| (limit.cpus() * period_ns as f64) as u64);
    (given_ns / 40).min(MOST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadConfig;

    #[test]
    fn ticks_are_where_they_are_due() {
        for spinning in [Spinning::Always, Spinning::Never] {
            let settings = TickSettings { period: Duration::from_millis(2), spinning, ..TickSettings::default() };
            let mut clock = TickClock::start(settings);
            let first_ns = clock.next_due_ns();
            let mut last = None;
            for _ in 0..50 {
                let tick = clock.wait();
                assert!(tick.began_ns >= tick.due_ns, "a tick never begins early: {tick:?}");
                assert_eq!(tick.due_ns, first_ns + tick.number * 2_000_000, "no drift");
                assert_eq!(tick.number, last.map_or(0, |last: u64| last + 1) + tick.missed);
                last = Some(tick.number);
            }
            let report = clock.report();
            assert_eq!(report.ticks, 50);
            assert_eq!(report.due_to_done_ns.unwrap().count, 49, "the last one is not done");
            assert_eq!(report.margin_ns > 0, spinning == Spinning::Always);
        }
    }

    /// The times of the ticks are made up: seconds pass in a moment.
    #[test]
    fn a_real_time_tick_that_takes_everything_is_made_ordinary() {
        const TICK_NS: u64 = 10_000_000;
        let body = || {
            let thread = TickThread::set_up(&ThreadConfig { fifo: Some(1), ..ThreadConfig::default() });
            if !thread.is_real_time() {
                evenkeel_testkit::skipped("this user may have no real-time threads");
                return;
            }
            let mut clock = TickClock::start(TickSettings::default()).on(thread);
            let mut due_ns = clock::monotonic_ns();
            let mut seconds = |clock: &mut TickClock, seconds: u64, work_ns: u64| {
                for _ in 0..seconds * 100 {
                    clock.current = Some(Tick { number: 0, due_ns, began_ns: due_ns, missed: 0 });
                    clock.done_at(due_ns + work_ns).unwrap();
                    due_ns += TICK_NS;
                }
                (clock.thread().unwrap().fifo, evenkeel_sys::sched::policy())
            };
            let ordinary = (ApplyStatus::Suspended, Ok(evenkeel_sys::sched::Policy::Other));
            let real_time = (ApplyStatus::Active, Ok(evenkeel_sys::sched::Policy::Fifo));
            assert_eq!(seconds(&mut clock, 3, 5_000_000), real_time);
            assert_eq!(seconds(&mut clock, 3, 9_900_000), ordinary);
            assert_eq!(seconds(&mut clock, 3, 1_000_000), ordinary, "not yet calm for long enough");
            assert_eq!(seconds(&mut clock, 4, 1_000_000), real_time);
        };
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_tick_that_took_too_long_costs_those_it_ran_over() {
        let settings = TickSettings { period: Duration::from_millis(1), ..TickSettings::default() };
        let mut clock = TickClock::start(settings);
        clock.wait();
        std::thread::sleep(Duration::from_millis(5));
        let tick = clock.wait();
        assert!(tick.missed >= 3, "{tick:?}");
        assert!(clock.report().missed >= 3 && clock.report().work_ns.unwrap().max >= 5_000_000);
        clock.set_period(Duration::from_millis(3));
        assert_eq!(clock.period(), Duration::from_millis(3));
        let due_ns = clock.next_due_ns();
        clock.shift_ns(500_000_000);
        assert_eq!(clock.next_due_ns(), due_ns + 500_000_000);
    }
}
