//! The record of one CPU's gaps: a sum per cause, a histogram of all gaps, and a list of the longest or newest gaps.
//! The memory of the record does not grow with the measured time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;

use serde::{Serialize, Serializer};

use super::cause::Cause;
use crate::samples::{Lost, Samples, Unit};

/// The maximum number of threads to list by name. The gaps of further threads are added up.
const TAKERS_MAX: usize = 256;
/// The maximum number of gaps to hold as possible pauses of the whole machine until the other CPUs' gaps are known.
const SUSPECTS_MAX: usize = 1 << 14;
/// Shorter gaps are not pauses, because a hypervisor takes longer to move or copy a machine.
const SUSPECT_MIN_NS: u64 = 500_000;

/// Which gaps to list individually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The longest N of each CPU.
    Longest(usize),
    /// The newest N of each CPU.
    Newest(usize),
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// When the gap began, on the monotonic clock.
    /// If the kernel reports switches, the gap begins at the switch to the thread that ran instead.
    pub start_ns: u64,
    /// The length of the gap, in nanoseconds.
    pub length_ns: u64,
    /// The missing time right before and after the gap: the interrupt that let the other thread in, and the switches. Sums include this time.
    pub around_ns: u64,
    /// Who took the time.
    pub cause: Cause,
    /// The thread that ran instead, as `NAME (NUMBER)`, if the kernel reports it. The meter's own thread is `evenkeel itself`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<RanInstead>,
    /// The interrupt source, named as in /proc/interrupts and /proc/softirqs.
    /// If tracepoints report several sources, this is the one that took most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The part in which the thread waited for a CPU.
    pub run_delay_ns: u64,
    /// The part in which the thread neither ran nor waited.
    pub steal_ns: u64,
}

/// A thread that ran instead of the watched thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum RanInstead {
    /// The meter's own thread.
    Itself,
    /// Another thread.
    Thread {
        /// The thread's name. None if the thread ended before its name could be read.
        name: Option<String>,
        /// The thread's number.
        tid: u32,
    },
}

impl RanInstead {
    /// The key that counts the gaps of this thread. Programs with the same name count together, because a build starts hundreds of programs.
    fn name(&self) -> &str {
        match self {
            RanInstead::Itself => "evenkeel itself",
            RanInstead::Thread { name, .. } => name.as_deref().unwrap_or("ended"),
        }
    }
}

impl fmt::Display for RanInstead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RanInstead::Itself => f.write_str(self.name()),
            RanInstead::Thread { tid, .. } => write!(f, "{} ({tid})", self.name()),
        }
    }
}

impl Serialize for RanInstead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A count of gaps, with their lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sum {
    /// The number of gaps.
    pub count: u64,
    /// The total time of the gaps, in nanoseconds. For samples, only the part inside the windows.
    pub total_ns: u64,
    /// The length of the longest gap, in nanoseconds. For samples this is the whole gap, which may be longer than its window.
    pub longest_ns: u64,
}

impl Sum {
    /// Adds one gap.
    pub fn add(&mut self, length_ns: u64) {
        self.count += 1;
        self.total_ns += length_ns;
        self.longest_ns = self.longest_ns.max(length_ns);
    }

    /// Adds a gap that counts only in part.
    fn add_part(&mut self, length_ns: u64, counted_ns: u64) {
        self.count += 1;
        self.total_ns += counted_ns;
        self.longest_ns = self.longest_ns.max(length_ns);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// A gap that the heap orders by length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByLength(Gap);

impl Ord for ByLength {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.length_ns, self.0.start_ns).cmp(&(other.0.length_ns, other.0.start_ns))
    }
}

