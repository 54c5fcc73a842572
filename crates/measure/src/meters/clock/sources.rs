//! The clock sources: measures the current source, or each available source in turn, and then restores the current source.
//! The meter reads the source before and after each turn.
//! If another program changes the source in the meantime, the other program's choice stays.

use evenkeel_hostfs::{HostWriter, Root};
use evenkeel_sys::clock_calls::{self, Call};
use evenkeel_sys::tsc::Scale;
use evenkeel_sys::{Errno, clock};

use super::costs::Kinds;
use super::report::{ClockPath, Report, Source};
use super::skipped::Skipped;
use crate::{Keeper, MeterError, Watch};

pub(super) const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
pub(super) const OFFERED: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// How often each source is measured. The measurements are interleaved, so that a slow phase of the machine affects all sources.
const ROUNDS: u64 = 4;
/// The maximum number of sources. No machine has more.
const SOURCES_MAX: usize = 16;
/// The kernel stops all CPUs to switch the source. Give them this time to recover.
const SETTLE_NS: u64 = 2_000_000;

/// The clock sources to measure.
#[derive(Debug)]
pub enum Sources {
    /// The current source.
    Current,
    /// Every available source. The meter switches the machine from one source to the next, and the keeper restores the first source.
    Each(Box<dyn Keeper>),
}

/// The sources of this machine.
pub(super) struct Switching<'a> {
    root: &'a Root,
    sources: Sources,
    pub(super) before: Option<String>,
    pub(super) offered: Vec<String>,
}

/// One source under measurement.
struct Turn {
    name: Option<String>,
    kinds: Kinds,
    ways: Option<(ClockPath, ClockPath)>,
}

impl<'a> Switching<'a> {
    pub(super) fn begin(root: &'a Root, sources: Sources) -> Switching<'a> {
        let offered = root.text(OFFERED).unwrap_or_default();
        let offered = offered.split_ascii_whitespace().take(SOURCES_MAX).map(str::to_owned).collect();
        Switching { root, sources, before: current(root), offered }
    }

    /// Measures the sources and adds the results to `report`.
    ///
    /// # Errors
    /// Fails if a source cannot be set, or if the original source cannot be restored.
    pub(super) fn measure(
        self,
        calls: u64,
        scale: &Scale,
        report: &mut Report,
        watch: &Watch<'_>,
    ) -> Result<(), MeterError> {
        let Switching { root, sources, before, offered } = self;
        let first = Turn::new(before.clone());
        match (sources, before) {
            (Sources::Each(mut keeper), Some(before)) => {
                let others = offered.iter().filter(|name| **name != before);
                let mut turns = vec![first];
                turns.extend(others.map(|name| Turn::new(Some(name.clone()))));
                keeper.keep(CURRENT, &before)?;
                let writer = root
                    .writer()
                    .map_err(|error| MeterError::not_possible("set the clock source", error.to_string()))?;
                let taken = in_turns(&mut turns, calls, (root, &writer, scale), keeper.as_mut(), report, watch);
                // Restore before any error is returned.
                keeper.end()?;
                report.fill(turns, calls);
                taken
            }
            (Sources::Each(_), None) => {
                let why = format!("{CURRENT} can't be read");
                Err(MeterError::not_possible("set the clock source", why))
            }
            (Sources::Current, before) => {
                let mut turns = vec![first];
                turns[0].call(calls, (root, scale), watch);
                if let Some(words) = changed(root, before.as_deref()) {
                    report.disturbed.push(words);
                }
                report.fill(turns, calls);
                Ok(())
            }
        }
    }
}

/// Measures each source in turn, `ROUNDS` times. If another program sets a source, the measurement ends and leaves that source in place.
fn in_turns(
    turns: &mut Vec<Turn>,
    calls: u64,
    (root, writer, scale): (&Root, &HostWriter, &Scale),
    keeper: &mut dyn Keeper,
    report: &mut Report,
    watch: &Watch<'_>,
) -> Result<(), MeterError> {
    let mut last = turns.first().and_then(|turn| turn.name.clone());
    for round in 1..=ROUNDS {
        let mut refused = Vec::new();
        for turn in turns.iter_mut() {
            if watch.stopped() {
                return Ok(());
            }
            let name = turn.name.clone().unwrap_or_default();
            watch.progress((round - 1) as f64 / ROUNDS as f64, &name);
            if let Some(words) = changed(root, last.as_deref()) {
                report.disturbed.push(words);
                return keeper.forget(CURRENT);
            }
            writer
                .write(CURRENT, &name)
                .map_err(|error| MeterError::refused(format!("set the clock source to {name}"), error.errno))?;
            if current(root).as_deref() != Some(&name) {
                // If the kernel rejects a source, the write still succeeds and changes nothing.
                last = current(root);
                refused.push(name);
                continue;
            }
            last = Some(name.clone());
            clock::sleep_until_ns(clock::monotonic_ns() + SETTLE_NS);
            turn.call(calls * round / ROUNDS, (root, scale), watch);
            if let Some(words) = changed(root, Some(&name)) {
                report.disturbed.push(words);
                return keeper.forget(CURRENT);
            }
        }
        turns.retain(|turn| !turn.name.as_ref().is_some_and(|name| refused.contains(name)));
        let why = "it is on offer, and the kernel did not change over to it";
        report.skipped.extend(refused.into_iter().map(|what| Skipped { what, why: why.to_owned() }));
    }
    Ok(())
}

impl Turn {
    fn new(name: Option<String>) -> Turn {
        Turn { kinds: Kinds::new(name.as_deref()), name, ways: None }
    }

