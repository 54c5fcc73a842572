//! `evenkeel measure wake`.

use std::num::NonZeroU64;

use evenkeel_measure::Unit;
use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::wake::{self, Cell, Kind, Part, Parts, Place, Report, Variant};
use evenkeel_sys::CpuSet;

use crate::commands::measure::card::{CardTurn, percentiles, with};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::exit;
use crate::failure::Failure;
use crate::show::blocks::Block;
use crate::show::units::{percent_to, quantity, real_quantity};

/// A CPU that is idle for less of the time that its sleeper sleeps has other work: it may never have gone to sleep.
const IDLE_SHARE_MIN: f64 = 0.5;
/// Only a gap of this length or more is mostly sleep.
const SLEEPY_GAP_NS: u64 = 200_000;
/// A part is worth a sentence from here on, and if it is this share of the whole.
const PART_NS_MIN: f64 = 2_000.0;
const PART_SHARE_MIN: f64 = 0.3;

/// How late one is woken, by idle gap and by CPU, told apart into timer slack, scheduling class and leaving idle
///
/// A timer (clock_nanosleep, timerfd), another CPU (futex), a UDP packet on the loopback. Ways to wait are taken in turns within each
/// round: as a program that sets nothing; with a timer slack of 1 ns; real-time; with /dev/cpu_dma_latency held at 0; with the CPU kept
/// awake by a thread of the idle class; and without any sleep, which is the floor. The differences are the parts. Real-time and
/// /dev/cpu_dma_latency take root; what can't be had is left out and told. The CPU that wakes is busy all the time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long in all
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Idle gaps in microseconds, from 1 to 100000
    #[arg(long, value_name = "US,…", value_delimiter = ',', default_values_t = [50, 100, 200, 500, 1000, 5000, 20_000])]
    gaps_us: Vec<u64>,
    /// Timers on each of these CPUs, and wakes from each to each other; otherwise the first wakes the last
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,
    /// What wakes: timer, timerfd, futex, udp
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind, default_values = ["timer", "timerfd", "futex", "udp"])]
    kinds: Vec<Kind>,
    /// Ways to wait: plain, slack-1ns, fifo, dma-latency-0, kept-awake, spinning; and fifo-dma-latency-0, as cyclictest does it
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_parser = variant, default_values = Variant::USUAL.map(Variant::name))]
    variants: Vec<Variant>,
    /// Timer slack of the plain wait, in nanoseconds; otherwise the one that evenkeel was started with
    #[arg(long, value_name = "NS")]
    slack_ns: Option<NonZeroU64>,
    /// Of the order of turns
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Meter for Args {
    const NAME: &'static str = "wake";
    const TITLE: &'static str = "How late one is woken";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 3.0,
        run: |pace, watch| {
            let settings = wake::Settings {
                duration_ns: pace.of(3_000_000_000, 1_000_000_000),
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

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("How late one is woken")];
        blocks.push(Block::row("took", format!("{}, {} rounds", quantity(report.wall_ns, Unit::Ns), report.rounds)));
        let slack = report.plain_slack_ns.map_or("unknown".to_owned(), |ns| quantity(ns, Unit::Ns));
        blocks.push(Block::row("timer slack", slack));
        let driver = report.idle_driver.as_deref().unwrap_or("none: /dev/cpu_dma_latency has nothing to choose among");
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
            blocks.push(Block::Warning(format!("left out: {}: {}", skipped.what, skipped.why)));
        }
        blocks
    }
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| "a list of CPUs is like 0,2-3".to_owned())
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::of(text).ok_or_else(|| format!("one of {}", Kind::ALL.map(|(_, name)| name).join(", ")))
}

fn variant(text: &str) -> Result<Variant, String> {
    Variant::of(text).ok_or_else(|| format!("one of {}", Variant::ALL.map(|(_, name)| name).join(", ")))
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
    let all: Vec<&Parts> = report.parts.iter().filter(|parts| (parts.kind, parts.place) == (kind, place)).collect();
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
    // One is enough to see the shape: after a millisecond, or the gap that is nearest to it.
    let plain = cells.iter().filter(|cell| cell.variant == Variant::Plain);
    let shown = plain.min_by_key(|cell| cell.gap_ns.abs_diff(1_000_000));
    blocks.extend(shown.map(|cell| Block::Histogram(cell.latency.clone())));
    blocks
}

