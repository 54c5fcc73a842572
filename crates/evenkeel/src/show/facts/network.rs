//! The network on the page of `inspect`: each device with its queues, its interrupts, and the CPUs that serve them.

use std::collections::BTreeMap;

use evenkeel_host::facts::{Network, Nic, NicKind, Queue};
use evenkeel_sys::CpuSet;

use super::cells::{cell, list_or_none, notes};
use crate::show::page::{PLAIN, Page};

pub(super) fn section(page: &mut Page, network: &Network) {
    page.heading("Network");
    let Some(nics) = network.nics.known() else {
        page.fact_as("interfaces", &network.nics, |_| String::new());
        return;
    };
    let (devices, others): (Vec<&Nic>, Vec<&Nic>) = nics.iter().partition(|nic| nic.kind.is_hardware());
    for nic in &devices {
        device(page, nic);
    }
    if devices.is_empty() {
        page.row("devices", PLAIN, "none");
    }
    // These interfaces use other devices, and evenkeel sets their knobs on those devices.
    let (upon, others): (Vec<&Nic>, Vec<&Nic>) =
        others.into_iter().partition(|nic| matches!(nic.kind, NicKind::Bond | NicKind::Vlan));
    for nic in upon {
        page.row(&nic.name, PLAIN, &stands_on(nic));
    }
    // A host of containers has hundreds of these interfaces. They have no knobs, so show only their names.
    if !others.is_empty() {
        let names: Vec<String> = others
            .iter()
            .map(|nic| match nic.kind {
                NicKind::Bridge => format!("{} (bridge)", nic.name),
                _ => nic.name.clone(),
            })
            .collect();
        page.row("software only", PLAIN, &names.join(", "));
    }
}

/// A row with the devices and their drivers.
pub(super) fn summary(page: &mut Page, network: &Network) {
    page.fact_as("network", &network.nics, |nics| {
        let driver = |nic: &Nic| nic.driver.known().map(|driver| format!(" ({driver})")).unwrap_or_default();
        let devices = nics.iter().filter(|nic| nic.kind.is_hardware());
        let devices: Vec<String> = devices.map(|nic| format!("{}{}", nic.name, driver(nic))).collect();
        if devices.is_empty() { "no devices".to_owned() } else { devices.join(", ") }
    });
}

/// The devices under an interface, such as `bond of eth0, eth1, active-backup` or `VLAN 100 on bond0`.
fn stands_on(nic: &Nic) -> String {
    let lower = if nic.lower.is_empty() { "nothing that is known".to_owned() } else { nic.lower.join(", ") };
    match nic.kind {
        NicKind::Bond => {
            let mode = nic.bond_mode.as_ref().and_then(|mode| mode.known()).map(|mode| format!(", {mode}"));
            format!("bond of {lower}{}", mode.unwrap_or_default())
        }
        _ => {
            let id = nic.vlan_id.as_ref().and_then(|id| id.known()).map(|id| format!(" {id}"));
            format!("VLAN{} on {lower}", id.unwrap_or_default())
        }
    }
}

fn device(page: &mut Page, nic: &Nic) {
    let mut unknowns = Vec::new();
    let driver = cell(&nic.driver, String::clone, &mut unknowns);
    let version = nic.driver_version.known().map(|version| format!(" {version}")).unwrap_or_default();
    let state = cell(&nic.state, String::clone, &mut unknowns);
    let mtu = cell(&nic.mtu_bytes, u32::to_string, &mut unknowns);
    let node = match nic.numa_node.known() {
        // A negative number means that the firmware does not report the node.
        Some(..0) => String::new(),
        _ => format!(", node {}", cell(&nic.numa_node, i32::to_string, &mut unknowns)),
    };
    page.row(&nic.name, PLAIN, &format!("{driver}{version}, {state}, {mtu} bytes a packet{node}{}", part_of(nic)));
    if let Some(enhanced) = nic.enhanced.known() {
        page.row("  packets", PLAIN, &enhanced.reason);
    }
    queues(page, &nic.rx_queues, "receive", "RPS", &mut unknowns);
    queues(page, &nic.tx_queues, "transmit", "XPS", &mut unknowns);
    if let Some(shown) = device_settings(nic) {
        page.row("  device", PLAIN, &shown);
    }
    if let Some(shown) = offloads(nic) {
        page.row("  offloads", PLAIN, &shown);
    }
    if let Some(shown) = spread(nic) {
        page.row("  spread", PLAIN, &shown);
    }
    notes(page, unknowns.drain(..));
    let mut rows = Vec::new();
    for irq in &nic.irqs {
        let may = cell(&irq.affinity, list_or_none, &mut unknowns);
        let does = cell(&irq.effective, list_or_none, &mut unknowns);
        rows.push(vec![irq.number.to_string(), does, may, irq.name.clone()]);
    }
    if !rows.is_empty() {
        page.table(&["interrupt", "served by", "allowed on", "name"], &rows);
    }
    notes(page, unknowns.into_iter());
}

