//! Derives the cause of late ticks from the evidence, as a pure function.

use super::usual::UsualTimes;
use crate::sample::Cause;

/// The minimum share of the lateness that a cause must explain. It is below 1 because counters and buckets are not exact.
pub(super) const EXPLAINS: f64 = 0.8;

/// If the server's own work is the cause, other causes may explain at most this share of the time beyond the period.
pub(super) const OTHERS_MAX: f64 = 0.25;
/// Counters of CPU time change in steps of 10 ms, so the difference between two samples may be too small by up to this much.
const COUNTER_STEPS_NS: u64 = 30_000_000;

/// Whether the counters of a CPU account for nearly all of its time, relative to an overrun of this length.
/// If the hypervisor takes a CPU without reporting steal, no counter includes that time, and the thread seems to work.
pub(super) fn is_counted(uncounted_ns: Option<u64>, excess_ns: u64) -> bool {
    uncounted_ns.is_some_and(|ns| ns as f64 <= (excess_ns as f64 * OTHERS_MAX).max(COUNTER_STEPS_NS as f64))
}

/// The late ticks between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateCount {
    /// The number of ticks that certainly began later than the bound.
    pub late: u64,
    /// The number of missed ticks.
    pub missed: u64,
    /// The time that a cause must explain, in nanoseconds: the sum of the lateness of late ticks, or the periods of missed ticks.
    /// This is a lower bound.
    pub lateness_ns: u64,
    /// A tick is late if it begins this much after its due time, in nanoseconds.
    pub bound_ns: u64,
}

/// The evidence between two samples. `None` means unknown, and is never treated as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The late ticks.
    pub ticks: LateCount,
    /// How long the tick's thread was ready but did not run. It includes short waits that made no tick late.
    pub run_delay_ns: Option<u64>,
    /// The part of that time in single waits that made a tick late.
    pub late_delay_ns: Option<u64>,
    /// How long limits stopped the server's control group, summed over CPUs.
    pub throttled_ns: Option<u64>,
    /// The number of the limit's periods in which it stopped the group.
    pub throttles: Option<u64>,
    /// The time that the hypervisor took from the CPU of the tick's thread, as far as it reports it.
    pub steal_ns: Option<u64>,
    /// The time of interrupts and softirqs on the CPU of the tick's thread.
    pub interrupts_ns: Option<u64>,
    /// The part of interrupts, steal and stalls that there always is. Short ones all the time make no tick late.
    pub usual: UsualTimes,
    /// How long the whole machine was paused. Only the gap meter detects pauses; without it, a pause leaves no evidence.
    pub paused_ns: Option<u64>,
    /// How long ticks waited for locks. A server that does not report lock waits counts as a server without lock waits.
    pub lock_ns: Option<u64>,
    /// The part of that time in ticks that waited for at least an eighth of the period. Only such waits explain a late tick.
    pub long_lock_ns: Option<u64>,
    /// The number of major page faults of the tick's thread.
    pub major_faults: Option<u64>,
    /// How long threads of the host waited for disks or memory.
    pub stalled_ns: Option<u64>,
    /// The number of ticks whose work certainly took longer than the period and the bound together.
    pub overruns: u64,
    /// The total time by which the work of the overruns exceeded the period, as a lower bound.
    pub excess_ns: u64,
    /// The total time of work of all ticks.
    pub work_ns: u64,
    /// The mean time of work of a tick.
    pub mean_work_ns: u64,
    /// The CPU time of the tick's thread.
    pub cpu_ns: Option<u64>,
    /// The time of the thread's CPU that none of the CPU's counters includes.
    pub uncounted_ns: Option<u64>,
}

