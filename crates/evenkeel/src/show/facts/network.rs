//! The network on the page of `inspect`: each device with its queues, its interrupts and who serves them.

use std::collections::BTreeMap;

use evenkeel_host::facts::{Network, Nic, NicKind, Queue};
use evenkeel_sys::CpuSet;

use crate::show::facts::{cell, list_or_none, notes};
use crate::show::page::{PLAIN, Page};

pub(super) fn section(page: &mut Page, network: &Network) {
    page.heading("Network");
    let Some(nics) = network.nics.known() else {
        page.fact_as("interfaces", &network.nics, |_| String::new());
        return;
    };
    let (devices, others): (Vec<&Nic>, Vec<&Nic>) = nics.iter().partition(|nic| nic.kind == NicKind::Hardware);
    for nic in &devices {
        device(page, nic);
    }
    if devices.is_empty() {
        page.row("devices", PLAIN, "none");
    }
    // A host of containers has hundreds of these, and no knob is set on them.
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|nic| nic.name.as_str()).collect();
        page.row("software only", PLAIN, &names.join(", "));
    }
}

fn device(page: &mut Page, nic: &Nic) {
    let mut unknowns = Vec::new();
    let driver = cell(&nic.driver, String::clone, &mut unknowns);
    let version = nic.driver_version.known().map(|version| format!(" {version}")).unwrap_or_default();
    let state = cell(&nic.state, String::clone, &mut unknowns);
    let mtu = cell(&nic.mtu_bytes, u32::to_string, &mut unknowns);
    let node = match nic.numa_node.known() {
        // The firmware does not tell.
        Some(..0) => String::new(),
        _ => format!(", node {}", cell(&nic.numa_node, i32::to_string, &mut unknowns)),
    };
    page.row(&nic.name, PLAIN, &format!("{driver}{version}, {state}, {mtu} bytes a packet{node}"));
    queues(page, &nic.rx_queues, "receive", "RPS", &mut unknowns);
    queues(page, &nic.tx_queues, "transmit", "XPS", &mut unknowns);
    if let Some(told) = device_settings(nic) {
        page.row("  device", PLAIN, &told);
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

/// What the driver tells of queues, rings and waits; nothing where it tells none of them.
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
    let told: Vec<String> = [channels, rings, coalesce, threaded].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Queues that are steered alike share a row part: `8 receive: 0-3 to CPUs 0-1; 4-7 not steered`.
fn queues(page: &mut Page, queues: &[Queue], direction: &str, steering: &str, unknowns: &mut Vec<String>) {
    let mut alike: BTreeMap<String, CpuSet> = BTreeMap::new();
    for queue in queues {
        let cpus = cell(&queue.steering_cpus, CpuSet::to_string, unknowns);
        // The type that prints runs of numbers as `0-3,8` does so for queues as well.
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
