//! Commands, files and kernel arguments that can stop the machine, cut it off, or open it to attacks. Each has its own reason.

use crate::facts::Facts;

const CRASH: &str =
    "it writes a register of the processor, and nobody checks the value: a wrong one crashes the machine";
const FIREWALL: &str = "it changes the firewall: the machine may be open, or refuse your own connection";
const NETWORK: &str = "it takes a network interface or its routes away, and your connection with them";
const SERVICE: &str = "it stops a service that the machine needs to be reachable, or to start";
const OPENS: &str = "it removes a protection of the machine";
const DEVICE: &str = "it takes a device away from its driver: the machine may lose its disk or its network";
const SLEEP: &str = "the machine stops until somebody wakes it";
const SYSRQ: &str = "the kernel does it at once: it crashes, restarts, switches off, or ends programs without asking";
const FIRST_CPU: &str =
    "CPU 0 serves interrupts and timers that other CPUs can't take on every machine, so the machine may stop";
const ONE_CPU_LESS: &str = "it takes a CPU from every program and interrupt of the machine";

/// Services that the machine needs in order to start, or to be reachable.
const NEEDED: [&str; 25] = [
    "NetworkManager",
    "cloud-init",
    "connman",
    "dbus",
    "dbus-broker",
    "dhcpcd",
    "dropbear",
    "getty",
    "ifup",
    "multi-user.target",
    "network",
    "network-online.target",
    "network.target",
    "networking",
    "ssh",
    "ssh.socket",
    "sshd",
    "sshd.socket",
    "sysinit.target",
    "systemd-logind",
    "systemd-networkd",
    "systemd-udevd",
    "tailscaled",
    "wickedd",
    "wpa_supplicant",
];
/// Services that protect the machine.
const GUARDS: [&str; 9] =
    ["apparmor", "auditd", "fail2ban", "firewalld", "ip6tables", "iptables", "netfilter-persistent", "nftables", "ufw"];

/// Why a machine without this unit of systemd is cut off, or open to attacks.
fn unit(unit: &str) -> Option<&'static str> {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let name = name.split_once('@').map_or(name, |(template, _)| template);
    match name {
        name if NEEDED.contains(&name) => Some(SERVICE),
        name if name != "auditd" && GUARDS.contains(&name) => Some(OPENS),
        _ => None,
    }
}

/// Why a command is dangerous, by its words. The first word is its name.
pub(super) fn command(words: &[&str]) -> Option<&'static str> {
    let (name, arguments) = words.split_first()?;
    let has = |wanted: &[&str]| arguments.iter().any(|word| wanted.contains(word));
    let plain: Vec<&str> = arguments.iter().filter(|word| !word.starts_with('-')).copied().collect();
    match *name {
        "wrmsr" => (plain.len() >= 2).then_some(CRASH),
        "iptables" | "ip6tables" | "iptables-legacy" | "ip6tables-legacy" | "iptables-nft" | "ip6tables-nft" => {
            let is_drop = has(&["-P", "--policy", "-A", "-I"]) && has(&["DROP", "REJECT"]);
            (has(&["-F", "--flush"]) || is_drop).then_some(FIREWALL)
        }
        "nft" => (has(&["flush", "delete", "destroy"]) && has(&["ruleset", "table", "chain"])).then_some(FIREWALL),
        "ufw" => has(&["disable", "reset"]).then_some(OPENS),
        "setenforce" => has(&["0", "Permissive", "permissive"]).then_some(OPENS),
        "ip" => address(&plain).then_some(NETWORK),
        "ifconfig" => (plain.len() > 1 && has(&["down"])).then_some(NETWORK),
        "ifdown" => (!plain.is_empty()).then_some(NETWORK),
        "nmcli" => has(&["down", "disconnect", "off"]).then_some(NETWORK),
        "blacklist" | "install" => plain.first().is_some_and(|module| holds(module)).then_some(DEVICE),
        "rmmod" => plain.iter().any(|module| holds(module)).then_some(DEVICE),
        "modprobe" => (has(&["-r", "--remove"]) && plain.iter().any(|module| holds(module))).then_some(DEVICE),
        "systemctl" => {
            let (verb, units) = plain.split_first()?;
            let stops = ["stop", "disable", "mask", "kill"].contains(verb);
            units.iter().filter(|_| stops).find_map(|name| unit(name))
        }
        "service" => match plain.as_slice() {
            [name, "stop"] => unit(name),
            _ => None,
        },
        _ => None,
    }
}

