//! Finds which interrupts and deferred work interrupted our thread, gap by gap.
//! The meter uses the kernel's tracepoints if this user may read them,
//! and trusts the tracepoints only after they have reported a test timer.

use evenkeel_sys::timer_fd::Interrupts;
use evenkeel_sys::tracepoint::{self, Hit, Tracepoint, Tracepoints};
use evenkeel_sys::{Errno, clock};

use super::interrupts::Counts;

/// The maximum number of records to hold between two reads.
const HITS_MAX: usize = 1 << 16;
/// The maximum depth of nested interrupts to follow. The kernel has three or four levels.
const DEPTH_MAX: usize = 8;
/// How often to try the test timer, because a pause of the machine may spoil an attempt.
const TRIALS: u32 = 3;

/// The names of deferred work, in the order of the kernel's softirq numbers.
const DEFERRED: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The tracepoints at entry and exit of interrupts and deferred work.
/// `irq_vectors` are the CPU's own interrupts on x86.
/// On other processors these appear as device interrupts.
/// `irq_work` is left out, because the kernel does not allow recorders to use it: a record may itself need an `irq_work`.
const POINTS: [(&str, Edge, Kind); 12] = [
    ("irq/irq_handler_entry", Edge::Begin, Kind::Device),
    ("irq/irq_handler_exit", Edge::End, Kind::Device),
    ("irq/softirq_entry", Edge::Begin, Kind::Deferred),
    ("irq/softirq_exit", Edge::End, Kind::Deferred),
    ("irq_vectors/local_timer_entry", Edge::Begin, Kind::Own("LOC Local timer interrupts")),
    ("irq_vectors/local_timer_exit", Edge::End, Kind::Own("LOC Local timer interrupts")),
    ("irq_vectors/reschedule_entry", Edge::Begin, Kind::Own("RES Rescheduling interrupts")),
    ("irq_vectors/reschedule_exit", Edge::End, Kind::Own("RES Rescheduling interrupts")),
    ("irq_vectors/call_function_entry", Edge::Begin, Kind::Own("CAL Function call interrupts")),
    ("irq_vectors/call_function_exit", Edge::End, Kind::Own("CAL Function call interrupts")),
    ("irq_vectors/call_function_single_entry", Edge::Begin, Kind::Own("CAL Function call interrupts")),
    ("irq_vectors/call_function_single_exit", Edge::End, Kind::Own("CAL Function call interrupts")),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Begin,
    End,
}

/// What a tracepoint reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A device's interrupt, whose number is in the record.
    Device,
    /// Deferred work, whose number is in the record.
    Deferred,
    /// One of the CPU's own interrupts.
    Own(&'static str),
}

/// An interrupt source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The device's interrupt with this number.
    Device(u32),
    /// The deferred work with this number.
    Deferred(u32),
    /// One of the CPU's own interrupts.
    Own(&'static str),
}

impl Source {
    /// The source's name in /proc/interrupts and /proc/softirqs, from which `counts` were read.
    pub(super) fn name(self, counts: Option<&Counts>) -> String {
        match self {
            Source::Own(name) => name.to_owned(),
            Source::Deferred(number) => match DEFERRED.get(number as usize) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {number}"),
            },
            Source::Device(number) => {
                let begin = format!("{number} ");
                let named = counts.and_then(|counts| counts.keys().find(|name| name.starts_with(&begin)));
                named.cloned().unwrap_or_else(|| number.to_string())
            }
        }
    }
}

/// An entry or an exit of an interrupt.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_ns: u64,
    edge: Edge,
    source: Source,
}

/// The interrupt time within a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InterruptTime {
    /// Time in interrupt handlers.
    pub hard_ns: u64,
    /// Time in deferred work, without the interrupts during it.
    pub soft_ns: u64,
    /// The source that took most of the time.
    pub most: Option<Source>,
}

/// Finds the tracepoints once for all CPUs.
pub(super) fn points() -> Result<Vec<Tracepoint>, Errno> {
    tracepoint::find(&POINTS.map(|(name, ..)| name))
}

