//! `TickLoop`: a server loop whose thread, memory, rate, scopes and telemetry one builder sets up. Dropping a tick's guard ends the tick
//! and does all bookkeeping of it, so that no call can be forgotten or made in the wrong order.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use evenkeel_sys::clock::monotonic_ns;

use crate::memory::{Memory, MemoryConfig, MemoryReport};
use crate::quantum::{Align, Aligned, Quantum};
use crate::rate::{RateChange, RateError, RatePhase, RateSettings, TickRate, TimeSlices};
use crate::schedule::Overrun;
use crate::scope::{self, ScopeError};
use crate::telemetry::{Counters, PageError, Telemetry, TelemetrySettings};
use crate::thread::{ThreadConfig, ThreadReport, TickThread};
use crate::tick::{Done, Report, Spinning, Tick, TickClock, TickError, TickSettings};

/// Settings of a [`TickLoop`]. Each has a default, and their order does not matter.
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
}

impl TickLoopBuilder {
    /// Ticks this many times a second; 50 by default.
    pub fn rate_hz(self, ticks: u32) -> TickLoopBuilder {
        // 0 becomes a period of 0, which `build` refuses.
        self.period(Duration::from_secs(1).checked_div(ticks).unwrap_or_default())
    }

    /// The time from one tick to the next; 20 ms by default.
    pub fn period(self, period: Duration) -> TickLoopBuilder {
        TickLoopBuilder { period: Some(period), ..self }
    }

    /// Lengthens and shortens the period with the load, among the periods of `settings.ladder`. A period that is set with
    /// [`period`](TickLoopBuilder::period) or [`rate_hz`](TickLoopBuilder::rate_hz) replaces `settings.start`.
    pub fn adaptive_rate(self, settings: RateSettings) -> TickLoopBuilder {
        TickLoopBuilder { adaptive: Some(settings), ..self }
    }

    /// What happens to ticks that a long tick runs over.
    pub fn overrun(self, overrun: Overrun) -> TickLoopBuilder {
        TickLoopBuilder { overrun, ..self }
    }

    /// Whether the loop spins for the last microseconds before a tick.
    pub fn spinning(self, spinning: Spinning) -> TickLoopBuilder {
        TickLoopBuilder { spinning, ..self }
    }

    /// Whether the loop may shift ticks to where the hypervisor leaves the CPU to this machine.
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

    /// Sets up the calling thread and starts the loop: the first tick is due one period later. It allocates all memory of the loop. Settings
    /// that the kernel refuses are no error: [`TickLoop::setup`] lists them.
    ///
    /// # Errors
    /// If the period is 0, the ladder of periods is invalid, the telemetry page cannot be created, or too many threads record scopes.
    pub fn build(self) -> Result<TickLoop, TickLoopError> {
        if self.period == Some(Duration::ZERO) {
            return Err(TickError::ZeroPeriod.into());
        }
        // First: what follows reads which CPUs the thread may use, and threads that it starts inherit them.
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
        let clock = TickClock::start(settings)?.on(thread);
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
/// A loop belongs to the thread that built it, because it set up that thread:
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
    /// It set up the thread that built it, and reads that thread's counters: not `Send`.
    thread: PhantomData<*mut ()>,
}

impl TickLoop {
    /// Starts with the defaults: 50 ticks a second, missed ticks are skipped, and thread settings that need no privileges.
    pub fn builder() -> TickLoopBuilder {
        TickLoopBuilder::default()
    }

    /// Sleeps until the next tick is due, and begins it. Dropping the guard ends the tick.
    pub fn wait(&mut self) -> TickGuard<'_> {
        // A guard that was leaked has ended nothing.
        self.finish();
        let tick = self.clock.wait();
        TickGuard { tick, ticks: self }
    }

    /// For engines that own their loop: begins the next tick if it is due. It never waits. [`next_due_ns`](TickLoop::next_due_ns) returns
    /// when to call it.
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

    /// Ends a tick whose guard was [detached](TickGuard::detach). None if no tick has begun.
    pub fn done(&mut self) -> Option<Done> {
        self.finish()
    }

