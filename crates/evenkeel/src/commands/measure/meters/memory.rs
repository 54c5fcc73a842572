//! `evenkeel measure memory`.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::memory::{self, Allocation, Bandwidth, Churn, Nodes, Report, WorkingSet};
use evenkeel_measure::{Samples, Unit};

use crate::commands::measure::card::{CardTurn, line, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{bytes, percent_to, quantity, real_quantity};
use crate::view::Block;

/// Measure memory latency and bandwidth, by working set, page size and NUMA node
///
/// Latency: a chain of pointers in random order through every cache line of a working set, with small and huge pages.
/// Bandwidth: reading, writing and copying by one thread and by all CPUs.
/// Allocation: threads that allocate and free, with their page faults.
/// The meter uses at most half of the available memory and changes no setting.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure memory
  evenkeel measure memory --largest 64 --cpu 2")]
pub(crate) struct Args {
    /// The largest working set, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    largest: u32,
    /// The CPU for latency [default: the first allowed]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Meter for Args {
    const NAME: &'static str = "memory";
    const TITLE: &'static str = "Memory";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 4.0,
        run: |pace, watch| {
            let settings = memory::Settings {
                largest_bytes: 64 << 20,
                each_ns: pace.choose(100_000_000, 40_000_000),
                bandwidth_ns: pace.choose(200_000_000, 100_000_000),
                churn_ns: pace.choose(1_000_000_000, 500_000_000),
                cpu: None,
            };
            Ok(lines(&memory::run(&settings, watch)?))
        },
        finding: |lines| {
            let ps = value(lines, "memory_65536kib_small_ps");
            load(ps.map(|ps| ps / 1e3).or_else(|| value(lines, "memory_65536kib_small_ns")), 65_536 << 10)
        },
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let largest_bytes = (self.largest as usize) << 20;
        let settings = memory::Settings { largest_bytes, cpu: self.cpu, ..memory::Settings::default() };
        context.measure(|watch| memory::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        let Some(set) = report.latency.last() else { return Some(Finding::unknown("no working set was measured")) };
        let p50 = set.small.histogram.quantile(0.5).map(|value| value as f64);
        let ns = p50.map(|value| if set.small.unit == Unit::Ps { value / 1e3 } else { value });
        let finding = load(ns, set.working_set_bytes as u64);
        let last_cache = report.caches.last().map_or(0, |cache| cache.size_bytes);
        // If the working set may fit into the cache, a good result proves nothing, because every machine is fast then.
        let cached = (set.working_set_bytes as u64) < 2 * last_cache && finding.grade == Grade::Good;
        Some(if cached {
            Finding::unknown(format!("{}, but the last cache may hold it", finding.says))
        } else {
            finding
        })
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Load latency")];
        blocks.push(Block::row("CPU", report.cpu.to_string()));
        let caches = report.caches.iter().map(|cache| format!("L{} {}", cache.level, bytes(cache.size_bytes)));
        blocks.push(Block::row("caches", caches.collect::<Vec<_>>().join(", ")));
        if let Some(setting) = &report.huge_pages_setting {
            blocks.push(Block::row(
                "huge pages",
                format!("system setting {setting}; this meter requests them (madvise)"),
            ));
        }
        let header = ["working set", "small pages", "p99", "huge pages", "p99", "got huge", "huge/small"];
        blocks.push(Block::table(header, report.latency.iter().map(latency).collect()));
        if report.lost.count > 0 {
            let why = report.lost.why.as_deref().unwrap_or("unknown why");
            blocks.push(Block::Warning(format!("not measured: {} working sets ({why})", report.lost.count)));
        }
        let last_cache = report.caches.last().map_or(0, |cache| cache.size_bytes);
        if report.latency.last().is_some_and(|set| (set.working_set_bytes as u64) < 2 * last_cache) {
            let words = format!(
                "The last-level cache has {}, so it may hold the largest working set. Virtual machines share it with others.",
                bytes(last_cache)
            );
            blocks.push(Block::Note(words));
        }
        blocks.extend(nodes(&report.nodes));
        blocks.push(Block::heading("Bandwidth"));
        let header = ["kind", "threads", "p50", "lowest", "highest"];
        blocks.push(Block::table(header, report.bandwidth.iter().map(bandwidth).collect()));
        blocks.push(Block::heading("Allocation"));
        let header = ["memory", "threads", "records", "faults", "faults/record", "in the kernel"];
        blocks.push(Block::table(header, report.churn.iter().map(churn).collect()));
        blocks.extend(report.latency.last().map(|set| Block::Histogram(set.small.clone())));
        blocks
    }
}

fn load(p50_ns: Option<f64>, working_set_bytes: u64) -> Finding {
    let Some(ns) = p50_ns else { return Finding::unknown("no load was timed") };
    let (takes, set) = (real_quantity(ns, Unit::Ns), bytes(working_set_bytes));
    let says = format!(
        "a load from {set} takes {takes} (p50, small pages), compared with about 100 ns from the memory of a server"
    );
    Finding::new(Grade::of_low(ns, 120.0, 200.0), says)
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
        None => blocks.push(Block::Note("The kernel reports no nodes.".to_owned())),
        Some(1) => blocks.push(Block::Note("All memory is on one node.".to_owned())),
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
    let rate = |pick: fn(&evenkeel_stats::Summary) -> u64| quantile_text(&seen.bytes_per_s, pick);
    let [p50, low, high] = [rate(|summary| summary.p50), rate(|summary| summary.min), rate(|summary| summary.max)];
    [seen.kind.name().to_owned(), seen.threads.to_string(), p50, low, high]
}

fn churn(seen: &Churn) -> [String; 6] {
    [
        seen.way.name().to_owned(),
        seen.threads.to_string(),
        quantile_text(&seen.records_per_s, |summary| summary.p50),
        quantile_text(&seen.faults_per_s, |summary| summary.p50),
        format!("{:.1}", seen.faults_per_record),
        percent_to(0, seen.system_share),
    ]
}

fn p50_p99(samples: &Samples) -> (String, String) {
    (quantile_text(samples, |summary| summary.p50), quantile_text(samples, |summary| summary.p99))
}

fn quantile_text(samples: &Samples, pick: impl Fn(&evenkeel_stats::Summary) -> u64) -> String {
    samples.histogram.summary().map_or("none".to_owned(), |summary| quantity(pick(&summary), samples.unit))
}

/// The working sets with a line on the card. One fits into the first-level cache.
/// One fits into the caches that only one core uses. One is larger than these caches.
const WORKING_SETS_KIB: [usize; 3] = [16, 512, 65_536];

fn median(id: String, title: String, better: Better, samples: &Samples) -> Option<CardLine> {
    let summary = samples.histogram.summary()?;
    // A histogram can't store 0. It stores 1 instead, and counts the zeros separately.
    let is_none = samples.histogram.clamped() * 2 > summary.count && summary.p50 <= 1;
    Some(line(id, title, samples.unit, better, if is_none { 0.0 } else { summary.p50 as f64 }))
}

fn lines(report: &Report) -> Vec<CardLine> {
    let sets = report.latency.iter().filter(|set| WORKING_SETS_KIB.contains(&(set.working_set_bytes >> 10)));
    let latency = sets.flat_map(|set| {
        let kib = set.working_set_bytes >> 10;
        let unit = set.small.unit.name();
        [("small", &set.small), ("huge", &set.huge)].map(|(pages, samples)| {
            let title = format!("a load from {kib} KiB, {pages} pages");
            median(format!("memory_{kib}kib_{pages}_{unit}"), title, Better::Lower, samples)
        })
    });
    let all = report.bandwidth.iter().map(|one| one.threads).max().unwrap_or(0);
    let bandwidth = report.bandwidth.iter().filter(|one| one.threads == all).map(|one| {
        let name = one.kind.name();
        let title = format!("{name}, all CPUs");
        median(format!("memory_{name}_bytes_per_s"), title, Better::Higher, &one.bytes_per_s)
    });
    let threads = report.churn.iter().map(|one| one.threads).max().unwrap_or(0);
    let churn = report.churn.iter().filter(|one| one.threads == threads).flat_map(|one| {
        let name = one.way.name();
        let records = median(
            format!("churn_{name}_records_per_s"),
            format!("{name} memory: records"),
            Better::Higher,
            &one.records_per_s,
        );
        let faults = median(
            format!("churn_{name}_faults_per_s"),
            format!("{name} memory: page faults"),
            Better::Neither,
            &one.faults_per_s,
        );
        [records.map(|line| if one.way == Allocation::Fresh { with_talk_figure(line) } else { line }), faults]
    });
    latency.chain(bandwidth).chain(churn).flatten().collect()
}

fn with_talk_figure(line: CardLine) -> CardLine {
    with(
        line,
        "ebizzy: 12.4 k/s to 425 k/s",
        "AWS, Deep Dive on Amazon EC2 Instances (2016)",
        "ebizzy for 10 seconds on about 40 CPUs did 12,409 records/s with 1,418,204 page faults on RHEL 6, and 425,143 records/s with \
         14,109 on RHEL 7",
    )
}
