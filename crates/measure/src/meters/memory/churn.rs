//! Measures many threads that allocate and free.
//! The threads do the same work on newly mapped memory, on reused memory, and on memory from the allocator.
//! Each newly mapped page is a page fault.
//! While one thread faults, other threads of its process that map and unmap may have to wait.
//! On one machine with 40 CPUs these waits cut a server's work to a thirtieth.

use std::hint::black_box;

use evenkeel_sys::Usage;
use evenkeel_sys::mapping::{Mapping, Pages};
use serde::Serialize;

use super::windows::Windows;
use crate::{MeterError, Samples, Unit, Watch};

/// The size of a record. It is well above the size from which allocators use mmap.
pub const CHUNK_BYTES: usize = 512 << 10;
const CHUNK_WORDS: usize = CHUNK_BYTES / size_of::<u64>();
/// The number of searches in each record.
const SEARCHES: u64 = 32;
const WINDOW_NS: u64 = 50_000_000;
/// The number of turns of each source, interleaved with the others.
const TURNS: usize = 2;

/// Where a record's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// Memory that is mapped and unmapped for each record.
    Fresh,
    /// One buffer for all records.
    #[serde(rename = "kept")]
    Reused,
    /// Memory from this program's allocator, freed after each record.
    Allocator,
}

impl Allocation {
    /// The name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Allocation::Fresh => "fresh",
            Allocation::Reused => "kept",
            Allocation::Allocator => "allocator",
        }
    }
}

/// The result of one source.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Churn {
    /// Where the memory came from.
    pub way: Allocation,
    /// The number of threads, not pinned to CPUs.
    pub threads: usize,
    /// The size of a record.
    pub chunk_bytes: usize,
    /// Records per second of all threads.
    pub records_per_s: Samples,
    /// Page faults per second of all threads (minor faults, from getrusage(2)).
    pub faults_per_s: Samples,
    /// Page faults per record.
    pub faults_per_record: f64,
    /// The kernel's share of the threads' CPU time, from 0 to 1.
    pub system_share: f64,
}

enum Store {
    Fresh,
    Reused(Mapping),
    Allocator,
}

struct Worker {
    template: Vec<u64>,
    store: Store,
    before: Usage,
    seed: u64,
}

/// Measures the sources in turn, for `for_ns` in all.
pub(crate) fn measure(threads: usize, for_ns: u64, watch: &Watch<'_>) -> Result<Vec<Churn>, MeterError> {
    let ways = [Allocation::Fresh, Allocation::Reused, Allocation::Allocator];
    let windows =
        Windows { count: (for_ns / (WINDOW_NS * (ways.len() * TURNS) as u64)).max(1) as usize, each_ns: WINDOW_NS };
    let mut tallies = ways.map(|way| ChurnSamples::new(way, threads));
    for turn in 0..TURNS * ways.len() {
        if watch.stopped() {
            break;
        }
        watch.progress(turn as f64 / (TURNS * ways.len()) as f64, "page faults");
        // Measure forwards and then backwards, so that drift of the machine affects all sources alike.
        let at = if turn < ways.len() { turn } else { TURNS * ways.len() - 1 - turn };
        let counted = windows.run(&vec![None; threads], watch, |turn| worker(ways[at], turn), record)?;
        tallies[at].add(windows, &counted.windows, counted.whole);
    }
    Ok(tallies.map(ChurnSamples::finish).into())
}

fn worker(way: Allocation, turn: usize) -> Result<Worker, MeterError> {
    let refused = |errno| MeterError::refused("prepare to count page faults", errno);
    let store = match way {
        Allocation::Fresh => Store::Fresh,
        Allocation::Reused => Store::Reused(Mapping::new(CHUNK_BYTES, Pages::Unadvised).map_err(refused)?),
        Allocation::Allocator => Store::Allocator,
    };
    let template = (0..CHUNK_WORDS as u64).collect();
    Ok(Worker { template, store, before: Usage::of_this_thread().map_err(refused)?, seed: turn as u64 })
}

/// Processes one record: takes memory, copies the template into it, looks up some words, and frees the memory.
/// Returns records, faults, kernel time and total time since the last call.
fn record(worker: &mut Worker) -> [u64; 4] {
    let Worker { template, store, before, seed } = worker;
    let done = match store {
        Store::Fresh => match Mapping::new(CHUNK_BYTES, Pages::Unadvised) {
            Ok(mut mapping) => fill_and_search(mapping.words_mut(), template, seed),
            // Another process took the last memory. Skip the record, but do not end the process.
            Err(_) => 0,
        },
        Store::Reused(mapping) => fill_and_search(mapping.words_mut(), template, seed),
        Store::Allocator => {
            let mut words = template.clone();
            search(&mut words, seed)
        }
    };
    let now = Usage::of_this_thread().unwrap_or(*before);
    let made = now.since(before);
    *before = now;
    [done, made.minor_faults, made.system_ns, made.system_ns + made.user_ns]
}

fn fill_and_search(words: &mut [u64], template: &[u64], seed: &mut u64) -> u64 {
    words.copy_from_slice(template);
    search(words, seed)
}

fn search(words: &mut [u64], seed: &mut u64) -> u64 {
    let words = black_box(words);
    for _ in 0..SEARCHES {
        // Any pseudo-random spread of the searched words works. The factor is from Knuth's generator MMIX.
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        black_box(words.binary_search(&(*seed % CHUNK_WORDS as u64)).is_ok());
    }
    1
}

struct ChurnSamples {
    churn: Churn,
    sums: [u64; 4],
}

impl ChurnSamples {
    fn new(way: Allocation, threads: usize) -> ChurnSamples {
        let named =
            |name, unit| Samples::new(name, unit, [("way", way.name().to_owned()), ("threads", threads.to_string())]);
        let churn = Churn {
            way,
            threads,
            chunk_bytes: CHUNK_BYTES,
            records_per_s: named("records_per_s", Unit::PerS),
            faults_per_s: named("faults_per_s", Unit::PerS),
            faults_per_record: 0.0,
            system_share: 0.0,
        };
        ChurnSamples { churn, sums: [0; 4] }
    }

    fn add(&mut self, windows: Windows, each: &[[u64; 4]], whole: [u64; 4]) {
        for [records, faults, ..] in each {
            self.churn.records_per_s.record(windows.per_s(*records));
            self.churn.faults_per_s.record(windows.per_s(*faults));
        }
        self.sums.iter_mut().zip(whole).for_each(|(sum, count)| *sum += count);
    }

    fn finish(mut self) -> Churn {
        let [records, faults, system_ns, cpu_ns] = self.sums;
        let ratio = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        self.churn.faults_per_record = ratio(faults, records);
        self.churn.system_share = ratio(system_ns, cpu_ns);
        self.churn
    }
}
