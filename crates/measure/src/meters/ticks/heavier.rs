//! Loops that appear only in the work of wakes: among wakes of several kinds, the heavier wakes may be ticks.

use evenkeel_stats::{median, quantile};

use super::account::{self, ticks};
use super::finer::HEAVIER;
use super::tempo::{self, Tempo};
use super::track::{Beat, Followed};

/// A followed loop and a found loop are the same if their rates differ by less than this share.
const FOLLOWED_OFF_MAX: f64 = 0.005;
/// A loop is slower than another if its rate is at most this share of the other loop's rate.
const SLOWER_MAX: f64 = 0.8;
/// A rate that appears only in the work of wakes must have a tick at this share of its due times.
const CLEAR_PRESENCE: f64 = 0.85;
/// The minimum share of the work in the wakes above a gap, and the minimum factor of a gap.
const MOST_WORK: f64 = 0.5;
const GAP_MIN: f64 = 2.0;
/// The maximum number of ticks whose work is searched for a slower rhythm, and the required clarity.
const RHYTHM_TICKS_MAX: usize = 1024;
const RHYTHM_MIN: f64 = 8.0;
const RATE_MIN_HZ: f64 = 1.0;

/// Whether a rate that appears only in the work of wakes has enough ticks.
pub(super) fn is_clear(tempo: &Tempo) -> bool {
    tempo.presence >= CLEAR_PRESENCE
}

/// A slower loop of a known rate among the wakes of a poll, whose ticks are heavier than the other wakes.
pub(super) fn slower_at(beats: &[Beat], polls: &[Beat], hz: f64) -> Option<(Tempo, Followed)> {
    let tempo = tempo::at_rate(beats, hz).filter(is_clear)?;
    let (tempo, followed) = account::keeps(beats, &tempo)?;
    let ticks: Vec<u64> = followed.slots.iter().filter_map(|slot| Some(beats[slot.beat()?].at_ns)).collect();
    let work = |is_tick: bool| {
        let of = polls.iter().filter(|poll| ticks.binary_search(&poll.at_ns).is_ok() == is_tick);
        median(&of.map(|poll| poll.weight).collect::<Vec<_>>())
    };
    (work(true)? >= HEAVIER * work(false)?).then_some((tempo, followed))
}

/// A slower loop that contains the heavier ticks, as in a server that polls four times per tick.
pub(super) fn slower_by_work(beats: &[Beat], fast: &Tempo) -> Option<(Tempo, Followed)> {
    let thresholds = [work_threshold(beats), gap_in_work(beats)];
    let slower = |threshold| above(beats, threshold).filter(|(slow, _)| slow.hz() <= SLOWER_MAX * fast.hz());
    thresholds.into_iter().flatten().find_map(slower)
}

/// The loop of the wakes that do most of the work, if all other wakes do much less.
/// Example: a server checks the time every 0.1 ms until a tick is due.
pub(super) fn heaviest(beats: &[Beat]) -> Option<(Tempo, Followed)> {
    above(beats, gap_in_work(beats)?).filter(|(tempo, _)| is_clear(tempo))
}

/// The loop of the wakes that do at least this much work.
fn above(beats: &[Beat], threshold: f64) -> Option<(Tempo, Followed)> {
    let heavy: Vec<Beat> = beats.iter().filter(|beat| beat.weight >= threshold).copied().collect();
    let tempo = tempo::find(&heavy).ok()?;
    let tempo = Tempo { light_ns: tempo.light_ns.max(threshold), ..tempo };
    ticks(beats, Some(&tempo)).ok().filter(|(followed, _)| (followed.hz() / tempo.hz() - 1.0).abs() < FOLLOWED_OFF_MAX)
}

