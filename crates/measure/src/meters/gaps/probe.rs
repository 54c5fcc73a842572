//! `Probe`: the thread that spins on one CPU.
//! This file defines what the probe reads from the kernel after each gap, and how it finds the cause at the end of a window.
//!
//! After a gap, the probe reads the kernel's counts of itself (about 1 us).
//! Slower readings (interrupts, switch records, names) wait until the end of a window of half a second.
//! While the probe makes the slow readings, it does not watch, and it reports for how long (`blind_ns`).
//! The probe still finds a gap in that time: the counts show it, or the readings took over 1 ms longer than the shortest ones.

use evenkeel_sys::cpu_limit::{Counters, CpuLimit};
use evenkeel_sys::schedstat::{Counted, RunDelay};
use evenkeel_sys::tracepoint::Tracepoint;
use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{CpuSet, Errno, Usage, clock, sched, thread};

use super::cause::{Cause, Class, Evidence, Interrupts, Taker, classify};
use super::interrupts::{Counts, Files, Source, between};
use super::takers::{Takers, Who};
use super::tally::{Gap, GapTally, Keep, RanInstead, in_turns};
use super::traced::{InterruptTime, Traced};
use super::windows::{Sleep, Sums, WINDOW_NS, Watching, Window};
use crate::error::MeterError;
use crate::pinned::not_there;
use crate::samples::{Samples, Unit};
use crate::spin::{Missing, Spin};

/// The maximum number of gaps between two slow readings. A window with more gaps ends early.
const PENDING_MAX: usize = 1 << 14;
/// The same limit for a sampling probe, whose windows last only a tenth of a millisecond.
const PENDING_MAX_SAMPLED: usize = 256;
/// How often to repeat a reading that was itself interrupted.
const AGAIN_MAX: u32 = 8;
/// The probe does not read the control groups after a wait shorter than this.
const LIMIT_MIN_NS: u64 = 20_000;

/// Data that all probes of a run share.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The length of a counter tick.
    pub scale: Scale,
    /// The shortest gap to report, in nanoseconds.
    pub threshold_ns: u64,
    /// How the probes are scheduled.
    pub class: Class,
    /// Which gaps to list.
    pub keep: Keep,
    /// The limits that apply to this process.
    pub limits: &'a [CpuLimit],
    /// The thread that waits for the probes. It also counts as part of the meter.
    pub meter_tid: u32,
    /// Whether to read switch records and interrupts.
    pub reads: ProbeReads,
    /// The interrupt tracepoints, or the reason why the probes do not use them.
    pub points: Result<&'a [Tracepoint], &'a str>,
}

/// What a probe reads in addition to its own counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeReads {
    /// Switch records and interrupts.
    All,
    /// Neither switch records nor interrupts, which would cost a production host more than the probe itself.
    OwnCounts,
}

/// A gap whose cause is not yet known.
#[derive(Clone, Copy, Debug, Default)]
struct Raw {
    missing: Missing,
    steal_ns: u64,
    run_delay_ns: u64,
    throttled_ns: u64,
    faults: u64,
}

/// The kernel's counts of the probe.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    counted: Counted,
    faults: u64,
}

/// The thread on one CPU.
#[derive(Debug)]
pub(super) struct Probe<'a> {
    plan: &'a Plan<'a>,
    cpu: usize,
    run_delay: RunDelay,
    taken: Counters,
    throttled_ns: u64,
    last: Own,
    /// The usual duration of a reading of the counts, in ticks. A reading longer than `allowed_ticks` was interrupted.
    usual_ticks: u64,
    allowed_ticks: u64,
    pending: Vec<Raw>,
    files: Files,
    first: Option<Counts>,
    newest: Option<Counts>,
    anchor: (u64, u64),
    shortest_close_ticks: u64,
    /// The last stretch in which the thread did not run. Only a sampling probe uses this field.
    absent: Sleep,
    /// The window that the probe is sampling.
    watching: Option<Watching>,
    seen: ProbeResult,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) struct ProbeResult {
    /// The gaps.
    pub tally: GapTally,
    /// How long the probe watched, in nanoseconds, including gaps.
    pub watched_ns: u64,
    /// How long the probe did other work and did not watch, in nanoseconds.
    pub blind_ns: u64,
    /// How often the kernel moved the probe to another CPU, from which the probe went back.
    pub moved: u64,
    /// Why the probe ended early. None if it did not end early.
    pub ended: Option<String>,
    /// The switch records, or the error because of which they are missing.
    pub takers: Result<Takers, Errno>,
    /// The interrupt tracepoints, or the reason why they are missing.
    pub traced: Result<Traced, String>,
    /// Interrupts and deferred work during the run of the probe.
    pub sources: Vec<Source>,
    /// The CPU time of the thread.
    pub cpu_ns: u64,
    /// How late the probe woke from each sleep. Empty if it never slept.
    pub late: Samples,
    /// The sums over the windows. None unless the probe sampled.
    pub sums: Option<Sums>,
}

