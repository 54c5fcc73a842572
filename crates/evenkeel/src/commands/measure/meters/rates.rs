//! `evenkeel measure rates`.

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::rates::{
    self, CpuShares, Group, Level, Measured, Memory, Pages, Pressure, ProcessMemory, ProcessRates, Report, Shares,
    Spread, Stretch, System, Target,
};

use crate::commands::measure::card::{CardTurn, PPM, line, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{Finding, Grade};
use crate::show::units::{bytes, part, percent, quantity, real_quantity};
use crate::view::{Block, Timeline};

/// The maximum number of CPUs on the page. The page shows the CPUs that lost the most time.
const CPUS_SHOWN: usize = 16;
/// If a timeline has fewer readings than this number of columns, the page shows each reading as a point.
const COLUMNS: u64 = 144;
/// If the kernel counted less than this share of a CPU's time, the CPU was offline for a while, or the machine paused.
const COUNTED_MIN: f64 = 0.9;

/// Report the kernel's counters as rates: steal, pressure, throttling, faults, switches
///
/// Covers the machine, a control group and a process.
/// The meter traces nothing: it reads /proc and the files of control groups at regular intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure rates
  evenkeel measure rates --pid 1234 --seconds 60 --every 5000")]
pub(crate) struct Args {
    /// Also read this process and its control group
    #[arg(long, value_name = "PID", conflicts_with = "cgroup", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Also read this control group, by its name in /proc/PID/cgroup or its directory [default:
    /// the group of the process, or of evenkeel]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Duration
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = crate::times::whole_seconds(1..=86_400))]
    seconds: u64,
    /// Interval between readings in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = crate::times::whole_ms(50..=3_600_000))]
    every: u64,
    /// Clear the referenced bits of the process first, to count the pages that it uses.
    /// This slows its next use of each page slightly
    #[arg(long, requires = "pid")]
    clear_referenced: bool,
}

impl Meter for Args {
    const NAME: &'static str = "rates";
    const TITLE: &'static str = "Counters of the kernel";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 2.0,
        run: |pace, watch| {
            let for_ms = pace.choose(2000, 1000);
            let settings =
                rates::Settings { target: Target::Machine, for_ms, every_ms: for_ms, pages: Pages::AsTheyAre };
            Ok(lines(&rates::run(&settings, watch)?))
        },
        finding: |lines| {
            let share = |id| value(lines, id).map(|ppm| ppm / PPM);
            counted(share("steal_ppm"), share("cpu_pressure_ppm"), value(lines, "major_faults_per_s"))
        },
    });
    const NEEDS_IDLE: bool = false;
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let settings = rates::Settings {
            target: match (self.pid, &self.cgroup) {
                (Some(pid), _) => Target::Process(pid),
                (None, Some(group)) => Target::Group(group.clone()),
                (None, None) => Target::Machine,
            },
            for_ms: self.seconds * 1000,
            every_ms: self.every,
            pages: if self.clear_referenced { Pages::ClearReferenced } else { Pages::AsTheyAre },
        };
        context.measure(|watch| rates::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        let system = &report.rates.system;
        let steal = system.all.known().map(|all| all.steal);
        let waits = system.pressure.first().and_then(|pressure| pressure.some.known()).copied();
        let stopped = report
            .rates
            .group
            .levels
            .known()
            .into_iter()
            .flatten()
            .filter_map(|level| Some((*level.throttled_periods.known()?, *level.periods.known()?)));
        // If several limits apply, use the one with the most throttled periods.
        let stopped = stopped.filter(|(_, periods)| *periods > 0).max_by_key(|(throttled, _)| *throttled);
        Some(match stopped {
            Some((throttled, periods)) if throttled > 0 => {
                let says = format!(
                    "the CPU limit stopped this control group in {throttled} of {periods} periods; it should never do so"
                );
                Finding::new(Grade::of_low(part(throttled, periods), 0.0, 0.01), says)
            }
            _ => counted(steal, waits, system.major_faults_per_s.known().copied()),
        })
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = system(&report.rates.system, report.elapsed_ns);
        blocks.extend(group(&report.rates.group));
        match &report.rates.process {
            Some(Measured::Known(process)) => blocks.extend(of_process(process)),
            Some(Measured::Unknown(unknown)) => blocks.push(Block::Warning(format!("The process: {}.", unknown.why))),
            None => {}
        }
        blocks.extend(spread(&report.spread, report.elapsed_ns));
        let each = quantity(report.cost.cpu_ns_per_reading, Unit::Ns);
        let cost =
            format!("{} of one CPU: {each} for each of {} readings", percent(report.cost.cpu_share), report.readings);
        blocks.push(Block::row("cost", cost));
        if let Some(why) = &report.lost.why {
            blocks.push(Block::Warning(format!("lost: {} ({why})", report.lost.count)));
        }
        blocks
    }
}

