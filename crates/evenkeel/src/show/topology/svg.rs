//! The picture as SVG: one self-contained file, for one CPU up to hundreds. Queues are at the bottom.
//! If there are few queues, a line connects each queue to the CPU that serves it.
//! Each CPU always lists the interrupts that it serves.

use std::collections::BTreeMap;

use evenkeel_host::Facts;
use maud::{Markup, PreEscaped, html};

use super::lines::{Area, CELL_HEIGHT, CELL_WIDTH, Cell, GAP, LINE, MARGIN, QUEUE_WIDTH, Queue, path};
use super::{By, Core, Domain, NicView, Region, Topology, letter};
use crate::show::escape::plain;

/// The width for one character, in pixels. Most characters need a little less.
const CHAR_WIDTH: usize = 8;
const CORE_WIDTH: usize = CELL_WIDTH + 3 * GAP;
/// The maximum number of cores in a row. Sixteen cores are as wide as a page.
const CORES_A_ROW: usize = 16;
const WIDTH_MIN: usize = 640;
/// The maximum width of the picture. evenkeel cuts a longer title.
const WIDTH_MAX: usize = 1024;
/// The width for one character of the title, which has a larger font.
const TITLE_CHAR_WIDTH: usize = 9;
/// The maximum number of lines. More lines would hide the CPUs behind them.
const LINES_MAX: usize = 8;

/// The colours of lines and queues, one for each interface.
/// They are the palette of Okabe and Ito, which colour-blind people can distinguish.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"];

