//! `evenkeel measure wake`.

use std::num::NonZeroU64;

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::wake::{self, Cell, Kind, Place, Report, Variant, WakePart, WakeParts};
use evenkeel_sys::CpuSet;

use crate::args::cpus;
use crate::commands::measure::card::{CardTurn, percentiles, value, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::exit;
use crate::failure::Failure;
use crate::show::finding::{A_TICK, Finding, Grade, TICK_NS};
use crate::show::units::{percent_to, quantity, real_quantity};
use crate::view::Block;

/// A CPU that is idle for less than this share of its sleep has other work and may never go idle.
const IDLE_SHARE_MIN: f64 = 0.5;
/// A wait of at least this length is mostly sleep.
const SLEEPY_GAP_NS: u64 = 200_000;
/// The page describes a part of the latency in a sentence if the part is at least this long.
/// The limits are in nanoseconds and as a share of the whole.
const PART_NS_MIN: f64 = 2_000.0;
const PART_SHARE_MIN: f64 = 0.3;
/// The minimum number of rounds in which both variants of a part were measured.
const PART_ROUNDS_MIN: usize = 3;
/// The minimum number of timers for a grade. With fewer timers, the grade would depend on chance.
const TIMERS_MIN: u64 = 20;

/// Measure wake-up latency by sleep time and CPU, and split it into timer slack, scheduling class and leaving idle
///
/// A wake-up comes from a timer (clock_nanosleep, timerfd), another CPU (futex), or a UDP packet on loopback.
/// Each round compares several ways to wait: without settings,
/// with a timer slack of 1 ns, real-time, and with /dev/cpu_dma_latency held at 0.
/// Another way uses a SCHED_IDLE thread that keeps the CPU awake.
/// The last way does not sleep, which is the lower bound. The differences are the parts of the latency.
/// Real-time and /dev/cpu_dma_latency need root; the page lists the ways that the meter left out.
/// The waking CPU is busy all the time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure wake
  sudo evenkeel measure wake --kinds timer --gaps-us 1000,20000 --cpus 0-3")]
pub(crate) struct Args {
    /// Total duration
    #[arg(long, value_name = "TIME", default_value_t = 30, value_parser = crate::times::whole_seconds(1..=86_400))]
    seconds: u64,
    /// Idle gaps in microseconds, from 1 to 100000
    #[arg(long, value_name = "US,…", value_delimiter = ',', default_values_t = [50, 100, 200, 500, 1000, 5000, 20_000])]
    gaps_us: Vec<u64>,
    /// Measure timers on each of these CPUs, and wakes between every two of them [default: the first wakes the last]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// Sources of wake-ups: timer, timerfd, futex, udp
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind, default_values = ["timer", "timerfd", "futex", "udp"])]
    kinds: Vec<Kind>,
    /// Ways to wait: plain, slack-1ns, fifo, dma-latency-0, kept-awake,
    /// spinning, and fifo-dma-latency-0 (the defaults of cyclictest)
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_parser = variant, default_values = Variant::USUAL.map(Variant::name))]
    variants: Vec<Variant>,
    /// Timer slack of the plain wait, in nanoseconds [default: inherited]
    #[arg(long, value_name = "NS")]
    slack_ns: Option<NonZeroU64>,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Meter for Args {
    const NAME: &'static str = "wake";
    const TITLE: &'static str = "Wake-up latency";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 3.0,
        run: |pace, watch| {
            let settings = wake::Settings {
                duration_ns: pace.choose(3_000_000_000, 1_000_000_000),
                gaps_ns: GAPS_US.iter().map(|gap_us| gap_us * 1000).collect(),
                kinds: vec![Kind::Timer, Kind::Futex, Kind::Udp],
                variants: vec![Variant::Plain],
                cpus: None,
                plain_slack_ns: None,
                waker_delay_ns: 0,
                seed: 1,
            };
            Ok(lines(&wake::run(&settings, watch)?))
        },
        finding: |lines| late(value(lines, "wake_timer_5000us_ns_p99"), GAPS_US[1] * 1000),
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let gaps_ns: Option<Vec<u64>> = self.gaps_us.iter().map(|us| us.checked_mul(1000)).collect();
        let Some(gaps_ns) = gaps_ns else {
            return Err(Failure::text(exit::WRONG_USE, "read --gaps-us", "an idle gap is from 1 us to 100 ms"));
        };
        let settings = wake::Settings {
            duration_ns: self.seconds * 1_000_000_000,
            gaps_ns,
            kinds: self.kinds.clone(),
            variants: self.variants.clone(),
            cpus: self.cpus.as_ref().map(|cpus| cpus.iter().collect()),
            plain_slack_ns: self.slack_ns,
            waker_delay_ns: 0,
            seed: self.seed.unwrap_or_else(wake::any_seed),
        };
        context.measure(|watch| wake::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        let plain = || report.cells.iter().filter(|cell| cell.kind == Kind::Timer && cell.variant == Variant::Plain);
        let gap_ns = plain().map(|cell| cell.gap_ns).min_by_key(|gap_ns| gap_ns.abs_diff(1_000_000));
        let Some(gap_ns) = gap_ns else {
            return Some(Finding::unknown("timers of a program that sets nothing were not measured"));
        };
        let nearest = || plain().filter(|cell| cell.gap_ns == gap_ns);
        let fewest = nearest().map(|cell| cell.latency.histogram.count()).min().unwrap_or(0);
        if fewest < TIMERS_MIN {
            let gap = quantity(gap_ns, Unit::Ns);
            let why = format!("only {fewest} timers fired after {gap} of sleep: measure for longer (--seconds)");
            return Some(Finding::unknown(why));
        }
        let worst = nearest().filter_map(|cell| cell.latency.histogram.quantile(0.99)).max();
        Some(late(worst.map(|ns| ns as f64), gap_ns))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Wake-up latency")];
        blocks
            .push(Block::row("duration", format!("{}, {} rounds", quantity(report.wall_ns, Unit::Ns), report.rounds)));
        let slack = report.plain_slack_ns.map_or("unknown".to_owned(), |ns| quantity(ns, Unit::Ns));
        blocks.push(Block::row("timer slack", slack));
        let driver = report.idle_driver.as_deref().unwrap_or("none: /dev/cpu_dma_latency has no effect");
        blocks.push(Block::row("idle driver", driver));
        if let Some(ns) = report.guest_halt_poll_ns {
            blocks.push(Block::row("halt polling", quantity(ns, Unit::Ns)));
        }
        let mut seen: Vec<(Kind, Place)> = Vec::new();
        for parts in &report.parts {
            if !seen.contains(&(parts.kind, parts.place)) {
                seen.push((parts.kind, parts.place));
                blocks.extend(of_place(report, parts.kind, parts.place));
            }
        }
        for samples in &report.round_trips {
            if let Some(summary) = samples.histogram.summary() {
                let cpus = samples.conditions.get("cpus").map_or("", String::as_str);
                let words = format!(
                    "{} (p99 {}) on CPUs {cpus}",
                    quantity(summary.p50, Unit::Ns),
                    quantity(summary.p99, Unit::Ns)
                );
                blocks.push(Block::row("pipe round trip", words));
            }
        }
        for skipped in &report.skipped {
            blocks.push(Block::Warning(format!("not measured: {}: {}", skipped.what, skipped.why)));
        }
        blocks
    }
}

