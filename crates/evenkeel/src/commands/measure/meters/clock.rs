//! `evenkeel measure clock`.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::clock::{self, Across, ClockPath, Counter, Report, Source, Sources};
use evenkeel_measure::{Samples, Unit};

use crate::commands::guard::Guard;
use crate::commands::measure::card::{CardTurn, percentiles, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{quantity, real_quantity};
use crate::view::Block;

/// Measure the cost of reading the time, whether it enters the kernel, and whether the CPUs' clocks agree
///
/// The cycle counter times batches of calls, and the kinds of calls alternate.
/// To detect whether a call enters the kernel, the meter makes it under a seccomp filter that forbids
/// that system call. --each-source switches the machine to every available clock source, and restores the original one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure clock
  sudo evenkeel measure clock --each-source")]
pub(crate) struct Args {
    /// Number of calls of each kind
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    calls: u64,
    /// Measure every available clock source.
    /// Switches the whole machine to each source and restores the original; needs root
    #[arg(long)]
    each_source: bool,
    /// Compare the clocks of up to N CPUs with the clock of the first CPU
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=4096))]
    cpus: u16,
}

impl Meter for Args {
    const NAME: &'static str = "clock";
    const TITLE: &'static str = "Cost of reading the time";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 1.0,
        run: |pace, watch| {
            let settings =
                clock::Settings { calls: pace.choose(1_000_000, 300_000), sources: Sources::Current, cpus_max: 2 };
            Ok(lines(&clock::run(settings, watch)?))
        },
        finding: |lines| cost(value(lines, "clock_gettime_ps_p50")),
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let sources = match self.each_source {
            true => Sources::Each(Box::new(Guard::start()?)),
            false => Sources::Current,
        };
        let settings = clock::Settings { calls: self.calls, sources, cpus_max: self.cpus.into() };
        context.measure(|watch| clock::run(settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        let source = report.sources.first()?;
        let asked = source.costs.iter().find(|samples| call(samples) == "clock_gettime");
        let p50_ps = asked.and_then(|samples| samples.histogram.quantile(0.5)).map(|ps| ps as f64);
        Some(if report.across.apart.iter().any(|apart| apart.steps_back > 0) {
            Finding::new(Grade::Poor, "the clocks of two CPUs disagree, so times from different CPUs can't be compared")
        } else {
            cost(p50_ps)
        })
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Cost of reading the time")];
        blocks.push(Block::row(
            "clock source",
            report.source.as_deref().unwrap_or("unknown: the kernel does not report it"),
        ));
        if !report.offered.is_empty() {
            blocks.push(Block::row("available", report.offered.join(" ")));
        }
        blocks.push(Block::row("cycle counter", real_quantity(report.counter_hz / 1e3, Unit::Khz)));
        blocks.extend(report.disturbed.iter().cloned().map(Block::Warning));
        for source in &report.sources {
            blocks.extend(of_source(source));
        }
        if report.sources.len() > 1 {
            blocks.extend(ratios(report));
        } else if report.offered.len() > 1 {
            let words = "To measure the other clock sources too, use --each-source: it switches the whole machine to each for a while, and needs root.";
            blocks.push(Block::Note(words.to_owned()));
        }
        for skipped in &report.skipped {
            blocks.push(Block::Warning(format!("not measured: {}: {}", skipped.what, skipped.why)));
        }
        blocks.extend(across(&report.across));
        // The page shows the histograms of `clock_gettime`. Only the JSON answer has the histograms of other calls.
        let asked =
            report.sources.iter().flat_map(|source| &source.costs).filter(|samples| call(samples) == "clock_gettime");
        blocks.extend(asked.cloned().map(Block::Histogram));
        blocks
    }
}

/// The limits are the published costs of a fast and of a slow clock source.
fn cost(p50_ps: Option<f64>) -> Finding {
    let Some(ps) = p50_ps else { return Finding::unknown("the cost of clock_gettime was not measured") };
    let cost = real_quantity(ps, Unit::Ps);
    let says = format!(
        "reading the time takes {cost} (clock_gettime, p50), compared with 20 ns under tsc and 120 ns under xen (AWS, 2016)"
    );
    Finding::new(Grade::of_low(ps, 60e3, 119e3), says)
}

fn of_source(source: &Source) -> Vec<Block> {
    let name = source.source.as_deref().unwrap_or("unknown");
    let rows = source.costs.iter().filter_map(|samples| {
        let summary = samples.histogram.summary()?;
        let at = |value| quantity(value, Unit::Ps);
        Some([
            call(samples).to_owned(),
            at(summary.p50),
            at(summary.min),
            at(summary.p99),
            answered(source, call(samples)),
        ])
    });
    let mut blocks = vec![
        Block::heading(format!("One call under clock source {name}")),
        Block::table(["call", "p50", "min", "p99", "answered"], rows.collect()),
    ];
    for (call, way) in [("clock_gettime", &source.clock_gettime), ("gettimeofday", &source.gettimeofday)] {
        match way {
            ClockPath::SystemCall => {
                blocks.push(Block::Warning(format!(
                    "{call} enters the kernel each time, because the vDSO can't read {name}."
                )));
            }
            ClockPath::Unknown(why) => {
                blocks.push(Block::Warning(format!("whether {call} enters the kernel is unknown: {why}")));
            }
            ClockPath::UserSpace => {}
        }
    }
    blocks
}

fn call(samples: &Samples) -> &str {
    samples.conditions.get("call").map_or("", String::as_str)
}

fn answered(source: &Source, call: &str) -> String {
    let way = match call {
        "clock_gettime" => &source.clock_gettime,
        "gettimeofday" => &source.gettimeofday,
        "rdtsc" | "rdtscp" => return "by the processor".to_owned(),
        _ => return "by the kernel".to_owned(),
    };
    match way {
        ClockPath::UserSpace => "in the vDSO".to_owned(),
        ClockPath::SystemCall => "by the kernel".to_owned(),
        ClockPath::Unknown(_) => "unknown".to_owned(),
    }
}

fn ratios(report: &Report) -> Vec<Block> {
    let rows = report.sources.iter().map(|source| {
        let unknown = || "unknown".to_owned();
        [
            source.source.clone().unwrap_or_else(unknown),
            source.loop_100m_s.map_or_else(unknown, |s| format!("{s:.2} s")),
            source.loop_ratio.map_or_else(unknown, |ratio| format!("{ratio:.2}")),
        ]
    });
    vec![
        Block::heading("Loop of 100 million gettimeofday calls"),
        Block::table(["clock source", "duration", "ratio"], rows.collect()),
        Block::Note(
            "Computed from the medians above. AWS published 12 s under xen and 2 s under tsc (2016).".to_owned(),
        ),
    ]
}

fn across(across: &Across) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Clocks of different CPUs")];
    if let Some(first) = across.first_cpu.filter(|_| !across.apart.is_empty()) {
        let rows = across.apart.iter().map(|apart| {
            let clock = match apart.clock {
                Counter::CycleCounter => "cycle counter",
                Counter::MonotonicClock => "monotonic clock",
            };
            let offset = match apart.offset_ns {
                Some(ns) => format!("{ns:.0} ns +- {:.0}", apart.bound_ns),
                None => "contradicts itself".to_owned(),
            };
            [apart.cpu.to_string(), clock.to_owned(), offset, apart.steps_back.to_string(), apart.throws.to_string()]
        });
        blocks.push(Block::table(
            ["CPU", "clock", &format!("offset from CPU {first}"), "steps back", "exchanges"],
            rows.collect(),
        ));
        if across.apart.iter().any(|apart| apart.steps_back > 0) {
            let words = "The clocks of two CPUs disagree: don't compare times from different CPUs.";
            blocks.push(Block::Warning(words.to_owned()));
        }
    }
    for skipped in &across.skipped {
        blocks.push(Block::Note(format!("not compared: {}: {}", skipped.what, skipped.why)));
    }
    blocks
}