fn part_of(nic: &Nic) -> String {
    match nic.master.known() {
        Some(master) if nic.kind == NicKind::Vf => format!(", virtual function of {master}"),
        Some(master) => format!(", part of {master}"),
        None => String::new(),
    }
}

/// The enabled features, with fixed features in brackets. `None` if the features are unknown.
fn offloads(nic: &Nic) -> Option<String> {
    let offloads = nic.offloads.known()?;
    let on: Vec<String> = offloads
        .iter()
        .filter(|(_, offload)| offload.on)
        .map(|(name, offload)| if offload.fixed { format!("[{name}]") } else { name.clone() })
        .collect();
    Some(if on.is_empty() { "none of those that matter to UDP".to_owned() } else { on.join(", ") })
}

/// How the receive queues share the packets. `None` if the device has only one queue, or nothing is known.
fn spread(nic: &Nic) -> Option<String> {
    let rss = nic.rss.known().filter(|_| nic.rx_queues.len() > 1)?;
    let table = rss.table.known().filter(|entries| **entries > 0).map(|entries| match rss.queues.known() {
        Some(queues) => format!("{entries} entries over {queues} queues"),
        None => format!("{entries} entries"),
    });
    let udp = rss.udp4.known().map(|fields| match fields.as_str() {
        "none" => "UDP by nothing".to_owned(),
        fields if fields.contains('f') && fields.contains('n') => "UDP by addresses and ports".to_owned(),
        "sd" => "UDP by addresses alone".to_owned(),
        fields => format!("UDP by {fields}"),
    });
    let shown: Vec<String> = [table, udp].into_iter().flatten().collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The queues, rings and interrupt delays that the driver reports. `None` if the driver reports none of them.
fn device_settings(nic: &Nic) -> Option<String> {
    let channels = nic.channels.known().map(|channels| match channels.combined {
        0 => format!("{} + {} queues of {} + {}", channels.rx, channels.tx, channels.rx_max, channels.tx_max),
        pairs => format!("{pairs} of {} queues", channels.combined_max),
    });
    let rings = nic.rings.known().map(|rings| {
        format!("rings of {} (most {}) and {} (most {}) packets", rings.rx, rings.rx_max, rings.tx, rings.tx_max)
    });
    let coalesce = nic.coalesce.known().map(|coalesce| {
        let adaptive = if coalesce.adaptive_rx { ", adaptive" } else { "" };
        format!("interrupts wait {} us to receive{adaptive}, {} us to send", coalesce.rx_us, coalesce.tx_us)
    });
    let threaded =
        nic.napi.threaded.known().filter(|threaded| **threaded != 0).map(|_| "packets by threads".to_owned());
    let shown: Vec<String> = [channels, rings, coalesce, threaded].into_iter().flatten().collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// Shows all queues that are steered to the same CPUs on one line: `8 receive: 0-3 to CPUs 0-1; 4-7 not steered`.
fn queues(page: &mut Page, queues: &[Queue], direction: &str, steering: &str, unknowns: &mut Vec<String>) {
    let mut alike: BTreeMap<String, CpuSet> = BTreeMap::new();
    for queue in queues {
        let cpus = cell(&queue.steering_cpus, CpuSet::to_string, unknowns);
        // A `CpuSet` prints runs of numbers as `0-3,8`, so use it for the numbers of queues too.
        alike.entry(cpus).or_default().insert(queue.index as usize);
    }
    let parts: Vec<String> = alike
        .iter()
        .map(|(cpus, queues)| match cpus.as_str() {
            "" => format!("{queues} without {steering}"),
            "?" => format!("{queues} with unknown {steering}"),
            cpus => format!("{queues} with {steering} to CPUs {cpus}"),
        })
        .collect();
    if !parts.is_empty() {
        page.row(&format!("  {direction} queues"), PLAIN, &parts.join("; "));
    }
}
