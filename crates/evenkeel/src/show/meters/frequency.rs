//! The page of `measure frequency`.

use evenkeel_measure::meters::frequency::{Clock, Counter, CpuClock, Report, SiblingPair, VectorEffect};
use evenkeel_measure::{Samples, Unit};

use crate::show::blocks::Block;
use crate::show::units::quantity;

/// More CPUs than these are in the JSON answer.
const ROWS_MAX: usize = 64;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Clock of each CPU")];
    blocks.push(Block::row("cycle counter", quantity(report.counter_khz, Unit::Khz)));
    let assumption = &report.assumption;
    let checked = match (assumption.multiply_to_add, assumption.holds) {
        (Some(ratio), Some(true)) => format!("; a multiplication takes {ratio:.2} of them, as it should (3)"),
        (Some(ratio), _) => {
            format!("; but a multiplication takes {ratio:.2} of them, and should take 3: the clocks are in doubt")
        }
        (None, _) => "; unchecked on this processor".to_owned(),
    };
    blocks.push(Block::row("rests on", format!("{}{checked}", assumption.says)));
    let header = ["CPU", "alone", "delivered", "all busy", "delivered", "APERF/MPERF", "perf cycles"];
    blocks.push(Block::table(header, report.cpus.iter().take(ROWS_MAX).map(cpu).collect()));
    if report.cpus.len() > ROWS_MAX {
        blocks.push(Block::Note(format!("{} more CPUs are in --json.", report.cpus.len() - ROWS_MAX)));
    }
    if let Some(clock) = report.cpus.first() {
        for counter in [&clock.alone.aperf_mperf, &clock.alone.perf_cycles] {
            if let Counter::Closed(why) = counter {
                blocks.push(Block::Note(format!("closed: {why}")));
            }
        }
    }
    if report.lost.count > 0 {
        let why = report.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Warning(format!("not measured: {} CPUs ({why})", report.lost.count)));
    }
    blocks.extend(siblings(report));
    blocks.push(Block::heading("After vector instructions"));
    match report.vectors.is_empty() {
        true => blocks.push(Block::Note("This processor has neither AVX2 nor AVX-512.".to_owned())),
        false => {
            let header = ["vectors", "clock before", "right after", "after/before"];
            blocks.push(Block::table(header, report.vectors.iter().map(vector).collect()));
        }
    }
    blocks.extend(report.cpus.first().map(|cpu| Block::Histogram(cpu.alone.clock_khz.clone())));
    blocks
}

fn siblings(report: &Report) -> Vec<Block> {
    let siblings = &report.siblings;
    let mut blocks = vec![Block::heading("Two CPUs busy at once")];
    if !siblings.told {
        let words =
            "The kernel tells of no two CPUs that share a core; a hypervisor may hide it, and the ratio shows it then.";
        blocks.push(Block::Note(words.to_owned()));
    }
    let header = ["CPU", "beside", "told siblings", "alone", "together", "ratio", "seem siblings"];
    blocks.push(Block::table(header, siblings.pairs.iter().map(pair).collect()));
    if siblings.lost.count > 0 {
        let why = siblings.lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Note(format!("not measured: {} pairs ({why})", siblings.lost.count)));
    }
    blocks
}

fn cpu(seen: &CpuClock) -> [String; 7] {
    let clock = |clock: &Clock| (median(&clock.clock_khz), quantity(clock.delivered_khz, Unit::Khz));
    let (alone, alone_delivered) = clock(&seen.alone);
    let (busy, busy_delivered) = seen.all_busy.as_ref().map_or(("none".to_owned(), "none".to_owned()), clock);
    let counter = |counter: &Counter| match counter {
        Counter::Khz(khz) => quantity(*khz, Unit::Khz),
        Counter::Closed(_) => "closed".to_owned(),
    };
    let (registers, cycles) = (counter(&seen.alone.aperf_mperf), counter(&seen.alone.perf_cycles));
    [seen.cpu.to_string(), alone, alone_delivered, busy, busy_delivered, registers, cycles]
}

fn pair(seen: &SiblingPair) -> [String; 7] {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    [
        seen.cpu.to_string(),
        seen.beside.to_string(),
        yes(seen.told_siblings),
        rate(&seen.alone_khz),
        rate(&seen.together_khz),
        seen.together_to_alone.map_or("unknown".to_owned(), |ratio| format!("{ratio:.2}")),
        seen.seem_siblings.map_or("unknown".to_owned(), yes),
    ]
}

fn vector(seen: &VectorEffect) -> [String; 4] {
    let ratio = seen.after_to_before.map_or("unknown".to_owned(), |ratio| format!("{ratio:.3}"));
    [seen.vector.clone(), median(&seen.before_khz), median(&seen.after_khz), ratio]
}

fn median(samples: &Samples) -> String {
    samples.histogram.summary().map_or("none".to_owned(), |summary| quantity(summary.p50, samples.unit))
}

/// Additions are no clock: thousands of them in a second.
fn rate(samples: &Samples) -> String {
    let median = samples.histogram.summary();
    median.map_or("none".to_owned(), |summary| quantity(summary.p50.saturating_mul(1000), Unit::PerS))
}