    fn call(&mut self, calls: u64, (root, scale): (&Root, &Scale), watch: &Watch<'_>) {
        self.ways.get_or_insert_with(|| (way(Call::ClockGettime), way(Call::Gettimeofday)));
        let name = &self.name;
        self.kinds.call(calls, scale, watch, || current(root) == *name);
    }
}

impl Report {
    fn fill(&mut self, turns: Vec<Turn>, calls: u64) {
        for turn in turns {
            let Some((clock_gettime, gettimeofday)) = turn.ways else {
                let what = turn.name.unwrap_or_default();
                self.skipped.push(Skipped { what, why: "the run ended before its turn".to_owned() });
                continue;
            };
            let costs = turn.kinds.finish(calls);
            let in_the_loop =
                costs.iter().find(|samples| samples.conditions.get("call").is_some_and(|call| call == "gettimeofday"));
            // The time of 100 million calls, from the picoseconds of one call.
            let loop_100m_s =
                in_the_loop.and_then(|samples| samples.histogram.quantile(0.5)).map(|ps| ps as f64 * 1e8 / 1e12);
            let first_s = self.sources.first().map_or(loop_100m_s, |first| first.loop_100m_s);
            let loop_ratio =
                loop_100m_s.zip(first_s).filter(|(_, first)| *first > 0.0).map(|(ours, first)| ours / first);
            self.sources.push(Source {
                source: turn.name,
                clock_gettime,
                gettimeofday,
                costs,
                loop_100m_s,
                loop_ratio,
            });
        }
    }
}

fn current(root: &Root) -> Option<String> {
    Some(root.text(CURRENT).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

fn changed(root: &Root, ours: Option<&str>) -> Option<String> {
    let now = current(root);
    if now.as_deref() == ours {
        return None;
    }
    let or_unknown = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
    Some(format!(
        "somebody else changed the clock source from {} to {} meanwhile; it is left so",
        or_unknown(ours),
        or_unknown(now.as_deref())
    ))
}

/// How a call is served under the current source.
fn way(call: Call) -> ClockPath {
    match clock_calls::enters_the_kernel(call) {
        Ok(true) => ClockPath::SystemCall,
        Ok(false) => ClockPath::UserSpace,
        Err(Errno::NOSYS) => ClockPath::Unknown("this is not written for this processor".to_owned()),
        Err(errno) => ClockPath::Unknown(format!("a thread that may not make the system call: {errno}")),
    }
}
