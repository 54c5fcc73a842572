//! `evenkeel measure imbalance`.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::imbalance::{self, BusyCpu, BusySource, BusyThread, Picture, Report, Shape};

use crate::commands::measure::card::{CardTurn, PPM, line, value};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{part, percent_to, quantity};
use crate::view::Block;

/// The maximum number of CPUs on the page. The page shows the busiest CPUs; the JSON answer has all CPUs.
const ROWS_MAX: usize = 32;

/// Find full CPUs while others idle, with the threads and interrupts that fill them
///
/// Reads the kernel's counts for each CPU and thread at the start and after each second. 1 is the whole of one CPU.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure imbalance --seconds 30")]
pub(crate) struct Args {
    /// Duration, such as 5 or 90s
    #[arg(long, value_name = "TIME", default_value_t = 5, value_parser = crate::times::whole_seconds(1..=86_400))]
    seconds: u64,
    /// Length of the intervals that the meter judges separately, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = crate::times::whole_ms(100..=60_000))]
    part: u64,
}

impl Meter for Args {
    const NAME: &'static str = "imbalance";
    const TITLE: &'static str = "Balance of the CPUs";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 1.0,
        run: |_, watch| {
            let settings = imbalance::Settings { for_ns: 1_000_000_000, part_ns: 250_000_000 };
            Ok(lines(&imbalance::run(&settings, watch)?))
        },
        finding: |lines| uneven(value(lines, "uneven_ppm").map(|ppm| ppm / PPM)),
    });
    const NEEDS_IDLE: bool = false;
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let settings = imbalance::Settings { for_ns: self.seconds * 1_000_000_000, part_ns: self.part * 1_000_000 };
        context.measure(|watch| imbalance::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        Some(match report.whole.shape {
            Shape::Unknown => Finding::unknown("the kernel's counts did not move"),
            Shape::Full => {
                Finding::new(Grade::Poor, "a CPU is full and none is idle: the machine has too few CPUs for its work")
            }
            Shape::Uneven => Finding::new(Grade::Poor, verdict(&report.whole)),
            Shape::Even => uneven((report.parts > 0).then(|| part(report.uneven_parts, report.parts))),
        })
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("CPUs")];
        blocks.push(Block::row("duration", quantity(report.whole.length_ns, Unit::Ns)));
        blocks.push(Block::row("result", verdict(&report.whole)));
        blocks.push(Block::row("uneven", format!("{} of {} intervals", report.uneven_parts, report.parts)));
        blocks.extend(table(&report.whole));
        blocks.extend(causes(&report.whole));
        if let Some(worst) = report.worst.as_ref().filter(|_| report.whole.shape != Shape::Uneven) {
            blocks.push(Block::heading("The most uneven interval"));
            blocks.push(Block::row("length", quantity(worst.length_ns, Unit::Ns)));
            blocks.extend(table(worst));
            blocks.extend(causes(worst));
        }
        if report.lost.count > 0 {
            let why = report.lost.why.as_deref().unwrap_or("unknown why");
            blocks.push(Block::Warning(format!("not watched: {} threads ({why})", report.lost.count)));
        }
        blocks
    }
}

fn uneven(share: Option<f64>) -> Finding {
    let Some(share) = share else { return Finding::unknown("nothing was watched") };
    let says = format!(
        "in {} of the time one CPU was full while another idled; a balanced machine has none",
        percent_to(0, share)
    );
    Finding::new(Grade::of_low(share, 0.0, 0.5), says)
}

fn verdict(picture: &Picture) -> String {
    let full = picture.full_cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let are = if picture.full_cpus.len() == 1 { "is" } else { "are" };
    match picture.shape {
        Shape::Even => "no CPU is full".to_owned(),
        Shape::Uneven => format!("CPU {full} {are} full while others idle"),
        Shape::Full => format!("CPU {full} {are} full, and no other CPU is idle"),
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

/// The threads and interrupts of the full CPUs, or of the busiest CPU if no CPU is full.
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

fn lines(report: &Report) -> Vec<CardLine> {
    if report.parts == 0 {
        return Vec::new();
    }
    let share = report.uneven_parts as f64 / report.parts as f64 * PPM;
    vec![line("uneven_ppm", "one CPU full, another idle", Unit::Ppm, Better::Lower, share)]
}
