//! `Decider`: chooses the rung of the ladder. It is pure: callers pass ticks and readings, so a test can simulate hours.

use std::time::Duration;

use super::change::{RateChange, RatePhase, RateReason};
use super::ladder::{Ladder, LadderError, SliceModel, TimeSlices};

/// How many tick durations of a window we store: over two seconds of ticks at 10 ms.
const TICKS_KEPT: usize = 256;
/// The load is the 0.9 quantile of the tick durations. The rest of the period absorbs rare long ticks.
const JUDGED_BY: f64 = 0.9;
/// If this many of the last three windows are overloaded, the period gets longer. A single one may be a pause of the whole machine.
const OVERLOADED: u32 = 2;
const LAST_WINDOWS: u8 = 0b111;
/// How many calm windows must pass before the period gets shorter again.
pub(super) const CALM_WINDOWS: u32 = 10;
/// The maximum number of required calm windows, after repeated unsuccessful returns.
pub(super) const CALM_WINDOWS_MAX: u32 = 640;
/// A return is unsuccessful if the server is overloaded again within this many windows.
const IN_VAIN_WINDOWS: u32 = 60;
/// Before a return, the load at the faster rung must be below this share of the sustainable load.
const BACK_BELOW: f64 = 0.85;

/// The kernel's counters for a window of about a second. If the kernel does not report a counter, it is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Readings {
    /// The length of the window, in nanoseconds.
    pub(super) window_ns: u64,
    /// CPU time of the tick's thread, in nanoseconds.
    pub(super) cpu_ns: Option<u64>,
    /// How long that thread was ready but did not run, in nanoseconds.
    pub(super) run_wait_ns: Option<u64>,
    /// How long some thread of the system was ready but did not run, in nanoseconds.
    pub(super) pressure_ns: Option<u64>,
    /// How long some thread of the server's control group was ready but did not run, in nanoseconds.
    pub(super) group_pressure_ns: Option<u64>,
    /// How long a CPU limit stopped the server's control group, in nanoseconds, summed over CPUs.
    pub(super) throttled_ns: Option<u64>,
}

/// The machine's CPUs, from which the limits follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hardware {
    /// The number of CPUs that the server may run on.
    pub(super) cpus: usize,
    /// The number of CPUs that a limit leaves the server on average. `None` means no limit.
    pub(super) cpu_limit: Option<f64>,
}

/// The limits above which a window counts as overloaded.
///
/// ```
/// use evenkeel_rt::rate::{RateSettings, Thresholds, TickRate};
///
/// let Thresholds { load, missed, .. } = TickRate::start(RateSettings::default())?.thresholds();
/// println!("overloaded above a load of {load}, or if {:.0} % of the ticks are missed", missed * 100.0);
/// # Ok::<(), evenkeel_rt::rate::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The load: how long a tick worked, divided by the part of the period in which it may run.
    pub load: f64,
    /// The share of ticks that were missed.
    pub missed: f64,
    /// The share of the time in which the tick's thread was ready but did not run.
    pub run_wait: f64,
    /// The share of the time in which another thread was ready but did not run.
    pub pressure: f64,
}

impl Thresholds {
    /// On one CPU, the system keeps its share. There a thread waits whenever two threads are ready.
    pub(super) fn new(hardware: &Hardware, sustainable: f64, system_share: f64) -> Thresholds {
        let is_alone = hardware.cpus <= 1;
        let kept = if is_alone { 1.0 - system_share } else { 1.0 };
        Thresholds {
            load: sustainable.min(kept).clamp(0.05, 1.0),
            missed: 0.02,
            run_wait: if is_alone { 0.2 } else { 0.1 },
            pressure: if is_alone { 0.4 } else { 0.6 },
        }
    }
}

/// Chooses the rung of the ladder. The comment at the top of this file has the details.
#[derive(Debug)]
pub(super) struct Decider {
    ladder: Ladder,
    hardware: Hardware,
    slices: Option<TimeSlices>,
    sustainable: f64,
    system_share: f64,
    phase: RatePhase,
    thresholds: Thresholds,
    rung: usize,
    /// How long the window's last ticks took, in nanoseconds.
    lasted_ns: [u64; TICKS_KEPT],
    ticks: u64,
    missed: u64,
    /// Which of the last windows were overloaded. The lowest bit stands for the last window.
    overloaded: u8,
    calm: u32,
    calm_needed: u32,
    /// The number of windows since the last return to a faster rung.
    since_back: u32,
    load: Option<f64>,
}

