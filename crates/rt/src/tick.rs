//! `TickClock`: waits for the next tick, and records how well ticks keep time.

use std::fmt;
use std::time::Duration;

use evenkeel_stats::{Histogram, Summary};
use evenkeel_sys::lock::tick_waits;
use evenkeel_sys::{clock, cpu_limit, mark, thread};

use crate::guard::Guard;
use crate::margin::{MOST_NS, Margin};
use crate::phases::{PhaseError, PhaseKeeper, PhaseReport, PhaseSettings};
use crate::quantum::{Align, Aligned, Alignment, Keeper, Quantum};
use crate::schedule::{Overrun, Schedule};
use crate::thread::{ApplyStatus, ThreadReport, TickThread};

/// How a clock ticks.
#[derive(Clone, Copy, Debug)]
pub struct TickSettings {
    /// From one tick to the next.
    pub period: Duration,
    /// What happens to ticks that are due while a long tick still runs.
    pub overrun: Overrun,
    /// Whether the clock spins for the end of the wait.
    pub spinning: Spinning,
    /// Whether the clock may shift ticks to the phase where they finish soonest.
    pub align: Align,
}

/// Whether the clock spins for the last microseconds before a tick, at most 100.
/// The clock never yields, because the current kernel scheduler then gives up a whole time slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spinning {
    /// The clock spins if the process has more than one CPU.
    /// Under a CPU limit, it spins for at most a fortieth of the CPU time that the process gets in a period.
    #[default]
    WhereThereIsRoom,
    /// The clock never spins.
    Never,
    /// The clock always spins. Use this for a CPU that is reserved for the server.
    Always,
}

impl Default for TickSettings {
    /// 50 ticks per second, and the default of every other setting.
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
///
/// ```
/// # let mut clock = evenkeel_rt::TickClock::start(evenkeel_rt::TickSettings::default())?;
/// use evenkeel_rt::Tick;
///
/// let Tick { number, due_ns, began_ns, missed, .. } = clock.wait();
/// println!("tick {number} began {} ns late, after {missed} missed ones", began_ns - due_ns);
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// How many ticks came before this one, including missed ticks.
    pub number: u64,
    /// When the tick was due, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
    /// When the tick began, in nanoseconds of the monotonic clock.
    pub began_ns: u64,
    /// How many ticks were missed right before this one.
    pub missed: u64,
}

/// A tick that has ended.
///
/// ```
/// # let mut clock = evenkeel_rt::TickClock::start(evenkeel_rt::TickSettings::default())?;
/// clock.wait();
/// let done = clock.done().expect("a tick has begun");
/// println!("worked for {} ns", done.work_ns());
/// assert_eq!(done.due_to_done_ns(), done.lateness_ns() + done.work_ns());
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The tick.
    pub tick: Tick,
    /// When the tick's work ended, in nanoseconds of the monotonic clock.
    pub done_ns: u64,
}

impl Done {
    /// The time from due to begun, in nanoseconds.
    pub fn lateness_ns(&self) -> u64 {
        self.tick.began_ns.saturating_sub(self.tick.due_ns)
    }

    /// The time from begun to done, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.tick.began_ns)
    }

    /// The time from due to done, in nanoseconds: the latency that players notice.
    pub fn due_to_done_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.tick.due_ns)
    }
}

/// How well ticks kept time so far. `Display` writes one line for each figure.
///
/// ```
/// # let mut ticks = evenkeel_rt::TickLoop::builder().rate_hz(500).build()?;
/// drop(ticks.wait());
/// print!("{}", ticks.report()); // 1 ticks, 0 missed …
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Ticks that began.
    pub ticks: u64,
    /// Ticks that were missed.
    pub missed: u64,
    /// The time from due to begun, in nanoseconds.
    pub lateness_ns: Option<Summary>,
    /// The time from due to done, in nanoseconds: the latency that players notice.
    pub due_to_done_ns: Option<Summary>,
    /// The time from begun to done, in nanoseconds.
    pub work_ns: Option<Summary>,
    /// How long before a tick the clock wakes and spins, in nanoseconds; 0 if it never spins.
    pub margin_ns: u64,
    /// How the CPU is taken away, and how the clock reacts to that.
    pub aligned: Aligned,
}

