//! `Converter`: makes a [`Recording`] from records of the kernel's rings or of a file.
//! The converter tracks the mappings of each process, to convert addresses to places in files.

use std::collections::HashMap;
use std::rc::Rc;

use crate::maps::{Map, Maps};
use crate::perf::layout::{Layout, sample as field};
use crate::perf::record::{self, Mapped, Record, What};
use crate::recording::{Event, EventId, Life, Machine, Mapping, Recording, RecordingCaveat, Sample, Switch, Turn};
use crate::stack::{Frame, Hint, Module, StackId};
use crate::unwind::{End, FRAMES_MAX, SampledStack, Unwind};

/// In a call chain, words from this value on are markers (`PERF_CONTEXT_MAX`), not addresses.
const FIRST_MARKER: u64 = -4095_i64 as u64;
/// This marker means that kernel addresses follow (`PERF_CONTEXT_KERNEL`).
const MARK_KERNEL: u64 = -128_i64 as u64;
/// This marker means that user addresses follow (`PERF_CONTEXT_USER`).
const MARK_USER: u64 = -512_i64 as u64;
/// The prefix of the kernel's name in mapping records. The symbol at the start of the kernel's code follows this prefix.
const KERNEL: &str = "[kernel.kallsyms]";
/// The maximum number of mappings that are copied from parents to children in the whole recording.
/// A child that maps nothing before exec needs no copy.
const COPIES_MAX: usize = 1 << 20;
/// The maximum number of caveats of a recording.
const CAVEATS_MAX: usize = 16;

/// The maximum number of processes whose last call chain is remembered.
const CHAINS_MAX: usize = 1024;

/// The last block of a call chain. It has the addresses, outermost first, and for each address the stack up to that frame.
#[derive(Debug, Default)]
struct Chain {
    is_kernel: bool,
    frames: Vec<(u64, StackId)>,
}