/// Memory for a window's gaps. Each page has already been used, because the first use of a page would be a page fault in a window.
fn touched(reads: ProbeReads) -> Vec<Raw> {
    let room = match reads {
        ProbeReads::All => PENDING_MAX,
        ProbeReads::OwnCounts => PENDING_MAX_SAMPLED,
    };
    let mut pending = vec![Raw::default(); room];
    // Zeroed memory may be one shared page until the first write.
    pending.iter_mut().for_each(|raw| raw.faults = 1);
    std::hint::black_box(&mut pending).clear();
    pending
}

impl<'a> Probe<'a> {
    /// The CPU on which the probe runs.
    pub(super) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Pins the calling thread to `cpu` and prepares the probe.
    ///
    /// # Errors
    /// Fails if the thread may not run on this CPU, may not be real-time, or if the kernel does not count its waiting time.
    pub(super) fn here(
        cpu: usize,
        plan: &'a Plan<'a>,
        traced: Result<Traced, String>,
    ) -> Result<Probe<'a>, MeterError> {
        let only: CpuSet = [cpu].into_iter().collect();
        thread::set_affinity(&only).map_err(|errno| not_there(format!("run on CPU {cpu}"), errno))?;
        if plan.class == Class::Fifo {
            sched::set_fifo(1).map_err(|errno| {
                let what = "make the probe real-time (a control group without a real-time share refuses it even to root: cpu.rt_runtime_us)";
                MeterError::refused(what, errno)
            })?;
        }
        let refused = |errno| MeterError::refused("read /proc/thread-self/schedstat", errno);
        let run_delay = RunDelay::of_this_thread().map_err(refused)?;
        let last = Own { counted: run_delay.read().map_err(refused)?, faults: 0 };
        let taken = Counters::open(plan.limits);
        let takers = match plan.reads {
            ProbeReads::All => Takers::on(cpu),
            ProbeReads::OwnCounts => Err(Errno::NODATA),
        };
        let traced = traced.and_then(|mut traced| match traced.is_true() {
            true => Ok(traced),
            false => Err("the kernel's interrupt tracepoints did not report a test timer".to_owned()),
        });
        let late = Samples::new("wake_late_ns", Unit::Ns, [("cpu", cpu.to_string())]);
        let mut probe = Probe {
            plan,
            cpu,
            run_delay,
            throttled_ns: taken.read().ns.unwrap_or(0),
            taken,
            last,
            usual_ticks: 0,
            allowed_ticks: u64::MAX,
            pending: touched(plan.reads),
            files: Files::of_cpu(cpu),
            first: None,
            newest: None,
            anchor: tsc::ticks_and_ns(),
            shortest_close_ticks: u64::MAX,
            absent: Sleep::default(),
            watching: None,
            seen: ProbeResult {
                tally: GapTally::new(cpu, plan.keep),
                watched_ns: 0,
                blind_ns: 0,
                moved: 0,
                ended: None,
                takers,
                traced,
                sources: Vec::new(),
                cpu_ns: 0,
                late,
                sums: None,
            },
        };
        probe.learn_own_cost();
        probe.look_at_interrupts();
        probe.first.clone_from(&probe.newest);
        probe.last = probe.own();
        Ok(probe)
    }

    /// The length of a reading without interruptions.
    fn learn_own_cost(&mut self) {
        let mut costs: Vec<u64> = (0..101)
            .map(|_| {
                let before = tsc::ticks();
                std::hint::black_box(self.own());
                tsc::ticks().saturating_sub(before)
            })
            .collect();
        costs.sort_unstable();
        self.usual_ticks = costs[costs.len() / 2];
        self.allowed_ticks = self.usual_ticks * 2 + self.plan.scale.ticks(self.plan.threshold_ns.max(1000));
    }

    fn own(&self) -> Own {
        let faults = Usage::of_this_thread().map_or(self.last.faults, |usage| usage.minor_faults + usage.major_faults);
        // This cannot fail: the file was readable when the probe began, and the file belongs to the thread itself.
        let counted = self.run_delay.read().unwrap_or(self.last.counted);
        Own { counted, faults }
    }

    /// Spins for one window, which ends at `until_ticks` or on `stop`, and then finds the causes. False if the probe must end.
    pub(super) fn window(&mut self, until_ticks: u64, stop: &dyn Fn() -> bool) -> bool {
        let begin = tsc::ticks();
        let spin = Spin { scale: self.plan.scale, threshold_ns: self.plan.threshold_ns };
        spin.until_stopped(until_ticks, stop, |missing| self.saw(missing) && !stop());
        self.seen.watched_ns += self.plan.scale.length_ns(tsc::ticks().saturating_sub(begin));
        self.close();
        self.seen.ended.is_none() && !stop()
    }

    /// Starts watching: earlier time is not a gap.
    pub(super) fn start(&mut self) {
        self.anchor = tsc::ticks_and_ns();
        self.last = self.own();
    }

    /// The last stretch in which the thread did not run. Only a sampling probe updates this value.
    pub(super) fn absent(&self) -> Sleep {
        self.absent
    }

    /// Call this after a sleep that should have ended at `due_ns`. Records how late the sleep ended, and how long the thread waited to run.
    pub(super) fn woke(&mut self, due_ns: u64) -> Sleep {
        let woke_ns = clock::monotonic_ns();
        let own = self.own();
        let late_ns = woke_ns.saturating_sub(due_ns);
        let run_delay_ns = own.counted.run_delay_ns.saturating_sub(self.last.counted.run_delay_ns);
        // Some kernels do not count throttling by a limit as waiting, so add it here.
        let throttled_ns = if late_ns > LIMIT_MIN_NS { self.newly_throttled_ns() } else { 0 };
        let waited_ns = run_delay_ns.max(throttled_ns.min(late_ns));
        self.absent = Sleep { due_ns, woke_ns, waited_ns, throttled_ns };
        self.seen.late.record(late_ns);
        self.is_still_here();
        self.start();
        self.absent
    }

    /// Watches the rest of a window, and adds the part of the window that the last sleep covered. None if the probe must end.
    pub(super) fn watch_window(&mut self, window: Window, stop: &dyn Fn() -> bool) -> Option<Watching> {
        self.watching = Some(Watching::new(window, &self.absent));
        let (absent, [not_ready, waited]) = (self.absent, self.absent.stretches());
        self.judge_absence(not_ready, Raw::default());
        let run_delay_ns = waited.1 - waited.0;
        self.judge_absence(waited, Raw { run_delay_ns, throttled_ns: absent.throttled_ns, ..Raw::default() });
        let left_ns = window.to_ns.saturating_sub(clock::monotonic_ns());
        let goes_on = left_ns == 0 || self.window(tsc::ticks() + self.plan.scale.ticks(left_ns), stop);
        self.watching.take().filter(|_| goes_on)
    }

    /// Finds the cause of a stretch of the last absence, from the kernel's counts.
    fn judge_absence(&mut self, (from_ns, until_ns): (u64, u64), raw: Raw) {
        let is_within = self.watching.is_some_and(|watching| watching.window.holds_ns(from_ns, until_ns) > 0);
        if is_within {
            self.judge_stretch(&raw, from_ns, until_ns - from_ns, Interrupts::NotLooked);
        }
    }

    /// Records a gap. False if the window must end.
    fn saw(&mut self, missing: Missing) -> bool {
        let (mut end_ticks, mut own) = (missing.end_ticks, self.last);
        // An interrupted reading belongs to the gap before it. Otherwise the counts would be split between two gaps.
        for _ in 0..AGAIN_MAX {
            let before = tsc::ticks();
            own = self.own();
            let after = tsc::ticks();
            if after.saturating_sub(before) <= self.allowed_ticks {
                break;
            }
            end_ticks = after.saturating_sub(self.usual_ticks).max(end_ticks);
        }
        let raw = self.raw(Missing { start_ticks: missing.start_ticks, end_ticks }, &own);
        self.last = own;
        self.pending.push(raw);
        if let Ok(takers) = &mut self.seen.takers {
            takers.look_if_pressed();
        }
        let is_full = match &mut self.seen.traced {
            Ok(traced) => traced.look_if_pressed(),
            Err(_) => false,
        };
        (raw.run_delay_ns == 0 || self.is_still_here()) && self.pending.len() < self.pending.capacity() && !is_full
    }

    /// The counts of a gap, from the last reading to `own`.
    fn raw(&mut self, missing: Missing, own: &Own) -> Raw {
        let (before, after) = (self.last.counted, own.counted);
        let wall_ns = after.wall_ns.saturating_sub(before.wall_ns);
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
        let run_delay_ns = after.run_delay_ns.saturating_sub(before.run_delay_ns);
        let throttled_ns = if run_delay_ns > LIMIT_MIN_NS { self.newly_throttled_ns() } else { 0 };
        Raw {
            missing,
            steal_ns: wall_ns.saturating_sub(cpu_ns).saturating_sub(run_delay_ns),
            run_delay_ns,
            throttled_ns,
            faults: own.faults.saturating_sub(self.last.faults),
        }
    }

    /// The throttling that the limits report since the last call.
    fn newly_throttled_ns(&mut self) -> u64 {
        if self.taken.is_empty() {
            return 0;
        }
        let now_ns = self.taken.read().ns.unwrap_or(0);
        now_ns.saturating_sub(std::mem::replace(&mut self.throttled_ns, now_ns))
    }

    /// Whether the thread is on its CPU. If the kernel has moved the thread, the thread tries once to go back.
    fn is_still_here(&mut self) -> bool {
        if thread::current_cpu() == self.cpu {
            return true;
        }
        self.seen.moved += 1;
        let only: CpuSet = [self.cpu].into_iter().collect();
        if thread::set_affinity(&only).is_err() {
            let why = "it was taken offline, or out of the CPUs that this process may use";
            self.seen.ended = Some(format!("CPU {} went away while it was measured: {why}", self.cpu));
        }
        // On another CPU the probe cannot measure its own CPU, so the probe ends.
        self.seen.ended.is_none()
    }

    fn look_at_interrupts(&mut self) {
        if self.plan.reads == ProbeReads::All {
            self.newest = self.files.read();
        }
    }

    /// Ends a window: makes the slow readings and finds the causes of its gaps.
    fn close(&mut self) {
        let begin = tsc::ticks();
        if let Ok(takers) = &mut self.seen.takers {
            takers.look();
        }
        if let Ok(traced) = &mut self.seen.traced {
            traced.look();
        }
        let before = self.newest.take();
        self.look_at_interrupts();
        let interrupts = match (&before, &self.newest) {
            (Some(before), Some(after)) => {
                Interrupts::Counted(between(before, after).iter().map(|source| source.count).sum())
            }
            _ => Interrupts::NotLooked,
        };
        // Read both clocks at both ends of the window. This gives the times of gaps to a microsecond even if the counter's rate drifts.
        let end = tsc::ticks_and_ns();
        let scale = if end.0 > self.anchor.0 { Scale::between(self.anchor, end) } else { self.plan.scale };
        let mut pending = std::mem::take(&mut self.pending);
        for raw in pending.drain(..) {
            self.judge(&raw, &scale, interrupts);
        }
        // Reuse the memory, because new pages would fault during the next window.
        self.pending = pending;
        self.account_for_closing(begin, &scale, interrupts);
        self.anchor = end;
        if let Ok(takers) = &mut self.seen.takers {
            takers.forget();
        }
        if let Ok(traced) = &mut self.seen.traced {
            traced.forget();
        }
    }

    /// Accounts for a gap that began while the window was closing. The counts show such a gap, or closing took longer than usual.
    fn account_for_closing(&mut self, begin: u64, scale: &Scale, interrupts: Interrupts) {
        let own = self.own();
        let end = tsc::ticks();
        let took_ticks = end.saturating_sub(begin);
        self.shortest_close_ticks = self.shortest_close_ticks.min(took_ticks).max(1);
        let excess_ns = scale.length_ns(took_ticks - self.shortest_close_ticks);
        let mut raw = self.raw(Missing { start_ticks: begin, end_ticks: end }, &own);
        self.last = own;
        let known_ns = raw.steal_ns + raw.run_delay_ns;
        let missed_ns = if known_ns >= self.plan.threshold_ns.max(2000) { known_ns } else { excess_ns };
        let mut blind_ns = scale.length_ns(took_ticks);
        if known_ns >= self.plan.threshold_ns.max(2000) || excess_ns > 1_000_000 {
            raw.missing.end_ticks = begin + scale.ticks(missed_ns);
            if let Ok(takers) = &mut self.seen.takers {
                takers.look();
                let start_ns = takers.first_other(scale.ns_at(begin), scale.ns_at(end));
                let shift = start_ns.map_or(0, |ns| scale.ticks_at(ns).saturating_sub(begin));
                raw.missing.start_ticks += shift;
                raw.missing.end_ticks += shift;
            }
            self.judge(&raw, scale, interrupts);
            self.seen.watched_ns += missed_ns;
            blind_ns = blind_ns.saturating_sub(missed_ns);
            self.is_still_here();
        }
        self.seen.blind_ns += blind_ns;
    }

    fn judge(&mut self, raw: &Raw, scale: &Scale, interrupts: Interrupts) {
        let start_ns = scale.ns_at(raw.missing.start_ticks);
        let length_ns = scale.length_ns(raw.missing.ticks());
        if self.watching.is_some() {
            let (waited_ns, throttled_ns) = (raw.run_delay_ns, raw.throttled_ns);
            self.absent = Sleep { due_ns: start_ns, woke_ns: start_ns + length_ns, waited_ns, throttled_ns };
        }
        self.judge_stretch(raw, start_ns, length_ns, interrupts);
    }

    fn judge_stretch(&mut self, raw: &Raw, start_ns: u64, length_ns: u64, interrupts: Interrupts) {
        let (mut taker, mut by) = (Taker::Unknown, None);
        if let Ok(takers) = &mut self.seen.takers
            && raw.run_delay_ns > 0
        {
            (taker, by) = takers.during(start_ns, start_ns + length_ns);
        }
        let time = self.seen.traced.as_ref().ok().and_then(|traced| traced.between(start_ns, start_ns + length_ns));
        let traced = time.map(|InterruptTime { hard_ns, soft_ns, .. }| Interrupts::Traced { hard_ns, soft_ns });
        let evidence = Evidence {
            length_ns,
            steal_ns: raw.steal_ns,
            run_delay_ns: raw.run_delay_ns,
            throttled_ns: raw.throttled_ns,
            taker,
            class: self.plan.class,
            faults: raw.faults,
            interrupts: traced.unwrap_or(interrupts),
        };
        let cause = classify(&evidence);
        let is_interrupt = matches!(cause, Cause::Interrupt | Cause::Softirq);
        let source = time.and_then(|time| time.most).filter(|_| is_interrupt);
        let gap = Gap {
            start_ns,
            length_ns,
            around_ns: 0,
            cause,
            by: by.map(|who| self.named(who)),
            source: source.map(|source| source.name(self.newest.as_ref())),
            run_delay_ns: raw.run_delay_ns.min(length_ns),
            steal_ns: raw.steal_ns.min(length_ns),
        };
        match &mut self.watching {
            // A sampling probe reads no switch records, so the gap is not divided.
            Some(watching) => {
                let within_ns = watching.add(gap.start_ns, gap.length_ns, gap.cause);
                if within_ns > 0 {
                    self.seen.tally.add_part(gap, within_ns);
                }
            }
            None => {
                let gaps = self.without_edges(gap);
                self.seen.tally.add_stretch(gaps);
            }
        }
    }

    /// Reduces a gap to the turns of other threads.
    /// The interrupt that let a thread in, and the switches, are missing time too. But they belong to no turn.
    /// If several threads ran one after another, the result has one gap for each thread.
    fn without_edges(&mut self, whole: Gap) -> Vec<Gap> {
        let Ok(takers) = &mut self.seen.takers else { return vec![whole] };
        let (start_ns, end_ns) = (whole.start_ns, whole.start_ns + whole.length_ns);
        let turns = match whole.cause {
            Cause::Preemption => {
                let named = takers.apart(start_ns, end_ns);
                named
                    .into_iter()
                    .map(|(turn, who)| (turn.from_ns, turn.until_ns, who.map(|who| self.named(who))))
                    .collect()
            }
            Cause::Throttle | Cause::OwnRealTimeThrottle => {
                let away = takers.away(start_ns, end_ns);
                away.map(|(from_ns, until_ns)| (from_ns, until_ns, whole.by.clone())).into_iter().collect()
            }
            _ => Vec::new(),
        };
        in_turns(whole, turns)
    }

    fn named(&self, Who { tid, name }: Who) -> RanInstead {
        if tid == self.plan.meter_tid { RanInstead::Itself } else { RanInstead::Thread { name, tid } }
    }

    /// The result of a probe that sampled.
    pub(super) fn finish_sampled(mut self, sums: Sums) -> ProbeResult {
        self.seen.watched_ns = sums.windows() * WINDOW_NS;
        self.seen.sums = Some(sums);
        self.finish()
    }

    /// The result of the probe.
    pub(super) fn finish(mut self) -> ProbeResult {
        if let (Some(first), Some(newest)) = (&self.first, &self.newest) {
            self.seen.sources = between(first, newest);
        }
        self.seen.cpu_ns = clock::thread_cpu_ns();
        self.seen
    }
}
