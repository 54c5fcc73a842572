//! `compare`: compares the average slow tick with the average of the other ticks, stack by stack, and finds the cause of the difference.

use std::collections::BTreeMap;

use serde::Serialize;

use super::account::{Account, Sums};
use super::cut::Cut;
use super::place::{Paths, Place};
use super::tick::Spent;
use crate::fold::{self, Base, Folded, WeightedStack};
use crate::names::Names;
use crate::offcpu::OffCpuInterval;
use crate::recording::Recording;

/// The minimum number of slow ticks, because a single slow tick may have any cause.
const SLOW_MIN: usize = 3;
/// The minimum number of ticks for a slowest hundredth. If there are fewer ticks, the result has a caveat.
const TICKS_MIN: usize = 300;
/// A thread is named as the cause only if it has at least this share of the waits.
const MOST: f64 = 0.5;
/// A cause explains the difference only if it has at least this share of the difference.
const EXPLAINS: f64 = 0.5;
/// The minimum number of sampling periods in the average tick. With fewer periods, samples show too little of a tick.
const PERIODS_A_TICK: u64 = 2;
/// The maximum number of slow ticks in the list. The slowest ticks are kept.
const LISTED_MAX: usize = 100;

/// Slow ticks compared with the rest.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The number of ticks.
    pub ticks: usize,
    /// The number of slow ticks.
    pub slow_ticks: usize,
    /// The shortest slow tick, in nanoseconds.
    pub slow_from_ns: u64,
    /// The average slow tick, in nanoseconds.
    pub slow_mean_ns: u64,
    /// The average length of the other ticks, in nanoseconds.
    pub rest_mean_ns: u64,
    /// The average slow tick's time on a CPU.
    pub slow_ran_ns: u64,
    /// The average time on a CPU of the other ticks.
    pub rest_ran_ns: u64,
    /// The time of each kind in the average tick, the kind with the largest difference first.
    pub growth: Vec<Growth>,
    /// The main cause of the difference. None if slow ticks are not longer.
    pub top: Option<Top>,
    /// The slow ticks, slowest first, at most a hundred.
    pub slow: Vec<Slow>,
    /// Caveats.
    pub caveats: Vec<TicksCaveat>,
    /// For each stack, the average nanoseconds per tick of the other ticks.
    #[serde(skip)]
    pub rest_folded: Folded,
    /// For each stack, the average nanoseconds per slow tick.
    #[serde(skip)]
    pub slow_folded: Folded,
}

/// Time of one kind in the average tick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// The kind of time.
    pub spent: Spent,
    /// The average in slow ticks, in nanoseconds.
    pub slow_ns: u64,
    /// The average in the other ticks, in nanoseconds.
    pub rest_ns: u64,
}

impl Growth {
    /// The difference: slow ticks minus the rest.
    pub fn ns(&self) -> i64 {
        self.slow_ns.cast_signed().saturating_sub(self.rest_ns.cast_signed())
    }
}

/// The main cause of the difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Top {
    /// The kind of time that grew most.
    pub spent: Spent,
    /// The difference of this kind, in nanoseconds.
    pub growth_ns: u64,
    /// The share of this kind in the whole difference, from 0 to 1.
    pub share: f64,
    /// The program's function in which this time is spent. None without stacks.
    pub function: Option<String>,
    /// The caller of that function, if known.
    pub from: Option<String>,
    /// The thread that ended most of these waits, if known.
    pub ended_by: Option<String>,
    /// The thread that had the CPU for most of this time, if known.
    pub taken_by: Option<String>,
}

