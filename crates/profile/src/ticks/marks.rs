//! `MarkedTick`: ticks whose begin, and possibly end, is an event of the recording.
//! Such events are a function's entry and return, a marker in the program, or any other event.

use std::collections::BTreeMap;

use crate::live::probe::{LIBRARY, LIBRARY_BEGINS, LIBRARY_ENDS};
use crate::recording::{EventId, Recording, Sample};

/// Suffixes of the names of events that end a tick: a function's return, or another place.
const RETURN: &str = "__return";
const UNTIL: &str = "__until_";
/// Prefixes of perf's names for probe events.
const GROUPS: [&str; 3] = ["probe_", "uprobes:", "sdt_"];
/// CLOCK_MONOTONIC, the clock of the library's times.
const MONOTONIC: i32 = 1;
/// The maximum time from due to begin, in nanoseconds. An earlier value is not a due time.
const LATE_MAX_NS: u64 = 60_000_000_000;
/// The minimum number of begin events of a tick.
const TICKS_MIN: usize = 2;
/// The kernel's tracepoints for sent packets.
const PACKETS: [&str; 2] = ["net:net_dev_queue", "net:net_dev_start_xmit"];
/// The maximum distance between packets of one burst, in nanoseconds.
/// A server that sends in a loop sends one packet every few microseconds.
const TOGETHER_NS: u64 = 1_000_000;
/// The maximum number of event names in an error.
const NAMES_MAX: usize = 12;

/// A tick, as the events mark it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkedTick {
    /// The number of the tick, if known.
    pub number: Option<u64>,
    /// The due time of the tick, if known.
    pub due_ns: Option<u64>,
    /// When the tick began.
    pub begun_ns: u64,
    /// When the tick was done, if known.
    pub done_ns: Option<u64>,
}

impl MarkedTick {
    /// A tick with only a begin.
    pub fn at(begun_ns: u64) -> MarkedTick {
        MarkedTick { begun_ns, ..MarkedTick::default() }
    }
}

/// The events that mark ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    begins: Vec<EventId>,
    ends: Vec<EventId>,
    /// The event at which ticks begin.
    pub begin: String,
    /// The event at which ticks end. None if no event marks the end.
    pub end: Option<String>,
    /// Whether these are the markers of `evenkeel-rt`, which contain the number and the due time of each tick.
    pub is_librarys: bool,
}

/// The ticks of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTicks {
    /// The thread.
    pub tid: u32,
    /// The ticks, sorted by time.
    pub ticks: Vec<MarkedTick>,
    /// The number of ticks that should have an end event but have none.
    pub unended: u64,
}

/// Why no ticks are marked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarksError {
    /// The recording has no such event.
    #[error("the recording has no event {name}; it has {}", listed(there))]
    NoEvent {
        /// The requested name.
        name: String,
        /// The names of the events in the recording.
        there: Vec<String>,
    },
    /// The event occurred too rarely.
    #[error("{event} occurred {seen} times in {whose}, too few for ticks")]
    TooFew {
        /// The event.
        event: String,
        /// How many of these events the recording has.
        seen: usize,
        /// The threads that were examined, as text.
        whose: String,
    },
}

/// The packet bursts of the thread with most bursts, each as a tick.
/// A tick lasts from the end of the previous burst to the end of its own burst, so the tick contains whatever delayed it.
///
/// # Errors
/// If there are no packets, or too few bursts.
pub fn packets(recording: &Recording, is_wanted: &dyn Fn(u32) -> bool) -> Result<ThreadTicks, MarksError> {
    let event = PACKETS.iter().find_map(|name| recording.events.iter().position(|event| event.name == *name));
    let event = event.and_then(|event| EventId::try_from(event).ok()).ok_or_else(|| MarksError::NoEvent {
        name: PACKETS[0].to_owned(),
        there: recording.events.iter().map(|event| event.name.clone()).collect(),
    })?;
    let mut ends: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for sample in recording.samples.iter().filter(|sample| sample.event == event && is_wanted(sample.tid)) {
        let ends = ends.entry(sample.tid).or_default();
        match ends.last_mut() {
            Some(end) if sample.at_ns.saturating_sub(*end) <= TOGETHER_NS => *end = sample.at_ns,
            _ => ends.push(sample.at_ns),
        }
    }
    let most = ends.into_iter().max_by_key(|(_, ends)| ends.len());
    let seen = most.as_ref().map_or(0, |(_, ends)| ends.len());
    let (tid, ends) = most.filter(|_| seen > TICKS_MIN).ok_or_else(|| MarksError::TooFew {
        event: "a burst of packets".to_owned(),
        seen,
        whose: "the selected threads".to_owned(),
    })?;
    let ticks = ends.windows(2).map(|pair| MarkedTick { done_ns: Some(pair[1]), ..MarkedTick::at(pair[0]) });
    Ok(ThreadTicks { tid, ticks: ticks.collect(), unended: 0 })
}