/// The tracepoint records of one CPU.
#[derive(Debug)]
pub(super) struct Traced {
    points: Tracepoints,
    /// The meaning of each tracepoint's number.
    table: Vec<(u16, Edge, Kind)>,
    marks: Vec<Mark>,
    is_torn: bool,
    /// Records that were overwritten before they were read.
    pub lost: u64,
}

impl Traced {
    /// Starts recording on `cpu`.
    ///
    /// # Errors
    /// Returns the kernel's error. Usually this user may not read tracepoints.
    pub(super) fn of_cpu(cpu: usize, found: &[Tracepoint]) -> Result<Traced, Errno> {
        let known = |point: &Tracepoint| {
            let (_, edge, kind) = POINTS.iter().find(|(name, ..)| *name == point.name)?;
            Some((point.id(), *edge, *kind))
        };
        let table = found.iter().filter_map(known).collect();
        let points = Tracepoints::of_cpu(cpu, found)?;
        // Write all pages now. The first write to a page during a window would be a page fault in that window.
        let nothing = Mark { at_ns: 1, edge: Edge::End, source: Source::Device(1) };
        let mut marks = vec![nothing; HITS_MAX];
        std::hint::black_box(&mut marks).clear();
        Ok(Traced { points, table, marks, is_torn: false, lost: 0 })
    }

    /// Whether the tracepoints report a test timer on the calling thread's CPU with entry and exit.
    pub(super) fn is_true(&mut self) -> bool {
        (0..TRIALS).any(|_| {
            self.forget();
            let start_ns = clock::monotonic_ns();
            let Ok(timer) = Interrupts::arm(&[start_ns + 300_000], 1) else { return false };
            // Spin, as the probe does. On an idle CPU the timer would interrupt the idle task instead.
            while clock::monotonic_ns() < start_ns + 1_500_000 {
                std::hint::spin_loop();
            }
            drop(timer);
            self.look();
            let time = interrupt_time(&self.marks, start_ns + 300_000, start_ns + 1_500_000);
            self.forget();
            (100..1_000_000).contains(&time.hard_ns)
        })
    }

    /// Reads the records since the last call.
    pub(super) fn look(&mut self) {
        let (table, marks, lost) = (&self.table, &mut self.marks, &mut self.lost);
        let before = *lost;
        self.points.drain(|hit| match hit {
            Hit::At { at_ns, id, word } => {
                let Some((_, edge, kind)) = table.iter().find(|(known, ..)| *known == id) else { return };
                let source = match kind {
                    Kind::Device => Source::Device(word),
                    Kind::Deferred => Source::Deferred(word),
                    Kind::Own(name) => Source::Own(name),
                };
                if marks.len() < HITS_MAX {
                    marks.push(Mark { at_ns, edge: *edge, source });
                } else {
                    *lost += 1;
                }
            }
            Hit::Lost(count) => *lost += count,
            Hit::Other => {}
        });
        self.is_torn |= self.lost > before;
    }

    /// Reads the records if the ring will soon be full. Returns true if the memory for marks is more than half full.
    pub(super) fn look_if_pressed(&mut self) -> bool {
        if self.points.fullness() > 0.5 {
            self.look();
        }
        self.marks.len() > HITS_MAX / 2
    }

    /// The interrupt time between two moments. None if records were lost in the last two reads.
    pub(super) fn between(&self, start_ns: u64, end_ns: u64) -> Option<InterruptTime> {
        (!self.is_torn).then(|| interrupt_time(&self.marks, start_ns, end_ns))
    }

    /// Drops older records.
    pub(super) fn forget(&mut self) {
        self.marks.clear();
        self.is_torn = false;
    }
}