/// The cause of the late ticks, and the evidence as text.
pub fn decide(evidence: &Evidence) -> (Cause, String) {
    let bound_ns = evidence.ticks.bound_ns.max(1);
    let needed_ns = (evidence.ticks.lateness_ns as f64 * EXPLAINS) as u64;
    let enough = |time: Option<u64>| time.is_some_and(|ns| ns >= needed_ns.max(bound_ns));
    // Whether a time is too short to make a single tick late.
    let short = |time: Option<u64>| time.is_some_and(|ns| ns < bound_ns);
    let ms = |time: Option<u64>| {
        time.map_or_else(|| "an unknown time".to_owned(), |ns| format!("{:.1} ms", ns as f64 / 1e6))
    };
    let Evidence { run_delay_ns, late_delay_ns, throttled_ns, steal_ns, interrupts_ns, major_faults, .. } = *evidence;
    let beyond = |time: Option<u64>, usual_ns: u64| time.map(|ns| ns.saturating_sub(usual_ns));
    let unusual_steal_ns = beyond(steal_ns, evidence.usual.steal_ns);
    let unusual_stalls_ns = beyond(evidence.stalled_ns, evidence.usual.stalled_ns);
    let is_limit = enough(throttled_ns) && is_long_limit(evidence, short(run_delay_ns), enough(late_delay_ns));
    // If the server's own work is too long, any disturbance adds to it. Then neither is the only cause.
    let may_be_own = is_own_work(evidence);
    let is_undisturbed = short(run_delay_ns) && short(throttled_ns) && short(steal_ns);
    let lock_ns = lock_alone_ns(evidence);
    let has_no_lock = lock_ns < bound_ns;
    let paused_ns = evidence.paused_ns.unwrap_or(0);
    if paused_ns >= bound_ns {
        // While the machine was paused, no counter changed. So no other cause can be named.
        return match enough(Some(paused_ns)) && is_undisturbed && has_no_lock {
            true => (Cause::VmPaused, format!("the whole machine was paused for {}", ms(Some(paused_ns)))),
            false => (Cause::Unknown, format!("{}, paused {}", open_words(evidence), ms(Some(paused_ns)))),
        };
    }
    if is_lock(evidence) {
        return (Cause::Lock, format!("ticks waited {} for locks", ms(Some(lock_ns))));
    }
    if is_limit && short(steal_ns) && !may_be_own && has_no_lock {
        return (Cause::Throttled, format!("limits stopped its control group for {}", ms(throttled_ns)));
    }
    if enough(late_delay_ns) && short(throttled_ns) && short(steal_ns) && !may_be_own && has_no_lock {
        return (Cause::Preempted, format!("the tick's thread was ready but did not run for {}", ms(late_delay_ns)));
    }
    if enough(unusual_steal_ns) && short(run_delay_ns) && short(throttled_ns) && !may_be_own && has_no_lock {
        return (Cause::Stolen, format!("the hypervisor took {} of the tick's CPU", ms(steal_ns)));
    }
    if is_undisturbed
        && has_no_lock
        && major_faults.is_some_and(|faults| faults > 0)
        && enough(unusual_stalls_ns)
        && evidence.overruns == 0
    {
        let faults = major_faults.unwrap_or(0);
        return (
            Cause::PageFault,
            format!("{faults} major page faults of the tick's thread, {} of stalls", ms(evidence.stalled_ns)),
        );
    }
    let has_no_fault = major_faults == Some(0);
    if has_no_fault && may_be_own && is_mostly_own(evidence) {
        let longer = evidence.overruns;
        return (Cause::OwnWork, format!("{longer} ticks worked longer than the period, and used the CPU for it"));
    }
    let unusual_ns = beyond(interrupts_ns, evidence.usual.interrupts_ns);
    if is_undisturbed && has_no_lock && has_no_fault && enough(unusual_ns) && evidence.overruns == 0 {
        return (Cause::Interrupt, format!("interrupts and softirqs had the tick's CPU for {}", ms(interrupts_ns)));
    }
    (Cause::Unknown, open_words(evidence))
}

/// Whether a limit stopped the thread for long enough at a time. While a limit stops a thread, most kernels also count it as ready. Then one
/// of these waits made a tick late. Other kernels do not count it, so the mean time of a stop decides.
fn is_long_limit(evidence: &Evidence, has_short_delay: bool, has_late_delay: bool) -> bool {
    let Some(((delay, throttled), stops)) = evidence.run_delay_ns.zip(evidence.throttled_ns).zip(evidence.throttles)
    else {
        return false;
    };
    let is_mostly_limit = throttled as f64 >= delay as f64 * EXPLAINS;
    let is_long = throttled / stops.max(1) >= evidence.ticks.bound_ns;
    is_mostly_limit && is_long && (has_short_delay || has_late_delay)
}

