//! Pairs each switch-out of a thread with its next switch-in.

use std::collections::{HashMap, HashSet};

use super::cpus::Cpus;
use super::interval::{Edges, GONE};
use super::pair::Pair;
use crate::recording::{Recording, Span, Switch, Turn};

/// The state of a thread while records are read in order.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The thread has a CPU.
    On { since_ns: u64 },
    /// The thread has no CPU.
    Off(Pair),
}

/// Which threads started during the recording, and when each thread number last ended.
#[derive(Debug, Default)]
struct Lives {
    begun: HashSet<u32>,
    ends_ns: HashMap<u32, u64>,
}

impl Lives {
    fn from_recording(recording: &Recording) -> Lives {
        let mut lives = Lives::default();
        for life in &recording.lives {
            if life.made_by.is_some() {
                lives.begun.insert(life.tid);
                // The kernel reuses the number of an ended thread.
                lives.ends_ns.remove(&life.tid);
            } else {
                lives.ends_ns.insert(life.tid, life.at_ns);
            }
        }
        lives
    }
}

/// All pairs of all threads, sorted by end.
pub(super) fn find_pairs(recording: &Recording, cpus: &Cpus) -> Vec<Pair> {
    let lives = Lives::from_recording(recording);
    let mut known: HashMap<u32, Known> = HashMap::new();
    let mut pairs = Vec::new();
    for switch in recording.switches.iter().filter(|switch| !matches!(switch.tid, 0 | GONE)) {
        let before = known.remove(&switch.tid);
        let now = match switch.turn {
            Turn::In => {
                given(switch, before, &lives, recording, &mut pairs);
                Known::On { since_ns: switch.at_ns }
            }
            Turn::Slept | Turn::Preempted => {
                let mut given_at_ns = None;
                match before {
                    Some(Known::On { since_ns }) => given_at_ns = Some(since_ns),
                    // The switch-in between the two switch-outs was lost, and its time is unknown.
                    Some(Known::Off(pair)) => pairs.push(pair.until(switch.at_ns, Edges::Torn)),
                    None => {}
                }
                Known::Off(taken(switch, given_at_ns))
            }
        };
        known.insert(switch.tid, now);
    }
    let still = known.into_values().filter_map(|known| match known {
        Known::Off(pair) => Some(pair),
        Known::On { .. } => None,
    });
    pairs.extend(still.map(|pair| match lives.ends_ns.get(&pair.tid).copied() {
        // The kernel writes the exit record before the thread's last switch record.
        Some(end_ns) if end_ns <= pair.span.start_ns => {
            Pair { has_ended: true, ..pair.until(pair.span.start_ns, Edges::Seen) }
        }
        _ => pair.until(recording.span.end_ns, Edges::ToAfter),
    }));
    for pair in pairs.iter_mut().filter(|pair| pair.edges == Edges::Seen) {
        if cpus.has_hole_in(pair.span) {
            pair.edges = Edges::Torn;
        }
    }
    pairs.sort_by_key(|pair| (pair.span.end_ns, pair.tid));
    pairs
}

fn given(switch: &Switch, before: Option<Known>, lives: &Lives, recording: &Recording, pairs: &mut Vec<Pair>) {
    match before {
        Some(Known::Off(pair)) => {
            let pair = Pair { cpu_after: Some(switch.cpu), ..pair };
            pairs.push(pair.until(switch.at_ns, Edges::Seen));
        }
        // The thread's switch-out was lost, so the length of the interval is unknown.
        Some(Known::On { .. }) => {}
        // A new thread had no interval before it started.
        None if lives.begun.contains(&switch.tid) => {}
        None => {
            let pair = taken(switch, None);
            let span = Span { start_ns: recording.span.start_ns, end_ns: switch.at_ns };
            let edges = Edges::FromBefore;
            pairs.push(Pair { span, edges, turn: None, next: None, cpu_after: Some(switch.cpu), ..pair });
        }
    }
}

fn taken(switch: &Switch, given_at_ns: Option<u64>) -> Pair {
    Pair {
        pid: switch.pid,
        tid: switch.tid,
        cpu: switch.cpu,
        cpu_after: None,
        span: Span { start_ns: switch.at_ns, end_ns: switch.at_ns },
        edges: Edges::ToAfter,
        turn: Some(switch.turn),
        next: switch.other,
        given_at_ns,
        has_ended: false,
    }
}

impl Pair {
    fn until(self, end_ns: u64, edges: Edges) -> Pair {
        let end_ns = end_ns.max(self.span.start_ns);
        Pair { span: Span { end_ns, ..self.span }, edges, ..self }
    }
}