/// How often some ticks are heavier than the others, by the spectrum of their work.
/// Example: a server checks the time every 5 ms, and has little to do when a tick is due.
/// Half of the ticks' rate is excluded, because many servers do additional work every second tick.
pub(super) fn work_rhythm_hz(ticks: &[Beat]) -> Option<f64> {
    let ticks = &ticks[ticks.len().saturating_sub(RHYTHM_TICKS_MAX)..];
    let (first, last) = (ticks.first()?, ticks.last()?);
    let span_s = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    let mut logs: Vec<f64> = ticks.iter().map(|tick| tick.weight.max(1.0).ln()).collect();
    let (low, high) = (quantile(&logs, 0.02)?, quantile(&logs, 0.98)?);
    logs.iter_mut().for_each(|log| *log = log.clamp(low, high));
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let power: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let (from_hz, to_hz) = (RATE_MIN_HZ.max(8.0 / span_s), 0.45 * ticks.len() as f64 / span_s);
    let step_hz = 0.25 / span_s;
    let count = ((to_hz - from_hz) / step_hz).max(0.0) as usize;
    let height = |hz: f64| {
        let (mut cos, mut sin) = (0.0, 0.0);
        for (tick, log) in ticks.iter().zip(&logs) {
            let turn = (hz * (tick.at_ns - first.at_ns) as f64 / 1e9).fract() * std::f64::consts::TAU;
            cos += (log - mean) * turn.cos();
            sin += (log - mean) * turn.sin();
        }
        (cos * cos + sin * sin) / power
    };
    let heights = (0..count).map(|at| from_hz + at as f64 * step_hz).map(|hz| (height(hz), hz));
    let (highest, hz) = heights.max_by(|one, other| one.0.total_cmp(&other.0))?;
    // Noise alone exceeds this limit in one of exp(RHYTHM_MIN) loops, however many rates are tried.
    (power > 0.0 && highest > (count as f64).ln() + RHYTHM_MIN).then_some(hz)
}

/// The threshold that separates light and heavy wakes. It gives the least spread of their logarithms on both sides.
fn work_threshold(beats: &[Beat]) -> Option<f64> {
    let mut logs: Vec<f64> = beats.iter().filter(|beat| beat.weight > 0.0).map(|beat| beat.weight.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let (count, sum) = (logs.len() as f64, logs.iter().sum::<f64>());
    let mean = sum / count;
    let (mut best, mut below) = ((0.0, 0), 0.0);
    for (at, log) in logs.iter().enumerate().take(logs.len().saturating_sub(1)) {
        below += log;
        let light = (at + 1) as f64;
        let apart = below / light - (sum - below) / (count - light);
        let between = light * (count - light) / (count * count) * apart * apart;
        if between > best.0 {
            best = (between, at + 1);
        }
    }
    let (between, split) = best;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count.max(1.0);
    let (light, heavy) = logs.split_at_checked(split)?;
    let ratio = (median(heavy)? - median(light)?).exp();
    let is_apart = between >= 0.6 * variance && ratio >= HEAVIER && heavy.len() >= tempo::TICKS_MIN;
    is_apart.then(|| ((light[light.len() - 1] + heavy[0]) / 2.0).exp())
}

/// The widest gap in the work of wakes, if the wakes above the gap do most of the work.
/// Below the gap there may be several kinds of wakes, as in a server whose runtime wakes by itself and that also serves packets.
/// No single threshold then separates two groups well.
fn gap_in_work(beats: &[Beat]) -> Option<f64> {
    let mut weights: Vec<f64> = beats.iter().map(|beat| beat.weight).filter(|weight| *weight > 0.0).collect();
    weights.sort_unstable_by(|one, other| other.total_cmp(one));
    let (all, mut above) = (weights.iter().sum::<f64>(), 0.0);
    let mut widest = (GAP_MIN, None);
    for (at, pair) in weights.windows(2).enumerate() {
        above += pair[0];
        let factor = pair[0] / pair[1];
        if at + 1 >= tempo::TICKS_MIN && above >= MOST_WORK * all && factor > widest.0 {
            widest = (factor, Some((pair[0] * pair[1]).sqrt()));
        }
    }
    widest.1
}
