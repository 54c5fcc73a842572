//! Kernel arguments that are dangerous, each with its reason.
//! Such an argument opens the machine to attacks, or the machine may not start or may be unreachable.

use evenkeel_sys::CpuSet;

/// Why a kernel argument is dangerous. `None` if the argument is not dangerous, or not dangerous with this value.
pub(super) fn danger(name: &str, value: &str) -> Option<&'static str> {
    // In the name of a parameter, the kernel treats `-` and `_` as equal.
    let name = name.replace('_', "-");
    let value = value.to_ascii_lowercase();
    let found = ALL
        .iter()
        .find(|danger| danger.names.iter().any(|own| own.replace('_', "-") == name) && danger.values.has(&value));
    found.map(|danger| danger.why)
}

/// Whether an argument is right with the value with which this machine started, and dangerous with another value.
pub(super) fn is_of_this_machine(name: &str) -> bool {
    ["root", "net.ifnames", "biosdevname", "ipv6.disable", "cgroup_disable", "cgroup_no_v1"].contains(&name)
}

/// The longest list of CPUs that evenkeel reads in a kernel argument, in bytes.
const LIST_BYTES_MAX: usize = 4096;

/// The CPUs in `managed_irq,domain,2-3`, `all` or `2-N`, as the kernel reads them. `last` is the machine's last CPU.
pub(super) fn cpus(value: &str, last: usize) -> Option<CpuSet> {
    let mut list = value;
    while let Some((_, rest)) =
        list.split_once(',').filter(|(word, _)| ["nohz", "domain", "managed_irq"].contains(word))
    {
        list = rest;
    }
    let list = match list {
        "all" => format!("0-{last}"),
        list if list.len() <= LIST_BYTES_MAX => list.replace('N', &last.to_string()),
        _ => return None,
    };
    CpuSet::parse_list(&list).filter(|cpus| !cpus.is_empty())
}

struct Danger {
    names: &'static [&'static str],
    values: Dangerous,
    why: &'static str,
}

/// Which values of an argument are dangerous.
enum Dangerous {
    /// Every value.
    Every,
    /// The values that switch the argument off.
    Off,
    /// These values. In a list with commas, each word counts.
    Words(&'static [&'static str]),
    /// All values except these.
    Except(&'static [&'static str]),
}

impl Dangerous {
    fn has(&self, value: &str) -> bool {
        match self {
            Dangerous::Every => true,
            Dangerous::Off => OFF.contains(&value),
            Dangerous::Words(words) => value.split(',').any(|word| words.contains(&word)),
            Dangerous::Except(words) => !words.contains(&value),
        }
    }
}

/// Values that switch a protection off.
const OFF: [&str; 9] = ["off", "0", "no", "n", "never", "false", "none", "force-off", "native"];

const fn every(names: &'static [&'static str], why: &'static str) -> Danger {
    Danger { names, values: Dangerous::Every, why }
}

const fn words(names: &'static [&'static str], words: &'static [&'static str], why: &'static str) -> Danger {
    Danger { names, values: Dangerous::Words(words), why }
}

const NO_MODULES: &str = "it switches every security module of the kernel off, AppArmor or SELinux among them";
const OTHER_ROOT: &str =
    "the kernel looks for its file system there: another machine's value keeps this one from starting";
const NO_CONSOLE: &str = "nobody sees why the machine does not start, and no console offers a login";
const OPENS: &str = "it removes a protection of the kernel";
const INIT: &str = "the kernel starts this program in place of the system: no services and no login come up";
const RESCUE: &str = "the machine starts without its services and without its network";
const NO_ACPI: &str =
    "without ACPI the kernel may not find the CPUs, the devices and their interrupts, and may not start";
const ONE_CPU: &str = "the kernel uses one CPU alone, and some machines do not start without the others";
const INTERRUPTS: &str = "interrupts of devices may not arrive, so the machine may start without disk or network";
const LESS_MEMORY: &str = "it takes memory from the machine, which does not start if what is left is too little";
const FEWER_CPUS: &str = "the kernel never uses more CPUs than that, whatever the machine has";
const NAMES: &str =
    "network interfaces get other names, so their configuration may not fit, and the machine may not be reachable";
const CONTROLLERS: &str =
    "services and containers that need this controller of the control groups fail, or lose their limits";
const PANIC: &str = "it can stop or restart the machine";
const CUT: &str = "connections over IPv6 end, yours among them";

