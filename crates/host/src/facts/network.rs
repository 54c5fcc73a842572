//! Network interfaces: driver, queues, who serves their interrupts.

use evenkeel_sys::{CpuSet, Errno, Why};
use serde::Serialize;

use super::ethtool::{Channels, Coalesce, Rings};
use crate::fact::Fact;
use crate::probe::{Probe, and_then, field, or_else};

const CLASS: &str = "/sys/class/net";

/// The most interfaces that are looked at: far over what any host of containers has.
const NICS_MAX: usize = 4096;

/// The network interfaces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// Each interface by name.
    pub nics: Fact<Vec<Nic>>,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// What is behind it.
    pub kind: NicKind,
    /// The kernel's driver.
    pub driver: Fact<String>,
    /// The driver's version, by ethtool; in-tree drivers often give the kernel's release.
    pub driver_version: Fact<String>,
    /// `up`, `down`, `unknown`, …
    pub state: Fact<String>,
    /// In bytes.
    pub mtu_bytes: Fact<u32>,
    /// The memory node that it is attached to; -1 where the firmware does not tell.
    pub numa_node: Fact<i32>,
    /// How many queues it uses; not looked at where there is no hardware.
    pub queues: Fact<QueueCounts>,
    /// Receive queues, ascending.
    pub rx_queues: Vec<Queue>,
    /// Transmit queues, ascending.
    pub tx_queues: Vec<Queue>,
    /// How its packets are taken from it.
    pub napi: Napi,
    /// Queues that the driver has and could have.
    pub channels: Fact<Channels>,
    /// Packets that the ring of each queue holds and could hold.
    pub rings: Fact<Rings>,
    /// How long its interrupts wait for more packets.
    pub coalesce: Fact<Coalesce>,
    /// How its interrupts were found; where that is unknown, so are they.
    pub irqs_found_by: Fact<IrqsFoundBy>,
    /// Its interrupts, ascending; configuration interrupts, which carry no packets, left out. A Hyper-V interface has none of
    /// its own.
    pub irqs: Vec<Irq>,
}

/// What is behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicKind {
    /// A device on a bus: PCI, virtio, VMBus, Xen.
    Hardware,
    /// The loopback interface.
    Loopback,
    /// Software only: bridge, bond, veth, tunnel.
    Virtual,
}

/// Queues in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Receive queues.
    pub rx: usize,
    /// Transmit queues.
    pub tx: usize,
}

/// How the interrupts of an interface were told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IrqsFoundBy {
    /// By the list of its device, which can't err.
    Device,
    /// By their names in /proc/interrupts.
    Name,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Queue {
    /// Its number.
    pub index: u32,
    /// `rps_cpus` of a receive queue, `xps_cpus` of a transmit queue.
    pub steering_cpus: Fact<CpuSet>,
    /// `rps_flow_cnt` of a receive queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Fact<u32>>,
}

/// How the kernel takes packets from an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Napi {
    /// How often an interrupt stays off after a round without packets, as long as somebody polls.
    pub defer_hard_irqs: Fact<u32>,
    /// How long it stays off, in nanoseconds.
    pub gro_flush_timeout_ns: Fact<u64>,
    /// Whether threads of their own take the packets: 0 or 1.
    pub threaded: Fact<u32>,
}

/// One interrupt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Irq {
    /// Its number, which a reboot or a change of queues may change.
    pub number: u32,
    /// As /proc/interrupts names it.
    pub name: String,
    /// The CPUs that may serve it.
    pub affinity: Fact<CpuSet>,
    /// The CPU that does.
    pub effective: Fact<CpuSet>,
}

impl Network {
    pub(super) fn probe(probe: Probe<'_>) -> Network {
        let names = probe.entries(CLASS);
        // Once for all interfaces: its counts move, and on a large machine the kernel takes long to write it.
        let interrupts = probe.parse("/proc/interrupts", "interrupts", |text| Some(parse_interrupts(text)));
        let nics = and_then(names, |names| {
            if names.len() > NICS_MAX {
                return Fact::absent(format!("{CLASS} has {} interfaces, more than {NICS_MAX}", names.len()));
            }
            Fact::Known(names.into_iter().filter_map(|name| probe_nic(probe, name, &interrupts)).collect())
        });
        Network { nics }
    }

