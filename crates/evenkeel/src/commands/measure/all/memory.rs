//! Memory, on the card: latency near and far, bandwidth, and what allocating and freeing costs.

use evenkeel_measure::Samples;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::memory::{self, Report, Way};

use super::entry::{Entry, Pace, line, with};

/// Working sets that have a line: one that the nearest cache holds, one that a CPU's own holds, one that none holds for itself.
const WORKING_SETS_KIB: [usize; 3] = [16, 512, 65_536];

pub(super) const ENTRY: Entry = Entry {
    name: "memory",
    seconds: 4.0,
    turn: |pace: Pace, watch| {
        let settings = memory::Settings {
            largest_bytes: 64 << 20,
            each_ns: pace.of(100_000_000, 40_000_000),
            bandwidth_ns: pace.of(200_000_000, 100_000_000),
            churn_ns: pace.of(1_000_000_000, 500_000_000),
            cpu: None,
        };
        Ok(lines(&memory::run(&settings, watch)?))
    },
};

fn median(id: String, title: String, better: Better, samples: &Samples) -> Option<CardLine> {
    let summary = samples.histogram.summary()?;
    // A histogram has no 0: what was recorded as one stands there as 1, and is counted apart.
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
        [records.map(|line| if one.way == Way::Fresh { beside_the_talk(line) } else { line }), faults]
    });
    latency.chain(bandwidth).chain(churn).flatten().collect()
}

fn beside_the_talk(line: CardLine) -> CardLine {
    with(
        line,
        "ebizzy: 12.4 k/s to 425 k/s",
        "AWS, Deep Dive on Amazon EC2 Instances (2016)",
        "ebizzy for 10 seconds on about 40 CPUs did 12,409 records/s with 1,418,204 page faults on RHEL 6, and 425,143 records/s with \
         14,109 on RHEL 7",
    )
}
