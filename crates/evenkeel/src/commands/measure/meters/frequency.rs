//! `evenkeel measure frequency`.

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::frequency::{self, Clock, Counter, CpuClock, Report, SiblingPair, VectorEffect};
use evenkeel_measure::{Samples, Unit};
use evenkeel_sys::thread;

use crate::commands::measure::card::{CardTurn, PPM, line, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{quantity, real_quantity};
use crate::view::Block;

/// The maximum number of CPUs on the page. The JSON answer has all CPUs.
const ROWS_MAX: usize = 64;
/// The total time for all CPUs, so that the meter takes the same time on large and small machines.
const ALONE_NS: u64 = 1_000_000_000;

/// Measure each CPU's clock: alone, with all CPUs busy, with a busy sibling, and after vector instructions
///
/// The meter times a chain of instructions of known length, because most guests can't read the processor's counters.
/// If it is allowed to, it also reads the counters.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure frequency
  evenkeel measure frequency --each 1000 --pairs 64")]
pub(crate) struct Args {
    /// Duration of each measurement on each CPU, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = crate::times::whole_ms(20..=60_000))]
    each: u64,
    /// Limit of CPU pairs to test against each other
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=4096))]
    pairs: u16,
}

impl Meter for Args {
    const NAME: &'static str = "frequency";
    const TITLE: &'static str = "Clock of the CPUs";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.0,
        run: |pace, watch| {
            let cpus = thread::affinity().map_or(1, |cpus| cpus.iter().count().max(1)) as u64;
            let each_ns = (pace.choose(ALONE_NS, ALONE_NS / 2) / cpus).clamp(5_000_000, 200_000_000);
            let settings = frequency::Settings { each_ns, pairs_max: 2 };
            Ok(lines(&frequency::run(&settings, watch)?))
        },
        finding: |lines| clocks(value(lines, "clock_alone_khz"), value(lines, "clock_all_busy_khz")),
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let settings = frequency::Settings { each_ns: self.each * 1_000_000, pairs_max: self.pairs.into() };
        context.measure(|watch| frequency::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        if report.assumption.holds == Some(false) {
            return Some(Finding::unknown("additions do not take one cycle here, so the clocks may be wrong"));
        }
        let slowest = |of: fn(&CpuClock) -> Option<&Clock>| {
            let clocks = report.cpus.iter().filter_map(of);
            clocks.filter_map(|clock| clock.clock_khz.histogram.quantile(0.5)).min().map(|khz| khz as f64)
        };
        Some(clocks(slowest(|cpu| Some(&cpu.alone)), slowest(|cpu| cpu.all_busy.as_ref())))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Clock of each CPU")];
        blocks.push(Block::row("cycle counter", quantity(report.counter_khz, Unit::Khz)));
        let assumption = &report.assumption;
        let checked = match (assumption.multiply_to_add, assumption.holds) {
            (Some(ratio), Some(true)) => format!("; a multiplication takes {ratio:.2} cycles, as it should (3)"),
            (Some(ratio), _) => {
                format!("; but a multiplication takes {ratio:.2} cycles and should take 3, so the clocks may be wrong")
            }
            (None, _) => "; not checked on this processor".to_owned(),
        };
        blocks.push(Block::row("assumption", format!("{}{checked}", assumption.says)));
        let header = ["CPU", "alone", "delivered", "all busy", "delivered", "APERF/MPERF", "perf cycles"];
        blocks.push(Block::table(header, report.cpus.iter().take(ROWS_MAX).map(cpu).collect()));
        if report.cpus.len() > ROWS_MAX {
            blocks.push(Block::Note(format!("{} more CPUs are in --json.", report.cpus.len() - ROWS_MAX)));
        }
        if let Some(clock) = report.cpus.first() {
            for counter in [&clock.alone.aperf_mperf, &clock.alone.perf_cycles] {
                if let Counter::Closed(why) = counter {
                    blocks.push(Block::Note(format!("no access: {why}")));
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
                let header = ["vectors", "clock before", "clock after", "after/before"];
                blocks.push(Block::table(header, report.vectors.iter().map(vector).collect()));
            }
        }
        blocks.extend(report.cpus.first().map(|cpu| Block::Histogram(cpu.alone.clock_khz.clone())));
        blocks
    }
}

fn clocks(alone_khz: Option<f64>, busy_khz: Option<f64>) -> Finding {
    let Some(alone) = alone_khz else { return Finding::unknown("no CPU was measured") };
    let shown = |khz| real_quantity(khz, Unit::Khz);
    let busy = busy_khz.map(|khz| format!(" and at {} with all CPUs busy", shown(khz))).unwrap_or_default();
    let says = format!(
        "the slowest CPU runs at {} alone{busy}, compared with 3.5 and 3.2 GHz of a c4.8xlarge (AWS, 2017)",
        shown(alone)
    );
    Finding::new(Grade::of_low(-busy_khz.unwrap_or(alone), -3.2e6, -2.5e6), says)
}

fn siblings(report: &Report) -> Vec<Block> {
    let siblings = &report.siblings;
    let mut blocks = vec![Block::heading("Two CPUs busy at once")];
    if !siblings.are_reported {
        let words =
            "The kernel reports no two CPUs that share a core. A hypervisor may hide it; then the ratio shows it.";
        blocks.push(Block::Note(words.to_owned()));
    }
    let header = ["CPU", "other CPU", "reported siblings", "alone", "together", "ratio", "seem siblings"];
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
        Counter::Closed(_) => "no access".to_owned(),
    };
    let (registers, cycles) = (counter(&seen.alone.aperf_mperf), counter(&seen.alone.perf_cycles));
    [seen.cpu.to_string(), alone, alone_delivered, busy, busy_delivered, registers, cycles]
}