fn counted(steal: Option<f64>, waits: Option<f64>, faults_per_s: Option<f64>) -> Finding {
    let Some(stolen) = steal else { return Finding::unknown("the kernel does not report the CPU time") };
    let shown = |share: Option<f64>| share.map_or_else(|| "an unknown part".to_owned(), percent);
    let faults = faults_per_s.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate:.1}/s"));
    let says = format!(
        "steal is {}, threads wait for a CPU in {} of the time, and page faults that wait for a disk are {faults}; a quiet machine has \
         less than 1 %, 5 % and 1/s",
        percent(stolen),
        shown(waits)
    );
    let grades = [
        Grade::of_low(stolen, 0.01, 0.05),
        waits.map_or(Grade::Good, |share| Grade::of_low(share, 0.05, 0.2)),
        faults_per_s.map_or(Grade::Good, |rate| Grade::of_low(rate, 1.0, 10.0)),
    ];
    Finding::new(grades.into_iter().min().unwrap_or(Grade::Unknown), says)
}

fn system(system: &System, elapsed_ns: u64) -> Vec<Block> {
    let mut blocks = vec![Block::heading(format!("The machine, for {}", quantity(elapsed_ns, Unit::Ns)))];
    match &system.all {
        Measured::Known(all) => blocks.push(cpus(all, &system.cpus)),
        Measured::Unknown(unknown) => blocks.push(Block::row("CPUs", format!("unknown: {}", unknown.why))),
    }
    blocks.extend(away(&system.cpus));
    let rows = [
        ("context switches", per_second(&system.context_switches_per_s)),
        ("interrupts", per_second(&system.interrupts_per_s)),
        ("softirqs", per_second(&system.softirqs_per_s)),
        ("new threads", per_second(&system.forks_per_s)),
        ("page faults", format!("{} minor", per_second(&system.minor_faults_per_s))),
        ("", format!("{} major (from a disk or swap)", per_second(&system.major_faults_per_s))),
        ("swap", format!("{} in", per_second(&system.swap_ins_per_s))),
        ("", format!("{} out (pages)", per_second(&system.swap_outs_per_s))),
        ("memory shortage", format!("{} direct reclaims", per_second(&system.direct_reclaims_per_s))),
        ("", format!("{} refaults of pages", per_second(&system.refaults_per_s))),
        ("OOM kills", or_unknown(&system.oom_kills, u64::to_string)),
    ];
    blocks.extend(rows.map(|(label, value)| Block::row(label, value)));
    blocks.extend(pressure(&system.pressure));
    blocks.extend(memory(&system.memory));
    let unit_ms = system.cpu_time_unit_ms;
    blocks.push(Block::Note(format!(
        "The kernel counts CPU time in units of {unit_ms} ms. It does not show shorter steals, or pauses of the whole machine. \
         `measure gaps` shows both."
    )));
    blocks
}