/// The settings of a decider.
#[derive(Clone, Debug)]
pub(super) struct DeciderConfig<'a> {
    pub(super) ladder: &'a [Duration],
    pub(super) start: Duration,
    pub(super) phase: RatePhase,
    pub(super) sustainable: f64,
    pub(super) system_share: f64,
}

impl Decider {
    pub(super) fn new(config: &DeciderConfig<'_>, hardware: Hardware) -> Result<Decider, LadderError> {
        let ladder = Ladder::new(config.ladder)?;
        let mut decider = Decider {
            rung: ladder.nearest(config.start),
            ladder,
            hardware,
            slices: None,
            sustainable: config.sustainable,
            system_share: config.system_share,
            phase: config.phase,
            thresholds: Thresholds::new(&hardware, config.sustainable, config.system_share),
            lasted_ns: [0; TICKS_KEPT],
            ticks: 0,
            missed: 0,
            overloaded: 0,
            calm: 0,
            calm_needed: CALM_WINDOWS,
            since_back: u32::MAX,
            load: None,
        };
        decider.enter(config.phase);
        Ok(decider)
    }

    pub(super) fn period_ns(&self) -> u64 {
        self.ladder.period_ns(self.rung)
    }

    #[cfg(test)]
    pub(super) fn ladder_period_ns(&self, rung: usize) -> u64 {
        self.ladder.period_ns(rung)
    }

    pub(super) fn load(&self) -> Option<f64> {
        self.load
    }

    pub(super) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Records a tick: how long it took, and how many ticks were missed before it.
    pub(super) fn tick(&mut self, lasted_ns: u64, missed: u64) {
        self.lasted_ns[self.ticks as usize % TICKS_KEPT] = lasted_ns;
        self.ticks += 1;
        self.missed = self.missed.saturating_add(missed);
    }

    /// Enters another phase of the game.
    pub(super) fn enter(&mut self, phase: RatePhase) -> Option<RateChange> {
        self.phase = phase;
        let sustainable = phase.sustainable.unwrap_or(self.sustainable);
        self.thresholds = Thresholds::new(&self.hardware, sustainable, self.system_share);
        let (low, high) = self.ladder.within(phase.fastest, phase.slowest);
        self.go_to(self.rung.clamp(low, high), RateReason::Phase)
    }

    /// Sets the time slices of the CPU. `None` if the CPU no longer has slices.
    pub(super) fn set_slices(&mut self, slices: Option<TimeSlices>) -> Option<RateChange> {
        self.slices = slices.filter(TimeSlices::is_sound);
        let before_ns = self.period_ns();
        self.ladder.align(self.slices.map(|slices| slices.period));
        self.changed(before_ns, RateReason::TimeSlices)
    }

    /// Ends a window, with its readings. Returns a change of the period if one is due.
    pub(super) fn window(&mut self, readings: &Readings) -> Option<RateChange> {
        self.since_back = self.since_back.saturating_add(1);
        if self.ticks == 0 {
            // Without a tick we know nothing: the server was stopped, or a tick takes longer than a window.
            return None;
        }
        let needs_ns = self.needs_ns(readings);
        let load = self.load_on(self.rung, needs_ns);
        let found = self.overload(load, readings);
        self.load = Some(load);
        (self.ticks, self.missed) = (0, 0);
        let (low, high) = self.ladder.within(self.phase.fastest, self.phase.slowest);
        self.overloaded = (self.overloaded << 1 | u8::from(found.is_some())) & LAST_WINDOWS;
        if let Some(why) = found {
            self.calm = 0;
            if self.overloaded.count_ones() < OVERLOADED || self.rung >= high {
                return None;
            }
            let fits = |rung: &usize| self.load_on(*rung, needs_ns) <= self.thresholds.load;
            // For too much work, the work determines the rung. For all other reasons the period changes by one rung at a time.
            let to = (self.rung + 1..=high).find(fits).unwrap_or(high);
            if self.since_back < IN_VAIN_WINDOWS {
                self.calm_needed = (self.calm_needed * 2).min(CALM_WINDOWS_MAX);
            }
            self.since_back = u32::MAX;
            return self.go_to(if why == RateReason::Work { to } else { self.rung + 1 }, why);
        }
        if (IN_VAIN_WINDOWS..u32::MAX).contains(&self.since_back) {
            (self.calm_needed, self.since_back) = (CALM_WINDOWS, u32::MAX);
        }
        let has_faster = self.rung > low;
        let is_calm = has_faster && self.load_on(self.rung - 1, needs_ns) <= self.thresholds.load * BACK_BELOW;
        // A window that is neither calm nor overloaded reduces the count of calm windows, but does not reset it.
        self.calm = if is_calm { self.calm + 1 } else { self.calm.saturating_sub(2) };
        if !has_faster || self.calm < self.calm_needed {
            return None;
        }
        self.since_back = 0;
        self.go_to(self.rung - 1, RateReason::Calm)
    }

