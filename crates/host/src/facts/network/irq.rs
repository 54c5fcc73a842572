//! Interrupts of a network interface: which interrupts belong to it, and which of them carry packets.

use evenkeel_hostfs::proc::parse_per_cpu;
use evenkeel_sys::CpuSet;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::Probe;

/// How the interrupts of an interface were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IrqsFoundBy {
    /// By the device's own list of interrupts, which is always correct.
    Device,
    /// By the names of interrupts in /proc/interrupts.
    Name,
}

/// One interrupt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irq {
    /// The interrupt's number, which can change with a reboot or a change of queues.
    pub number: u32,
    /// As /proc/interrupts names it.
    pub name: String,
    /// The CPUs that may serve it.
    pub affinity: Fact<CpuSet>,
    /// The CPU that serves it.
    pub effective: Fact<CpuSet>,
}

impl Irq {
    pub(super) fn probe(probe: Probe<'_>, interrupt: Interrupt) -> Irq {
        let dir = format!("/proc/irq/{}", interrupt.number);
        Irq {
            number: interrupt.number,
            name: interrupt.name,
            affinity: probe.cpu_list(&format!("{dir}/smp_affinity_list")),
            effective: probe.cpu_list(&format!("{dir}/effective_affinity_list")),
        }
    }
}

/// The properties of an interface from which its interrupts may get their names.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) interface: &'a str,
    /// The last part of the path of the interface's device: `0000:00:05.0`, `virtio2`.
    pub(super) device: Option<&'a str>,
}

/// The interrupts that carry packets of one interface, ascending.
/// `listed` has the interrupts of the interface's device, if there is a list.
pub(super) fn irqs_of(interrupts: &[Interrupt], owner: Owner<'_>, listed: Option<&[u32]>) -> Vec<Interrupt> {
    let is_ours = |interrupt: &&Interrupt| match listed {
        Some(numbers) => numbers.binary_search(&interrupt.number).is_ok(),
        None => is_named_after(&interrupt.name, owner),
    };
    let mut irqs: Vec<Interrupt> =
        interrupts.iter().filter(is_ours).filter(|irq| is_for_packets(&irq.name)).cloned().collect();
    irqs.sort_unstable_by_key(|irq| irq.number);
    // If each queue has its own interrupt, the interrupt with only the interface's name is the mailbox to the host (ixgbevf).
    if irqs.iter().any(|irq| irq.name != owner.interface) {
        irqs.retain(|irq| irq.name != owner.interface);
    }
    irqs
}

/// Accepts `eth0`, `eth0-TxRx-0`, `i40e-eth0-TxRx-0`, `virtio2-input.0`, `mlx5_comp0@pci:0000:00:05.0`. Several names may share one line.
fn is_named_after(name: &str, owner: Owner<'_>) -> bool {
    /// Drivers that put their own name before the name of the interface.
    const DRIVERS: [&str; 5] = ["i40e-", "iavf-", "i40evf-", "ice-", "idpf-"];
    let after = |action: &str, base: &str| {
        action.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    name.split(", ").any(|action| {
        let by_device = owner.device.is_some_and(|device| match action.split_once('@') {
            Some((_, address)) => address.strip_prefix("pci:").unwrap_or(address) == device,
            None => device.starts_with("virtio") && after(action, device),
        });
        let by_interface = DRIVERS
            .iter()
            .find_map(|driver| action.strip_prefix(driver))
            .is_some_and(|rest| after(rest, owner.interface));
        by_device || by_interface || after(action, owner.interface)
    })
}

/// Whether an interrupt of a driver carries packets, rather than only messages to and from the device.
fn is_for_packets(name: &str) -> bool {
    const TALK: [&str; 14] = [
        "-config",
        "-control",
        "-mgmnt",
        "-mgmt",
        "-async",
        "-event-",
        "-Mailbox-",
        ":misc",
        ":mbx",
        "_async",
        "_hwc",
        "_pages_eq",
        "_cmd_eq",
        "_async_eq",
    ];
    const FLOWS: [&str; 6] = ["-edge", "-level", "-fasteoi", "Edge", "Level", "-event"];
    let action = name.split_once('@').map_or(name, |(action, _)| action);
    // mlx5_async0 on newer kernels.
    let action = action.trim_end_matches(|character: char| character.is_ascii_digit());
    !TALK.iter().chain(&FLOWS).any(|end| action.ends_with(end))
}

/// A line of /proc/interrupts. Its counts are not facts, because they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub(super) number: u32,
    pub(super) name: String,
}