impl fmt::Display for Report {
    /// Writes the counts of ticks, then a line each for lateness, work, and the time from due to done. The last line is about the CPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ticks, {} missed", self.ticks, self.missed)?;
        let rows = [("lateness", &self.lateness_ns), ("work", &self.work_ns), ("due to done", &self.due_to_done_ns)];
        for (name, summary) in rows {
            let Some(Summary { p50, p99, max, .. }) = summary else { continue };
            let [p50, p99, max] = [*p50, *p99, *max].map(Duration::from_nanos);
            writeln!(f, "{name}: p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}")?;
        }
        writeln!(f, "CPU: {}", self.aligned.quantum)
    }
}

/// Why the settings of a clock are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickError {
    /// The period is 0.
    #[error("the tick period is 0: set one of at least a nanosecond")]
    ZeroPeriod,
}

/// Ticks at absolute times, for engines that own their loop. For all others, [`TickLoop`](crate::TickLoop) is easier. Use it from one thread.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::{Overrun, Spinning, ThreadConfig, TickClock, TickSettings, TickThread};
///
/// let thread = TickThread::set_up(&ThreadConfig::default());
/// let period = Duration::from_millis(2);
/// let overrun = Overrun::CatchUp { at_most: 3 };
/// let settings = TickSettings { period, overrun, spinning: Spinning::Never, ..TickSettings::default() };
/// let mut clock = TickClock::start(settings)?.on(thread);
/// println!("the first tick is due at {} ns", clock.next_due_ns());
/// let tick = clock.wait();
/// // … move the world by (1 + tick.missed) periods …
/// clock.checkpoint(); // between two steps of the work
/// if let Some(done) = clock.done() {
///     println!("tick {} began {} ns late", tick.number, done.lateness_ns());
/// }
/// clock.set_period(2 * period)?;
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
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
    phases: Option<PhaseKeeper>,
}

impl TickClock {
    /// Starts the clock now: the first tick is due one period later. Allocates all memory.
    /// Unless [`TickSettings::align`] is [`Align::Never`], it also starts a thread that analyses gaps in the CPU time.
    ///
    /// # Errors
    /// If the period is 0.
    pub fn start(settings: TickSettings) -> Result<TickClock, TickError> {
        let period_ns = period_ns(settings.period)?;
        let most_ns = match settings.spinning {
            Spinning::Always => MOST_NS,
            Spinning::Never => 0,
            Spinning::WhereThereIsRoom => room_ns(period_ns),
        };
        let keeper = match settings.align {
            Align::Measured => Keeper::start(clock::monotonic_ns(), period_ns),
            Align::Never => None,
        };
        // Start the clock after creating the keeper. The keeper tests the kernel for up to 0.2 s on a busy CPU, and ticks would be missed meanwhile.
        let now_ns = clock::monotonic_ns();
        Ok(TickClock {
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
            phases: None,
        })
    }

    /// Makes the clock responsible for the thread's settings.
    /// While the ticks of a real-time thread take more than nine tenths of the time, the clock makes the thread an ordinary one.
    /// So an administrator can still log in and stop the server.
    #[must_use]
    pub fn on(mut self, thread: TickThread) -> TickClock {
        self.take_thread(thread);
        self
    }

    /// Like [`on`](TickClock::on), for a clock that has already started.
    ///
    /// ```
    /// use evenkeel_rt::{ThreadConfig, TickClock, TickSettings, TickThread};
    ///
    /// let mut clock = TickClock::start(TickSettings::default())?;
    /// clock.take_thread(TickThread::set_up(&ThreadConfig::default()));
    /// println!("{}", clock.thread().expect("it was passed"));
    /// clock.shift_ns(500_000); // all later ticks, by half a millisecond
    /// # Ok::<(), evenkeel_rt::TickError>(())
    /// ```
    pub fn take_thread(&mut self, thread: TickThread) {
        self.thread = Some((thread, Guard::new(clock::monotonic_ns())));
    }

    /// Which settings of the thread from [`on`](TickClock::on) are active now. `None` if the clock has no such thread.
    pub fn thread(&self) -> Option<ThreadReport> {
        self.thread.as_ref().map(|(thread, _)| thread.report())
    }

    /// When the next tick is due, in nanoseconds of the monotonic clock: for engines that own their loop.
    pub fn next_due_ns(&self) -> u64 {
        self.schedule.due_ns()
    }