fn cpus(all: &Shares, cpus: &[CpuShares]) -> Block {
    let cells = |name: String, shares: &Shares| -> [String; 8] {
        let of = [shares.user, shares.system, shares.irq, shares.softirq, shares.steal, shares.idle].map(percent);
        let [user, system, irq, softirq, steal, idle] = of;
        [name, user, system, irq, softirq, steal, idle, or_unknown(&shares.iowait, |share| percent(*share))]
    };
    let mut rows = vec![cells("all".to_owned(), all)];
    let mut shown: Vec<(&CpuShares, &Shares)> =
        cpus.iter().filter_map(|cpu| Some((cpu, cpu.shares.known()?))).collect();
    let left = shown.len().saturating_sub(CPUS_SHOWN);
    if left > 0 {
        let lost = |shares: &Shares| shares.steal + shares.softirq + shares.irq;
        shown.sort_by(|(_, one), (_, other)| lost(other).total_cmp(&lost(one)));
        shown.truncate(CPUS_SHOWN);
        shown.sort_by_key(|(cpu, _)| cpu.cpu);
    }
    rows.extend(shown.into_iter().map(|(cpu, shares)| cells(cpu.cpu.to_string(), shares)));
    if left > 0 {
        let mut more: [String; 8] = Default::default();
        more[0] = format!("{left} more, in --json");
        rows.push(more);
    }
    Block::table(["CPU", "user", "system", "irq", "softirq", "steal", "idle", "iowait"], rows)
}

/// Warnings about CPUs without shares, or with shares for only a part of the time.
fn away(cpus: &[CpuShares]) -> Vec<Block> {
    let mut words: Vec<String> = cpus.iter().filter_map(|cpu| cpu.shares.why().map(|why| format!("{why}."))).collect();
    let short = cpus.iter().filter_map(|cpu| {
        let counted = cpu.shares.known()?.counted;
        (counted < COUNTED_MIN).then(|| {
            let share = percent(counted);
            format!("CPU {} was counted for only {share} of the time: it was offline, or the machine paused.", cpu.cpu)
        })
    });
    words.extend(short);
    let more = words.len().saturating_sub(CPUS_SHOWN);
    words.truncate(CPUS_SHOWN);
    if more > 0 {
        words.push(format!("The same holds for {more} more CPUs."));
    }
    words.into_iter().map(Block::Warning).collect()
}

fn pressure(pressure: &[Pressure]) -> Vec<Block> {
    let row = |pressure: &Pressure| {
        let value = match (&pressure.some, &pressure.full) {
            (Measured::Unknown(unknown), _) => format!("unknown: {}", unknown.why),
            (Measured::Known(some), full) => {
                let full = or_unknown(full, |share| percent(*share));
                format!("some threads waited for {} of the time, all for {full}", percent(*some))
            }
        };
        Block::row(&format!("{} pressure", pressure.resource), value)
    };
    pressure.iter().map(row).collect()
}

fn memory(memory: &Memory) -> Vec<Block> {
    let of = |value: &Measured<u64>| or_unknown(value, |size| bytes(*size));
    vec![
        Block::row("memory", format!("{}, {} available", of(&memory.total_bytes), of(&memory.available_bytes))),
        Block::row("swap space", format!("{}, {} used", of(&memory.swap_bytes), of(&memory.swap_used_bytes))),
    ]
}

fn group(group: &Group) -> Vec<Block> {
    let mut blocks = Vec::new();
    match &group.levels {
        Measured::Known(levels) => {
            let name = levels.first().map_or("none", |level| &level.directory);
            blocks.push(Block::heading(format!("The control group {name}")));
            blocks.extend(levels.iter().filter_map(level));
            if blocks.len() == 1 {
                blocks.push(Block::row("CPU limit", "none on it, nor on those around it"));
            }
        }
        Measured::Unknown(unknown) => {
            blocks.push(Block::heading("The control group"));
            blocks.push(Block::row("CPU limit", format!("unknown: {}", unknown.why)));
        }
    }
    let limit = or_unknown(&group.limit, |limit| match limit {
        Some(limit) => format!("limit {} by {}", bytes(limit.bytes), limit.directory),
        None => "no limit".to_owned(),
    });
    blocks.push(Block::row("memory", format!("{}, {limit}", or_unknown(&group.used_bytes, |size| bytes(*size)))));
    // Control groups version 1 have no pressure.
    if group.pressure.iter().any(|pressure| pressure.some.known().is_some()) {
        blocks.extend(pressure(&group.pressure));
    }
    blocks
}

