//! Chooses the events and flags for a configuration: as much of its requests as the kernel and the user's privileges allow.

use evenkeel_sys::perf_probe::{Probe, ProbeKind};
use evenkeel_sys::perf_sampler::{SampledEvent, Spec, Whose, flag};
use evenkeel_sys::{CpuSet, Errno};

use super::config::{RecordConfig, Switches};
use super::error::LiveError;
use super::probe::Probed;
use super::waking;
use crate::perf::layout::{Layout, sample};

const HARDWARE: u32 = 0;
const HARDWARE_CYCLES: u64 = 0;
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;
const MAJOR_FAULTS: u64 = 6;
const DUMMY: u64 = 9;
const TRACEPOINT: u32 = 2;

/// The registers that an unwinder needs: all of user mode except segments (`PERF_REG_X86_*`).
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 0xff_0fff;
/// X0 to X29, the link register, the stack pointer and the program counter (`PERF_REG_ARM64_*`).
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: u64 = (1 << 33) - 1;

/// An event of a recording.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) spec: Spec,
    /// The place to probe, if the event is a probe.
    pub(super) probe: Option<Probe>,
    /// The IDs of the opened events, one for each CPU or thread.
    pub(super) ids: Vec<u64>,
    pub(super) samples: u64,
}

impl Planned {
    fn new(name: &str, spec: Spec) -> Planned {
        Planned { name: name.to_owned(), spec, probe: None, ids: Vec::new(), samples: 0 }
    }

    /// Opens the event on one CPU.
    pub(super) fn open(&self, whose: Whose<'_>, cpu: usize) -> Result<SampledEvent, Errno> {
        match &self.probe {
            Some(probe) => SampledEvent::probe(&self.spec, probe, whose, cpu),
            None => SampledEvent::open(&self.spec, whose, cpu),
        }
    }
}

/// The events of a recording.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The events. The first event counts nothing: it delivers mappings, names, new threads and switches.
    pub(super) events: Vec<Planned>,
    /// The name of the sampling event, if samples are taken.
    pub(super) clock: Option<String>,
    /// The layout of records, which is the same for all events.
    pub(super) layout: Layout,
    /// A text for each requested event that could not be recorded.
    pub(super) unseen: Vec<String>,
}

impl Plan {
    /// Chooses the events for these settings. Tries each event on the first of these CPUs.
    ///
    /// # Errors
    /// The kernel's error if even the simplest event cannot be opened.
    pub(super) fn probe(settings: &RecordConfig, whose: Whose<'_>, cpus: &CpuSet) -> Result<Plan, Errno> {
        let cpu = cpus.first().ok_or(Errno::NODEV)?;
        let try_one =
            |spec: &Spec| SampledEvent::open(&Spec { flags: spec.flags | flag::DISABLED, ..*spec }, whose, cpu);
        let mut sideband = sideband(settings, whose);
        let mut unseen = Vec::new();
        let mut rights = 0;
        let mut said = try_one(&sideband);
        if matches!(said, Err(Errno::INVAL)) {
            // Kernels before 5.12 have no build IDs in mapping records.
            sideband.flags &= !flag::BUILD_ID;
            said = try_one(&sideband);
        }
        if said.as_ref().is_err_and(|errno| errno.is_denial()) {
            rights = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HYPERVISOR;
            sideband.flags |= rights;
            said = try_one(&sideband);
            unseen.push("the kernel's functions, because you may not record the kernel".to_owned());
        }
        drop(said?);
        let sampled = |kind, config, rate| Spec {
            kind,
            config,
            rate,
            flags: sideband.flags & (flag::INHERIT | rights) | chain_flags(settings) | flag::DISABLED,
            ..sideband
        };
        let mut events = vec![Planned::new("dummy", sideband)];
        let mut add = |name: &str, spec: Spec| events.push(Planned::new(name, spec));
        let mut clock = None;
        if let Some(hz) = settings.clock_hz {
            let of = |kind, config| {
                let spec = sampled(kind, config, u64::from(hz));
                Spec { flags: spec.flags | flag::FREQUENCY, ..spec }
            };
            let cycles = of(HARDWARE, HARDWARE_CYCLES);
            // A guest without hardware counters does not have this event, so use the clock, which every machine has.
            let (name, spec) =
                if try_one(&cycles).is_ok() { ("cycles", cycles) } else { ("cpu-clock", of(SOFTWARE, CPU_CLOCK)) };
            drop(try_one(&spec)?);
            add(name, spec);
            clock = Some(name.to_owned());
        }
        if settings.switches == Switches::WithStacks {
            add("context-switches", sampled(SOFTWARE, CONTEXT_SWITCHES, 1));
            if rights != 0 {
                unseen.push("the stacks of context switches, because you may not record the kernel".to_owned());
            }
        }
        if settings.faults {
            add("major-faults", sampled(SOFTWARE, MAJOR_FAULTS, 1));
        }
        if settings.wakes {
            let tried = waking::number().and_then(|config| {
                let spec = sampled(TRACEPOINT, config, 1);
                drop(try_one(&spec)?);
                waking::check(&spec, cpus).map(|()| spec)
            });
            match tried {
                Ok(spec) => add(waking::NAME, spec),
                Err(errno) => unseen.push(format!(
                    "wake-ups, because the kernel's tracepoint sched:sched_waking is not available ({errno})"
                )),
            }
        }
        if settings.packets {
            let tried = waking::number_of(waking::PACKETS).and_then(|config| {
                let spec = Spec { kind: TRACEPOINT, config, ..short(&sideband) };
                try_one(&spec).map(|_| spec)
            });
            match tried {
                Ok(spec) => events.push(Planned::new("net:net_dev_queue", spec)),
                Err(errno) => unseen.push(format!(
                    "sent packets, because the kernel's tracepoint net:net_dev_queue is not available ({errno})"
                )),
            }
        }
        if !settings.probes.is_empty() {
            let kind = ProbeKind::of_kernel()?;
            events.extend(settings.probes.iter().map(|probed| planned(probed, kind, &sideband)));
        }
        let bytes = events[0].spec.to_bytes();
        let layout = Layout::parse(&bytes, 0).unwrap_or_default();
        Ok(Plan { events, clock, layout, unseen })
    }
}