    /// Sleeps until the next tick is due, and begins it. If the previous tick has not ended, this call ends it.
    pub fn wait(&mut self) -> Tick {
        self.done();
        let mut now_ns = clock::monotonic_ns();
        let mut aligner_ns = 0;
        if let Some(keeper) = &mut self.keeper {
            let by_ns = keeper.move_ns(now_ns, self.schedule.due_ns());
            // A tick that is already late begins at once. Only the next tick is shifted.
            if by_ns != 0 && now_ns < self.schedule.due_ns() {
                self.schedule.shift(by_ns, now_ns);
                aligner_ns = by_ns;
            }
        }
        self.spread(now_ns, aligner_ns);
        let due = self.schedule.next(now_ns);
        if let Some(phases) = &mut self.phases {
            phases.publish(due.due_ns);
        }
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
        tick_waits::begin();
        tick
    }

    /// Shifts the next tick away from those of other sessions, unless it is late.
    fn spread(&mut self, now_ns: u64, aligner_ns: i64) {
        let Some(phases) = &mut self.phases else { return };
        let alignment = self.keeper.as_ref().map_or(Alignment::Free, |keeper| keeper.report().alignment);
        let by_ns = phases.move_ns(alignment, aligner_ns);
        if by_ns != 0 && now_ns < self.schedule.due_ns().saturating_add_signed(by_ns.min(0)) {
            self.schedule.shift(by_ns, now_ns);
            phases.moved(by_ns);
        }
    }

    /// Ends the tick. `None` if no tick has begun.
    pub fn done(&mut self) -> Option<Done> {
        self.done_at(clock::monotonic_ns())
    }

    fn done_at(&mut self, done_ns: u64) -> Option<Done> {
        let done = Done { tick: self.current.take()?, done_ns };
        mark::tick_done(done.tick.number, done.tick.due_ns);
        self.due_to_done.record(done.due_to_done_ns());
        self.work.record(done.work_ns());
        if let Some(phases) = &mut self.phases {
            phases.worked(done.work_ns());
        }
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

    /// Sets another period, from the next tick on.
    ///
    /// # Errors
    /// If the new period is 0. In that case the clock keeps its period.
    pub fn set_period(&mut self, period: Duration) -> Result<(), TickError> {
        self.schedule.set_period_ns(period_ns(period)?);
        if let Some(keeper) = &mut self.keeper {
            keeper.set_period(clock::monotonic_ns(), self.schedule.due_ns(), self.schedule.period_ns());
        }
        if let Some(phases) = &mut self.phases {
            phases.set_period(self.schedule.period_ns());
        }
        Ok(())
    }

    /// Spreads the ticks of all sessions on this host that share CPUs with this thread, so that fewer ticks collide.
    /// If no tick has begun yet, the clock delays the first one by up to a period, into the largest gap.
    /// From then on, it shifts a tick by at most 0.05 % of the period.
    ///
    /// # Errors
    /// If the folder does not accept the session's file, no thread can be started, or the system is not Linux.
    pub fn join_phases(&mut self, settings: &PhaseSettings) -> Result<(), PhaseError> {
        let (period_ns, due_ns, is_first) = (self.schedule.period_ns(), self.schedule.due_ns(), self.next_number == 0);
        // The slot of an earlier call does not count as a neighbour.
        self.phases = None;
        let (phases, delay_ns) = PhaseKeeper::join(settings, period_ns, due_ns, is_first)?;
        self.schedule.shift(i64::try_from(delay_ns).unwrap_or_default(), 0);
        self.phases = Some(phases);
        Ok(())
    }

    /// How the ticks are spread among those of other sessions.
    pub fn phase(&self) -> PhaseReport {
        self.phases.as_ref().map_or_else(PhaseReport::default, PhaseKeeper::report)
    }

    /// Call this between the steps of a tick's work, so that the clock also finds hypervisor gaps inside ticks.
    /// Without checkpoints, the clock finds gaps in idle time only. A call costs little more than reading the clock.
    pub fn checkpoint(&mut self) {
        if let (Some(keeper), Some(_)) = (&mut self.keeper, &self.current) {
            keeper.checkpoint();
        }
    }

    /// How the CPU is taken away from this thread, as far as the clock has detected it.
    pub fn quantum(&self) -> Quantum {
        self.aligned().quantum
    }

    /// How the CPU is taken away from this thread, and how the clock reacts to the gaps.
    ///
    /// ```
    /// use evenkeel_rt::{Align, Alignment, Quantum, TickClock, TickSettings};
    ///
    /// let mut clock = TickClock::start(TickSettings { align: Align::Measured, ..TickSettings::default() })?;
    /// clock.wait();
    /// match clock.quantum() {
    ///     Quantum::FixedSlot(slot) => println!("{:.0} % of every {} ns", slot.share * 100.0, slot.period_ns),
    ///     Quantum::TokenBucket { quota_ns, period_ns } => println!("{quota_ns} ns of every {period_ns}"),
    ///     Quantum::Unknown | Quantum::None | Quantum::Irregular => {}
    /// }
    /// assert_ne!(clock.aligned().alignment, Alignment::Held, "nothing is held after one tick");
    /// # Ok::<(), evenkeel_rt::TickError>(())
    /// ```
    pub fn aligned(&self) -> Aligned {
        self.keeper.as_ref().map_or_else(Aligned::default, Keeper::report)
    }

    /// The time from one tick to the next.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.schedule.period_ns())
    }

