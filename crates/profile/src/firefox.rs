//! Exports a recording for the Firefox Profiler (profiler.firefox.com, which keeps files in the browser).
//! The export has threads with samples, a track for each CPU, and markers such as off-CPU intervals.

use std::collections::{BTreeMap, HashMap};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};

use crate::fold::{mark_of, thread_name};
use crate::names::Names;
use crate::offcpu::OffCpuInterval;
use crate::recording::{Recording, Sample, Span, Switch, Turn, Unit};
use crate::stack::{FrameId, StackId};
use crate::ticks::Tick;
use crate::tree::{Kind, clean};

/// The maximum number of markers, because more make a browser slow. The longest markers are exported.
const MARKS_MAX: usize = 200_000;
/// The sampling interval to declare if the recording's interval is unknown.
const INTERVAL_NS: u64 = 10_101_010;

/// A marker on a thread's track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The process of the thread.
    pub pid: u32,
    /// The thread on whose track the marker is.
    pub tid: u32,
    /// Start and end of the marker.
    pub span: Span,
    /// The name of the marker. Markers with the same name share a row.
    pub name: String,
    /// The text that the browser shows for the marker.
    pub text: String,
}

/// Makes a marker of each off-CPU interval, with the reason as its name.
pub fn interval_marks(recording: &Recording, intervals: &[OffCpuInterval]) -> Vec<Mark> {
    let name = |tid| thread_name(recording, tid);
    intervals
        .iter()
        .map(|interval| {
            let taken_by = interval.taken_by.filter(|(_, tid)| *tid != 0);
            let parts = [
                taken_by.map(|(_, tid)| format!("CPU {} taken by {}", interval.cpu, name(tid))),
                interval.woken_by.map(|(tid, _)| format!("woken by {}", name(tid))),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let (pid, tid, span) = (interval.pid, interval.tid, interval.span);
            Mark { pid, tid, span, name: interval.reason.words().to_owned(), text: parts.join(", ") }
        })
        .collect()
}

/// Makes a marker of each tick, from due to done.
pub fn tick_marks(recording: &Recording, tid: u32, ticks: &[Tick]) -> Vec<Mark> {
    let pid = recording.threads.get(&tid).map_or(tid, |thread| thread.pid);
    let ms = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    let mark = |tick: &Tick| {
        let late = tick.lateness_ns();
        let begun = if late == 0 { "on time".to_owned() } else { format!("{} late", ms(late)) };
        let text = format!("{}, begun {begun}", ms(tick.span.length_ns()));
        Mark { pid, tid, span: tick.span, name: "tick".to_owned(), text }
    };
    ticks.iter().map(mark).collect()
}

/// The recording as JSON, with the given samples (sorted by time) and with `marks` on the tracks of their threads.
pub fn json(
    title: &str,
    recording: &Recording,
    names: &Names,
    samples: &[&Sample],
    marks: Vec<Mark>,
) -> Result<String, serde_json::Error> {
    let interval = samples.iter().map(|sample| sample.weight).find(|weight| (1000..=1_000_000_000).contains(weight));
    let interval = SamplingInterval::from_nanos(interval.unwrap_or(INTERVAL_NS));
    let epoch = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let mut profile = Profile::new(&clean(title), epoch, interval);
    profile.set_symbolicated(true);
    let machine = &recording.machine;
    let system = ["Linux"].into_iter().chain(machine.kernel.as_deref()).chain(machine.architecture.as_deref());
    profile.set_os_name(&system.collect::<Vec<_>>().join(" "));
    let mut maker = Maker {
        recording,
        names,
        categories: Categories::new(&mut profile),
        profile,
        start_ns: recording.span.start_ns,
        processes: BTreeMap::new(),
        threads: BTreeMap::new(),
        frames: HashMap::new(),
        stacks: HashMap::new(),
    };
    maker.samples(samples);
    maker.marks(marks);
    maker.cpus(samples);
    serde_json::to_string(&maker.profile)
}

/// The colours of frames.
#[derive(Clone, Copy)]
struct Categories {
    user: CategoryHandle,
    kernel: CategoryHandle,
    inlined: CategoryHandle,
    jit: CategoryHandle,
    off: CategoryHandle,
}

impl Categories {
    fn new(profile: &mut Profile) -> Categories {
        Categories {
            user: profile.add_category("User", CategoryColor::Green),
            kernel: profile.add_category("Kernel", CategoryColor::Orange),
            inlined: profile.add_category("Inlined", CategoryColor::Yellow),
            jit: profile.add_category("Made at run time", CategoryColor::Blue),
            off: profile.add_category("Marks", CategoryColor::Purple),
        }
    }

    fn handle(self, kind: Kind) -> CategoryHandle {
        match kind {
            Kind::User => self.user,
            Kind::Kernel => self.kernel,
            Kind::Inlined => self.inlined,
            Kind::Jit => self.jit,
            Kind::Unnamed => CategoryHandle::OTHER,
        }
    }
}

/// The track of a stack, and its root label. The label takes the place of the outermost function's caller.
/// On the track of a CPU, the label is the thread's name. Tracks of threads have no label.
type TrackBase = (ThreadHandle, Option<StringHandle>);

struct Maker<'a> {
    recording: &'a Recording,
    names: &'a Names,
    profile: Profile,
    categories: Categories,
    start_ns: u64,
    processes: BTreeMap<u32, ProcessHandle>,
    threads: BTreeMap<(u32, u32), ThreadHandle>,
    /// The functions of each frame, outermost first.
    frames: HashMap<FrameId, Vec<(StringHandle, CategoryHandle)>>,
    /// The stacks that were already added, by track and stack number.
    stacks: HashMap<(TrackBase, StackId), StackHandle>,
}

