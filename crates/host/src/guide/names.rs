//! Finds the knob for a name in a guide: a sysctl, a file of the kernel, or a kernel argument.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::knob::{Device, Knob, Place, Values};
use crate::knobs;
use crate::reading::Reading;

use super::hazards::SYSRQ_FILE;
use super::line::{Ask, Target};
use super::reservations::crash_bytes;
use super::words;
use crate::sysctl::{self, FOLDER};

/// The folder of the CPUs, and the folder of the huge pages.
const CPUS: &str = "/sys/devices/system/cpu/";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/";

/// Alternative names of sysctls that set the same variable of the kernel.
const OTHER_NAMES: [(&str, &str); 1] = [("net/nf_conntrack_max", "net/netfilter/nf_conntrack_max")];

/// The knobs by the paths of their files, in any kernel.
static BY_FILE: LazyLock<BTreeMap<&str, &Knob>> = LazyLock::new(|| {
    let files = |knob: &'static Knob| knob.place.files().into_iter().map(move |path| (path, knob));
    knobs::ALL.iter().copied().flat_map(files).collect()
});

/// The setting of a sysctl by its key, or of a knob by its id.
pub(super) fn by_key(key: &str, value: &str) -> Option<Ask> {
    let key = key.trim().trim_matches(['"', '\'']);
    let (id, place) = match key.split_once('@') {
        Some((id, place)) => (id, Some(place.to_owned())),
        None => (key, None),
    };
    // The names of some knobs look like sysctls, and are files of other folders.
    let own = knobs::ALL.iter().find(|knob| knob.id == id);
    if let Some(knob) = own.filter(|knob| !knob.place.files().iter().any(|path| path.starts_with(FOLDER))) {
        return Some(Ask::new(Target::Knob { id: knob.id, place }, value));
    }
    let key = key.strip_prefix(sysctl::PREFIX).unwrap_or(key);
    if let Some(path) = sysctl::known_path(key) {
        return Some(by_path(&path, value));
    }
    own.map(|knob| Ask::new(Target::Knob { id: knob.id, place }, value))
}

/// The setting of a sysctl by its path below /proc/sys.
fn by_path(path: &str, value: &str) -> Ask {
    let own = OTHER_NAMES.iter().find(|(other, _)| *other == path).map_or(path, |(_, own)| own);
    let whole = format!("{FOLDER}{own}");
    match BY_FILE.get(whole.as_str()) {
        Some(knob) => Ask::new(Target::Knob { id: knob.id, place: None }, value),
        None => Ask::new(Target::Sysctl(path.to_owned()), value),
    }
}

/// The setting of a file of the kernel. `None` for any other file.
pub(super) fn by_file(path: &str, value: &str) -> Option<Ask> {
    if let Some(path) = path.strip_prefix(FOLDER) {
        return sysctl::path(path).map(|path| by_path(&path, value));
    }
    if path == "/proc/irq/default_smp_affinity" {
        return Some(Ask::new(Target::File(path.to_owned()), value));
    }
    if let Some(irq) = path.strip_prefix("/proc/irq/") {
        return interrupt(irq, path, value);
    }
    if path == SYSRQ_FILE {
        return Some(Ask::new(Target::File(path.to_owned()), value));
    }
    if !path.starts_with("/sys/") {
        return None;
    }
    let old = path.replace("redhat_transparent_hugepage", "transparent_hugepage");
    let old = old.replace("/system/clock/clock0/", "/system/clocksource/clocksource0/");
    let old = old.replace("/sys/class/block/", "/sys/block/");
    if old.starts_with(CPUS) && old.contains("/cpuidle/state") && old.ends_with("/disable") {
        return by_called("cpuidle disable", None, value);
    }
    if let Some(knob) = BY_FILE.get(old.as_str()) {
        return Some(knob_of(knob, None, value));
    }
    let whole = || Ask::new(Target::File(path.to_owned()), value);
    let Some((device, place, file)) = device_of(&old) else { return Some(whole()) };
    let is_it = |knob: &&&Knob| matches!(knob.place, Place::Each { device: of, file: name, .. } if of == device && name == file);
    match knobs::ALL.iter().find(is_it) {
        Some(knob) => Some(knob_of(knob, stated(&place), value)),
        None => Some(whole()),
    }
}