    /// As [`TickGuard::checkpoint`], for a tick whose guard was [detached](TickGuard::detach).
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

    /// The time from one tick to the next, as it is now.
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

    /// The same, with what the clock does about it.
    pub fn aligned(&self) -> Aligned {
        self.clock.aligned()
    }

    /// The counters of the telemetry page, for any thread; none without telemetry.
    pub fn counters(&self) -> Option<Counters> {
        self.telemetry.as_ref().map(Telemetry::counters)
    }

    /// The file of the telemetry page; none without telemetry.
    pub fn telemetry_path(&self) -> Option<&Path> {
        self.telemetry.as_ref().map(Telemetry::path)
    }

    /// Moves the period at once into the range of another phase of the game. Without an [`adaptive
    /// rate`](TickLoopBuilder::adaptive_rate), the period stays as it is.
    pub fn enter_phase(&mut self, phase: RatePhase) {
        if self.rate.as_mut().is_some_and(|rate| rate.enter(phase).is_some()) {
            self.period_changed();
        }
    }

    /// Calls this at each change of the period, after a tick and on its thread. Without an [`adaptive
    /// rate`](TickLoopBuilder::adaptive_rate), the period never changes.
    pub fn on_rate_change(&mut self, call: impl FnMut(RateChange) + Send + 'static) {
        self.rate = self.rate.take().map(|rate| rate.on_change(call));
    }

    /// What the choice of the period rests on; none without an [`adaptive rate`](TickLoopBuilder::adaptive_rate).
    pub fn rate(&self) -> Option<&TickRate> {
        self.rate.as_ref()
    }

    /// Ends the tick that has begun, if one has.
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
            let sliced = rate.set_slices(TimeSlices::of(&quantum.unwrap_or_default()));
            let changed = rate.after(&done);
            if sliced.or(changed).is_some() {
                self.period_changed();
            }
        }
        Some(done)
    }

    /// Passes the period of the rate to the clock, and that of the clock to the telemetry page.
    fn period_changed(&mut self) {
        if let Some(rate) = &self.rate {
            // A ladder has no rung of 0.
            let _ = self.clock.set_period(rate.period());
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.set_period(self.clock.period());
        }
    }
}