impl PartialOrd for ByLength {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The record of one CPU's gaps.
#[derive(Debug)]
pub(super) struct GapTally {
    keep: Keep,
    longest: BinaryHeap<Reverse<ByLength>>,
    newest: VecDeque<Gap>,
    /// All gaps.
    pub all: Sum,
    /// The gaps by cause.
    pub causes: BTreeMap<Cause, Sum>,
    /// The gaps by the thread that ran instead.
    pub takers: BTreeMap<String, Sum>,
    /// The gaps by interrupt source.
    pub sources: BTreeMap<String, Sum>,
    /// The lengths of all gaps.
    pub lengths: Samples,
    /// Gaps that may be a pause of the whole machine: start, length and cause.
    pub suspects: VecDeque<(u64, u64, Cause)>,
    dropped: u64,
}

impl GapTally {
    /// An empty record of this CPU.
    pub(super) fn new(cpu: usize, keep: Keep) -> GapTally {
        GapTally {
            keep,
            longest: BinaryHeap::new(),
            newest: VecDeque::new(),
            all: Sum::default(),
            causes: BTreeMap::new(),
            takers: BTreeMap::new(),
            sources: BTreeMap::new(),
            lengths: Samples::new("gap_ns", Unit::Ns, [("cpu", cpu.to_string())]),
            suspects: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Adds a gap that counts only in part: the part inside a window that sampling chose.
    pub(super) fn add_part(&mut self, gap: Gap, counted_ns: u64) {
        self.all.add_part(gap.length_ns, counted_ns);
        self.lengths.record(gap.length_ns);
        self.causes.entry(gap.cause).or_default().add_part(gap.length_ns, counted_ns);
        self.keep_one(gap);
    }

    /// Adds one missing stretch: as one gap, or as one gap per thread if several threads ran one after another.
    pub(super) fn add_stretch(&mut self, gaps: Vec<Gap>) {
        let whole_ns = gaps.iter().map(|gap| gap.length_ns + gap.around_ns).sum();
        gaps.into_iter().for_each(|gap| self.add(gap));
        self.all.longest_ns = self.all.longest_ns.max(whole_ns);
    }

    /// Adds one gap.
    fn add(&mut self, gap: Gap) {
        let missing_ns = gap.length_ns + gap.around_ns;
        self.all.add(missing_ns);
        self.lengths.record(missing_ns);
        self.causes.entry(gap.cause).or_default().add(missing_ns);
        if let Some(by) = &gap.by {
            add_named(&mut self.takers, by.name(), gap.length_ns);
        }
        if let Some(source) = &gap.source {
            add_named(&mut self.sources, source, gap.length_ns);
        }
        if gap.cause.may_be_pause() && gap.length_ns >= SUSPECT_MIN_NS {
            if self.suspects.len() >= SUSPECTS_MAX {
                self.suspects.pop_front();
            }
            self.suspects.push_back((gap.start_ns, gap.length_ns, gap.cause));
        }
        self.keep_one(gap);
    }

    fn keep_one(&mut self, gap: Gap) {
        match self.keep {
            Keep::Longest(most) => {
                self.longest.push(Reverse(ByLength(gap)));
                if self.longest.len() > most {
                    self.longest.pop();
                    self.dropped += 1;
                }
            }
            Keep::Newest(most) => {
                self.newest.push_back(gap);
                if self.newest.len() > most {
                    self.newest.pop_front();
                    self.dropped += 1;
                }
            }
        }
    }

    /// Relabels the gaps within these stretches as a pause of the whole machine.
    pub(super) fn settle_pauses(&mut self, stretches: &[(u64, u64)]) {
        let mut moved: BTreeMap<Cause, Vec<u64>> = BTreeMap::new();
        for (start_ns, length_ns, cause) in &self.suspects {
            if is_within(stretches, *start_ns, *length_ns) {
                moved.entry(*cause).or_default().push(*length_ns);
            }
        }
        for (cause, lengths) in moved {
            let pause = self.causes.entry(Cause::Pause).or_default();
            lengths.iter().for_each(|length_ns| pause.add(*length_ns));
            let emptied = self.causes.entry(cause).or_default();
            emptied.count = emptied.count.saturating_sub(lengths.len() as u64);
            emptied.total_ns = emptied.total_ns.saturating_sub(lengths.iter().sum());
            // The longest remaining gap is known only if it is a suspect. A gap shorter than the shortest suspect may be any gap.
            let rest = self
                .suspects
                .iter()
                .filter(|(start, length, of)| *of == cause && !is_within(stretches, *start, *length));
            let longest = rest.map(|(_, length, _)| *length).max();
            emptied.longest_ns = longest.unwrap_or(emptied.longest_ns.min(SUSPECT_MIN_NS));
            if emptied.count == 0 {
                self.causes.remove(&cause);
            }
        }
        let settle = |gap: &mut Gap| {
            if gap.cause.may_be_pause()
                && gap.length_ns >= SUSPECT_MIN_NS
                && is_within(stretches, gap.start_ns, gap.length_ns)
            {
                gap.cause = Cause::Pause;
            }
        };
        self.newest.iter_mut().for_each(settle);
        let kept = std::mem::take(&mut self.longest).into_iter();
        self.longest = kept
            .map(|mut kept| {
                settle(&mut kept.0.0);
                kept
            })
            .collect();
    }

    /// The listed gaps in order of time, and the dropped gaps.
    pub(super) fn into_kept(self) -> (Vec<Gap>, Lost) {
        let words = match self.keep {
            Keep::Longest(most) => {
                format!("only the {most} longest of each CPU are listed; the sums include all")
            }
            Keep::Newest(most) => {
                format!("only the {most} newest of each CPU are listed; the sums include all")
            }
        };
        let mut kept: Vec<Gap> = self.longest.into_iter().map(|kept| kept.0.0).chain(self.newest).collect();
        kept.sort_by_key(|gap| gap.start_ns);
        (kept, Lost::new(self.dropped, &words))
    }
}

fn add_named(sums: &mut BTreeMap<String, Sum>, name: &str, length_ns: u64) {
    let is_new = !sums.contains_key(name);
    let name = if is_new && sums.len() >= TAKERS_MAX { "others" } else { name };
    sums.entry(name.to_owned()).or_default().add(length_ns);
}

/// The stretches that were missing on every CPU at once, with start and end.
pub(super) fn everywhere(cpus: &[&VecDeque<(u64, u64, Cause)>]) -> Vec<(u64, u64)> {
    let Some((first, others)) = cpus.split_first().filter(|(_, others)| !others.is_empty()) else { return Vec::new() };
    let mut common: Vec<(u64, u64)> = first.iter().map(|(start, length, _)| (*start, start + length)).collect();
    for other in others {
        let mut both = Vec::new();
        for (start, end) in common {
            // The gaps of one CPU are in order of time and do not overlap, so the search starts at the first gap that ends later.
            let from = other.partition_point(|(at, length, _)| at + length <= start);
            for (at, length, _) in other.iter().skip(from).take_while(|(at, ..)| *at < end) {
                let overlap = (start.max(*at), end.min(at + length));
                if overlap.1 - overlap.0 >= SUSPECT_MIN_NS {
                    both.push(overlap);
                }
            }
        }
        common = both;
    }
    common
}

/// Whether most of a gap lies in one of these stretches.
pub(super) fn is_within(stretches: &[(u64, u64)], start_ns: u64, length_ns: u64) -> bool {
    let end_ns = start_ns + length_ns;
    let from = stretches.partition_point(|(_, end)| *end <= start_ns);
    let overlap = |(start, end): &(u64, u64)| end_ns.min(*end).saturating_sub(start_ns.max(*start));
    stretches[from..].iter().take_while(|(start, _)| *start < end_ns).map(overlap).sum::<u64>() >= length_ns / 2
}

/// Returns one gap per turn (from, until, thread). Together the gaps cover all of `whole`. Without turns, the result is `whole` itself.
pub(super) fn in_turns(whole: Gap, turns: Vec<(u64, u64, Option<RanInstead>)>) -> Vec<Gap> {
    let end_ns = whole.start_ns + whole.length_ns;
    let begins: Vec<u64> = turns.iter().skip(1).map(|(from_ns, ..)| *from_ns).chain([end_ns]).collect();
    let (mut at_ns, mut waited_ns, mut stolen_ns) = (whole.start_ns, whole.run_delay_ns, whole.steal_ns);
    let mut gaps = Vec::with_capacity(turns.len().max(1));
    for ((from_ns, until_ns, by), next_ns) in turns.into_iter().zip(begins) {
        let length_ns = until_ns.saturating_sub(from_ns);
        let around_ns = next_ns.saturating_sub(at_ns).saturating_sub(length_ns);
        at_ns = next_ns;
        let run_delay_ns = waited_ns.min(length_ns);
        let steal_ns = stolen_ns.min(length_ns - run_delay_ns);
        (waited_ns, stolen_ns) = (waited_ns - run_delay_ns, stolen_ns - steal_ns);
        gaps.push(Gap { start_ns: from_ns, length_ns, around_ns, by, run_delay_ns, steal_ns, ..whole.clone() });
    }
    if gaps.is_empty() { vec![whole] } else { gaps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str, tid: u32) -> Option<RanInstead> {
        Some(RanInstead::Thread { name: Some(name.to_owned()), tid })
    }

    fn gap(start_ns: u64, length_ns: u64) -> Gap {
        let (cause, by, source) = (Cause::Hypervisor, None, None);
        Gap { start_ns, length_ns, around_ns: 0, cause, by, source, run_delay_ns: 0, steal_ns: 0 }
    }

    #[test]
    fn the_longest_or_the_newest_are_kept_and_the_rest_is_counted() {
        for (keep, starts) in [(Keep::Longest(2), [10, 30]), (Keep::Newest(2), [20, 30])] {
            let mut tally = GapTally::new(0, keep);
            for (start, length) in [(10, 900), (20, 100), (30, 500)] {
                tally.add(gap(start, length));
            }
            assert_eq!(tally.all, Sum { count: 3, total_ns: 1500, longest_ns: 900 });
            assert_eq!(tally.lengths.histogram.count(), 3);
            let (kept, lost) = tally.into_kept();
            assert_eq!(kept.iter().map(|gap| gap.start_ns).collect::<Vec<_>>(), starts);
            assert_eq!(lost.count, 1);
            assert!(lost.why.unwrap().contains("2 "));
        }
    }

    #[test]
    fn a_crowd_of_takers_takes_no_more_room() {
        let mut tally = GapTally::new(0, Keep::Longest(1));
        for number in 0..1000 {
            tally.add(Gap { by: thread(&format!("sh{number}"), number), ..gap(number.into(), 10) });
        }
        assert_eq!(tally.takers.len(), TAKERS_MAX + 1);
        assert_eq!(tally.takers["others"].count, 1000 - TAKERS_MAX as u64);
    }

    #[test]
    fn turns_right_after_one_another_are_one_stretch() {
        let mut tally = GapTally::new(0, Keep::Longest(9));
        tally.add_stretch(vec![gap(10, 90), gap(100, 30)]);
        tally.add_stretch(vec![gap(500, 100)]);
        assert_eq!(tally.all, Sum { count: 3, total_ns: 220, longest_ns: 120 });
        assert_eq!(tally.causes[&Cause::Hypervisor].longest_ns, 100);
    }

    #[test]
    fn a_stop_of_all_cpus_is_where_their_gaps_meet() {
        const MS: u64 = 1_000_000;
        let of = |gaps: &[(u64, u64)]| -> VecDeque<_> {
            gaps.iter().map(|(start, length)| (start * MS, length * MS, Cause::Hypervisor)).collect()
        };
        let (one, two) = (of(&[(10, 50), (100, 2), (200, 40)]), of(&[(5, 2), (11, 49), (103, 2), (210, 5), (220, 5)]));
        let met = everywhere(&[&one, &two]);
        assert_eq!(met, [(11 * MS, 60 * MS), (210 * MS, 215 * MS), (220 * MS, 225 * MS)]);
        assert!(is_within(&met, 10 * MS, 50 * MS));
        assert!(!is_within(&met, 100 * MS, 2 * MS), "on one CPU alone");
        assert!(!is_within(&met, 200 * MS, 40 * MS), "only a quarter of it");
        assert_eq!(everywhere(&[&one]), [], "one CPU does not show a pause of all");
        assert_eq!(everywhere(&[]), []);
    }

    #[test]
    fn turns_together_cover_the_gap() {
        let whole = Gap {
            start_ns: 1_000,
            length_ns: 500,
            around_ns: 0,
            cause: Cause::Preemption,
            by: thread("hog", 7),
            source: None,
            run_delay_ns: 480,
            steal_ns: 5,
        };
        assert_eq!(in_turns(whole.clone(), Vec::new()), std::slice::from_ref(&whole));
        let one = in_turns(whole.clone(), vec![(1_010, 1_490, thread("hog", 7))]);
        assert_eq!((one[0].start_ns, one[0].length_ns, one[0].around_ns), (1_010, 480, 20));
        let two = in_turns(whole, vec![(1_010, 1_400, thread("hog", 7)), (1_405, 1_480, None)]);
        let gaps: Vec<_> =
            two.iter().map(|gap| (gap.start_ns, gap.length_ns, gap.around_ns, gap.run_delay_ns)).collect();
        assert_eq!(gaps, [(1_010, 390, 15, 390), (1_405, 75, 20, 75)]);
        assert_eq!((&two[0].by, &two[1].by), (&thread("hog", 7), &None));
    }

    #[test]
    fn threads_are_shown_with_their_numbers_and_counted_by_their_names() {
        let mut tally = GapTally::new(0, Keep::Longest(9));
        for (tid, length_ns) in [(7, 10), (8, 20)] {
            tally.add(Gap { by: thread("cc (1)", tid), ..gap(100 * u64::from(tid), length_ns) });
        }
        assert_eq!(tally.takers["cc (1)"].total_ns, 30);
        let shown = [thread("cc (1)", 7), Some(RanInstead::Thread { name: None, tid: 9 }), Some(RanInstead::Itself)];
        let shown = serde_json::to_string(&shown).unwrap();
        assert_eq!(shown, r#"["cc (1) (7)","ended (9)","evenkeel itself"]"#);
    }
}