    /// How much CPU time a tick needs of its slices, and how much of a limit's quota, in nanoseconds.
    fn needs_ns(&self, readings: &Readings) -> (f64, Option<f64>) {
        let kept = (self.ticks as usize).min(TICKS_KEPT);
        let mut sorted = self.lasted_ns;
        let sorted = &mut sorted[..kept];
        sorted.sort_unstable();
        let lasted_ns = sorted[((kept as f64 * JUDGED_BY) as usize).min(kept - 1)];
        let had_ns = match self.slices {
            Some(slices) if slices.model == SliceModel::Slots => slices.had_ns(lasted_ns),
            _ => lasted_ns as f64,
        };
        (had_ns, readings.cpu_ns.map(|cpu_ns| cpu_ns as f64 / self.ticks as f64))
    }

    /// The load at this rung: how long a tick works, divided by the part of the period in which it may run.
    /// We compute it for the slices and for the limit; the larger value counts.
    fn load_on(&self, rung: usize, (had_ns, cpu_ns): (f64, Option<f64>)) -> f64 {
        let period_ns = self.ladder.period_ns(rung) as f64;
        let (slots, bucket) = match self.slices {
            Some(slices) if slices.model == SliceModel::Slots => (slices.share, None),
            Some(slices) => (1.0, Some(slices.share)),
            None => (1.0, None),
        };
        let limit = self.hardware.cpu_limit.into_iter().chain(bucket).fold(f64::INFINITY, f64::min);
        let of_slots = had_ns / (slots * period_ns);
        // A limit of one CPU or more does not restrict a single thread. Against a smaller limit, count the CPU time of the tick's thread.
        let of_limit = cpu_ns.filter(|_| limit > 0.0 && limit < 1.0).map_or(0.0, |cpu_ns| cpu_ns / (limit * period_ns));
        of_slots.max(of_limit)
    }

    fn overload(&self, load: f64, readings: &Readings) -> Option<RateReason> {
        let thresholds = &self.thresholds;
        let window_ns = readings.window_ns.max(1) as f64;
        let share = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / window_ns);
        let waited = share(readings.run_wait_ns);
        // Other threads wait because of the tick only if the tick's load is high.
        // The pressure includes the wait of the tick's own thread, so subtract that wait.
        let is_ours = load >= thresholds.load / 2.0;
        let others = |ns| is_ours && share(ns) - waited > thresholds.pressure;
        if load > thresholds.load {
            Some(RateReason::Work)
        } else if self.missed as f64 / (self.ticks + self.missed) as f64 > thresholds.missed {
            Some(RateReason::Missed)
        } else if waited > thresholds.run_wait {
            Some(RateReason::Waited)
        } else if share(readings.throttled_ns) > thresholds.run_wait {
            Some(RateReason::Throttled)
        } else if others(readings.group_pressure_ns) {
            Some(RateReason::Pressure)
        } else if others(readings.pressure_ns) {
            Some(RateReason::Starved)
        } else {
            None
        }
    }

    fn go_to(&mut self, rung: usize, why: RateReason) -> Option<RateChange> {
        let before_ns = self.period_ns();
        self.rung = rung;
        self.changed(before_ns, why)
    }

    /// Resets the counts, because counts from another period do not apply to the new one.
    fn changed(&mut self, before_ns: u64, why: RateReason) -> Option<RateChange> {
        let after_ns = self.period_ns();
        if before_ns == after_ns {
            return None;
        }
        (self.ticks, self.missed, self.overloaded, self.calm) = (0, 0, 0, 0);
        Some(RateChange { from: Duration::from_nanos(before_ns), to: Duration::from_nanos(after_ns), why })
    }
}