fn level(level: &Level) -> Option<Block> {
    let quota = match &level.quota {
        Measured::Known(None) => return None,
        Measured::Known(Some(quota)) => format!("{} us in each {} us", quota.quota_us, quota.period_us),
        Measured::Unknown(unknown) => format!("unknown: {}", unknown.why),
    };
    let count = |count: &Measured<u64>| or_unknown(count, u64::to_string);
    let (stopped, periods) = (count(&level.throttled_periods), count(&level.periods));
    let still = or_unknown(&level.throttled_ns, |ns| quantity(*ns, Unit::Ns));
    let words =
        format!("{quota} by {}: throttled in {stopped} of {periods} periods, for {still} in total", level.directory);
    Some(Block::row("CPU limit", words))
}

fn of_process(process: &ProcessRates) -> Vec<Block> {
    let mut blocks = vec![Block::heading(format!("The process {} ({})", process.pid, process.name))];
    if let Some(ended) = &process.ended {
        blocks.push(Block::Warning(format!("{ended} ({}).", quantity(process.elapsed_ns, Unit::Ns))));
    }
    let share = |share: &Measured<f64>| or_unknown(share, |share| percent(*share));
    let faults = or_unknown(&process.major_faults, u64::to_string);
    let rows = [
        ("CPU", format!("{} of one", share(&process.cpu))),
        ("run delay", format!("{} of the time, summed over threads", share(&process.run_delay))),
        ("switches", format!("{} voluntary", per_second(&process.voluntary_switches_per_s))),
        ("", format!("{} involuntary", per_second(&process.involuntary_switches_per_s))),
        ("page faults", format!("{} minor", per_second(&process.minor_faults_per_s))),
        ("", format!("{faults} major in total (from a disk or swap)")),
    ];
    blocks.extend(rows.map(|(label, value)| Block::row(label, value)));
    blocks.extend(process_memory(&process.memory));
    let rows: Vec<[String; 6]> = process
        .threads
        .iter()
        .map(|thread| {
            let rate = |rate: f64| real_quantity(rate, Unit::PerS);
            [
                thread.tid.to_string(),
                thread.name.clone(),
                percent(thread.run_delay),
                percent(thread.cpu),
                rate(thread.voluntary_switches_per_s),
                rate(thread.involuntary_switches_per_s),
            ]
        })
        .collect();
    blocks.push(Block::table(["thread", "name", "waited", "ran", "voluntary", "involuntary"], rows));
    if let Some(why) = &process.lost.why {
        blocks.push(Block::Warning(format!("lost: {} ({why})", process.lost.count)));
    }
    blocks
}

fn process_memory(memory: &ProcessMemory) -> Vec<Block> {
    let of = |value: &Measured<u64>| or_unknown(value, |size| bytes(*size));
    let share = or_unknown(&memory.share_of_limit, |share| percent(*share));
    let grown = or_unknown(&memory.swap_grown_bytes, |grown| match grown {
        0 => "as before".to_owned(),
        1.. => format!("{} more than before", bytes(grown.unsigned_abs())),
        _ => format!("{} less than before", bytes(grown.unsigned_abs())),
    });
    vec![
        Block::row("memory", format!("{} resident, {} proportional", of(&memory.rss_bytes), of(&memory.pss_bytes))),
        Block::row("in swap", format!("{}, {grown}", of(&memory.swap_bytes))),
        Block::row("referenced", format!("{} since {}", of(&memory.referenced_bytes), memory.referenced_since)),
        Block::row("of its limit", format!("{share} of {} ({})", of(&memory.limit_bytes), memory.limit_by)),
    ]
}

/// The title of a rate on the page, such as `context switches`.
fn title(spread: &Spread) -> String {
    spread.name.trim_end_matches("_per_s").trim_end_matches("_ppm").replace('_', " ")
}

