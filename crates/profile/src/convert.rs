//! `Converter`: from records to a [`Recording`], whether they come from the kernel's rings or out of a file. It follows which process has
//! which file mapped where, so that an address becomes a place in a file.

use std::collections::HashMap;
use std::rc::Rc;

use crate::maps::Maps;
use crate::perf::layout::Layout;
use crate::perf::record::{self, Mapped, Record, What};
use crate::recording::{Event, EventId, Machine, Mapping, Recording, Sample, Switch, Turn};
use crate::stack::{Frame, Module};
use crate::unwind::{Unwind, Wound};

/// From here on words in a call chain are markers (`PERF_CONTEXT_MAX`), not addresses.
const FIRST_MARKER: u64 = -4095_i64 as u64;
/// What follows is the kernel's (`PERF_CONTEXT_KERNEL`).
const MARK_KERNEL: u64 = -128_i64 as u64;
/// What follows is the user's (`PERF_CONTEXT_USER`).
const MARK_USER: u64 = -512_i64 as u64;
/// A stack with more frames is cut off: recursion without an end has as many as it is given.
const FRAMES_MAX: usize = 1024;

/// Makes a recording of records that come in the order of time.
pub struct Converter<'u> {
    recording: Recording,
    maps: HashMap<u32, Rc<Maps>>,
    unwind: &'u mut dyn Unwind,
}

impl std::fmt::Debug for Converter<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Converter")
            .field("recording", &self.recording)
            .field("maps", &self.maps)
            .finish_non_exhaustive()
    }
}