/// Makes a recording from records that are sorted by time.
pub struct Converter<'u> {
    recording: Recording,
    maps: HashMap<u32, Rc<Maps>>,
    /// How many mappings were copied from parents to children so far.
    copies: usize,
    build_ids: HashMap<String, Vec<u8>>,
    /// The last call chain of each process. The next chain mostly has the same outer frames.
    last: HashMap<u32, Chain>,
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
    /// Creates a converter for these events and this machine. `unwind` unwinds the user stacks that samples contain.
    pub fn new(machine: Machine, events: Vec<Event>, unwind: &'u mut dyn Unwind) -> Converter<'u> {
        let recording = Recording { machine, events, ..Recording::default() };
        Converter {
            recording,
            maps: HashMap::new(),
            copies: 0,
            build_ids: HashMap::new(),
            last: HashMap::new(),
            unwind,
        }
    }

    /// Sets build IDs by path, for records that have no build ID.
    pub fn build_ids(&mut self, by_path: HashMap<String, Vec<u8>>) {
        self.build_ids = by_path;
    }

    /// Adds a caveat to the recording.
    pub fn caveat(&mut self, caveat: RecordingCaveat) {
        if self.recording.caveats.len() < CAVEATS_MAX {
            self.recording.caveats.push(caveat);
        }
    }

    /// Adds the next record, which belongs to `event` and has this layout.
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
                    self.last.remove(pid);
                    self.maps.remove(pid);
                }
                let name = Some(String::from_utf8_lossy(name).into_owned());
                self.recording.threads.insert(*tid, crate::recording::Thread { pid: *pid, name });
            }
            What::Forked { pid, parent_pid, tid, parent_tid } => {
                self.lived(Life { at_ns, pid: *pid, tid: *tid, made_by: Some(*parent_pid) });
                self.forked((*pid, *tid), (*parent_pid, *parent_tid));
            }
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
            What::Ended { pid, tid } => self.lived(Life { at_ns, pid: *pid, tid: *tid, made_by: None }),
            What::Other(_) => {}
        }
    }

    /// Counts an invalid record.
    pub fn odd(&mut self) {
        self.recording.lost.odd += 1;
    }

    /// The finished recording.
    pub fn finish(mut self) -> Recording {
        // The kernel writes no name record for idle threads.
        let idle = self.recording.threads.get_mut(&0).filter(|idle| idle.name.is_none());
        if let Some(idle) = idle {
            idle.name = Some("swapper".to_owned());
        }
        self.recording.samples.sort_by_key(|sample| sample.at_ns);
        self.recording.switches.sort_by_key(|switch| switch.at_ns);
        self.recording
    }

    /// Adds the start or end of a thread. A record without a time describes the state before the recording, so it is not added.
    fn lived(&mut self, life: Life) {
        if life.at_ns != 0 {
            self.recording.lives.push(life);
        }
    }

    fn forked(&mut self, (pid, tid): (u32, u32), (parent_pid, parent_tid): (u32, u32)) {
        if pid != parent_pid {
            self.last.remove(&pid);
            match self.maps.get(&parent_pid).cloned() {
                Some(maps) => self.maps.insert(pid, maps),
                // The parent is unknown. Remove mappings of an ended process that had the same pid.
                None => self.maps.remove(&pid),
            };
        }
        let name = self.recording.threads.get(&parent_tid).and_then(|parent| parent.name.clone());
        self.recording.threads.insert(tid, crate::recording::Thread { pid, name });
    }

    fn mapped(&mut self, mapped: &Mapped<'_>, at_ns: u64) {
        let path = String::from_utf8_lossy(mapped.path).into_owned();
        let is_kernel_itself = mapped.is_kernel && path.starts_with(KERNEL);
        if is_kernel_itself && self.recording.machine.kernel_text.is_none() {
            self.recording.machine.kernel_text = Some(mapped.file_offset).filter(|text| *text != 0);
        }
        let known = if is_kernel_itself { KERNEL } else { &path };
        let build_id = mapped.build_id.map(<[u8]>::to_vec).or_else(|| self.build_ids.get(known).cloned());
        let is_file = if mapped.is_kernel { !is_kernel_itself } else { is_of_file(&path) };
        let module = self.recording.modules.number(Module { path, build_id });
        let end = mapped.start.saturating_add(mapped.length);
        self.recording.mappings.push(Mapping { at_ns, pid: mapped.pid, start: mapped.start, end, module });
        if mapped.is_kernel {
            self.last.clear();
        } else {
            self.last.remove(&mapped.pid);
        }
        let map = Map { start: mapped.start, end, module, file_offset: mapped.file_offset, is_file };
        self.maps_to_change(if mapped.is_kernel { u32::MAX } else { mapped.pid }).add(map);
    }

    /// Adds the stack of a sample frame by frame, and returns its number.
    fn stack_of_frames(&mut self, sample: &record::Sample<'_>, layout: &Layout) -> StackId {
        let mut frames = if sample.is_guest { self.guest() } else { self.chain(sample) };
        if !sample.registers.is_empty() {
            self.unwound(sample, layout, &mut frames);
        }
        if frames.len() > FRAMES_MAX {
            frames.truncate(FRAMES_MAX);
            frames.push(Frame::Hint(Hint::CutOff));
        }
        self.recording.lost.cut_off += u64::from(frames.last() == Some(&Frame::Hint(Hint::CutOff)));
        self.recording.stacks.intern(frames.into_iter().rev())
    }

    /// Adds the stack of a sample that has only a call chain.
    /// The outer frames are mostly the same as in the process's last chain. If so, they are reused.
    fn stack_of_chain(&mut self, sample: &record::Sample<'_>) -> Option<StackId> {
        let words = sample.chain.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map_or(u64::MAX, |word| u64::from_ne_bytes(*word));
        let marker = (0..words.len()).rev().find(|at| word(*at) >= FIRST_MARKER)?;
        // The first address of a block is the executed instruction. The other addresses are return addresses.
        let begin = marker + 2;
        if begin > words.len() || words.len() > FRAMES_MAX || self.last.len() > CHAINS_MAX {
            self.last.clear();
            return None;
        }
        let is_kernel = match word(marker) {
            MARK_KERNEL => true,
            MARK_USER => false,
            _ => return None,
        };
        let pid = sample.id.pid;
        let mut chain = self.last.remove(&pid).filter(|chain| chain.is_kernel == is_kernel).unwrap_or_default();
        chain.is_kernel = is_kernel;
        let outermost_first = (begin..words.len()).rev().map(word);
        let common = outermost_first.clone().zip(&chain.frames).take_while(|(word, (known, _))| word == known).count();
        chain.frames.truncate(common);
        let mut stack = chain.frames.last().map(|(_, stack)| *stack);
        for word in outermost_first.skip(common) {
            let frame = self.frame(pid, word.saturating_sub(1), is_kernel);
            let on = self.recording.stacks.on(stack, frame);
            chain.frames.push((word, on));
            stack = Some(on);
        }
        self.last.insert(pid, chain);
        // The last block holds the outer frames, and the blocks before it hold the inner frames.
        let inner = record::Sample { chain: &sample.chain[..begin * 8], ..*sample };
        for frame in self.chain(&inner).into_iter().rev() {
            stack = Some(self.recording.stacks.on(stack, frame));
        }
        stack
    }

    /// The mappings of a process, for a change.
    /// If the process shares the mappings with its parent, they are copied first, unless that exceeds the limit.
    fn maps_to_change(&mut self, pid: u32) -> &mut Maps {
        let maps = self.maps.entry(pid).or_default();
        if Rc::strong_count(maps) > 1 {
            self.copies = self.copies.saturating_add(maps.count());
            if self.copies > COPIES_MAX {
                *maps = Rc::default();
                if !self.recording.caveats.contains(&RecordingCaveat::TooManyProcesses) {
                    self.recording.caveats.push(RecordingCaveat::TooManyProcesses);
                }
            }
        }
        Rc::make_mut(maps)
    }

    fn sample(&mut self, sample: &record::Sample<'_>, event: EventId, layout: &Layout) {
        // Registers without a stack are the arguments of a probe.
        let arguments = if layout.has(field::STACK_USER) { &[] } else { sample.registers };
        let sample =
            &record::Sample { registers: if arguments.is_empty() { sample.registers } else { &[] }, ..*sample };
        let is_plain = !sample.is_guest && sample.registers.is_empty();
        let stack = is_plain.then(|| self.stack_of_chain(sample)).flatten();
        let stack = stack.unwrap_or_else(|| self.stack_of_frames(sample, layout));
        let recording = &mut self.recording;
        let which = layout.user_registers.to_ne_bytes();
        let raw = if arguments.is_empty() { [&[], sample.raw] } else { [&which, arguments] };
        let bytes = raw[0].len() + raw[1].len();
        // Data beyond 4 GiB is skipped, because offsets have 32 bits.
        let raw = u32::try_from(recording.raw.len() + bytes).map_or((0, 0), |end| {
            raw.iter().for_each(|part| recording.raw.extend_from_slice(part));
            (end - bytes as u32, bytes as u32)
        });
        let known = recording.threads.entry(sample.id.tid).or_default();
        known.pid = sample.id.pid;
        recording.samples.push(Sample {
            event,
            at_ns: sample.id.at_ns,
            cpu: sample.id.cpu,
            pid: sample.id.pid,
            tid: sample.id.tid,
            stack,
            weight: if layout.has(field::PERIOD) { sample.period } else { layout.weight() },
            address: sample.address,
            raw,
        });
    }

    /// The only frame of a sample in a guest, whose code is unknown.
    fn guest(&mut self) -> Vec<Frame> {
        vec![Frame::Named {
            name: self.recording.stacks.text("[guest]"),
            module: None,
            is_kernel: false,
            is_inlined: false,
        }]
    }

    /// The frames of the sample's call chain, innermost first.
    fn chain(&self, sample: &record::Sample<'_>) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut is_kernel = !sample.is_user;
        // A return address points behind the call, so look up the address before it.
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

    /// Replaces the user part of the chain by the unwound stack, unless following frame pointers found more frames.
    fn unwound(&mut self, sample: &record::Sample<'_>, layout: &Layout, frames: &mut Vec<Frame>) {
        let pid = sample.id.pid;
        let none = Rc::default();
        let maps = self.maps.get(&pid).unwrap_or(&none);
        let sampled = SampledStack {
            machine: &self.recording.machine,
            pid,
            registers: sample.registers,
            which: layout.user_registers,
            stack: sample.stack,
        };
        let mut found = Vec::new();
        let end = self.unwind.unwind(&sampled, maps, &self.recording.modules, &mut found);
        let is_user = |frame: &Frame| !matches!(frame, Frame::Kernel { .. });
        if found.is_empty() || end == End::CutOff && frames.iter().filter(|frame| is_user(frame)).count() > found.len()
        {
            return;
        }
        frames.retain(|frame| !is_user(frame));
        frames.extend(found.into_iter().map(|address| self.frame(pid, address, false)));
        if end == End::CutOff {
            frames.push(Frame::Hint(Hint::CutOff));
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

/// Whether a mapping is of a file that has the code, by the rules of perf.
/// Just-in-time compilers put code into memory without a file, or into a file that is not in the file system.
/// The kernel's code for user mode (`[vdso]`) is in no file.
fn is_of_file(path: &str) -> bool {
    const NO_FILE: &[&str] = &["//anon", "/dev/zero", "/anon_hugepage", "/memfd:", "/SYSV", "["];
    !path.is_empty() && !NO_FILE.iter().any(|beginning| path.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::perf::layout::sample as field;
    use crate::recording::Unit;
    use crate::unwind::NoUnwind;

    fn chain() -> impl Strategy<Value = (u32, bool, Vec<u64>)> {
        let address = prop_oneof![4 => 100_u64..108, 1 => Just(0)];
        let marker = prop_oneof![3 => Just(MARK_USER), 2 => Just(MARK_KERNEL), 1 => Just(FIRST_MARKER)];
        let word = prop_oneof![6 => address, 1 => marker];
        (1_u32..3, any::<bool>(), prop::collection::vec(word, 0..12))
    }

    proptest! {
        /// The result does not depend on the reuse of the previous chain.
        #[test]
        fn a_chain_is_the_same_whatever_came_before_it(chains in prop::collection::vec(chain(), 1..20)) {
            let event = Event { name: "cpu-clock".to_owned(), unit: Unit::Nanoseconds };
            let layout = Layout { sample_type: field::IP | field::TID | field::CALLCHAIN, ..Layout::default() };
            let mut unwind = (NoUnwind, NoUnwind);
            let mut kept = Converter::new(Machine::default(), vec![event.clone()], &mut unwind.0);
            let mut fresh = Converter::new(Machine::default(), vec![event], &mut unwind.1);
            for (at, (pid, is_user, words)) in chains.iter().enumerate() {
                let chain: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let id = record::Id { pid: *pid, tid: *pid, at_ns: 1 + at as u64, ..record::Id::default() };
                let sample = record::Sample { id, is_user: *is_user, ip: 7, chain: &chain, ..record::Sample::default() };
                let record = Record { id, what: What::Sample(sample) };
                kept.take(&record, 0, &layout);
                // Add the stack frame by frame, as for a sample with registers.
                fresh.last.clear();
                let stack = fresh.stack_of_frames(&sample, &layout);
                let of = |converter: &Converter<'_>, stack| -> Vec<Frame> {
                    let stacks = &converter.recording.stacks;
                    stacks.innermost_first(stack).map(|frame| stacks.frames()[frame.place()]).collect()
                };
                let seen = kept.recording.samples.last().map(|sample| sample.stack);
                prop_assert_eq!(seen.map(|seen| of(&kept, seen)), Some(of(&fresh, stack)));
            }
        }
    }
}
