//! `Window`: a sink that keeps the last seconds in memory and writes them to a file on request.
//! So the file can show what led to an event that nobody can predict.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Seek, Write};
use std::rc::Rc;

use evenkeel_sys::clock;

use super::Sink;
use super::packed::{Packed, Packer};
use crate::perf::layout::{Layout, sample};
use crate::perf::record::{self, HEAD_BYTES, Head, What, kind};
use crate::perf::write::{self, Described, PerfWriter};

/// The maximum number of mappings remembered for a process.
const MAPS_MAX: usize = 1 << 16;

/// Decides when and where a window is written.
pub trait Outlet {
    /// The type of a window's file.
    type File: Write + Seek;

    /// Whether to write the window now. Called about ten times a second.
    fn is_asked(&mut self) -> bool;

    /// Opens the file of a window.
    ///
    /// # Errors
    /// If the file can't be created.
    fn open(&mut self) -> io::Result<Self::File>;

    /// Completes the file of a window.
    ///
    /// # Errors
    /// If the file can't be completed.
    fn close(&mut self, file: Self::File) -> io::Result<()>;
}

/// A sink that keeps the records of the last seconds.
#[derive(Debug)]
pub struct Window<O> {
    length_ns: u64,
    bytes_max: usize,
    /// The time of each read, and its records.
    pieces: VecDeque<(u64, Packed)>,
    packer: Option<Packer>,
    bytes: usize,
    known: Known,
    was_cut: bool,
    outlet: O,
}

impl<O: Outlet> Window<O> {
    /// Keeps the last `length_ns`, or less if those records exceed `bytes_max`.
    pub fn new(length_ns: u64, bytes_max: usize, outlet: O) -> Window<O> {
        let (pieces, known) = (VecDeque::new(), Known::default());
        Window { length_ns, bytes_max, pieces, packer: None, bytes: 0, known, was_cut: false, outlet }
    }

    /// Compresses the records, and counts their compressed size against `bytes_max`.
    /// Compression costs well under a microsecond for each switch.
    #[must_use]
    pub fn compressed(mut self) -> Window<O> {
        self.packer = Some(Packer::new());
        self
    }

    /// Whether the window was ever shorter than requested, because it reached `bytes_max`.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// The outlet of the window.
    pub fn outlet(&self) -> &O {
        &self.outlet
    }

    /// The outlet of the window, as a mutable reference.
    pub fn outlet_mut(&mut self) -> &mut O {
        &mut self.outlet
    }

    fn drop_old(&mut self, now_ns: u64) {
        while let Some((taken_ns, _)) = self.pieces.front() {
            let is_old = *taken_ns < now_ns.saturating_sub(self.length_ns);
            // The records of the latest read are never dropped.
            let is_too_much = self.bytes > self.bytes_max && self.pieces.len() > 1;
            if !is_old && !is_too_much {
                return;
            }
            self.was_cut |= !is_old;
            if let Some((_, records)) = self.pieces.pop_front() {
                self.bytes -= records.room_bytes();
                // A damaged piece is skipped. The loss is at most some names and mappings.
                records.records().iter().for_each(|records| self.known.learn_all(records));
            }
        }
    }

    fn write(&mut self, described: &Described) -> io::Result<()> {
        let first = described.events.first();
        let layout = first.and_then(|event| Layout::parse(&event.attributes, 0).ok()).unwrap_or_default();
        let mut writer = PerfWriter::begin(self.outlet.open()?)?;
        writer.records(&self.known.records(&layout))?;
        for (_, records) in &self.pieces {
            writer.records(&records.records()?)?;
        }
        let file = writer.finish(described)?;
        self.outlet.close(file)
    }
}

impl<O: Outlet> Sink for Window<O> {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        let now_ns = clock::monotonic_ns();
        let packed = Packed::new(records, self.packer.as_mut());
        self.bytes += packed.room_bytes();
        self.pieces.push_back((now_ns, packed));
        self.drop_old(now_ns);
        Ok(())
    }

    fn is_triggered(&mut self) -> bool {
        self.outlet.is_asked()
    }

    fn hand_out(&mut self, described: &Described) -> io::Result<()> {
        self.write(described)
    }

    fn finish(&mut self, described: &Described) -> io::Result<()> {
        self.write(described)
    }
}

/// The state before the window, learned from dropped records: names and mappings.
#[derive(Debug, Default)]
struct Known {
    processes: BTreeMap<u32, Process>,
    /// Mappings of the kernel.
    kernel: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    /// The mappings by start address, each with its end. A new process shares the mappings of its parent.
    maps: Rc<BTreeMap<u64, (u64, Vec<u8>)>>,
    /// The last name record of each thread, by thread number.
    names: BTreeMap<u32, Vec<u8>>,
}