const ALL: &[Danger] = &[
    every(OPENING, OPENS),
    Danger { names: PROTECTING, values: Dangerous::Off, why: OPENS },
    words(
        &["tsx"],
        &["on"],
        "it lets programs use transactions, which a program can exploit to read the memory of others",
    ),
    words(&["lsm", "security"], &[""], NO_MODULES),
    every(&["root"], OTHER_ROOT),
    words(&["console"], &["null"], NO_CONSOLE),
    every(&["init", "rdinit"], INIT),
    every(&["single", "emergency", "rescue", "rd.break", "1", "s", "S"], RESCUE),
    words(&["systemd.unit"], &["rescue.target", "emergency.target"], RESCUE),
    words(&["acpi"], &["off", "ht", "noirq"], NO_ACPI),
    every(&["nosmp"], ONE_CPU),
    words(&["maxcpus"], &["0"], ONE_CPU),
    every(&["nr_cpus"], FEWER_CPUS),
    every(&["noapic", "nolapic", "disableapic"], INTERRUPTS),
    words(&["pci"], &["off", "noacpi", "nomsi"], INTERRUPTS),
    every(&["mem", "memmap"], LESS_MEMORY),
    every(&["cgroup_disable", "cgroup_no_v1"], CONTROLLERS),
    every(&["net.ifnames", "biosdevname"], NAMES),
    words(&["ipv6.disable"], &["1"], CUT),
    Danger { names: &["panic"], values: Dangerous::Except(&["0"]), why: PANIC },
    words(&["oops", "nmi_watchdog"], &["panic"], PANIC),
    words(
        &["softlockup_panic", "hung_task_panic", "panic_on_warn", "panic_on_oops", "unknown_nmi_panic"],
        &["", "1"],
        PANIC,
    ),
];

/// Kernel arguments that open the machine to attacks, whatever their value.
const OPENING: &[&str] = &[
    "arm64.nobti",
    "arm64.nomte",
    "arm64.nopauth",
    "no_entry_flush",
    "no_rfi_flush",
    "no_stf_barrier",
    "no_uaccess_flush",
    "nobti",
    "noexec32",
    "noibpb",
    "noibrs",
    "nokaslr",
    "nopku",
    "nopti",
    "norandmaps",
    "nosmap",
    "nosmep",
    "nospec_store_bypass_disable",
    "nospectre_bhb",
    "nospectre_v1",
    "nospectre_v2",
];

/// Kernel arguments that open the machine to attacks if their value switches the protection off.
const PROTECTING: &[&str] = &[
    "apparmor",
    "audit",
    "cfi",
    "enforcing",
    "gather_data_sampling",
    "hardened_usercopy",
    "indirect_target_selection",
    "init_on_alloc",
    "init_on_free",
    "kpti",
    "kvm-intel.vmentry_l1d_flush",
    "kvm.mitigate_smt_rsb",
    "kvm.nx_huge_pages",
    "l1d_flush",
    "l1tf",
    "lockdown",
    "mce",
    "mds",
    "mmio_stale_data",
    "module.sig_enforce",
    "noexec",
    "pti",
    "randomize_kstack_offset",
    "reg_file_data_sampling",
    "retbleed",
    "rodata",
    "security",
    "selinux",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_bhi",
    "spectre_v2",
    "spectre_v2_user",
    "srbds",
    "ssbd",
    "tsa",
    "tsx_async_abort",
    "vmscape",
    "vsyscall",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_reason() {
        let table = [
            ("init", "/bin/sh", Some(INIT)),
            ("acpi", "off", Some(NO_ACPI)),
            ("acpi", "force", None),
            ("nosmp", "", Some(ONE_CPU)),
            ("maxcpus", "0", Some(ONE_CPU)),
            ("maxcpus", "4", None),
            ("noapic", "", Some(INTERRUPTS)),
            ("mem", "1G", Some(LESS_MEMORY)),
            ("cgroup_disable", "memory", Some(CONTROLLERS)),
            ("cgroup-disable", "memory", Some(CONTROLLERS)),
            ("net.ifnames", "0", Some(NAMES)),
            ("tsx", "auto", None),
            ("selinux", "0", Some(OPENS)),
            ("selinux", "1", None),
            ("kvm_intel.vmentry_l1d_flush", "never", Some(OPENS)),
            ("nokaslr", "", Some(OPENS)),
            ("panic", "0", None),
            ("panic", "10", Some(PANIC)),
            ("panic_on_warn", "", Some(PANIC)),
            ("nmi_watchdog", "0", None),
            ("nmi_watchdog", "panic,1", Some(PANIC)),
            ("idle", "poll", None),
            ("skew_tick", "1", None),
            ("lsm", "", Some(NO_MODULES)),
            ("lsm", "landlock,apparmor", None),
            ("root", "/dev/sda1", Some(OTHER_ROOT)),
            ("console", "null", Some(NO_CONSOLE)),
            ("console", "ttyS0", None),
        ];
        for (name, value, expected) in table {
            assert_eq!(danger(name, value), expected, "{name}={value}");
        }
        assert!(danger("tsx", "on").is_some());
    }

    #[test]
    fn lists_of_cpus() {
        for (value, expected) in [
            ("domain,managed_irq,1", "1"),
            ("nohz,domain,2-N", "2-3"),
            ("all", "0-3"),
            ("2-3", "2-3"),
            ("domain", "none"),
            ("domain,", "none"),
            ("off", "none"),
        ] {
            assert_eq!(cpus(value, 3).map_or("none".to_owned(), |cpus| cpus.to_string()), expected, "{value}");
        }
    }
}
