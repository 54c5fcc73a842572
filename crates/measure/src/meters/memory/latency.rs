//! Memory latency: the pointers form a random ring over all lines of a working set, so that nothing can predict the next address.
//! Small and huge pages alternate.

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::amount;
use evenkeel_sys::clock;
use evenkeel_sys::mapping::{Mapping, Pages};
use evenkeel_sys::ring::{LINE_BYTES, Ring};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::room::Room;
use crate::{MeterError, Samples, Unit, Watch};

/// The smallest working set. It fits into every first-level cache.
pub const SMALLEST_BYTES: usize = 16 << 10;
/// The length of a window. It is long compared with a clock reading, and short compared with the time between interruptions.
const WINDOW_NS: u64 = 200_000;
/// Rings of up to this many lines are walked once before the measurement. For longer rings, the initial writes to all lines were enough.
const WARMED_LINES: usize = 256 << 10;
/// The turns of a working set: small pages, huge pages, huge pages, small pages.
const TURNS: usize = 4;
/// How many bytes to touch between checks of the available memory.
const LOOKED_BYTES: usize = 64 << 20;

/// Latency of one working set.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkingSet {
    /// The size of the working set, in bytes.
    pub working_set_bytes: usize,
    /// The latency of a load with small pages.
    pub small: Samples,
    /// The latency of a load with huge pages requested.
    pub huge: Samples,
    /// The share of the working set that got huge pages, from 0 to 1.
    /// Missing if the kernel does not report the share. A set below 2 MiB can have no huge page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_share: Option<f64>,
}

impl WorkingSet {
    /// Median latency with huge pages divided by median latency with small pages. None if a quarter or more of the memory had no huge pages.
    pub fn huge_to_small(&self) -> Option<f64> {
        self.huge_share.filter(|share| *share > 0.75)?;
        let median = |samples: &Samples| samples.histogram.summary().map(|summary| summary.p50 as f64);
        Some(median(&self.huge)? / median(&self.small)?).filter(|ratio| ratio.is_finite())
    }
}

/// Working sets from the smallest, doubling up to `largest_bytes`.
pub fn sizes(largest_bytes: usize) -> Vec<usize> {
    let doubled = |bytes: &usize| bytes.checked_mul(2);
    std::iter::successors(Some(SMALLEST_BYTES), doubled).take_while(|bytes| *bytes <= largest_bytes).collect()
}

/// Measures one working set, on the calling thread.
pub(crate) fn measure(
    bytes: usize,
    for_ns: u64,
    cpu: usize,
    root: &Root,
    watch: &Watch<'_>,
) -> Result<WorkingSet, MeterError> {
    let order = order(bytes);
    let mut small = ring(Mapping::new(bytes, Pages::Small), &order, root)?;
    // A kernel without huge pages refuses the madvise call.
    let huge = Mapping::new(bytes, Pages::Huge).or_else(|_| Mapping::new(bytes, Pages::Unadvised));
    let mut huge = ring(huge, &order, root)?;
    drop(order);
    let named = |pages: &str| {
        let conditions =
            [("working_set_bytes", bytes.to_string()), ("pages", pages.to_owned()), ("cpu", cpu.to_string())];
        Samples::new("load_latency_ps", Unit::Ps, conditions)
    };
    let mut set = WorkingSet {
        working_set_bytes: bytes,
        small: named("small"),
        huge: named("huge"),
        huge_share: huge_share(root, huge.mapping()),
    };
    for turn in 0..TURNS {
        let (ring, samples) = match turn {
            0 | 3 => (&mut small, &mut set.small),
            _ => (&mut huge, &mut set.huge),
        };
        chase(ring, for_ns / TURNS as u64, samples, watch);
    }
    Ok(set)
}

/// Measures windows of loads until the time is over, but at least one window.
/// `samples` gets the mean of each window, in picoseconds per load.
pub(crate) fn chase(ring: &mut Ring, for_ns: u64, samples: &mut Samples, watch: &Watch<'_>) {
    if ring.lines() <= WARMED_LINES {
        ring.chase(ring.lines() as u64);
    }
    let first_ns = clock::monotonic_ns();
    let (mut start_ns, mut steps) = (first_ns, 1024_u64);
    loop {
        ring.chase(steps);
        let end_ns = clock::monotonic_ns();
        let took_ns = end_ns.saturating_sub(start_ns).max(1);
        if took_ns >= WINDOW_NS / 2 {
            samples.record(took_ns.saturating_mul(1000) / steps);
        } else {
            steps *= 2;
        }
        if end_ns.saturating_sub(first_ns) >= for_ns && samples.histogram.summary().is_some() || watch.stopped() {
            return;
        }
        start_ns = clock::monotonic_ns();
    }
}

