//! The targets that are files of a machine: captured ones with one file replaced, and captures from strangers.

use std::sync::LazyLock;

use evenkeel_host::{Facts, Goal, advise};
use evenkeel_hostfs::{Capture, Root};

pub(super) const FOUR_CPUS: &str = include_str!("../../../hosts/qemu-4cpu-6.12.txt");
pub(super) const FOUR_NODES: &str = include_str!("../../../hosts/qemu-4-nodes-6.1.txt");
pub(crate) const QUEUES: &str = include_str!("../../../hosts/qemu-4-queues-6.1.txt");
pub(super) const IDLE: &str = include_str!("../../../hosts/qemu-acpi-idle-6.1.txt");
pub(super) const SWAP: &str = include_str!("../../../hosts/qemu-swap-hugepages-6.12.txt");
pub(super) const BOND: &str = include_str!("../../../hosts/qemu-bond-vlan-6.1.txt");
pub(super) const EC2: &str = include_str!("../../../hosts/qemu-as-c5n.xlarge-6.1.txt");
pub(super) const GOOGLE: &str = include_str!("../../../hosts/gcp-n2-kvm-swap-5.14.txt");
pub(super) const SYSTEMD: &str = include_str!("../../../hosts/firecracker-2vcpu-6.18.txt");

/// The machines, read once.
static MACHINES: LazyLock<Vec<(&str, Capture)>> = LazyLock::new(|| {
    let texts = [FOUR_CPUS, FOUR_NODES, QUEUES, IDLE, SWAP, BOND, EC2, GOOGLE, SYSTEMD];
    texts.map(|text| (text, Capture::parse(text).expect("a captured host is a capture"))).into()
});

/// The machine with this text.
pub(crate) fn machine(text: &str) -> Capture {
    let (_, machine) = MACHINES.iter().find(|(known, _)| *known == text).expect("MACHINES has every host of a target");
    machine.clone()
}

/// Replaces these paths of a captured machine by a text, and computes facts and advice.
pub(crate) fn on_paths(host: &str, paths: &[&str], text: &str) -> Facts {
    let mut capture = machine(host);
    for path in paths {
        capture.saw_text(path, Ok(text.to_owned()));
    }
    answered(capture)
}

/// The facts of a machine. Advice must merely be computable.
fn answered(capture: Capture) -> Facts {
    let facts = Facts::probe(&Root::captured(capture));
    for goal in Goal::ALL {
        assert!(!advise(&facts, &goal.into()).is_empty());
    }
    facts
}

/// A capture from a stranger: a valid one gives facts and advice, and prints as it was read.
pub(super) fn capture(text: &str) {
    let Ok(capture) = Capture::parse(text) else { return };
    let printed = capture.to_string();
    assert_eq!(Capture::parse(&printed).as_ref(), Ok(&capture), "{printed}");
    answered(capture);
}

/// One arbitrary file of a machine: the first line of the text is its path, and the rest its contents. This reaches every reader, including
/// those without their own target.
pub(super) fn look(text: &str) {
    if let Some((path, text)) = text.split_once('\n') {
        on_paths(QUEUES, &[path], text);
    }
}

/// The list of VLANs on a machine with one VLAN, which the list may name or not.
pub(super) fn vlans(text: &str) {
    let mut capture = machine(BOND);
    capture.saw_text("/sys/class/net/bond0.7/uevent", Ok("DEVTYPE=vlan".to_owned()));
    capture.saw_text("/proc/self/net/vlan/config", Ok(text.to_owned()));
    answered(capture);
}
