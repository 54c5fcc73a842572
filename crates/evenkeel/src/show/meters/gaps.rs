//! The page of `measure gaps`.

use evenkeel_measure::Unit;
use evenkeel_measure::meters::gaps::{Class, Cpu, Mode, Report, Sum};

use crate::show::blocks::{Block, Timeline, quantity};

/// So many takers and sources of interrupts are shown of each CPU; JSON has all.
const SHOWN: usize = 5;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Time that was missing")];
    blocks.push(Block::row("watched", how(report)));
    blocks.push(Block::row("cost", cost(report)));
    blocks.push(Block::table(["CPU", "gaps", "a second", "longest", "of the time"], cpu_rows(report)));
    blocks.push(Block::heading("Who took it"));
    let total_ns = report.all.total_ns.max(1) as f64;
    let mut causes: Vec<(&&str, &Sum)> = report.causes.iter().collect();
    causes.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
    let rows = causes.into_iter().map(|(cause, sum)| {
        let share = format!("{:.1} %", sum.total_ns as f64 / total_ns * 100.0);
        [(*cause).to_owned(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns), share]
    });
    blocks.push(Block::table(["cause", "gaps", "in all", "longest", "of what is missing"], rows.collect()));
    for cpu in &report.cpus {
        blocks.extend(of_cpu(cpu, report));
    }
    if report.lost.count > 0 {
        let why = report.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Note(format!("Not listed: {} ({why}).", report.lost.count)));
    }
    blocks.extend(report.doubts.iter().cloned().map(Block::Warning));
    blocks
}

fn how(report: &Report) -> String {
    let mode = match (report.mode, report.class) {
        (Mode::Spin, Class::Ordinary) => "all the time, as an ordinary thread",
        (Mode::Spin, Class::Fifo) => "all the time, in real time",
        (Mode::Sample, _) => "in samples",
    };
    format!("{}, {mode}, gaps from {} on", time(report.length_ns), time(report.threshold_ns))
}

fn cost(report: &Report) -> String {
    let blind_ns: u64 = report.cpus.iter().map(|cpu| cpu.blind_ns).sum();
    let watched_ns: u64 = report.cpus.iter().map(|cpu| cpu.watched_ns).sum();
    let blind = blind_ns as f64 / (blind_ns + watched_ns).max(1) as f64 * 100.0;
    format!("{:.2} % of one CPU; did not look for {blind:.3} % of the time", report.observer_cpu_share * 100.0)
}

fn cpu_rows(report: &Report) -> Vec<[String; 5]> {
    let row = |name: String, sum: &Sum, watched_ns: u64| {
        let a_second = sum.count as f64 / (watched_ns.max(1) as f64 / 1e9);
        let share = sum.total_ns as f64 / watched_ns.max(1) as f64 * 100.0;
        [name, sum.count.to_string(), format!("{a_second:.0}"), time(sum.longest_ns), format!("{share:.3} %")]
    };
    let mut rows: Vec<_> = report.cpus.iter().map(|cpu| row(cpu.cpu.to_string(), &cpu.all, cpu.watched_ns)).collect();
    if report.cpus.len() > 1 {
        rows.push(row("all".to_owned(), &report.all, report.cpus.iter().map(|cpu| cpu.watched_ns).sum()));
    }
    rows
}

fn of_cpu(cpu: &Cpu, report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading(format!("CPU {}", cpu.cpu))];
    let mut takers: Vec<_> = cpu.takers.iter().collect();
    takers.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total_ns));
    let rows = takers.into_iter().take(SHOWN);
    let rows = rows.map(|(name, sum)| [name.clone(), sum.count.to_string(), time(sum.total_ns), time(sum.longest_ns)]);
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        blocks.push(Block::table(["ran instead", "times", "in all", "longest"], rows));
    }
    if !cpu.interrupts.is_empty() {
        let seconds = (cpu.watched_ns.max(1) as f64) / 1e9;
        let most = cpu.interrupts.iter().take(SHOWN);
        let most = most.map(|source| format!("{} {:.0}/s", source.name, source.count as f64 / seconds));
        blocks.push(Block::row("interrupts", most.collect::<Vec<_>>().join(", ")));
    }
    if cpu.all.count > 0 {
        blocks.push(Block::Histogram(cpu.lengths.clone()));
        let since = |at_ns: u64| at_ns.saturating_sub(report.start_ns);
        let points = cpu.gaps.iter().map(|gap| (since(gap.start_ns), gap.length_ns)).collect();
        let title = "gaps over time, by their length".to_owned();
        blocks.push(Block::Timeline(Timeline { title, total_ns: report.length_ns, unit: Unit::Ns, points }));
    }
    blocks.extend(cpu.wake_late.clone().filter(|late| late.histogram.count() > 0).map(Block::Histogram));
    blocks
}

fn time(ns: u64) -> String {
    quantity(ns, Unit::Ns)
}
