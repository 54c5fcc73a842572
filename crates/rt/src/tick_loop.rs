//! `TickLoop`: a server loop whose thread, memory, rate, scopes and telemetry one builder sets up.
//! Dropping a tick's guard ends the tick and does all its bookkeeping, so you cannot forget a call or make calls in the wrong order.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use evenkeel_sys::clock::monotonic_ns;

use crate::memory::{Memory, MemoryConfig, MemoryReport};
use crate::phases::{PhaseError, PhaseReport, PhaseSettings};
use crate::quantum::{Align, Aligned, Quantum};
use crate::rate::{RateChange, RateError, RatePhase, RateSettings, TickRate, TimeSlices};
use crate::schedule::Overrun;
use crate::scope::{self, ScopeError};
use crate::telemetry::{Counters, PageError, Telemetry, TelemetrySettings};
use crate::thread::{ThreadConfig, ThreadReport, TickThread};
use crate::tick::{Done, Report, Spinning, Tick, TickClock, TickError, TickSettings};

/// Settings of a [`TickLoop`]. Each setting has a default, and the order of the calls does not matter.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::memory::MemoryConfig;
/// use evenkeel_rt::rate::{RatePhase, RateSettings};
/// use evenkeel_rt::telemetry::TelemetrySettings;
/// use evenkeel_rt::{Align, Overrun, Spinning, ThreadConfig, TickLoop};
/// # let here = tempfile::tempdir().unwrap();
/// # let folder = Some(here.path().to_owned());
///
/// let page = TelemetrySettings { folder, ..TelemetrySettings::named("match 7") }; // folder: None for /dev/shm
/// let mut ticks = TickLoop::builder()
///     .adaptive_rate(RateSettings::default()) // 20, 30 or 50 ms
///     .period(Duration::from_millis(20)) // the first period
///     .overrun(Overrun::CatchUp { at_most: 2 })
///     .spinning(Spinning::Never)
///     .align(Align::Never)
///     .thread(ThreadConfig::unchanged())
///     .memory(MemoryConfig::default())
///     .telemetry(page)
///     .scopes("tick", 4096)
///     .build()?;
/// println!("the page is {}", ticks.telemetry_path().expect("it was requested").display());
/// println!("the first tick is due at {} ns", ticks.next_due_ns());
/// ticks.on_rate_change(|change| println!("{change}"));
/// let mut tick = ticks.wait();
/// println!("{} counts", tick.counters().is_some());
/// tick.enter_phase(RatePhase::between(Duration::from_millis(30), Duration::from_millis(50)));
/// drop(tick);
/// assert_eq!(ticks.period(), Duration::from_millis(30));
/// ticks.enter_phase(RatePhase::between(Duration::from_millis(20), Duration::from_millis(50)));
/// println!("load {:?}", ticks.rate().expect("it was requested").load());
/// println!("{}, {:?}", ticks.quantum(), ticks.aligned().alignment);
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "call `build` on the thread that ticks"]
pub struct TickLoopBuilder {
    period: Option<Duration>,
    overrun: Overrun,
    spinning: Spinning,
    align: Align,
    thread: ThreadConfig,
    memory: Option<MemoryConfig>,
    telemetry: Option<TelemetrySettings>,
    adaptive: Option<RateSettings>,
    scopes: Option<(String, usize)>,
    phases: Option<PhaseSettings>,
}

impl TickLoopBuilder {
    /// The number of ticks per second; 50 by default.
    pub fn rate_hz(self, ticks: u32) -> TickLoopBuilder {
        // 0 becomes a period of 0, which `build` refuses.
        self.period(Duration::from_secs(1).checked_div(ticks).unwrap_or_default())
    }

    /// The time from one tick to the next; 20 ms by default.
    pub fn period(self, period: Duration) -> TickLoopBuilder {
        TickLoopBuilder { period: Some(period), ..self }
    }

    /// Lengthens and shortens the period with the load, among the periods of `settings.ladder`.
    /// If you call [`period`](TickLoopBuilder::period) or [`rate_hz`](TickLoopBuilder::rate_hz), that period replaces `settings.start`.
    pub fn adaptive_rate(self, settings: RateSettings) -> TickLoopBuilder {
        TickLoopBuilder { adaptive: Some(settings), ..self }
    }

    /// What happens to ticks that are due while a long tick still runs.
    pub fn overrun(self, overrun: Overrun) -> TickLoopBuilder {
        TickLoopBuilder { overrun, ..self }
    }

    /// Whether the loop spins for the last microseconds before a tick.
    pub fn spinning(self, spinning: Spinning) -> TickLoopBuilder {
        TickLoopBuilder { spinning, ..self }
    }

