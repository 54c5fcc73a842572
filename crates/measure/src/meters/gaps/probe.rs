//! `Probe`: the thread that spins on one CPU, what it asks the kernel after each gap, and how it comes to a cause at the end of a window.
//!
//! After a gap it reads what the kernel counts of itself (about 1 us). What takes longer (interrupts, switch records, names) waits until
//! the end of a window of half a second. While it reads it does not watch; that time is told, and a gap in it is found by the counts.

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

/// Gaps between two looks at what takes longer; a window that has more ends sooner.
const PENDING_MAX: usize = 1 << 14;
/// How often counts that were themselves interrupted are read again.
const AGAIN_MAX: u32 = 8;
/// A wait below this is not worth asking the control groups about.
const LIMIT_MIN_NS: u64 = 20_000;

/// What all probes of a run have in common.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// What a tick lasts.
    pub scale: Scale,
    /// The shortest gap.
    pub threshold_ns: u64,
    /// How the probes are scheduled.
    pub class: Class,
    /// Which gaps are listed.
    pub keep: Keep,
    /// The limits that hold for this process.
    pub limits: &'a [CpuLimit],
    /// The thread that waits for the probes: it is the meter itself too.
    pub meter_tid: u32,
    /// Whether switch records and interrupts are looked at.
    pub looks: Looks,
    /// The tracepoints of interrupts, or why none are looked at.
    pub points: Result<&'a [Tracepoint], &'a str>,
}

/// How much a probe asks for beside its own counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// Who was switched to, and which interrupts came.
    All,
    /// Neither: it would cost a production host more than the probe itself.
    OwnCounts,
}

/// A gap whose cause is not known yet.
#[derive(Clone, Copy, Debug, Default)]
struct Raw {
    missing: Missing,
    steal_ns: u64,
    run_delay_ns: u64,
    throttled_ns: u64,
    faults: u64,
}

/// What the kernel counts of the probe.
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
    /// What one reading of the counts takes, in ticks, and from when on it was interrupted.
    usual_ticks: u64,
    allowed_ticks: u64,
    pending: Vec<Raw>,
    files: Files,
    first: Option<Counts>,
    newest: Option<Counts>,
    anchor: (u64, u64),
    shortest_close_ticks: u64,
    /// The last stretch in which it did not run, where it samples.
    absent: Sleep,
    /// The window that it is sampling.
    watching: Option<Watching>,
    seen: ProbeResult,
}

/// What a probe saw.
#[derive(Debug)]
pub(super) struct ProbeResult {
    /// The gaps.
    pub tally: GapTally,
    /// How long it watched, in nanoseconds, gaps included.
    pub watched_ns: u64,
    /// How long it was at other work meanwhile.
    pub blind_ns: u64,
    /// How often it found itself on another CPU, and went back.
    pub moved: u64,
    /// Why it ended before its time; none if it did not.
    pub ended: Option<String>,
    /// The switch records, or why there are none.
    pub takers: Result<Takers, Errno>,
    /// The tracepoints of interrupts, or why there are none.
    pub traced: Result<Traced, String>,
    /// Interrupts and deferred work while it ran.
    pub sources: Vec<Source>,
    /// What the thread used of the CPU.
    pub cpu_ns: u64,
    /// How late it woke from each of its sleeps, where it slept.
    pub late: Samples,
    /// What the windows add up to, where it sampled.
    pub sums: Option<Sums>,
}

/// Room for a window's gaps, each page of it used once: a page that is used for the first time in a window would be a fault in it.
fn touched() -> Vec<Raw> {
    let mut pending = vec![Raw::default(); PENDING_MAX];
    // Zeroed memory may be one page that stands for all until it is written.
    pending.iter_mut().for_each(|raw| raw.faults = 1);
    std::hint::black_box(&mut pending).clear();
    pending
}

impl<'a> Probe<'a> {
    /// The CPU that it is on.
    pub(super) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Binds the calling thread to `cpu`, and gets all ready.
    ///
    /// # Errors
    /// If the thread may not run there, may not be real-time, or the kernel does not count what it waits.
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
        let taken = Counters::of(plan.limits);
        let takers = match plan.looks {
            Looks::All => Takers::on(cpu),
            Looks::OwnCounts => Err(Errno::NODATA),
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
            pending: touched(),
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

    /// How long a reading takes when nothing comes between.
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
        // It was readable when the probe began, and is a file of the thread itself.
        let counted = self.run_delay.read().unwrap_or(self.last.counted);
        Own { counted, faults }
    }

    /// Spins for one window, which ends at `until_ticks` or when `stop` says so, and comes to the causes. False once it is to end.
    pub(super) fn window(&mut self, until_ticks: u64, stop: &dyn Fn() -> bool) -> bool {
        let begin = tsc::ticks();
        let spin = Spin { scale: self.plan.scale, threshold_ns: self.plan.threshold_ns };
        spin.until_stopped(until_ticks, stop, |missing| self.saw(missing) && !stop());
        self.seen.watched_ns += self.plan.scale.length_ns(tsc::ticks().saturating_sub(begin));
        self.close();
        self.seen.ended.is_none() && !stop()
    }

