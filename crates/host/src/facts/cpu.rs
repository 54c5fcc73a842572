//! CPUs: which exist, and how they share cores, packages and caches.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::field;
use evenkeel_sys::CpuSet;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, and_then, or_else};

const DIR: &str = "/sys/devices/system/cpu";

/// The maximum number of caches of one CPU to read. Processors have three to five caches.
const CACHES_MAX: usize = 16;

/// The maximum number of vulnerabilities to read. Linux 6.18 knows 19.
const VULNERABILITIES_MAX: usize = 64;

/// Implementer, part and name of the cores that clouds offer, from Arm's and Ampere's manuals (register `MIDR_EL1`).
const ARM_CORES: &[(&str, &str, &str)] = &[
    ("0x41", "0xd08", "Arm Cortex-A72"),
    ("0x41", "0xd0c", "Arm Neoverse-N1"),
    ("0x41", "0xd40", "Arm Neoverse-V1"),
    ("0x41", "0xd49", "Arm Neoverse-N2"),
    ("0x41", "0xd4f", "Arm Neoverse-V2"),
    ("0xc0", "0xac3", "Ampere-1"),
];

/// The CPUs of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpus {
    /// The processor's name in /proc/cpuinfo. On Arm, the name of the core with the numbers in that file.
    pub model: Fact<String>,
    /// Running CPUs.
    pub online: Fact<CpuSet>,
    /// CPUs that are plugged in.
    pub present: Fact<CpuSet>,
    /// CPUs that may ever exist. The kernel's masks have this width.
    pub possible: Fact<CpuSet>,
    /// CPUs that the scheduler does not use (`isolcpus=`).
    pub isolated: Fact<CpuSet>,
    /// CPUs whose timer tick stops while one task runs (`nohz_full=`). Absent if the kernel is built without this feature.
    pub nohz_full: Fact<CpuSet>,
    /// CPUs for unbound kernel work.
    pub unbound_work: Fact<CpuSet>,
    /// The vulnerabilities of the processor and the kernel's mitigations, by name.
    pub vulnerabilities: Fact<Vec<Vulnerability>>,
    /// `on`, `off`, `forceoff`, `notsupported` or `notimplemented`.
    pub smt_control: Fact<String>,
    /// Each present CPU, ascending.
    pub cpus: Vec<Cpu>,
}

/// One CPU, as the scheduler sees it: a hardware thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Whether it runs.
    pub online: Fact<bool>,
    /// The socket.
    pub package: Fact<i32>,
    /// The core, numbered within its package.
    pub core: Fact<i32>,
    /// The CPUs of the same core, itself included.
    pub siblings: Fact<CpuSet>,
    /// How long the CPU may take to resume from an idle state, in microseconds. `0` means no limit, and `n/a` means no latency at all.
    pub resume_latency_us: Fact<String>,
    /// The CPU's caches, the nearest first. Empty if the kernel reports no cache.
    pub caches: Vec<Cache>,
}

/// A processor vulnerability that the kernel knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vulnerability {
    /// The kernel's name for the vulnerability, such as `spectre_v2`.
    pub name: String,
    /// `Not affected`, `Vulnerable: …` or `Mitigation: …`.
    pub state: Fact<String>,
}

impl Vulnerability {
    /// The kernel's mitigation. `None` if there is no mitigation.
    pub fn mitigation(&self) -> Option<&str> {
        self.state.known()?.strip_prefix("Mitigation: ")
    }
}

/// One cache of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// The level of the cache. Level 1 is the nearest to the CPU.
    pub level: Fact<u32>,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: Fact<String>,
    /// The size of the cache, in bytes.
    pub size_bytes: Fact<u64>,
    /// The CPUs that share the cache.
    pub shared_by: Fact<CpuSet>,
}

impl Cpus {
    pub(super) fn probe(probe: Probe<'_>, cpuinfo: &Fact<String>) -> Cpus {
        let at = |name: &str| probe.cpu_list(&format!("{DIR}/{name}"));
        let (online, present) = (at("online"), at("present"));
        let numbers: Vec<usize> = present.known().map(|cpus| cpus.iter().collect()).unwrap_or_default();
        let mut shared = Shared::new();
        let cpus = numbers.into_iter().map(|cpu| probe_cpu(probe, cpu, &online, &mut shared)).collect();
        Cpus {
            model: and_then(cpuinfo.clone(), |text| match parse_model(&text) {
                Some(model) => Fact::Known(model),
                None => Fact::absent("/proc/cpuinfo names no model"),
            }),
            online,
            present,
            possible: at("possible"),
            isolated: at("isolated"),
            nohz_full: probe.parse(&format!("{DIR}/nohz_full"), "a list of CPUs", parse_nohz_full),
            unbound_work: probe.cpu_mask("/sys/devices/virtual/workqueue/cpumask"),
            vulnerabilities: probe_vulnerabilities(probe),
            smt_control: probe.text(&format!("{DIR}/smt/control")),
            cpus,
        }
    }
}

