//! The CPU use of a machine over time, from a store of `evenkeel watch`.

use std::path::Path;

use evenkeel_fleet::credits::{StoredTime, Trace};
use evenkeel_watch::store::Replay;
use evenkeel_watch::{Model, Sample};

use crate::exit;
use crate::failure::Failure;
use crate::store_failure::store_failure;

/// A longer time between two samples of a store shows only the mean CPU use. `watch` begins a block at least every minute.
const COARSE_S: f64 = 600.0;

/// What the samples show so far.
#[derive(Default)]
struct Use {
    before: Option<Sample>,
    stretches: Vec<(f64, f64)>,
    times: StoredTime,
    /// Stolen and all CPU time, in seconds.
    stolen_s: f64,
    all_s: f64,
}

/// Reads the CPU use from a store: one sample of each block, which is about one a minute.
///
/// # Errors
/// If the store can't be read, or has less than two samples of one boot.
pub(super) fn read(place: &Path) -> Result<Trace, Failure> {
    let mut replay = Replay::open(place).map_err(store_failure)?;
    let mut found = Use::default();
    replay.each_block(|sample| found.add(sample));
    let steal = found.stolen_s / found.all_s.max(f64::MIN_POSITIVE);
    let trace = Trace::new(found.stretches).map(|trace| trace.with_steal(steal).with_stored(found.times));
    trace.ok_or_else(|| {
        let tried = format!("read the CPU use from {}", place.display());
        Failure::text(exit::WRONG_USE, tried, "it has less than two samples with CPU times of one boot")
            .hint("let `evenkeel watch --store DIR` run for a day, or better a week")
    })
}

impl Use {
    fn add(&mut self, after: Sample) {
        if let Some(before) = &self.before {
            match between(before, &after) {
                Some(one) if one.seconds > 0.0 => {
                    self.stretches.push((one.seconds, one.cpus_used));
                    self.stolen_s += one.seconds * one.cpus_stolen;
                    self.all_s += one.seconds * one.cpus;
                    if one.seconds > COARSE_S {
                        self.times.coarse_s += one.seconds;
                    }
                }
                _ => {
                    let ns = after.at.realtime_ns.saturating_sub(before.at.realtime_ns);
                    self.times.left_out_s += ns as f64 / 1e9;
                }
            }
        }
        self.before = Some(after);
    }
}

/// The CPU use between two samples.
struct Between {
    seconds: f64,
    cpus: f64,
    cpus_used: f64,
    cpus_stolen: f64,
}

/// None if the machine booted between the samples, or if the CPU times are unknown.
fn between(before: &Sample, after: &Sample) -> Option<Between> {
    let model = Model::from_samples(before, after);
    let all = model.host.all.known()?;
    let (then, now) = before.host.stat.as_ref().ok().zip(after.host.stat.as_ref().ok())?;
    // The shares are those of the CPUs that were online at both samples.
    let online = now.cpus.keys().filter(|cpu| then.cpus.contains_key(cpu)).count() as f64;
    let cpus = online * all.counted.min(1.0);
    Some(Between {
        seconds: model.elapsed_ns as f64 / 1e9,
        cpus,
        cpus_used: all.busy() * cpus,
        cpus_stolen: all.steal * cpus,
    })
}