/// A slow tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slow {
    /// The number of the tick.
    pub number: u64,
    /// The due time of the tick, in nanoseconds since the start of the recording. If the due time is unknown, the beginning of the tick.
    pub at_ns: u64,
    /// The time from due to done, in nanoseconds. If the due time is unknown, the time from begin to done.
    pub length_ns: u64,
    /// How late the tick began, in nanoseconds.
    pub lateness_ns: u64,
    /// The tick's time on a CPU, in nanoseconds.
    pub ran_ns: u64,
    /// The kind of time with the largest excess over the average of the rest.
    pub spent: Spent,
    /// The excess of that kind over the average of the rest, in nanoseconds.
    pub growth_ns: u64,
    /// The function in which that time was spent, if known.
    pub function: Option<String>,
    /// The thread that ended the tick's longest wait of that kind, if known.
    pub ended_by: Option<String>,
}

/// Caveats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TicksCaveat {
    /// There are too few ticks for a slowest hundredth.
    FewTicks {
        /// The number of ticks that would be enough.
        enough: usize,
    },
    /// Data was lost.
    Lost {
        /// Lost records.
        records: u64,
        /// Lost samples.
        samples: u64,
    },
    /// The sampling rate is too low to see into a tick.
    Coarse {
        /// The sampling period in nanoseconds of CPU time. `None` if there are almost no samples.
        period_ns: Option<u64>,
        /// A sufficient rate, in Hz.
        enough_hz: u64,
    },
    /// Waits have no stacks, so a tick ends at its first sleep.
    WaitsUnknown,
    /// Slow ticks have several causes. The main cause is less than half of the difference.
    Mixed,
    /// Slow ticks are hardly longer than the rest.
    Alike,
}

/// The input of a comparison: a recording, its ticks and their time accounts.
#[derive(Clone, Copy, Debug)]
pub struct TickData<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// The names of the recording's functions.
    pub names: &'a Names,
    /// The off-CPU intervals of the tick's thread, sorted by time.
    pub life: &'a [OffCpuInterval],
    /// The ticks of the recording.
    pub cut: &'a Cut,
    /// The time account of each tick.
    pub accounts: &'a [Account],
    /// The sampling period in nanoseconds. None if unknown.
    pub period_ns: Option<u64>,
}

/// Compares the slowest `slow_share` (0 to 1) of ticks with the rest. `None` if there are too few ticks.
pub fn compare(data: &TickData<'_>, slow_share: f64) -> Option<Comparison> {
    let ticks = &data.cut.ticks;
    let slow_ticks = ((ticks.len() as f64 * slow_share).ceil() as usize).max(SLOW_MIN);
    if ticks.len() <= slow_ticks {
        return None;
    }
    let mut order: Vec<usize> = (0..ticks.len().min(data.accounts.len())).collect();
    order.sort_by_key(|at| std::cmp::Reverse(ticks[*at].span.length_ns()));
    let (slow, rest) = order.split_at(slow_ticks.min(order.len()));
    let [slow_sums, rest_sums] = [slow, rest].map(|some| mean(data.accounts, some));
    let of = |some: &[usize], value: &dyn Fn(usize) -> u64| mean_of(some.iter().map(|at| value(*at)));
    let length = |at: usize| ticks[at].span.length_ns();
    let ran = |at: usize| data.accounts[at].ran_ns;
    let growth = growth(&slow_sums, &rest_sums);
    let paths = Paths::from_accounts(data.recording, data.names, data.accounts);
    let (slow_mean_ns, rest_mean_ns) = (of(slow, &length), of(rest, &length));
    let more_ns = slow_mean_ns.saturating_sub(rest_mean_ns);
    let top = growth.first().and_then(|most| top(data, &paths, most, (slow, &slow_sums), (more_ns, &rest_sums)));
    let mut comparison = Comparison {
        ticks: ticks.len(),
        slow_ticks: slow.len(),
        slow_from_ns: slow.last().map_or(0, |at| length(*at)),
        slow_mean_ns,
        rest_mean_ns,
        slow_ran_ns: of(slow, &ran),
        rest_ran_ns: of(rest, &ran),
        slow: slow.iter().take(LISTED_MAX).map(|at| listed(data, &paths, *at, &rest_sums)).collect(),
        growth,
        top,
        caveats: Vec::new(),
        rest_folded: folded(data, &rest_sums),
        slow_folded: folded(data, &slow_sums),
    };
    comparison.caveats = caveats(data, &comparison);
    Some(comparison)
}