/// Lines with every value of `clock_gettime` and `gettimeofday`, and with only the median of other calls.
fn lines(report: &Report) -> Vec<CardLine> {
    let costs = report.sources.first().map(|source| source.costs.as_slice()).unwrap_or_default();
    let mut lines = Vec::new();
    for samples in costs {
        let call = samples.conditions.get("call").map_or("call", String::as_str);
        let id = format!("{}_ps", call.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        let Some([p50, p99]) = percentiles(&id, &call.replace('_', " "), Better::Lower, samples) else { continue };
        match call {
            "gettimeofday" => lines.extend([with_paper_figure(p50), p99]),
            "clock_gettime" => lines.extend([p50, p99]),
            _ => lines.push(p50),
        }
    }
    lines
}

fn with_paper_figure(line: CardLine) -> CardLine {
    with(
        line,
        "20 ns (tsc), 120 ns (xen)",
        "AWS, Deep Dive on Amazon EC2 Instances (2016)",
        "100 million calls of gettimeofday with a little arithmetic took 2.00 seconds from tsc and 12.00 from xen",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_costs_are_the_limits() {
        assert_eq!(cost(Some(25e3)).grade, Grade::Good);
        assert_eq!(cost(Some(120e3)).grade, Grade::Poor, "as slow as xen");
        assert_eq!(cost(None).grade, Grade::Unknown);
        let words = "reading the time takes 25.0 ns (clock_gettime, p50), compared with 20 ns under tsc and 120 ns under xen (AWS, 2016)";
        assert_eq!(cost(Some(25e3)).says, words);
    }
}
