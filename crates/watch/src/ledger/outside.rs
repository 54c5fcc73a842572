//! Finds the causes of late ticks that were observed from outside: what each tick's thread did when the tick was due. A pure function.

use super::cause::{EXPLAINS, Evidence, LateCount, OTHERS_MAX, decide, is_counted};
use super::evidence::{Counters, TickThread, on_time_ns, paused_ns, same_process};
use super::judged::Judged;
use super::usual::Usual;
use crate::sample::{
    Cause, DueSample, GapSample, GapsSample, LateWas, OutsideLate, OutsideSample, PauseSample, Sample, ServerSample,
    late_bound_ns,
};

/// If a tick begins at most this long after a pause, the pause delayed it.
const AFTER_A_PAUSE_NS: u64 = 5_000_000;
/// Switch records end shortly before a sample.
/// So the counts between two samples may include ticks that were due up to this many periods before the earlier sample.
const PERIODS_BEFORE: u64 = 4;

/// What is known of the late ticks of one server between two samples.
#[derive(Clone, Debug, Default)]
struct Known {
    seen: Counters,
    /// How long the tick's thread waited for a CPU after it was woken. None if unknown.
    waited_asleep_ns: Option<u64>,
    /// The part of that time which the ticks on time cannot have. None if the thread also woke for other reasons than its ticks.
    waited_late_ns: Option<u64>,
    major_faults: Option<u64>,
    /// How late the kernel may fire the thread's timers, in nanoseconds. None if unknown.
    timer_slack_ns: Option<u64>,
    bound_ns: u64,
    period_ns: u64,
    due: Option<DueSample>,
    gaps: Option<GapsSample>,
    paused_ns: Option<u64>,
}

/// The late ticks of a server between two samples, by cause.
pub(super) fn judged((before, after): (&Sample, &Sample), server: &ServerSample, usual: &Usual) -> Vec<Judged> {
    let Some(now) = server.outside.as_ref().and_then(|outside| outside.as_ref().ok()) else { return Vec::new() };
    let same = |then: &&ServerSample| then.pid == server.pid;
    let server_before = before.servers.iter().find(same);
    let zero = now.zero();
    let then = server_before.and_then(|server| server.outside.as_ref()?.as_ref().ok());
    let then = then.filter(|then| then.ticks.began_realtime_ns == now.ticks.began_realtime_ns).unwrap_or(&zero);
    let period_ns = now.ticks.period_ns.unwrap_or(0);
    let missed = now.ticks.missed.saturating_sub(then.ticks.missed);
    if now.late.is_empty() && missed == 0 {
        return Vec::new();
    }
    let bound_ns = late_bound_ns(after.asked.late_after_ns, now.ticks.period_ns).unwrap_or(0).max(1);
    // If the late ticks span several samples, the counts since the last sample cannot explain them.
    let is_near =
        now.counted_from_ns >= before.at.monotonic_ns.saturating_sub(period_ns.saturating_mul(PERIODS_BEFORE));
    let process = server_before.and_then(|then| same_process(then, server)).filter(|_| is_near);
    let thread = process.and_then(|(then, now_of)| TickThread::numbered(now.tid?, then, now_of));
    let seen = Counters::between((before, after), process, thread.as_ref(), bound_ns, usual);
    let waited_awake_ns = now.waited_awake_ns.checked_sub(then.waited_awake_ns);
    let waited_asleep_ns = seen.run_delay_ns.zip(waited_awake_ns).map(|(all, awake)| all.saturating_sub(awake));
    let on_time_ns = on_time_ns(&then.ticks, &now.ticks, bound_ns);
    let ran = now.ticks.ticks.saturating_sub(then.ticks.ticks);
    let wakes_only_for_ticks = thread.is_some_and(|thread| thread.wakes_only_for(ran));
    let known = Known {
        seen,
        waited_asleep_ns,
        waited_late_ns: waited_asleep_ns.filter(|_| wakes_only_for_ticks).map(|ns| ns.saturating_sub(on_time_ns)),
        major_faults: now.ticks.major_faults.zip(then.ticks.major_faults).and_then(|(now, then)| now.checked_sub(then)),
        timer_slack_ns: now.timer_slack_ns,
        bound_ns,
        period_ns,
        due: Some(now.due),
        gaps: after.gaps.as_ref().and_then(|gaps| gaps.as_ref().ok()).cloned(),
        paused_ns: paused_ns(before, after),
    };
    of_known(now, missed, &known)
}