/// Whether `ip` removes an address, a route or a link: `ip link set eth0 down`, `ip addr flush dev eth0`, `ip route del default`.
fn address(plain: &[&str]) -> bool {
    let [object, verb, rest @ ..] = plain else { return false };
    let is = |whole: &str, word: &str| !word.is_empty() && whole.starts_with(word);
    let takes = is("delete", verb) || is("flush", verb);
    let downs = is("link", object) && is("set", verb) && rest.contains(&"down");
    downs || takes && ["link", "address", "route"].iter().any(|whole| is(whole, object))
}

/// Modules on which disks, network interfaces or file systems depend.
const MODULES: [&str; 27] = [
    "ahci",
    "bnx2x",
    "bnxt_en",
    "dm_mod",
    "e1000",
    "e1000e",
    "ena",
    "ext4",
    "gve",
    "hv_netvsc",
    "hv_storvsc",
    "hv_vmbus",
    "i40e",
    "ice",
    "igb",
    "ixgbe",
    "ixgbevf",
    "mlx4_core",
    "mlx5_core",
    "nvme",
    "nvme_core",
    "r8169",
    "sd_mod",
    "tg3",
    "vmxnet3",
    "xen_blkfront",
    "xfs",
];

fn holds(module: &str) -> bool {
    let module = module.replace('-', "_");
    module.starts_with("virtio") || MODULES.contains(&module.as_str())
}

/// Why a kernel argument is dangerous on this machine.
pub(super) fn argument(facts: &Facts, name: &str, value: &str) -> Option<String> {
    match name.replace('-', "_").as_str() {
        "systemd.mask" => unit(value).map(str::to_owned),
        "module_blacklist" | "modprobe.blacklist" => value.split(',').find_map(|module| {
            let drives = |nic: &&crate::facts::Nic| {
                nic.driver.known().is_some_and(|driver| driver.replace('-', "_") == module.replace('-', "_"))
            };
            match facts.network.hardware().find(drives) {
                Some(nic) => Some(format!("{module} drives {}: without it, nobody reaches the machine", nic.name)),
                None => {
                    holds(module).then(|| format!("without {module}, the machine may start without disk or network"))
                }
            }
        }),
        _ => None,
    }
}

/// Why writing this value to a file is dangerous.
pub(super) fn file(path: &str, value: &str) -> Option<&'static str> {
    let value = value.trim();
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_off = ["0", "N", "n", "off", "never"].contains(&value);
    match path {
        SYSRQ_FILE => {
            let letters = value.strip_prefix('_').unwrap_or(value.get(..1).unwrap_or_default());
            letters.contains(['b', 'c', 'e', 'f', 'i', 'j', 'o', 'u']).then_some(SYSRQ)
        }
        "/sys/power/state" | "/sys/power/disk" => Some(SLEEP),
        "/sys/fs/selinux/enforce" if is_off => Some(OPENS),
        _ if path.starts_with("/sys/module/kvm") && path.ends_with("nx_huge_pages") && is_off => Some(OPENS),
        _ if path.starts_with("/sys/bus/") && ["unbind", "remove"].contains(&name) => Some(DEVICE),
        _ if path.contains("/device/") && ["unbind", "remove", "delete"].contains(&name) => Some(DEVICE),
        _ => cpu(path).filter(|_| value == "0").filter(|cpu| is_first(cpu)).map(|_| FIRST_CPU),
    }
}

