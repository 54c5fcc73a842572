//! The picture as text: one column for each core, with the core's threads below each other.

use evenkeel_host::Facts;

use super::{By, Core, Domain, NicView, Topology, letter};
use crate::show::page::{DIM, HEADING, Indent, PLAIN, Page, width as page_width};

/// The columns before the first core, such as `      A `.
const MARGIN: usize = 8;

pub(crate) fn draw(facts: &Facts) -> String {
    let topology = Topology::from_facts(facts);
    let mut page = Page::default();
    page.paragraph(Indent { first: 0, rest: 2 }, HEADING, &topology.title);
    if !topology.core_caches.is_empty() {
        page.paragraph(Indent { first: 0, rest: 2 }, DIM, &format!("each core: {}", topology.core_caches));
    }
    if topology.regions.is_empty() {
        page.paragraph(Indent::all(0), DIM, "its CPUs are not known");
    }
    for region in &topology.regions {
        page.heading(&region.name);
        for domain in &region.domains {
            draw_domain(&mut page, domain);
        }
    }
    legend(&mut page, &topology);
    for nic in &topology.nics {
        draw_nic(&mut page, nic);
    }
    page.finish()
}

fn draw_domain(page: &mut Page, domain: &Domain) {
    if !domain.cache.is_empty() {
        page.line(DIM, &format!("  {} shared by these", domain.cache));
    }
    let digits = |core: &Core| core.threads.iter().map(|thread| cell(core, thread.cpu).len()).max();
    // A cell has a blank, the number of the CPU, and a mark.
    let width = domain.cores.iter().filter_map(digits).max().unwrap_or(1) + 1;
    let threads = domain.cores.iter().map(|core| core.threads.len()).max().unwrap_or(0);
    for cores in domain.cores.chunks(((page_width() - MARGIN) / width).max(1)) {
        for thread in 0..threads {
            let cells: String = cores
                .iter()
                .map(|core| core.threads.get(thread).map_or(String::new(), |found| cell(core, found.cpu)))
                .map(|cell| format!("{cell:>width$}"))
                .collect();
            page.line(PLAIN, &format!("      {} {cells}", letter(thread)));
        }
    }
}

/// The number of a CPU. `*` marks a CPU that serves network interrupts, and parentheses mark an offline CPU.
fn cell(core: &Core, cpu: usize) -> String {
    match core.threads.iter().find(|thread| thread.cpu == cpu) {
        Some(thread) if !thread.is_online => format!("({cpu})"),
        Some(thread) if !thread.irqs.is_empty() => format!("{cpu}*"),
        // The blank aligns the numbers of CPUs without a mark.
        _ => format!("{cpu} "),
    }
}

fn legend(page: &mut Page, topology: &Topology<'_>) {
    let cores = || topology.regions.iter().flat_map(|region| &region.domains).flat_map(|domain| &domain.cores);
    let threads = || cores().flat_map(|core| &core.threads);
    let mut notes = Vec::new();
    if cores().any(|core| core.threads.len() > 1) {
        notes.push("a column is a core, A and B its threads");
    }
    if threads().any(|thread| !thread.irqs.is_empty()) {
        notes.push("* serves interrupts of the network");
    }
    if threads().any(|thread| !thread.is_online) {
        notes.push("(n) is off");
    }
    if !notes.is_empty() {
        page.line(PLAIN, "");
        page.paragraph(Indent::all(2), DIM, &notes.join("; "));
    }
}

fn draw_nic(page: &mut Page, nic: &NicView<'_>) {
    page.heading(&nic.title());
    for served in &nic.irqs {
        let by = match &served.by {
            By::Cpu(cpu) => format!("CPU {cpu}"),
            By::AnyOf(cpus) => format!("any of CPUs {cpus}"),
            By::Unknown => "not known".to_owned(),
        };
        page.paragraph(
            Indent { first: 2, rest: 8 },
            PLAIN,
            &format!("{} {} -> {by}", served.irq.number, served.irq.name),
        );
    }
    if nic.irqs.is_empty() {
        page.paragraph(Indent::all(2), DIM, "no interrupts of its own are known");
    }
    for steered in nic.steered() {
        page.paragraph(Indent { first: 2, rest: 8 }, PLAIN, &format!("{steered} by RPS"));
    }
}