fn of_known(now: &OutsideSample, missed: u64, known: &Known) -> Vec<Judged> {
    let (awake, off): (Vec<&OutsideLate>, Vec<&OutsideLate>) =
        now.late.iter().partition(|late| matches!(late.was, LateWas::Awake { .. }));
    let mut list = Vec::new();
    // First use gaps that the gap meter measured at the time of the tick.
    let mut by_gaps = |late: &&OutsideLate| match gone(late, known) {
        Some((cause, words)) => {
            add(&mut list, cause, words, late);
            false
        }
        None => true,
    };
    let awake: Vec<&OutsideLate> = awake.into_iter().filter(|late| by_gaps(late)).collect();
    let off: Vec<&OutsideLate> = off.into_iter().filter(|late| by_gaps(late)).collect();
    let mut by_another = |late: &&OutsideLate| match behind_another(late, now, known) {
        Some((cause, words)) => {
            add(&mut list, cause, words, late);
            false
        }
        None => true,
    };
    let off: Vec<&OutsideLate> = off.into_iter().filter(|late| by_another(late)).collect();
    let waiting =
        now.missed_waiting.iter().filter_map(|late| gone(late, known).or_else(|| behind_another(late, now, known)));
    let mut missed = missed;
    for (cause, words) in waiting.take(missed.try_into().unwrap_or(usize::MAX)) {
        add_missed(&mut list, cause, words, 1);
        missed -= 1;
    }
    let groups = groups(&off, missed, now.missed_ready, known);
    for late in &awake {
        // A thread that catches up does its ticks late for the reason of the tick that began late.
        let (cause, words) = match (behind_a_long_one(late, &awake, known), began_late(&groups, late)) {
            ((Cause::Unknown, _), Some((cause, words))) if is_catching_up(late) => (*cause, words.clone()),
            (found, _) => found,
        };
        add(&mut list, cause, words, late);
    }
    for Group { late, missed, cause: (cause, words) } in groups {
        late.into_iter().for_each(|late| add(&mut list, cause, words.clone(), late));
        if missed > 0 {
            add_missed(&mut list, cause, words, missed);
        }
    }
    if now.late_beyond > 0 {
        let words = format!("only {} late ticks of a sample are examined one by one", now.late.len());
        list.push(Judged { late: now.late_beyond, missed: 0, cause: Cause::Unknown, words, due_ns: None });
    }
    list
}

/// Late and missed ticks for which the same counts decide.
struct Group<'a> {
    late: Vec<&'a OutsideLate>,
    missed: u64,
    cause: (Cause, String),
}