/// The effect of a file whose danger depends on the number of CPUs of the machine.
pub(super) fn remark(path: &str, value: &str) -> Option<&'static str> {
    cpu(path).filter(|_| value.trim() == "0").map(|_| ONE_CPU_LESS)
}

/// The file that accepts commands to the kernel itself.
pub(super) const SYSRQ_FILE: &str = "/proc/sysrq-trigger";

/// The CPU that a file brings up or down.
fn cpu(path: &str) -> Option<&str> {
    path.strip_prefix("/sys/devices/system/cpu/cpu")?.strip_suffix("/online").filter(|cpu| !cpu.contains('/'))
}

/// Whether CPU 0 is among the CPUs of this name or pattern.
fn is_first(cpu: &str) -> bool {
    cpu == "0" || cpu.starts_with(['*', '?', '$']) || cpu.starts_with("[0") || cpu.starts_with("{0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        for (line, expected) in [
            ("wrmsr -a 0x1a4 0xf", Some(CRASH)),
            ("wrmsr --help", None),
            ("iptables -F", Some(FIREWALL)),
            ("iptables -t raw --flush", Some(FIREWALL)),
            ("iptables -P INPUT DROP", Some(FIREWALL)),
            ("iptables -t raw -A PREROUTING -p udp --dport 27015 -j NOTRACK", None),
            ("iptables -L", None),
            ("nft flush ruleset", Some(FIREWALL)),
            ("nft list ruleset", None),
            ("ip link set eth0 down", Some(NETWORK)),
            ("ip l s dev eth0 down", Some(NETWORK)),
            ("ip -4 route del default", Some(NETWORK)),
            ("ip addr flush dev eth0", Some(NETWORK)),
            ("ip link set eth0 up", None),
            ("ip link set dev eth0 txqueuelen 10000", None),
            ("ip route show", None),
            ("ifconfig eth0 down", Some(NETWORK)),
            ("ifconfig eth0 up", None),
            ("systemctl disable --now sshd.service", Some(SERVICE)),
            ("systemctl mask getty@tty1", Some(SERVICE)),
            ("systemctl restart sshd", None),
            ("systemctl stop firewalld", Some(OPENS)),
            ("systemctl stop irqbalance", None),
            ("systemctl stop auditd", None),
            ("service ssh stop", Some(SERVICE)),
            ("rmmod virtio-net", Some(DEVICE)),
            ("modprobe -r ena", Some(DEVICE)),
            ("modprobe ena", None),
            ("setenforce 0", Some(OPENS)),
            ("blacklist virtio_net", Some(DEVICE)),
            ("blacklist pcspkr", None),
        ] {
            assert_eq!(command(&line.split(' ').collect::<Vec<_>>()), expected, "{line}");
        }
    }

    #[test]
    fn files() {
        for (path, value, expected) in [
            (SYSRQ_FILE, "c", Some(SYSRQ)),
            (SYSRQ_FILE, "b\n", Some(SYSRQ)),
            (SYSRQ_FILE, "_sb", Some(SYSRQ)),
            (SYSRQ_FILE, "s", None),
            (SYSRQ_FILE, "", None),
            (SYSRQ_FILE, "é", None),
            ("/sys/devices/system/cpu/cpu0/online", "0", Some(FIRST_CPU)),
            ("/sys/devices/system/cpu/cpu*/online", "0", Some(FIRST_CPU)),
            ("/sys/devices/system/cpu/cpu0/online", "1", None),
            ("/sys/devices/system/cpu/cpu3/online", "0", None),
            ("/sys/bus/pci/drivers/ena/unbind", "0000:00:05.0", Some(DEVICE)),
            ("/sys/kernel/mm/ksm/run", "0", None),
        ] {
            assert_eq!(file(path, value), expected, "{path}={value}");
        }
        assert_eq!(remark("/sys/devices/system/cpu/cpu3/online", "0"), Some(ONE_CPU_LESS));
    }
}
