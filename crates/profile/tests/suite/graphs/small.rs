//! A recording with a few samples of every kind.

use evenkeel_profile::names::{Function, Names};
use evenkeel_profile::recording::{Event, Machine, Recording, Sample, Span, Switch, Thread, Turn, Unit};
use evenkeel_profile::stack::{Frame, Module, StackId};

const MS: u64 = 1_000_000;

/// A recording and its names.
pub(crate) struct Small {
    pub(crate) recording: Recording,
    pub(crate) names: Names,
}

/// Two threads of a server on two CPUs. There is user, kernel, inlined and generated code, a file without names, and two switches.
pub(crate) fn recording() -> Small {
    let mut recording = Recording {
        machine: Machine { host: Some("vm".into()), kernel: Some("6.1.0".into()), ..Machine::default() },
        events: vec![
            Event { name: "cpu-clock".into(), unit: Unit::Nanoseconds },
            Event { name: "context-switches".into(), unit: Unit::Events },
        ],
        span: Span { start_ns: 1000 * MS, end_ns: 1100 * MS },
        ..Recording::default()
    };
    for (tid, name) in [(10, "game"), (11, "net worker 2")] {
        recording.threads.insert(tid, Thread { pid: 10, name: Some(name.into()) });
    }
    let file = recording.modules.number(Module { path: "/usr/bin/game".into(), build_id: None });
    let bare = recording.modules.number(Module { path: "/lib/libfoo.so.1".into(), build_id: None });
    let user = |offset| Frame::InFile { module: file, offset };
    let (main, tick, update, jit) = (user(1), user(2), user(3), Frame::Anonymous { pid: 10, address: 7 });
    let read = Frame::Kernel { address: u64::MAX - 4096, module: None };
    let unnamed = Frame::InFile { module: bare, offset: 9 };
    let stacks = [vec![main, tick, update], vec![main, tick], vec![main, tick, jit], vec![main, read], vec![unnamed]];
    let stacks: Vec<StackId> = stacks.into_iter().map(|frames| recording.stacks.intern(frames)).collect();
    let seen =
        [(0, 10, 0, 0), (1, 10, 0, 0), (2, 10, 0, 1), (3, 10, 1, 2), (4, 11, 1, 3), (5, 11, 1, 4), (6, 10, 0, 0)];
    for (at, tid, cpu, stack) in seen {
        let at_ns = (1000 + at * 10) * MS;
        recording.samples.push(sample(0, at_ns, (tid, cpu), stacks[stack]));
    }
    // A sample of another event, which must not be shown.
    recording.samples.push(Sample { weight: 1, ..sample(1, 1065 * MS, (10, 0), stacks[1]) });
    let turns =
        [(5, Turn::In, 10), (22, Turn::Preempted, 10), (22, Turn::In, 11), (31, Turn::Slept, 11), (31, Turn::In, 10)];
    for (at, turn, tid) in turns {
        let other = (turn == Turn::Preempted).then_some((10, 11));
        recording.switches.push(Switch { at_ns: (1000 + at) * MS, cpu: 0, pid: 10, tid, turn, other });
    }
    let names = Names::resolve(&recording, |frame| match frame {
        Frame::InFile { offset: 1, .. } => vec![Function::named("main")],
        Frame::InFile { offset: 2, .. } => vec![Function::named("game::tick")],
        Frame::InFile { offset: 3, .. } => {
            vec![Function::named("world::update"), Function { is_inlined: true, ..Function::named("<u8; 8>::hash 32") }]
        }
        Frame::Anonymous { .. } => vec![Function::named("Main.run")],
        Frame::Kernel { .. } => vec![Function::named("vfs_read")],
        _ => Vec::new(),
    });
    Small { recording, names }
}

fn sample(event: u16, at_ns: u64, (tid, cpu): (u32, u32), stack: StackId) -> Sample {
    Sample { event, at_ns, cpu, pid: 10, tid, stack, weight: 10 * MS, address: 0, raw: (0, 0) }
}

impl Small {
    /// The samples of the clock.
    pub(crate) fn samples(&self) -> Vec<&Sample> {
        self.recording.samples.iter().filter(|sample| sample.event == 0).collect()
    }
}