/// A ring through all lines in random order. The size is the seed of the order, so that a repeated run takes the same path.
fn order(bytes: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(bytes / LINE_BYTES).unwrap_or(u32::MAX)).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(bytes as u64));
    order
}

fn ring(mapping: Result<Mapping, evenkeel_sys::Errno>, order: &[u32], root: &Root) -> Result<Ring, MeterError> {
    let refused = |errno| MeterError::refused("map memory to measure", errno);
    let mut mapping = mapping.map_err(refused)?;
    touch(&mut mapping, root)?;
    Ring::new(mapping, order).map_err(refused)
}

/// Memory of one NUMA node as a ring.
pub(crate) fn ring_on_node(bytes: usize, node: usize, root: &Root) -> Result<Ring, MeterError> {
    let refused = |errno| MeterError::refused(format!("take memory of NUMA node {node}"), errno);
    let mapping = Mapping::new(bytes, Pages::Small).map_err(refused)?;
    mapping.bind(node).map_err(refused)?;
    ring(Ok(mapping), &order(bytes), root)
}

/// Touches every page. Checks the available memory, because others may fill the machine in the meantime.
pub(crate) fn touch(mapping: &mut Mapping, root: &Root) -> Result<(), MeterError> {
    for part in mapping.words_mut().chunks_mut(LOOKED_BYTES / size_of::<u64>()) {
        let room = Room::read(root)?;
        if room.available_bytes < 2 * LOOKED_BYTES.min(size_of_val(part)) as u64 {
            let why = format!("only {} bytes are left ({})", room.available_bytes, room.limited_by);
            return Err(MeterError::not_possible("take memory to measure", why));
        }
        part.iter_mut().step_by(4096 / size_of::<u64>()).for_each(|word| *word = 1);
    }
    Ok(())
}

fn huge_share(root: &Root, mapping: &Mapping) -> Option<f64> {
    let smaps = root.text("/proc/self/smaps").ok()?;
    let huge_bytes = parse_huge_bytes(&smaps, mapping.address())?;
    Some((huge_bytes as f64 / mapping.len_bytes() as f64).min(1.0))
}

/// The huge pages of the mapping that contains an address, from `/proc/self/smaps`, in bytes.
pub fn parse_huge_bytes(smaps: &str, address: usize) -> Option<u64> {
    let mut is_in = false;
    for line in smaps.lines() {
        let range = line.split_ascii_whitespace().next().and_then(|range| range.split_once('-'));
        let ends = range.map(|(low, high)| (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16)));
        match ends {
            Some((Ok(low), Ok(high))) => is_in = (low..high).contains(&address),
            _ if is_in && line.starts_with("AnonHugePages:") => return amount(line, "AnonHugePages"),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_double_up_to_the_most() {
        assert_eq!(sizes(70_000), [16 << 10, 32 << 10, 64 << 10]);
        assert!(sizes(100).is_empty());
        assert_eq!(sizes(512 << 20).len(), 16);
    }

    #[test]
    fn an_order_has_every_line_once() {
        let mut lines = order(1 << 20);
        assert_ne!(lines[..4], [0, 1, 2, 3]);
        lines.sort_unstable();
        assert!(lines.iter().enumerate().all(|(at, line)| at == *line as usize) && lines.len() == 16384);
    }

    #[test]
    fn huge_pages_are_those_of_our_mapping() {
        let smaps = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac sd hg
7f0000400000-7f0000401000 r--p 00000000 fe:00 12 /usr/lib/a-b
AnonHugePages:         0 kB
";
        assert_eq!(parse_huge_bytes(smaps, 0x7f00_0000_0000), Some(2 << 20));
        assert_eq!(parse_huge_bytes(smaps, 0x7f00_003f_ffff), Some(2 << 20));
        assert_eq!(parse_huge_bytes(smaps, 0x7f00_0040_0000), Some(0));
        assert_eq!(parse_huge_bytes(smaps, 0x7f00_0040_1000), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,300}", address in any::<usize>()) {
            let _ = parse_huge_bytes(&text, address);
        }
    }
}