fn knob_of(knob: &'static Knob, place: Option<String>, value: &str) -> Ask {
    let is_mask = matches!(
        knob.place,
        Place::File { reading: Reading::CpuMask, .. } | Place::Each { reading: Reading::CpuMask, .. }
    );
    if !is_mask {
        return Ask::new(Target::Knob { id: knob.id, place }, value);
    }
    match Reading::CpuMask.value(value) {
        Some(list) => Ask::new(Target::Knob { id: knob.id, place }, list),
        None => Ask::new(Target::NoMask { id: knob.id, place }, value),
    }
}

/// `24/smp_affinity` with a mask as its value, or `24/smp_affinity_list`.
fn interrupt(irq: &str, path: &str, value: &str) -> Option<Ask> {
    let (number, file) = irq.split_once('/')?;
    let place = stated(number);
    let knob = knobs::ALL.iter().find(|knob| matches!(knob.place, Place::EachNetworkIrq))?;
    Some(match (file, Reading::CpuMask.value(value)) {
        ("smp_affinity", Some(list)) => Ask::new(Target::Knob { id: knob.id, place }, list),
        ("smp_affinity", None) => Ask::new(Target::NoMask { id: knob.id, place }, value),
        ("smp_affinity_list", _) => Ask::new(Target::Knob { id: knob.id, place }, value),
        _ => Ask::new(Target::File(path.to_owned()), value),
    })
}

/// The kind of device in a path, the device's name in plans, and the name of the file in the device's folder.
fn device_of(path: &str) -> Option<(Device, String, &str)> {
    if let Some(rest) = path.strip_prefix("/sys/class/net/") {
        let (nic, rest) = rest.split_once('/')?;
        return Some(match rest.strip_prefix("queues/").and_then(|rest| rest.split_once('/')) {
            Some((queue, file)) => {
                let device = if queue.starts_with("rx") { Device::ReceiveQueue } else { Device::TransmitQueue };
                (device, format!("{nic}/{queue}"), file)
            }
            None => (Device::Interface, nic.to_owned(), rest),
        });
    }
    if let Some((disk, file)) = path.strip_prefix("/sys/block/").and_then(|rest| rest.split_once('/')) {
        return Some((Device::Disk, disk.to_owned(), file));
    }
    if let Some((policy, file)) =
        path.strip_prefix(CPUS).and_then(|rest| rest.strip_prefix("cpufreq/")).and_then(|rest| rest.split_once('/'))
    {
        return Some((Device::FrequencyPolicy, policy.to_owned(), file));
    }
    if let Some((cpu, file)) = path.strip_prefix(CPUS).and_then(|rest| rest.split_once('/')) {
        return Some(match file.strip_prefix("cpufreq/") {
            // The facts of the machine show the policy of a CPU.
            Some(file) => (Device::FrequencyPolicy, cpu.to_owned(), file),
            None => (Device::Cpu, cpu.to_owned(), file),
        });
    }
    let (size, file) = path.strip_prefix(THP)?.split_once('/')?;
    Some((Device::ThpSize, size.to_owned(), file))
}

/// Patterns that match every device of a kind.
const EVERY: [&str; 7] = ["*", "rx-*", "tx-*", "cpu*", "cpu[0-9]*", "cpu?*", "policy*"];

/// The place that a device's name or pattern means. `None` means every device, as do the variable of a loop and a placeholder.
fn stated(name: &str) -> Option<String> {
    let is_every = name.split('/').all(|part| EVERY.contains(&part)) || name.contains(['$', '<', '{']);
    (!is_every).then(|| name.to_owned())
}

/// Whether a knob has a place for each device.
pub(super) fn has_places(id: &str) -> bool {
    let is_each = |knob: &&&Knob| matches!(knob.place, Place::Each { .. } | Place::ByHandEach { .. });
    knobs::ALL.iter().filter(is_each).any(|knob| knob.id == id)
}

/// The setting of a knob by the name that a tool or another program has for it, such as `ethtool -G rx`.
pub(super) fn by_called(called: &str, place: Option<&str>, value: &str) -> Option<Ask> {
    let knob = knobs::ALL.iter().find(|knob| knob.extras.called.contains(&called))?;
    let place = place.and_then(stated);
    Some(Ask::new(Target::Knob { id: knob.id, place }, value))
}