    /// Whether the loop may shift ticks to the times when the hypervisor runs this CPU.
    pub fn align(self, align: Align) -> TickLoopBuilder {
        TickLoopBuilder { align, ..self }
    }

    /// The kernel settings of the loop's thread. The default needs no privileges; [`ThreadConfig::unchanged`] sets nothing.
    pub fn thread(self, config: ThreadConfig) -> TickLoopBuilder {
        TickLoopBuilder { thread: config, ..self }
    }

    /// Keeps the process's pages in memory, and counts the page faults of each tick. Off by default, because it affects the whole process.
    pub fn memory(self, config: MemoryConfig) -> TickLoopBuilder {
        TickLoopBuilder { memory: Some(config), ..self }
    }

    /// Publishes every tick on a page of shared memory.
    pub fn telemetry(self, settings: TelemetrySettings) -> TickLoopBuilder {
        TickLoopBuilder { telemetry: Some(settings), ..self }
    }

    /// Records the last `scopes` scopes of the loop's thread, under this name ([`scope`](crate::scope)).
    pub fn scopes(self, name: &str, scopes: usize) -> TickLoopBuilder {
        TickLoopBuilder { scopes: Some((name.to_owned(), scopes)), ..self }
    }

    /// Spreads the ticks of all sessions on this host, so that fewer of them collide ([`TickClock::join_phases`]). Off by default.
    pub fn phases(self, settings: PhaseSettings) -> TickLoopBuilder {
        TickLoopBuilder { phases: Some(settings), ..self }
    }

    /// Sets up the calling thread and starts the loop. Allocates all memory of the loop.
    /// The first tick is due one period later, or up to two periods later with [`phases`](TickLoopBuilder::phases).
    /// Settings that the kernel refuses are not errors: [`TickLoop::setup`] lists them.
    ///
    /// # Errors
    /// If the period is 0, or the ladder of periods is invalid.
    /// If the telemetry page or the file of [`phases`](TickLoopBuilder::phases) cannot be created.
    /// If too many threads record scopes, or this thread records scopes under another name.
    pub fn build(self) -> Result<TickLoop, TickLoopError> {
        if self.period == Some(Duration::ZERO) {
            return Err(TickError::ZeroPeriod.into());
        }
        // Set up the thread first: later steps read its CPUs, and the threads that those steps start inherit these CPUs.
        let thread = TickThread::set_up(&self.thread);
        if let Some((name, scopes)) = &self.scopes {
            scope::start_thread(name, *scopes)?;
        }
        let rate = self.adaptive.map(|settings| {
            let start = self.period.unwrap_or(settings.start);
            TickRate::start(RateSettings { start, ..settings })
        });
        let rate = rate.transpose()?;
        let telemetry = self.telemetry.as_ref().map(Telemetry::create).transpose()?;
        let memory = self.memory.as_ref().map(Memory::set_up);
        let default = TickSettings::default();
        let period = rate.as_ref().map(TickRate::period).or(self.period).unwrap_or(default.period);
        let settings = TickSettings { period, overrun: self.overrun, spinning: self.spinning, align: self.align };
        let mut clock = TickClock::start(settings)?.on(thread);
        if let Some(phases) = &self.phases {
            clock.join_phases(phases)?;
        }
        let mut ticks = TickLoop { clock, memory, telemetry, rate, thread: PhantomData };
        ticks.period_changed();
        Ok(ticks)
    }
}

