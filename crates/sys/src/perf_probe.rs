//! `Probe`: an instruction in a program's code whose executions the kernel reports (a uprobe).
//! A probe can also report the return of the function that begins at that instruction.
//! Open and read the event like any other ([`SampledEvent::probe`](crate::perf_sampler::SampledEvent::probe)).
//! A probe writes nothing to tracefs, so no other process sees it. The probe ends with the process that opened it, even after a crash.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::errno::Errno;

/// The file with the type number of the event (`CONFIG_UPROBE_EVENTS`).
const DEVICE: &str = "/sys/bus/event_source/devices/uprobe";

/// An offset in a program's file, at which the kernel places the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    path: CString,
    offset: u64,
    is_return: bool,
}

/// The type and the format in which this kernel expects probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeKind {
    kind: u32,
    return_bit: u32,
}

impl ProbeKind {
    /// The type and format of the running kernel.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no such events; `EINVAL` if it rejects the description.
    pub fn of_kernel() -> Result<ProbeKind, Errno> {
        let read =
            |file: &str| std::fs::read_to_string(format!("{DEVICE}/{file}")).map_err(|error| Errno::from(&error));
        let kind = read("type")?.trim().parse().map_err(|_| Errno::INVAL)?;
        let return_bit = parse_bit(&read("format/retprobe")?).ok_or(Errno::INVAL)?;
        Ok(ProbeKind { kind, return_bit })
    }
}

/// Parses `config:0`, which names a bit of `config`.
fn parse_bit(text: &str) -> Option<u32> {
    text.trim().strip_prefix("config:")?.parse().ok().filter(|bit| *bit < 64)
}

impl Probe {
    /// A probe at this offset of the file at `path`. The offset must be the first byte of an instruction.
    /// The kernel does not check the offset, and places its own instruction there.
    ///
    /// # Errors
    /// `EINVAL` if the path contains a zero byte.
    pub fn at(path: &Path, offset: u64) -> Result<Probe, Errno> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        Ok(Probe { path, offset, is_return: false })
    }

    /// A probe at the return of the function that begins at this offset.
    /// While the function runs, its return address is the kernel's own code.
    /// If an exception or panic unwinds through the function, it finds no caller, and the program ends.
    #[must_use]
    pub fn on_return(self) -> Probe {
        Probe { is_return: true, ..self }
    }

    /// The offset of the probe in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the probe is at the function's return.
    pub fn is_return(&self) -> bool {
        self.is_return
    }

    /// The additional arguments for the kernel: the offset, and the address of the path. The address is valid as long as this value lives.
    pub(crate) fn address(&self) -> [u64; 2] {
        [self.path.as_ptr().expose_provenance() as u64, self.offset]
    }

    /// The `type` and `config` of the probe's event.
    pub fn numbers(&self, of: ProbeKind) -> (u32, u64) {
        (of.kind, u64::from(self.is_return) << of.return_bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_sampler::{SampledEvent, SampledRing, Spec, Whose};

    #[test]
    fn the_bit_is_read() {
        for (text, bit) in
            [("config:0\n", Some(0)), ("config:32-63", None), ("config1:0", None), ("config:64", None), ("", None)]
        {
            assert_eq!(parse_bit(text), bit, "{text:?}");
        }
        let probe = Probe::at(Path::new("/bin/true"), 64).unwrap();
        let kind = ProbeKind { kind: 8, return_bit: 3 };
        assert_eq!((probe.numbers(kind), probe.clone().on_return().numbers(kind)), ((8, 0), (8, 8)));
        assert_eq!(Probe::at(Path::new("a\0b"), 0), Err(Errno::INVAL));
    }

    #[inline(never)]
    extern "C" fn probed(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    /// The offset of a function in this program's file, according to the process's mappings.
    fn offset_of(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let of = |line: &str| {
            let mut parts = line.split(' ');
            let (start, end) = parts.next().unwrap().split_once('-').unwrap();
            (hex(start)..hex(end))
                .contains(&(address as u64))
                .then(|| address as u64 - hex(start) + hex(parts.nth(1).unwrap()))
        };
        maps.lines().find_map(of).unwrap()
    }

    #[test]
    fn a_function_of_ours_is_seen_when_it_begins_and_when_it_returns() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let body = move || {
            crate::thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            let function: extern "C" fn(u64) -> u64 = probed;
            let offset = offset_of(function as usize);
            let open = |probe: Probe| {
                let (kind, config) = probe.numbers(ProbeKind::of_kernel()?);
                // Each sample has the thread and the time.
                let spec = Spec { kind, config, rate: 1, sample_type: 1 << 1 | 1 << 2, ..Spec::default() };
                SampledRing::new(SampledEvent::probe(&spec, &probe, Whose::Thread(0), cpu)?, 0)
            };
            let begin = Probe::at(Path::new("/proc/self/exe"), offset).unwrap();
            let (mut begins, mut returns) = match (open(begin.clone()), open(begin.on_return())) {
                (Ok(begins), Ok(returns)) => (begins, returns),
                (begins, returns) => {
                    let errno = begins.err().or(returns.err()).unwrap();
                    assert!(errno.is_denial() || errno == Errno::NOENT || errno == Errno::NOSYS, "{errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not probe a function ({errno})"));
                    return;
                }
            };
            let mut sum = 0;
            for number in 0..7 {
                sum += probed(number);
            }
            assert_eq!(sum, 28);
            // A record has the header, then the process and thread, then the time.
            assert_eq!((begins.take().len(), returns.take().len()), (7 * 24, 7 * 24));
        };
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn entries_stand_among_a_threads_switches() {
        use crate::perf_thread::{ThreadRecord, ThreadSwitches};
        let function: extern "C" fn(u64) -> u64 = probed;
        let probe = Probe::at(Path::new("/proc/self/exe"), offset_of(function as usize)).unwrap();
        let body = move || {
            let tid = crate::thread::id();
            let opened = ThreadSwitches::of_thread(tid, 64).and_then(|switches| switches.with_entries(tid, &probe));
            let mut switches = match opened {
                Ok(switches) => switches,
                Err(errno) => {
                    assert!(errno.is_denial() || errno == Errno::NOENT || errno == Errno::NOSYS, "{errno}");
                    evenkeel_testkit::skipped(format_args!("this user may not probe a function ({errno})"));
                    return;
                }
            };
            let before_ns = crate::clock::monotonic_ns();
            for number in 0..5 {
                probed(number);
            }
            let after_ns = crate::clock::monotonic_ns();
            switches.pause().unwrap();
            probed(5);
            switches.resume().unwrap();
            probed(6);
            let mut entered = Vec::new();
            switches.drain(|record| {
                entered.extend(if let ThreadRecord::Entered(at_ns) = record { Some(at_ns) } else { None })
            });
            assert_eq!(entered.len(), 6, "none while it is paused");
            assert!(entered.is_sorted() && entered[0] >= before_ns && entered[4] <= after_ns && entered[5] > after_ns);
        };
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn other_files_are_errors() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let Ok(kind) = ProbeKind::of_kernel() else {
            evenkeel_testkit::skipped("this kernel has no probes");
            return;
        };
        for path in ["/nonexistent", "/proc", "/dev/null"] {
            let probe = Probe::at(Path::new(path), 0).unwrap();
            let (kind, config) = probe.numbers(kind);
            let spec = Spec { kind, config, rate: 1, sample_type: 1 << 2, ..Spec::default() };
            assert!(SampledEvent::probe(&spec, &probe, Whose::Thread(0), cpu).is_err(), "{path}");
        }
    }
}