    /// Begins to watch: what was before is no gap.
    pub(super) fn start(&mut self) {
        self.anchor = tsc::ticks_and_ns();
        self.last = self.own();
    }

    /// The last stretch in which the thread did not run, where it samples.
    pub(super) fn absent(&self) -> Sleep {
        self.absent
    }

    /// After a sleep that was to end at `due_ns`: takes in how late it ended, and what the thread waited for.
    pub(super) fn woke(&mut self, due_ns: u64) -> Sleep {
        let woke_ns = clock::monotonic_ns();
        let own = self.own();
        let late_ns = woke_ns.saturating_sub(due_ns);
        let run_delay_ns = own.counted.run_delay_ns.saturating_sub(self.last.counted.run_delay_ns);
        // Some kernels do not count as waiting what a limit takes.
        let throttled_ns = if late_ns > LIMIT_MIN_NS { self.newly_throttled_ns() } else { 0 };
        let waited_ns = run_delay_ns.max(throttled_ns.min(late_ns));
        self.absent = Sleep { due_ns, woke_ns, waited_ns, throttled_ns };
        self.seen.late.record(late_ns);
        self.is_still_here();
        self.start();
        self.absent
    }

    /// Watches what is left of a window, and adds what the last sleep took of it. None once it is to end.
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

    /// A stretch of the last absence, with what the kernel counted in it.
    fn judge_absence(&mut self, (from_ns, until_ns): (u64, u64), raw: Raw) {
        let is_within = self.watching.is_some_and(|watching| watching.window.holds_ns(from_ns, until_ns) > 0);
        if is_within {
            self.judge_stretch(&raw, from_ns, until_ns - from_ns, Interrupts::NotLooked);
        }
    }

    /// Takes in a gap. False when the window is to end.
    fn saw(&mut self, missing: Missing) -> bool {
        let (mut end_ticks, mut own) = (missing.end_ticks, self.last);
        // A reading that is itself interrupted belongs to the gap before it, or the counts would be torn between the two.
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
        (raw.run_delay_ns == 0 || self.is_still_here()) && self.pending.len() < PENDING_MAX && !is_full
    }

    /// What the counts say of a gap between the last reading and `own`.
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

    /// What the limits say that they held back since this was last asked.
    fn newly_throttled_ns(&mut self) -> u64 {
        if self.taken.is_empty() {
            return 0;
        }
        let now_ns = self.taken.read().ns.unwrap_or(0);
        now_ns.saturating_sub(std::mem::replace(&mut self.throttled_ns, now_ns))
    }

    /// Whether the thread is on its CPU; if the kernel has moved it, it tries to go back once.
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
        // Time on another CPU says nothing of this one.
        self.seen.ended.is_none()
    }

    fn look_at_interrupts(&mut self) {
        if self.plan.looks == Looks::All {
            self.newest = self.files.read();
        }
    }

    /// Ends a window: comes to the causes of its gaps, with all that takes longer to read.
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
        // Both clocks were read at both ends of the window, so its gaps lie right to a microsecond however the rate drifts.
        let end = tsc::ticks_and_ns();
        let scale = if end.0 > self.anchor.0 { Scale::between(self.anchor, end) } else { self.plan.scale };
        let mut pending = std::mem::take(&mut self.pending);
        for raw in pending.drain(..) {
            self.judge(&raw, &scale, interrupts);
        }
        // The same memory again: new pages would fault in the middle of the next window.
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

    /// What was missed while the window was closed: found by the counts, or by its taking far longer than it ever did.
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
            (taker, by) = takers.of(start_ns, start_ns + length_ns);
        }
        let told = self.seen.traced.as_ref().ok().and_then(|traced| traced.between(start_ns, start_ns + length_ns));
        let traced = told.map(|InterruptTime { hard_ns, soft_ns, .. }| Interrupts::Traced { hard_ns, soft_ns });
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
        let source = told.and_then(|told| told.most).filter(|_| is_interrupt);
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
            // Sampling reads no switch records: a gap is whole.
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

    /// The interrupt that let another thread in, and the switches, were missing too, and are nobody's turn: as far as switch records tell,
    /// a gap is the other's turn alone, and where several had theirs right after one another, one for each.
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

    /// What it saw in its samples.
    pub(super) fn finish_sampled(mut self, sums: Sums) -> ProbeResult {
        self.seen.watched_ns = sums.windows() * WINDOW_NS;
        self.seen.sums = Some(sums);
        self.finish()
    }

    /// What it saw.
    pub(super) fn finish(mut self) -> ProbeResult {
        if let (Some(first), Some(newest)) = (&self.first, &self.newest) {
            self.seen.sources = between(first, newest);
        }
        self.seen.cpu_ns = clock::thread_cpu_ns();
        self.seen
    }
}