    /// The interfaces that have hardware behind them.
    pub fn hardware(&self) -> impl Iterator<Item = &Nic> {
        self.nics.known().into_iter().flatten().filter(|nic| nic.kind == NicKind::Hardware)
    }
}

/// `None` where the entry is no interface, such as the file `bonding_masters`.
fn probe_nic(probe: Probe<'_>, name: String, interrupts: &Fact<Vec<Interrupt>>) -> Option<Nic> {
    let dir = format!("{CLASS}/{name}");
    let kind = probe_kind(probe, &name)?;
    let software = || format!("{name} is software only: it was not looked at");
    let mut nic = Nic {
        kind,
        driver: Fact::absent(software()),
        driver_version: Fact::absent(software()),
        state: probe.text(&format!("{dir}/operstate")),
        mtu_bytes: probe.number(&format!("{dir}/mtu")),
        numa_node: Fact::absent(software()),
        queues: Fact::absent(software()),
        napi: Napi {
            defer_hard_irqs: Fact::absent(software()),
            gro_flush_timeout_ns: Fact::absent(software()),
            threaded: Fact::absent(software()),
        },
        channels: Fact::absent(software()),
        rings: Fact::absent(software()),
        coalesce: Fact::absent(software()),
        rx_queues: Vec::new(),
        tx_queues: Vec::new(),
        irqs_found_by: Fact::absent(software()),
        irqs: Vec::new(),
        name,
    };
    // A host of containers has hundreds of virtual interfaces, each with a queue a CPU; only hardware is worth the looks.
    if kind == NicKind::Hardware {
        probe_hardware(probe, &mut nic, interrupts);
    }
    Some(nic)
}

fn probe_hardware(probe: Probe<'_>, nic: &mut Nic, interrupts: &Fact<Vec<Interrupt>>) {
    let dir = format!("{CLASS}/{}", nic.name);
    let info = probe.text(&format!("@ethtool/{}/drvinfo", nic.name));
    let told = |key: &'static str| {
        and_then(info.clone(), |info| match field(&info, key, '=').filter(|value| !value.is_empty()) {
            Some(value) => Fact::Known(value.to_owned()),
            None => Fact::absent(format!("the driver tells no {key}")),
        })
    };
    nic.driver = or_else(probe.link_name(&format!("{dir}/device/driver")), || told("driver"));
    nic.driver_version = told("version");

    let device = probe.link_name(&format!("{dir}/device"));
    // The PCI device of a virtio interface is one step up; the interface's own is only virtio's.
    let is_virtio = device.known().is_some_and(|device| device.starts_with("virtio"));
    let bus = if is_virtio { format!("{dir}/device/..") } else { format!("{dir}/device") };
    nic.numa_node = probe.number(&format!("{bus}/numa_node"));

    let queues = probe.entries(&format!("{dir}/queues"));
    let queue = |prefix: &str, mask: &str| {
        let names = queues.known().map(Vec::as_slice).unwrap_or_default();
        let mut indices: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        indices.sort_unstable();
        let steering = |index| probe.cpu_mask(&format!("{dir}/queues/{prefix}{index}/{mask}"));
        let flows =
            |index| (prefix == "rx-").then(|| probe.number(&format!("{dir}/queues/{prefix}{index}/rps_flow_cnt")));
        let queue = |index| Queue { index, steering_cpus: steering(index), flows: flows(index) };
        indices.into_iter().map(queue).collect::<Vec<_>>()
    };
    nic.rx_queues = queue("rx-", "rps_cpus");
    nic.tx_queues = queue("tx-", "xps_cpus");
    nic.queues = queues.map(|_| QueueCounts { rx: nic.rx_queues.len(), tx: nic.tx_queues.len() });

    nic.napi = Napi {
        defer_hard_irqs: probe.number(&format!("{dir}/napi_defer_hard_irqs")),
        gro_flush_timeout_ns: probe.number(&format!("{dir}/gro_flush_timeout")),
        threaded: probe.number(&format!("{dir}/threaded")),
    };
    nic.channels = Channels::probe(probe, &nic.name);
    nic.rings = Rings::probe(probe, &nic.name);
    nic.coalesce = Coalesce::probe(probe, &nic.name);

    let listed = probe.numbered(&format!("{bus}/msi_irqs"), "");
    let found = interrupts.clone().map(|interrupts| {
        let device = device.known().map(String::as_str);
        irqs_of(&interrupts, Owner { interface: &nic.name, device }, listed.known().map(Vec::as_slice))
    });
    nic.irqs_found_by =
        found.clone().map(|_| if listed.known().is_some() { IrqsFoundBy::Device } else { IrqsFoundBy::Name });
    let found = found.known().cloned().unwrap_or_default();
    nic.irqs = found.into_iter().map(|interrupt| probe_irq(probe, interrupt)).collect();
}