fn probe_cpu(probe: Probe<'_>, cpu: usize, online: &Fact<CpuSet>, shared: &mut Shared) -> Cpu {
    let topology = |name: &str| format!("{DIR}/cpu{cpu}/topology/{name}");
    // Kernels from 5.3 on also have the name core_cpus_list, and may drop the old name one day.
    let siblings =
        or_else(probe.cpu_list(&topology("thread_siblings_list")), || probe.cpu_list(&topology("core_cpus_list")));
    Cpu {
        cpu,
        // Use the list of online CPUs. CPU 0 often has no `online` file of its own, because it cannot be taken offline.
        online: online.clone().map(|online| online.contains(cpu)),
        package: probe.number(&topology("physical_package_id")),
        core: probe.number(&topology("core_id")),
        siblings,
        resume_latency_us: probe.text(&format!("{DIR}/cpu{cpu}/power/pm_qos_resume_latency_us")),
        caches: probe_caches(probe, cpu, shared),
    }
}

fn probe_vulnerabilities(probe: Probe<'_>) -> Fact<Vec<Vulnerability>> {
    let names = probe.entries(&format!("{DIR}/vulnerabilities")).map(|mut names| {
        names.sort();
        names.truncate(VULNERABILITIES_MAX);
        names
    });
    let of = |name: String| Vulnerability { state: probe.text(&format!("{DIR}/vulnerabilities/{name}")), name };
    names.map(|names| names.into_iter().map(of).collect())
}

/// A list. Kernels print `(null)` for a set that was never allocated.
fn parse_nohz_full(text: &str) -> Option<CpuSet> {
    if text == "(null)" { Some(CpuSet::default()) } else { CpuSet::parse_list(text) }
}

/// Caches that were read for one CPU and that later CPUs share, by CPU and index. Sharing saves half of all readings on a large machine.
type Shared = BTreeMap<(usize, usize), Cache>;

fn probe_caches(probe: Probe<'_>, cpu: usize, shared: &mut Shared) -> Vec<Cache> {
    let mut caches = Vec::new();
    for index in 0..CACHES_MAX {
        if let Some(cache) = shared.remove(&(cpu, index)) {
            caches.push(cache);
            continue;
        }
        let dir = format!("{DIR}/cpu{cpu}/cache/index{index}");
        let level = probe.number(&format!("{dir}/level"));
        if level.is_absent() {
            break;
        }
        let cache = Cache {
            level,
            kind: probe.text(&format!("{dir}/type")),
            size_bytes: probe.parse(&format!("{dir}/size"), "a size in K", parse_size),
            shared_by: probe.cpu_list(&format!("{dir}/shared_cpu_list")),
        };
        for other in cache.shared_by.known().iter().flat_map(|by| by.iter()).filter(|other| *other > cpu) {
            shared.insert((other, index), cache.clone());
        }
        caches.push(cache);
    }
    caches
}

/// `32K`, `32768K`: the kernel uses no other unit here.
fn parse_size(text: &str) -> Option<u64> {
    text.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The first CPU's `model name`. On Arm, which has no model name, the name of the core.
fn parse_model(cpuinfo: &str) -> Option<String> {
    if let Some(model) = field(cpuinfo, "model name", ':').filter(|model| !model.is_empty()) {
        return Some(model.to_owned());
    }
    let (implementer, part) = (field(cpuinfo, "CPU implementer", ':')?, field(cpuinfo, "CPU part", ':')?);
    Some(match ARM_CORES.iter().find(|(by, of, _)| (*by, *of) == (implementer, part)) {
        Some((.., name)) => format!("{name} (implementer {implementer}, part {part})"),
        None => format!("implementer {implementer}, part {part}"),
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn models_of_each_architecture() {
        let table = [
            ("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n", Some("AMD EPYC")),
            (
                "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n",
                Some("Arm Cortex-A72 (implementer 0x41, part 0xd08)"),
            ),
            ("CPU implementer : 0x61\nCPU part : 0x023\n", Some("implementer 0x61, part 0x023")),
            ("model name\t:\n", None),
            ("CPU part : 0xd08\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_model(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_have_a_unit() {
        let table = [
            ("32K", Some(32 << 10)),
            ("0K", Some(0)),
            ("32", None),
            ("K", None),
            ("18446744073709551615K", None),
            ("1M", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn a_shared_cache_is_read_once_and_belongs_to_each() {
        let text = "evenkeel-capture 1\n/sys/devices/system/cpu/present = 0-2\n/sys/devices/system/cpu/online = 0-1\n\
                    /sys/devices/system/cpu/cpu0/cache/index0/level = 1\n/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list = 0-1\n\
                    /sys/devices/system/cpu/cpu0/cache/index1/level = 3\n/sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list = 0\n\
                    /sys/devices/system/cpu/cpu1/topology/core_cpus_list = 0-1\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let cpus = Cpus::probe(Probe(&root), &Fact::absent("not asked")).cpus;
        let levels = |cpu: usize| cpus[cpu].caches.iter().map(|cache| cache.level.clone()).collect::<Vec<_>>();
        assert_eq!(
            [levels(0), levels(1), levels(2)],
            [vec![Fact::Known(1), Fact::Known(3)], vec![Fact::Known(1)], vec![]]
        );
        assert_eq!(cpus[1].siblings, Fact::Known([0, 1].into_iter().collect()));
        assert_eq!(cpus.iter().map(|cpu| cpu.online.clone()).collect::<Vec<_>>(), [true, true, false].map(Fact::Known));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "((model name|CPU part|CPU implementer|flags)?\t*:?[a-z0-9 ]{0,8}\n)*|[0-9]{0,21}K?|.{0,20}") {
            let _ = (parse_model(&text), parse_size(&text));
        }
    }
}
