//! Memory bandwidth: reads, writes and copies far more bytes than a core's own caches hold, with one thread and with one thread per CPU.

use evenkeel_hostfs::Root;
use evenkeel_sys::mapping::{Mapping, Pages};
use evenkeel_sys::simd_memory;
use serde::Serialize;

use super::latency;
use super::windows::Windows;
use crate::{MeterError, Samples, Unit, Watch};

/// The work between two clock readings, in words: 1 MiB.
const STEP_WORDS: usize = (1 << 20) / size_of::<u64>();
/// The length of one window.
const WINDOW_NS: u64 = 10_000_000;

/// What a thread does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads all words, and adds up the words with the widest vectors of the CPU.
    Read,
    /// Writes all words with vectors of the same width.
    Write,
    /// Copies one half over the other half. Bytes read and bytes written both count.
    Copy,
}

impl Kind {
    /// The name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Copy => "copy",
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// The kind of access.
    pub kind: Kind,
    /// The number of threads.
    pub threads: usize,
    /// The working set of each thread.
    pub each_bytes: usize,
    /// Bytes per second that all threads together read and wrote.
    /// Lines that a cache fetches before a write, or writes back later, do not count.
    pub bytes_per_s: Samples,
}

/// Measures all kinds: with one thread on the first of `cpus`, and with one thread on each of them.
pub(crate) fn measure(
    cpus: &[usize],
    each_bytes: usize,
    for_ns: u64,
    root: &Root,
    watch: &Watch<'_>,
) -> Result<Vec<Bandwidth>, MeterError> {
    let all: Vec<Option<usize>> = cpus.iter().copied().map(Some).collect();
    let mut groups = vec![&all[..all.len().min(1)]];
    if all.len() > 1 {
        groups.push(&all);
    }
    let mut seen = Vec::new();
    let kinds = [Kind::Read, Kind::Write, Kind::Copy];
    for places in &groups {
        for kind in kinds {
            watch.progress(seen.len() as f64 / (groups.len() * kinds.len()) as f64, "bandwidth");
            seen.push(one(kind, places, each_bytes, for_ns, root, watch)?);
        }
    }
    Ok(seen)
}

struct Walk {
    memory: Mapping,
    at: usize,
    turn: u64,
}

fn one(
    kind: Kind,
    places: &[Option<usize>],
    each_bytes: usize,
    for_ns: u64,
    root: &Root,
    watch: &Watch<'_>,
) -> Result<Bandwidth, MeterError> {
    let make = |_| {
        let memory = Mapping::new(each_bytes, Pages::Unadvised);
        let mut memory = memory.map_err(|errno| MeterError::refused("map memory to measure", errno))?;
        latency::touch(&mut memory, root)?;
        Ok(Walk { memory, at: 0, turn: 0 })
    };
    let windows = Windows { count: (for_ns / WINDOW_NS).max(1) as usize, each_ns: WINDOW_NS };
    let counted = windows.run(places, watch, make, |walk| [step(kind, walk)])?;
    let conditions = [("kind", kind.name().to_owned()), ("threads", places.len().to_string())];
    let mut bytes_per_s = Samples::new("bandwidth_bytes_per_s", Unit::BytesPerS, conditions);
    counted.windows.iter().for_each(|[bytes]| bytes_per_s.record(windows.per_s(*bytes)));
    Ok(Bandwidth { kind, threads: places.len(), each_bytes, bytes_per_s })
}

/// Works on the next part of the memory. Returns the number of moved bytes.
fn step(kind: Kind, walk: &mut Walk) -> u64 {
    walk.turn = walk.turn.wrapping_add(1);
    let (turn, words) = (walk.turn, walk.memory.words_mut());
    let (front, back) = words.split_at_mut(words.len() / 2);
    let whole = if kind == Kind::Copy { front.len() } else { front.len() + back.len() };
    let from = walk.at % whole;
    let to = (from + STEP_WORDS).min(whole);
    walk.at = to % whole;
    let moved_words = match kind {
        Kind::Read => {
            let words = &walk.memory.words()[from..to];
            std::hint::black_box(simd_memory::sum(words));
            words.len()
        }
        Kind::Write => {
            let words = &mut walk.memory.words_mut()[from..to];
            simd_memory::fill(words, turn);
            std::hint::black_box(&words);
            words.len()
        }
        Kind::Copy => {
            back[from..to].copy_from_slice(&front[from..to]);
            std::hint::black_box(&back);
            2 * (to - from)
        }
    };
    (moved_words * size_of::<u64>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_line() {
        for (kind, lap_bytes) in [(Kind::Read, 4 << 20), (Kind::Write, 4 << 20), (Kind::Copy, 4 << 20)] {
            let memory = Mapping::new(4 << 20, Pages::Unadvised).unwrap();
            let mut walk = Walk { memory, at: 0, turn: 6 };
            let mut moved = step(kind, &mut walk);
            while walk.at != 0 {
                moved += step(kind, &mut walk);
            }
            assert_eq!(moved, lap_bytes, "{kind:?}");
            let is_written = walk.memory.words().iter().all(|word| *word > 6);
            assert_eq!(is_written, kind == Kind::Write);
        }
    }
}