fn probe_irq(probe: Probe<'_>, interrupt: Interrupt) -> Irq {
    let dir = format!("/proc/irq/{}", interrupt.number);
    Irq {
        number: interrupt.number,
        name: interrupt.name,
        affinity: probe.cpu_list(&format!("{dir}/smp_affinity_list")),
        effective: probe.cpu_list(&format!("{dir}/effective_affinity_list")),
    }
}

fn probe_kind(probe: Probe<'_>, name: &str) -> Option<NicKind> {
    let dir = format!("{CLASS}/{name}");
    let is_hardware = match probe.0.link(&dir) {
        Ok(target) => !target.contains("/virtual/"),
        Err(refusal) if refusal.why == Why::Errno(Errno::INVAL) => return None,
        Err(_) => probe.0.link(&format!("{dir}/device")).is_ok(),
    };
    Some(match is_hardware {
        true => NicKind::Hardware,
        false if name == "lo" => NicKind::Loopback,
        false => NicKind::Virtual,
    })
}

/// What is known of an interface that its interrupts may be named after.
#[derive(Clone, Copy)]
struct Owner<'a> {
    interface: &'a str,
    /// The last part of its device's path: `0000:00:05.0`, `virtio2`.
    device: Option<&'a str>,
}

/// The interrupts that carry packets of one interface, ascending. `listed` are those of its device, where it has a list.
fn irqs_of(interrupts: &[Interrupt], owner: Owner<'_>, listed: Option<&[u32]>) -> Vec<Interrupt> {
    let is_ours = |interrupt: &&Interrupt| match listed {
        Some(numbers) => numbers.binary_search(&interrupt.number).is_ok(),
        None => is_named_after(&interrupt.name, owner),
    };
    let mut irqs: Vec<Interrupt> =
        interrupts.iter().filter(is_ours).filter(|irq| is_for_packets(&irq.name)).cloned().collect();
    irqs.sort_unstable_by_key(|irq| irq.number);
    // Beside interrupts a queue, one that has the bare name of the interface is the mailbox to the host (ixgbevf).
    if irqs.iter().any(|irq| irq.name != owner.interface) {
        irqs.retain(|irq| irq.name != owner.interface);
    }
    irqs
}