fn late(p99_ns: Option<f64>, gap_ns: u64) -> Finding {
    let Some(ns) = p99_ns else { return Finding::unknown("no timer fired") };
    let (late, gap) = (real_quantity(ns, Unit::Ns), quantity(gap_ns, Unit::Ns));
    let says = format!("a timer wakes its thread {late} late (p99, after {gap} of sleep); {A_TICK}");
    Finding::new(Grade::of_low(ns, TICK_NS / 100.0, TICK_NS / 10.0), says)
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::by_name(text).ok_or_else(|| format!("one of {}", Kind::ALL.map(|(_, name)| name).join(", ")))
}

fn variant(text: &str) -> Result<Variant, String> {
    Variant::by_name(text).ok_or_else(|| format!("one of {}", Variant::ALL.map(|(_, name)| name).join(", ")))
}

fn of_place(report: &Report, kind: Kind, place: Place) -> Vec<Block> {
    let what = match kind {
        Kind::Timer => "A timer (clock_nanosleep)",
        Kind::Timerfd => "A timer that is a file (timerfd)",
        Kind::Futex => "Another CPU, by futex",
        Kind::Udp => "Another CPU, by UDP on the loopback",
    };
    let on = match place.waker_cpu {
        Some(waker) => format!("CPU {waker} wakes CPU {}", place.waiter_cpu),
        None => format!("on CPU {}", place.waiter_cpu),
    };
    let all: Vec<&WakeParts> = report.parts.iter().filter(|parts| (parts.kind, parts.place) == (kind, place)).collect();
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| (cell.kind, cell.place) == (kind, place)).collect();
    let mut blocks = vec![Block::heading(format!("{what}, {on}"))];
    let rows = all.iter().map(|parts| row(parts, &cells));
    let header = ["idle gap", "p50", "p99", "slack", "class", "idle exit", "kept awake", "spinning"];
    blocks.push(Block::table(header, rows.collect()));
    blocks.extend(
        all.iter()
            .filter_map(|parts| largest(parts))
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, words)| Block::Note(words)),
    );
    blocks.extend(idle(&cells));
    blocks.extend(lost(&cells));
    // Show only the histogram of the gap nearest to 1 ms.
    let plain = cells.iter().filter(|cell| cell.variant == Variant::Plain);
    let shown = plain.min_by_key(|cell| cell.gap_ns.abs_diff(1_000_000));
    blocks.extend(shown.map(|cell| Block::Histogram(cell.latency.clone())));
    blocks
}