fn listed(names: &[String]) -> String {
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    format!("{}{more}", names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", "))
}

impl Marks {
    /// The event of this name, or the probe on this function: `tick` finds `probe_server:tick`.
    ///
    /// # Errors
    /// If the recording has no such event.
    pub fn named(recording: &Recording, name: &str) -> Result<Marks, MarksError> {
        let wanted = name.strip_prefix(':').unwrap_or(name);
        let whole = |event: &str| event == wanted || event.split('/').next() == Some(wanted);
        let function = |event: &str| is_probe(event) && event.split_once(':').is_some_and(|(_, own)| own == wanted);
        let find = |is: &dyn Fn(&str) -> bool| recording.events.iter().find(|event| is(&event.name));
        let found = find(&whole).or_else(|| find(&function));
        let found = found.map(|event| Marks::from_recording(recording, &event.name));
        found.ok_or_else(|| MarksError::NoEvent {
            name: name.to_owned(),
            there: recording.events.iter().map(|event| event.name.clone()).collect(),
        })
    }

    /// The same marks, with an event that marks the end.
    ///
    /// # Errors
    /// If the recording has no such event.
    pub fn until(self, recording: &Recording, name: &str) -> Result<Marks, MarksError> {
        let wanted = format!("{}{UNTIL}{name}", self.begin);
        let end = Marks::named(recording, &wanted).or_else(|_| Marks::named(recording, name))?;
        Ok(Marks { ends: end.begins, end: Some(end.begin), ..self })
    }

    /// The same marks without an end event. Ticks end when the thread waits or when the next tick begins.
    #[must_use]
    pub fn without_end(self) -> Marks {
        Marks { ends: Vec::new(), end: None, ..self }
    }

    /// The markers of `evenkeel-rt`.
    pub fn of_library(recording: &Recording) -> Option<Marks> {
        let name = format!("sdt_{LIBRARY}:{LIBRARY_BEGINS}");
        recording.events.iter().any(|event| event.name == name).then(|| Marks::from_recording(recording, &name))
    }