fn row(parts: &Parts, cells: &[&Cell]) -> [String; 8] {
    let part = |part: Option<Part>| part.map_or("-".to_owned(), |part| real_quantity(part.ns, Unit::Ns));
    let of = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| quantity(ns, Unit::Ns));
    let plain = cells.iter().find(|cell| cell.variant == Variant::Plain && cell.gap_ns == parts.gap_ns);
    [
        quantity(parts.gap_ns, Unit::Ns),
        of(parts.plain_ns),
        of(plain.and_then(|cell| cell.latency.histogram.quantile(0.99))),
        part(parts.slack),
        part(parts.class),
        part(parts.idle_exit),
        part(parts.idle_exit_kept_awake),
        of(parts.floor_ns),
    ]
}

/// The largest part in words, with how large a share it is.
fn largest(parts: &Parts) -> Option<(f64, String)> {
    let plain_ns = parts.plain_ns? as f64;
    let candidates = [
        (parts.slack, "is timer slack: gone with a slack of 1 ns (prctl, no right needed)"),
        (parts.class, "is the ordinary class: gone in the real-time class"),
        (
            parts.idle_exit,
            "is the CPU leaving idle: gone with /dev/cpu_dma_latency held at 0 (see `evenkeel explain cpuidle.dma_latency_us`)",
        ),
        (parts.idle_exit_kept_awake, "is the CPU leaving idle: gone when a thread of the idle class keeps it awake"),
    ];
    let parts_told = candidates.into_iter().filter_map(|(part, words)| Some((part?, words)));
    // A part that a quarter of the rounds did not see may be chance.
    let sure = parts_told.filter(|(part, _)| part.low_ns > 0.0 && part.ns >= PART_NS_MIN);
    let (part, words) = sure.max_by(|(one, _), (other, _)| one.ns.total_cmp(&other.ns))?;
    let share = part.ns / plain_ns;
    let of = |ns| real_quantity(ns, Unit::Ns);
    let told =
        format!("After {} of sleep, {} of {} {words}.", quantity(parts.gap_ns, Unit::Ns), of(part.ns), of(plain_ns));
    (share >= PART_SHARE_MIN).then_some((share, told))
}

/// Whether leaving idle could be seen at all.
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
            "The CPU was idle for {percent} of the time only, other work had it: what leaving idle takes could not be seen."
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
    let told: Vec<String> = sums.iter().map(|(state, count)| format!("{state} {count} times")).collect();
    if told.is_empty() { String::new() } else { format!(", and entered {}", told.join(", ")) }
}

fn lost(cells: &[&Cell]) -> Option<Block> {
    let count: u64 = cells.iter().map(|cell| cell.latency.lost.count).sum();
    let why = cells.iter().find_map(|cell| cell.latency.lost.why.as_deref())?;
    Some(Block::Warning(format!("lost: {count} wakes ({why})")))
}

const GAPS_US: [u64; 2] = [100, 5000];

fn lines(report: &Report) -> Vec<CardLine> {
    report.cells.iter().filter_map(of).flatten().collect()
}

fn of(cell: &Cell) -> Option<[CardLine; 2]> {
    let (kind, gap_us) = (cell.kind.name(), cell.gap_ns / 1000);
    let title = format!("{kind} after {gap_us} us");
    let [p50, p99] = percentiles(&format!("wake_{kind}_{gap_us}us_ns"), &title, Better::Lower, &cell.latency)?;
    let is_another_cpu = cell.kind == Kind::Futex && gap_us == GAPS_US[1];
    Some([if is_another_cpu { beside_the_paper(p50) } else { p50 }, p99])
}

fn beside_the_paper(line: CardLine) -> CardLine {
    with(
        line,
        "leaving C1: 2 us, C6: 133 us",
        "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
        "the kernel tells for a c4.8xlarge that it takes 133 microseconds to leave C6 and 2 to leave C1, which is a part of a wake-up",
    )
}
