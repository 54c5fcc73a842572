//! How much a busy thread slows another thread: on the sibling of its core, and on another core.
//! Hypervisors often hide which CPUs are siblings, but two CPUs that share a core still slow each other. This reveals the siblings.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::Root;
use evenkeel_sys::tsc::Scale;
use evenkeel_sys::{CpuSet, chain, clock};
use serde::Serialize;

use super::chain::ticks_of;
use super::counters::khz;
use super::settings::Settings;
use crate::pinned;
use crate::{Lost, MeterError, Samples, Unit, Watch};

/// The number of rounds of one batch: some 20,000 cycles.
const ROUNDS: u64 = 1500;
/// How often each state is measured: alone and together in turn.
const TURNS: usize = 3;
/// A CPU seems to share its core if it does less than this share of the work that it does alone.
/// Two cores of one chip affect each other only through their clock, by some percent.
const SHARED_BELOW: f64 = 0.8;

/// Two CPUs that were busy together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SiblingPair {
    /// The CPU whose work is measured.
    pub cpu: usize,
    /// The other CPU, which is busy at the same time.
    pub other_cpu: usize,
    /// Whether the kernel reports that the two CPUs share a core.
    pub reported_siblings: bool,
    /// Additions per millisecond while the meter's threads do not use the other CPU.
    pub alone_khz: Samples,
    /// Additions per millisecond while the other CPU is busy.
    pub together_khz: Samples,
    /// Median together divided by median alone: 1 means no effect.
    pub together_to_alone: Option<f64>,
    /// Whether the two CPUs seem to share a core, by `together_to_alone`. None without that ratio.
    pub seem_siblings: Option<bool>,
}

/// The siblings of this machine.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Siblings {
    /// Whether the kernel reports any siblings.
    pub are_reported: bool,
    /// The pairs that were measured, reported siblings first.
    pub pairs: Vec<SiblingPair>,
    /// Pairs that were not measured.
    pub lost: Lost,
}

pub(crate) fn measure(
    cpus: &[usize],
    settings: &Settings,
    scale: &Scale,
    root: &Root,
    watch: &Watch<'_>,
) -> Result<Siblings, MeterError> {
    let groups = cpus.iter().map(|cpu| (*cpu, reported_siblings(root, *cpu))).collect::<Vec<_>>();
    let pairs = pairs(&groups);
    let mut seen = Siblings { are_reported: pairs.iter().any(|pair| pair.2), ..Siblings::default() };
    for (at, (cpu, other_cpu, reported_siblings)) in pairs.iter().take(settings.pairs_max).enumerate() {
        if watch.stopped() {
            break;
        }
        watch.progress(at as f64 / pairs.len().min(settings.pairs_max) as f64, "two CPUs at once");
        seen.pairs.push(pair(*cpu, *other_cpu, *reported_siblings, settings.each_ns, scale, watch)?);
    }
    seen.lost = Lost::new((pairs.len() - seen.pairs.len()) as u64, "only the first pairs are measured");
    Ok(seen)
}

/// The pairs to measure: each CPU with its reported siblings once, and the first CPU with all others.
fn pairs(groups: &[(usize, CpuSet)]) -> Vec<(usize, usize, bool)> {
    let mut pairs = Vec::new();
    for (cpu, siblings) in groups {
        let others = groups.iter().map(|(other, _)| *other).filter(|other| other > cpu && siblings.contains(*other));
        pairs.extend(others.map(|other| (*cpu, other, true)));
    }
    if let Some((first, siblings)) = groups.first() {
        let others =
            groups.iter().map(|(other, _)| *other).filter(|other| other != first && !siblings.contains(*other));
        // Put one pair of each kind near the front, however many siblings there are.
        let at = pairs.len().min(2);
        let rest = pairs.split_off(at);
        pairs.extend(others.map(|other| (*first, other, false)));
        let strangers = pairs.split_off(pairs.len().min(at + 2));
        pairs.extend(rest);
        pairs.extend(strangers);
    }
    pairs
}