/// Groups the ticks by how long the thread was ready when they were due. Waits of other ticks explain nothing.
fn groups<'a>(off: &[&'a OutsideLate], missed: u64, missed_ready: Option<u64>, known: &Known) -> Vec<Group<'a>> {
    let is_ready = |late: &&OutsideLate| late.ready_ns.map(|ns| ns as f64 >= late.lateness_ns as f64 * EXPLAINS);
    let of = |wanted: Option<bool>| off.iter().copied().filter(|late| is_ready(late) == wanted).collect::<Vec<_>>();
    let (ready, not_ready, unknown) = (of(Some(true)), of(Some(false)), of(None));
    let missed_of_ready = missed_ready.unwrap_or(0).min(missed);
    let rest = missed - missed_of_ready;
    let (missed_not_ready, missed_unknown) = if missed_ready.is_some() { (rest, 0) } else { (0, rest) };
    let ready_ns = ready.iter().filter_map(|late| late.ready_ns).fold(0, u64::saturating_add);
    let ready_ns = ready_ns.max(missed_of_ready.saturating_mul(known.period_ns));
    // The kernel counts the same waits. If it counts less, the CPU was not there for a part of that time.
    let ready_ns = known.waited_asleep_ns.map(|all_ns| all_ns.min(ready_ns));
    let other_ns = known.waited_asleep_ns.zip(ready_ns).map(|(all_ns, ready_ns)| all_ns.saturating_sub(ready_ns));
    let of_ready = Delays { all_ns: ready_ns, late_ns: ready_ns };
    let of_not_ready = Delays { all_ns: other_ns, late_ns: Some(0) };
    let of_unknown = Delays { all_ns: known.waited_asleep_ns, late_ns: known.waited_late_ns };
    let all = [
        (ready, missed_of_ready, of_ready),
        (not_ready, missed_not_ready, of_not_ready),
        (unknown, missed_unknown, of_unknown),
    ];
    let some = all.into_iter().filter(|(late, missed, _)| !late.is_empty() || *missed > 0);
    some.map(|(late, missed, delays)| Group { cause: while_off(&late, missed, delays, known), late, missed }).collect()
}