fn spread(spread: &[Spread], elapsed_ns: u64) -> Vec<Block> {
    let row = |spread: &Spread| {
        let shown = |value| real_quantity(value, spread.unit);
        let [min, p10, p50, p90, max] = [spread.min, spread.p10, spread.p50, spread.p90, spread.max].map(shown);
        let zeros = if spread.zeros > 0 { format!("0 in {} of {}", spread.zeros, spread.count) } else { String::new() };
        [title(spread), min, p10, p50, p90, max, zeros]
    };
    let rows: Vec<[String; 7]> = spread.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let table = Block::table(["rate", "min", "p10", "p50", "p90", "max", ""], rows);
    let mut blocks = vec![Block::heading("Rates over time"), table];
    // A rate that was always 0 needs no histogram, because the table already shows it.
    for spread in spread.iter().filter(|spread| spread.zeros < spread.count) {
        blocks.push(Block::Histogram(spread.samples.clone()));
        let title = format!("{} over time, highest in each column", title(spread));
        blocks.push(Block::Timeline(Timeline {
            title,
            total_ns: elapsed_ns,
            unit: spread.unit,
            points: points(spread),
        }));
    }
    blocks
}

/// The points of a timeline. With few readings, each reading gets several points, so that the line has no breaks.
fn points(spread: &Spread) -> Vec<(u64, u64)> {
    let stretches = spread.timeline.iter();
    let several = COLUMNS.div_ceil(spread.timeline.len().max(1) as u64);
    let of = |stretch: &Stretch| {
        let (start_ns, step_ns) = (stretch.start_ns, stretch.end_ns.saturating_sub(stretch.start_ns) / several);
        let rate = stretch.max.max(0.0).ceil() as u64;
        (0..several).map(move |at| (start_ns + at * step_ns + step_ns / 2, rate))
    };
    stretches.flat_map(of).collect()
}

fn or_unknown<T>(value: &Measured<T>, show: impl FnOnce(&T) -> String) -> String {
    match value {
        Measured::Known(value) => show(value),
        Measured::Unknown(unknown) => format!("unknown ({})", unknown.why),
    }
}

fn per_second(rate: &Measured<f64>) -> String {
    or_unknown(rate, |rate| real_quantity(*rate, Unit::PerS))
}

/// The lines of the card. The card has no line for an unknown value.
fn lines(report: &Report) -> Vec<CardLine> {
    let system = &report.rates.system;
    let rate =
        |id, title, better, rate: &Measured<f64>| rate.known().map(|rate| line(id, title, Unit::PerS, better, *rate));
    let share =
        |id, title, better, share: Option<f64>| share.map(|share| line(id, title, Unit::Ppm, better, share * PPM));
    let all = system.all.known();
    let cpu = system.pressure.first().and_then(|pressure| pressure.some.known());
    let swap_ins = rate("swap_ins_per_s", "pages swapped in", Better::Lower, &system.swap_ins_per_s);
    let lines = [
        share("steal_ppm", "steal", Better::Lower, all.map(|all| all.steal)),
        share("busy_ppm", "busy with other programs", Better::Lower, all.map(|all| 1.0 - all.idle - all.steal)),
        share("cpu_pressure_ppm", "threads wait for a CPU", Better::Lower, cpu.copied()),
        rate("context_switches_per_s", "context switches", Better::Neither, &system.context_switches_per_s),
        rate("interrupts_per_s", "interrupts", Better::Neither, &system.interrupts_per_s),
        rate("major_faults_per_s", "major page faults", Better::Lower, &system.major_faults_per_s),
        swap_ins.map(with_talk_figure),
    ];
    lines.into_iter().flatten().collect()
}

fn with_talk_figure(line: CardLine) -> CardLine {
    with(
        line,
        "should be none",
        "Jalal El Mansouri, Optimizing Servers for the Cloud",
        "page swaps were seen during gameplay on machines with 1.75 GB, of which the system took up to 40 %",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counter_decides() {
        let of = |steal, waits, faults| counted(steal, waits, faults).grade;
        assert_eq!(of(Some(0.0), Some(0.01), Some(0.0)), Grade::Good);
        assert_eq!(of(Some(0.0), None, None), Grade::Good);
        assert_eq!(of(Some(0.02), Some(0.01), Some(0.0)), Grade::Fair);
        assert_eq!(of(Some(0.0), Some(0.01), Some(50.0)), Grade::Poor);
        assert_eq!(of(None, Some(0.0), Some(0.0)), Grade::Unknown);
    }
}