fn mean_of(values: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = values.len().max(1) as u128;
    (values.map(u128::from).sum::<u128>() / count) as u64
}

/// The time of each kind and stack in the average of these ticks, in nanoseconds.
fn mean(accounts: &[Account], of: &[usize]) -> Sums {
    let mut sums: BTreeMap<_, u128> = BTreeMap::new();
    for (spent, ns) in of.iter().filter_map(|at| accounts.get(*at)).flat_map(|account| &account.sums) {
        *sums.entry(*spent).or_default() += u128::from(*ns);
    }
    let count = of.len().max(1) as u128;
    sums.into_iter().map(|(spent, ns)| (spent, (ns / count) as u64)).collect()
}

fn growth(slow: &Sums, rest: &Sums) -> Vec<Growth> {
    let mut by_kind: BTreeMap<Spent, Growth> = BTreeMap::new();
    let mut add = |sums: &Sums, to: fn(&mut Growth) -> &mut u64| {
        for ((spent, _), ns) in sums {
            let spent = spent.kind();
            let growth = by_kind.entry(spent).or_insert(Growth { spent, slow_ns: 0, rest_ns: 0 });
            *to(growth) = to(growth).saturating_add(*ns);
        }
    };
    add(slow, |growth| &mut growth.slow_ns);
    add(rest, |growth| &mut growth.rest_ns);
    let mut all: Vec<Growth> = by_kind.into_values().collect();
    all.sort_by_key(|growth| std::cmp::Reverse(growth.ns()));
    all
}

impl TickData<'_> {
    fn thread(&self, tid: u32) -> String {
        let name = self.recording.threads.get(&tid).and_then(|thread| thread.name.clone());
        match (tid, name) {
            (0, _) => "none: the CPU was idle".to_owned(),
            (tid, None) => tid.to_string(),
            (tid, Some(name)) => format!("{name} ({tid})"),
        }
    }

    /// The off-CPU intervals of one kind in these ticks.
    fn intervals(&self, of: &[usize], spent: Spent) -> impl Iterator<Item = &OffCpuInterval> {
        let ticks = of.iter().filter_map(|at| self.cut.ticks.get(*at));
        ticks.flat_map(move |tick| {
            let first = self.life.partition_point(|interval| interval.span.end_ns <= tick.begun_ns);
            let within = self.life[first..].iter().take_while(|interval| interval.span.start_ns < tick.span.end_ns);
            within.filter(move |interval| Spent::Without(interval.reason) == spent)
        })
    }

    /// The thread with most of the time of these intervals.
    fn most<'b>(
        &self,
        intervals: impl Iterator<Item = &'b OffCpuInterval>,
        who: fn(&OffCpuInterval) -> Option<u32>,
    ) -> Option<String> {
        let (mut all, mut by_thread) = (0_u64, BTreeMap::<u32, u64>::new());
        for interval in intervals {
            all = all.saturating_add(interval.span.length_ns());
            if let Some(tid) = who(interval) {
                let sum = by_thread.entry(tid).or_default();
                *sum = sum.saturating_add(interval.span.length_ns());
            }
        }
        let most = by_thread.into_iter().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns as f64 >= all as f64 * MOST);
        most.map(|(tid, _)| self.thread(tid))
    }
}