/// Why a loop could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TickLoopError {
    /// The period is invalid.
    #[error(transparent)]
    Tick(#[from] TickError),
    /// The ladder of periods is invalid.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The telemetry page could not be created.
    #[error(transparent)]
    Telemetry(#[from] PageError),
    /// The ticks cannot be spread among those of other sessions.
    #[error(transparent)]
    Phases(#[from] PhaseError),
    /// The thread cannot record scopes.
    #[error(transparent)]
    Scopes(#[from] ScopeError),
}

/// A server loop: wait for a tick, do its work, drop its guard.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::TickLoop;
///
/// let mut ticks = TickLoop::builder().rate_hz(500).build()?;
/// for _ in 0..3 {
///     let tick = ticks.wait();
///     println!("move the world by {:?}", tick.elapsed());
/// } // the guard ends the tick
/// assert_eq!(ticks.report().ticks, 3);
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
///
/// A loop belongs to the thread that built it, because `build` set up that thread:
///
/// ```compile_fail
/// let mut ticks = evenkeel_rt::TickLoop::builder().build().unwrap();
/// std::thread::spawn(move || ticks.wait().number);
/// ```
#[derive(Debug)]
pub struct TickLoop {
    clock: TickClock,
    memory: Option<Memory>,
    telemetry: Option<Telemetry>,
    rate: Option<TickRate>,
    /// Makes the loop not `Send`, because `build` set up this thread, and the loop reads this thread's counters.
    thread: PhantomData<*mut ()>,
}

impl TickLoop {
    /// Starts with the defaults: 50 ticks a second, missed ticks are skipped, and thread settings that need no privileges.
    pub fn builder() -> TickLoopBuilder {
        TickLoopBuilder::default()
    }

    /// Sleeps until the next tick is due, and begins it. Dropping the guard ends the tick.
    pub fn wait(&mut self) -> TickGuard<'_> {
        // If the caller leaked the last guard, its tick has not ended yet.
        self.finish();
        let tick = self.clock.wait();
        TickGuard { tick, ticks: self }
    }

    /// For engines that own their loop: begins the next tick if it is due, and never waits.
    /// [`next_due_ns`](TickLoop::next_due_ns) returns when to call this.
    ///
    /// ```
    /// let mut ticks = evenkeel_rt::TickLoop::builder().rate_hz(500).build()?;
    /// while ticks.report().ticks < 3 {
    ///     match ticks.poll() {
    ///         Some(tick) => println!("move the world by {:?}", tick.elapsed()),
    ///         None => std::thread::yield_now(), // the engine's own work
    ///     }
    /// }
    /// # Ok::<(), evenkeel_rt::TickLoopError>(())
    /// ```
    pub fn poll(&mut self) -> Option<TickGuard<'_>> {
        (self.clock.next_due_ns() <= monotonic_ns()).then(|| self.wait())
    }

    /// Ends a tick whose guard was [detached](TickGuard::detach). `None` if no tick has begun.
    pub fn done(&mut self) -> Option<Done> {
        self.finish()
    }

    /// The same as [`TickGuard::checkpoint`], for a tick whose guard was [detached](TickGuard::detach).
    pub fn checkpoint(&mut self) {
        self.clock.checkpoint();
    }

    /// How well ticks kept time so far.
    pub fn report(&self) -> Report {
        self.clock.report()
    }

    /// Which thread and memory settings are active now.
    pub fn setup(&self) -> SetupReport {
        SetupReport { thread: self.clock.thread(), memory: self.memory.as_ref().map(Memory::report) }
    }

    /// The current time from one tick to the next.
    pub fn period(&self) -> Duration {
        self.clock.period()
    }

    /// When the next tick is due, in nanoseconds of the monotonic clock.
    pub fn next_due_ns(&self) -> u64 {
        self.clock.next_due_ns()
    }

    /// How the CPU is taken away from this thread, as far as the clock has detected it.
    pub fn quantum(&self) -> Quantum {
        self.clock.quantum()
    }

    /// How the CPU is taken away from this thread, and how the clock reacts to the gaps.
    pub fn aligned(&self) -> Aligned {
        self.clock.aligned()
    }

    /// How the ticks are spread among those of other sessions.
    pub fn phase(&self) -> PhaseReport {
        self.clock.phase()
    }

    /// The counters of the telemetry page, for any thread. `None` without telemetry.
    pub fn counters(&self) -> Option<Counters> {
        self.telemetry.as_ref().map(Telemetry::counters)
    }

    /// The file of the telemetry page. `None` without telemetry.
    pub fn telemetry_path(&self) -> Option<&Path> {
        self.telemetry.as_ref().map(Telemetry::path)
    }

    /// Moves the period at once into the range of another phase of the game.
    /// Without an [`adaptive_rate`](TickLoopBuilder::adaptive_rate), the period does not change.
    pub fn enter_phase(&mut self, phase: RatePhase) {
        if self.rate.as_mut().is_some_and(|rate| rate.enter(phase).is_some()) {
            self.period_changed();
        }
    }

    /// Calls this function at each change of the period, after a tick and on the thread of the loop.
    /// Without an [`adaptive_rate`](TickLoopBuilder::adaptive_rate), the period never changes.
    pub fn on_rate_change(&mut self, call: impl FnMut(RateChange) + Send + 'static) {
        self.rate = self.rate.take().map(|rate| rate.on_change(call));
    }

    /// The rate that chooses the period. `None` without an [`adaptive_rate`](TickLoopBuilder::adaptive_rate).
    pub fn rate(&self) -> Option<&TickRate> {
        self.rate.as_ref()
    }

    /// Ends the current tick, if there is one.
    fn finish(&mut self) -> Option<Done> {
        let done = self.clock.done()?;
        let quantum = (self.telemetry.is_some() || self.rate.is_some()).then(|| self.clock.quantum());
        let memory = self.memory.as_mut().map(|memory| memory.after(&done));
        if let Some(telemetry) = &mut self.telemetry {
            if let Some(memory) = memory {
                telemetry.set_faults(memory.faults);
                telemetry.set_swapped_in(memory.swapped_in);
            }
            telemetry.set_quantum(&quantum.unwrap_or_default());
            telemetry.after(&done);
        }
        if let Some(rate) = &mut self.rate {
            let sliced = rate.set_slices(TimeSlices::from_quantum(&quantum.unwrap_or_default()));
            let changed = rate.after(&done);
            if sliced.or(changed).is_some() {
                self.period_changed();
            }
        }
        Some(done)
    }

    /// Passes the period of the rate to the clock, and the period of the clock to the telemetry page.
    fn period_changed(&mut self) {
        if let Some(rate) = &self.rate {
            // A ladder has no rung with a period of 0, so this call succeeds.
            let _ = self.clock.set_period(rate.period());
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.set_period(self.clock.period());
        }
    }
}

/// A tick that has begun. Dropping this guard ends the tick.
///
/// ```
/// # let mut ticks = evenkeel_rt::TickLoop::builder().rate_hz(500).build()?;
/// let tick = ticks.wait();
/// println!("tick {}, {} missed before it", tick.number, tick.missed);
/// let done = tick.done(); // or drop it
/// println!("worked for {} ns", done.work_ns());
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Debug)]
#[must_use = "the tick ends where this is dropped: `let tick = ticks.wait();`"]
pub struct TickGuard<'a> {
    tick: Tick,
    ticks: &'a mut TickLoop,
}