/// The numbered lines.
/// Kernels and interrupt controllers print different columns, but the name comes last, after two spaces.
/// The kernel function is `show_interrupts` of `kernel/irq/proc.c`.
pub(super) fn interrupts(text: &str) -> Vec<Interrupt> {
    let numbered = parse_per_cpu(text)
        .rows()
        .filter_map(|row| Some(Interrupt { number: row.label.parse().ok()?, name: row.name().to_owned() }));
    numbered.filter(|interrupt| !interrupt.name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbered_lines_are_interrupts() {
        let text = "            CPU0       CPU1       \n \
              38:          0       4380 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
              13:          9          0   ITS-MSI 524289 Edge      ena-mgmnt@pci:0000:00:05.0\n\
              30:          0          0   PCI-MSI 49152-edge    \n\
              31:          0          0\n\
             NMI:          0          0   Non-maskable interrupts\nERR:          0\n";
        let lines: Vec<String> = interrupts(text)
            .into_iter()
            .map(|interrupt| format!("{} {:?} {}\n", interrupt.number, interrupt.name, is_for_packets(&interrupt.name)))
            .collect();
        expect![[r#"
            38 "virtio2-input.0" true
            13 "ena-mgmnt@pci:0000:00:05.0" false
            30 "PCI-MSI 49152-edge" false
        "#]]
        .assert_eq(&lines.concat());
    }

    /// Which of `names` (numbered from 10) carry packets of the owner.
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

    /// The names that each driver gives its interrupts, from its source (from memory for idpf, mana and vmxnet3).
    /// The search by name and the device's list both find interrupts that carry packets.
    /// Neither finds interrupts for messages to the device.
    #[test]
    fn each_driver_names_its_interrupts_in_its_own_way() {
        let pci = "0000:00:05.0";
        let table: [(&str, &str, &[&str], &[&str]); 15] = [
            ("ixgbe, igb, ixgbevf", pci, &["eth0-TxRx-0", "eth0-TxRx-1"], &["eth0"]),
            ("ixgbevf, queues apart", pci, &["eth0-rx-0", "eth0-tx-0"], &["eth0"]),
            ("i40e", pci, &["i40e-eth0-TxRx-0", "i40e-eth0-TxRx-11"], &["i40e-0000:00:05.0:misc"]),
            ("ice", pci, &["ice-eth0-TxRx-0", "ice-eth0-TxRx-1"], &["ice-0000:00:05.0:misc"]),
            ("iavf", pci, &["iavf-eth0-TxRx-0", "iavf-eth0-TxRx-1"], &["iavf-0000:00:05.0:mbx"]),
            ("idpf", pci, &["idpf-eth0-TxRx-0"], &["idpf-0000:00:05.0-Mailbox-0"]),
            ("ena", pci, &["eth0-Tx-Rx-0", "eth0-Tx-Rx-1"], &["ena-mgmnt@pci:0000:00:05.0"]),
            (
                "mlx5",
                pci,
                &["mlx5_comp0@pci:0000:00:05.0", "mlx5_comp1@pci:0000:00:05.0"],
                &["mlx5_async@pci:0000:00:05.0", "mlx5_async0@pci:0000:00:05.0", "mlx5_pages_eq@pci:0000:00:05.0"],
            ),
            ("mlx4", pci, &["mlx4-1@0000:00:05.0", "mlx4-2@pci:0000:00:05.0"], &["mlx4-async@pci:0000:00:05.0"]),
            ("virtio", "virtio0", &["virtio0-input.0", "virtio0-output.0"], &["virtio0-config", "virtio0-control"]),
            ("gve", pci, &["gve-ntfy-blk0@pci:0000:00:05.0"], &["gve-mgmnt@pci:0000:00:05.0"]),
            ("gve in 5.14", pci, &["eth0-ntfy-block.0", "eth0-ntfy-block.1"], &["eth0-mgmnt"]),
            ("mana", pci, &["mana_q0@pci:0000:00:05.0", "mana_q1@pci:0000:00:05.0"], &["mana_hwc@pci:0000:00:05.0"]),
            ("vmxnet3", pci, &["eth0-rxtx-0", "eth0-rxtx-1"], &["eth0-event-2"]),
            ("xen", "vif-0", &["eth0-q0-tx", "eth0-q0-rx"], &[]),
        ];
        let others = ["nvme0q1", "eth01-TxRx-0", "virtio00-input.0", "mlx5_comp0@pci:0000:00:06.0", "i40e-eth1-TxRx-0"];
        for (driver, device, packets, talk) in table {
            let own: Vec<&str> = talk.iter().chain(packets).copied().collect();
            let all: Vec<&str> = own.iter().copied().chain(others).collect();
            assert_eq!(chosen("eth0", device, None, &all), packets.join(" "), "{driver}, by name");
            let listed: Vec<u32> = (10..).take(own.len()).collect();
            assert_eq!(chosen("eth0", device, Some(&listed), &all), packets.join(" "), "{driver}, by list");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "( {0,3}[0-9]{1,12}:?|  |[a-zé]{0,3}|\n|, |@pci:|-)*|.{0,20}") {
            let interrupts = interrupts(&text);
            let _ = irqs_of(&interrupts, Owner { interface: "eth0", device: Some("virtio2") }, None);
            prop_assert!(interrupts.iter().all(|interrupt| !interrupt.name.is_empty()));
        }
    }
}