/// `eth0`, `eth0-TxRx-0`, `virtio2-input.0`, `mlx5_comp0@pci:0000:00:05.0`; several on a line share it.
fn is_named_after(name: &str, owner: Owner<'_>) -> bool {
    let after = |action: &str, base: &str| {
        action.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    name.split(", ").any(|action| {
        let by_device = owner.device.is_some_and(|device| match action.split_once("@pci:") {
            Some((_, address)) => address == device,
            None => device.starts_with("virtio") && after(action, device),
        });
        by_device || after(action, owner.interface)
    })
}

/// Whether an interrupt is more than its driver's talk with the device, and belongs to a driver at all.
fn is_for_packets(name: &str) -> bool {
    const TALK: [&str; 8] = ["-config", "-control", "-mgmnt", "-mgmt", ":misc", "_async", "_pages_eq", "_cmd_eq"];
    const FLOWS: [&str; 6] = ["-edge", "-level", "-fasteoi", "Edge", "Level", "-event"];
    let action = name.split_once("@pci:").map_or(name, |(action, _)| action);
    // mlx5_async0 on newer kernels.
    let action = action.trim_end_matches(|character: char| character.is_ascii_digit());
    !TALK.iter().chain(&FLOWS).any(|end| action.ends_with(end))
}

/// A line of /proc/interrupts. Its counts are no facts: they move.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interrupt {
    number: u32,
    name: String,
}