/// How long ticks waited for locks, without the time in which the lock was free but the thread had no CPU.
fn lock_alone_ns(evidence: &Evidence) -> u64 {
    evidence.lock_ns.unwrap_or(0).saturating_sub(evidence.run_delay_ns.unwrap_or(0))
}

/// Whether locks explain nearly all of the time that ticks took beyond the period, and other causes explain only a small part.
/// Only the excess counts, because a wait in a tick that ended in time delayed nothing.
/// Interrupts are not compared, because the thread slept during the wait.
fn is_lock(evidence: &Evidence) -> bool {
    let lock_ns = evidence.long_lock_ns.unwrap_or(0).saturating_sub(evidence.run_delay_ns.unwrap_or(0));
    let others = [evidence.run_delay_ns, evidence.throttled_ns, evidence.steal_ns];
    let others_ns = others.into_iter().try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    evidence.overruns > 0
        && others_ns.is_some_and(|ns| ns as f64 <= evidence.excess_ns as f64 * OTHERS_MAX)
        && lock_ns >= evidence.ticks.bound_ns.max(1)
        && lock_ns as f64 >= evidence.excess_ns as f64 * EXPLAINS
}

/// Whether ticks took too long and used a CPU for nearly all of that time.
/// Time in which the thread slept, for example for a lock, is not its own work.
fn is_own_work(evidence: &Evidence) -> bool {
    let used = evidence.cpu_ns.map_or(0.0, |ns| ns as f64);
    evidence.overruns > 0 && evidence.work_ns > 0 && used >= evidence.work_ns as f64 * EXPLAINS
}

/// Whether all other causes together explain only a small part of the overrun. A small part is allowed, because a thread that hardly sleeps
/// always waits a little for a CPU. Time of work in which the thread had no CPU is such a cause: the CPU time of the other ticks must not
/// hide one long tick that slept.
fn is_mostly_own(evidence: &Evidence) -> bool {
    // A sample may be taken in the middle of a tick.
    let counted_ns = evidence.cpu_ns.unwrap_or(0).saturating_add(evidence.mean_work_ns);
    let off_cpu_ns = evidence.work_ns.saturating_sub(counted_ns);
    let lock_ns = Some(evidence.lock_ns.unwrap_or(0));
    let times = [evidence.run_delay_ns, evidence.throttled_ns, evidence.steal_ns, evidence.interrupts_ns, lock_ns];
    let others_ns = times.into_iter().try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    off_cpu_ns as f64 <= evidence.excess_ns as f64 * OTHERS_MAX
        && is_counted(evidence.uncounted_ns, evidence.excess_ns)
        && others_ns.is_some_and(|ns| ns as f64 <= evidence.excess_ns as f64 * OTHERS_MAX)
}