impl Plan {
    /// Whether any of the events is a tracepoint.
    pub(super) fn has_tracepoint(&self) -> bool {
        self.events.iter().any(|planned| planned.spec.kind == TRACEPOINT)
    }
}

/// An event whose samples need only thread and time. These fields come first, as in the samples of all other events.
fn short(sideband: &Spec) -> Spec {
    let sample_type = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD;
    let flags = sideband.flags & flag::INHERIT | flag::DISABLED;
    Spec { rate: 1, sample_type, flags, ..Spec::default() }
}

/// The event of a probe, with the requested registers in each sample.
fn planned(probed: &Probed, kind: ProbeKind, sideband: &Spec) -> Planned {
    let (kind, config) = probed.probe.numbers(kind);
    let short = short(sideband);
    let sample_type = short.sample_type | if probed.registers == 0 { 0 } else { sample::REGS_USER };
    let spec = Spec { kind, config, sample_type, user_registers: probed.registers, ..short };
    Planned { probe: Some(probed.probe.clone()), ..Planned::new(&probed.event, spec) }
}

/// Checks whether the kernel accepts the probes. The check sets them on this process, which does not run the probed code.
///
/// # Errors
/// [`LiveError::NoProbe`].
pub(super) fn try_probes(settings: &RecordConfig, cpus: &CpuSet) -> Result<(), LiveError> {
    let Some(first) = settings.probes.first() else { return Ok(()) };
    let refused = |event: &str, errno: Errno| {
        let (why, mend) = match errno {
            Errno::NOENT => ("the file no longer exists", "try again"),
            errno if errno.is_denial() => ("only root may set a probe", "run it with sudo"),
            _ => (
                "the kernel cannot set a probe there",
                "name another function, or recognize ticks by wake-ups (--by wakes)",
            ),
        };
        LiveError::NoProbe { event: event.to_owned(), errno, why: why.to_owned(), mend: mend.to_owned() }
    };
    let kind = ProbeKind::of_kernel().map_err(|errno| LiveError::NoProbe {
        event: first.event.clone(),
        errno,
        why: "this kernel does not support uprobes (CONFIG_UPROBE_EVENTS)".to_owned(),
        mend: "recognize ticks by wake-ups (--by wakes)".to_owned(),
    })?;
    let cpu = cpus.first().ok_or(LiveError::Refused { what: "find a CPU".to_owned(), errno: Errno::NODEV })?;
    for probed in &settings.probes {
        let tried = planned(probed, kind, &Spec::default()).open(Whose::Thread(0), cpu);
        tried.map_err(|errno| refused(&probed.event, errno))?;
    }
    Ok(())
}

/// The event that delivers mappings, names, new threads and switches.
fn sideband(settings: &RecordConfig, whose: Whose<'_>) -> Spec {
    let mut flags = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK | flag::BUILD_ID;
    let mut sample_type = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::ADDR
        | sample::CPU
        | sample::PERIOD
        | sample::CALLCHAIN;
    if !settings.mappings {
        flags &= !(flag::MMAP | flag::MMAP2 | flag::BUILD_ID);
    }
    if matches!(whose, Whose::Thread(_)) {
        flags |= flag::INHERIT;
    }
    if settings.switches != Switches::None {
        flags |= flag::CONTEXT_SWITCH;
    }
    if settings.faults {
        flags |= flag::MMAP_DATA;
    }
    if settings.wakes {
        sample_type |= sample::RAW;
    }
    let user_stack_bytes = settings.user_stack_bytes.map_or(0, |bytes| bytes.clamp(8, 65_528) & !7);
    if user_stack_bytes > 0 {
        sample_type |= sample::REGS_USER | sample::STACK_USER;
    }
    let user_registers = if user_stack_bytes > 0 { REGISTERS } else { 0 };
    Spec { kind: SOFTWARE, config: DUMMY, rate: 1, sample_type, flags, user_registers, user_stack_bytes }
}

/// The flags for call chains. If the user stack is copied, the kernel does not need to follow the user's frame pointers.
fn chain_flags(settings: &RecordConfig) -> u64 {
    if settings.user_stack_bytes.is_some() { flag::EXCLUDE_CALLCHAIN_USER } else { 0 }
}
