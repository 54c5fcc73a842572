//! The page of `measure memory`.

use evenkeel_measure::Samples;
use evenkeel_measure::meters::memory::{Bandwidth, Churn, Nodes, Report, WorkingSet};

use crate::show::blocks::Block;
use crate::show::units::{bytes, percent_to, quantity};

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Latency of a load")];
    blocks.push(Block::row("CPU", report.cpu.to_string()));
    let caches = report.caches.iter().map(|cache| format!("L{} {}", cache.level, bytes(cache.size_bytes)));
    blocks.push(Block::row("caches", caches.collect::<Vec<_>>().join(", ")));
    if let Some(setting) = &report.huge_pages_setting {
        blocks.push(Block::row("huge pages", format!("the system says {setting}; asked for by advice here")));
    }
    let header = ["working set", "small pages", "p99", "huge pages", "p99", "huge had", "huge/small"];
    blocks.push(Block::table(header, report.latency.iter().map(latency).collect()));
    if report.lost.count > 0 {
        let why = report.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Warning(format!("left out: {} working sets ({why})", report.lost.count)));
    }
    let last_cache = report.caches.last().map_or(0, |cache| cache.size_bytes);
    if report.latency.last().is_some_and(|set| (set.working_set_bytes as u64) < 2 * last_cache) {
        let words = format!(
            "The last cache is told to have {}: the largest working set may not have left it. A virtual machine shares it with others.",
            bytes(last_cache)
        );
        blocks.push(Block::Note(words));
    }
    blocks.extend(nodes(&report.nodes));
    blocks.push(Block::heading("Bandwidth"));
    let header = ["kind", "threads", "p50", "lowest", "highest"];
    blocks.push(Block::table(header, report.bandwidth.iter().map(bandwidth).collect()));
    blocks.push(Block::heading("Threads that allocate and free"));
    let header = ["memory", "threads", "records", "faults", "faults/record", "in the kernel"];
    blocks.push(Block::table(header, report.churn.iter().map(churn).collect()));
    blocks.extend(report.latency.last().map(|set| Block::Histogram(set.small.clone())));
    blocks
}

fn latency(set: &WorkingSet) -> [String; 7] {
    let share = set.huge_share.map_or("unknown".to_owned(), |share| percent_to(0, share));
    let ratio = set.huge_to_small().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let (small, small_p99) = p50_p99(&set.small);
    let (huge, huge_p99) = p50_p99(&set.huge);
    [bytes(set.working_set_bytes as u64), small, small_p99, huge, huge_p99, share, ratio]
}

fn nodes(nodes: &Nodes) -> Vec<Block> {
    let mut blocks = vec![Block::heading("NUMA nodes")];
    match nodes.with_memory {
        None => blocks.push(Block::Note("This kernel tells of no nodes.".to_owned())),
        Some(1) => blocks.push(Block::Note("One node has all the memory: there is only one pair.".to_owned())),
        Some(_) => {
            let row = |pair: &evenkeel_measure::meters::memory::Pair| {
                let distance = pair.distance.map_or("unknown".to_owned(), |distance| distance.to_string());
                let (p50, p99) = p50_p99(&pair.latency);
                [pair.cpu_node.to_string(), pair.memory_node.to_string(), distance, p50, p99]
            };
            let header = ["CPU of node", "memory of node", "distance", "p50", "p99"];
            blocks.push(Block::table(header, nodes.pairs.iter().map(row).collect()));
        }
    }
    if nodes.lost.count > 0 {
        let why = nodes.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Warning(format!("not measured: {} pairs ({why})", nodes.lost.count)));
    }
    blocks
}

fn bandwidth(seen: &Bandwidth) -> [String; 5] {
    let rate = |pick: fn(&evenkeel_stats::Summary) -> u64| of(&seen.bytes_per_s, pick);
    let [p50, low, high] = [rate(|summary| summary.p50), rate(|summary| summary.min), rate(|summary| summary.max)];
    [seen.kind.name().to_owned(), seen.threads.to_string(), p50, low, high]
}

fn churn(seen: &Churn) -> [String; 6] {
    [
        seen.way.name().to_owned(),
        seen.threads.to_string(),
        of(&seen.records_per_s, |summary| summary.p50),
        of(&seen.faults_per_s, |summary| summary.p50),
        format!("{:.1}", seen.faults_per_record),
        percent_to(0, seen.system_share),
    ]
}

fn p50_p99(samples: &Samples) -> (String, String) {
    (of(samples, |summary| summary.p50), of(samples, |summary| summary.p99))
}

fn of(samples: &Samples, pick: impl Fn(&evenkeel_stats::Summary) -> u64) -> String {
    samples.histogram.summary().map_or("none".to_owned(), |summary| quantity(pick(&summary), samples.unit))
}
