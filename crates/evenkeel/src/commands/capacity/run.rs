//! Runs a search: measures one number of sessions after another, without and with the compared settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_fleet::capacity::{Ended, Limit, Search, Window};
use evenkeel_workload::Sample;

use super::compared::{self, ComparedHost, of_workload};
use super::log::Log;
use super::machine::Counters;
use super::sessions::{Sessions, Times};
use crate::failure::Failure;
use crate::report;
use crate::show::Out;

/// The wait before a window if neither the sessions nor the settings have changed since the last window.
const SETTLE: Duration = Duration::from_millis(100);

/// One side of the comparison: without or with the settings.
pub(super) struct Side {
    pub(super) with_settings: bool,
    pub(super) search: Search,
    pub(super) windows: Vec<Window>,
    /// Why the search of this side ended. `None` while it still measures windows.
    pub(super) ended: Option<Ended>,
}

/// A running search.
pub(super) struct Run<'a> {
    pub(super) out: &'a Out,
    pub(super) stop: &'a Arc<AtomicBool>,
    pub(super) sessions: Sessions<'a>,
    pub(super) arms: Option<ComparedHost<'a>>,
    pub(super) sides: Vec<Side>,
    pub(super) limits: &'a [Limit],
    pub(super) window: Duration,
    /// The wait before a window after sessions began or ended, or settings changed.
    pub(super) settle: Duration,
    pub(super) log: Option<Log>,
    /// Events that become caveats. Each text is stored only once.
    pub(super) notes: Vec<String>,
}

/// The maximum number of stored notes.
const NOTES_MAX: usize = 20;

impl Run<'_> {
    /// Measures windows until every side has its proof, the time is used up, or the user stops the search.
    pub(super) fn search(&mut self, until: Instant) -> Result<(), Failure> {
        while let Some((at, wanted)) = self.next() {
            let ended = match (self.stop.load(Ordering::Relaxed), Instant::now() >= until) {
                (true, _) => Some(Ended::Stopped),
                (false, true) => Some(Ended::Budget),
                (false, false) => self.step(at, wanted)?,
            };
            match ended {
                Some(ended @ Ended::NoStart { .. }) => self.sides[at].ended = Some(ended),
                Some(ended) => self.sides.iter_mut().for_each(|side| {
                    side.ended.get_or_insert_with(|| ended.clone());
                }),
                None => {}
            }
        }
        Ok(())
    }

    /// The side of the next window, and its number of sessions.
    /// The sides alternate, and the side that begins a pair alternates too.
    /// So a machine that changes slowly favours neither side.
    fn next(&mut self) -> Option<(usize, u32)> {
        for side in self.sides.iter_mut().filter(|side| side.ended.is_none()) {
            if side.search.next().is_none() {
                side.ended = Some(Ended::Proven);
            }
        }
        let open = self.sides.iter().enumerate().filter(|(_, side)| side.ended.is_none());
        let (at, side) = open.min_by_key(|(at, side)| {
            let taken = side.windows.len();
            (taken, if taken % 2 == 0 { *at } else { usize::MAX - at })
        })?;
        Some((at, side.search.next()?))
    }

    /// Measures one window. If the search of the side ended with this window, returns why.
    fn step(&mut self, at: usize, wanted: u32) -> Result<Option<Ended>, Failure> {
        let before = self.sessions.count();
        if let Err(failure) = self.sessions.set(wanted) {
            let session = self.sessions.count() + 1;
            return match (self.stop.load(Ordering::Relaxed), session) {
                (true, _) => Ok(Some(Ended::Stopped)),
                (false, 1) => Err(failure),
                (false, session) => Ok(Some(Ended::NoStart { session, why: failure.message() })),
            };
        }
        let with_settings = self.sides[at].with_settings;
        let switched = match &mut self.arms {
            None => Ok(false),
            Some(arms) => arms.set(with_settings, wanted > before, &mut self.sessions),
        };
        let is_switched = match switched {
            Ok(is_switched) => is_switched,
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(Some(Ended::Stopped)),
            Err(error) => return Err(compared::failed(error)),
        };
        let settle = if wanted != before || is_switched { self.settle } else { SETTLE };
        let Some(window) = self.measure(wanted, with_settings, settle)? else { return Ok(Some(Ended::Stopped)) };
        if let Some(log) = &mut self.log {
            log.add(&window)?;
        }
        let side = &mut self.sides[at];
        side.search.add(wanted, window.is_held(self.limits));
        if !self.out.is_json() {
            let with = self.arms.is_some().then_some(with_settings);
            self.out.warn(&report::capacity::progress(&window, with, self.limits, &side.search));
        }
        side.windows.push(window);
        Ok(None)
    }

    /// Measures one window of all sessions. Returns `None` if the user stopped it.
    fn measure(&mut self, sessions: u32, with_settings: bool, settle: Duration) -> Result<Option<Window>, Failure> {
        let before = Counters::read()?;
        let samples = self.sessions.samples(Times { settle, window: self.window });
        let machine = Counters::read()?.since(&before);
        let changed = self.arms.as_ref().map(ComparedHost::changed).unwrap_or_default();
        changed.into_iter().for_each(|what| self.note(format!("another program changed {what}")));
        let samples = match samples {
            Ok(samples) => samples,
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(error) if sessions == 1 => return Err(of_workload(error)),
            Err(error) => {
                self.note(format!("a session failed in a window, which counts as broken: {error}"));
                Vec::new()
            }
        };
        let worst = self.limits.iter().map(|limit| worst(limit, &samples)).collect();
        let cpus: Option<Vec<f64>> = samples.iter().map(|sample| sample.get("cpu_share").copied()).collect();
        let session_cpus =
            cpus.filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.iter().sum::<f64>() / cpus.len() as f64);
        Ok(Some(Window { with_settings, sessions, worst, session_cpus, machine }))
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The value of the worst session. `None` if any session has no value.
fn worst(limit: &Limit, samples: &[Sample]) -> Option<f64> {
    let values: Option<Vec<f64>> = samples.iter().map(|sample| sample.get(&limit.metric).copied()).collect();
    values?.into_iter().reduce(|a, b| limit.worse(a, b))
}