const STYLE: &str = "
text { font: 13px system-ui, sans-serif; fill: #1a1a1a; pointer-events: none }
.title { font-weight: 600; font-size: 15px } .name { font-weight: 600 } .dim { fill: #555 } .small { font-size: 11px }
.number, .irq { text-anchor: middle; font-variant-numeric: tabular-nums } .irq { font-size: 10px; fill: #7a3300 }
.region { fill: #f4f4f2; stroke: #999 } .domain { fill: #e7eaf0; stroke: #b8c0cf } .core { fill: #fff; stroke: #8a94a6 }
.cpu { fill: #dfe9f5 } .serves { fill: #ffd9a8; stroke: #d55e00 } .off { fill: #ddd; opacity: .6 }
.name, .small { paint-order: stroke; stroke: #fff; stroke-width: 3px }
.queue { fill: #fff } path { fill: none; stroke-width: 1.5; opacity: .55 }
";

/// A picture under construction, and the positions of its CPUs.
struct Picture {
    shapes: Vec<Markup>,
    /// Lines from queues to CPUs. They are drawn after the shapes, which would otherwise hide the lines.
    lines: Vec<Markup>,
    /// Captions. They are drawn after the lines, which would otherwise cross the captions.
    captions: Vec<Markup>,
    cpus: BTreeMap<usize, Cell>,
    /// Areas that lines must avoid: cores, and captions next to cores.
    taken: Vec<Area>,
    width: usize,
    y: usize,
}

pub(crate) fn draw(facts: &Facts) -> String {
    let topology = Topology::from_facts(facts);
    let mut picture = Picture {
        shapes: Vec::new(),
        lines: Vec::new(),
        captions: Vec::new(),
        cpus: BTreeMap::new(),
        taken: Vec::new(),
        width: width(&topology),
        y: MARGIN,
    };
    picture.line_of_text("title", &topology.title);
    if !topology.core_caches.is_empty() {
        picture.line_of_text("dim", &format!("each core: {}", topology.core_caches));
    }
    for region in &topology.regions {
        picture.region(region);
    }
    let end = picture.y;
    for (at, nic) in topology.nics.iter().enumerate() {
        picture.nic(nic, COLOURS[at % COLOURS.len()], end, at > 0);
    }
    picture.finish(&topology.title)
}

fn width(topology: &Topology<'_>) -> usize {
    let rows = topology.regions.iter().flat_map(rows);
    let widest = rows.map(|row| row.iter().map(|domain| domain_width(domain)).sum::<usize>()).max().unwrap_or(0);
    let title = topology.title.chars().count() * TITLE_CHAR_WIDTH;
    (2 * MARGIN + 3 * GAP + widest).max(WIDTH_MIN).max((2 * MARGIN + title).min(WIDTH_MAX))
}

/// Divides the domains into rows. Each row has as many domains as fit.
fn rows(region: &Region) -> Vec<Vec<&Domain>> {
    let mut rows: Vec<Vec<&Domain>> = Vec::new();
    let mut cores = 0;
    for domain in &region.domains {
        cores += columns(domain);
        match rows.last_mut() {
            Some(row) if cores <= CORES_A_ROW => row.push(domain),
            _ => {
                rows.push(vec![domain]);
                cores = columns(domain);
            }
        }
    }
    rows
}

impl Picture {
    fn line_of_text(&mut self, class: &str, text: &str) {
        self.y += LINE;
        self.text((MARGIN, self.y - 5), class, text);
    }

    fn text(&mut self, at: (usize, usize), class: &str, text: &str) {
        self.captions.push(words(at, class, text));
    }

    /// Reserves the area of the caption that begins at this point, so that no line crosses the caption.
    fn takes(&mut self, (x, y): (usize, usize), text: &str) {
        self.taken.push(Area { x, y, width: text.chars().count() * CHAR_WIDTH, height: LINE });
    }

    fn rect(&mut self, at: (usize, usize), size: (usize, usize), class: &str) {
        self.shapes.push(area(at, size, class));
    }

    fn region(&mut self, region: &Region) {
        self.y += 2 * GAP;
        let top = self.y;
        let rows = rows(region);
        let row_height = |row: &[&Domain]| row.iter().map(|domain| domain_height(&domain.cores)).max().unwrap_or(0);
        let height: usize = rows.iter().map(|row| row_height(row)).sum();
        self.rect((MARGIN, top), (self.width - 2 * MARGIN, LINE + 2 * GAP + height), "region");
        self.text((MARGIN + 2 * GAP, top + LINE - 4), "name", &region.name);
        self.takes((MARGIN + 2 * GAP, top), &region.name);
        self.y += LINE + GAP;
        for row in &rows {
            let mut x = MARGIN + 2 * GAP;
            let floor = self.y + row_height(row) - GAP / 2;
            for domain in row {
                self.domain(x, domain, floor);
                x += domain_width(domain);
            }
            self.y += row_height(row);
        }
        self.y = top + LINE + 2 * GAP + height;
    }

    fn domain(&mut self, x: usize, domain: &Domain, floor: usize) {
        let height = domain_height(&domain.cores) - GAP;
        self.rect((x, self.y), (domain_width(domain) - GAP, height), "domain");
        let label = if domain.cache.is_empty() { "no shared cache known" } else { &domain.cache };
        self.text((x + GAP, self.y + LINE - 5), "dim", label);
        self.takes((x + GAP, self.y), label);
        let row_height = core_height(&domain.cores) + GAP;
        for (at, core) in domain.cores.iter().enumerate() {
            let (column, row) = (at % CORES_A_ROW, at / CORES_A_ROW);
            self.core((x + GAP + column * CORE_WIDTH, self.y + LINE + row * row_height), core, floor);
        }
    }

    fn core(&mut self, (x, y): (usize, usize), core: &Core, floor: usize) {
        let threads = core.threads.len();
        let (width, height) = (CELL_WIDTH + 2 * GAP, threads * (CELL_HEIGHT + GAP) + GAP);
        self.rect((x, y), (width, height), "core");
        self.taken.push(Area { x, y, width, height });
        for (at, thread) in core.threads.iter().enumerate() {
            let (x, y) = (x + GAP, y + GAP + at * (CELL_HEIGHT + GAP));
            let class = match (thread.is_online, thread.irqs.is_empty()) {
                (false, _) => "off",
                (true, true) => "cpu",
                (true, false) => "serves",
            };
            let irqs: Vec<String> = thread.irqs.iter().map(u32::to_string).collect();
            let says = match (thread.is_online, irqs.is_empty()) {
                (false, _) => " is off".to_owned(),
                (true, true) => String::new(),
                (true, false) => format!(" serves interrupts {}", irqs.join(", ")),
            };
            let name = if threads > 1 { format!("{}{}", thread.cpu, letter(at)) } else { thread.cpu.to_string() };
            let irqs = match thread.irqs.as_slice() {
                [] => String::new(),
                [irq] => format!("irq {irq}"),
                irqs => format!("{} irqs", irqs.len()),
            };
            self.shapes.push(html! {
                g {
                    title { "CPU " (thread.cpu) ", thread " (letter(at)) (says) }
                    (area((x, y), (CELL_WIDTH, CELL_HEIGHT), class))
                }
            });
            self.captions.push(words((x + CELL_WIDTH / 2, y + 15), "number", &name));
            self.captions.push(words((x + CELL_WIDTH / 2, y + 28), "irq", &irqs));
            self.cpus.insert(thread.cpu, Cell { x, y, thread: at, floor });
        }
    }

    fn nic(&mut self, nic: &NicView<'_>, colour: &str, end: usize, is_below: bool) {
        self.y += 10 * GAP;
        self.line_of_text("name", &nic.title());
        for steered in nic.steered() {
            self.line_of_text("dim", &format!("{steered} by RPS"));
        }
        let columns = ((self.width - 2 * MARGIN) / (QUEUE_WIDTH + GAP)).max(1);
        for (at, served) in nic.irqs.iter().enumerate() {
            let x = MARGIN + at % columns * (QUEUE_WIDTH + GAP);
            let y = self.y + GAP + at / columns * (2 * LINE + 2 * GAP);
            let by = match &served.by {
                By::Cpu(cpu) => format!("CPU {cpu}"),
                By::AnyOf(cpus) => format!("any of {cpus}"),
                By::Unknown => "not known".to_owned(),
            };
            let number = format!("{}: {by}", served.irq.number);
            self.shapes.push(html! {
                g {
                    title { (plain(&served.irq.name)) " by " (by) }
                    rect.queue x=(x) y=(y) width=(QUEUE_WIDTH) height=(2 * LINE) rx="4" stroke=(colour) {}
                }
            });
            self.captions.push(words((x + GAP, y + LINE - 4), "small", &shortened(&served.irq.name)));
            self.captions.push(words((x + GAP, y + 2 * LINE - 6), "small", &shortened(&number)));
            if nic.irqs.len() <= LINES_MAX
                && let By::Cpu(cpu) = served.by
                && let Some(cell) = self.cpus.get(&cpu)
            {
                let line = path(Queue { x, y, first_row: self.y + GAP }, *cell, &self.taken, end, is_below, at);
                self.lines.push(html! { path d=(line) stroke=(colour) {} });
            }
        }
        self.y += nic.irqs.len().div_ceil(columns) * (2 * LINE + 2 * GAP);
    }

    fn finish(self, title: &str) -> String {
        let (width, height) = (self.width, self.y + MARGIN);
        let picture = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img" {
                title { (plain(title)) }
                style { (PreEscaped(STYLE)) }
                rect width=(width) height=(height) fill="#fff" {}
                // Put each shape on its own line, so that people can read the file.
                @for shape in self.shapes.iter().chain(&self.lines).chain(&self.captions) { "\n" (shape) }
            }
        };
        picture.into_string() + "\n"
    }
}

/// A text element. Replaces characters that could control a terminal, and escapes markup.
fn words((x, y): (usize, usize), class: &str, text: &str) -> Markup {
    html! { text.(class) x=(x) y=(y) { (plain(text)) } }
}

fn area((x, y): (usize, usize), (width, height): (usize, usize), class: &str) -> Markup {
    html! { rect.(class) x=(x) y=(y) width=(width) height=(height) rx="4" {} }
}

/// The width of a domain, in cores. A label needs the width of three cores.
fn columns(domain: &Domain) -> usize {
    domain.cores.len().clamp(if domain.cache.is_empty() { 3 } else { 2 }, CORES_A_ROW)
}

fn domain_width(domain: &Domain) -> usize {
    columns(domain) * CORE_WIDTH + 2 * GAP
}

fn core_height(cores: &[Core]) -> usize {
    cores.iter().map(|core| core.threads.len()).max().unwrap_or(1) * (CELL_HEIGHT + GAP) + GAP
}

fn domain_height(cores: &[Core]) -> usize {
    LINE + cores.len().div_ceil(CORES_A_ROW) * (core_height(cores) + GAP) + 2 * GAP
}

/// The part of a text that fits into the box of a queue.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 18;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        let shown = words((1, 2), "dim", "<a href=\"&\">\u{1}\u{2067}").into_string();
        let inside = "&lt;a href=&quot;&amp;&quot;&gt;\u{fffd}\u{fffd}";
        assert_eq!(shown, format!(r#"<text class="dim" x="1" y="2">{inside}</text>"#));
        assert_eq!(shortened("mlx5_comp0@pci:0000:17:00.0"), "mlx5_comp0@pci:00…");
        assert_eq!(shortened("ens5-Tx-Rx-0"), "ens5-Tx-Rx-0");
    }
}