/// The cause of the tick that began late before this one.
fn began_late<'a>(groups: &'a [Group<'_>], late: &OutsideLate) -> Option<&'a (Cause, String)> {
    let last_of =
        |group: &Group<'_>| group.late.iter().map(|one| one.due_ns).filter(|due_ns| *due_ns < late.due_ns).max();
    match groups {
        [group] => Some(&group.cause),
        _ => groups
            .iter()
            .filter(|group| last_of(group).is_some())
            .max_by_key(|group| last_of(group))
            .map(|it| &it.cause),
    }
}

/// How long the thread waited for a CPU after it was woken: in all, and in single waits that made ticks late.
#[derive(Clone, Copy, Debug)]
struct Delays {
    all_ns: Option<u64>,
    late_ns: Option<u64>,
}

/// The cause, if the whole machine or the tick's CPU was away for most of the lateness.
fn gone(late: &OutsideLate, known: &Known) -> Option<(Cause, String)> {
    let began_ns = late.due_ns.saturating_add(late.lateness_ns);
    let explains = |from_ns: u64, to_ns: u64| {
        let common_ns = to_ns.min(began_ns).saturating_sub(from_ns.max(late.due_ns));
        common_ns as f64 >= late.lateness_ns as f64 * EXPLAINS
    };
    let gaps = known.gaps.as_ref()?;
    let ms = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e6;
    let is_it = |pause: &&PauseSample| {
        // The tick began just after the pause ended, and became due after the earliest time at which the pause may have begun.
        let came_with_it = began_ns >= pause.to_ns && began_ns - pause.to_ns <= AFTER_A_PAUSE_NS;
        explains(pause.from_ns, pause.to_ns) || came_with_it && late.due_ns >= pause.not_before_ns
    };
    if let Some(pause) = gaps.new_pauses.iter().find(is_it) {
        let length_ms = ms(pause.from_ns, pause.to_ns);
        return Some((Cause::VmPaused, format!("the whole machine was paused for at least {length_ms:.1} ms")));
    }
    let of_cpu = |gap: &&GapSample| gap.cpu == late.cpu && explains(gap.from_ns, gap.to_ns);
    let gap = gaps.new_gaps.iter().find(of_cpu)?;
    let length_ms = ms(gap.from_ns, gap.to_ns);
    Some((Cause::Stolen, format!("CPU {} was away for {length_ms:.1} ms, as the gap meter measured", gap.cpu)))
}

/// The thread slept in the middle of a tick until another thread woke it.
/// The cause is a lock if the wait covers nearly all of the lateness, and a thread of the server ended it.
/// Otherwise the cause is unknown, because the counts of other causes do not apply to a thread that slept.
fn behind_another(late: &OutsideLate, now: &OutsideSample, known: &Known) -> Option<(Cause, String)> {
    let LateWas::Waited { since_ns, until_ns, by } = late.was else { return None };
    let ms = until_ns.saturating_sub(since_ns) as f64 / 1e6;
    let words = format!("in the middle of a tick, its thread waited {ms:.1} ms for a lock or a signal of");
    let Some(name) = now.wakers.get(&by) else {
        return Some((Cause::Unknown, format!("{words} thread {by}, which is not one of the server")));
    };
    let began_ns = late.due_ns.saturating_add(late.lateness_ns);
    let asleep_ns = until_ns.min(began_ns).saturating_sub(since_ns.max(late.due_ns));
    let seen = &known.seen;
    let short = |time: Option<u64>, than_ns: u64| time.is_some_and(|ns| ns < than_ns);
    // A limit also stops the other thread.
    // If the CPU was stolen, or the timer fired late within the slack, the thread may have waited for that timer.
    let is_sure = asleep_ns as f64 >= late.lateness_ns as f64 * EXPLAINS
        && short(seen.throttled_ns, known.bound_ns)
        && short(seen.steal_ns, until_ns.saturating_sub(since_ns) / 2)
        && is_counted(seen.uncounted_ns, late.lateness_ns)
        && short(known.timer_slack_ns, (late.lateness_ns as f64 * EXPLAINS) as u64);
    match is_sure {
        true => Some((Cause::Lock, format!("{words} {name} (thread {by})"))),
        false => Some((Cause::Unknown, format!("{words} {name} (thread {by}), or its CPU was away"))),
    }
}

fn add_missed(list: &mut Vec<Judged>, cause: Cause, words: String, missed: u64) {
    match list.iter_mut().find(|one| one.cause == cause) {
        Some(one) => one.missed = one.missed.saturating_add(missed),
        None => list.push(Judged { late: 0, missed, cause, words, due_ns: None }),
    }
}

fn add(list: &mut Vec<Judged>, cause: Cause, words: String, late: &OutsideLate) {
    match list.iter_mut().find(|one| one.cause == cause) {
        Some(one) => one.late += 1,
        None => list.push(Judged { late: 1, missed: 0, cause, words, due_ns: Some(late.due_ns) }),
    }
}

/// Whether the thread woke late, so that it had ticks to catch up with. Such ticks do not take longer than usual.
fn is_catching_up(late: &OutsideLate) -> bool {
    let LateWas::Awake { began_late_ns, .. } = late.was else { return false };
    began_late_ns.is_none_or(|ns| ns as f64 > late.lateness_ns as f64 * OTHERS_MAX)
}

/// The cause if the thread was awake when the tick became due, because an earlier tick lasted too long.
/// The switch records show whether the thread ran or waited.
fn behind_a_long_one(late: &OutsideLate, all: &[&OutsideLate], known: &Known) -> (Cause, String) {
    let LateWas::Awake { on_cpu_ns, waited_ns, .. } = late.was else { return (Cause::Unknown, open_words(known)) };
    let lateness_ns = late.lateness_ns as f64;
    let ms = |ns: u64| ns as f64 / 1e6;
    let seen = &known.seen;
    // If the work fills the period, the next tick is late even if the thread always has a CPU.
    let work_fits = on_cpu_ns < known.period_ns;
    if waited_ns as f64 >= lateness_ns * EXPLAINS && work_fits {
        let words = format!("an earlier tick waited {:.1} ms for a CPU in the middle of its work", ms(waited_ns));
        return match seen.throttled_ns {
            Some(ns) if ns < known.bound_ns => (Cause::Preempted, words),
            Some(ns) if ns as f64 >= waited_ns as f64 * EXPLAINS => {
                (Cause::Throttled, format!("{words}, while limits stopped its control group for {:.1} ms", ms(ns)))
            }
            _ => (Cause::Unknown, format!("{words}; it is unknown whether a limit stopped it")),
        };
    }
    let all_ns = all.iter().map(|late| late.lateness_ns).fold(0, u64::saturating_add) as f64;
    let others = [seen.steal_ns, seen.interrupts_ns, seen.throttled_ns];
    let others_ns = others.into_iter().try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    let is_counted = is_counted(seen.uncounted_ns, all_ns as u64);
    let is_alone = others_ns.is_some_and(|ns| ns as f64 <= all_ns * OTHERS_MAX);
    let has_waited_little = waited_ns as f64 <= lateness_ns * OTHERS_MAX;
    let has_worked = on_cpu_ns as f64 >= lateness_ns && !is_catching_up(late);
    if has_waited_little && is_alone && is_counted && has_worked {
        return (Cause::OwnWork, format!("an earlier tick worked for {:.1} ms, and had a CPU for it", ms(on_cpu_ns)));
    }
    (Cause::Unknown, open_words(known))
}

/// The cause if the thread had no CPU when the ticks became due. The counts between the samples decide. Waits for a CPU in the middle of a
/// wake are subtracted first.
fn while_off(off: &[&OutsideLate], missed: u64, delays: Delays, known: &Known) -> (Cause, String) {
    let lateness_ns = off.iter().map(|late| late.lateness_ns).fold(0, u64::saturating_add);
    let lateness_ns = lateness_ns.max(missed.saturating_mul(known.period_ns));
    let seen = &known.seen;
    let (cause, words) = decide(&Evidence {
        ticks: LateCount { late: off.len() as u64, missed, lateness_ns, bound_ns: known.bound_ns },
        run_delay_ns: delays.all_ns,
        late_delay_ns: delays.late_ns,
        throttled_ns: seen.throttled_ns,
        throttles: seen.throttles,
        steal_ns: seen.steal_ns,
        interrupts_ns: seen.interrupts_ns,
        usual: seen.usual,
        // Late ticks were already compared with each pause, so pauses only matter for missed ticks.
        paused_ns: known.paused_ns.filter(|_| missed > 0),
        lock_ns: None,
        long_lock_ns: None,
        major_faults: known.major_faults,
        stalled_ns: seen.stalled_ns,
        overruns: 0,
        excess_ns: 0,
        work_ns: 0,
        mean_work_ns: 0,
        cpu_ns: seen.cpu_ns,
        uncounted_ns: known.seen.uncounted_ns,
    });
    if cause != Cause::Unknown {
        return (cause, words);
    }
    let longest_ns = off.iter().map(|late| late.lateness_ns).max().unwrap_or(0);
    let short = |time: Option<u64>| time.is_some_and(|ns| ns < known.bound_ns);
    let is_undisturbed = [delays.all_ns, seen.throttled_ns, seen.steal_ns, seen.interrupts_ns].map(short);
    match known.timer_slack_ns {
        // No tick was later than the thread's timer slack.
        Some(slack_ns)
            if missed == 0
                && known.due == Some(DueSample::AsAsked)
                && is_undisturbed == [true; 4]
                && longest_ns as f64 * EXPLAINS <= slack_ns as f64 =>
        {
            let ms = slack_ns as f64 / 1e6;
            (Cause::LateTimer, format!("its timers may fire up to {ms:.1} ms late, by its own timer slack"))
        }
        _ => (cause, words),
    }
}

fn open_words(known: &Known) -> String {
    let of = |name: &str, time: Option<u64>| match time {
        Some(ns) => format!("{name} {:.1} ms", ns as f64 / 1e6),
        None => format!("{name} unknown"),
    };
    let seen = &known.seen;
    format!(
        "an earlier tick lasted too long, and nothing decides why: {}, {}, {}, {}",
        of("throttled", seen.throttled_ns),
        of("steal", seen.steal_ns),
        of("interrupts", seen.interrupts_ns),
        of("time that no counter has", seen.uncounted_ns)
    )
}