    /// Shifts all later ticks by this much, later or earlier.
    pub fn shift_ns(&mut self, by_ns: i64) {
        self.schedule.shift(by_ns, clock::monotonic_ns());
    }

    /// How well ticks kept time so far.
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
        // The margin has an upper bound, so the clock never spins longer than this.
        debug_assert!(due_ns.saturating_sub(now_ns) <= MOST_NS);
        while now_ns < due_ns {
            std::hint::spin_loop();
            now_ns = clock::monotonic_ns();
        }
    }
}

fn period_ns(period: Duration) -> Result<u64, TickError> {
    match u64::try_from(period.as_nanos()).unwrap_or(u64::MAX) {
        0 => Err(TickError::ZeroPeriod),
        ns => Ok(ns),
    }
}

/// The longest time to spin. With one CPU, spinning would make the rest of the server wait.
/// Under a CPU limit, spinning uses up the tick's own CPU time, so it may take a fortieth of that time.
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
    #[cfg(target_os = "linux")]
    use crate::ThreadConfig;

    #[test]
    fn ticks_are_where_they_are_due() {
        for spinning in [Spinning::Always, Spinning::Never] {
            let settings = TickSettings { period: Duration::from_millis(2), spinning, ..TickSettings::default() };
            let mut clock = TickClock::start(settings).unwrap();
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

    /// The test sets the times of the ticks itself, so that seconds pass in a moment.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_real_time_tick_that_takes_everything_is_made_ordinary() {
        const TICK_NS: u64 = 10_000_000;
        let body = || {
            let thread = TickThread::set_up(&ThreadConfig { fifo: Some(1), ..ThreadConfig::default() });
            if !thread.is_real_time() {
                evenkeel_testkit::skipped("this user may have no real-time threads");
                return;
            }
            let mut clock = TickClock::start(TickSettings::default()).unwrap().on(thread);
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
    fn a_clock_without_a_period_does_not_start() {
        let settings = TickSettings { period: Duration::ZERO, ..TickSettings::default() };
        assert_eq!(TickClock::start(settings).unwrap_err(), TickError::ZeroPeriod);
    }

    #[test]
    fn a_tick_that_took_too_long_costs_those_it_ran_over() {
        let settings = TickSettings { period: Duration::from_millis(1), ..TickSettings::default() };
        let mut clock = TickClock::start(settings).unwrap();
        clock.wait();
        std::thread::sleep(Duration::from_millis(5));
        let tick = clock.wait();
        assert!(tick.missed >= 3, "{tick:?}");
        assert!(clock.report().missed >= 3 && clock.report().work_ns.unwrap().max >= 5_000_000);
        clock.set_period(Duration::from_millis(3)).unwrap();
        let printed = clock.report().to_string();
        assert!(
            printed.starts_with("2 ticks, ") && printed.contains("\nwork: p50 ") && printed.contains("\nCPU: "),
            "{printed}"
        );
        assert_eq!(clock.set_period(Duration::ZERO), Err(TickError::ZeroPeriod));
        assert_eq!(clock.period(), Duration::from_millis(3));
        let due_ns = clock.next_due_ns();
        clock.shift_ns(500_000_000);
        assert_eq!(clock.next_due_ns(), due_ns + 500_000_000);
    }
}
