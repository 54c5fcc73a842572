//! Readings that are not files, under paths that begin with `@`, so that captures can contain them.

use evenkeel_sys::{Errno, clock, dma_latency};

use crate::{ethtool, kernel_config, kernel_log, package};

/// Answers these paths:
/// `@uname`.
/// `@cpuid/LEAF` (hexadecimal).
/// `@ethtool/INTERFACE/WHAT`, where WHAT is `drvinfo`, `channels`, `rings`, `coalesce`, `features`, `rss` or `stats`.
/// `@tick_ns`: the resolution of the kernel's coarse clocks in nanoseconds, which is one tick of its timer.
/// `@cpu_dma_latency_us`: the lowest latency limit that any process requests at `/dev/cpu_dma_latency`.
/// `@kernel-config`.
/// `@kernel-log/tsc`: the kernel log's messages about the time-stamp counter.
/// `@package/NAME`: the version of an installed package.
pub(crate) fn text(path: &str) -> Result<String, Errno> {
    let mut parts = path.strip_prefix('@').ok_or(Errno::INVAL)?.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("uname"), None, ..) => Ok(uname()),
        (Some("cpuid"), Some(leaf), None, _) => cpuid(u32::from_str_radix(leaf, 16).map_err(|_| Errno::INVAL)?),
        (Some("ethtool"), Some(interface), Some("drvinfo"), None) => ethtool::driver_info(interface),
        (Some("ethtool"), Some(interface), Some("channels"), None) => ethtool::channels(interface),
        (Some("ethtool"), Some(interface), Some("rings"), None) => ethtool::rings(interface),
        (Some("ethtool"), Some(interface), Some("coalesce"), None) => ethtool::coalesce(interface),
        (Some("tick_ns"), None, ..) => Ok(format!("{}\n", clock::kernel_tick_ns())),
        (Some("cpu_dma_latency_us"), None, ..) => cpu_dma_latency_us(),
        (Some("kernel-log"), Some("tsc"), None, _) => {
            kernel_log::lines(|line| line.contains("TSC") || line.contains("tsc"))
        }
        (Some("package"), Some(name), None, _) => package::version(name, |path| Ok(open(path)?)),
        (Some("kernel-config"), None, ..) => kernel_config::text(|path| Ok(open(path)?)),
        (Some("ethtool"), Some(interface), Some("features"), None) => ethtool::features(interface),
        (Some("ethtool"), Some(interface), Some("rss"), None) => ethtool::rss(interface),
        (Some("ethtool"), Some(interface), Some("stats"), None) => ethtool::stats(interface),
        _ => Err(Errno::NOENT),
    }
}

fn open(path: &str) -> rustix::io::Result<std::fs::File> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Opening the device requests the default limit, which limits nothing.
/// Closing the device removes the request (`cpu_latency_qos_open` in `kernel/power/qos.c`).
fn cpu_dma_latency_us() -> Result<String, Errno> {
    use std::io::Read;
    let mut bytes = [0; 4];
    open(dma_latency::DEVICE)?.read_exact(&mut bytes).map_err(|error| Errno::from(&error))?;
    Ok(format!("{}\n", i32::from_ne_bytes(bytes)))
}

fn uname() -> String {
    let uname = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    format!("sysname={}\nrelease={}\nmachine={}\n", part(uname.sysname()), part(uname.release()), part(uname.machine()))
}

/// The four registers, `eax ebx ecx edx`, each with eight hexadecimal digits.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> Result<String, Errno> {
    use evenkeel_sys::cpuid::cpuid as registers_of;
    // The first leaf of a range contains the number of the range's highest leaf.
    // Hypervisors have ranges of 256 leaves each. KVM uses the second range if Hyper-V's leaves are in the first range.
    let range = if leaf >> 16 == 0x4000 { leaf & 0xffff_ff00 } else { leaf & 0xffff_0000 };
    if leaf > range && leaf > registers_of(range).eax {
        return Err(Errno::NOENT);
    }
    let registers = registers_of(leaf);
    Ok(format!("{:08x} {:08x} {:08x} {:08x}\n", registers.eax, registers.ebx, registers.ecx, registers.edx))
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid(_leaf: u32) -> Result<String, Errno> {
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_pseudo_paths_are_absent() {
        for path in ["@", "@nothing", "@uname/x", "@ethtool/lo", "@ethtool/lo/drvinfo/x", "@cpuid"] {
            assert_eq!(text(path), Err(Errno::NOENT), "{path}");
        }
        assert_eq!(text("@cpuid/xyz"), Err(Errno::INVAL));
    }

    #[test]
    fn the_tick_is_a_fraction_of_a_second() {
        let tick: u64 = text("@tick_ns").unwrap().trim().parse().unwrap();
        assert!((1_000_000..=10_000_000).contains(&tick), "{tick}");
    }

    #[test]
    fn the_latency_that_processes_ask_for_is_a_number_or_refused() {
        match text("@cpu_dma_latency_us") {
            Ok(text) => assert!(text.trim().parse::<i32>().unwrap() >= 0, "{text}"),
            Err(errno) => assert!(errno.is_denial() || errno.is_absence(), "{errno}"),
        }
    }

    #[test]
    fn uname_agrees_with_proc() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(text("@uname").unwrap().contains(&format!("release={release}")));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_vendor_agrees_with_cpuinfo() {
        let registers = text("@cpuid/0").unwrap();
        let words: Vec<u32> = registers.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        let vendor: Vec<u8> = [words[1], words[3], words[2]].iter().flat_map(|word| word.to_le_bytes()).collect();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        assert!(cpuinfo.contains(std::str::from_utf8(&vendor).unwrap()));
    }
}