fn row(parts: &WakeParts, cells: &[&Cell]) -> [String; 8] {
    let part = |part: Option<WakePart>| part.map_or("-".to_owned(), |part| real_quantity(part.ns, Unit::Ns));
    let text = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| quantity(ns, Unit::Ns));
    let plain = cells.iter().find(|cell| cell.variant == Variant::Plain && cell.gap_ns == parts.gap_ns);
    [
        quantity(parts.gap_ns, Unit::Ns),
        text(parts.plain_ns),
        text(plain.and_then(|cell| cell.latency.histogram.quantile(0.99))),
        part(parts.slack),
        part(parts.class),
        part(parts.idle_exit),
        part(parts.idle_exit_kept_awake),
        text(parts.floor_ns),
    ]
}

/// The largest part of the latency: its share, and a sentence about this part.
fn largest(parts: &WakeParts) -> Option<(f64, String)> {
    let plain_ns = parts.plain_ns? as f64;
    let candidates = [
        (parts.slack, "is timer slack: a slack of 1 ns removes it (prctl, no privileges needed)"),
        (parts.class, "is the ordinary scheduling class: the real-time class removes it"),
        (
            parts.idle_exit,
            "is the CPU leaving idle: /dev/cpu_dma_latency at 0 removes it (see `evenkeel explain cpuidle.dma_latency_us`)",
        ),
        (parts.idle_exit_kept_awake, "is the CPU leaving idle: a SCHED_IDLE thread that keeps it awake removes it"),
    ];
    let found = candidates.into_iter().filter_map(|(part, words)| Some((part?, words)));
    // A part counts only if its lower quartile over the rounds is above 0. Otherwise the part may be chance.
    let is_sure = |part: &WakePart| part.low_ns > 0.0 && part.rounds >= PART_ROUNDS_MIN;
    // In noisy rounds, the median of the differences can exceed the whole latency.
    let sure = found.filter(|(part, _)| is_sure(part) && part.ns >= PART_NS_MIN && part.ns <= plain_ns);
    let (part, words) = sure.max_by(|(one, _), (other, _)| one.ns.total_cmp(&other.ns))?;
    let share = part.ns / plain_ns;
    let text = |ns| real_quantity(ns, Unit::Ns);
    let sentence = format!(
        "After {} of sleep, {} of {} {words}.",
        quantity(parts.gap_ns, Unit::Ns),
        text(part.ns),
        text(plain_ns)
    );
    (share >= PART_SHARE_MIN).then_some((share, sentence))
}

/// The cost of leaving idle. Only a CPU that goes idle can show this cost.
fn idle(cells: &[&Cell]) -> Option<Block> {
    let sleepy = cells.iter().filter(|cell| cell.variant == Variant::Plain && cell.gap_ns >= SLEEPY_GAP_NS);
    let shares: Vec<f64> = sleepy.filter_map(|cell| cell.idle.idle_share).collect();
    if shares.is_empty() {
        return None;
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let percent = percent_to(0, mean);
    Some(if mean < IDLE_SHARE_MIN {
        let words = format!(
            "The CPU was idle for only {percent} of the waits, because it had other work: the cost of leaving idle is unknown."
        );
        Block::Warning(words)
    } else {
        Block::Note(format!("The CPU was idle for {percent} of the plain waits{}.", states(cells)))
    })
}

fn states(cells: &[&Cell]) -> String {
    let plain = cells.iter().filter(|cell| cell.variant == Variant::Plain);
    let mut sums = std::collections::BTreeMap::<&str, u64>::new();
    for (state, count) in plain.flat_map(|cell| &cell.idle.entered) {
        *sums.entry(state).or_default() += count;
    }
    let entries: Vec<String> = sums.iter().map(|(state, count)| format!("{state} {count} times")).collect();
    if entries.is_empty() { String::new() } else { format!(", and entered {}", entries.join(", ")) }
}

fn lost(cells: &[&Cell]) -> Option<Block> {
    let count: u64 = cells.iter().map(|cell| cell.latency.lost.count).sum();
    let why = cells.iter().find_map(|cell| cell.latency.lost.why.as_deref())?;
    Some(Block::Warning(format!("lost: {count} wakes ({why})")))
}

const GAPS_US: [u64; 2] = [100, 5000];

fn lines(report: &Report) -> Vec<CardLine> {
    report.cells.iter().filter_map(cell_lines).flatten().collect()
}

fn cell_lines(cell: &Cell) -> Option<[CardLine; 2]> {
    let (kind, gap_us) = (cell.kind.name(), cell.gap_ns / 1000);
    let title = format!("{kind} after {gap_us} us");
    let [p50, p99] = percentiles(&format!("wake_{kind}_{gap_us}us_ns"), &title, Better::Lower, &cell.latency)?;
    let is_another_cpu = cell.kind == Kind::Futex && gap_us == GAPS_US[1];
    Some([if is_another_cpu { with_paper_figure(p50) } else { p50 }, p99])
}

fn with_paper_figure(line: CardLine) -> CardLine {
    with(
        line,
        "leaving C1: 2 us, C6: 133 us",
        "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
        "the kernel reports for a c4.8xlarge that leaving C6 takes 133 microseconds and leaving C1 takes 2, which is part of a wake-up",
    )
}