/// The counts as text, for ticks without a single cause.
fn open_words(evidence: &Evidence) -> String {
    let times = [
        ("run-queue delay", evidence.run_delay_ns),
        ("throttled", evidence.throttled_ns),
        ("steal", evidence.steal_ns),
        ("interrupts", evidence.interrupts_ns),
        ("time that no counter has", evidence.uncounted_ns),
    ];
    let seen = times.map(|(name, time)| match time {
        Some(ns) => format!("{name} {:.1} ms", ns as f64 / 1e6),
        None => format!("{name} unknown"),
    });
    let overruns = match evidence.overruns {
        0 => String::new(),
        count => format!(", {count} ticks worked longer than the period"),
    };
    let locks = match evidence.lock_ns {
        Some(ns) if ns > 0 => format!(", waits for locks {:.1} ms", ns as f64 / 1e6),
        _ => String::new(),
    };
    let in_late = match (evidence.run_delay_ns, evidence.late_delay_ns) {
        (Some(all_ns), Some(ns)) if all_ns > 0 => format!(" ({:.1} ms of it made ticks late)", ns as f64 / 1e6),
        _ => String::new(),
    };
    let [delay, others @ ..] = seen;
    format!("no single cause explains it: {delay}{in_late}, {}{locks}{overruns}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    type Plant = fn(&mut Evidence);

    /// Evidence of five ticks, at 50 ticks a second, that were each 10 ms late, without any cause.
    fn quiet() -> Evidence {
        Evidence {
            ticks: LateCount { late: 5, missed: 0, lateness_ns: 50 * MS, bound_ns: 5 * MS },
            run_delay_ns: Some(MS),
            late_delay_ns: Some(0),
            throttled_ns: Some(0),
            throttles: Some(1),
            steal_ns: Some(0),
            interrupts_ns: Some(0),
            usual: UsualTimes::default(),
            paused_ns: None,
            lock_ns: Some(0),
            long_lock_ns: Some(0),
            major_faults: Some(0),
            stalled_ns: Some(0),
            overruns: 0,
            excess_ns: 40 * MS,
            work_ns: 100 * MS,
            mean_work_ns: 2 * MS,
            cpu_ns: Some(100 * MS),
            uncounted_ns: Some(10 * MS),
        }
    }

    #[test]
    fn a_planted_cause_is_found_and_two_are_unknown() {
        let table: [(&str, Plant, Cause); 42] = [
            ("nothing seen", |_| {}, Cause::Unknown),
            ("preempted", |of| of.run_delay_ns = Some(60 * MS), Cause::Preempted),
            ("not long enough", |of| of.run_delay_ns = Some(20 * MS), Cause::Unknown),
            ("preempted, steal unknown", |of| (of.run_delay_ns, of.steal_ns) = (Some(60 * MS), None), Cause::Unknown),
            ("stolen", |of| of.steal_ns = Some(60 * MS), Cause::Stolen),
            ("stolen, delay unknown", |of| (of.steal_ns, of.run_delay_ns) = (Some(60 * MS), None), Cause::Unknown),
            ("both", |of| (of.steal_ns, of.run_delay_ns) = (Some(60 * MS), Some(60 * MS)), Cause::Unknown),
            ("throttled", |of| of.throttled_ns = Some(60 * MS), Cause::Throttled),
            (
                "throttled counts as ready",
                |of| (of.throttled_ns, of.run_delay_ns) = (Some(60 * MS), Some(62 * MS)),
                Cause::Throttled,
            ),
            (
                "throttled and preempted",
                |of| (of.throttled_ns, of.run_delay_ns) = (Some(60 * MS), Some(120 * MS)),
                Cause::Unknown,
            ),
            ("fault", |of| (of.major_faults, of.stalled_ns) = (Some(5), Some(60 * MS)), Cause::PageFault),
            ("short fault", |of| (of.major_faults, of.stalled_ns) = (Some(5), Some(MS)), Cause::Unknown),
            ("stalls of others", |of| of.stalled_ns = Some(60 * MS), Cause::Unknown),
            ("interrupts", |of| of.interrupts_ns = Some(60 * MS), Cause::Interrupt),
            (
                "interrupts as always",
                |of| (of.interrupts_ns, of.usual.interrupts_ns) = (Some(60 * MS), 50 * MS),
                Cause::Unknown,
            ),
            (
                "more interrupts than always",
                |of| (of.interrupts_ns, of.usual.interrupts_ns) = (Some(90 * MS), 50 * MS),
                Cause::Interrupt,
            ),
            (
                "mostly throttled",
                |of| (of.throttled_ns, of.run_delay_ns) = (Some(60 * MS), Some(70 * MS)),
                Cause::Throttled,
            ),
            ("preempted and own work", |of| (of.run_delay_ns, of.overruns) = (Some(60 * MS), 5), Cause::Unknown),
            ("own work", |of| of.overruns = 5, Cause::OwnWork),
            ("paused", |of| of.paused_ns = Some(60 * MS), Cause::VmPaused),
            ("paused for too short", |of| of.paused_ns = Some(20 * MS), Cause::Unknown),
            ("paused a little", |of| (of.paused_ns, of.steal_ns) = (Some(MS), Some(60 * MS)), Cause::Stolen),
            (
                "paused and preempted",
                |of| (of.paused_ns, of.run_delay_ns) = (Some(60 * MS), Some(60 * MS)),
                Cause::Unknown,
            ),
            ("own work, a little preempted", |of| (of.overruns, of.run_delay_ns) = (5, Some(9 * MS)), Cause::OwnWork),
            ("own work, preempted", |of| (of.overruns, of.run_delay_ns) = (5, Some(12 * MS)), Cause::Unknown),
            ("work that sleeps", |of| (of.overruns, of.cpu_ns) = (5, Some(30 * MS)), Cause::Unknown),
            ("work that faults", |of| (of.overruns, of.major_faults) = (5, Some(1)), Cause::Unknown),
            ("work, CPU unknown", |of| (of.overruns, of.cpu_ns) = (5, None), Cause::Unknown),
            ("work on a CPU that was away", |of| (of.overruns, of.uncounted_ns) = (5, Some(40 * MS)), Cause::Unknown),
            ("work, counters unknown", |of| (of.overruns, of.uncounted_ns) = (5, None), Cause::Unknown),
            ("lock", |of| (of.overruns, of.cpu_ns, of.lock_ns) = (1, Some(50 * MS), Some(45 * MS)), Cause::Lock),
            ("lock and usual work", |of| (of.overruns, of.lock_ns) = (1, Some(45 * MS)), Cause::Lock),
            (
                "lock, too short",
                |of| (of.overruns, of.cpu_ns, of.lock_ns) = (1, Some(MS), Some(20 * MS)),
                Cause::Unknown,
            ),
            ("lock, in ticks that ended in time", |of| of.lock_ns = Some(60 * MS), Cause::Unknown),
            ("lock and long work", |of| (of.overruns, of.lock_ns) = (1, Some(20 * MS)), Cause::Unknown),
            ("long work, short lock", |of| (of.overruns, of.lock_ns) = (5, Some(4 * MS)), Cause::OwnWork),
            (
                "lock, then preempted",
                |of| (of.overruns, of.lock_ns, of.run_delay_ns) = (1, Some(60 * MS), Some(15 * MS)),
                Cause::Unknown,
            ),
            (
                "preempted as it got the lock",
                |of| (of.lock_ns, of.run_delay_ns) = (Some(61 * MS), Some(60 * MS)),
                Cause::Preempted,
            ),
            ("lock, stolen", |of| (of.lock_ns, of.steal_ns) = (Some(20 * MS), Some(60 * MS)), Cause::Unknown),
            ("lock, paused", |of| (of.lock_ns, of.paused_ns) = (Some(60 * MS), Some(60 * MS)), Cause::Unknown),
            (
                "lock, delay unknown",
                |of| (of.overruns, of.lock_ns, of.run_delay_ns) = (1, Some(60 * MS), None),
                Cause::Unknown,
            ),
            ("work, a step of the counters", |of| (of.overruns, of.uncounted_ns) = (5, Some(30 * MS)), Cause::OwnWork),
        ];
        for (name, plant, expected) in table {
            let mut evidence = quiet();
            plant(&mut evidence);
            // Each of these times is a single wait.
            (evidence.late_delay_ns, evidence.long_lock_ns) = (evidence.run_delay_ns, evidence.lock_ns);
            let (cause, words) = decide(&evidence);
            assert_eq!(cause, expected, "{name}: {words}");
            assert!(!words.is_empty());
        }
    }

    /// Many short waits take as long as one late tick is late, but none of them can make a tick late.
    #[test]
    fn a_sum_of_short_times_is_no_cause() {
        let table: [(&str, Plant, Cause); 10] = [
            ("short waits for a CPU", |of| of.run_delay_ns = Some(60 * MS), Cause::Unknown),
            (
                "one of them long",
                |of| (of.run_delay_ns, of.late_delay_ns) = (Some(90 * MS), Some(42 * MS)),
                Cause::Preempted,
            ),
            ("the long ones unknown", |of| (of.run_delay_ns, of.late_delay_ns) = (Some(60 * MS), None), Cause::Unknown),
            (
                "short stops by a limit",
                |of| (of.throttled_ns, of.run_delay_ns, of.throttles) = (Some(60 * MS), Some(62 * MS), Some(20)),
                Cause::Unknown,
            ),
            (
                "short stops that are no delay",
                |of| (of.throttled_ns, of.throttles) = (Some(60 * MS), Some(20)),
                Cause::Unknown,
            ),
            (
                "long stops that are no delay",
                |of| (of.throttled_ns, of.throttles) = (Some(60 * MS), Some(2)),
                Cause::Throttled,
            ),
            ("steal as always", |of| (of.steal_ns, of.usual.steal_ns) = (Some(60 * MS), 50 * MS), Cause::Unknown),
            (
                "stalls of others as always",
                |of| (of.major_faults, of.stalled_ns, of.usual.stalled_ns) = (Some(5), Some(60 * MS), 50 * MS),
                Cause::Unknown,
            ),
            (
                "short waits for locks",
                |of| (of.overruns, of.cpu_ns, of.lock_ns) = (1, Some(50 * MS), Some(45 * MS)),
                Cause::Unknown,
            ),
            (
                "one long tick that slept, among ticks that worked",
                |of| (of.overruns, of.work_ns, of.cpu_ns) = (1, 500 * MS, Some(460 * MS)),
                Cause::Unknown,
            ),
        ];
        for (name, plant, expected) in table {
            let mut evidence = quiet();
            plant(&mut evidence);
            let (cause, words) = decide(&evidence);
            assert_eq!(cause, expected, "{name}: {words}");
        }
    }

    proptest! {
        /// If a cause is named, its own time explains the lateness.
        /// The time of each other cause is too short for a single late tick.
        #[test]
        fn no_cause_is_named_that_does_not_explain(
            times in prop::array::uniform5(prop::option::of(0..100_u64)), faults in prop::option::of(0..3_u64), overruns in 0..3_u64,
            lateness in 5..100_u64, cpu in prop::option::of(0..200_u64), lock in prop::option::of(0..100_u64),
            late_delay in prop::option::of(0..100_u64)
        ) {
            let [run_delay_ns, throttled_ns, steal_ns, interrupts_ns, stalled_ns] = times.map(|time| time.map(|ms| ms * MS));
            let evidence = Evidence {
                ticks: LateCount { lateness_ns: lateness * MS, ..quiet().ticks },
                run_delay_ns, late_delay_ns: late_delay.map(|ms| ms * MS), throttled_ns, steal_ns, interrupts_ns, stalled_ns,
                lock_ns: lock.map(|ms| ms * MS), long_lock_ns: lock.map(|ms| ms * MS), major_faults: faults, overruns,
                cpu_ns: cpu.map(|ms| ms * MS), uncounted_ns: Some(0), ..quiet()
            };
            let long = |time: Option<u64>| time.is_none_or(|ns| ns >= 5 * MS);
            let explains = |time: Option<u64>| time.is_some_and(|ns| ns as f64 >= lateness as f64 * MS as f64 * 0.79);
            let (cause, _) = decide(&evidence);
            match cause {
                Cause::Stolen => prop_assert!(explains(steal_ns) && !long(run_delay_ns) && !long(throttled_ns)),
                Cause::Preempted => prop_assert!(explains(evidence.late_delay_ns) && !long(steal_ns) && !long(throttled_ns)),
                Cause::Throttled => prop_assert!(explains(throttled_ns) && !long(steal_ns)),
                Cause::PageFault => prop_assert!(explains(stalled_ns) && faults > Some(0) && !long(run_delay_ns) && !long(steal_ns)),
                Cause::Interrupt => prop_assert!(explains(interrupts_ns) && faults == Some(0) && !long(run_delay_ns)),
                Cause::OwnWork => {
                    let others: Option<u64> = [run_delay_ns, throttled_ns, steal_ns, interrupts_ns].into_iter().sum();
                    prop_assert!(overruns > 0 && faults == Some(0) && others.is_some_and(|ns| ns <= 10 * MS));
                }
                Cause::Lock => {
                    let alone_ns = lock.unwrap_or(0) * MS - run_delay_ns.unwrap_or(0).min(lock.unwrap_or(0) * MS);
                    let others: Option<u64> = [run_delay_ns, throttled_ns, steal_ns].into_iter().sum();
                    prop_assert!(overruns > 0 && alone_ns >= 32 * MS && others.is_some_and(|ns| ns <= 10 * MS));
                }
                Cause::LateTimer | Cause::VmPaused => prop_assert!(false, "these counts never show it"),
                Cause::Unknown => {}
            }
        }
    }
}
