//! The page of `measure imbalance`.

use evenkeel_measure::Unit;
use evenkeel_measure::meters::imbalance::{BusyCpu, BusySource, BusyThread, Picture, Report, Shape};

use crate::show::blocks::Block;
use crate::show::units::{percent_to, quantity};

/// More CPUs than these are in the JSON answer; the busiest are shown.
const ROWS_MAX: usize = 32;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("CPUs over the whole time")];
    blocks.push(Block::row("looked", quantity(report.whole.length_ns, Unit::Ns)));
    blocks.push(Block::row("all in all", verdict(&report.whole)));
    blocks.push(Block::row("uneven", format!("{} of {} parts", report.uneven_parts, report.parts)));
    blocks.extend(table(&report.whole));
    blocks.extend(causes(&report.whole));
    if let Some(worst) = report.worst.as_ref().filter(|_| report.whole.shape != Shape::Uneven) {
        blocks.push(Block::heading("The part that was most uneven"));
        blocks.push(Block::row("length", quantity(worst.length_ns, Unit::Ns)));
        blocks.extend(table(worst));
        blocks.extend(causes(worst));
    }
    if report.lost.count > 0 {
        let why = report.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Warning(format!("not looked at: {} threads ({why})", report.lost.count)));
    }
    blocks
}

fn verdict(picture: &Picture) -> String {
    let full = picture.full_cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match picture.shape {
        Shape::Even => "no CPU is full".to_owned(),
        Shape::Uneven => format!("CPU {full} is full while others idle"),
        Shape::Full => format!("CPU {full} is full, and none of the others is idle"),
        Shape::Unknown => "the kernel's counts did not move".to_owned(),
    }
}

fn busiest(picture: &Picture) -> Vec<&BusyCpu> {
    let mut cpus: Vec<&BusyCpu> = picture.cpus.iter().collect();
    if cpus.len() > ROWS_MAX {
        cpus.sort_by(|one, other| other.busy_share.total_cmp(&one.busy_share));
        cpus.truncate(ROWS_MAX);
    }
    cpus
}

fn table(picture: &Picture) -> Vec<Block> {
    let row = |cpu: &&BusyCpu| {
        let shares =
            [cpu.busy_share, cpu.user_share, cpu.system_share, cpu.irq_share, cpu.softirq_share, cpu.steal_share];
        let [busy, user, system, irq, softirq, steal] = shares.map(|share| percent_to(0, share));
        [cpu.cpu.to_string(), busy, user, system, irq, softirq, steal]
    };
    let header = ["CPU", "busy", "user", "system", "irq", "softirq", "steal"];
    let mut blocks = vec![Block::table(header, busiest(picture).iter().map(row).collect())];
    if picture.cpus.len() > ROWS_MAX {
        blocks
            .push(Block::Note(format!("The {ROWS_MAX} busiest of {}; the others are in --json.", picture.cpus.len())));
    }
    blocks
}

/// What fills the CPUs that are full; of an even machine, what the busiest does.
fn causes(picture: &Picture) -> Vec<Block> {
    let busiest = picture.cpus.iter().max_by(|one, other| one.busy_share.total_cmp(&other.busy_share));
    let full = picture.cpus.iter().filter(|cpu| picture.full_cpus.contains(&cpu.cpu)).take(8);
    let shown: Vec<&BusyCpu> =
        if picture.full_cpus.is_empty() { busiest.into_iter().collect() } else { full.collect() };
    let mut blocks = Vec::new();
    for cpu in shown {
        let thread = |thread: &BusyThread| format!("{} ({}) {}", thread.name, thread.tid, percent_to(0, thread.share));
        let source = |source: &BusySource| format!("{} {:.0}/s", source.name, source.per_s);
        let join = |words: Vec<String>| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
        blocks.push(Block::row(&format!("CPU {} threads", cpu.cpu), join(cpu.threads.iter().map(thread).collect())));
        blocks.push(Block::row("interrupts", join(cpu.irqs.iter().map(source).collect())));
        blocks.push(Block::row("softirqs", join(cpu.softirqs.iter().map(source).collect())));
    }
    blocks
}