impl TickGuard<'_> {
    /// The time to move the world by: one period for this tick, and one for each missed tick before it.
    pub fn elapsed(&self) -> Duration {
        let periods = u32::try_from(self.tick.missed).unwrap_or(u32::MAX).saturating_add(1);
        self.ticks.period().saturating_mul(periods)
    }

    /// Reports progress between two steps of the work, so that the clock also finds hypervisor gaps inside ticks.
    /// A call costs little more than reading the clock.
    pub fn checkpoint(&mut self) {
        self.ticks.clock.checkpoint();
    }

    /// The counters of the telemetry page. `None` without telemetry.
    pub fn counters(&self) -> Option<Counters> {
        self.ticks.counters()
    }

    /// The same as [`TickLoop::enter_phase`].
    pub fn enter_phase(&mut self, phase: RatePhase) {
        self.ticks.enter_phase(phase);
    }

    /// Leaves the tick open, for code that cannot hold a guard until the tick ends.
    /// [`TickLoop::done`] ends the tick. Without that call, the next [`wait`](TickLoop::wait) ends it.
    ///
    /// ```
    /// # let mut ticks = evenkeel_rt::TickLoop::builder().rate_hz(500).build()?;
    /// let tick = ticks.wait().detach();
    /// ticks.checkpoint(); // between two steps of the work
    /// let done = ticks.done().expect("a tick has begun");
    /// assert_eq!(done.tick, tick);
    /// # Ok::<(), evenkeel_rt::TickLoopError>(())
    /// ```
    pub fn detach(self) -> Tick {
        let tick = self.tick;
        // The guard's only purpose is to end the tick.
        std::mem::forget(self);
        tick
    }

    /// Ends the tick, and returns its times.
    pub fn done(self) -> Done {
        let ended = Done { tick: self.tick, done_ns: self.tick.began_ns };
        // The tick has begun, and only this guard can end it.
        self.ticks.finish().unwrap_or(ended)
    }
}

impl Deref for TickGuard<'_> {
    type Target = Tick;

    fn deref(&self) -> &Tick {
        &self.tick
    }
}

impl Drop for TickGuard<'_> {
    fn drop(&mut self) {
        self.ticks.finish();
    }
}

/// Which settings of a [`TickLoop`] are active.
/// `Display` writes a line for each setting that was requested and is not active, with what to do.
///
/// ```
/// # let ticks = evenkeel_rt::TickLoop::builder().build()?;
/// eprint!("{}", ticks.setup()); // prints nothing if all settings are active
/// # Ok::<(), evenkeel_rt::TickLoopError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupReport {
    /// The thread's settings.
    pub thread: Option<ThreadReport>,
    /// The memory settings, if [`TickLoopBuilder::memory`] requested any.
    pub memory: Option<MemoryReport>,
}

impl fmt::Display for SetupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread.map(|thread| thread.advice()).unwrap_or_default();
        let memory = self.memory.map(|memory| memory.advice()).unwrap_or_default();
        thread.iter().chain(&memory).try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests;