impl Maker<'_> {
    fn at(&self, at_ns: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(at_ns.saturating_sub(self.start_ns))
    }

    fn thread(&mut self, pid: u32, tid: u32) -> ThreadHandle {
        if let Some(known) = self.threads.get(&(pid, tid)) {
            return *known;
        }
        let start = self.at(self.start_ns);
        let process = match self.processes.get(&pid) {
            Some(known) => *known,
            None => {
                let process = self.profile.add_process(&thread_name(self.recording, pid), pid, start);
                self.processes.insert(pid, process);
                process
            }
        };
        let thread = self.profile.add_thread(process, tid, start, pid == tid);
        self.profile.set_thread_name(thread, &thread_name(self.recording, tid));
        self.threads.insert((pid, tid), thread);
        thread
    }

    fn samples(&mut self, samples: &[&Sample]) {
        for sample in samples {
            let thread = self.thread(sample.pid, sample.tid);
            self.sample((thread, None), sample);
        }
    }

    fn sample(&mut self, base: TrackBase, sample: &Sample) {
        let stack = self.stack(base, sample.stack);
        let is_time =
            self.recording.events.get(usize::from(sample.event)).is_some_and(|event| event.unit == Unit::Nanoseconds);
        let cpu = if is_time { CpuDelta::from_nanos(sample.weight) } else { CpuDelta::ZERO };
        self.profile.add_sample(base.0, self.at(sample.at_ns), stack, cpu, 1);
    }

    /// Adds a stack to a track, unless it was added before.
    fn stack(&mut self, base: TrackBase, stack: StackId) -> Option<StackHandle> {
        let mut above: Vec<(StackId, FrameId)> = Vec::new();
        let mut next = Some(stack);
        let mut below = None;
        while let Some(at) = next {
            if let Some(known) = self.stacks.get(&(base, at)) {
                below = Some(*known);
                break;
            }
            let (frame, under) = self.recording.stacks.top(at);
            above.push((at, frame));
            next = under;
        }
        if below.is_none()
            && let Some(label) = base.1
        {
            below = Some(self.put(base.0, None, (label, CategoryHandle::OTHER)));
        }
        for (at, frame) in above.into_iter().rev() {
            for function in self.functions(frame) {
                below = Some(self.put(base.0, below, function));
            }
            if let Some(below) = below {
                self.stacks.insert((base, at), below);
            }
        }
        below
    }

    fn put(
        &mut self,
        thread: ThreadHandle,
        below: Option<StackHandle>,
        (name, category): (StringHandle, CategoryHandle),
    ) -> StackHandle {
        let info = FrameInfo { frame: Frame::Label(name), category_pair: category.into(), flags: FrameFlags::empty() };
        let frame = self.profile.intern_frame(thread, info);
        self.profile.intern_stack(thread, below, frame)
    }

    fn functions(&mut self, frame: FrameId) -> Vec<(StringHandle, CategoryHandle)> {
        if let Some(known) = self.frames.get(&frame) {
            return known.clone();
        }
        let named = self.names.get(frame);
        let mark = mark_of(self.recording, self.names, frame);
        let mut texts: Vec<(String, &str)> = named
            .functions
            .iter()
            .map(|function| (clean(&function.name), if function.is_inlined { "_[i]" } else { mark }))
            .collect();
        if texts.is_empty() {
            texts.push((clean(&named.in_place), mark));
        }
        let functions: Vec<_> = texts
            .into_iter()
            .map(|(name, mark)| {
                let kind = Kind::parse(&(name.clone() + mark)).0;
                (self.profile.intern_string(&name), self.categories.handle(kind))
            })
            .collect();
        self.frames.insert(frame, functions.clone());
        functions
    }

    fn marks(&mut self, mut marks: Vec<Mark>) {
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.span.length_ns()));
        marks.truncate(MARKS_MAX);
        marks.sort_by_key(|mark| (mark.span.start_ns, mark.tid));
        for mark in marks {
            let thread = self.thread(mark.pid, mark.tid);
            self.mark(thread, mark.span, &mark.name, &mark.text);
        }
    }

    fn mark(&mut self, thread: ThreadHandle, span: Span, name: &str, text: &str) {
        let text = if text.is_empty() { String::new() } else { clean(text) };
        let marker = TextMark {
            name: self.profile.intern_string(&clean(name)),
            text: self.profile.intern_string(&text),
            category: self.categories.off,
        };
        let timing = MarkerTiming::Interval(self.at(span.start_ns), self.at(span.end_ns));
        self.profile.add_marker(thread, timing, marker);
    }

    /// Adds a track for each CPU. It has the samples of the CPU above the thread's name, and a marker for each time slice of a thread.
    fn cpus(&mut self, samples: &[&Sample]) {
        let start = self.at(self.start_ns);
        let mut cpus: Vec<u32> = samples.iter().map(|sample| sample.cpu).collect();
        cpus.extend(self.recording.switches.iter().map(|switch| switch.cpu));
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            return;
        }
        let process = self.profile.add_process("CPUs", 0, start);
        let mut tracks: HashMap<u32, ThreadHandle> = HashMap::new();
        for cpu in cpus {
            let track = self.profile.add_thread(process, cpu, start, false);
            self.profile.set_thread_name(track, &format!("CPU {cpu}"));
            tracks.insert(cpu, track);
        }
        for sample in samples {
            let label = self.profile.intern_string(&thread_name(self.recording, sample.tid));
            if let Some(track) = tracks.get(&sample.cpu) {
                self.sample((*track, Some(label)), sample);
            }
        }
        let mut turns = turns(self.recording);
        turns.sort_by_key(|(_, _, span)| std::cmp::Reverse(span.length_ns()));
        turns.truncate(MARKS_MAX);
        turns.sort_by_key(|(cpu, _, span)| (span.start_ns, *cpu));
        for (cpu, tid, span) in turns {
            if let Some(track) = tracks.get(&cpu) {
                self.mark(*track, span, "runs", &thread_name(self.recording, tid));
            }
        }
    }
}

/// For each time slice of a thread on a CPU: the CPU, the thread and the time. The idle thread is left out.
fn turns(recording: &Recording) -> Vec<(u32, u32, Span)> {
    let mut on: HashMap<u32, &Switch> = HashMap::new();
    let mut turns = Vec::new();
    for switch in &recording.switches {
        let began = if switch.turn == Turn::In { on.insert(switch.cpu, switch) } else { on.remove(&switch.cpu) };
        if let Some(began) = began.filter(|began| began.tid != 0) {
            turns.push((switch.cpu, began.tid, Span { start_ns: began.at_ns, end_ns: switch.at_ns }));
        }
    }
    turns
}

/// A marker with a text.
#[derive(Clone, Debug)]
struct TextMark {
    name: StringHandle,
    text: StringHandle,
    category: CategoryHandle,
}

impl StaticSchemaMarker for TextMark {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Text";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.text}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.text}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "text",
        label: "Details",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.text
    }

    // The profiler never calls this function, because this marker has no number fields.
    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}