impl Known {
    fn learn_all(&mut self, records: &[u8]) {
        let mut rest = records;
        while let Ok(head) = Head::parse(rest, 0)
            && let Some((record, after)) = rest.split_at_checked(head.length)
        {
            rest = after;
            if matches!(head.kind, kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT) {
                self.learn(record);
            }
        }
    }

    fn learn(&mut self, bytes: &[u8]) {
        // The fields at the start of these records are the same for all layouts.
        let Ok(record) = record::parse(bytes, &Layout::default(), 0) else { return };
        match record.what {
            What::Named { pid, tid, is_exec, .. } => {
                let process = self.processes.entry(pid).or_default();
                if is_exec {
                    process.maps = Rc::default();
                }
                process.names.insert(tid, bytes.to_vec());
            }
            What::Mapped(mapped) if mapped.is_kernel => self.kernel.push(bytes.to_vec()),
            What::Mapped(mapped) => {
                let end = mapped.start.saturating_add(mapped.length);
                let maps = Rc::make_mut(&mut self.processes.entry(mapped.pid).or_default().maps);
                let covered: Vec<u64> = maps
                    .range(mapped.start..end)
                    .filter(|(_, (other_end, _))| *other_end <= end)
                    .map(|(start, _)| *start)
                    .collect();
                for start in covered {
                    maps.remove(&start);
                }
                if maps.len() < MAPS_MAX {
                    maps.insert(mapped.start, (end, bytes.to_vec()));
                }
            }
            What::Forked { pid, parent_pid, tid, parent_tid } => {
                let parent = self.processes.get(&parent_pid);
                // If the thread already has a name record, keep it.
                let is_known =
                    |tid: u32| self.processes.get(&pid).is_some_and(|process| process.names.contains_key(&tid));
                let name = parent.and_then(|parent| parent.names.get(&parent_tid)).filter(|_| !is_known(tid)).cloned();
                let is_new_process = pid != parent_pid && !is_known(pid);
                let maps = parent.filter(|_| is_new_process).map(|parent| Rc::clone(&parent.maps));
                let process = self.processes.entry(pid).or_default();
                process.maps = maps.unwrap_or_else(|| Rc::clone(&process.maps));
                if let Some(mut name) = name {
                    // A name record begins with process and thread.
                    for (byte, new) in
                        name.iter_mut().skip(HEAD_BYTES).zip([pid.to_ne_bytes(), tid.to_ne_bytes()].concat())
                    {
                        *byte = new;
                    }
                    process.names.insert(tid, name);
                }
            }
            What::Ended { pid, tid } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.names.remove(&tid);
                    if process.names.is_empty() {
                        self.processes.remove(&pid);
                    }
                }
            }
            _ => {}
        }
    }

    /// The state as records with time zero, to be written before all others.
    /// Names come first, because a name record after exec clears the mappings.
    fn records(&self, layout: &Layout) -> Vec<u8> {
        let tail_bytes = write::id_bytes(layout);
        let time_at = if layout.has(sample::TID) { 8 } else { 0 };
        let of = |process: &Process| -> Vec<Vec<u8>> {
            process.names.values().chain(process.maps.values().map(|(_, record)| record)).cloned().collect()
        };
        let all = self.kernel.iter().cloned().chain(self.processes.values().flat_map(of));
        let timeless = all.flat_map(|mut record| {
            let at = record.len().saturating_sub(tail_bytes) + time_at;
            if layout.has(sample::TIME)
                && let Some(time) = record.get_mut(at..at + 8)
            {
                time.fill(0);
            }
            record
        });
        timeless.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u32]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        write::record(kind, 0, &body, &Layout::default()).unwrap()
    }

    fn named(pid: u32, tid: u32, name: [u8; 4]) -> Vec<u8> {
        record(kind::COMM, &[pid, tid, u32::from_ne_bytes(name), 0])
    }

    #[test]
    fn a_thread_has_its_parents_name_unless_it_was_named_first() {
        let forked = |tid: u32| record(kind::FORK, &[7, 7, tid, 7, 0, 0]);
        let mut known = Known::default();
        known.learn_all(&[named(7, 7, *b"main"), forked(8), named(7, 9, *b"late"), forked(9)].concat());
        let name = |tid: u32| known.processes[&7].names[&tid][HEAD_BYTES + 8..][..4].to_vec();
        assert_eq!([name(7), name(8), name(9)], [*b"main", *b"main", *b"late"]);
        assert_eq!(known.processes[&7].names[&8][HEAD_BYTES + 4..][..4], 8_u32.to_ne_bytes());
    }
}