/// The numbered lines. Whatever columns a kernel and an interrupt controller print, the name stands last, behind two
/// spaces (`show_interrupts` of the kernel's `kernel/irq/proc.c`).
fn parse_interrupts(text: &str) -> Vec<Interrupt> {
    let lines = text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let (_, name) = rest.trim_end().rsplit_once("  ")?;
        Some(Interrupt { number, name: name.trim().to_owned() })
    });
    lines.filter(|interrupt| !interrupt.name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_is_last_in_every_kernels_format() {
        let text = "            CPU0       CPU1       \n \
              38:          0       4380 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n \
              24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
             267:        634       2789   xen-pirq-msi-x     eth0-TxRx-0\n\
              71:          9          0   xen-dyn-event     eth0-q0-rx\n\
              72:          9          0  xen-dyn    -event     eth0-q0-tx\n\
              26:          9          0   IR-PCI-MSI 1048577-edge      eth0-TxRx-0\n\
              13:          9          0   ITS-MSI 524289 Edge      ena-mgmnt@pci:0000:00:05.0\n\
              11:          9          0   IO-APIC  11-fasteoi   uhci_hcd:usb1, eth1\n\
              30:          0          0   PCI-MSI 49152-edge    \n\
             NMI:          0          0   Non-maskable interrupts\nERR:          0\n";
        let lines: Vec<String> = parse_interrupts(text)
            .into_iter()
            .map(|interrupt| format!("{} {:?} {}\n", interrupt.number, interrupt.name, is_for_packets(&interrupt.name)))
            .collect();
        expect![[r#"
            38 "virtio2-input.0" true
            24 "ACPI:Ged" true
            267 "eth0-TxRx-0" true
            71 "eth0-q0-rx" true
            72 "eth0-q0-tx" true
            26 "eth0-TxRx-0" true
            13 "ena-mgmnt@pci:0000:00:05.0" false
            11 "uhci_hcd:usb1, eth1" true
            30 "PCI-MSI 49152-edge" false
        "#]]
        .assert_eq(&lines.concat());
    }

    #[test]
    fn a_line_of_128_cpus_is_read() {
        let header: String = (0..128).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
        let counts: String = (0..128).map(|cpu| format!(" {:>10}", cpu * 33_554_431_u64)).collect();
        let text =
            format!("    {header}\n 412:{counts}  PCI-MSIX-0000:17:00.0   3-edge      mlx5_comp3@pci:0000:17:00.0\n");
        let expected = Interrupt { number: 412, name: "mlx5_comp3@pci:0000:17:00.0".to_owned() };
        assert_eq!(parse_interrupts(&text), [expected]);
    }

    /// The names of those among `names` (numbered from 10) that carry packets of the owner.
    fn chosen(interface: &str, device: &str, listed: Option<&[u32]>, names: &[&str]) -> String {
        let interrupts: Vec<Interrupt> =
            (10..).zip(names).map(|(number, name)| Interrupt { number, name: (*name).to_owned() }).collect();
        let irqs = irqs_of(&interrupts, Owner { interface, device: Some(device) }, listed);
        irqs.into_iter().map(|irq| irq.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn interrupts_find_their_interface() {
        let ena = ["ena-mgmnt@pci:0000:00:05.0", "ens5-Tx-Rx-0", "ens5-Tx-Rx-1", "ens50-Tx-Rx-0", "nvme0q1"];
        let mlx5 = ["mlx5_async0@pci:0000:17:00.0", "mlx5_comp0@pci:0000:17:00.0", "mlx5_comp0@pci:0000:17:00.1"];
        let virtio = ["virtio1-req.0", "virtio2-config", "virtio2-input.0", "virtio2-output.0", "virtio20-input.0"];
        let table = [
            (chosen("ens5", "0000:00:05.0", None, &ena), "ens5-Tx-Rx-0 ens5-Tx-Rx-1"),
            (chosen("renamed", "0000:00:05.0", Some(&[10, 11, 12]), &ena), "ens5-Tx-Rx-0 ens5-Tx-Rx-1"),
            (chosen("enP1", "0000:17:00.0", None, &mlx5), "mlx5_comp0@pci:0000:17:00.0"),
            (chosen("eth0", "virtio2", None, &virtio), "virtio2-input.0 virtio2-output.0"),
            (chosen("eth0", "virtio2", None, &["virtio2", "virtio2-virtqueues"]), "virtio2 virtio2-virtqueues"),
            (chosen("eth0", "vif-0", None, &["eth0-q0-tx", "eth0-q0-rx", "eth0"]), "eth0-q0-tx eth0-q0-rx"),
            (chosen("eth0", "vif-0", None, &["timer0", "eth0"]), "eth0"),
            (chosen("eth1", "0000:00:03.0", None, &["uhci_hcd:usb1, eth1"]), "uhci_hcd:usb1, eth1"),
            (chosen("eth0", "0000:00:03.0", None, &["eth0:misc", "i40e-0000:00:03.0:misc", "eth01-rx"]), ""),
            (
                chosen(
                    "gve0",
                    "0000:00:04.0",
                    Some(&[10, 11]),
                    &["gve-mgmnt@pci:0000:00:04.0", "gve-ntfy-blk0@pci:0000:00:04.0"],
                ),
                "gve-ntfy-blk0@pci:0000:00:04.0",
            ),
            (chosen("eth0", "0000:00:03.0", Some(&[10]), &["12-edge"]), ""),
            (chosen("eth0", "0000:00:03.0", Some(&[]), &["eth0"]), ""),
        ];
        for (seen, expected) in table {
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn what_is_no_interface_is_left_out() {
        let text = "evenkeel-capture 1\n/sys/class/net/ : bonding_masters eth0 lo veth1 x0\n\
                    /sys/class/net/bonding_masters ->! EINVAL\n/sys/class/net/lo -> ../../devices/virtual/net/lo\n\
                    /sys/class/net/veth1 -> ../../devices/virtual/net/veth1\n/sys/class/net/eth0 -> ../../devices/vif-0/net/eth0\n\
                    /sys/class/net/x0/device -> ../../../0000:00:03.0\nend\n";
        let network = Network::probe(Probe(&Root::captured(Capture::parse(text).unwrap())));
        let kinds: Vec<_> = network.nics.known().unwrap().iter().map(|nic| (nic.name.as_str(), nic.kind)).collect();
        let (hardware, loopback, software) = (NicKind::Hardware, NicKind::Loopback, NicKind::Virtual);
        assert_eq!(kinds, [("eth0", hardware), ("lo", loopback), ("veth1", software), ("x0", hardware)]);
        let nic = network.hardware().next().unwrap();
        assert!(nic.irqs_found_by.is_absent(), "no interrupts seen is not the same as none there");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "( {0,3}[0-9]{1,12}:?|  |[a-zé]{0,3}|\n|, |@pci:|-)*|.{0,20}") {
            let interrupts = parse_interrupts(&text);
            let _ = irqs_of(&interrupts, Owner { interface: "eth0", device: Some("virtio2") }, None);
            prop_assert!(interrupts.iter().all(|interrupt| !interrupt.name.is_empty()));
        }
    }
}