fn reported_siblings(root: &Root, cpu: usize) -> CpuSet {
    let text = root.text(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    text.ok().and_then(|text| CpuSet::parse_list(&text)).unwrap_or_default()
}

fn pair(
    cpu: usize,
    other_cpu: usize,
    reported_siblings: bool,
    for_ns: u64,
    scale: &Scale,
    watch: &Watch<'_>,
) -> Result<SiblingPair, MeterError> {
    let named = |state: &str| {
        let conditions = [("cpu", cpu.to_string()), ("beside", other_cpu.to_string()), ("state", state.to_owned())];
        Samples::new("additions_khz", Unit::Khz, conditions)
    };
    let (mut alone_khz, mut together_khz) = (named("alone"), named("together"));
    let turn_ns = for_ns / (2 * TURNS as u64);
    for _ in 0..TURNS {
        pinned::on_cpu(cpu, || work(turn_ns, scale, watch, &mut alone_khz))?;
        let over = AtomicBool::new(false);
        let rates = pinned::at_once(&[Some(cpu), Some(other_cpu)], |turn| {
            let mut samples = named("together");
            if turn == 0 {
                work(turn_ns, scale, watch, &mut samples);
                over.store(true, Ordering::Relaxed);
            } else {
                while !over.load(Ordering::Relaxed) {
                    chain::wide(ROUNDS);
                }
            }
            samples
        })?;
        if let Some(samples) = rates.first() {
            together_khz.histogram.merge(&samples.histogram);
        }
    }
    let median = |samples: &Samples| samples.histogram.summary().map(|summary| summary.p50 as f64);
    let together_to_alone =
        median(&together_khz).zip(median(&alone_khz)).map(|(together, alone)| together / alone.max(1.0));
    let seem_siblings = together_to_alone.map(|ratio| ratio < SHARED_BELOW);
    Ok(SiblingPair { cpu, other_cpu, reported_siblings, alone_khz, together_khz, together_to_alone, seem_siblings })
}

fn work(for_ns: u64, scale: &Scale, watch: &Watch<'_>, samples: &mut Samples) {
    let until_ns = clock::monotonic_ns() + for_ns;
    while clock::monotonic_ns() < until_ns && !watch.stopped() {
        let ticks = ticks_of(|| chain::wide(ROUNDS));
        samples.record(khz(ROUNDS * chain::WIDE_ADDS_PER_ROUND, ticks, scale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lists: &[&str]) -> Vec<(usize, CpuSet)> {
        lists.iter().enumerate().map(|(cpu, list)| (cpu, CpuSet::parse_list(list).unwrap())).collect()
    }

    /// The pairs of a captured host: their number, the number of reported siblings among them, and the first four pairs.
    #[test]
    fn pairs_of_captured_hosts() {
        for (host, count, reported, first) in [
            ("firecracker-2vcpu-6.18", 1, 0, &[(0, 1, false)][..]),
            ("qemu-1cpu-6.1", 0, 0, &[]),
            ("qemu-as-bare-metal-2-nodes-6.1", 22, 8, &[(0, 1, true), (2, 3, true), (0, 2, false), (0, 3, false)]),
            ("qemu-128cpu-6.1", 190, 64, &[(0, 1, true), (2, 3, true), (0, 2, false), (0, 3, false)]),
            ("qemu-nosmt-6.1", 3, 0, &[(0, 2, false), (0, 4, false), (0, 6, false)]),
            ("qemu-arm64-4cpu-6.1", 3, 0, &[(0, 1, false), (0, 2, false), (0, 3, false)]),
        ] {
            let path = format!("{}/../../hosts/{host}.txt", env!("CARGO_MANIFEST_DIR"));
            let root =
                Root::captured(evenkeel_hostfs::Capture::parse(&std::fs::read_to_string(path).unwrap()).unwrap());
            let online = CpuSet::parse_list(&root.text("/sys/devices/system/cpu/online").unwrap()).unwrap();
            let groups: Vec<_> = online.iter().map(|cpu| (cpu, reported_siblings(&root, cpu))).collect();
            let pairs = pairs(&groups);
            let seen = (pairs.len(), pairs.iter().filter(|pair| pair.2).count());
            assert_eq!((seen, &pairs[..pairs.len().min(4)]), ((count, reported), first), "{host}");
        }
    }

    #[test]
    fn both_kinds_of_pair_are_among_the_first() {
        assert_eq!(pairs(&groups(&["0", "1"])), [(0, 1, false)]);
        assert_eq!(pairs(&groups(&["0-1", "0-1"])), [(0, 1, true)]);
        let eight = pairs(&groups(&["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"]));
        let reported: Vec<_> = eight.iter().filter(|pair| pair.2).collect();
        assert_eq!(eight[..4], [(0, 4, true), (1, 5, true), (0, 1, false), (0, 2, false)]);
        assert_eq!((eight.len(), reported.len()), (10, 4), "{eight:?}");
        assert_eq!(pairs(&[]), []);
    }
}
