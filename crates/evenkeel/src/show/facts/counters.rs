//! Counters on the page of `inspect --counters`: lost packets by place,
//! the CPUs that served interrupts, and the nodes of allocations.

use std::collections::BTreeMap;

use evenkeel_host::facts::{Counters, Facts, UdpCounters};

use crate::show::page::{DIM, Page, unknown};

/// The maximum number of rows in a table.
/// The table shows the largest values, because a machine with 128 CPUs would have a row for each CPU.
const ROWS_MAX: usize = 16;

pub(super) fn section(page: &mut Page, facts: &Facts) {
    let counters = &facts.counters;
    page.heading("Counters, since boot");
    page.fact_as("UDP over IPv4", &counters.udp, udp);
    page.fact_as("UDP over IPv6", &counters.udp6, udp);
    page.fact_as("UDP memory", &counters.udp_memory, |memory| {
        format!("{} sockets hold {} pages now", memory.sockets, memory.pages)
    });
    softnet(page, counters);
    irqs(page, facts);
    nodes(page, counters);
    for nic in &counters.nics {
        page.fact_as(&nic.name, &nic.losses, losses);
    }
}

fn udp(udp: &UdpCounters) -> String {
    let memory = udp.mem_errors.map(|errors| format!(", {errors} at the limit of all")).unwrap_or_default();
    format!(
        "{} not delivered ({} at a full socket buffer{memory}), {} for no port, {} not sent",
        udp.in_errors, udp.rcvbuf_errors, udp.no_ports, udp.sndbuf_errors
    )
}

fn softnet(page: &mut Page, counters: &Counters) {
    let Some(cpus) = counters.softnet.known() else {
        page.fact_as("packets by CPU", &counters.softnet, |_| String::new());
        return;
    };
    let mut cpus = cpus.clone();
    cpus.sort_by_key(|cpu| (std::cmp::Reverse((cpu.dropped, cpu.time_squeeze, cpu.processed)), cpu.cpu));
    let rows = cpus.iter().take(ROWS_MAX).map(|cpu| {
        [cpu.cpu.to_string(), cpu.processed.to_string(), cpu.dropped.to_string(), cpu.time_squeeze.to_string()].into()
    });
    page.table(&["CPU", "packets", "dropped", "stopped with packets left"], &rows.collect::<Vec<_>>());
    rest(page, cpus.len());
}

fn rest(page: &mut Page, all: usize) {
    if all > ROWS_MAX {
        page.row("", DIM, &format!("and {} more, which --json lists", all - ROWS_MAX));
    }
}

fn irqs(page: &mut Page, facts: &Facts) {
    let Some(irqs) = facts.counters.irqs.known() else {
        page.fact_as("interrupts", &facts.counters.irqs, |_| String::new());
        return;
    };
    let name = |number: u32| {
        let mut named = facts.network.hardware().flat_map(|nic| &nic.irqs);
        named.find(|irq| irq.number == number).map(|irq| irq.name.clone()).unwrap_or_default()
    };
    let rows = irqs.iter().take(ROWS_MAX).map(|irq| {
        let served: Vec<String> = irq.by_cpu.iter().map(|(cpu, count)| format!("{count} by CPU {cpu}")).collect();
        let served = if served.is_empty() { "never".to_owned() } else { served.join(", ") };
        vec![irq.number.to_string(), name(irq.number), served]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        page.table(&["interrupt", "name", "served"], &rows);
        rest(page, irqs.len());
    }
}

fn nodes(page: &mut Page, counters: &Counters) {
    let Some(nodes) = counters.nodes.known() else {
        page.row("memory by node", DIM, &unknown(&counters.nodes));
        return;
    };
    let rows = nodes.iter().map(|node| {
        let counts = [node.numa_hit, node.numa_miss, node.numa_foreign, node.local_node, node.other_node];
        std::iter::once(node.node.to_string()).chain(counts.map(|count| count.to_string())).collect()
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        page.table(&["node", "pages as wanted", "for others", "elsewhere", "from here", "from afar"], &rows);
    }
}

/// The counters that are not 0, as text. Most counters are 0.
fn losses(losses: &BTreeMap<String, u64>) -> String {
    let named: Vec<String> =
        losses.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}")).collect();
    match (losses.len(), named.is_empty()) {
        (0, _) => "its driver has no counter of losses".to_owned(),
        (count, true) => format!("{count} counters of losses, all 0"),
        (count, false) => format!("{} ({count} counters in all)", named.join(", ")),
    }
}