fn pair(seen: &SiblingPair) -> [String; 7] {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    [
        seen.cpu.to_string(),
        seen.other_cpu.to_string(),
        yes(seen.reported_siblings),
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

/// Additions per second, in thousands, as text. The histogram has kHz.
fn rate(samples: &Samples) -> String {
    let median = samples.histogram.summary();
    median.map_or("none".to_owned(), |summary| quantity(summary.p50.saturating_mul(1000), Unit::PerS))
}

fn lines(report: &Report) -> Vec<CardLine> {
    let slowest = |of: &dyn Fn(&frequency::CpuClock) -> Option<u64>| report.cpus.iter().filter_map(of).min();
    let p50 = |clock: &frequency::Clock| Some(clock.clock_khz.histogram.summary()?.p50);
    let alone = slowest(&|cpu| p50(&cpu.alone)).map(|khz| {
        let line = line("clock_alone_khz", "one CPU busy", Unit::Khz, Better::Higher, khz as f64);
        with_paper_figure(line, "3.5 GHz (c4.8xlarge)")
    });
    let all = slowest(&|cpu| p50(cpu.all_busy.as_ref()?)).map(|khz| {
        let line = line("clock_all_busy_khz", "all CPUs busy", Unit::Khz, Better::Higher, khz as f64);
        with_paper_figure(line, "3.2 GHz (c4.8xlarge)")
    });
    let pairs = report.siblings.pairs.iter().filter_map(|pair| pair.together_to_alone);
    let together = pairs.min_by(f64::total_cmp).map(|ratio| {
        line("beside_neighbour_ppm", "speed with a busy neighbour CPU", Unit::Ppm, Better::Higher, ratio * PPM)
    });
    [alone, all, together].into_iter().flatten().collect()
}

fn with_paper_figure(line: CardLine, figure: &str) -> CardLine {
    with(
        line,
        figure,
        "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
        "a c4.8xlarge runs at up to 3.5 GHz with two CPUs busy, and at 3.2 GHz with all 36, or with none allowed below C1",
    )
}
