//! What asking for the time costs, on the card.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::clock::{self, Report, Sources};

use super::entry::{Entry, Pace, percentiles, with};

pub(super) const ENTRY: Entry = Entry {
    name: "clock",
    seconds: 1.0,
    turn: |pace: Pace, watch| {
        let settings = clock::Settings { calls: pace.of(1_000_000, 300_000), sources: Sources::Current, cpus_max: 2 };
        Ok(lines(&clock::run(settings, watch)?))
    },
};

/// Those of `clock_gettime` and `gettimeofday` in full, of the others the median.
fn lines(report: &Report) -> Vec<CardLine> {
    let costs = report.sources.first().map(|source| source.costs.as_slice()).unwrap_or_default();
    let mut lines = Vec::new();
    for samples in costs {
        let call = samples.conditions.get("call").map_or("call", String::as_str);
        let id = format!("{}_ps", call.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        let Some([p50, p99]) = percentiles(&id, &call.replace('_', " "), Better::Lower, samples) else { continue };
        match call {
            "gettimeofday" => lines.extend([beside_the_paper(p50), p99]),
            "clock_gettime" => lines.extend([p50, p99]),
            _ => lines.push(p50),
        }
    }
    lines
}

fn beside_the_paper(line: CardLine) -> CardLine {
    with(
        line,
        "20 ns (tsc), 120 ns (xen)",
        "AWS, Deep Dive on Amazon EC2 Instances (2016)",
        "100 million calls of gettimeofday with a little arithmetic took 2.00 seconds from tsc and 12.00 from xen",
    )
}
