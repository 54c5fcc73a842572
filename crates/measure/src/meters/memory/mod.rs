//! Measures how memory affects a server: the latency of a load by working set,
//! page size and NUMA node, the bandwidth, and the cost of threads that allocate and free.

mod bandwidth;
mod churn;
mod latency;
mod nodes;
mod room;
mod windows;

use evenkeel_hostfs::Root;
use serde::Serialize;

pub use bandwidth::{Bandwidth, Kind};
pub use churn::{Allocation, CHUNK_BYTES, Churn};
pub use latency::{SMALLEST_BYTES, WorkingSet, parse_huge_bytes, sizes};
pub use nodes::{Nodes, Pair};
pub use room::Room;

use crate::pinned;
use crate::{Lost, MeterError, Watch};

/// The maximum number of threads that allocate and free. More CPUs do not change the result.
const THREADS_MAX: usize = 128;
/// The bounds of each thread's working set for bandwidth.
const EACH_BYTES: std::ops::RangeInclusive<usize> = 4 << 20..=128 << 20;

/// The settings of the memory meter.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest working set, in bytes. It is reduced if the machine does not have twice as much available.
    pub largest_bytes: usize,
    /// How long to measure each working set, in nanoseconds, for both page sizes together.
    pub each_ns: u64,
    /// How long to measure each kind of bandwidth, in nanoseconds.
    pub bandwidth_ns: u64,
    /// How long to measure allocating and freeing, in nanoseconds, for all sources together.
    pub churn_ns: u64,
    /// The CPU for latency. None means the first allowed CPU.
    pub cpu: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            largest_bytes: 512 << 20,
            each_ns: 200_000_000,
            bandwidth_ns: 300_000_000,
            churn_ns: 3_000_000_000,
            cpu: None,
        }
    }
}

/// A cache of the measured CPU, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// The level. Level 1 is the nearest to the core.
    pub level: u32,
    /// The kind: `Data` or `Unified`.
    pub kind: String,
    /// The cache's size, in bytes.
    pub size_bytes: u64,
}

/// The report of the memory meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The CPU for latency.
    pub cpu: usize,
    /// The data caches of that CPU. A virtual machine may show the caches of its host, and have only a part of them.
    pub caches: Vec<Cache>,
    /// The memory that the meter could use.
    pub room: Room,
    /// The system's setting of transparent huge pages (always, madvise, never).
    /// Missing without such a setting. The meter does not change the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages_setting: Option<String>,
    /// Latency by working set, with the smallest set first.
    pub latency: Vec<WorkingSet>,
    /// Latency between NUMA nodes.
    pub nodes: Nodes,
    /// Bandwidth.
    pub bandwidth: Vec<Bandwidth>,
    /// Allocating and freeing.
    pub churn: Vec<Churn>,
    /// Working sets that were left out.
    pub lost: Lost,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if the process may not run on the CPU, or if the memory does not suffice for the smallest working set.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    let cpus = pinned::allowed()?;
    let Some(cpu) = settings.cpu.or_else(|| cpus.first().copied()) else {
        return Err(MeterError::not_possible("measure memory", "there is no CPU that we may run on"));
    };
    let room = Room::read(&root)?;
    // The meter holds two rings at a time, one per page size, and 32 bits of order per line.
    let most_bytes = usize::try_from(room.half_bytes / 2).unwrap_or(usize::MAX);
    let wanted = sizes(settings.largest_bytes);
    let fitting = sizes(settings.largest_bytes.min(most_bytes));
    let (Some(largest), left_out) = (fitting.last().copied(), wanted.len() - fitting.len()) else {
        let why = format!("{} bytes are left ({}), too few to take any", room.available_bytes, room.limited_by);
        return Err(MeterError::not_possible("measure memory", why));
    };
    let mut latency = Vec::new();
    let latency_part = |part: &Watch<'_>| -> Result<(), MeterError> {
        for (at, bytes) in fitting.iter().enumerate() {
            if part.stopped() {
                break;
            }
            part.progress(at as f64 / fitting.len() as f64, "latency");
            let measure = || latency::measure(*bytes, settings.each_ns, cpu, &root, part);
            latency.push(pinned::on_cpu(cpu, measure)??);
        }
        Ok(())
    };
    watch.part(0.0, 0.6, latency_part)?;
    let each_ns = settings.each_ns;
    let nodes = watch.part(0.6, 0.65, |part| nodes::measure(largest.min(256 << 20), each_ns, &root, part))?;
    let each_bytes = (most_bytes / cpus.len().max(1)).clamp(*EACH_BYTES.start(), *EACH_BYTES.end());
    let may_all = most_bytes / cpus.len().max(1) >= *EACH_BYTES.start();
    let bandwidth_cpus = if may_all { &cpus[..] } else { &cpus[..1] };
    let bandwidth = watch
        .part(0.65, 0.8, |part| bandwidth::measure(bandwidth_cpus, each_bytes, settings.bandwidth_ns, &root, part))?;
    let threads = cpus.len().clamp(1, THREADS_MAX);
    let churn = watch.part(0.8, 1.0, |part| churn::measure(threads, settings.churn_ns, part))?;
    let unfinished = fitting.len() - latency.len();
    Ok(Report {
        cpu,
        caches: caches(&root, cpu),
        huge_pages_setting: huge_pages_setting(&root),
        latency,
        nodes,
        bandwidth,
        churn,
        lost: Lost::new((left_out + unfinished) as u64, &lost_why(left_out, &room)),
        room,
    })
}

fn lost_why(left_out: usize, room: &Room) -> String {
    match left_out {
        0 => "stopped before the larger working sets".to_owned(),
        _ => format!(
            "the larger working sets would take more than half of the memory that is left ({})",
            room.limited_by
        ),
    }
}

/// The selected word of `always [madvise] never`.
fn huge_pages_setting(root: &Root) -> Option<String> {
    let text = root.text("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, chosen) = text.split_once('[')?;
    Some(chosen.split_once(']')?.0.to_owned())
}

fn caches(root: &Root, cpu: usize) -> Vec<Cache> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let names = root.entries(&folder).unwrap_or_default();
    let cache = |name: &String| {
        let text = |file: &str| root.text(&format!("{folder}/{name}/{file}")).ok();
        let size = text("size")?;
        let size_kib: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        let kind = text("type")?.trim().to_owned();
        Some(Cache { level: text("level")?.trim().parse().ok()?, kind, size_bytes: size_kib.checked_mul(1024)? })
    };
    let indexes = names.iter().filter(|name| name.starts_with("index"));
    let mut caches: Vec<Cache> = indexes.filter_map(cache).filter(|cache| cache.kind != "Instruction").collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}