/// The settings of a kernel command line, one for each argument.
pub(super) fn by_arguments(line: &str) -> Vec<Ask> {
    let words = words::split(line);
    words.iter().map(|word| by_argument(&word.text)).collect()
}

/// The settings of a kernel command line, without the arguments for the boot itself, such as the root device, and without variables.
pub(super) fn tuning_arguments(line: &str) -> Vec<Ask> {
    let is_own = |ask: &Ask| matches!(&ask.target, Target::Argument(name) if is_usual(ask) || name.starts_with('$') || name.is_empty());
    by_arguments(line).into_iter().filter(|ask| !is_own(ask)).collect()
}

/// Arguments for the root device and the console, which are not tuning.
const OF_BOOT: [&str; 13] = [
    "root",
    "ro",
    "rw",
    "console",
    "quiet",
    "splash",
    "initrd",
    "BOOT_IMAGE",
    "rd.",
    "crashkernel",
    "rhgb",
    "earlyprintk",
    "resume",
];

/// The setting of one kernel argument.
fn by_argument(word: &str) -> Ask {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let is_knob = |knob: &&&Knob| matches!(knob.place, Place::KernelArgument { name: own } if own == name);
    match knobs::ALL.iter().find(is_knob) {
        // The kernel accepts words before the list, as in `isolcpus=managed_irq,domain,2-3`.
        Some(knob) if matches!(knob.values, Values::Cpus { .. }) && value.contains(char::is_alphabetic) => {
            Ask::new(Target::Argument(name.to_owned()), value)
        }
        Some(knob) if !value.is_empty() => Ask::new(Target::Knob { id: knob.id, place: None }, value),
        _ => Ask::new(Target::Argument(name.to_owned()), value),
    }
}

/// Kernel arguments that guides mention in their prose, and for which evenkeel has no knob.
const IN_SENTENCES: [&str; 27] = [
    "amd_pstate",
    "audit",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "intel_iommu",
    "iommu",
    "irqaffinity",
    "mce",
    "nmi_watchdog",
    "nopti",
    "nosmt",
    "nosoftlockup",
    "nospectre_v1",
    "nospectre_v2",
    "nowatchdog",
    "pcie_aspm",
    "preempt",
    "pti",
    "rcu_nocb_poll",
    "selinux",
    "skew_tick",
    "spectre_v2",
    "threadirqs",
    "transparent_hugepage",
    "tsx",
    "workqueue.power_efficient",
];

/// The settings in a text that contains only kernel arguments. At least one of them must have a value.
pub(super) fn by_known_arguments(text: &str) -> Option<Vec<Ask>> {
    let of_knob = |name: &str| {
        knobs::ALL.iter().any(|knob| matches!(knob.place, Place::KernelArgument { name: own } if own == name))
    };
    let name = |word: &'_ str| word.split('=').next().unwrap_or_default().to_owned();
    let is_known = |word: &str| IN_SENTENCES.contains(&name(word).as_str()) || of_knob(&name(word));
    let words = || text.split_whitespace();
    (words().any(|word| word.contains('=')) && words().all(is_known)).then(|| words().map(by_argument).collect())
}

/// From this size on, the memory of a crash kernel is no longer usual on a command line.
const CRASH_BYTES: u64 = 1 << 30;

/// Whether a kernel argument only concerns the start of the machine, with a value that is usual there.
pub(super) fn is_usual(ask: &Ask) -> bool {
    let Target::Argument(name) = &ask.target else { return false };
    let is_odd = match name.as_str() {
        "crashkernel" => crash_bytes(&ask.value).is_some_and(|bytes| bytes >= CRASH_BYTES),
        "console" => ask.value == "null",
        _ => false,
    };
    is_of_boot(name) && !is_odd
}

/// Whether a kernel argument concerns the start of the machine.
pub(super) fn is_of_boot(name: &str) -> bool {
    name != "rd.break" && OF_BOOT.iter().any(|own| *own == name || own.ends_with('.') && name.starts_with(own))
}