    /// The recorded probes, except probes that mark an end.
    pub fn places(recording: &Recording) -> Vec<Marks> {
        let is_begin = |name: &str| is_probe(name) && !name.ends_with(RETURN) && !name.contains(UNTIL);
        let mut names: Vec<&str> =
            recording.events.iter().map(|event| &*event.name).filter(|name| is_begin(name)).collect();
        names.retain(|name| *name != format!("sdt_{LIBRARY}:{LIBRARY_ENDS}"));
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| Marks::from_recording(recording, name)).collect()
    }

    fn from_recording(recording: &Recording, begin: &str) -> Marks {
        let numbers = |is: &dyn Fn(&str) -> bool| -> Vec<EventId> {
            let all = recording.events.iter().enumerate().filter(|(_, event)| is(&event.name));
            all.filter_map(|(at, _)| EventId::try_from(at).ok()).collect()
        };
        let is_librarys = begin == format!("sdt_{LIBRARY}:{LIBRARY_BEGINS}");
        let librarys_end = format!("sdt_{LIBRARY}:{LIBRARY_ENDS}");
        let is_end = |name: &str| match name.strip_prefix(begin) {
            Some(rest) => rest == RETURN || rest.starts_with(UNTIL),
            None => is_librarys && name == librarys_end,
        };
        let end = recording.events.iter().map(|event| &event.name).find(|name| is_end(name));
        Marks {
            begins: numbers(&|name| name == begin),
            ends: end.map_or_else(Vec::new, |end| numbers(&|name| name == end)),
            begin: begin.to_owned(),
            end: end.cloned(),
            is_librarys,
        }
    }

    /// The ticks of the wanted thread with most ticks.
    ///
    /// # Errors
    /// If no wanted thread has enough such events.
    pub fn ticks(&self, recording: &Recording, is_wanted: &dyn Fn(u32) -> bool) -> Result<ThreadTicks, MarksError> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for sample in recording.samples.iter().filter(|sample| self.begins.contains(&sample.event)) {
            if is_wanted(sample.tid) {
                *counts.entry(sample.tid).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let (tid, _) = most.filter(|(_, count)| *count >= TICKS_MIN).ok_or_else(|| MarksError::TooFew {
            event: self.begin.clone(),
            seen: most.map_or(0, |(_, count)| count),
            whose: "the selected threads".to_owned(),
        })?;
        Ok(self.of_thread(recording, tid))
    }

    fn of_thread(&self, recording: &Recording, tid: u32) -> ThreadTicks {
        let of_tid = || recording.samples.iter().filter(|sample| sample.tid == tid);
        let is_end = |sample: &Sample| self.ends.contains(&sample.event);
        let is_begin = |sample: &Sample| self.begins.contains(&sample.event);
        let is_nested = !self.ends.is_empty()
            && calls_itself(of_tid().filter_map(|sample| match () {
                () if is_begin(sample) => Some(true),
                () if is_end(sample) => Some(false),
                () => None,
            }));
        let mut found = ThreadTicks { tid, ..ThreadTicks::default() };
        let mut depth = 0_u64;
        let mut open: Option<MarkedTick> = None;
        for sample in of_tid() {
            if is_begin(sample) {
                depth += 1;
                if is_nested && depth > 1 {
                    continue;
                }
                found.close(open.take(), self.ends.is_empty());
                open = Some(self.begun(recording, sample));
            } else if is_end(sample) {
                depth = depth.saturating_sub(1);
                if is_nested && depth > 0 {
                    continue;
                }
                // An end without a begin belongs to a tick that began before the recording.
                let done = open.take().map(|tick| MarkedTick { done_ns: Some(sample.at_ns), ..tick });
                found.ticks.extend(done);
            }
        }
        found.close(open, self.ends.is_empty());
        found
    }

    fn begun(&self, recording: &Recording, sample: &Sample) -> MarkedTick {
        let begun_ns = sample.at_ns;
        let arguments = if self.is_librarys { arguments(recording, sample) } else { None };
        let Some((number, due_ns)) = arguments else { return MarkedTick::at(begun_ns) };
        let is_time = recording.clock == Some(MONOTONIC) && due_ns > 0 && begun_ns.saturating_sub(due_ns) < LATE_MAX_NS;
        MarkedTick { number: Some(number), due_ns: is_time.then(|| due_ns.min(begun_ns)), begun_ns, done_ns: None }
    }
}

impl ThreadTicks {
    /// Handles a tick without an end event.
    fn close(&mut self, open: Option<MarkedTick>, lacks_ends: bool) {
        match open {
            Some(tick) if lacks_ends => self.ticks.push(tick),
            Some(_) => self.unended += 1,
            None => {}
        }
    }
}

/// Whether a function is recursive: the thread enters it again before it returns, and each entry has a return.
/// False if a return was lost, or if a jump left the function.
fn calls_itself(turns: impl Iterator<Item = bool>) -> bool {
    let (mut depth, mut was_deep) = (0_u64, false);
    for is_begin in turns {
        depth = if is_begin { depth + 1 } else { depth.saturating_sub(1) };
        was_deep |= depth > 1;
        // A lost return would leave the depth above zero forever.
        if was_deep && depth == 0 {
            return true;
        }
    }
    false
}

fn is_probe(event: &str) -> bool {
    GROUPS.iter().any(|group| event.starts_with(group)) && event.contains(':')
}

/// The number and the due time of a tick, from the arguments of the library's marker.
fn arguments(recording: &Recording, sample: &Sample) -> Option<(u64, u64)> {
    let (from, length) = (usize::try_from(sample.raw.0).ok()?, usize::try_from(sample.raw.1).ok()?);
    let words = recording.raw.get(from..from.checked_add(length)?)?.as_chunks::<8>().0;
    let word = |at: usize| words.get(at).map(|word| u64::from_ne_bytes(*word));
    let which = word(0)?;
    let register = |number: u32| {
        let bit = 1_u64 << number;
        let before = (which & (bit - 1)).count_ones() as usize;
        word(1 + before).filter(|_| which & bit != 0)
    };
    let is_arm = recording.machine.architecture.as_deref().is_some_and(|name| name == "aarch64");
    // The first two argument registers: X0 and X1, or DI and SI.
    let [number, due_ns] = if is_arm { [0, 1] } else { [5, 4] };
    Some((register(number)?, register(due_ns)?))
}
