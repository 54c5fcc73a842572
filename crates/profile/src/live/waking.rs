//! The tracepoint of wake-ups. evenkeel tests it before use, and describes it for `perf` in the file.
//! The tracepoint of packets needs neither.

use evenkeel_sys::perf_sampler::{SampledEvent, SampledRing, Spec, Whose, flag};
use evenkeel_sys::{CpuSet, Errno, tracepoint};

/// The group and name of the tracepoint of wake-ups.
const POINT: &str = "sched/sched_waking";
/// The name of the wake-up event in perf's style.
pub(super) const NAME: &str = "sched:sched_waking";
/// The maximum length of a tracepoint's description, in bytes.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// The tracepoint of packets passed to a network interface.
pub(super) const PACKETS: &str = "net/net_dev_queue";

/// The kernel's number of the tracepoint of wake-ups.
pub(super) fn number() -> Result<u64, Errno> {
    number_of(POINT)
}

/// The kernel's number of this tracepoint.
pub(super) fn number_of(name: &'static str) -> Result<u64, Errno> {
    let points = tracepoint::find(&[name])?;
    points.first().map(|point| u64::from(point.id())).ok_or(Errno::NOENT)
}

/// Wakes a thread and checks that the event reports this, because tracepoints of the scheduler do not fire on some kernels.
///
/// # Errors
/// `ENODATA` if the event does not report the wake-up. Otherwise the kernel's error.
pub(super) fn check(spec: &Spec, cpus: &CpuSet) -> Result<(), Errno> {
    let spec = Spec { flags: spec.flags & !(flag::DISABLED | flag::INHERIT), ..*spec };
    let open = |cpu| SampledRing::new(SampledEvent::open(&spec, Whose::Thread(0), cpu)?, 0);
    let mut rings = cpus.iter().map(open).collect::<Result<Vec<_>, Errno>>()?;
    let (say, hear) = std::sync::mpsc::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let _ = ready.send(());
        // The call returns when the sender is dropped.
        let _ = hear.recv();
    });
    let _ = is_ready.recv();
    // The thread sleeps soon after it has reported that it is ready.
    std::thread::sleep(std::time::Duration::from_millis(2));
    drop(say);
    let _ = sleeper.join();
    if rings.iter_mut().any(|ring| !ring.take().is_empty()) { Ok(()) } else { Err(Errno::NODATA) }
}

/// The description that `perf` needs to read the samples (`HEADER_TRACING_DATA`, version 0.6). Empty if the kernel does not provide it.
pub(super) fn described() -> Vec<u8> {
    described_in().unwrap_or_default()
}

fn described_in() -> Result<Vec<u8>, Errno> {
    let of = |path: &str| tracepoint::described(path, DESCRIPTION_BYTES_MAX);
    let sized = |text: &[u8]| [&(text.len() as u64).to_ne_bytes(), text].concat();
    let count = |count: u32| count.to_ne_bytes();
    let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
    // The byte order, the size of a long, and the size of a page.
    bytes.extend([u8::from(cfg!(target_endian = "big")), 8]);
    bytes.extend(count(4096));
    for head in ["header_page", "header_event"] {
        bytes.extend_from_slice(head.as_bytes());
        bytes.push(0);
        bytes.extend(sized(&of(&format!("events/{head}"))?));
    }
    // No formats of the tracer itself, and one group with one event.
    bytes.extend(count(0));
    bytes.extend(count(1));
    bytes.extend_from_slice(b"sched\0");
    bytes.extend(count(1));
    bytes.extend(sized(&of(&format!("events/{POINT}/format"))?));
    // No symbols, printk formats or thread names. The records contain the thread names.
    bytes.extend(count(0));
    bytes.extend(count(0));
    bytes.extend(0_u64.to_ne_bytes());
    Ok(bytes)
}