/// Our thread runs at both ends of a gap, so no interrupt is active at either end.
fn interrupt_time(marks: &[Mark], start_ns: u64, end_ns: u64) -> InterruptTime {
    let from = marks.partition_point(|mark| mark.at_ns < start_ns);
    let mut under_way: Vec<Source> = Vec::new();
    let mut took: Vec<(Source, u64)> = Vec::new();
    let mut last_ns = start_ns;
    for mark in marks.iter().skip(from).take_while(|mark| mark.at_ns <= end_ns) {
        // The time belongs to the innermost entry. The entries below it in the stack are paused.
        if let Some(source) = under_way.last() {
            let since_ns = mark.at_ns.saturating_sub(last_ns);
            match took.iter_mut().find(|(known, _)| known == source) {
                Some((_, ns)) => *ns += since_ns,
                None => took.push((*source, since_ns)),
            }
        }
        last_ns = mark.at_ns;
        match mark.edge {
            Edge::Begin if under_way.len() < DEPTH_MAX => under_way.push(mark.source),
            Edge::Begin => {}
            Edge::End => {
                if let Some(at) = under_way.iter().rposition(|source| *source == mark.source) {
                    under_way.truncate(at);
                }
            }
        }
    }
    let sum = |is_soft: bool| {
        let of = took.iter().filter(|(source, _)| matches!(source, Source::Deferred(_)) == is_soft);
        of.map(|(_, ns)| ns).sum()
    };
    let most = took.iter().max_by_key(|(_, ns)| *ns).map(|(source, _)| *source);
    InterruptTime { hard_ns: sum(false), soft_ns: sum(true), most }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Source = Source::Own("LOC Local timer interrupts");
    const NET_RX: Source = Source::Deferred(3);
    const DISK: Source = Source::Device(38);

    fn marks(list: &[(u64, Edge, Source)]) -> Vec<Mark> {
        list.iter().map(|(at_ns, edge, source)| Mark { at_ns: *at_ns, edge: *edge, source: *source }).collect()
    }

    #[test]
    fn each_has_its_own_time() {
        use Edge::{Begin, End};
        type List = &'static [(u64, Edge, Source)];
        type Row = (&'static str, List, (u64, u64, Option<Source>));
        let table: [Row; 6] = [
            ("nothing", &[], (0, 0, None)),
            ("a tick", &[(110, Begin, TICK), (140, End, TICK)], (30, 0, Some(TICK))),
            (
                "an interrupt and its deferred work",
                &[(110, Begin, DISK), (115, End, DISK), (116, Begin, NET_RX), (180, End, NET_RX)],
                (5, 64, Some(NET_RX)),
            ),
            (
                "an interrupt in deferred work",
                &[(110, Begin, NET_RX), (120, Begin, DISK), (170, End, DISK), (180, End, NET_RX)],
                (50, 20, Some(DISK)),
            ),
            (
                "before and after",
                &[(50, Begin, TICK), (60, End, TICK), (230, Begin, TICK), (240, End, TICK)],
                (0, 0, None),
            ),
            (
                "an end without a beginning",
                &[(120, End, TICK), (130, Begin, DISK), (150, End, DISK)],
                (20, 0, Some(DISK)),
            ),
        ];
        for (what, list, (hard_ns, soft_ns, most)) in table {
            assert_eq!(interrupt_time(&marks(list), 100, 200), InterruptTime { hard_ns, soft_ns, most }, "{what}");
        }
    }

    #[test]
    fn a_source_has_the_name_that_the_kernel_gives_it() {
        let counts: Counts = [("3 serial".to_owned(), 1), ("38 virtio2-input.0".to_owned(), 2)].into();
        assert_eq!(DISK.name(Some(&counts)), "38 virtio2-input.0");
        assert_eq!(Source::Device(8).name(Some(&counts)), "8");
        assert_eq!(NET_RX.name(None), "softirq NET_RX");
        assert_eq!(Source::Deferred(77).name(None), "softirq 77");
    }

    proptest! {
        #[test]
        fn reported_interrupts_stay_within_the_gap(list in prop::collection::vec((0_u64..300, any::<bool>(), 0_u32..4), 0..60)) {
            let mut list = list;
            list.sort_unstable();
            let marks: Vec<Mark> = list
                .into_iter()
                .map(|(at_ns, begins, number)| {
                    let source = if number % 2 == 0 { Source::Deferred(number) } else { Source::Device(number) };
                    Mark { at_ns, edge: if begins { Edge::Begin } else { Edge::End }, source }
                })
                .collect();
            let time = interrupt_time(&marks, 100, 200);
            prop_assert!(time.hard_ns + time.soft_ns <= 100, "{time:?}");
        }
    }
}