/// The main cause for the slow ticks `slow`, whose average `slow_sums` is `more_ns` longer than `rest`.
fn top(
    data: &TickData<'_>,
    paths: &Paths,
    most: &Growth,
    (slow, slow_sums): (&[usize], &Sums),
    (more_ns, rest): (u64, &Sums),
) -> Option<Top> {
    let growth_ns = u64::try_from(most.ns()).ok().filter(|ns| *ns > 0)?;
    let Place { function, from } = paths.place(most.spent, slow_sums, rest);
    let spent = most.spent;
    let woken = |interval: &OffCpuInterval| {
        interval.woken_by.map(|(tid, _)| tid).filter(|tid| *tid != interval.tid && *tid != 0)
    };
    Some(Top {
        spent,
        growth_ns,
        share: growth_ns as f64 / more_ns.max(1) as f64,
        function,
        from,
        ended_by: data.most(data.intervals(slow, spent), woken),
        taken_by: if spent == Spent::Without(crate::offcpu::Reason::Preempted) {
            data.most(data.intervals(slow, spent), |interval| interval.taken_by.map(|(_, tid)| tid))
        } else {
            None
        },
    })
}

fn listed(data: &TickData<'_>, paths: &Paths, at: usize, rest: &Sums) -> Slow {
    let (tick, account) = (&data.cut.ticks[at], &data.accounts[at]);
    let grown_kinds = growth(&account.sums, rest);
    let most = grown_kinds.first().copied().unwrap_or(Growth { spent: Spent::Ran, slow_ns: 0, rest_ns: 0 });
    let Place { function, .. } = paths.place(most.spent, &account.sums, rest);
    let woken = |interval: &OffCpuInterval| {
        interval.woken_by.map(|(tid, _)| tid).filter(|tid| *tid != interval.tid && *tid != 0)
    };
    Slow {
        number: tick.number,
        at_ns: tick.span.start_ns.saturating_sub(data.recording.span.start_ns),
        length_ns: tick.span.length_ns(),
        lateness_ns: tick.lateness_ns(),
        ran_ns: account.ran_ns,
        spent: most.spent,
        growth_ns: u64::try_from(most.ns()).unwrap_or(0),
        function,
        ended_by: data.most(data.intervals(&[at], most.spent), woken),
    }
}

/// The input of a flame graph. The kind of time is the innermost frame, except for work.
fn folded(data: &TickData<'_>, sums: &Sums) -> Folded {
    let tid = data.cut.tid;
    let pid = data.recording.threads.get(&tid).map_or(tid, |thread| thread.pid);
    let seen = sums.iter().map(|((spent, stack), ns)| {
        let on_top = (!matches!(spent, Spent::Ran | Spent::Faulted)).then_some(spent.name());
        WeightedStack { pid, tid, cpu: 0, stack: *stack, on_top, weight: *ns }
    });
    Folded::from(&fold::tree(data.recording, data.names, Base::Thread, seen))
}

fn caveats(data: &TickData<'_>, said: &Comparison) -> Vec<TicksCaveat> {
    let lost = data.recording.lost;
    let mut caveats = Vec::new();
    if said.ticks < TICKS_MIN {
        caveats.push(TicksCaveat::FewTicks { enough: TICKS_MIN });
    }
    if lost.records > 0 || lost.samples > 0 {
        caveats.push(TicksCaveat::Lost { records: lost.records, samples: lost.samples });
    }
    let fine_ns = said.rest_ran_ns / PERIODS_A_TICK;
    if data.period_ns.is_none_or(|period_ns| period_ns > fine_ns.max(1)) {
        let enough_hz = (1_000_000_000 / fine_ns.max(1)).clamp(100, 10_000);
        caveats.push(TicksCaveat::Coarse { period_ns: data.period_ns, enough_hz });
    }
    if data.cut.ends == super::cut::Ends::AtFirstSleep {
        caveats.push(TicksCaveat::WaitsUnknown);
    }
    match &said.top {
        Some(top) if top.share < EXPLAINS => caveats.push(TicksCaveat::Mixed),
        _ if said.slow_mean_ns < said.rest_mean_ns + said.rest_mean_ns / 10 => caveats.push(TicksCaveat::Alike),
        _ => {}
    }
    caveats
}