/// A tick that has begun. Dropping it ends the tick.
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

    /// Reports progress between two steps of the work, so that the clock also finds hypervisor gaps inside ticks. A call costs little more
    /// than reading the clock.
    pub fn checkpoint(&mut self) {
        self.ticks.clock.checkpoint();
    }

    /// The counters of the telemetry page; none without telemetry.
    pub fn counters(&self) -> Option<Counters> {
        self.ticks.counters()
    }

    /// As [`TickLoop::enter_phase`].
    pub fn enter_phase(&mut self, phase: RatePhase) {
        self.ticks.enter_phase(phase);
    }

    /// Leaves the tick open, for code that cannot hold a guard until the tick ends. [`TickLoop::done`] ends it, or else the next
    /// [`wait`](TickLoop::wait).
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
        // It owns nothing but the duty to end the tick.
        std::mem::forget(self);
        tick
    }

    /// Ends the tick, and returns its times.
    pub fn done(self) -> Done {
        let ended = Done { tick: self.tick, done_ns: self.tick.began_ns };
        // The tick has begun and nobody else can have ended it.
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

/// Which settings of a [`TickLoop`] are active. Printed, it has a line for each setting that was requested and is not active, with what to
/// do.
///
/// ```
/// # let ticks = evenkeel_rt::TickLoop::builder().build()?;
/// eprint!("{}", ticks.setup()); // prints nothing if all is active
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
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::telemetry::{Count, TelemetryReader};

    const FAST: Duration = Duration::from_millis(2);

    #[test]
    fn dropping_the_guard_ends_the_tick() {
        let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
        for number in 0..5 {
            let tick = ticks.wait();
            assert!(tick.number >= number && tick.elapsed() == FAST * (1 + tick.missed as u32));
        }
        let report = ticks.report();
        assert_eq!((report.ticks, report.work_ns.unwrap().count), (5, 5), "the last one too");
        std::mem::forget(ticks.wait());
        let done = ticks.wait().done();
        assert!(done.done_ns >= done.tick.began_ns);
        assert_eq!(ticks.report().work_ns.unwrap().count, 7, "a leaked guard's tick ends with the next wait");
    }

    #[test]
    fn a_detached_tick_stays_open_until_done() {
        let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
        assert_eq!(
            (ticks.poll().map(TickGuard::detach), ticks.done()),
            (None, None),
            "the first tick is a period away"
        );
        evenkeel_sys::clock::sleep_until_ns(ticks.next_due_ns());
        let tick = ticks.poll().expect("it is due").detach();
        ticks.checkpoint();
        assert!(ticks.report().work_ns.is_none(), "it is still open");
        assert_eq!(ticks.done().map(|done| done.tick), Some(tick));
        assert_eq!((ticks.done(), ticks.report().work_ns.unwrap().count), (None, 1));
        ticks.wait().detach();
        drop(ticks.wait());
        assert_eq!(ticks.report().work_ns.unwrap().count, 3, "the next wait ends it too");
    }

    #[test]
    fn a_panic_in_a_tick_ends_it_too() {
        let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
        let tick = std::panic::AssertUnwindSafe(|| {
            let _tick = ticks.wait();
            panic!("in the work");
        });
        assert!(std::panic::catch_unwind(tick).is_err());
        assert_eq!(ticks.report().work_ns.unwrap().count, 1);
    }

    #[test]
    fn a_period_of_0_is_an_error_before_the_thread_is_changed() {
        let refused = |builder: TickLoopBuilder| builder.build().unwrap_err().to_string();
        let expected = "the tick period is 0: set one of at least a nanosecond";
        assert_eq!(refused(TickLoop::builder().period(Duration::ZERO)), expected);
        assert_eq!(refused(TickLoop::builder().rate_hz(0)), expected);
        let ladder = RateSettings { ladder: vec![], ..RateSettings::default() };
        assert!(refused(TickLoop::builder().adaptive_rate(ladder)).starts_with("a ladder of tick periods"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_part_gets_every_tick() {
        let folder = tempfile::tempdir().unwrap();
        let page = TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named("loop") };
        // The calls are in no order: the builder has the right one.
        let builder = TickLoop::builder().telemetry(page).align(Align::Never).memory(MemoryConfig::default());
        let builder = builder.adaptive_rate(RateSettings {
            ladder: vec![FAST, 5 * FAST],
            phase: RatePhase::between(FAST, 5 * FAST),
            ..RateSettings::default()
        });
        let mut ticks = builder.period(FAST).build().unwrap();
        assert_eq!(ticks.period(), FAST, "the period chooses the first rung");
        let reader = TelemetryReader::open(ticks.telemetry_path().unwrap()).unwrap();
        for _ in 0..4 {
            let tick = ticks.wait();
            tick.counters().unwrap().add(Count::Jobs, 3);
        }
        let read = reader.read().unwrap();
        assert_eq!((read.ticks, read.period_ns, read.count(Count::Jobs)), (4, Some(2_000_000), Some(12)));
        assert!(read.faults.is_some() && ticks.setup().memory.is_some());
        ticks.wait().enter_phase(RatePhase::between(5 * FAST, 5 * FAST));
        assert_eq!(ticks.period(), 5 * FAST);
        drop(ticks.wait());
        assert_eq!(reader.read().unwrap().period_ns, Some(10_000_000), "readers see the new period");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_setup_report_names_what_is_missing() {
        let fine = SetupReport { thread: None, memory: None };
        assert_eq!(fine.to_string(), "");
        let body = || {
            let nowhere = ThreadConfig { cpus: Some(crate::CpuSet::default()), ..ThreadConfig::unchanged() };
            TickLoop::builder().thread(nowhere).align(Align::Never).build().unwrap().setup().to_string()
        };
        let printed = std::thread::spawn(body).join().unwrap();
        assert!(printed.starts_with("the thread is not pinned to its CPUs, invalid argument (EINVAL): "), "{printed}");
    }
}