impl<'u> Converter<'u> {
    /// Of these events on this machine. Where a sample carries a piece of the user's stack, `unwind` follows it.
    pub fn new(machine: Machine, events: Vec<Event>, unwind: &'u mut dyn Unwind) -> Converter<'u> {
        let recording = Recording { machine, events, ..Recording::default() };
        Converter { recording, maps: HashMap::new(), unwind }
    }

    /// Takes the next record, which is of `event`.
    pub fn take(&mut self, record: &Record<'_>, event: EventId, layout: &Layout) {
        let at_ns = record.id.at_ns;
        self.recording.clock = self.recording.clock.or(layout.clock_id());
        if at_ns != 0 && !matches!(record.what, What::Other(_)) {
            let span = &mut self.recording.span;
            span.start_ns = if span.start_ns == 0 { at_ns } else { span.start_ns.min(at_ns) };
            span.end_ns = span.end_ns.max(at_ns.saturating_add(1));
        }
        match &record.what {
            What::Sample(sample) => self.sample(sample, event, layout),
            What::Mapped(mapped) => self.mapped(mapped, at_ns),
            What::Named { pid, tid, name, is_exec } => {
                if *is_exec {
                    self.maps.remove(pid);
                }
                let name = Some(String::from_utf8_lossy(name).into_owned());
                self.recording.threads.insert(*tid, crate::recording::Thread { pid: *pid, name });
            }
            What::Forked { pid, parent_pid, tid, parent_tid } => self.forked((*pid, *tid), (*parent_pid, *parent_tid)),
            What::Switched { is_out, is_preempted, other } => {
                let turn = match (is_out, is_preempted) {
                    (false, _) => Turn::In,
                    (true, false) => Turn::Slept,
                    (true, true) => Turn::Preempted,
                };
                let id = record.id;
                self.recording.switches.push(Switch {
                    at_ns,
                    cpu: id.cpu,
                    pid: id.pid,
                    tid: id.tid,
                    turn,
                    other: *other,
                });
            }
            What::Lost(count) => self.recording.lost.records = self.recording.lost.records.saturating_add(*count),
            What::LostSamples(count) => {
                self.recording.lost.samples = self.recording.lost.samples.saturating_add(*count)
            }
            What::Throttled { is_stopped } => self.recording.lost.throttled += u64::from(*is_stopped),
            What::Ended { .. } | What::Other(_) => {}
        }
    }

    /// Counts a record that could not be used.
    pub fn odd(&mut self) {
        self.recording.lost.odd += 1;
    }

    /// What was recorded.
    pub fn finish(mut self) -> Recording {
        self.recording.samples.sort_by_key(|sample| sample.at_ns);
        self.recording.switches.sort_by_key(|switch| switch.at_ns);
        self.recording
    }

    fn forked(&mut self, (pid, tid): (u32, u32), (parent_pid, parent_tid): (u32, u32)) {
        if pid != parent_pid
            && let Some(maps) = self.maps.get(&parent_pid).cloned()
        {
            self.maps.insert(pid, maps);
        }
        let name = self.recording.threads.get(&parent_tid).and_then(|parent| parent.name.clone());
        self.recording.threads.insert(tid, crate::recording::Thread { pid, name });
    }

    fn mapped(&mut self, mapped: &Mapped<'_>, at_ns: u64) {
        let path = String::from_utf8_lossy(mapped.path).into_owned();
        let module = self.recording.modules.number(Module { path, build_id: mapped.build_id.map(<[u8]>::to_vec) });
        let end = mapped.start.saturating_add(mapped.length);
        self.recording.mappings.push(Mapping { at_ns, pid: mapped.pid, start: mapped.start, end, module });
        let is_file = !mapped.path.starts_with(b"//anon") && !mapped.path.starts_with(b"[") && !mapped.path.is_empty();
        let maps = self.maps.entry(if mapped.is_kernel { u32::MAX } else { mapped.pid }).or_default();
        Rc::make_mut(maps).add(crate::maps::Map {
            start: mapped.start,
            end,
            module,
            file_offset: mapped.file_offset,
            is_file,
        });
    }

    fn sample(&mut self, sample: &record::Sample<'_>, event: EventId, layout: &Layout) {
        let mut frames = self.chain(sample);
        if !sample.registers.is_empty() {
            self.unwound(sample, layout, &mut frames);
        }
        frames.truncate(FRAMES_MAX);
        let recording = &mut self.recording;
        let stack = recording.stacks.of(frames.into_iter().rev());
        let raw = (recording.raw.len() as u32, sample.raw.len() as u32);
        recording.raw.extend_from_slice(sample.raw);
        let known = recording.threads.entry(sample.id.tid).or_default();
        known.pid = sample.id.pid;
        recording.samples.push(Sample {
            event,
            at_ns: sample.id.at_ns,
            cpu: sample.id.cpu,
            pid: sample.id.pid,
            tid: sample.id.tid,
            stack,
            weight: if layout.has(crate::perf::layout::sample::PERIOD) {
                sample.period
            } else if layout.is_rate() {
                1
            } else {
                layout.period
            },
            address: sample.address,
            raw,
        });
    }

    /// Its call chain, from the innermost frame on.
    fn chain(&self, sample: &record::Sample<'_>) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut is_kernel = !sample.is_user;
        // A place that is called from lies before the one that is returned to.
        let mut is_first = true;
        for word in sample.chain.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)) {
            if word >= FIRST_MARKER {
                is_kernel = if word == MARK_KERNEL {
                    true
                } else if word == MARK_USER {
                    false
                } else {
                    is_kernel
                };
                is_first = true;
                continue;
            }
            frames.push(self.frame(sample.id.pid, if is_first { word } else { word.saturating_sub(1) }, is_kernel));
            is_first = false;
        }
        if frames.is_empty() && sample.ip != 0 {
            frames.push(self.frame(sample.id.pid, sample.ip, !sample.is_user));
        }
        frames
    }

    /// In place of the user's part of the chain, what its stack says.
    fn unwound(&mut self, sample: &record::Sample<'_>, layout: &Layout, frames: &mut Vec<Frame>) {
        let Some(maps) = self.maps.get(&sample.id.pid).cloned() else { return };
        let wound = Wound {
            pid: sample.id.pid,
            registers: sample.registers,
            which: layout.user_registers,
            stack: sample.stack,
        };
        let found = self.unwind.unwind(&wound, &maps, &self.recording.modules);
        if !found.is_empty() {
            frames.retain(|frame| matches!(frame, Frame::Kernel { .. }));
            frames.extend(found.into_iter().enumerate().map(|(at, address)| {
                self.frame(sample.id.pid, if at == 0 { address } else { address.saturating_sub(1) }, false)
            }));
        }
    }

    fn frame(&self, pid: u32, address: u64, is_kernel: bool) -> Frame {
        if is_kernel {
            let module = self.maps.get(&u32::MAX).and_then(|maps| maps.at(address)).filter(|map| map.is_file);
            return Frame::Kernel { address, module: module.map(|map| map.module) };
        }
        match self.maps.get(&pid).and_then(|maps| maps.at(address)) {
            Some(map) if map.is_file => Frame::InFile { module: map.module, offset: map.offset_of(address) },
            _ => Frame::Anonymous { pid, address },
        }
    }
}
